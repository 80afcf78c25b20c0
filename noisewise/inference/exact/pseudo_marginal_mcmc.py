"""Markov chains on unbiased estimates of the likelihood."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from noisewise._core.arrays import Array, integer
from noisewise._core.keys import generator
from noisewise._core.row_keys import key_words
from noisewise.errors import InvalidInputError
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.chains import Trace, finished_draws, step_root
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.exact.centred_prior import CentredPrior, centred_prior
from noisewise.inference.exact.data_augmentation_mcmc import SWEEPS_PER_SEGMENT
from noisewise.inference.exact.pilot import Pilot, choose_inner, run_pilot
from noisewise.inference.exact.pseudo_marginal import (
    PseudoMarginalState,
    PseudoMarginalTarget,
    Simulate,
    drawn_statistics,
    fresh_keys,
    move,
)
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import Kind, StopKind
from noisewise.posteriors.base import AbstractPosterior

_NOISY_VARIANCE = 3.0
"""Variance of log L-hat above which the report warns: chains stick where an estimate came out too
high.
"""

_LENGTHS = 2.4 * 2.0 ** np.array([-2.0, -1.5, -1.0, -0.5, 0.0, 0.5])
"""Lengths of steps that are tried, in standard deviations of the posterior divided by sqrt(d)."""
_NUM_FOR_ROOT = 4000
"""Draws of the pilot that the first steps are shaped like: as many as it has in a stage."""
_USUAL_LENGTH = 4
"""Where 2.4 stands among `_LENGTHS`: the best length for a normal target."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PseudoMarginalMCMC(AbstractMethod):
    r"""Random walks on theta with the likelihood replaced by an unbiased estimate that is kept with
    the state:

        L-hat = 1/M sum_j eta(s_dp | s(x_j)),  x_j ~ f(. | theta)
        accept with min(1, pi(theta') L-hat' / (pi(theta) L-hat)).

    The chains have the posterior as their invariant law, for any simulator and any M = `num_inner`
    (Andrieu and Roberts 2009); the draws of s with theta follow p(s | s_dp). Unless given, M is
    the smallest power of two for which log L-hat has a variance of at most 2 at the posterior.
    Where 512 do not suffice the chains stick and the report says so: it holds that variance and a
    lower bound of 1 + rv, roughly the M that is needed.

    The chains start at draws of adapted importance sampling. Effects of a hierarchy move in
    coordinates in which each is centred by the share that these draws show. Steps are shaped and
    their length chosen, by the mean squared jump, in `num_warmup` sweeps. Then all chains move
    until the bulk effective size of every parameter is `target_ess`, or `max_sweeps` or a budget is
    spent. Each sweep takes `num_chains` times M simulations.

    With `num_blocks` > 1 a proposal keeps the randomness of all simulations but one block (Tran,
    Kohn, Quiroz and Villani 2016), so that L-hat' differs less from L-hat, but the state is tied
    to what is kept. At epsilon = 10 that is worth a fifth more effective draws per simulation on
    the regression and costs a third and more on epidemics and the normal mean.

    Args:
        num_chains: Chains that run side by side.
        num_warmup: Sweeps that tune the steps, and are dropped.
        target_ess: Effective draws of every parameter at which the chains stop.
        max_sweeps: Sweeps after the warm-up, at most.
        num_inner: Simulations in an estimate of the likelihood; None to choose.
        num_blocks: Blocks that these are divided in; a proposal keeps all but one.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> chains = {"num_chains": 8, "num_inner": 4, "num_warmup": 20, "target_ess": 50}
    >>> method = nw.inference.PseudoMarginalMCMC(**chains)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.report.exact, posterior.effective_size > 80
    (True, True)
    """

    slug: ClassVar[str] = "pseudo-marginal"
    serves_unknown_parameters: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.DENSITY})
    instead: ClassVar[str] = "Use SMCABC or PrivatePosteriorEstimation, which only need samples."

    max_simulations: int | None = 5_000_000
    num_chains: int = 64
    num_warmup: int = 300
    target_ess: int = 4000
    max_sweeps: int = 20_000
    num_inner: int | None = None
    num_blocks: int = 1

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        self._convert(
            num_chains=integer("num_chains", at_least=2),
            num_warmup=integer("num_warmup", at_least=0),
            target_ess=integer("target_ess", at_least=1),
            max_sweeps=integer("max_sweeps", at_least=1),
            num_inner=integer("num_inner", at_least=1, optional=True),
            num_blocks=integer("num_blocks", at_least=1),
        )
        if self.num_inner is not None and self.num_blocks > self.num_inner:
            raise InvalidInputError(
                f"num_blocks must be at most num_inner = {self.num_inner}, the simulations that"
                f" they divide, got {self.num_blocks}."
            )

    def _infer(self, key: Array, run: InferenceRun) -> AbstractPosterior:
        pilot_key, inner_key, chain_key = jax.random.split(key, 3)
        pilot = run_pilot(pilot_key, run)
        if pilot.hopeless:
            return pilot.posterior(run)
        trace, settled, chains = Trace(self.target_ess), False, None
        with contextlib.suppress(OutOfBudget):
            chains = self._started(inner_key, generator(chain_key), run, pilot)
            trace.add(**chains.draws())
            self._warm_up(run, chains, trace)
            trace.restart(**chains.segment())
            settled = True
            while not trace.complete() and trace.length < self.max_sweeps:
                trace.add(**chains.segment())
                run.record(
                    sweeps=trace.length,
                    effective_size=trace.effective_size,
                    acceptance=chains.acceptance,
                )
            if not trace.complete():
                run.end(StopKind.SWEEPS_MADE, limit=self.max_sweeps)
        if chains is None:
            return pilot.posterior(run)
        run.diagnostics["acceptance"] = chains.acceptance
        return finished_draws(run, trace, settled=settled)

    def _started(
        self, key: Array, rng: np.random.Generator, run: InferenceRun, pilot: Pilot
    ) -> _Chains:
        """Chains at draws of the pilot: fewer if the budget would not last for 100 sweeps."""
        num_inner = self._chosen_inner(key, rng, run, pilot)
        num_chains = self.num_chains
        if run.remaining is not None:
            num_chains = int(np.clip(run.remaining // (100 * num_inner), 2, num_chains))
        run.diagnostics["num_inner"] = num_inner
        prior = centred_prior(run.model.prior, pilot.draws.z, pilot.draws.weights)
        target = PseudoMarginalTarget(prior, self._simulation(key, run), run.log_eta)
        w, keys = (
            prior.from_z(pilot.starts(rng, num_chains)),
            fresh_keys(rng, num_chains, num_inner),
        )
        return _Chains(
            rng,
            target,
            target.at(w, keys, w),
            _root_of(prior, pilot, rng),
            min(self.num_blocks, num_inner),
        )

    def _chosen_inner(
        self, key: Array, rng: np.random.Generator, run: InferenceRun, pilot: Pilot
    ) -> int:
        inner = choose_inner(key, rng, run, pilot, self.num_inner)
        if inner is None:
            return self.num_inner or 1
        run.record(num_inner=inner.num, variance=inner.variance)
        run.diagnostics |= {
            "variance of log L-hat": inner.variance,
            "1 + rv": inner.relative_variance,
        }
        if inner.variance > _NOISY_VARIANCE:
            run.warn(Kind.LIKELIHOOD_NOISY, variance=inner.variance, num_inner=inner.num)
        return inner.num

    @staticmethod
    def _simulation(key: Array, run: InferenceRun) -> Simulate:
        """Simulations under given keys, of the kind of `key`."""
        typed = key_words(key)[1] is not None

        def simulate(keys: np.ndarray, theta: np.ndarray) -> np.ndarray:
            num_chains, num_inner = keys.shape[:2]
            words: Any = keys.reshape(-1, 2)
            rows = np.repeat(theta, num_inner, axis=0)
            s = run.all_statistics(
                jax.random.wrap_key_data(words, impl="threefry2x32") if typed else words, rows
            )
            return s.reshape(num_chains, num_inner, -1)

        return simulate

    def _warm_up(self, run: InferenceRun, chains: _Chains, trace: Trace) -> None:
        """Shape the steps by the pooled draws of each segment, and choose their length by the jumps
        of the second half.
        """
        sweeps = self.num_warmup
        if run.remaining is not None:
            sweeps = min(sweeps, run.remaining // (3 * chains.rows))
        for done in range(0, sweeps, SWEEPS_PER_SEGMENT):
            trace.restart(**chains.segment(min(SWEEPS_PER_SEGMENT, sweeps - done)))
            chains.tune(trace.pooled(), forget=2 * done < sweeps)
            run.record(warmup=trace.length + done, acceptance=chains.acceptance)
        chains.choose_length()


def _root_of(prior: CentredPrior, pilot: Pilot, rng: np.random.Generator) -> np.ndarray:
    """The root of the covariance of the pilot's draws in the coordinates of the chains."""
    if not prior.shares:
        return pilot.root
    return step_root(prior.from_z(pilot.starts(rng, _NUM_FOR_ROOT)))


@dataclasses.dataclass
class _Chains:
    """Where the chains are, how they step, and how the last segment went."""

    rng: np.random.Generator
    target: PseudoMarginalTarget
    state: PseudoMarginalState
    root: np.ndarray
    num_blocks: int
    acceptance: float = 0.0

    def __post_init__(self) -> None:
        self.lengths = _LENGTHS / np.sqrt(self.state.z.shape[1])
        self._forget()

    def _forget(self) -> None:
        self.tried, self.jumped = np.zeros(len(self.lengths)), np.zeros(len(self.lengths))

    @property
    def rows(self) -> int:
        """Simulations per sweep."""
        return self.state.keys.shape[0] * self.state.keys.shape[1]

    def segment(self, sweeps: int = SWEEPS_PER_SEGMENT) -> dict[str, np.ndarray]:
        """Draws of some sweeps, fewer if a budget ends them; each (sweeps, chains, ...)."""
        kept: list[dict[str, np.ndarray]] = []
        moved: list[float] = []
        for _ in range(sweeps):
            try:
                moved.append(self._sweep())
            except OutOfBudget:
                if not kept:
                    raise
                break
            kept.append(self.draws())
        self.acceptance = float(np.mean(moved))
        return {name: np.concatenate([draws[name] for draws in kept]) for name in kept[0]}

    def draws(self) -> dict[str, np.ndarray]:
        """The present draws, as a segment of one sweep."""
        theta, s = self.target.prior.constrain(self.state.z), drawn_statistics(self.rng, self.state)
        return {"theta": theta[None], "s": s[None], "z": self.state.z[None]}

    def _sweep(self) -> float:
        noise = self.rng.normal(size=self.state.z.shape)
        which = self.rng.integers(len(self.lengths), size=len(noise))
        steps = self.lengths[which, None] * noise @ self.root.T
        self.state, moved = move(self.rng, self.target, self.state, steps, self.num_blocks)
        np.add.at(self.tried, which, 1.0)
        np.add.at(self.jumped, which, moved * (self.lengths[which] ** 2) * (noise**2).sum(axis=1))
        return float(moved.mean())

    def tune(self, z: np.ndarray, *, forget: bool) -> None:
        """Shape the steps like draws z (n, p), if enough of them differ. With `forget`, jumps are
        counted from here on.
        """
        if self.acceptance * len(z) > 10 * z.shape[1]:
            self.root = step_root(z)
        if forget:
            self._forget()

    def choose_length(self) -> None:
        """The length with the largest mean squared jump, or 2.4 / sqrt(d) if none was tried."""
        best = (
            np.argmax(self.jumped / np.maximum(self.tried, 1.0))
            if self.jumped.any()
            else _USUAL_LENGTH
        )
        self.lengths = self.lengths[[best]]
        self._forget()
