"""E[value | s] by a polynomial in s, predicted for draws that it was not fitted to."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

_FOLDS = 5
"""Parts of the draws: each is predicted from the four others, so from nearly as many draws."""
_PENALTIES = 10.0 ** np.arange(-9.0, 1.0)
"""Candidates, relative to the variance of a term: from next to none to as much as the data."""
_DRAWS_PER_TERM = 10
"""Draws for each coefficient: fewer would cost more in noise than the term explains."""


def predicted(
    values: Float[np.ndarray, "N q"],
    s: Float[np.ndarray, "N k"],
    groups: Int[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"],
) -> Float[np.ndarray, "N q"]:
    """Predictions (N, q) of values (N, q) from s (N, k): ridge regression on squares, products and
    cubes, across 5 folds of whole groups.

    `groups` (N,) are numbers that dependent draws share. Products, then all but s itself, are left
    out where there are fewer than ten draws for each term. The penalty is the one that predicts
    best, the mean of the other folds among the candidates, so that predictions are never much worse
    than none.

    Args:
        values: What is predicted, shape (N, q).
        s: What it is predicted from, shape (N, k).
        groups: Numbers that dependent draws share, shape (N,).
        weights: Weights of the draws, shape (N,), summing to 1.

    Returns:
        Predictions, shape (N, q).
    """
    terms = _terms(s, weights)
    folds = np.unique(groups, return_inverse=True)[1] % _FOLDS
    scale = np.sqrt(np.maximum(weights @ (values - weights @ values) ** 2, 1e-300))
    candidates = np.empty((len(_PENALTIES) + 1, *values.shape))
    for fold in range(_FOLDS):
        here = folds == fold
        weight = weights * ~here
        candidates[:, here] = _fits(terms, values, weight / max(weight.sum(), 1e-300), here)
    errors = np.einsum("n,cnq->cq", weights, ((values - candidates) / scale) ** 2)
    return np.take_along_axis(candidates, errors.argmin(0)[None, None, :], axis=0)[0]


def _fits(
    terms: np.ndarray, values: np.ndarray, weight: np.ndarray, here: np.ndarray
) -> np.ndarray:
    """Predictions (penalties + 1, n, q) for the rows `here` of fits to weighted rows, the last
    being the mean.
    """
    centre, mean = weight @ terms, weight @ values
    x, y = terms - centre, values - mean
    sizes, directions = np.linalg.eigh((x * weight[:, None]).T @ x)
    loads = directions.T @ ((x * weight[:, None]).T @ y)
    rotated = x[here] @ directions
    fits = [
        mean + rotated @ (loads / (np.maximum(sizes, 0.0) + penalty)[:, None])
        for penalty in _PENALTIES
    ]
    return np.stack([*fits, np.broadcast_to(mean, fits[0].shape)])


def _terms(s: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """s in standard deviations and, where draws are many enough, squares, products and cubes: (N,
    p), each of unit size.
    """
    deviation = s - weights @ s
    sd = np.sqrt(weights @ deviation**2)
    linear = deviation[:, sd > 0.0] / sd[sd > 0.0]
    k = linear.shape[1]
    left, right = np.triu_indices(k)
    if len(s) < _DRAWS_PER_TERM * (2 * k + len(left)):
        left = right = np.arange(k)
    if len(s) < 3 * _DRAWS_PER_TERM * k:
        return linear
    products = np.concatenate([linear[:, left] * linear[:, right], linear**3], axis=1)
    products = products - weights @ products
    size = np.sqrt(weights @ products**2)
    return np.concatenate([linear, products[:, size > 0.0] / size[size > 0.0]], axis=1)
