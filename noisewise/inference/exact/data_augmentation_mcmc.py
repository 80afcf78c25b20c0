"""Data augmentation over records."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from noisewise._core.arrays import Array, integer
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.chains import Trace, finished_draws, step_root
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.exact.record_moves import (
    RecordMoves,
    advanced,
    record_moves,
    records_refusal,
)
from noisewise.inference.exact.record_state import TARGET_ACCEPTANCE, RecordState, Seen, Walk
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, StopKind

SWEEPS_PER_SEGMENT = 50
"""Sweeps between adaptations, and between looks at R-hat and budgets: enough that compiled programs
run long, few enough to adapt ten times in the default warm-up.
"""

_MAX_RECORDS = 10_000_000
"""Records drawn in a segment, over all chains: with more records segments have fewer sweeps, so
that a budget of time is kept.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataAugmentationMCMC(AbstractMethod):
    r"""Chains on (theta, x) with the posterior as their invariant law, for models of independent
    records:

        p(theta, x | s_dp)  ~  pi(theta)  prod_i f(x_i | theta)  eta(s_dp | T(x)).

    A sweep has three parts. It draws theta given the records. It proposes a new value for each
    record in turn from f(. | theta), accepted with probability min(1, eta*/eta) (Ju, Awan, Gong
    and Rao 2022), which is at least exp(-epsilon) under an epsilon-DP mechanism. And it ends with
    `num_moves` moves that are not centred (Yu and Meng 2011): theta changes while the noise u of
    the records x_i = G(theta, u_i) stays fixed. Without these, chains mix more slowly the smaller
    epsilon is, since n records hold theta in place.

    The method needs an `AbstractRecordModel`, a query that is a sum over records and a mechanism
    with a density; a new record costs O(k). Chains start at draws from the prior, steps are tuned
    in `num_warmup` sweeps, and then sweeps are made until the bulk effective size of every
    parameter is `target_ess` and R-hat at most 1.01, or `max_sweeps` is reached. A sweep counts as
    1 + `num_moves` simulations per chain. The draws of s with theta follow p(s | s_dp).

    Args:
        num_chains: Chains that run side by side.
        num_warmup: Sweeps that tune the steps, and are dropped.
        target_ess: Effective draws of every parameter at which the chains stop.
        max_sweeps: Sweeps after the warm-up, at most.
        num_moves: Moves per sweep that are not centred.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> method = nw.inference.DataAugmentationMCMC(num_chains=16, num_warmup=100, target_ess=400)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.report.exact, posterior.effective_size >= 400
    (True, True)
    """

    slug: ClassVar[str] = "da-mcmc"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.DENSITY})
    needs_noise: ClassVar[bool] = True
    instead: ClassVar[str] = "Use SMCABC or PrivatePosteriorEstimation, which only need samples."

    num_chains: int = 32
    num_warmup: int = 500
    target_ess: int = 4000
    max_sweeps: int = 20_000
    num_moves: int = 5

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        self._convert(
            num_chains=integer("num_chains", at_least=2),
            num_warmup=integer("num_warmup", at_least=0),
            target_ess=integer("target_ess", at_least=1),
            max_sweeps=integer("max_sweeps", at_least=1),
            num_moves=integer("num_moves", at_least=0),
        )

    def _refusal(self, model: PrivateModel) -> str | None:
        return records_refusal(model, type(self).__name__)

    def _infer(self, key: Array, run: InferenceRun) -> Draws:
        sampled = self.run_chains(key, run)
        return finished_draws(run, sampled.trace, settled=sampled.settled)

    def run_chains(
        self, key: Array, run: InferenceRun, *, most_sweeps: int = SWEEPS_PER_SEGMENT
    ) -> ChainRun:
        """Run chains until the target is met or a budget ends; `chains.segment` continues from
        there.

        Args:
            key: A PRNG key.
            run: The run.
            most_sweeps: Sweeps in a segment; fewer if there are many records.
        """
        look_key, theta_key, record_key, sweep_key = jax.random.split(key, 4)
        run.look_at_observation(look_key)
        num_chains = (
            self.num_chains if run.remaining is None else min(self.num_chains, run.remaining)
        )
        run.spend(num_chains)
        theta = run.model.prior.sample(theta_key, max(num_chains, 1000))
        moves, seen = (
            record_moves(run.model, num_moves=self.num_moves),
            Seen(run.model.mechanism, run.observed, 1.0),
        )
        state = moves.start(record_key, theta[:num_chains], seen)
        walk = Walk(
            step_root(run.model.prior.unconstrain(theta)),
            np.full(3, 2.4 / np.sqrt(state.z.shape[1])),
        )
        sampled = ChainRun(
            Chains(moves, seen, state, walk, sweep_key, most_sweeps), Trace(self.target_ess)
        )
        sampled.trace.add(theta=state.theta[None], s=moves.statistic(state.total)[None])
        with contextlib.suppress(OutOfBudget):
            self._settle(sampled, run)
        run.diagnostics |= {
            f"{name} acceptance": share for name, share in sampled.chains.shares().items()
        }
        return sampled

    def _settle(self, sampled: ChainRun, run: InferenceRun) -> None:
        """Warm up, then draw segments until the target is met or the sweeps are made."""
        chains, trace = sampled.chains, sampled.trace
        for done in range(0, self.num_warmup, chains.length):
            trace.restart(**chains.segment(run))
            chains.tune(done, trace.pooled())
            run.record(warmup=done + chains.length, **chains.shares())
        trace.restart(**chains.segment(run))
        sampled.settled = True
        while not trace.complete() and trace.length < self.max_sweeps:
            trace.add(**chains.segment(run))
            run.record(sweeps=trace.length, effective_size=trace.effective_size, **chains.shares())
        if not trace.complete():
            run.end(StopKind.SWEEPS_MADE, limit=self.max_sweeps)


