"""Where the product of a law and a likelihood has its mass: found without derivatives, cell by
cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from noisewise._core.arrays import Array

Log = Callable[[Array], Array]
"""s (*batch) -> log of a density or probability, (*batch)."""

NEGLIGIBLE = 40.0
"""Fall of the log below its maximum where a window ends: e^-40 = 4e-18 is less than what float64
resolves.
"""
_GRID = 17
"""Points per search: each narrows the bracket eightfold."""
_NEAR = 2.0
"""Nats: a maximum is found where its neighbours on the grid are no lower; windows only need its
height.
"""
_FIRST = 8.0
"""The first distance tried for an end, in numbers: most windows are not much smaller."""
_TIGHT = 0.125
"""How exactly ends are found, relative to their distance from the maximum."""
_MAX_STEPS = 64
"""Searches and doublings at most, where nothing is found: 8^64 is beyond all numbers."""

State = tuple[Array, Array, Array, Array]


class Window(NamedTuple):
    """The ends of each cell's window, which belong to it."""

    low: Float[Array, "*batch"]
    high: Float[Array, "*batch"]


def window(
    log: Log,
    bracket: tuple[Array, Array],
    bounds: tuple[Array, Array],
    peaks: Array,
    fall: float = NEGLIGIBLE,
) -> Window:
    """The whole numbers around the maximum of a unimodal function.

    Args:
        log: The function's log, of one whole number for each cell.
        bracket: Ends between which the maximum is.
        bounds: Ends of the support, which may be infinite.
        peaks: Whole numbers that are tried in any case, one of which may be the only one where the
            function is positive, (*batch, m).
        fall: Nats below the maximum at which the window ends.
    """
    mode = _maximum(log, *map(jnp.round, bracket))
    low, high = (end[..., None] for end in bounds)
    tried = jnp.concatenate([mode[..., None], jnp.clip(peaks, low, high)], axis=-1)
    values = at_all(log, tried)
    mode, least = pick(tried, best(values)), values.max(axis=-1) - fall
    low, high = (
        _end(log, mode, least, end, sign) for end, sign in zip(bounds, (-1, 1), strict=True)
    )
    return Window(low, high)


def at_all(log: Log, points: Float[Array, "*batch m"]) -> Float[Array, "*batch m"]:
    """The function at several points of each cell. They are the last axis, along which sums are
    fast.
    """
    return jax.vmap(log, in_axes=-1, out_axes=-1)(points)


def best(values: Float[Array, "*batch m"]) -> Float[Array, "*batch"]:
    """The place of the first largest value. (argmax does not compile for float64 where the caller's
    own program has JAX's flag off.)
    """
    size = values.shape[-1]
    places = jnp.arange(size, dtype=values.dtype)
    is_largest = values == values.max(axis=-1, keepdims=True)
    return jnp.where(is_largest, places, size - 1.0).min(axis=-1)


def pick(values: Float[Array, "*batch m"], place: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The values at these places."""
    places = jnp.arange(values.shape[-1], dtype=place.dtype)
    return jnp.where(places == place[..., None], values, 0.0).sum(axis=-1)


def _maximum(log: Log, low: Array, high: Array) -> Array:
    """The place of the maximum in a bracket: the best point of a grid, and what lies beside it,
    again and again.
    """
    shares = jnp.linspace(0.0, 1.0, _GRID)
    wide = jnp.ones_like(low, dtype=bool)

    def narrower(state: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, ...]:
        low, high, _, _, step = state
        points = jnp.round(low[..., None] + shares * (high - low)[..., None])
        values = at_all(log, points)
        place = best(values)
        left, right = jnp.maximum(place - 1.0, 0.0), jnp.minimum(place + 1.0, _GRID - 1.0)
        beside = jnp.minimum(pick(values, left), pick(values, right))
        low, high = pick(points, left), pick(points, right)
        is_wide = (high - low > 2.0) & ~(pick(values, place) - beside < _NEAR)
        return low, high, pick(points, place), is_wide, step + 1

    def goes_on(state: tuple[Array, ...]) -> Array:
        return state[3].any() & (state[4] < _MAX_STEPS)

    state = (low, high, low, wide, jnp.zeros((), int))
    return jax.lax.while_loop(goes_on, narrower, state)[2]


def _end(log: Log, mode: Array, least: Array, bound: Array, sign: int) -> Array:
    """Where the function becomes negligible on one side of its maximum, or the end of the support:
    by doubling the distance, then by halving what is left.
    """

    def place(reach: Array) -> Array:
        there = mode + sign * reach
        return jnp.minimum(there, bound) if sign > 0 else jnp.maximum(there, bound)

    def is_inside(reach: Array) -> Array:
        there = place(reach)
        return (log(there) > least) & (there != bound)

    def is_coarse(inner: Array, outer: Array) -> Array:
        return outer - inner > jnp.maximum(1.0, _TIGHT * outer)

    def grow(state: State) -> State:
        inner, outer, active, step = state
        inside = is_inside(outer) & active
        inner, outer = jnp.where(inside, outer, inner), jnp.where(inside, 2.0 * outer, outer)
        return inner, outer, inside, step + 1

    def shrink(state: State) -> State:
        inner, outer, active, step = state
        middle = jnp.round(0.5 * (inner + outer))
        inside = is_inside(middle)
        inner = jnp.where(active & inside, middle, inner)
        outer = jnp.where(active & ~inside, middle, outer)
        return inner, outer, is_coarse(inner, outer), step + 1

    def goes_on(state: State) -> Array:
        return state[2].any() & (state[3] < _MAX_STEPS)

    nothing, first = jnp.zeros_like(mode), jnp.full_like(mode, _FIRST)
    state = (nothing, first, jnp.ones_like(mode, dtype=bool), jnp.zeros((), int))
    inner, outer, _, _ = jax.lax.while_loop(goes_on, grow, state)
    state = (inner, outer, is_coarse(inner, outer), jnp.zeros((), int))
    return place(jax.lax.while_loop(goes_on, shrink, state)[1])
