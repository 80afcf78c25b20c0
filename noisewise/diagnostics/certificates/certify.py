"""Certify one posterior by importance weights from fresh simulations."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import logsumexp

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise.assessment.judging import certificate_verdict, certifies
from noisewise.diagnostics.certificates.certificate import Certificate
from noisewise.diagnostics.certificates.comparison import compare
from noisewise.diagnostics.certificates.defensive import DefensiveProposal, proposal_from
from noisewise.diagnostics.certificates.measuring import Measured, measure
from noisewise.diagnostics.posterior_checks import instead_of
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.weighted_draws import ImportanceDraws, trustworthy
from noisewise.inference.learned.common.fits import AbstractFit
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, WeightedSamples
from noisewise.posteriors.weighted_samples import pareto_k

_MEASURING = 0.2
"""Share of the simulations that tell a poor q from a noisy likelihood: 1 + rv needs some hundreds,
and a fifth costs the draws only 10% of their precision."""
_NONE_SEEN = 3.0
"""Where 3 events are expected, none is seen with probability 5%."""


def certify(
    key: Array,
    posterior: AbstractPosterior,
    model: PrivateModel,
    observed: Any,
    num_simulations: int = 50_000,
    *,
    prior_share: float = 0.1,
    executor: Executor | None = None,
    progress: bool = False,
) -> Certificate:
    r"""How good is `posterior`, and what are its draws worth once they are corrected?

        theta_i ~ p = (1 - a) q + a pi,   s_i ~ f(. | theta_i),
        w_i = pi(theta_i) eta(s_dp | s_i) / p(theta_i)

    in unconstrained coordinates, one simulation per draw. Given any q the weighted draws have the
    posterior as their law, and the mean weight is an unbiased estimate of the evidence. q is the
    posterior's own density where it has one, else a heavy-tailed law fitted to its draws. The share
    a of prior draws bounds the weights, and shows what q misses.

    Four fifths of the simulations make draws. The others tell a poor q from a noisy likelihood, at
    places theta_j taken from the corrected draws. Half of them are single simulations, with

        r_j = pi(theta_j) eta(s_dp | s_j) / (p(theta_j) Z),

    whose mean is consistent for E[posterior / p] = 1 / efficiency, however noisy eta is; half are
    repeated at 12 places, for 1 + rv. Where the weights are poor such places would mislead, because
    1 + rv is much larger away from the posterior: half of this fifth then goes to two refits of a
    heavy-tailed proposal first, and places come from the best set of draws. The verdicts are
    explained in `Certificate`.

    Args:
        key: JAX PRNG key.
        posterior: The approximation q.
        model: The model it was inferred with; its mechanism must have a density.
        observed: The observation, shape (k',), or the `Release`.
        num_simulations: Simulations in all, 1000 or more.
        prior_share: a, the share of draws from the prior.
        executor: Where Python simulators run; None is this process.
        progress: Whether to show a progress bar.

    Returns:
        A `Certificate` with a verdict, and with corrected draws that may serve as the answer.

    Raises:
        InvalidTypeError: If `posterior` is a fit for many observations, or no posterior.
        InvalidInputError: If its draws are NaN, constant, or of other parameters than the model's.
        MissingCapabilityError: If the mechanism has no density.

    >>> import noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> rough = nw.inference.ImportanceSampling(num_stages=0, num_final=2000).infer(
    ...     jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> certificate = certify(jax.random.key(1), rough, problem.model, problem.observed, 10_000)
    >>> certificate.verdict, certificate.effective_size > 1000, certificate.corrected.report.exact
    ('certified', True, True)
    """
    key = as_key(key)
    num_simulations = integer("num_simulations", at_least=1000)(num_simulations)
    share = number("prior_share", above=0.0, below=1.0)(prior_share)
    run = start(
        posterior, model, observed, num_simulations, share, executor=executor, progress=progress
    )
    return certified_by(key, run, posterior)


def certified_by(key: Array, run: InferenceRun, posterior: AbstractPosterior) -> Certificate:
    """What `certify` returns, in a run that `start` began.

    Args:
        key: JAX PRNG key.
        run: The run, whose settings hold the number of simulations and the share of the prior.
        posterior: The approximation q.
    """
    num_simulations, share = run.settings["num_simulations"], run.settings["prior_share"]
    proposal = proposal_from(posterior, run.model.prior, share)
    draw_key, measure_key = jax.random.split(key)
    num_repeats = round(_MEASURING * num_simulations)
    with run.progress():
        draws = ImportanceDraws(run, proposal)
        draws.add(draw_key, num_simulations - num_repeats)
        unusable = proposal.unusable(draws.z, draws.log_proposal)
        draws.log_weights[unusable] = -np.inf
        weighed = _weigh(draws, proposal)
        measured = measure(measure_key, run, draws, proposal, num_repeats, sound=weighed.sound)
    corrected = _corrected(run, draws, weighed, measured)
    verdict = certificate_verdict(
        certified=weighed.sound,
        efficiency=measured.efficiency,
        relative_variance=measured.relative_variance,
        num_draws=draws.num,
    )
    certificate = Certificate(
        verdict=verdict.value,
        **weighed._asdict(),
        **measured._asdict(),
        comparison=compare(posterior, corrected),
        proposal=proposal.description,
        num_draws=draws.num,
        num_repeats=num_repeats,
        num_failed=run.num_failed,
        num_unusable=int(unusable.sum()),
        corrected=corrected,
    )
    run.diagnostics["verdict"] = certificate.verdict
    run.diagnostics["smallest mode that would have been noticed"] = certificate.unseen_share
    run.add(*certificate.findings)
    corrected.report = run.report(exact=corrected.report.exact)
    return certificate


def start(
    posterior: Any, model: Any, observed: Any, num_simulations: int, share: float, **options: Any
) -> InferenceRun:
    """The work of a certificate, after its inputs are checked."""
    if isinstance(posterior, AbstractFit):
        raise InvalidTypeError(
            f"certify needs the posterior of one observation, got a {type(posterior).__name__}:"
            f" write certify(key, fit.{posterior.usage[0]}, model, observed)."
        )
    if not isinstance(posterior, AbstractPosterior) or not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            "certify(key, posterior, model, observed) needs a posterior, as infer returns it, and"
            f" a PrivateModel; got {describe(posterior)} and"
            f" {describe(model)}{instead_of(posterior)}."
        )
    if np.isnan(posterior.theta).any():
        bad = int(np.isnan(posterior.theta).any(axis=1).sum())
        raise InvalidInputError(
            f"{bad} of {len(posterior.theta)} draws of the posterior hold NaN: leave them out."
        )
    if Capability.DENSITY not in model.mechanism.capabilities:
        raise MissingCapabilityError(
            "certify weighs simulations by the mechanism's density, which"
            f" {type(model.mechanism).__name__} lacks. Use calibrate, which only simulates."
        )
    settings = {
        "num_simulations": num_simulations,
        "prior_share": share,
        "posterior": posterior.report.method,
    }
    return InferenceRun(
        "certify",
        settings,
        model,
        model.observation(observed),
        max_simulations=num_simulations,
        **options,
    )


class _Weighed(NamedTuple):
    """What the weights say by themselves."""

    effective_size: float
    max_weight: float
    pareto_k: float
    missed_share: float
    unseen_share: float
    log_evidence: float
    log_evidence_se: float

    @property
    def exact(self) -> bool:
        """Whether the weights can be believed."""
        return trustworthy(self.effective_size, self.pareto_k)

    @property
    def sound(self) -> bool:
        """Whether they certify the corrected draws."""
        return certifies(
            exact=self.exact, effective_size=self.effective_size, missed_share=self.missed_share
        )


def _weigh(draws: ImportanceDraws, proposal: DefensiveProposal) -> _Weighed:
    """What the weights say; without a positive one, nothing."""
    if draws.effective_size == 0.0:
        return _Weighed(0.0, 1.0, float("inf"), 1.0, 1.0, draws.log_evidence, draws.log_evidence_se)
    weights = draws.weights
    return _Weighed(
        draws.effective_size,
        float(weights.max()),
        pareto_k(draws.log_weights),
        float(weights[proposal.prior_part(draws.z, draws.log_proposal) > 0.5].sum()),
        _unseen_share(draws, proposal),
        draws.log_evidence,
        draws.log_evidence_se,
    )


def _unseen_share(draws: ImportanceDraws, proposal: DefensiveProposal) -> float:
    """The smallest posterior share in which the prior draws would have three effective draws, if
    it were shaped like the mass found.

    The effective size of n prior draws is n Z^2 / E[eta^2 | prior], a mean that all draws serve to
    estimate.
    """
    log_prior = proposal.prior.log_prob(draws.z)
    found = np.isfinite(draws.log_weights)
    log_eta = draws.log_weights[found] - log_prior[found] + draws.log_proposal[found]
    log_square = logsumexp(draws.log_weights[found] + log_eta) - np.log(draws.num)
    expected = proposal.share * draws.num * np.exp(2.0 * draws.log_evidence - log_square)
    return float(min(1.0, _NONE_SEEN / max(expected, 1e-300)))


def _corrected(
    run: InferenceRun, draws: ImportanceDraws, weighed: _Weighed, measured: Measured
) -> WeightedSamples:
    """The weighted draws as a posterior, and what was measured in its report."""
    run.diagnostics |= {
        "effective size": weighed.effective_size,
        "Pareto k": weighed.pareto_k,
        "log evidence": weighed.log_evidence,
        "log evidence se": weighed.log_evidence_se,
        "efficiency of q": measured.efficiency,
        "1 + rv": measured.relative_variance,
        "missed share": weighed.missed_share,
    }
    kept = np.isfinite(draws.z).all(axis=1)
    log_weights = draws.log_weights[kept] if weighed.effective_size else np.zeros(int(kept.sum()))
    return run.weighted(
        run.model.prior.constrain(draws.z[kept]), log_weights, draws.s[kept], exact=weighed.exact
    )
