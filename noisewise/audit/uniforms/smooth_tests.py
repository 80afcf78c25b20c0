r"""Tests of uniformity, of independence and of repeated values; each gives a p-value.

With phi_1, phi_2, ... the Legendre polynomials normalised on (0,1):

    uniformity     n sum_{j=1..6} (mean of phi_j(U))^2                   ~  chi^2_6
    independence   n sum_{i,j=1..2} (mean of phi_i(U_a) phi_j(U_b))^2    ~  chi^2_4

The first is Neyman's smooth test.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import eval_legendre
from scipy.stats import chi2, poisson

_IN_A_CELL = 30
"""Values expected in a cell: with these, Pearson's statistic has its chi^2 law far out in the tail.
"""
ORDER = 6
"""The degrees of freedom of the test of uniformity: shifts, scales and tails, not finer detail."""


def legendre(u: Float[np.ndarray, " n"], order: int) -> Float[np.ndarray, "n order"]:
    """phi_1(u), ..., phi_order(u): mean 0 and identity covariance for uniform u.

    >>> legendre(np.array([0.0, 0.5, 1.0]), 1).ravel().round(6).tolist()
    [-1.732051, 0.0, 1.732051]
    """
    polynomials = range(1, order + 1)
    return np.stack(
        [np.sqrt(2 * j + 1) * eval_legendre(j, 2.0 * u - 1.0) for j in polynomials], axis=-1
    )


def uniformity(u: Float[np.ndarray, " n"]) -> float:
    """The p-value of "u is uniform on (0,1)" by Neyman's smooth test.

    It is powerful against wrong means, scales and tails, and blind to fine detail.

    >>> grid = (np.arange(1000) + 0.5) / 1000
    >>> uniformity(grid) > 0.99, uniformity(grid**2) < 1e-9
    (True, True)
    """
    return float(chi2.sf(u.size * np.sum(legendre(u, ORDER).mean(0) ** 2), ORDER))


def fine_cells(u: Float[np.ndarray, " n"]) -> float:
    """The p-value of "u is uniform on (0,1)" by Pearson's chi^2 over cells with 30 values or more.

    It sees what the smooth test averages out, such as a bit of the draws that is always 0.
    """
    num = 2 ** int(np.log2(max(2.0, u.size / _IN_A_CELL)))
    counts = np.bincount(np.minimum((u * num).astype(int), num - 1), minlength=num)
    expected = u.size / num
    return float(chi2.sf(np.sum((counts - expected) ** 2) / expected, num - 1))


def association(
    first: Float[np.ndarray, "n 2"],
    second: Float[np.ndarray, "n 2"],
    moments: tuple[Float[np.ndarray, "2 2"], Float[np.ndarray, "2 2 2 2"]] | None = None,
) -> float:
    """The p-value of "two uniform columns are independent", or "depend as stated".

    Args:
        first: phi_1 and phi_2 of one column.
        second: phi_1 and phi_2 of the other.
        moments: The mean of phi_i(U_a) phi_j(U_b) and the second moments, if the columns depend on
            each other; None for independent ones.
    """
    found = first.T @ second / len(first)
    mean, second_moments = (np.zeros((2, 2)), np.eye(4)) if moments is None else moments
    covariance = second_moments.reshape(4, 4) - np.outer(mean, mean)
    gap = (found - mean).ravel()
    return float(chi2.sf(len(first) * gap @ np.linalg.solve(covariance, gap), 4))


def repetition(values: list[Float[np.ndarray, " n"]], expected: float) -> float:
    """The p-value of "there are at most `expected` pairs of equal values on average", with a
    Poisson law of pairs over all columns.

    >>> repetition([np.array([1.0, 2.0, 3.0])], expected=0.1)
    1.0
    """
    counts = [np.unique(column, return_counts=True)[1].astype(float) for column in values]
    pairs = sum(float(np.sum(count * (count - 1.0))) / 2.0 for count in counts)
    return float(poisson.sf(pairs - 1.0, expected))