@dataclasses.dataclass
class Chains:
    """Where the chains are, how they walk, and how the last segment went.

    Attributes:
        moves: The moves of a sweep.
        seen: Mechanism and observation.
        state: Where the chains are.
        walk: The random walks' steps.
        key: From which each segment takes its own key.
        most_sweeps: Sweeps in a segment, at most.
        accepted: Shares of moves accepted in the last segment; None before the first.
        segments: How many segments were run.
    """

    moves: RecordMoves
    seen: Seen
    state: RecordState
    walk: Walk
    key: Array
    most_sweeps: int
    accepted: Any = None
    segments: int = 0

    @property
    def length(self) -> int:
        """Sweeps in a segment: fewer if there are many records."""
        databases = len(self.state.z) * self.moves.databases_per_sweep
        return int(
            np.clip(_MAX_RECORDS // (databases * self.state.terms.shape[1]), 1, self.most_sweeps)
        )

    def segment(self, run: InferenceRun) -> dict[str, np.ndarray]:
        """Draws of the next segment, each (sweeps, chains, ...)."""
        run.spend(self.length * len(self.state.z) * self.moves.databases_per_sweep)
        key = jax.random.fold_in(self.key, self.segments)
        chains = (self.moves, key, self.state, self.seen, self.walk, self.length)
        self.state, kept, self.accepted = advanced(run, *chains)
        self.segments += 1
        return {"theta": kept["theta"], "s": kept["s"], "z": kept["z"]}

    def tune(self, done: int, z: np.ndarray) -> None:
        """Shape the steps like the pooled draws z (n, p) of the last segment, and adjust their
        lengths towards an acceptance of .3. `done` sweeps of the warm-up came before.
        """
        shares = np.array([self.accepted[0], self.accepted[2], self.accepted[3]])
        lengths = self.walk.lengths * np.exp(
            (shares - TARGET_ACCEPTANCE) * 3.0 / np.sqrt(1.0 + done / SWEEPS_PER_SEGMENT)
        )
        self.walk = Walk(step_root(z), lengths)

    def shares(self) -> dict[str, float]:
        """Shares of moves accepted in the last segment, by name."""
        if self.accepted is None:
            return {}
        shares = {"record": float(self.accepted[1])}
        if self.moves.databases_per_sweep > 1:
            shares["interweaving"] = float(self.accepted[2])
        return shares


@dataclasses.dataclass
class ChainRun:
    """Chains, what they have drawn, and whether their warm-up is over."""

    chains: Chains
    trace: Trace
    settled: bool = False
