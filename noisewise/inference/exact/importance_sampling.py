"""Importance sampling by the mechanism's density."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import ClassVar

import numpy as np

from noisewise._core.arrays import Array, describe, integer, number
from noisewise._core.keys import split
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.exact.pool import Pool
from noisewise.inference.exact.searches import Searches
from noisewise.inference.exact.soundness import Soundness
from noisewise.inference.exact.weighted_draws import (
    ImportanceDraws,
    UnconstrainedPrior,
    relative_variance,
)
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import AbstractPosterior, Kind, WeightedSamples
from noisewise.samplers.adaptive_importance import Proposal, fitted_proposal

_CHECK_SHARE = 0.2
"""Simulations that decide whether the final draws are called exact, as a share of these."""

_MIN_CHECK = 100
"""Simulations of that check, at least: fewer show neither an effective size nor a tail."""

_REPEATS = 256
"""Simulations at each place where 1 + rv is measured, which is also its largest value."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportanceSampling(AbstractMethod):
    r"""Draws weighted by the mechanism's density: exact for any simulator, in few dimensions.

        theta_i ~ q,   x_i ~ f(. | theta_i),   w_i = pi(theta_i) eta(s_dp | s(x_i)) / q(theta_i)

    One simulation per draw makes eta an unbiased estimate of the likelihood, so the weighted draws
    have the posterior as their law, with no tolerance. q is the prior (`num_stages=0`, right when
    epsilon is small), or a heavy-tailed fit to the weighted draws of earlier stages mixed with the
    prior, in unconstrained coordinates. With `proposal`, any posterior, the first stage draws from
    a fit to that instead of the prior, so that an approximation is turned into exact draws. The
    report holds the log evidence, the effective size, Pareto k, and

        1 + rv = E[eta^2 | theta] / E[eta | theta]^2,

    averaged over the posterior: how many simulations a draw costs even with a perfect q. Where it
    is in the thousands the effective size stays near 1, whatever the budget: such models need
    record-wise moves.

    Args:
        num_stages: Stages that adapt the proposal; 0 draws from the prior.
        num_adapt: Simulations in each of these stages.
        num_final: Simulations in the final stage, which gives the draws.
        prior_share: Share of prior draws in adapted proposals.
        proposal: A posterior that the first stage draws from a fit to; None for the prior.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> method = nw.inference.ImportanceSampling()
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.report.exact, posterior.effective_size > 1000
    (True, True)
    """

    slug: ClassVar[str] = "importance"
    serves_unknown_parameters: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.DENSITY})
    instead: ClassVar[str] = "Use SMCABC or PrivatePosteriorEstimation, which only need samples."

    num_stages: int = 3
    num_adapt: int = 4000
    num_final: int = 20_000
    prior_share: float = 0.1
    proposal: AbstractPosterior | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        self._convert(
            num_stages=integer("num_stages", at_least=0),
            num_adapt=integer("num_adapt", at_least=100),
            num_final=integer("num_final", at_least=10),
            prior_share=number("prior_share", above=0.0, below=1.0),
        )
        if self.proposal is not None and not isinstance(self.proposal, AbstractPosterior):
            raise InvalidTypeError(
                "proposal must be a posterior, as infer returns it, or None, got"
                f" {describe(self.proposal)}."
            )

    def _infer(self, key: Array, run: InferenceRun) -> WeightedSamples:
        search_key, look_key, check_key, final_key, end_key = split(key, 5)
        pool = Pool(run)
        searches = Searches(
            pool, start=self._first_proposal(run, pool.prior), prior_share=self.prior_share
        )
        draws: ImportanceDraws | None = None
        sound: Soundness | None = None
        num_adapt, num_check, num_final = self._sizes(run.remaining)
        with contextlib.suppress(OutOfBudget):
            proposal = self._adapted(search_key, look_key, searches, num_adapt)
            sound = searches.checked(
                check_key, proposal, num_check, num_final, alone=not self.num_stages
            )
            draws = ImportanceDraws(run, proposal)
            draws.add(final_key, num_final)
            run.record(stage=self.num_stages, effective_size=draws.effective_size)
            run.stop_if_spent()
        if draws is not None and draws.num:
            return _finished(end_key, run, draws, sound)
        if not pool.num:
            raise OutOfBudget(run.stop)
        if not pool.effective_size:
            return _impossible(run, pool.z, pool.s)
        return pool.posterior()

    def _adapted(self, key: Array, look_key: Array, searches: Searches, num: int) -> Proposal:
        """The proposal after all stages; the first draws show whether the observation is
        surprising.
        """
        pool, run = searches.pool, searches.pool.run
        keys = split(key, self.num_stages + 1)
        for stage in range(self.num_stages):
            if stage == 0:
                size = searches.explore(keys[0], num)
            else:
                size = searches.adapt(keys[stage], num)
            if stage == 0:
                run.look_at_observation(look_key, pool.s if self.proposal is None else None)
            run.record(stage=stage, effective_size=size)
        if not self.num_stages:
            run.look_at_observation(look_key)
        return searches.proposal() if pool.effective_size else searches.start

    def _sizes(self, remaining: int | None) -> tuple[int, int, int]:
        """Simulations of a stage, of the check and of the final draws: all smaller where the budget
        is too small for the settings, so that there are final draws.
        """
        num_check = max(math.ceil(_CHECK_SHARE * self.num_final), _MIN_CHECK)
        sizes = (self.num_adapt, num_check, self.num_final)
        planned = self.num_stages * self.num_adapt + num_check + self.num_final
        if remaining is None or remaining >= planned:
            return sizes
        adapt, check = (max(1, size * remaining // planned) for size in sizes[:2])
        return adapt, check, max(1, remaining - self.num_stages * adapt - check)

    def _first_proposal(self, run: InferenceRun, start: UnconstrainedPrior) -> Proposal:
        if self.proposal is None:
            return start
        return _fit_to(run, self.proposal, start, self.prior_share)


def _fit_to(
    run: InferenceRun, posterior: AbstractPosterior, start: UnconstrainedPrior, share: float
) -> Proposal:
    """The mixture fitted to a posterior's draws, which must have the model's parameters."""
    if posterior.names != run.model.names:
        raise InvalidInputError(
            f"proposal must be a posterior of {', '.join(run.model.names)}, got one of"
            f" {', '.join(posterior.names)}."
        )
    return fitted_proposal(
        run.model.prior.unconstrain(posterior.theta), posterior.weights, start, share
    )


def _finished(
    key: Array, run: InferenceRun, draws: ImportanceDraws, sound: Soundness | None
) -> WeightedSamples:
    """The posterior, with 1 + rv in the report if a few more simulations are left."""
    if draws.effective_size == 0.0:
        return _impossible(run, draws.z, draws.s)
    with contextlib.suppress(OutOfBudget):
        run.diagnostics["1 + rv"] = relative_variance_at(key, run, draws.posterior())
    return draws.posterior(sound)


def _impossible(run: InferenceRun, z: np.ndarray, s: np.ndarray) -> WeightedSamples:
    """Draws of the proposal with equal weights, if no simulation can have led to the
    observation.
    """
    run.warn(Kind.PROPOSAL_IMPOSSIBLE, num=len(z))
    return run.weighted(run.model.prior.constrain(z), np.zeros(len(z)), s, exact=False)


def relative_variance_at(
    key: Array, run: InferenceRun, posterior: AbstractPosterior, num: int = 16
) -> float:
    """1 + rv = mean(eta^2) / mean(eta)^2 over 256 simulations at each of some draws, averaged.

    It is at most 256, and too low if the truth is larger: the rare simulations that matter then do
    not occur.

    Args:
        key: A PRNG key.
        run: The run.
        posterior: Where the places are drawn from.
        num: How many places.

    Raises:
        OutOfBudget: If fewer than a quarter of the places can be simulated.
    """
    draw_key, simulate_key = split(key)
    theta = np.repeat(posterior.sample(draw_key, num), _REPEATS, axis=0)
    s = run.statistics(simulate_key, theta)
    complete = len(s) // _REPEATS
    if complete < num // 4:
        raise OutOfBudget("too few simulations left")
    log_eta = run.log_eta(s)[: complete * _REPEATS].reshape(complete, _REPEATS)
    return relative_variance(log_eta)
