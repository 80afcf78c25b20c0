r"""No-U-turn chains, all in one program, with effects centred by their own shares.

Trajectories double until they turn back (Hoffman and Gelman 2014; multinomial draws, Betancourt
2017), at most ten times. Chains share the step size, tuned to an acceptance of .8 by dual
averaging, and the diagonal metric, the variances of all chains' draws in windows that double, each
shrunk a little towards the one before.

With blocks of effects the chains move in the coordinates of `Centred`. A first part of the warm-up
at shares of 1/2 finds spreads and means; the shares that these give are refined once after a second
part; the last part adapts metric and step size. A joint optimum, which runs off to spreads of 0 or
far above the truth, is never sought.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, as_key, integer
from noisewise.errors import InvalidInputError
from noisewise.samplers.centring import (
    Centred,
    LocationScale,
    as_pytree_blocks,
    hessian_diagonal,
    shares_of,
)
from noisewise.samplers.densities import LogDensity, as_points, as_pytree, value_or_nothing
from noisewise.samplers.hamiltonian import diagnosed

_TARGET_ACCEPTANCE = 0.8
"""Mean acceptance that step sizes are tuned to, as in Stan."""
_MAX_DEPTH = 10
"""Doublings of a trajectory, at most: 1,023 gradients, as in Stan."""
_FIRST_STEP = 0.5
"""The first step size, in standard deviations: too long ones cost one gradient, too short ones
hundreds.
"""
_CHUNK = 50
"""Iterations per call of the compiled program: between them callers may stop."""
_FAST_SHARE = 0.2
"""Part of the warm-up, at its beginning and at its end, in which only the step size is adapted."""
_FIRST_WINDOW = 15
"""Iterations of the first window of the metric; each later one is twice as long."""
_PRIOR_DRAWS = 5.0
"""Draws that the metric before a window counts for, as in Stan."""
_KEPT = 64
"""Iterations, evenly over the last half of a part of the warm-up, from which shares are found."""
_PARTS = (50, 50)
"""Iterations of the warm-up at shares of 1/2, and at the first shares: at 1/2 trajectories may be
long, and shares need only rough means and spreads. A quarter of shorter warm-ups each, at most.
"""


class NutsState(eqx.Module):
    """Where chains are, in w, and what moves them: handed to `nuts` in place of starts, it goes on.

    `shares`, `scales` and `origins` are those of `Centred`, one array for each block.
    """

    position: Float[Array, "c d"]
    log_density: Float[Array, " c"]
    slope: Float[Array, "c d"]
    step_size: Float[Array, ""]
    variances: Float[Array, " d"]
    shares: tuple[Array, ...]
    scales: tuple[Array, ...]
    origins: tuple[Array, ...]
    iteration: Array
    """Iterations so far: each has its own part of the key."""


@dataclasses.dataclass(frozen=True)
class NutsDraws:
    """Draws of several chains, as the density's author wrote them, and how the run went.

    `log_density` is the user's, without the Jacobian of `Centred`. `acceptance` is the mean
    acceptance probability after the warm-up, `num_divergent` the number of draws whose trajectory
    diverged, `num_gradients` and `num_warmup_gradients` the leapfrog steps of all chains together.
    `state` goes on; it is None where the run was stopped in the warm-up.
    """

    draws: Float[np.ndarray, "n c d"]
    log_density: Float[np.ndarray, "n c"]
    acceptance: float
    num_divergent: int
    num_gradients: int
    num_warmup_gradients: int
    state: NutsState | None

    @functools.cached_property
    def r_hat(self) -> Float[np.ndarray, " d"]:
        """Rank-normalised split R-hat of each coordinate (Vehtari et al. 2021)."""
        return np.array(diagnosed(self.draws, "rhat", method="rank"))

    @functools.cached_property
    def bulk_size(self) -> Float[np.ndarray, " d"]:
        """Bulk effective size of each coordinate, all chains together."""
        return np.array(diagnosed(self.draws, "ess", method="bulk"))

    @functools.cached_property
    def tail_size(self) -> Float[np.ndarray, " d"]:
        """Tail effective size of each coordinate: the smaller one of its 5% and 95% quantiles."""
        return np.array(diagnosed(self.draws, "ess", method="tail"))


def nuts(
    key: Array,
    log_density: LogDensity,
    start: Any,
    *,
    blocks: Sequence[LocationScale] = (),
    shares: Any = None,
    num_warmup: int = 500,
    num_draws: int = 1000,
    progress: Callable[[int, int], bool | None] | None = None,
) -> NutsDraws:
    r"""Draws from a smooth density by no-U-turn chains.

    Use it where there are too many coordinates for `hamiltonian`: some dozens to thousands. NaN
    counts as -inf.

    Args:
        key: JAX PRNG key.
        log_density: z (d,) -> unnormalised log density; a pytree that can be called, such as an
            `eqx.Module`: other values of its arrays compile nothing, another function does.
        start: Where the chains begin, shape (c, d), or the `state` of an earlier run, which goes on
            without a warm-up: with the same key, density and blocks, two runs of 100 draws are one
            of 200, to the last bit.
        blocks: Blocks of effects, parents before children, each centred by its own shares.
        shares: Shares that are kept, as `Centred` takes them; None finds them in the warm-up.
        num_warmup: Iterations before the first draw, at least 60.
        num_draws: Draws of each chain.
        progress: Called after every 50 iterations with how many are done, and how many there are
            in all; what returns True stops the run.

    Returns:
        The draws, in z, with log densities, divergences, gradients and the state to go on with.

    Raises:
        InvalidInputError: If the density vanishes at all starts, or the blocks do not fit.

    >>> class Schools(eqx.Module):
    ...     effects: Array
    ...     sd: Array
    ...     def __call__(self, z):
    ...         data = -0.5 * jnp.sum(((self.effects - z[2:]) / self.sd) ** 2)
    ...         return data + block.log_law(z[2:], z) - 0.005 * z[0] ** 2 - 0.5 * (z[1] - 1) ** 2
    >>> block = LocationScale(range(2, 10), lambda z: (z[0], jnp.exp(z[1])))
    >>> effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    >>> schools = Schools(effects, np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]))
    >>> run = nuts(jax.random.key(0), schools, np.zeros((2, 10)), blocks=[block])
    >>> run.draws.shape, bool(run.r_hat.max() < 1.02), run.num_divergent < 20
    ((1000, 2, 10), True, True)
    >>> bool(run.state.shares[0].max() < 0.5)
    True
    """
    key = as_key(key)
    num_draws = integer("num_draws", at_least=1)(num_draws)
    num_warmup = integer("num_warmup", at_least=60)(num_warmup)
    resumes = isinstance(start, NutsState)
    num_warmup = 0 if resumes else num_warmup
    done = _Counter(num_warmup + num_draws, progress)
    with jax.enable_x64(True):
        target, blocks = as_pytree(log_density), as_pytree_blocks(blocks)
        if resumes:
            state: NutsState | None = jax.tree.map(jnp.asarray, start)
            spent = 0
        else:
            points = as_points(start, "start")
            _check_columns(blocks, points.shape[1])
            state, spent = _warmed(key, target, blocks, points, shares, num_warmup, done)
        traces = []
        if state is not None:
            flags = np.zeros((num_draws, len(_Flags._fields)), dtype=bool)
            for state, trace in _chunks(key, target, blocks, state, flags):
                traces.append(trace)
                if done(len(trace.draws)):
                    break
        num_chains, dim = start.position.shape if resumes else points.shape
        draws, values, acceptance, divergent, gradients = _joined(traces, num_chains, dim)
        state = jax.tree.map(np.asarray, state)
    return NutsDraws(
        draws,
        values,
        float(acceptance.mean()) if acceptance.size else float("nan"),
        int(divergent.sum()),
        int(gradients.sum()),
        spent,
        state,
    )


# Warm-up ------------------------------------------------------------------------------------------


def _warmed(
    key: Array,
    log_density: LogDensity,
    blocks: tuple[LocationScale, ...],
    points: np.ndarray,
    shares: Any,
    num_warmup: int,
    done: _Counter,
) -> tuple[NutsState | None, int]:
    """The state after the warm-up, None where it was stopped, and the gradients that it took."""
    finds = bool(blocks) and shares is None
    given = 0.5 if finds else 0.0 if shares is None else shares
    state = _at_starts(log_density, blocks, points, Centred(log_density, blocks, given).shares)
    if not np.isfinite(np.asarray(state.log_density)).any():
        raise InvalidInputError(
            f"The density vanishes at all {len(points)} starts: choose others, such as draws of the"
            " prior."
        )
    parts = [min(part, num_warmup // 4) for part in _PARTS] if finds else []
    spent = 0
    for i, length in enumerate([*parts, num_warmup - sum(parts)]):
        if i > 0:
            rows = np.linspace(len(draws) // 2, len(draws) - 1, _KEPT).astype(int)
            kept = jnp.asarray(draws[rows])
            state = _rearranged(log_density, blocks, state, kept, jnp.asarray(False))
        chunks = []
        flags = _schedule(length, known=i > 0)
        for state, trace in _chunks(key, log_density, blocks, state, flags):
            chunks.append(trace.draws)
            spent += int(trace.gradients.sum())
            if done(len(trace.draws)):
                return None, spent
        draws = np.concatenate(chunks)
    return state, spent


def _at_starts(
    log_density: LogDensity,
    blocks: tuple[LocationScale, ...],
    points: np.ndarray,
    shares: tuple[np.ndarray, ...],
) -> NutsState:
    """The state of chains that begin at points (c, d)."""
    num_chains, dim = points.shape
    nothing = NutsState(
        jnp.zeros((num_chains, dim)),
        jnp.zeros(num_chains),
        jnp.zeros((num_chains, dim)),
        jnp.asarray(np.float64(_FIRST_STEP)),
        jnp.ones(dim),
        tuple(jnp.asarray(share) for share in shares),
        tuple(jnp.ones(block.num) for block in blocks),
        tuple(jnp.zeros(block.num) for block in blocks),
        jnp.asarray(np.int64(0)),
    )
    draws = jnp.asarray(np.broadcast_to(points, (_KEPT, num_chains, dim)))
    return _rearranged(log_density, blocks, nothing, draws, jnp.asarray(True))


class _Flags(tuple):
    """Columns of a schedule: what happens after an iteration."""

    _fields = ("adapts", "collects", "closes", "settles")


def _schedule(num: int, *, known: bool) -> np.ndarray:
    """Iterations of a part of the warm-up, (num, 4): whether the step size adapts, the metric
    collects draws, its window closes, the step size settles. Where a metric is known there is one
    window.
    """
    flags = np.zeros((num, len(_Flags._fields)), dtype=bool)
    flags[:, 0], flags[-1, 3] = True, True
    fast = int(_FAST_SHARE * num)
    begin, end = (fast // 2 if known else fast), num - fast
    window = end - begin if known else _FIRST_WINDOW
    while begin < end:
        close = end if begin + 3 * window > end else begin + window
        flags[begin:close, 1], flags[close - 1, 2] = True, True
        begin, window = close, 2 * window
    return flags


# Compiled -----------------------------------------------------------------------------------------


class _Learning(eqx.Module):
    """What the warm-up learns from: dual averaging, and moments of a window."""

    averaging: Any
    num: Array
    mean: Array
    squares: Array


@dataclasses.dataclass(frozen=True)
class _Trace:
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
    zeros = jnp.zeros_like(state.variances)
    return _Learning(averaging, jnp.zeros(()), zeros, zeros)


def _chunks(
    key: Array,
    log_density: LogDensity,
    blocks: tuple[LocationScale, ...],
    state: NutsState,
    flags: np.ndarray,
) -> Iterator[tuple[NutsState, _Trace]]:
    """The iterations of a schedule, some at a time: one program, whatever their number."""
    learning = _learning(state)
    for first in range(0, len(flags), _CHUNK):
        some = flags[first : first + _CHUNK]
        padded = np.concatenate([some, np.zeros((_CHUNK - len(some), flags.shape[1]), bool)])
        count = jnp.asarray(len(some))
        state, learning, found = _advance(
            key, log_density, blocks, state, learning, jnp.asarray(padded), count
        )
        yield state, _Trace(*(np.asarray(part)[: len(some)] for part in found))


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
        adapts, collects, closes, settles = flags[i]
        keys = jax.random.split(jax.random.fold_in(key, state.iteration), num_chains)
        chains = hmc.HMCState(state.position, state.log_density, state.slope)
        chains, info = move(keys, chains, density, state.step_size, state.variances, _MAX_DEPTH)
        accepted = jnp.nan_to_num(info.acceptance_rate)
        averaging = _where(adapts, learn(learning.averaging, accepted.mean()), learning.averaging)
        step = jnp.where(adapts, jnp.exp(averaging.log_step_size), state.step_size)
        step = jnp.where(settles, learnt(averaging), step)
        learning = _where(collects, _collected(learning, chains.position), learning)
        variances = jnp.where(closes, _variances(learning, state.variances), state.variances)
        averaging = _where(closes & ~settles, fresh(learnt(averaging)), averaging)
        num = jnp.where(closes, 0.0, learning.num)
        learning = _Learning(averaging, num, learning.mean * (num > 0), learning.squares * (num > 0))
        z = jax.vmap(target.to_z)(chains.position)
        values = chains.logdensity - jax.vmap(target.log_jacobian)(z)
        news = (z, values, accepted, info.is_divergent, info.num_integration_steps)
        found = tuple(part.at[i].set(new) for part, new in zip(found, news, strict=True))
        state = dataclasses.replace(
            state,
            position=chains.position,
            log_density=chains.logdensity,
            slope=chains.logdensity_grad,
            step_size=step,
            variances=variances,
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


def _collected(learning: _Learning, cloud: Array) -> _Learning:
    """Moments of a window with one point more of each chain."""
    num, new = learning.num, len(cloud)
    mean = cloud.mean(axis=0)
    gap = mean - learning.mean
    squares = jnp.sum((cloud - mean) ** 2, axis=0) + gap**2 * num * new / (num + new)
    return _Learning(
        learning.averaging,
        num + new,
        learning.mean + gap * new / (num + new),
        learning.squares + squares,
    )


def _variances(learning: _Learning, before: Array) -> Array:
    """The variances of a window, shrunk towards those before it."""
    num = learning.num
    found = learning.squares / jnp.maximum(num - 1.0, 1.0)
    mixed = (num * found + _PRIOR_DRAWS * before) / (num + _PRIOR_DRAWS)
    return jnp.where((mixed > 0.0) & jnp.isfinite(mixed), mixed, before)


@filter_jit_fast_compile
def _rearranged(
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
    variances = jnp.var(jax.vmap(target.from_z)(points), axis=0)
    density = functools.partial(value_or_nothing, target)
    curved = -1.0 / hessian_diagonal(density, target.from_z(middle))
    variances = jnp.where(begins, curved, variances)
    usual = jnp.ones(len(middle))
    for block, scale in zip(blocks, scales, strict=True):
        usual = block.put(usual, scale**2)
    fine = (variances > 0.0) & jnp.isfinite(variances)
    w = jax.vmap(target.from_z)(draws[-1])
    values, slopes = jax.vmap(jax.value_and_grad(density))(w)
    good = jnp.isfinite(values) & jnp.isfinite(slopes).all(axis=1)
    rows = jnp.where(good, jnp.arange(len(w)), jnp.argmax(good))
    return NutsState(
        w[rows],
        jnp.where(good.any(), values, -jnp.inf)[rows],
        slopes[rows],
        jnp.asarray(np.float64(_FIRST_STEP)),
        jnp.where(fine, variances, usual),
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


# Around -------------------------------------------------------------------------------------------


class _Counter:
    """Counts iterations, tells the caller, and says whether to stop."""

    def __init__(self, total: int, tell: Callable[[int, int], bool | None] | None) -> None:
        self._done, self._total, self._tell = 0, total, tell

    def __call__(self, num: int) -> bool:
        self._done += num
        return self._tell is not None and self._tell(self._done, self._total) is True


def _joined(traces: list[_Trace], num_chains: int, dim: int) -> tuple[np.ndarray, ...]:
    """The draws, log densities, acceptance, divergences and gradients of all chunks."""
    none = np.zeros((0, num_chains))
    empty = _Trace(np.zeros((0, num_chains, dim)), none, none, none, none)
    names = [field.name for field in dataclasses.fields(_Trace)]
    return tuple(
        np.concatenate([getattr(trace, name) for trace in (empty, *traces)]) for name in names
    )


def _check_columns(blocks: tuple[LocationScale, ...], dim: int) -> None:
    for block in blocks:
        if max(block.columns) >= dim:
            raise InvalidInputError(
                f"a block has column {max(block.columns)}, but start has {dim} columns, 0 to"
                f" {dim - 1}."
            )
