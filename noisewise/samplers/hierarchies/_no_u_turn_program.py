"""The compiled programs of no-U-turn chains: iterations, and the change of coordinates."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array
from noisewise.samplers.densities import LogDensity, value_or_nothing
from noisewise.samplers.hierarchies.centring import (
    Centred,
    LocationScale,
    shares_of,
)
from noisewise.samplers.hierarchies.metric import Metric, Moments, metric_of_curvature

_TARGET_ACCEPTANCE = 0.8
"""Mean acceptance that step sizes are tuned to, as in Stan."""
_MAX_DEPTH = 10
"""Doublings of a trajectory, at most: 1,023 gradients, as in Stan."""
FIRST_STEP = 0.5
"""The first step size, in standard deviations: too long ones cost one gradient, too short ones
hundreds.
"""
_CHUNK = 50
"""Iterations per call of the compiled program: between them callers may stop."""
_FAST_SHARE = 0.2
"""Part of the warm-up at its end, and half of it at its beginning, in which only the step size is
adapted.
"""
_FIRST_WINDOW = 15
"""Iterations of the first window of the metric; each later one is twice as long."""


class NutsState(eqx.Module):
    """Where chains are, in w, and what moves them: handed to `nuts` in place of starts, it goes on.

    `shares`, `scales` and `origins` are those of `Centred`, one array for each block.
    """

    position: Float[Array, "c d"]
    log_density: Float[Array, " c"]
    slope: Float[Array, "c d"]
    step_size: Float[Array, ""]
    metric: Metric
    shares: tuple[Array, ...]
    scales: tuple[Array, ...]
    origins: tuple[Array, ...]
    iteration: Array
    """Iterations so far: each has its own part of the key."""


class _Flags(NamedTuple):
    """What happens after an iteration of the warm-up; nothing of it after it."""

    adapts: Any
    """The step size follows the acceptance."""
    collects: Any
    """The draw counts for the metric."""
    closes: Any
    """The metric is that of the window that ends here."""
    settles: Any
    """The step size becomes the mean of what it was."""


def schedule(num: int, *, known: bool) -> Bool[np.ndarray, "n 4"]:
    """What happens after each iteration of a part of the warm-up. Where a metric is `known` there
    are two windows, otherwise as many as double from a short one.
    """
    flags = np.zeros((num, len(_Flags._fields)), dtype=bool)
    adapts, collects, closes, settles = flags.T
    adapts[:] = settles[-1] = True
    fast = int(_FAST_SHARE * num)
    begin, end = fast // 2, num - fast
    window = (end - begin) // 3 if known else _FIRST_WINDOW
    while begin < end:
        close = end if begin + 3 * window > end else begin + window
        collects[begin:close] = closes[close - 1] = True
        begin, window = close, 2 * window
    return flags


def no_adaptation(num: int) -> Bool[np.ndarray, "n 4"]:
    """The same after the warm-up."""
    return np.zeros((num, len(_Flags._fields)), dtype=bool)


# Compiled -----------------------------------------------------------------------------------------


class _Learning(eqx.Module):
    """What the warm-up learns from: dual averaging, and moments of a window."""

    averaging: Any
    moments: Moments


@dataclasses.dataclass(frozen=True)
class Trace:
    """What a chunk of iterations leaves: arrays (n, c, ...)."""

    draws: np.ndarray
    log_density: np.ndarray
    acceptance: np.ndarray
    divergent: np.ndarray
    gradients: np.ndarray


def _learning(state: NutsState) -> _Learning:
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    fresh, _, _ = dual_averaging_adaptation(_TARGET_ACCEPTANCE)
    averaging = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), fresh(state.step_size))
    return _Learning(averaging, Moments.none(state.metric))


def chunks(
    key: Array,
    log_density: LogDensity,
    blocks: tuple[LocationScale, ...],
    state: NutsState,
    flags: np.ndarray,
) -> Iterator[tuple[NutsState, Trace]]:
    """The iterations of a schedule, some at a time: one program, whatever their number."""
    learning = _learning(state)
    for first in range(0, len(flags), _CHUNK):
        some = flags[first : first + _CHUNK]
        padded = np.concatenate([some, np.zeros((_CHUNK - len(some), flags.shape[1]), bool)])
        count = jnp.asarray(len(some))
        state, learning, found = _advance(
            key, log_density, blocks, state, learning, jnp.asarray(padded), count
        )
        yield state, Trace(*(np.asarray(part)[: len(some)] for part in found))


@filter_jit_fast_compile
def _advance(
    key: Array,
    log_density: LogDensity,
    blocks: tuple[LocationScale, ...],
    state: NutsState,
    learning: _Learning,
    flags: Array,
    count: Array,
) -> tuple[NutsState, _Learning, tuple[Array, ...]]:
    from blackjax.adaptation.step_size import dual_averaging_adaptation
    from blackjax.mcmc import hmc, nuts

    num_chains, dim = state.position.shape
    fresh, learn, learnt = dual_averaging_adaptation(_TARGET_ACCEPTANCE)
    target = Centred(log_density, blocks, state.shares, state.scales, state.origins)
    kernel = nuts.build_kernel()
    move = jax.vmap(kernel, in_axes=(0, 0, None, None, None, None))
    density = functools.partial(value_or_nothing, target)

    def iterate(i: Array, carry: Any) -> Any:
        state, learning, found = carry
        adapts, collects, closes, settles = _Flags(*flags[i])
        metric = state.metric
        keys = jax.random.split(jax.random.fold_in(key, state.iteration), num_chains)
        slopes = jax.vmap(metric.slope_in_u)(state.slope)
        chains = hmc.HMCState(jax.vmap(metric.from_w)(state.position), state.log_density, slopes)
        moved = functools.partial(_in_u, density, metric)
        chains, info = move(keys, chains, moved, state.step_size, jnp.ones(dim), _MAX_DEPTH)
        position = jax.vmap(metric.to_w)(chains.position)
        accepted = jnp.nan_to_num(info.acceptance_rate)
        averaging = _where(adapts, learn(learning.averaging, accepted.mean()), learning.averaging)
        step = jnp.where(adapts, jnp.exp(averaging.log_step_size), state.step_size)
        step = jnp.where(settles, learnt(averaging), step)
        moments = learning.moments
        moments = _where(collects, moments.with_draws(position, metric), moments)
        averaging = _where(closes & ~settles, fresh(learnt(averaging)), averaging)
        learning = _Learning(averaging, moments.emptied(closes))
        z = jax.vmap(target.to_z)(position)
        values = chains.logdensity - jax.vmap(target.log_jacobian)(z)
        news = (z, values, accepted, info.is_divergent, info.num_integration_steps)
        found = tuple(part.at[i].set(new) for part, new in zip(found, news, strict=True))
        state = dataclasses.replace(
            state,
            position=position,
            log_density=chains.logdensity,
            slope=jax.vmap(metric.slope_in_w)(chains.logdensity_grad),
            step_size=step,
            metric=_where(closes, moments.metric(metric), metric),
            iteration=state.iteration + 1,
        )
        return state, learning, found

    rows = (len(flags), num_chains)
    found = (
        jnp.zeros((*rows, dim)),
        jnp.zeros(rows),
        jnp.zeros(rows),
        jnp.zeros(rows, bool),
        jnp.zeros(rows, int),
    )
    return jax.lax.fori_loop(0, count, iterate, (state, learning, found))


def _in_u(density: LogDensity, metric: Metric, u: Array) -> Array:
    return density(metric.to_w(u))


@filter_jit_fast_compile
def rearranged(
    log_density: LogDensity,
    blocks: tuple[LocationScale, ...],
    state: NutsState,
    draws: Array,
    begins: Array,
) -> NutsState:
    """Chains at draws[-1] of draws (n, c, d) of z, in the coordinates that the draws give.

    Where chains begin, and draws are starts, shares stay, and the metric is the curvature; chains
    at points of no density go where another one is.
    """
    points = draws.reshape(-1, draws.shape[2])
    middle, means = jnp.median(points, axis=0), points.mean(axis=0)
    for block in blocks:
        middle = block.put(middle, block.take(means))
    found = shares_of(log_density, blocks, middle)
    shares = tuple(jnp.where(begins, *pair) for pair in zip(state.shares, found, strict=True))
    scales = tuple(jnp.asarray(block.loc_and_scale(middle)[1], float) for block in blocks)
    origins = tuple(block.take(middle) for block in blocks)
    target = Centred(log_density, blocks, shares, scales, origins)
    density = functools.partial(value_or_nothing, target)
    usual = jnp.ones(len(middle))
    for block, scale in zip(blocks, scales, strict=True):
        usual = block.put(usual, scale)
    columns = state.metric.columns
    curved = metric_of_curvature(density, target.from_z(middle), usual, columns)
    cloud = jax.vmap(target.from_z)(points)
    deviations = jnp.std(cloud, axis=0)
    fine = (deviations > 0.0) & jnp.isfinite(deviations)
    alone = Metric.of_scales(jnp.where(fine, deviations, usual), columns)
    learnt = Moments.none(alone).with_draws(cloud, alone).metric(alone)
    metric = _where(begins, curved, learnt)
    w = jax.vmap(target.from_z)(draws[-1])
    values, slopes = jax.vmap(jax.value_and_grad(density))(w)
    good = jnp.isfinite(values) & jnp.isfinite(slopes).all(axis=1)
    rows = jnp.where(good, jnp.arange(len(w)), jnp.argmax(good))
    return NutsState(
        w[rows],
        jnp.where(good.any(), values, -jnp.inf)[rows],
        slopes[rows],
        jnp.asarray(np.float64(FIRST_STEP)),
        metric,
        shares,
        scales,
        origins,
        state.iteration,
    )


def _where(condition: Array, yes: Any, no: Any) -> Any:
    """jnp.where on pytrees, with the types of `no`."""
    return jax.tree.map(
        lambda a, b: jnp.where(condition, a, b).astype(jnp.asarray(b).dtype), yes, no
    )
