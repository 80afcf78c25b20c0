r"""Monotone rational-quadratic splines of [-bound, bound], the identity outside (Durkan et al.
2019, arXiv:1906.04032).

In bin k, of width w and height h, with slopes d0 and d1 at its ends, s = h / w and t = (x - x_k) /
w,

    y = y_k + h (s t^2 + d0 t(1-t)) / (s + (d0 + d1 - 2s) t(1-t)),
    dy/dx = s^2 (d1 t^2 + 2 s t(1-t) + d0 (1-t)^2) / (s + (d0 + d1 - 2s) t(1-t))^2.

A spline of K bins takes 3K - 1 unconstrained numbers: K widths and K heights through a softmax, K -
1 slopes through a softplus; zeros give the identity. The slopes at the ends are 1, so that the
density has no step there. The bin is chosen by a mask, which vectorises, gradient and all, where an
index does not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from noisewise._core.arrays import Array

_LEAST = 1e-3
"""The smallest width, height and slope, so that inverses stay accurate in float32."""
_SLOPE_ONE = math.log(math.expm1(1.0 - _LEAST))
"""Added to raw slopes: raw slopes of 0 then give slope 1, so a new spline is near the identity."""


def num_parameters(num_bins: int) -> int:
    """The number of unconstrained numbers that describe a spline."""
    return 3 * num_bins - 1


def spline(x: Array, parameters: Array, bound: float) -> tuple[Array, Array]:
    """The value of splines and the log of their slope.

    Args:
        x: Points, of any shape.
        parameters: Unconstrained numbers, shape (3 K - 1, *x.shape).
        bound: Splines act on [-bound, bound].

    Returns:
        y and log dy/dx, both of the shape of x.

    >>> y, log_slope = spline(jnp.array([-7.0, 0.5]), jnp.zeros((8, 2)), bound=5.0)
    >>> bool(jnp.allclose(y, jnp.array([-7.0, 0.5]))), bool(jnp.allclose(log_slope, 0.0, atol=1e-6))
    (True, True)
    """
    inside = jnp.clip(x, -bound, bound)
    at = _bin_at(inside, parameters, bound, by_height=False)
    t = (inside - at.x) / at.width
    y, log_slope = _value_and_log_slope(t, at)
    within = jnp.abs(x) <= bound
    return jnp.where(within, y, x), jnp.where(within, log_slope, 0.0)


def inverse_spline(y: Array, parameters: Array, bound: float) -> tuple[Array, Array]:
    """x and log dy/dx there: the root of a quadratic in t, in the form that does not cancel."""
    inside = jnp.clip(y, -bound, bound)
    at = _bin_at(inside, parameters, bound, by_height=True)
    s, rise = at.height / at.width, inside - at.y
    excess = rise * (at.slope_left + at.slope_right - 2.0 * s)
    a = at.height * (s - at.slope_left) + excess
    b = at.height * at.slope_left - excess
    c = -s * rise
    t = 2.0 * c / (-b - jnp.sqrt(jnp.maximum(b**2 - 4.0 * a * c, 0.0)))
    _, log_slope = _value_and_log_slope(t, at)
    within = jnp.abs(y) <= bound
    return jnp.where(within, at.x + t * at.width, y), jnp.where(within, log_slope, 0.0)


class _Bin(NamedTuple):
    """The bin that a point lies in: its lower corner, size and end slopes."""

    x: Array
    y: Array
    width: Array
    height: Array
    slope_left: Array
    slope_right: Array


def _bin_at(point: Array, parameters: Array, bound: float, *, by_height: bool) -> _Bin:
    """The bin of each point, found by its x or, for the inverse, by its y."""
    num_bins = (len(parameters) + 1) // 3
    widths, heights = (
        _sizes(raw, bound) for raw in (parameters[:num_bins], parameters[num_bins : 2 * num_bins])
    )
    inner = jax.nn.softplus(parameters[2 * num_bins :] + _SLOPE_ONE) + _LEAST
    end = jnp.ones_like(point)[None]
    slopes_left, slopes_right = jnp.concatenate([end, inner]), jnp.concatenate([inner, end])
    x_right, y_right = jnp.cumsum(widths, axis=0) - bound, jnp.cumsum(heights, axis=0) - bound
    chosen = _one_hot(point, y_right if by_height else x_right)

    def pick(values: Array) -> Array:
        return jnp.where(chosen, values, 0.0).sum(axis=0)

    width, height = pick(widths), pick(heights)
    return _Bin(
        pick(x_right) - width,
        pick(y_right) - height,
        width,
        height,
        pick(slopes_left),
        pick(slopes_right),
    )


def _sizes(raw: Array, bound: float) -> Array:
    """Widths or heights of the bins, which fill [-bound, bound]."""
    return _LEAST + (2.0 * bound - _LEAST * len(raw)) * jax.nn.softmax(raw, axis=0)


def _one_hot(point: Array, right_ends: Array) -> Array:
    """Which bin holds each point, as a mask over bins."""
    beyond = point >= right_ends[:-1]
    always = jnp.ones_like(point, bool)[None]
    return jnp.concatenate([always, beyond]) & ~jnp.concatenate([beyond, ~always])


def _value_and_log_slope(t: Array, at: _Bin) -> tuple[Array, Array]:
    """y and log dy/dx at a share t of the way through a bin."""
    s, mixed = at.height / at.width, t * (1.0 - t)
    denominator = s + (at.slope_left + at.slope_right - 2.0 * s) * mixed
    y = at.y + at.height * (s * t**2 + at.slope_left * mixed) / denominator
    numerator = s**2 * (at.slope_right * t**2 + 2.0 * s * mixed + at.slope_left * (1.0 - t) ** 2)
    return y, jnp.log(numerator) - 2.0 * jnp.log(denominator)
