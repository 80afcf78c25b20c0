r"""Tests of independence beyond pairs of columns: of rows, of calls, of three columns; each gives a
p-value.

With phi_1, phi_2 the Legendre polynomials normalised on (0,1) and U_1, ..., U_n uniform and
independent,

    rows            n^(-1/2) sum_i phi(U_i) phi(U_(i+l)), any lag l                  ~  N(0, 1)
    three columns   n^(-1/2) sum_i sign(U_i - 1/2) sign(V_i - 1/2) sign(W_i - 1/2)   ~  N(0, 1)
    pairs           Phi((Phi^-1(U) +- Phi^-1(V)) / sqrt 2)                           ~  uniform

with indices modulo n. Write R_l for the first: repeated rows have R_l near n^(1/2) or a share of it
at some lag, antithetic ones near -n^(1/2), and the sums over different lags are uncorrelated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from noisewise.audit.uniforms.smooth_tests import legendre, uniformity

MAX_TRIPLES = 56
"""Triples of columns that are tested: all of those of 8 columns."""

_TINY = 2.0**-53
"""The least distance of a uniform from 0 and 1 when it becomes normal: half of float64's eps."""


def serial(u: Float[np.ndarray, " n"]) -> float:
    """The p-value of "the rows of a uniform column are independent": from the largest |R_l| over
    both polynomials and all lags.
    """
    n = u.size
    largest = 0.0
    for column in legendre(u, 2).T:
        products = np.fft.irfft(np.abs(np.fft.rfft(column)) ** 2, n)
        correlations = products[1 : n // 2 + 1] / math.sqrt(n)
        if n % 2 == 0:
            # At lag n/2 every pair is counted twice.
            correlations[-1] /= math.sqrt(2.0)
        largest = max(largest, float(np.abs(correlations).max()))
    return smallest_of(2.0 * float(norm.sf(largest)), 2 * (n // 2))


def smallest_of(p_value: float, number: int) -> float:
    """The p-value of the smallest of `number` independent p-values.

    >>> smallest_of(0.5, 2)
    0.75
    """
    return 1.0 if p_value >= 1.0 else -math.expm1(number * math.log1p(-p_value))


def three_signs(columns: Sequence[Float[np.ndarray, " n"]]) -> float:
    """The p-value of "the product of the signs of U - 1/2 over columns is as often + as -".

    It sees dependence of three columns that leaves every pair independent.

    >>> u, v = np.random.default_rng(0).random((2, 10_000))
    >>> three_signs([u, v, np.where((u > 0.5) == (v > 0.5), 0.9, 0.1)]) < 1e-9
    True
    """
    product = np.prod([np.sign(u - 0.5) for u in columns], axis=0)
    return 2.0 * float(norm.sf(abs(product.sum()) / math.sqrt(product.size)))


def sum_and_difference(
    first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"]
) -> tuple[float, float]:
    """The p-values of "two uniform columns are independent", from the sum and the difference of
    their normal scores.
    """
    a, b = (ndtri(np.clip(u, _TINY, 1.0 - _TINY)) for u in (first, second))
    return uniformity(ndtr((a + b) / math.sqrt(2.0))), uniformity(ndtr((a - b) / math.sqrt(2.0)))


def groups(
    columns: int, size: int, rng: np.random.Generator, at_most: int = MAX_TRIPLES
) -> list[tuple[int, ...]]:
    """Groups of `size` columns: all of them, or a random choice of `at_most`.

    >>> groups(3, 2, np.random.default_rng(0))
    [(0, 1), (0, 2), (1, 2)]
    """
    if math.comb(columns, size) <= at_most:
        return list(itertools.combinations(range(columns), size))
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < at_most:
        chosen.add(tuple(sorted(rng.choice(columns, size, replace=False).tolist())))
    return sorted(chosen)


def ranked_uniforms(
    values: Float[np.ndarray, " n"], rng: np.random.Generator
) -> Float[np.ndarray, " n"]:
    """Ranks between 0 and 1, for draws whose law is unknown.

    Equal values are ranked in random order, and NaN last.

    >>> ranked_uniforms(np.array([5.0, -1.0]), np.random.default_rng(0)).tolist()
    [0.75, 0.25]
    """
    shuffled = rng.permutation(values.size)
    u = np.empty(values.size)
    u[shuffled[np.argsort(values[shuffled])]] = (np.arange(values.size) + 0.5) / values.size
    return u
