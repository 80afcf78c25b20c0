r"""Markov moves on a parameter and the records with it, for record models under an additive
query.

    target(theta, x)  ~  pi(theta)  prod_i f(x_i | theta)  eta(s_dp | T(x) / divisor)^temperature

with T(x) = sum_i t(x_i). Each move leaves the target invariant; `RecordState` carries T and log eta
along, so that changing a record costs O(k).

- `_parameters`: theta ~ theta | x, or a random walk under prod f where the model has no such draw.
- `_records`: for i = 1..n in turn, x_i* ~ f(. | theta), accepted with (eta* / eta)^temperature (Ju,
  Awan, Gong and Rao 2022).
- `_not_centred`: x_i = G(theta, u_i); theta moves while u stays fixed, accepted with
  pi* / pi (eta* / eta)^temperature.
- `_joint`: theta moves and all records are drawn again, accepted in the same way.

Written for one chain and vmapped; proposals of a sweep are drawn and summed up all at once, so that
the loop over records is nothing but additions.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array, in_float64
from noisewise._core.json_files import reading
from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.record_state import (
    RecordState,
    Seen,
    Walk,
    accept,
    choose,
    log_difference,
    random_step,
)
from noisewise.model.private_model import PrivateModel
from noisewise.priors.prior import Prior
from noisewise.simulators import AbstractRecordModel
from noisewise.simulators.base import AdditiveQuery

CENTRED_MOVES = 5
"""Random-walk steps that stand for one draw of theta given x: as many as the moves that are not
centred.
"""


def serves(model: PrivateModel) -> bool:
    """Whether the records of a model can be moved one by one."""
    return (
        isinstance(model.simulator, AbstractRecordModel)
        and isinstance(model.query, AdditiveQuery)
        and not model.mechanism.unknown
    )


def records_refusal(model: PrivateModel, method: str) -> str | None:
    """Why a method cannot move the records of a model one by one; None if it can."""
    if not isinstance(model.simulator, AbstractRecordModel):
        return (
            f"{method} changes one record at a time, but {type(model.simulator).__name__} is not a"
            " model of independent records (nw.simulators.AbstractRecordModel). ExactSMC,"
            " PseudoMarginalMCMC and ImportanceSampling serve any simulator."
        )
    if not isinstance(model.query, AdditiveQuery):
        return (
            f"{method} needs a statistic that is a sum over records, but"
            f" {type(model.query).__name__} is not. ExactSMC, PseudoMarginalMCMC and"
            " ImportanceSampling serve any query."
        )
    return None


def record_moves(model: PrivateModel, *, num_moves: int, joint: bool = False) -> RecordMoves:
    """The moves for a model. Models that differ only in their mechanism share compiled programs.

    Args:
        model: A model of records with an additive query.
        num_moves: Moves per sweep that are not centred.
        joint: Whether a sweep begins with a move of theta and all records together.
    """
    parts = (model.prior, model.simulator, model.query, num_moves, joint)
    try:
        return _shared_moves(*parts)
    except TypeError:
        return RecordMoves(*parts)  # type: ignore[arg-type]


def advanced(
    run: InferenceRun,
    moves: RecordMoves,
    key: Array,
    state: RecordState,
    seen: Seen,
    walk: Walk,
    num: int,
) -> tuple[RecordState, dict[str, np.ndarray], np.ndarray]:
    """`moves.sweeps`, recorded in the journal and not made again when a run is resumed. The records
    themselves are only known after the last recorded sweeps.
    """

    def compute() -> tuple[RecordState, dict[str, np.ndarray]]:
        last, kept, accepted = moves.sweeps(key, state, seen, walk, num)
        return last, {**kept, "accepted": accepted, "total": last.total}

    state, found = run.advance("sweeps", state, compute)
    with reading("The sweeps in the journal"):
        now = {
            "total": found["total"],
            **{name: found[name][-1] for name in ("z", "theta", "log_eta")},
        }
        if any(np.shape(value) != np.shape(getattr(state, name)) for name, value in now.items()):
            raise FileFormatError("they have another shape.")
        kept = {name: found[name] for name in ("theta", "z", "s", "log_eta")}
        return state._replace(**now), kept, found["accepted"]


@dataclasses.dataclass(frozen=True, eq=False)
class RecordMoves:
    """The moves for a prior, record model and query.

    Attributes:
        prior: The prior.
        simulator: The model of records.
        query: The query, a sum over records.
        num_moves: Moves that are not centred at the end of a sweep, if the model can give its
            noise.
        joint: Whether a sweep begins with a joint move.
    """

    prior: Prior
    simulator: AbstractRecordModel
    query: AdditiveQuery
    num_moves: int
    joint: bool

    @property
    def databases_per_sweep(self) -> int:
        """How many databases are simulated in one sweep: fresh records, and records moved with
        theta.
        """
        return 1 + int(self.joint) + (self.num_moves if self.simulator.can_tell_noise else 0)

    @in_float64
    def start(self, key: Array, theta: np.ndarray, seen: Seen) -> RecordState:
        """Chains (C, ...) at theta (C, d), with records drawn from f(. | theta)."""
        state = self._start(key, theta, seen)
        if self.num_moves and self.simulator.can_tell_noise and not self._inverts(key, state):
            raise InvalidInputError(
                f"noise_of_record of {type(self.simulator).__name__} must give the u with record(u,"
                " theta) = x_i, but gives others: correct it, or take num_moves=0."
            )
        return state

    @in_float64
    def sweeps(
        self, key: Array, state: RecordState, seen: Seen, walk: Walk, num: int
    ) -> tuple[RecordState, dict[str, Array], Array]:
        """`num` sweeps of every chain: the last state, draws by name (num, C, ...), and acceptance
        by kind of move (4,).
        """
        return self._sweeps(key, state, seen, walk, num)

    @in_float64
    def parameters(self, key: Array, state: RecordState, walk: Walk, num: int) -> Array:
        """`num` draws of theta (num, C, d) given the records of every chain, which stay fixed."""
        return self._parameters_given_records(key, state, walk, num)

    @functools.cached_property
    def _parameters_given_records(self) -> Any:
        def step(state: RecordState, key: Array, walk: Walk) -> Any:
            keys = jax.random.split(key, len(state.z))
            state, _ = jax.vmap(self._parameters, (0, 0, None))(keys, state, walk)
            return state, state.theta

        @jit_fast_compile(static_argnames="num")
        def sweeps(key: Array, state: RecordState, walk: Walk, num: int) -> Array:
            return jax.lax.scan(
                functools.partial(step, walk=walk), state, jax.random.split(key, num)
            )[1]

        return sweeps

    @functools.cached_property
    def _start(self) -> Any:
        def one(key: Array, theta: Array, seen: Seen) -> RecordState:
            z = self.prior.unconstrain(theta)
            return self._at(z, theta, self.simulator.database(key, theta), seen)

        def all_chains(key: Array, theta: Array, seen: Seen) -> RecordState:
            keys = jax.random.split(key, len(theta))
            return jax.vmap(one, (0, 0, None))(keys, theta, seen)

        return jit_fast_compile(all_chains)

    def _inverts(self, key: Array, state: RecordState) -> bool:
        """Whether records come back from their noise, in the first chain."""
        records, theta = jax.tree.map(lambda part: part[0], state.records), state.theta[0]
        keys = jax.random.split(key, state.terms.shape[1])
        noise = jax.vmap(self.simulator.noise_of_record, (0, 0, None))(keys, records, theta)
        again = jax.vmap(self.simulator.record, (0, None))(noise, theta)
        near = jax.tree.map(
            lambda a, b: bool(jnp.allclose(a, b, rtol=1e-6, atol=1e-9)), records, again
        )
        return all(jax.tree.leaves(near))

    @functools.cached_property
    def _sweeps(self) -> Any:
        def step(carry: tuple[Array, RecordState], number: Array, seen: Seen, walk: Walk) -> Any:
            key, state = carry
            keys = jax.random.split(jax.random.fold_in(key, number), len(state.z))
            state, accepted = jax.vmap(self.sweep, (0, 0, None, None))(keys, state, seen, walk)
            kept = {
                "theta": state.theta,
                "z": state.z,
                "s": self.statistic(state.total),
                "log_eta": state.log_eta,
            }
            return (key, state), (kept, accepted.mean(0))

        @jit_fast_compile(static_argnames="num")
        def sweeps(key: Array, state: RecordState, seen: Seen, walk: Walk, num: int) -> Any:
            # summed again now and then, so that rounding errors do not add up
            state = state._replace(total=state.terms.sum(1))
            (_, state), (kept, accepted) = jax.lax.scan(
                functools.partial(step, seen=seen, walk=walk), (key, state), jnp.arange(num)
            )
            return state, kept, accepted.mean(0)

        return sweeps

    def sweep(
        self, key: Array, state: RecordState, seen: Seen, walk: Walk
    ) -> tuple[RecordState, Array]:
        """One sweep of one chain, and the shares accepted of centred, record, not centred and joint
        moves.
        """
        keys = jax.random.split(key, 4)
        accepted = jnp.zeros(4)
        if self.joint:
            state, share = self._joint(keys[0], state, seen, walk)
            accepted = accepted.at[3].set(share)
        state, share = self._parameters(keys[1], state, walk)
        accepted = accepted.at[0].set(share)
        state, share = self._records(keys[2], state, seen)
        accepted = accepted.at[1].set(share)
        if self.num_moves and self.simulator.can_tell_noise:
            state, share = self._not_centred(keys[3], state, seen, walk)
            accepted = accepted.at[2].set(share)
        return state, accepted

    # The four moves -------------------------------------------------------------------------------

    def _parameters(self, key: Array, state: RecordState, walk: Walk) -> tuple[RecordState, Array]:
        if not self.simulator.can_sample_parameters:
            return self._centred(key, state, walk)
        draw_key, accept_key = jax.random.split(key)
        theta = self.simulator.sample_parameters(draw_key, state.records, state.theta)
        log_ratio = self._prior_correction(theta) - self._prior_correction(state.theta)
        z = self.prior.unconstrain(theta)
        accepted = accept(accept_key, log_ratio) & jnp.isfinite(z).all()
        moved = state._replace(z=z, theta=theta)
        return choose(accepted, moved, state), accepted.astype(float)

    def _prior_correction(self, theta: Array) -> Array:
        assumed = self.simulator.log_prob_conjugate_prior(theta)
        return jnp.zeros(()) if assumed is None else self.prior.log_prob(theta) - assumed

    def _centred(self, key: Array, state: RecordState, walk: Walk) -> tuple[RecordState, Array]:
        def log_density(z: Array, theta: Array) -> Array:
            each = jax.vmap(self.simulator.log_prob_record, (0, None))(state.records, theta)
            return self.prior.log_prob_unconstrained(z) + each.sum()

        def move(current: tuple[Array, Array, Array], key: Array) -> Any:
            step_key, accept_key = jax.random.split(key)
            z = current[0] + random_step(step_key, walk, 0)
            theta = self.prior.constrain(z)
            proposed = (z, theta, log_density(z, theta))
            accepted = accept(accept_key, log_difference(proposed[2], current[2]))
            return choose(accepted, proposed, current), accepted.astype(float)

        start = (state.z, state.theta, log_density(state.z, state.theta))
        (z, theta, _), accepted = jax.lax.scan(move, start, jax.random.split(key, CENTRED_MOVES))
        return state._replace(z=z, theta=theta), accepted.mean()

    def _records(self, key: Array, state: RecordState, seen: Seen) -> tuple[RecordState, Array]:
        draw_key, accept_key = jax.random.split(key)
        proposed = self.simulator.database(draw_key, state.theta)
        terms = self._terms(proposed)
        num = terms.shape[0]
        log_u = jnp.log1p(-jax.random.uniform(accept_key, (num,)))

        def one(carry: tuple[Array, Array], row: tuple[Array, Array]) -> Any:
            total, log_eta = carry
            change, threshold = row
            new = total + change
            new_log_eta = self._log_eta(new, seen)
            accepted = threshold < seen.temperature * log_difference(new_log_eta, log_eta)
            return (
                jnp.where(accepted, new, total),
                jnp.where(accepted, new_log_eta, log_eta),
            ), accepted

        (total, log_eta), accepted = jax.lax.scan(
            one, (state.total, state.log_eta), (terms - state.terms, log_u)
        )
        records = jax.tree.map(
            lambda new, old: jnp.where(accepted.reshape(num, *(1,) * (new.ndim - 1)), new, old),
            proposed,
            state.records,
        )
        terms = jnp.where(accepted[:, None], terms, state.terms)
        return RecordState(state.z, state.theta, records, terms, total, log_eta), accepted.mean()

    def _not_centred(
        self, key: Array, state: RecordState, seen: Seen, walk: Walk
    ) -> tuple[RecordState, Array]:
        noise_key, move_key = jax.random.split(key)
        noise_keys = jax.random.split(noise_key, state.terms.shape[0])
        noise = jax.vmap(self.simulator.noise_of_record, (0, 0, None))(
            noise_keys, state.records, state.theta
        )

        def move(current: tuple[RecordState, Array], key: Array) -> Any:
            step_key, accept_key = jax.random.split(key)
            z = current[0].z + random_step(step_key, walk, 1)
            theta = self.prior.constrain(z)
            records = jax.vmap(self.simulator.record, (0, None))(noise, theta)
            return self._metropolis(accept_key, self._at(z, theta, records, seen), current, seen)

        start = (state, self.prior.log_prob_unconstrained(state.z))
        (state, _), accepted = jax.lax.scan(move, start, jax.random.split(move_key, self.num_moves))
        return state, accepted.mean()

    def _joint(
        self, key: Array, state: RecordState, seen: Seen, walk: Walk
    ) -> tuple[RecordState, Array]:
        step_key, draw_key, accept_key = jax.random.split(key, 3)
        z = state.z + random_step(step_key, walk, 2)
        theta = self.prior.constrain(z)
        proposed = self._at(z, theta, self.simulator.database(draw_key, theta), seen)
        current = (state, self.prior.log_prob_unconstrained(state.z))
        (state, _), accepted = self._metropolis(accept_key, proposed, current, seen)
        return state, accepted

    def _metropolis(
        self, key: Array, proposed: RecordState, current: tuple[RecordState, Array], seen: Seen
    ) -> Any:
        log_prior = self.prior.log_prob_unconstrained(proposed.z)
        log_ratio = (
            log_prior
            - current[1]
            + seen.temperature * log_difference(proposed.log_eta, current[0].log_eta)
        )
        accepted = accept(key, log_ratio)
        return choose(accepted, (proposed, log_prior), current), accepted.astype(float)

    # Statistics -----------------------------------------------------------------------------------

    def _at(self, z: Array, theta: Array, records: Any, seen: Seen) -> RecordState:
        terms = self._terms(records)
        total = terms.sum(0)
        return RecordState(z, theta, records, terms, total, self._log_eta(total, seen))

    def _terms(self, records: Any) -> Array:
        """Contributions in whole units where the query has a unit, so that sums on a lattice stay
        on it.
        """
        terms = self.query.contributions(records)
        unit = getattr(self.query, "unit", None)
        return terms if unit is None else jnp.round(terms / unit)

    def statistic(self, total: Array) -> Array:
        """s (..., k) of sums in units of the query."""
        unit = getattr(self.query, "unit", None) or 1.0
        return total * unit / self.query.divisor

    def _log_eta(self, total: Array, seen: Seen) -> Array:
        return seen.mechanism.log_prob(seen.observed, self.statistic(total))


@functools.lru_cache(maxsize=16)
def _shared_moves(*parts: Any) -> RecordMoves:
    return RecordMoves(*parts)
