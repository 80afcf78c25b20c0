"""Hamiltonian trajectories along any slope, accepted by any density."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from noisewise._core.arrays import Array

LONGEST = 24
"""Leapfrog steps of a trajectory, at most."""
_DURATION = 1.6
"""Mean duration of trajectories, in units of time: a quarter of a turn of a normal target."""


def number_of_steps(key: Array, step_size: Array) -> Array:
    """How many steps a trajectory of random duration takes, from 1 to 24."""
    length = _DURATION * jax.random.uniform(key, (), jnp.float64, minval=0.5, maxval=1.5)
    return jnp.clip(jnp.ceil(length / step_size), 1, LONGEST).astype(int)


def trajectory(
    key: Array,
    slope: Callable[[Array], Array],
    log_density: Callable[[Array], Array],
    place: Float[Array, " d"],
    step_size: Array,
    variances: Float[Array, " d"],
    num_steps: Array,
) -> tuple[Float[Array, " d"], Array, Array]:
    r"""One Hamiltonian move of a point, which keeps the law of the density.

    Leapfrog steps keep volumes and can be run backwards whatever the slope is. So the density that
    accepts the end of a trajectory may be another one than that whose slope it follows, such as one
    with steps in place of a smooth one: only the share of moves that are accepted depends on it.

    Args:
        key: A PRNG key.
        slope: x (d,) -> the direction of ascent, about the gradient of the log density; NaN is 0.
        log_density: x (d,) -> log density; NaN is -inf.
        place: Where the point is.
        step_size: Of the leapfrog steps, in standard deviations.
        variances: The diagonal metric.
        num_steps: How many steps.

    Returns:
        Where the point is now, the probability with which the end was accepted, and whether it was.

    >>> from noisewise.samplers.trajectories import trajectory
    >>> def moved(x, key):
    ...     return trajectory(key, lambda x: -x, lambda x: -0.5 * x @ x, x, 0.8, jnp.ones(1), 3)
    >>> keys = jax.random.split(jax.random.key(0), 4000)
    >>> draws = jax.lax.scan(lambda x, key: (moved(x, key)[0],) * 2, jnp.zeros(1), keys)[1]
    >>> draws.std().round(1).item()
    1.0
    """
    momentum_key, accept_key = jax.random.split(key)
    start = jax.random.normal(momentum_key, place.shape, place.dtype) / jnp.sqrt(variances)

    def leap(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, momentum = state
        x = x + jnp.where(i > 0, step_size, 0.0) * variances * momentum
        kick = jnp.where((i == 0) | (i == num_steps), 0.5, 1.0) * step_size
        return x, momentum + kick * jnp.nan_to_num(slope(x), posinf=0.0, neginf=0.0)

    end, momentum = jax.lax.fori_loop(0, num_steps + 1, leap, (place, start))
    both = jax.vmap(log_density)(jnp.stack([place, end]))
    both = jnp.where(jnp.isnan(both), -jnp.inf, both)
    energy = 0.5 * jnp.stack([jnp.sum(variances * p**2) for p in (start, momentum)])
    change = (both[1] - energy[1]) - (both[0] - energy[0])
    chance = jnp.where(jnp.isnan(change), 0.0, jnp.exp(jnp.minimum(change, 0.0)))
    accepted = jax.random.uniform(accept_key, (), place.dtype) < chance
    return jnp.where(accepted, end, place), chance, accepted
