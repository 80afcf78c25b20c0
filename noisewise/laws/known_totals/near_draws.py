r"""Draws of multinomial counts given their total and what was released, cell by cell:

    P(s_1 = s | y, total) ~ q_1(s) (q_2 * ... * q_k)(total - s),   q_j(s) = f_j(s) eta(y_j | s),

then s_2 given what is left, and so on. The convolutions are products of Fourier transforms.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.fft import irfft, next_fast_len, rfft

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise.laws.known_totals.near_totals import NearTotal, log_terms_at
from noisewise.mechanisms.base import AbstractMechanism

_WIDEST = 8_192
"""Numbers in a window or a period: with more, drawing takes some ms for each draw."""
_BYTES = 2.0**25
"""Of the transforms of all cells at a time."""
_NEWTON_STEPS = 4
"""Towards the tilt at which the mean of the total is n: near it, digits are kept."""
_ROUNDING = 1e-13
"""Of the largest: below, convolutions by Fourier transforms are rounding errors."""


def is_narrow(near: NearTotal) -> bool:
    """Whether windows and period are short enough for this."""
    low, high = np.asarray(near.windows)
    return max(float((high - low).max()), float(near.period)) < _WIDEST


def draw_counts(
    key: Array,
    near: NearTotal,
    mechanism: AbstractMechanism,
    values: Float[np.ndarray, " k"],
    log_shares: Float[np.ndarray, "n k"],
) -> Float[np.ndarray, "n k"]:
    """One table of counts for each row of log cell probabilities.

    Args:
        key: JAX PRNG key.
        near: Tables of the total, the noise and what was released.
        mechanism: The noise.
        values: What was released.
        log_shares: Logs of cell probabilities.
    """
    rng = generator(key)
    low, high = np.asarray(near.windows)
    length = int((high - low).max()) + 1
    numbers = low[:, None] + np.arange(length)
    base = log_terms_at(
        mechanism, np.asarray(values), float(near.total) * np.exp(near.log_guess), numbers
    )
    base = np.where(numbers <= high[:, None], base, -np.inf)
    period = next_fast_len(max(length, int(near.period)), real=True)
    rows = max(1, int(_BYTES / (16.0 * len(low) * period)))
    parts = [
        _drawn(rng, base, numbers, log_shares[at : at + rows] - near.log_guess, near.total, period)
        for at in range(0, len(log_shares), rows)
    ]
    return np.concatenate(parts)


def _drawn(
    rng: np.random.Generator,
    base: np.ndarray,
    numbers: np.ndarray,
    change: np.ndarray,
    total: float,
    period: int,
) -> np.ndarray:
    shares = _tilted(base, numbers, change, total)
    waves = rfft(shares, period, axis=-1)
    rest = np.cumprod(waves[:, ::-1], axis=1)[:, ::-1]  # of a cell and all that follow
    left = np.full(len(change), total - numbers[:, 0].sum())  # above the first numbers of windows
    places, steps = np.empty(change.shape), np.arange(shares.shape[-1])
    for j in range(change.shape[1] - 1):
        after = irfft(rest[:, j + 1], period, axis=-1)
        after = np.where(after > _ROUNDING * after.max(axis=1, keepdims=True), after, 0.0)
        which = (left[:, None] - steps).astype(int) % period
        cumulative = np.cumsum(shares[:, j] * np.take_along_axis(after, which, axis=1), axis=1)
        wanted = rng.random(len(change)) * cumulative[:, -1]
        places[:, j] = (cumulative <= wanted[:, None]).sum(axis=1)
        left = left - places[:, j]
    places[:, -1] = left
    return places + numbers[:, 0]


def _tilted(
    base: np.ndarray, numbers: np.ndarray, change: np.ndarray, total: float
) -> Float[np.ndarray, "n k L"]:
    """Probabilities of the numbers of each cell, tilted so that the mean of their sum is n."""
    x = numbers - numbers.mean(axis=1, keepdims=True)
    wanted = total - numbers.mean(axis=1).sum()
    plain, tilt = base + change[..., None] * x, np.zeros((len(change), 1, 1))
    for _ in range(_NEWTON_STEPS):
        values = plain + tilt * x
        shares = np.exp(values - values.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mean = (shares * x).sum(axis=-1)
        variance = ((shares * x**2).sum(axis=-1) - mean**2).sum(axis=1)
        tilt = tilt + ((wanted - mean.sum(axis=1)) / np.maximum(variance, 1e-9))[:, None, None]
    return shares
