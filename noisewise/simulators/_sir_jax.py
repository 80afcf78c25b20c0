"""The leaping SIR epidemic of `epidemic` as one JAX program over a whole batch, for accelerators.

All epidemics of a batch advance together: a round lets those with few infected make up to `EVENTS`
events, and the others one leap, until the slowest has made its last observation. What an epidemic
draws depends on its own key and round only.

A round costs a GPU about the same whatever the width, so batches are wide there: at K = 10^6,
65,536 epidemics take an H200 .5 s at one theta and 2.4 s over a prior that holds nearly critical
ones, 7 and 37 microseconds each. One core takes 40 with the Numba kernels and 350 with this
program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, open_uniforms
from noisewise.simulators._counts_jax import binomial, poisson
from noisewise.simulators._keys import RowKeys
from noisewise.simulators.xoshiro import hash_rows

EVENTS = 32
"""Events per round, at most: an epidemic that reaches the switch or an observation idles through
the rest of its round.
"""

_UNROLLED_EVENTS = 16
"""Events compiled as one straight piece of program: for speed; results do not depend on it."""

_CPU_WIDTH = 256
"""Epidemics per batch on a CPU: the batch waits for its slowest epidemic, so wide ones idle."""

_GPU_WIDTHS = (65_536, 262_144)
"""Epidemics per batch on a GPU, where a round costs about the same whatever the width: the second
where the first does not hold all.
"""


class Epidemics(NamedTuple):
    """The state of B epidemics.

    Attributes:
        s: Susceptible, shape (B,).
        i: Infected, shape (B,).
        t: Time, shape (B,).
        seen: Number of observations made, shape (B,).
        infected: The observations, shape (B, L).
        h: Operational time left of a leap that an observation has interrupted, shape (B,); 0 if
            none.
        infections: Infections left in that leap, shape (B,).
        recoveries: Recoveries left in that leap, shape (B,).
    """

    s: Array
    i: Array
    t: Array
    seen: Array
    infected: Array
    h: Array
    infections: Array
    recoveries: Array


class Setting(NamedTuple):
    """What does not change.

    Attributes:
        b: beta / K, shape (B,).
        gamma: Rates of recovery, shape (B,).
        times: Observation times, shape (L,).
        switch: Number of infected from which leaps are made.
        leap: Events per leap, as a share of I.
    """

    b: Array
    gamma: Array
    times: Array
    switch: Array
    leap: Array

    def target(self, state: Epidemics) -> Array:
        """The time of the next observation."""
        return self.times[jnp.minimum(state.seen, self.times.size - 1)]


def epidemics(
    keys: RowKeys,
    rates: np.ndarray,
    population: int,
    initial_infected: int,
    times: np.ndarray,
    switch: float,
    leap: float,
) -> np.ndarray:
    """One epidemic per row of rates.

    Batches are of one width, so that a new N neither recompiles nor changes a result. On a GPU a
    larger N has wider batches, in which numbers may be rounded differently.

    Args:
        keys: The randomness of the N epidemics.
        rates: (beta, gamma), shape (N, 2).
        population: Number K of people.
        initial_infected: People infected at time 0.
        times: Observation times, shape (L,).
        switch: Number of infected from which leaps are made.
        leap: Events per leap, as a share of I.

    Returns:
        Infected people at the times, shape (N, L).
    """
    num = len(rates)
    width = _CPU_WIDTH if jax.default_backend() == "cpu" else _GPU_WIDTHS[num > _GPU_WIDTHS[0]]
    seeds = hash_rows(keys.words.astype(np.uint64))
    words = np.stack([seeds >> np.uint64(32), seeds & np.uint64(0xFFFFFFFF)], axis=1).astype(
        np.uint32
    )
    padded = [
        np.pad(rows, ((0, -num % width), *((0, 0),) * (rows.ndim - 1)))
        for rows in (words, keys.indices, rates)
    ]
    with jax.enable_x64(True):
        constants = (float(population), float(initial_infected), times, float(switch), leap)
        batches = [
            np.asarray(_batch(*(rows[start : start + width] for rows in padded), *constants))
            for start in range(0, num, width)
        ]
    return np.concatenate(batches)[:num]


@jax.jit
def _batch(
    words: Array,
    indices: Array,
    rates: Array,
    population: Array,
    initial: Array,
    times: Array,
    switch: Array,
    leap: Array,
) -> Array:
    num = len(rates)
    keys = jax.vmap(jax.random.fold_in)(
        jax.random.wrap_key_data(words, impl="threefry2x32"), indices
    )
    setting = Setting(rates[:, 0] / population, rates[:, 1], times, switch, leap)
    none = jnp.zeros(num)
    at_start = jnp.broadcast_to(times[0] == 0.0, (num,)).astype(int)
    infected = jnp.full((num, times.size), initial)
    state = Epidemics(
        none + population - initial, none + initial, none, at_start, infected, none, none, none
    )

    def advance(carry: tuple[Array, Epidemics]) -> tuple[Array, Epidemics]:
        count, state = carry
        subkeys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, count), 5))(keys)
        state = _if_any(_has_few(state, setting), _events, subkeys, state, setting)
        return count + 1, _if_any(_has_many(state, setting), _leap, subkeys, state, setting)

    def unfinished(carry: tuple[Array, Epidemics]) -> Array:
        return (carry[1].seen < times.size).any()

    return jax.lax.while_loop(unfinished, advance, (jnp.array(0), state))[1].infected


def _has_many(state: Epidemics, setting: Setting) -> Array:
    return (state.seen < setting.times.size) & ((state.i >= setting.switch) | (state.h > 0.0))


def _has_few(state: Epidemics, setting: Setting) -> Array:
    return (state.seen < setting.times.size) & (state.i < setting.switch) & (state.h == 0.0)


def _if_any(
    which: Array,
    step: Callable[[Array, Array, Epidemics, Setting], Epidemics],
    subkeys: Array,
    state: Epidemics,
    setting: Setting,
) -> Epidemics:
    def run(state: Epidemics) -> Epidemics:
        return step(which, subkeys, state, setting)

    return jax.lax.cond(which.any(), run, lambda state: state, state)


def _events(which: Array, subkeys: Array, state: Epidemics, setting: Setting) -> Epidemics:
    """Up to `EVENTS` events each; an epidemic stops early at the switch, and at an observation."""
    target = setting.target(state)
    u = jax.vmap(lambda key: open_uniforms(key, (EVENTS, 2)))(subkeys[:, 0])

    def event(
        count: int, carry: tuple[Array, Array, Array, Array]
    ) -> tuple[Array, Array, Array, Array]:
        s, i, t, live = carry
        infection = setting.b * s
        following = t - jnp.log(u[:, count, 0]) / (i * (infection + setting.gamma))
        moves = live & (following <= target)
        change = jnp.where(u[:, count, 1] * (infection + setting.gamma) < infection, 1.0, 0.0)
        s = jnp.where(moves, s - change, s)
        i = jnp.where(moves, i + 2.0 * change - 1.0, i)
        # Waiting times have no memory: one that is cut off at the observation is drawn again
        t = jnp.where(moves, following, jnp.where(live, target, t))
        return s, i, t, moves & (i < setting.switch)

    start = (state.s, state.i, state.t, which)
    s, i, t, _ = jax.lax.fori_loop(0, EVENTS, event, start, unroll=_UNROLLED_EVENTS)
    return _observed(state._replace(s=s, i=i, t=t), which & (t == target))


def _observed(state: Epidemics, which: Array) -> Epidemics:
    places = jnp.arange(state.infected.shape[1])
    here = which[:, None] & (places == state.seen[:, None])
    return state._replace(
        infected=jnp.where(here, state.i[:, None], state.infected), seen=state.seen + which
    )


def _leap(which: Array, subkeys: Array, state: Epidemics, setting: Setting) -> Epidemics:
    """One leap each, or the rest of an interrupted one, up to the next observation at most."""
    h, infections, recoveries = _drawn_leap(which, subkeys, state, setting)
    which = which & (recoveries < state.i)
    slowness = _slowness(state.i, infections, recoveries, setting.b * h)
    duration = h * _simpson(*slowness)
    cut = which & (state.t + duration >= setting.target(state))

    def whole(_: None) -> tuple[Array, Array, Array]:
        return jnp.ones_like(h), infections, recoveries

    def part(_: None) -> tuple[Array, Array, Array]:
        f = jnp.where(cut, _share_of_leap((setting.target(state) - state.t) / h, *slowness), 1.0)
        exposure = jnp.maximum(setting.b * h, 1e-300)
        share = jnp.expm1(-exposure * f) / jnp.expm1(-exposure)
        early = binomial(subkeys[:, 3], infections, jnp.where(cut, share, 1.0))
        gone = binomial(subkeys[:, 4], recoveries, jnp.where(cut, f, 1.0))
        return f, early, gone

    f, early, gone = jax.lax.cond(cut.any(), part, whole, None)
    rest = jnp.where(which & cut, 1.0, 0.0)
    moved = state._replace(
        s=jnp.where(which, state.s - early, state.s),
        i=jnp.where(which, state.i + early - gone, state.i),
        t=jnp.where(which, jnp.where(cut, setting.target(state), state.t + duration), state.t),
        h=rest * h * (1.0 - f),
        infections=rest * (infections - early),
        recoveries=rest * (recoveries - gone),
    )
    return _observed(moved, cut)


def _drawn_leap(
    which: Array, subkeys: Array, state: Epidemics, setting: Setting
) -> tuple[Array, Array, Array]:
    fresh = which & (state.h == 0.0)
    by_events = setting.leap * state.i / (setting.b * state.s + setting.gamma)
    by_time = 2.0 * state.i * (setting.times[-1] - state.t)
    h = jnp.minimum(
        jnp.minimum(by_events, by_time), jnp.where(state.s > 0.0, 1.0 / setting.b, jnp.inf)
    )
    h = jnp.where(fresh, h, 0.0)
    infections = binomial(subkeys[:, 1], jnp.where(fresh, state.s, 0.0), -jnp.expm1(-setting.b * h))
    recoveries = poisson(subkeys[:, 2], setting.gamma * h)
    left = (state.h, state.infections, state.recoveries)
    drawn = (h, infections, recoveries)
    h, infections, recoveries = (
        jnp.where(fresh, new, old) for new, old in zip(drawn, left, strict=True)
    )
    return h, infections, recoveries


def _slowness(
    i: Array, infections: Array, recoveries: Array, exposure: Array
) -> tuple[Array, Array, Array]:
    halfway = infections / (2.0 + jnp.expm1(-0.5 * exposure))
    return 1.0 / i, 1.0 / (i + halfway - 0.5 * recoveries), 1.0 / (i + infections - recoveries)


def _simpson(start: Array, middle: Array, end: Array) -> Array:
    return (start + 4.0 * middle + end) / 6.0


def _share_of_leap(target: Array, start: Array, middle: Array, end: Array) -> Array:
    slope = -3.0 * start + 4.0 * middle - end
    curvature = 2.0 * (start - 2.0 * middle + end)
    f = target / _simpson(start, middle, end)
    for _ in range(3):
        clock = f * (start + f * (slope / 2.0 + f * curvature / 3.0))
        f = f - (clock - target) / (start + f * (slope + f * curvature))
    return jnp.clip(f, 0.0, 1.0)
