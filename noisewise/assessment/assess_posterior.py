"""`nw.assess`: find the facts about a posterior by simulation, and judge them."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Executor
from typing import Any

import jax

from noisewise._core.arrays import Array, as_key, describe, stage_key
from noisewise.assessment.assessment import Assessment
from noisewise.assessment.evidence import Evidence
from noisewise.assessment.judging import judge
from noisewise.assessment.quick_check import CHECK_SIMULATIONS
from noisewise.diagnostics.certificates.certificate import Certificate
from noisewise.diagnostics.certificates.certify import certify as make_certificate
from noisewise.diagnostics.posterior_checks import check_posterior
from noisewise.diagnostics.predictive import PredictiveCheck, predictive_check
from noisewise.diagnostics.stated_mechanism import mechanism_findings
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import Capability
from noisewise.model.observation import pair_of
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior


def assess(
    key: Array,
    posterior: AbstractPosterior,
    model: PrivateModel | Any,
    observed: Any = None,
    *,
    certify: int | None = None,
    certificate: Certificate | None = None,
    num_simulations: int = CHECK_SIMULATIONS,
    executor: Executor | None = None,
    progress: bool = False,
) -> Assessment:
    """How far can this posterior be trusted? Checks whether it predicts the observation, certifies
    it if asked, and weighs what its report says.

    | level | when |
    |---|---|
    | trust | exact or certified, 400 draws or more, predicts the observation, no warning |
    | trust with care | 100 to 400 draws, warnings, or an approximation that nothing has checked |
    | do not trust | fewer than 100 draws, ignores the noise, or a check failed |

    Draws are counted by their effective size. `print` the result, or show it in a notebook: it
    lists the reasons, the worst first. The rules are in `noisewise.assessment.judge`. Reports and
    the command line judge by the same rules.

    Args:
        key: JAX PRNG key.
        posterior: The posterior to judge, as `infer` returns it, or `certificate.corrected`.
        model: The model it was inferred with.
        observed: The observation, shape (k',), or the `Release`.
        certify: Simulations for a certificate, such as 50_000; worth their time for an
            approximation. None makes none.
        certificate: A certificate of this posterior from `nw.diagnostics.certify`, or the one whose
            `corrected` draws `posterior` is.
        num_simulations: Simulations for the predictive check, 200 or more. It is left out if the
            mechanism cannot be sampled.
        executor: Where Python simulators run; None is this process.
        progress: Whether to show a progress bar while certifying.

    Returns:
        An `Assessment` with `level`, `reasons`, `verdict`, and the `certificate` and `check` that
        it is based on.

    Raises:
        InvalidTypeError: If `posterior`, `model` or `certificate` is of another type.
        InvalidInputError: If `posterior` is not of the model's parameters, or `certify` and
            `certificate` are both given.
        MissingCapabilityError: If `certify` is given, and the mechanism has no density.

    >>> import noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> posterior = nw.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> found = nw.assess(jax.random.key(1), posterior, problem.model, problem.observed)
    >>> print(found.level, [str(reason.kind) for reason in found.reasons])
    trust ['exact method', 'enough draws', 'predicts']
    >>> report = nw.posteriors.Report("rough")
    >>> rough = nw.posteriors.Draws(posterior.theta + 1.0, posterior.names, report)
    >>> found = nw.assess(
    ...     jax.random.key(1), rough, problem.model, problem.observed, certify=10_000
    ... )
    >>> print(found.level)
    do not trust
    """
    key = stage_key(as_key(key), "assess")
    model, observed = pair_of(model, observed)
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            "assess(key, posterior, model, observed) needs a PrivateModel third, got"
            f" {describe(model)}."
        )
    check_posterior(posterior, "posterior, the second argument of assess,", model)
    _check_certificate(certify, certificate)
    observed = model.observation(observed)
    check_key, certify_key = jax.random.split(key)
    check = _predicted(check_key, posterior, model, observed, num_simulations, executor)
    if certify is not None:
        certificate = make_certificate(
            certify_key,
            posterior,
            model,
            observed,
            certify,
            executor=executor,
            progress=progress,
        )
    evidence = Evidence.of(
        posterior,
        certificate=certificate,
        check=check,
        certifiable=Capability.DENSITY in model.mechanism.capabilities,
        found=mechanism_findings(posterior, model, observed),
    )
    return dataclasses.replace(judge(evidence), certificate=certificate, check=check)


def _check_certificate(certify: int | None, certificate: Certificate | None) -> None:
    if certificate is not None and not isinstance(certificate, Certificate):
        raise InvalidTypeError(
            f"certificate must come from nw.diagnostics.certify, got {describe(certificate)}."
        )
    if certificate is not None and certify is not None:
        raise InvalidInputError(
            "assess takes a certificate, or certify= to make one, not both: leave one out."
        )


def _predicted(
    key: Array,
    posterior: AbstractPosterior,
    model: PrivateModel,
    observed: Any,
    num: int,
    executor: Executor | None,
) -> PredictiveCheck | None:
    """The predictive check; None if the mechanism cannot be sampled."""
    if Capability.SAMPLE not in model.mechanism.capabilities:
        return None
    return predictive_check(key, posterior, model, observed, num, executor=executor)
