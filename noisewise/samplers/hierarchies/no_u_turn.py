r"""No-U-turn chains, all in one program, with effects centred by their own shares.

Trajectories double until they turn back (Hoffman and Gelman 2014; multinomial draws, Betancourt
2017), at most ten times. Chains share the step size, tuned to an acceptance of .8 by dual
averaging, and the metric: the variances of all chains' draws in windows that double, each shrunk a
little towards the one before, and the correlations of coordinates that are no effects, up to 50.

With blocks of effects the chains move in the coordinates of `Centred`. A first part of the warm-up
at shares of 1/2 finds spreads and means; the shares that these give are refined once after a second
part; the last part adapts metric and step size. A joint optimum, which runs off to spreads of 0 or
far above the truth, is never sought.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key, integer
from noisewise.errors import InvalidInputError
from noisewise.samplers.chain_diagnostics import effective_draws, r_hat
from noisewise.samplers.densities import LogDensity, as_points, as_pytree
from noisewise.samplers.hierarchies._no_u_turn_program import (
    FIRST_STEP,
    NutsState,
    Trace,
    chunks,
    no_adaptation,
    rearranged,
    schedule,
)
from noisewise.samplers.hierarchies.centring import Centred, LocationScale, as_pytree_blocks
from noisewise.samplers.hierarchies.metric import Metric, correlated_columns

_KEPT = 64
"""Iterations, evenly over the last half of a part of the warm-up, from which shares are found."""
_PARTS = (50, 50)
"""Iterations of the warm-up at shares of 1/2, and at the first shares: at 1/2 trajectories may be
long, and shares need only rough means and spreads. A quarter of shorter warm-ups each, at most.
"""


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
        return self._each(r_hat)

    @functools.cached_property
    def bulk_size(self) -> Float[np.ndarray, " d"]:
        """Bulk effective size of each coordinate, all chains together."""
        return self._each(effective_draws)

    @functools.cached_property
    def tail_size(self) -> Float[np.ndarray, " d"]:
        """Tail effective size of each coordinate: the smaller one of its 5% and 95% quantiles."""
        return self._each(functools.partial(effective_draws, kind="tail"))

    def _each(self, diagnostic: Callable[[np.ndarray], float]) -> Float[np.ndarray, " d"]:
        """A diagnostic of each coordinate, from its draws chain by chain."""
        return np.array([diagnostic(column.T) for column in np.moveaxis(self.draws, 2, 0)])


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

    >>> import equinox as eqx
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
            flags = no_adaptation(num_draws)
            for after, trace in chunks(key, target, blocks, state, flags):
                state = after
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
    spent, draws = 0, np.zeros(0)
    for i, length in enumerate([*parts, num_warmup - sum(parts)]):
        if i > 0:
            rows = np.linspace(len(draws) // 2, len(draws) - 1, _KEPT).astype(int)
            kept = jnp.asarray(draws[rows])
            state = rearranged(log_density, blocks, state, kept, jnp.asarray(False))
        pieces = []
        flags = schedule(length, known=i > 0)
        for after, trace in chunks(key, log_density, blocks, state, flags):
            state = after
            pieces.append(trace.draws)
            spent += int(trace.gradients.sum())
            if done(len(trace.draws)):
                return None, spent
        draws = np.concatenate(pieces)
    return state, spent


def state_structure(blocks: Sequence[LocationScale], dim: int) -> Any:
    """The structure of the states of chains, whose leaves may be kept as arrays."""
    return jax.tree.structure(_nowhere(tuple(blocks), 1, dim, [np.zeros(0) for _ in blocks]))


def _at_starts(
    log_density: LogDensity,
    blocks: tuple[LocationScale, ...],
    points: np.ndarray,
    shares: tuple[np.ndarray, ...],
) -> NutsState:
    """The state of chains that begin at points (c, d)."""
    num_chains, dim = points.shape
    draws = jnp.asarray(np.broadcast_to(points, (_KEPT, num_chains, dim)))
    nowhere = _nowhere(blocks, num_chains, dim, shares)
    return rearranged(log_density, blocks, nowhere, draws, jnp.asarray(True))


def _nowhere(
    blocks: tuple[LocationScale, ...], num_chains: int, dim: int, shares: Sequence[np.ndarray]
) -> NutsState:
    """A state that says nothing yet but shares, and which correlations will be learnt."""
    effects = {column for block in blocks for column in block.columns}
    return NutsState(
        jnp.zeros((num_chains, dim)),
        jnp.zeros(num_chains),
        jnp.zeros((num_chains, dim)),
        jnp.asarray(np.float64(FIRST_STEP)),
        Metric.of_scales(jnp.ones(dim), correlated_columns(dim, effects)),
        tuple(jnp.asarray(share) for share in shares),
        tuple(jnp.ones(block.num) for block in blocks),
        tuple(jnp.zeros(block.num) for block in blocks),
        jnp.asarray(np.int64(0)),
    )


# Around -------------------------------------------------------------------------------------------


class _Counter:
    """Counts iterations, tells the caller, and says whether to stop."""

    def __init__(self, total: int, tell: Callable[[int, int], bool | None] | None) -> None:
        self._done, self._total, self._tell = 0, total, tell

    def __call__(self, num: int) -> bool:
        self._done += num
        return self._tell is not None and self._tell(self._done, self._total) is True


def _joined(traces: list[Trace], num_chains: int, dim: int) -> tuple[np.ndarray, ...]:
    """The draws, log densities, acceptance, divergences and gradients of all chunks."""
    none = np.zeros((0, num_chains))
    empty = Trace(np.zeros((0, num_chains, dim)), none, none, none, none)
    names = [field.name for field in dataclasses.fields(Trace)]
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
