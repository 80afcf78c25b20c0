"""Are these numbers uniform on (0, 1)? Three tests that are exact for independent ones."""

from __future__ import annotations

import functools

import numpy as np
from scipy.special import bdtr, bdtrc, chdtr, chdtrc, ndtr, ndtri

_CELLS = 100
_SIMULATIONS = 10_000
_SEED = 20_220_501


def p_values(u: np.ndarray) -> dict[str, float]:
    r"""The p-values of N independent uniforms u, z = Phi^-1(u) being their normal scores.

    ecdf: the number of u below each of 99 points is binomial; the smallest two-sided tail probability over the points is compared with
    10,000 simulations of it, always the same (Sailynoja, Burkner and Vehtari 2022). location: sum z / sqrt(N) is standard normal.
    dispersion: sum z^2 is chi-square with N degrees of freedom.

    >>> u = np.random.default_rng(0).random(1000)
    >>> sorted(p_values(u)), min(p_values(u).values()) > 0.01, p_values(u**1.5)["location"] < 1e-6
    (['dispersion', 'ecdf', 'location'], True, True)
    """
    num = len(u)
    z = ndtri(u)
    total = float(np.sum(z**2))
    smallest = _smallest_tail(np.searchsorted(np.sort(u), _points(), side="right"), num)
    simulated = _simulated_tails(num)
    return {
        "ecdf": float((1 + np.searchsorted(simulated, smallest, side="right")) / (1 + len(simulated))),
        "location": float(2.0 * ndtr(-abs(z.sum()) / np.sqrt(num))),
        "dispersion": float(min(1.0, 2.0 * min(chdtr(num, total), chdtrc(num, total)))),
    }


def ecdf_band(num: int, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points in (0, 1) and the band that the ECDF of `num` uniforms leaves at one of them or more with probability alpha."""
    points, tail = _points(), np.quantile(_simulated_tails(num), alpha)
    counts = np.arange(num + 1)[:, None]
    inside = np.minimum(bdtr(counts, num, points), bdtrc(counts - 1, num, points)) * 2.0 > tail
    return points, inside.argmax(axis=0) / num, (num - inside[::-1].argmax(axis=0)) / num


def _points() -> np.ndarray:
    return np.arange(1, _CELLS) / _CELLS


def _smallest_tail(counts: np.ndarray, num: int) -> np.ndarray:
    """The smallest two-sided tail probability over the points, of counts (..., 99)."""
    points = _points()
    return np.min(2.0 * np.minimum(bdtr(counts, num, points), bdtrc(counts - 1, num, points)), axis=-1)


@functools.lru_cache(maxsize=16)
def _simulated_tails(num: int) -> np.ndarray:
    rng = np.random.default_rng(_SEED)
    cells = rng.multinomial(num, np.full(_CELLS, 1.0 / _CELLS), size=_SIMULATIONS)
    return np.sort(_smallest_tail(np.cumsum(cells, axis=1)[:, :-1], num))
