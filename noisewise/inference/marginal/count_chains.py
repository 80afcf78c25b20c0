"""Chains of parameters and cells: pure functions, so that many data sets run in one program."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array
from noisewise.inference.marginal.count_target import CountTarget
from noisewise.samplers.hierarchies.centring import (
    Centred,
    LocationScale,
    hessian_diagonal,
    shares_of,
)
from noisewise.samplers.trajectories import number_of_steps, trajectory

CHUNK = 50
"""Sweeps per call of the compiled program."""
_ACCEPTANCE = (0.8, 0.5)
"""Mean acceptance that step sizes are tuned to: of theta given cells, and given residuals, where
steps of any length have ends that whole numbers make uneven.
"""
DRAWING, TUNING, STEPPING = 0, 1, 2
"""What chains do besides moving: see `advanced`."""
_FIRST_STEP = 0.3
"""The first step size, in standard deviations."""
_PRIOR_DRAWS = 20.0
"""Draws that variances before a chunk of the warm-up count for."""
_START_NATS = 10.0
"""Nats: among draws of the prior the better half has this spread, after which starts are chosen."""


class CountState(eqx.Module):
    """Where the chains of one data set are, and what moves them.

    `steps` are those of theta given cells, and given residuals; `variances` the metric of both;
    `shares`, `scales` and `origins` those of `Centred`.
    """

    z: Float[Array, "n d"]
    cells: Float[Array, "n c"]
    sums: Float[Array, "n k"]
    steps: Float[Array, " 2"]
    variances: Float[Array, " d"]
    shares: tuple[Array, ...]
    scales: tuple[Array, ...]
    origins: tuple[Array, ...]
    iteration: Array
    averaging: tuple[Any, Any]
    """Of the logs of both step sizes."""


class CountDraws(NamedTuple):
    """Draws of some sweeps, and the mean acceptance of both moves of theta."""

    z: Float[Array, "m n d"]
    cells: Float[Array, "m n c"]
    acceptance: Float[Array, "m 2"]


def begun(
    key: Array,
    target: CountTarget,
    blocks: tuple[LocationScale, ...],
    pool: Float[Array, "m d"],
    cells: Float[Array, "n c"],
) -> CountState:
    """Chains at draws of the prior that the data do not rule out.

    Args:
        key: A PRNG key.
        target: The target.
        blocks: Effects to centre.
        pool: Unconstrained draws of the prior.
        cells: Where the cells of each chain begin.
    """
    num = len(cells)
    prior = jax.vmap(target.prior.log_prob_unconstrained)(pool)
    values = jax.lax.map(target.about, pool, batch_size=64) - prior
    values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
    best = jax.lax.top_k(values, len(pool) // 2)[0]
    finite = jnp.isfinite(best)
    spread = best[0] - jnp.where(finite, best, jnp.inf).min()
    power = jnp.minimum(1.0, _START_NATS / jnp.maximum(spread, 1e-9))
    noise = jax.random.gumbel(key, values.shape, values.dtype)
    chosen = jax.lax.top_k(jnp.where(jnp.isfinite(values), power * values + noise, -jnp.inf), num)
    z = pool[chosen[1]]
    flat = tuple(jnp.full(block.num, 0.5) for block in blocks)
    origins = tuple(block.take(z[0]) for block in blocks)
    scales = tuple(block.loc_and_scale(z[0])[1] for block in blocks)
    curved = -1.0 / hessian_diagonal(Centred(target.about, blocks, flat, scales, origins), z[0])
    variances = jnp.where((curved > 0.0) & jnp.isfinite(curved), curved, 1.0)
    sums = jax.vmap(target.sums)(cells)
    steps = jnp.full(2, _FIRST_STEP)
    nothing = jnp.zeros((), jnp.int64)
    where = (z, cells, sums, steps, variances, flat, scales, origins, nothing)
    return CountState(*where, _averaging(steps))


def advanced(
    key: Array,
    target: CountTarget,
    blocks: tuple[LocationScale, ...],
    state: CountState,
    phase: Array,
    num: int = CHUNK,
) -> tuple[CountState, CountDraws]:
    """Chains some sweeps later, and their draws.

    Args:
        key: The key of all sweeps: each has its own part of it.
        target: The target.
        blocks: Effects to centre.
        state: Where the chains are.
        phase: `TUNING`, where step sizes follow the acceptance, and metric and shares are those of
            the draws afterwards; `STEPPING`, step sizes alone; `DRAWING`.
        num: How many sweeps.
    """
    learns = [dual_averaging(target)[1] for target in _ACCEPTANCE]
    adapts = phase != DRAWING

    def one(state: CountState, _: None) -> Any:
        state, acceptance = swept(jax.random.fold_in(key, state.iteration), target, blocks, state)
        both = zip(learns, state.averaging, acceptance, strict=True)
        new = _chosen(adapts, tuple(learn(*pair) for learn, *pair in both), state.averaging)
        steps = jnp.exp(jnp.stack([part.log_step_size for part in new]))
        steps = jnp.where(adapts, steps, state.steps)
        state = dataclasses.replace(
            state, steps=steps, averaging=new, iteration=state.iteration + 1
        )
        return state, CountDraws(state.z, state.cells, acceptance)

    state, draws = jax.lax.scan(one, state, None, length=num)
    finals = [dual_averaging(target)[2] for target in _ACCEPTANCE]
    last = [final(part) for final, part in zip(finals, state.averaging, strict=True)]
    settled = dataclasses.replace(state, steps=jnp.stack(last))
    state = _chosen(adapts, settled, state)
    return _chosen(phase == TUNING, _retuned(target, blocks, state, draws.z), state), draws


def dual_averaging(acceptance: float) -> Any:
    """Begin, learn and end, of step sizes that are tuned to a mean acceptance."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return dual_averaging_adaptation(acceptance)


