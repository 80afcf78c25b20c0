"""Private statistics as a network should see them: one map per kind of support."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from noisewise.mechanisms.supports import AbstractSupport, Blocks, Finite, Lattice, coded

_MAX_CATEGORIES = 16
"""Categories up to which each gets an indicator: more would make too many columns for a network."""


def features(
    support: AbstractSupport, s_dp: Float[np.ndarray, "*n kp"]
) -> Float[np.ndarray, "*n w"]:
    r"""What a network sees of private statistics.

    Counts out of n become arcsin sqrt((k + 3/8) / (n + 3/4)), whose noise hardly depends on k; 3 to
    16 categories become indicators of all but the first; everything else stays as it is. Where a
    cell can be absent, a number below all others stands for that, and a flag follows at the end.

    >>> from noisewise.mechanisms.supports import OrAbsent
    >>> counts = Lattice(step=1.0, low=0.0, high=1000.0)
    >>> features(counts, np.array([[0.0, 500.0, 1000.0]])).round(3).tolist()
    [[0.019, 0.785, 1.551]]
    >>> features(OrAbsent(Lattice(), above=5.0), np.array([[7.0], [np.nan]])).tolist()
    [[7.0, 0.0], [4.0, 1.0]]
    """
    absent = support.may_be_absent(s_dp.shape[-1])
    if absent.any():
        plain, codes = coded(support, s_dp.shape[-1])
        missing = np.isnan(s_dp)
        flags = missing[..., absent].astype(np.float64)
        return np.concatenate([features(plain, np.where(missing, codes, s_dp)), flags], axis=-1)
    if isinstance(support, Blocks):
        parts = np.split(s_dp, np.cumsum(support.widths)[:-1], axis=-1)
        each = [
            features(part, values) for part, values in zip(support.supports, parts, strict=True)
        ]
        return np.concatenate(each, axis=-1)
    if isinstance(support, Lattice) and math.isfinite(support.low) and math.isfinite(support.high):
        return _arcsine(support, s_dp)
    if isinstance(support, Finite) and 2 < len(support.values) <= _MAX_CATEGORIES:
        indicators = np.isclose(s_dp[..., None], np.asarray(support.values)[1:])
        return indicators.reshape(*s_dp.shape[:-1], -1).astype(np.float64)
    return s_dp


def _arcsine(support: Lattice, s_dp: np.ndarray) -> np.ndarray:
    """Counts out of a total, with noise that hardly depends on the count."""
    count = (s_dp - support.low) / support.step
    trials = (support.high - support.low) / support.step
    return np.arcsin(np.sqrt(np.clip((count + 0.375) / (trials + 0.75), 0.0, 1.0)))
