"""Exact binomial and Poisson draws in JAX, one key per draw, in float64: `_counts` for whole
batches.

`jax.random.poisson` computes in single precision, where counts of 10^5 and more are not exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from noisewise._core.arrays import Array, open_uniforms
from noisewise.simulators._counts import FACTORIAL_TAILS, SMALL_MEAN


def binomial(keys: Array, trials: Array, p: Array) -> Array:
    """The number of successes in `trials` trials of probability p, one draw per key.

    Args:
        keys: Typed keys, shape (B,).
        trials: Numbers of trials, whole floats, shape (B,).
        p: Probabilities of success, shape (B,).

    Returns:
        Counts, whole floats, shape (B,).
    """
    certain = (trials <= 0.0) | (p <= 0.0) | (p >= 1.0)
    rare = jnp.where(certain, 0.5, jnp.minimum(p, 1.0 - p))
    odds = rare / (1.0 - rare)
    few = certain | (trials * rare < SMALL_MEAN)
    some = jnp.where(certain, 0.0, trials)
    small = _summed(
        keys, few, jnp.exp(some * jnp.log1p(-rare)), lambda k: odds * (some - k) / (k + 1.0)
    )

    many, q = jnp.where(few, 100.0, trials), jnp.where(few, 0.5, rare)
    spread = jnp.sqrt(many * q * (1.0 - q))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    table = (a, b, many * q + 0.5, 0.92 - 4.2 / b, (2.83 + 5.1 / b) * spread, many)
    large = _rejected(keys, ~few, table, lambda k: _log_ratio_to_mode(k, many, q))

    count = jnp.where(few, small, large)
    drawn = jnp.where(p <= 0.5, count, trials - count)
    return jnp.where(certain, jnp.where(p >= 1.0, trials, 0.0), drawn)


def poisson(keys: Array, mean: Array) -> Array:
    """Poisson counts, one draw per key.

    Args:
        keys: Typed keys, shape (B,).
        mean: Means, shape (B,).

    Returns:
        Counts, whole floats, shape (B,).
    """
    few = mean < SMALL_MEAN
    rare = jnp.where(few, mean, 0.0)
    small = _summed(keys, few, jnp.exp(-rare), lambda k: rare / (k + 1.0))

    many = jnp.where(few, 2.0 * SMALL_MEAN, mean)
    b = 0.931 + 2.53 * jnp.sqrt(many)
    a = -0.059 + 0.02483 * b
    table = (a, b, many + 0.43, 0.9277 - 3.6224 / (b - 2.0), 1.1239 + 1.1328 / (b - 3.4), jnp.inf)
    return jnp.where(few, small, _rejected(keys, ~few, table, lambda k: _log_poisson(k, many)))


def _uniforms(keys: Array, count: Array | int) -> Array:
    """Two uniforms per key, inside (0, 1), new ones for every count."""
    return jax.vmap(lambda key: open_uniforms(jax.random.fold_in(key, count), (2,)))(keys)


def _summed(keys: Array, which: Array, mass: Array, ratio: Callable[[Array], Array]) -> Array:
    """Counts by summing the distribution function from 0, where P(k + 1) = ratio(k) P(k)."""

    def add(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        u, mass, count = state
        on = u > mass
        return jnp.where(on, u - mass, u), jnp.where(on, mass * ratio(count), mass), count + on

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        u, mass, count = state
        return (which & (u > mass) & (count < 100.0)).any()

    start = (jnp.where(which, _uniforms(keys, 0)[:, 0], 0.0), mass, jnp.zeros_like(mass))
    return jax.lax.while_loop(unfinished, add, start)[2]


def _rejected(
    keys: Array, which: Array, table: tuple[Any, ...], log_mass: Callable[[Array], Array]
) -> Array:
    """Counts by transformed rejection with the constants of `table`."""
    a, b, centre, inside, scale, highest = table

    def attempt(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, done, tries = state
        u, v = _uniforms(keys, tries).T
        u = u - 0.5
        edge = 0.5 - jnp.abs(u)
        proposed = jnp.floor((2.0 * a / edge + b) * u + centre)
        possible = (proposed >= 0.0) & (proposed <= highest)
        level = jnp.log(v * scale / (a / (edge * edge) + b))
        kept = (edge >= 0.07) & (v <= inside)
        kept |= possible & (level <= log_mass(jnp.where(possible, proposed, 0.0)))
        return jnp.where(kept & ~done, proposed, count), done | kept, tries + 1

    start = (jnp.zeros_like(centre), ~which, jnp.array(1))
    return jax.lax.while_loop(lambda state: ~state[1].all(), attempt, start)[0]


def _factorial_tail(k: Array) -> Array:
    inverse = 1.0 / (k + 1.0)
    square = inverse * inverse
    far = (
        1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square
    ) * inverse
    near = jnp.asarray(FACTORIAL_TAILS)[jnp.clip(k, 0.0, 9.0).astype(int)]
    return jnp.where(k < 10.0, near, far)


def _log_ratio_to_mode(k: Array, trials: Array, p: Array) -> Array:
    odds = p / (1.0 - p)
    mode = jnp.floor((trials + 1.0) * p)
    tails = (
        _factorial_tail(mode)
        + _factorial_tail(trials - mode)
        - _factorial_tail(k)
        - _factorial_tail(trials - k)
    )
    return (
        (mode + 0.5) * jnp.log((mode + 1.0) / (odds * (trials - mode + 1.0)))
        + (trials + 1.0) * jnp.log1p((k - mode) / (trials - k + 1.0))
        + (k + 0.5) * jnp.log(odds * (trials - k + 1.0) / (k + 1.0))
        + tails
    )


def _log_poisson(k: Array, mean: Array) -> Array:
    stirling = (k + 1.0 - mean) + (k + 0.5) * jnp.log(mean / (k + 1.0))
    return stirling - 0.5 * jnp.log(2.0 * math.pi * mean) - _factorial_tail(k)
