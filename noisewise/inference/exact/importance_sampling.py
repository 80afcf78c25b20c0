"""Importance sampling by the mechanism's density."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import ClassVar

import jax
import numpy as np

from noisewise._core.arrays import Array, describe, integer, number
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.exact.weighted_draws import (
    ImportanceDraws,
    UnconstrainedPrior,
    relative_variance,
)
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import AbstractPosterior, Kind, WeightedSamples
from noisewise.samplers.adaptive_importance import Proposal, fitted_proposal

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
        *keys, look_key, end_key = jax.random.split(key, self.num_stages + 3)
        start = UnconstrainedPrior(run.model.prior)
        proposal = self._first_proposal(run, start)
        best: ImportanceDraws | None = None
        for stage, stage_key in enumerate(keys):
            draws = ImportanceDraws(run, proposal)
            is_last = stage == self.num_stages
            try:
                draws.add(stage_key, self.num_final if is_last else self.num_adapt)
            except OutOfBudget:
                break
            if stage == 0:
                run.look_at_observation(look_key, draws.s if self.proposal is None else None)
            run.record(stage=stage, effective_size=draws.effective_size)
            best = _preferred(best, draws, is_complete=is_last and run.stop.finished)
            if not run.stop.finished:
                break
            if draws.effective_size > 0.0:
                proposal = fitted_proposal(draws.z, draws.weights, start, self.prior_share)
        if best is None:
            raise OutOfBudget(run.stop)
        return _finished(end_key, run, best)

    def _first_proposal(self, run: InferenceRun, start: UnconstrainedPrior) -> Proposal:
        if self.proposal is None:
            return start
        return _fit_to(run, self.proposal, start, self.prior_share)


def _preferred(
    best: ImportanceDraws | None, draws: ImportanceDraws, *, is_complete: bool
) -> ImportanceDraws:
    """The final stage if it is complete, else the stage that is worth most."""
    if best is None or is_complete or draws.effective_size > best.effective_size:
        return draws
    return best


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


def _finished(key: Array, run: InferenceRun, draws: ImportanceDraws) -> WeightedSamples:
    """The posterior, with 1 + rv in the report if a few more simulations are left."""
    if draws.effective_size == 0.0:
        return _impossible(run, draws)
    with contextlib.suppress(OutOfBudget):
        run.diagnostics["1 + rv"] = relative_variance_at(key, run, draws.posterior())
    return draws.posterior()


def _impossible(run: InferenceRun, draws: ImportanceDraws) -> WeightedSamples:
    """Draws of the proposal with equal weights, if no simulation can have led to the
    observation.
    """
    run.warn(Kind.PROPOSAL_IMPOSSIBLE, num=draws.num)
    return run.weighted(
        run.model.prior.constrain(draws.z), np.zeros(draws.num), draws.s, exact=False
    )


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
    draw_key, simulate_key = jax.random.split(key)
    theta = np.repeat(posterior.sample(draw_key, num), _REPEATS, axis=0)
    s = run.statistics(simulate_key, theta)
    complete = len(s) // _REPEATS
    if complete < num // 4:
        raise OutOfBudget("too few simulations left")
    log_eta = run.log_eta(s)[: complete * _REPEATS].reshape(complete, _REPEATS)
    return relative_variance(log_eta)
