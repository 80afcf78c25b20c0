"""Are these numbers uniform on (0, 1), whatever stands beside them? Tests that are exact for
independent ones.
"""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float
from scipy.special import bdtr, bdtrc, chdtr, chdtrc, ndtr, ndtri

_CELLS = 100
"""Cells of (0, 1): the ECDF is compared at the 99 points between them."""
_SIMULATIONS = 10_000
"""Simulations of the smallest tail: a p-value of .05 is then known to .2%."""
_SEED = 20_220_501
"""Seed of these simulations: fixed, so that a p-value is the same in every call."""
_ROWS_PER_DIRECTION = 10
"""Rows for each direction of the columns beside: more directions would weaken the test."""
WEIGHTS = {"location": 0.4, "ecdf": 0.25, "dispersion": 0.25, "dependence": 0.1}
"""The share of alpha that each test may use up."""


def p_values(
    u: Float[np.ndarray, " N"], beside: Float[np.ndarray, "N p"] | None = None
) -> dict[str, float]:
    r"""The p-values of N independent uniforms u, z = Phi^-1(u) being their normal scores.

    ecdf: the number of u below each of 99 points is binomial; the smallest two-sided tail
    probability over the points is compared with 10,000 simulations of it, always the same
    (Sailynoja, Burkner and Vehtari 2022). location: sum z / sqrt(N) is standard normal. dispersion:
    sum z^2 is chi-square with N degrees of freedom. dependence, where u is to be independent of
    numbers (N, p) `beside` it: the squared length of z in the space that their centred columns span
    is chi-square; of many columns the N / 10 main directions are taken.

    Args:
        u: Numbers in (0, 1), shape (N,).
        beside: Numbers that u should not depend on, shape (N, p).

    Returns:
        The p-value of each test, by name.

    >>> u = np.random.default_rng(0).random(1000)
    >>> sorted(p_values(u)), min(p_values(u).values()) > 0.01, p_values(u**1.5)["location"] < 1e-6
    (['dispersion', 'ecdf', 'location'], True, True)
    """
    num = len(u)
    z = ndtri(u)
    total = float(np.sum(z**2))
    smallest = _smallest_tail(np.searchsorted(np.sort(u), _points(), side="right"), num)
    simulated = _simulated_tails(num)
    found = {
        "ecdf": float(
            (1 + np.searchsorted(simulated, smallest, side="right")) / (1 + len(simulated))
        ),
        "location": float(2.0 * ndtr(-abs(z.sum()) / np.sqrt(num))),
        "dispersion": float(min(1.0, 2.0 * min(chdtr(num, total), chdtrc(num, total)))),
    }
    directions = np.zeros((num, 0)) if beside is None else _directions(beside)
    if directions.shape[1]:
        found["dependence"] = float(
            chdtrc(directions.shape[1], float(np.sum((directions.T @ z) ** 2)))
        )
    return found


def combined(tests: dict[str, float], num_columns: int) -> float:
    """The p-value of the tests of one of `num_columns` columns together with those of the others:
    weighted Bonferroni.
    """
    total = sum(WEIGHTS[test] for test in tests)
    return min(1.0, num_columns * min(p * total / WEIGHTS[test] for test, p in tests.items()))


def _directions(beside: Float[np.ndarray, "N p"]) -> Float[np.ndarray, "N r"]:
    """An orthonormal basis (N, r) of what centred columns (N, p) span, orthogonal to constants."""
    centred = beside - beside.mean(axis=0)
    vectors, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    rank = int(np.sum(sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)))
    return np.asarray(vectors[:, : min(rank, len(beside) // _ROWS_PER_DIRECTION)])


def ecdf_band(
    num: int, alpha: float
) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """Points in (0, 1) and the band that the ECDF of `num` uniforms leaves at one of them or more
    with probability alpha.
    """
    points, tail = _points(), np.quantile(_simulated_tails(num), alpha)
    counts = np.arange(num + 1)[:, None]
    inside = np.minimum(bdtr(counts, num, points), bdtrc(counts - 1, num, points)) * 2.0 > tail
    return points, inside.argmax(axis=0) / num, (num - inside[::-1].argmax(axis=0)) / num


def _points() -> np.ndarray:
    """The 99 points at which the ECDF is compared."""
    return np.arange(1, _CELLS) / _CELLS


def _smallest_tail(counts: np.ndarray, num: int) -> np.ndarray:
    """The smallest two-sided tail probability over the points, of counts (..., 99)."""
    points = _points()
    return np.min(
        2.0 * np.minimum(bdtr(counts, num, points), bdtrc(counts - 1, num, points)), axis=-1
    )


@functools.lru_cache(maxsize=16)
def _simulated_tails(num: int) -> np.ndarray:
    """The smallest tail probabilities of uniforms in 10,000 simulations, sorted."""
    rng = np.random.default_rng(_SEED)
    cells = rng.multinomial(num, np.full(_CELLS, 1.0 / _CELLS), size=_SIMULATIONS)
    return np.sort(_smallest_tail(np.cumsum(cells, axis=1)[:, :-1], num))
