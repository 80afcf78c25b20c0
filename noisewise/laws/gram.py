r"""Sums over whole numbers by few points: Gauss rules for the counting measure.

    sum_{i=0}^{N-1} F(i)  =  sum_m w_m F(x_m)      for polynomials F of degree below 2 * 16

The points x_m are the roots of Gram's polynomials, which are orthogonal over 0, ..., N-1. For N <=
16 the points are the numbers themselves and the sum is exact; for large N the rule tends to that of
Gauss and Legendre, with corrections in 1/N^2. Unlike an integral with end corrections it needs no
derivatives.

References: J. P. Gram, Ueber die Entwickelung reeller Functionen in Reihen, J. reine angew. Math.
94 (1883); G. H. Golub and J. H. Welsch, Calculation of Gauss quadrature rules, Math. Comp. 23
(1969).
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array

NUM_POINTS = 16
"""Points of a rule: with 16 a normal density over 4.5 of its sds is summed to 1e-15."""
_TABULATED = 64
"""Lengths below which rules are looked up; from there on points are polynomials in 1/N^2."""
_DEGREE = 9
"""Degree of these polynomials: the rules are analytic in 1/N^2 up to N = 15, so that the error is
below (15/64)^(2 * 10) = 2e-13 of a coefficient that is small itself.
"""


def rule(length: int) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Points in 0, ..., length - 1 and weights that sum to `length`; 16 of each, some of weight 0
    where there are fewer numbers.

    >>> points, weights = rule(100)
    >>> bool(abs(weights @ points**3 - (np.arange(100.0) ** 3).sum()) < 1e-6)
    True
    """
    points, weights = np.zeros(NUM_POINTS), np.zeros(NUM_POINTS)
    if length <= NUM_POINTS:
        points[:length], weights[:length] = np.arange(length), 1.0
        return points, weights
    scaled, shares = _scaled_rule(1.0 / length**2)
    return 0.5 * (length - 1) + length * scaled, length * shares


def _scaled_rule(
    inverse_square: float,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Points around 0 and weights, both in units of the length: eigenvalues of the matrix of the
    recurrence of Gram's polynomials.
    """
    k = np.arange(1.0, NUM_POINTS)
    beside = np.sqrt(k**2 * (1.0 - k**2 * inverse_square) / (4.0 * (4.0 * k**2 - 1.0)))
    values, vectors = np.linalg.eigh(np.diag(beside, 1) + np.diag(beside, -1))
    return values, vectors[0] ** 2


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rules of lengths 0 to 63 (points and weights), and coefficients of those of longer ones."""
    short = np.stack([np.stack(rule(length)) for length in range(_TABULATED)], axis=1)
    nodes = 0.5 * (1.0 + np.cos(np.pi * (np.arange(4 * _DEGREE) + 0.5) / (4 * _DEGREE)))
    values = np.stack([np.stack(_scaled_rule(u / _TABULATED**2)) for u in nodes])
    flat = values.reshape(len(nodes), -1)
    coefficients = np.linalg.lstsq(np.vander(nodes, _DEGREE + 1), flat, rcond=None)[0]
    return short[0], short[1], coefficients.reshape(_DEGREE + 1, 2, NUM_POINTS)


def points_and_weights(
    length: Int[Array, "*batch"] | Float[Array, "*batch"],
) -> tuple[Float[Array, "*batch m"], Float[Array, "*batch m"]]:
    """The rules of whole lengths, which may be traced: points in 0, ..., length - 1, and weights;
    those of length 0 are 0.

    Args:
        length: Numbers of terms, whole, shape (...).

    Returns:
        Two arrays of shape (..., 16).
    """
    points, weights, coefficients = (jnp.asarray(table) for table in _tables())
    length = jnp.asarray(length, dtype=jnp.float64)
    place = jnp.clip(length, 0, _TABULATED - 1).astype(int)
    length = length[..., None]
    u = (_TABULATED / jnp.maximum(length, _TABULATED)) ** 2
    scaled_points, shares = jnp.zeros(NUM_POINTS), jnp.zeros(NUM_POINTS)
    for point, share in coefficients:
        scaled_points, shares = scaled_points * u + point, shares * u + share
    is_short = length < _TABULATED
    long_points = 0.5 * (length - 1.0) + length * scaled_points
    return (
        jnp.where(is_short, points[place], long_points),
        jnp.where(is_short, weights[place], length * shares),
    )
