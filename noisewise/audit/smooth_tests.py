r"""Tests of uniformity, of independence and of repeated values, each a p-value.

With phi_1, phi_2, ... the Legendre polynomials normalised on (0,1):

    uniformity     n sum_{j=1..6} (mean of phi_j(U))^2                      ~  chi^2_6   (Neyman's smooth test)
    independence   n sum_{i,j=1..2} (mean of phi_i(U_a) phi_j(U_b))^2       ~  chi^2_4
"""

from __future__ import annotations

import numpy as np
from scipy.special import eval_legendre
from scipy.stats import chi2, poisson

_IN_A_CELL = 30
"""Values expected in a cell, with which Pearson's statistic has its chi^2 law far out in the tail.
"""
ORDER = 6
"""The degrees of freedom of the test of uniformity."""


def legendre(u: np.ndarray, order: int) -> np.ndarray:
    """phi_1(u), ..., phi_order(u), shape (size, order)."""
    return np.stack(
        [np.sqrt(2 * j + 1) * eval_legendre(j, 2.0 * u - 1.0) for j in range(1, order + 1)], axis=-1
    )


def uniformity(u: np.ndarray) -> float:
    """The p-value of "u is uniform on (0,1)"."""
    return float(chi2.sf(u.size * np.sum(legendre(u, ORDER).mean(0) ** 2), ORDER))


def fine_cells(u: np.ndarray) -> float:
    """The p-value of "u is uniform on (0,1)", by Pearson's chi^2 over cells with 30 values each or
    more: what the smooth test averages out, such as a bit of the draws that is always 0.
    """
    num = 2 ** int(np.log2(max(2.0, u.size / _IN_A_CELL)))
    counts = np.bincount(np.minimum((u * num).astype(int), num - 1), minlength=num)
    expected = u.size / num
    return float(chi2.sf(np.sum((counts - expected) ** 2) / expected, num - 1))


def association(
    first: np.ndarray, second: np.ndarray, moments: tuple[np.ndarray, np.ndarray] | None = None
) -> float:
    """The p-value of "two uniform columns are independent", from their polynomials phi_1 and phi_2,
    (size, 2) each.

    Or of "they depend as stated", by the mean (2, 2) of phi_i(U_a) phi_j(U_b) and the second
    moments (2, 2, 2, 2).
    """
    found = first.T @ second / len(first)
    mean, second_moments = (np.zeros((2, 2)), np.eye(4)) if moments is None else moments
    covariance = second_moments.reshape(4, 4) - np.outer(mean, mean)
    gap = (found - mean).ravel()
    return float(chi2.sf(len(first) * gap @ np.linalg.solve(covariance, gap), 4))


def repetition(values: list[np.ndarray], expected: float) -> float:
    """The p-value of "at most `expected` pairs of equal values, on average, over all columns": a
    Poisson law of pairs.
    """
    counts = [np.unique(column, return_counts=True)[1].astype(float) for column in values]
    pairs = sum(float(np.sum(count * (count - 1.0))) / 2.0 for count in counts)
    return float(poisson.sf(pairs - 1.0, expected))