def _averaging(steps: Array) -> tuple[Any, Any]:
    first, second = (
        jax.tree.map(lambda leaf: jnp.asarray(leaf) * 1.0, dual_averaging(target)[0](step))
        for target, step in zip(_ACCEPTANCE, steps, strict=True)
    )
    return first, second


def _chosen(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b).astype(b.dtype), yes, no)


def _retuned(
    target: CountTarget,
    blocks: tuple[LocationScale, ...],
    state: CountState,
    draws: Array,
) -> CountState:
    """The state with the metric and the shares that draws (m, n, d) give; steps are tuned anew."""
    points = draws.reshape(-1, draws.shape[-1])
    middle, means = jnp.median(points, axis=0), points.mean(axis=0)
    for block in blocks:
        middle = block.put(middle, block.take(means))
    shares = tuple(shares_of(target.about, blocks, middle))
    scales = tuple(block.loc_and_scale(middle)[1] for block in blocks)
    origins = tuple(block.take(middle) for block in blocks)
    found = jnp.var(
        jax.vmap(Centred(target.about, blocks, shares, scales, origins).from_z)(points), 0
    )
    mixed = (len(points) * found + _PRIOR_DRAWS * state.variances) / (len(points) + _PRIOR_DRAWS)
    fine = (mixed > 0.0) & jnp.isfinite(mixed)
    return dataclasses.replace(
        state,
        averaging=_averaging(state.steps),
        variances=jnp.where(fine, mixed, state.variances),
        shares=shares,
        scales=scales,
        origins=origins,
    )


def swept(
    key: Array, target: CountTarget, blocks: tuple[LocationScale, ...], state: CountState
) -> tuple[CountState, Float[Array, " 2"]]:
    """Every chain after one sweep: cells given theta, theta given cells, theta with its cells.

    The last move is accepted only where residuals lead back to the cells that they were taken from.
    """
    length_key, chain_key = jax.random.split(key)
    lengths = jax.vmap(number_of_steps)(jax.random.split(length_key), state.steps)
    keys = jax.random.split(chain_key, len(state.z))
    one = functools.partial(_one_swept, target=target, blocks=blocks, state=state, lengths=lengths)
    (z, cells, sums), acceptance = jax.vmap(one)(keys, state.z, state.cells, state.sums)
    return dataclasses.replace(state, z=z, cells=cells, sums=sums), acceptance.mean(axis=0)


def _one_swept(
    key: Array,
    z: Array,
    cells: Array,
    sums: Array,
    *,
    target: CountTarget,
    blocks: tuple[LocationScale, ...],
    state: CountState,
    lengths: Array,
) -> tuple[tuple[Array, Array, Array], Array]:
    cells_key, given_key, noise_key, joint_key = jax.random.split(key, 4)
    cells, sums = target.cells_moved(cells_key, z, cells, sums)

    def centred(density: Any) -> Centred:
        return Centred(density, blocks, state.shares, state.scales, state.origins)

    def move(key: Array, smooth: Centred, exact: Centred, z: Array, which: int) -> Any:
        slope, w = jax.grad(smooth), exact.from_z(z)
        numbers = (state.steps[which], state.variances, lengths[which])
        w, chance, accepted = trajectory(key, slope, exact, w, *numbers)
        return exact.to_z(w), chance, accepted

    given = centred(lambda z: target.given_cells(z, cells))
    new, first, accepted = move(given_key, given, given, z, 0)
    z = jnp.where(accepted, new, z)
    if not target.free:
        return (z, cells, sums), jnp.stack([first, first])
    kept = target.residuals(noise_key, z, cells)
    smooth = centred(lambda z: target.smooth_given_residuals(z, kept))
    exact = centred(lambda z: target.given_residuals(z, kept))
    new, second, accepted = move(joint_key, smooth, exact, z, 1)
    here, there = jax.vmap(lambda z: target.cells_at(z, kept))(jnp.stack([z, new]))
    returns = _leads_back(here, cells)
    accepted = accepted & returns
    z, cells = jnp.where(accepted, new, z), jnp.where(accepted, there, cells)
    return (z, cells, target.sums(cells)), jnp.stack([first, jnp.where(returns, second, 0.0)])


def _leads_back(here: Array, cells: Array) -> Array:
    """Whether residuals are those of these cells, which have them where the chain is."""
    return (here == cells).all()


@filter_jit_fast_compile
def compiled_begun(*args: Any) -> CountState:
    """`begun`, compiled."""
    return begun(*args)


@filter_jit_fast_compile
def compiled_advanced(*args: Any) -> tuple[CountState, CountDraws]:
    """`advanced`, compiled."""
    return advanced(*args)
