"""Importance weights: normalised, what they are worth, and which rows they choose."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

MIN_DRAWS = 100
"""Effective draws that a posterior needs at least: averages are then known to a tenth of a
posterior sd, and a tail of 2.5% to 1.6%. With fewer, not even the size of a tail is known.
"""
MANY_DRAWS = 400
"""Effective draws with which averages are known to a twentieth of a posterior sd. R-hat is
unreliable with fewer (Vehtari et al. 2021).
"""


def normalised(log_weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Weights that sum to 1, w_i = exp(log w_i - logsumexp(log w)); one must be above -inf."""
    return np.exp(log_weights - logsumexp(log_weights))


def normalised_by_largest(log_weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The same up to rounding, by way of the largest weight.

    Posteriors are normalised in this way: their summaries are the same to the last bit only if it
    stays.
    """
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def effective_size(weights: Float[np.ndarray, " n"]) -> float:
    """How many equal weights these normalised ones are worth: 1 / sum w^2.

    >>> effective_size(np.array([0.5, 0.5, 0.0]))
    2.0
    """
    return float(1.0 / np.sum(weights**2))


def effective_size_of_logs(log_weights: Float[np.ndarray, " n"]) -> float:
    """The same from weights that need not be normalised: (sum w)^2 / sum w^2, 0 if all are 0."""
    if not np.isfinite(log_weights).any():
        return 0.0
    return float(np.exp(2.0 * logsumexp(log_weights) - logsumexp(2.0 * log_weights)))


def systematic_rows(
    weights: Float[np.ndarray, " n"], num: int, start: float
) -> Int[np.ndarray, " num"]:
    """Rows in proportion to their weights, by systematic resampling.

    Args:
        weights: Weights, shape (n,), that sum to 1.
        num: How many rows to choose.
        start: A number in [0, 1), uniform for random rows: where in the first of `num` equal parts
            of [0, 1) its place lies. The places in the other parts follow at equal distances.

    Returns:
        Rows in ascending order, shape (num,). Row i occurs `num` w_i times, rounded up or down.

    >>> systematic_rows(np.array([0.5, 0.25, 0.25]), 4, 0.5).tolist()
    [0, 0, 1, 2]
    """
    return rows_at(weights, (start + np.arange(num)) / num)


def rows_at(
    weights: Float[np.ndarray, " n"], places: Float[np.ndarray, " m"]
) -> Int[np.ndarray, " m"]:
    """The rows in which places in [0, 1) fall if row i takes up the share w_i; a row of weight 0
    is never chosen, up to a place of exactly 0.
    """
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative / cumulative[-1], places)
