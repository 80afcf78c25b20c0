"""Certify one posterior by importance weights from fresh simulations."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

import jax
import numpy as np

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise._core.weights import MIN_DRAWS
from noisewise.assessment.judging import certificate_verdict, certifies
from noisewise.diagnostics.certificates.certificate import Certificate
from noisewise.diagnostics.certificates.comparison import compare
from noisewise.diagnostics.certificates.defensive import (
    DefensiveProposal,
    ImprovedProposal,
    proposal_from,
)
from noisewise.diagnostics.certificates.measuring import Measured, measure
from noisewise.diagnostics.posterior_checks import instead_of
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.pool import Part, Pool, cheapest_proposal
from noisewise.inference.exact.soundness import (
    SMALLEST_MODE,
    Soundness,
    chance_of_noise,
    contradicted,
    log_bound,
    smallest_mode,
    weights_of,
)
from noisewise.inference.exact.weighted_draws import ImportanceDraws
from noisewise.inference.learned.common.fits import AbstractFit
from noisewise.mechanisms.base import Capability
from noisewise.model.observation import pair_of
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Finding, Kind, WeightedSamples
from noisewise.posteriors.weighted_samples import pareto_k
from noisewise.samplers.t_mixtures import fitted_mixture

_MEASURING = 0.2
"""Share of the simulations that tell a poor q from a noisy likelihood: 1 + rv needs some hundreds,
and a fifth costs the draws only 10% of their precision."""
_CHECK_SHARE = 0.2
"""Share of the draws that improve the proposal, and of those that decide on the verdict: 7,800 of
the default number each."""
_SHARES_OF_LAW = (0.5, 0.9)
"""Shares of the draws that may come from the law that was fitted to the first: as many as from p,
which suits where a fit is hard, or nearly all.
"""
_NUM_IMPROVING = 2
"""Stages that improve the proposal: draws from q say little of tails in which it is thin."""
_FOLLOWING_UP = 0.02
"""Share of the simulations that follow up the largest weights: 1,000 of the default number find a
mode again that a single draw came upon."""
_NUM_FOLLOWING = 2
"""Stages of these: the first finds the mode, the second its shape."""


def certify(
    key: Array,
    posterior: AbstractPosterior,
    model: PrivateModel | Any,
    observed: Any = None,
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

    Four fifths of the simulations make draws. The first fifth of these, from p, improves it: the
    others are from r = (1 - b) p + b w, w a law fitted to the first, in two stages, and wider in
    the tails if weights vary there. The second fifth decides on the verdict, and three fifths are
    reported: draws that decide about themselves are biased. All of them together may only take the
    label away. A few simulations follow up the largest
    weights, so that a mode that q misses shows once a draw comes near it. The rest tell a poor q
    from a noisy likelihood, at places theta_j taken from the corrected draws. Half of them are
    single, with

        r_j = pi(theta_j) eta(s_dp | s_j) / (p(theta_j) Z),

    whose mean is consistent for E[posterior / p] = 1 / efficiency, however noisy eta is; half are
    repeated at 12 places, for 1 + rv. Where the weights are poor such places would mislead, because
    1 + rv is much larger away from the posterior: half of this fifth then goes to two refits of a
    heavy-tailed proposal first, and places come from the best set of draws. The verdicts are
    explained in `Certificate`.

    Args:
        key: JAX PRNG key.
        posterior: The approximation q.
        model: The model it was inferred with; its mechanism must have a density. Or an `Analysis`.
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
    key, (model, observed) = as_key(key), pair_of(model, observed)
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
    first_key, draw_key, check_key, follow_key, measure_key = jax.random.split(key, 5)
    num_measuring = round(_MEASURING * num_simulations)
    num_following = round(_FOLLOWING_UP * num_simulations)
    num_drawn = num_simulations - num_measuring - num_following
    num_first = num_check = round(_CHECK_SHARE * num_drawn)
    with run.progress():
        early, improved, num_unusable = _improved(first_key, run, proposal, num_first)
        check, draws = ImportanceDraws(run, improved), ImportanceDraws(run, improved)
        check.add(check_key, num_check)
        draws.add(draw_key, num_drawn - num_first - num_check)
        num_unusable += sum(_drop_unusable(part, improved) for part in (check, draws))
        followed = _followed_up(follow_key, run, (*early, check, draws), num_following)
        sound = _soundness(follow_key, run, check, draws, followed)
        weighed = _weigh(draws, check, proposal, sound)
        measured = measure(measure_key, run, draws, proposal, num_measuring, sound=weighed.sound)
    corrected = _corrected(run, draws, weighed, measured)
    verdict = certificate_verdict(
        certified=weighed.sound,
        efficiency=measured.efficiency,
        relative_variance=measured.relative_variance,
        num_draws=draws.num,
        explained=Kind.UNEXPLAINED not in {finding.kind for finding in weighed.doubts},
    )
    certificate = Certificate(
        verdict=verdict.value,
        **weighed.stored,
        **measured._asdict(),
        comparison=compare(posterior, corrected),
        proposal=proposal.description,
        num_draws=draws.num,
        num_repeats=num_simulations - draws.num,
        num_failed=run.num_failed,
        num_unusable=num_unusable,
        corrected=corrected,
    )
    run.diagnostics["verdict"] = certificate.verdict
    run.diagnostics[SMALLEST_MODE] = certificate.unseen_share
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
    doubts: tuple[Finding, ...]
    """Why the draws are not called exact."""
    exact: bool
    """Whether they are."""
    sound: bool
    """Whether they are certified."""

    @property
    def stored(self) -> dict[str, Any]:
        """What a certificate holds of them."""
        return {name: getattr(self, name) for name in self._fields[:-3]}


def _improved(
    key: Array, run: InferenceRun, proposal: DefensiveProposal, num: int
) -> tuple[list[ImportanceDraws], DefensiveProposal | ImprovedProposal, int]:
    """Early draws, the first half of them from p, the second from what was learnt from the first;
    the proposal for the others; and how many draws could not be used.
    """
    early: list[ImportanceDraws] = []
    improved: DefensiveProposal | ImprovedProposal = proposal
    pool, num_unusable = Pool(run), 0
    for stage_key in jax.random.split(key, _NUM_IMPROVING):
        draws = ImportanceDraws(run, improved)
        draws.add(stage_key, num // _NUM_IMPROVING)
        early.append(draws)
        num_unusable += _drop_unusable(draws, improved)
        pool.include(improved, draws.z, draws.s, usable=np.isfinite(draws.log_weights))
        if pool.effective_size:
            law = cheapest_proposal(pool, proposal.share)
            known = pool.effective_size >= MIN_DRAWS  # few draws flatter a law fitted to them
            shares = _SHARES_OF_LAW if known else _SHARES_OF_LAW[:1]
            mixed = [ImprovedProposal(proposal, law, share) for share in shares]
            improved = max(mixed, key=pool.reliable_share)
    return early, improved, num_unusable


def _drop_unusable(draws: ImportanceDraws, proposal: DefensiveProposal | ImprovedProposal) -> int:
    """Give weight 0 to draws that cannot be used; returns how many."""
    unusable = proposal.unusable(draws.z, draws.log_proposal)
    draws.log_weights[unusable] = -np.inf
    return int(unusable.sum())


def _followed_up(
    key: Array, run: InferenceRun, sets: tuple[ImportanceDraws, ...], num: int
) -> Pool:
    """All draws with `num` more around the largest weights, however lucky these are."""
    pool = Pool(run)
    for draws in sets:
        usable = np.isfinite(draws.log_weights)
        pool.include(draws.proposal, draws.z, draws.s, usable=usable)
    for stage_key in jax.random.split(key, _NUM_FOLLOWING):
        z, log_weights, log_density, _ = pool.targets()
        if len(z):
            law = fitted_mixture(z, log_weights, log_density, daring=True)
            pool.add(stage_key, [Part(law, max(1, num // _NUM_FOLLOWING))])
    return pool


def _soundness(
    key: Array, run: InferenceRun, check: ImportanceDraws, draws: ImportanceDraws, pool: Pool
) -> Soundness:
    """What the check, and all draws together, say of those that are reported."""
    seen = weights_of(check.log_weights)
    share = run.settings["prior_share"]
    chance = 1.0
    if check.effective_size:
        of_all = check.num * pool.reliable_share(check.proposal)
        seen["reliable_size"] = min(seen["reliable_size"], of_all)
        seen["tail_size"] = check.num * pool.tail_share(check.proposal)
        noise_key = jax.random.fold_in(key, 1)
        chance = chance_of_noise(noise_key, run, check.s, check.weights)
    return Soundness(
        num=check.num,
        num_final=draws.num,
        **seen,
        contradicted=contradicted(pool, draws.proposal, draws.num),
        chance=chance,
        smallest_mode=smallest_mode(
            share * (check.num + draws.num), log_bound(run), seen["log_evidence"]
        ),
    )


def _weigh(
    draws: ImportanceDraws, check: ImportanceDraws, proposal: DefensiveProposal, sound: Soundness
) -> _Weighed:
    """What the weights say; without a positive one, nothing."""
    doubts = sound.findings(draws.num)
    if draws.effective_size == 0.0:
        return _Weighed(
            0.0, 1.0, float("inf"), 1.0, 1.0, -np.inf, np.inf, doubts, exact=False, sound=False
        )
    missed = _missed(check if check.effective_size else draws, proposal)
    exact = not doubts and not draws.contradicts(sound)
    certified = certifies(
        exact=exact,
        effective_size=sound.size_of(draws.num),
        missed_share=missed,
    )
    return _Weighed(
        draws.effective_size,
        float(draws.weights.max()),
        pareto_k(draws.log_weights),
        _missed(draws, proposal),
        sound.smallest_mode,
        draws.log_evidence,
        draws.log_evidence_se,
        doubts,
        exact,
        certified,
    )


def _missed(draws: ImportanceDraws, proposal: DefensiveProposal) -> float:
    """The share of the posterior where the proposal is mostly prior."""
    kept = np.flatnonzero(draws.weights > 0.0)
    z = draws.z[kept]
    mostly_prior = proposal.prior_part(z, proposal.log_prob(z)) > 0.5
    return float(draws.weights[kept][mostly_prior].sum())


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
    run.add(*(doubt for doubt in weighed.doubts if doubt.kind is not Kind.WEIGHTS_POOR))
    return run.weighted(
        run.model.prior.constrain(draws.z[kept]), log_weights, draws.s[kept], exact=weighed.exact
    )
