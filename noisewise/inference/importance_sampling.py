"""Importance sampling by the mechanism's density."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np
from scipy.special import logsumexp

from noisewise._arrays import Array, integer, number
from noisewise.errors import SimulationError
from noisewise.inference.base import AbstractMethod
from noisewise.inference.work import OutOfBudget, Work
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import WeightedSamples
from noisewise.samplers.adaptive_importance import fitted_proposal

_REPEATS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportanceSampling(AbstractMethod):
    r"""theta_i ~ q, x_i ~ f(. | theta_i), w_i = pi(theta_i) eta(s_dp | s(x_i)) / q(theta_i): exact for any simulator.

    One simulation per draw makes eta an unbiased estimate of the likelihood, so the weighted draws have the posterior as
    their law, with no tolerance. q is the prior (`num_stages=0`, right when epsilon is small), or a heavy-tailed fit to the
    weighted draws of earlier stages mixed with the prior, in unconstrained coordinates. The report holds the effective size, Pareto k, and

        1 + rv = E[eta^2 | theta] / E[eta | theta]^2,

    averaged over the posterior: how many simulations a draw costs even with a perfect q. Where it is in the thousands the
    effective size stays near 1, whatever the budget: such models need record-wise moves.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> posterior = nw.inference.ImportanceSampling().infer(jax.random.key(0), problem.model, problem.observed, progress=False)
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

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        integer("num_stages", at_least=0)(self.num_stages)
        integer("num_adapt", at_least=100)(self.num_adapt)
        integer("num_final", at_least=10)(self.num_final)
        number("prior_share", above=0.0, below=1.0)(self.prior_share)

    def _infer(self, key: Array, work: Work) -> WeightedSamples:
        keys = jax.random.split(key, self.num_stages + 2)
        proposal: Any = _PriorProposal(work.model.prior)
        best: WeightedSamples | None = None
        for stage in range(self.num_stages + 1):
            num = self.num_final if stage == self.num_stages else self.num_adapt
            try:
                z, s, log_weights = _weighed(keys[stage], work, proposal, num, first=stage == 0)
            except OutOfBudget:
                break
            posterior = work.weighted(work.model.prior.constrain(z), log_weights, s, exact=True)
            work.record(stage=stage, effective_size=posterior.effective_size)
            complete = stage == self.num_stages and work.stopped == "finished"
            if best is None or complete or posterior.effective_size > best.effective_size:
                best = posterior
            if work.stopped != "finished":
                break
            proposal = fitted_proposal(z, posterior.weights, _PriorProposal(work.model.prior), self.prior_share)
        if best is None:
            raise SimulationError(f"Nothing could be simulated: {work.stopped}.")
        return _finished(keys[-1], work, best)


@dataclasses.dataclass(frozen=True)
class _PriorProposal:
    """The prior in unconstrained coordinates."""

    prior: Any

    def sample(self, key: Array, num: int) -> np.ndarray:
        return self.prior.unconstrain(self.prior.sample(key, num))

    def log_prob(self, z: np.ndarray) -> np.ndarray:
        return self.prior.log_prob_unconstrained(z)


def _weighed(
    key: Array, work: Work, proposal: Any, num: int, *, first: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw_key, simulate_key, look_key = jax.random.split(key, 3)
    z = proposal.sample(draw_key, num)
    s = work.statistics(simulate_key, work.model.prior.constrain(z))
    if first:
        work.look_at_observation(look_key, s)
    z = z[: len(s)]
    log_weights = work.model.prior.log_prob_unconstrained(z) + work.log_eta(s) - proposal.log_prob(z)
    return z, s, np.where(np.isnan(log_weights), -np.inf, log_weights)


def _finished(key: Array, work: Work, posterior: WeightedSamples) -> WeightedSamples:
    """The diagnostics, which need a few simulations more, and the verdict."""
    work.diagnostics |= {"effective size": posterior.effective_size, "Pareto k": posterior.pareto_k}
    with contextlib.suppress(OutOfBudget):
        work.diagnostics["1 + rv"] = relative_variance(key, work, posterior)
    if posterior.effective_size < 100 or posterior.pareto_k > 0.7:
        work.warn(
            f"The weights are poor (effective size {posterior.effective_size:.0f}, Pareto k {posterior.pareto_k:.2f}): take more "
            "simulations, or for models of records DataAugmentationMCMC or ExactSMC."
        )
    return work.weighted(posterior.theta, posterior.log_weights, posterior.statistics, exact=True)


def relative_variance(key: Array, work: Work, posterior: WeightedSamples, num: int = 200) -> float:
    """1 + rv at draws from the posterior: the mean over them of E[eta^2] / E[eta]^2 given theta, by repeated simulation.

    With R repetitions (sum eta)^2 - sum eta^2 estimates R (R-1) E[eta]^2 without bias.
    """
    draw_key, simulate_key = jax.random.split(key)
    theta = np.repeat(posterior.sample(draw_key, num), _REPEATS, axis=0)
    s = work.statistics(simulate_key, theta)
    complete = len(s) // _REPEATS
    if complete < 10:
        raise OutOfBudget("too few simulations left")
    log_eta = work.log_eta(s)[: complete * _REPEATS].reshape(complete, _REPEATS)
    top = logsumexp(log_eta, axis=1, keepdims=True)
    eta = np.exp(log_eta - np.where(np.isfinite(top), top, 0.0))
    squares = np.sum(eta**2, axis=1)
    products = np.sum(eta, axis=1) ** 2 - squares
    return float((_REPEATS - 1) * squares.sum() / max(products.sum(), 1e-300))
