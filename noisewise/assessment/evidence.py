"""What is known about an answer when it is judged: facts, without any judgement."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from noisewise._core.weights import MIN_DRAWS
from noisewise.posteriors import AbstractPosterior, Finding, Kind
from noisewise.posteriors.findings import with_finding
from noisewise.posteriors.summaries import MIN_TAIL_DRAWS

if TYPE_CHECKING:
    from noisewise.diagnostics import Certificate, PredictiveCheck


class Source(enum.StrEnum):
    """Where draws come from, as far as a judgement depends on it."""

    METHOD = "method"
    CORRECTED = "corrected"
    """Corrected by a certificate: its weighted draws."""
    NAIVE = "naive"
    """For comparison: ignores the noise."""
    CONFIDENTIAL = "confidential"
    """For comparison: needs the confidential data."""

    @classmethod
    def of(cls, method: str) -> Source:
        """The source of the draws of a method, by its slug."""
        return _SOURCES.get(method, cls.METHOD)


_SOURCES = {
    "certify": Source.CORRECTED,
    "naive": Source.NAIVE,
    "confidential": Source.CONFIDENTIAL,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CertificateFacts:
    """What a certificate measured; see `noisewise.diagnostics.Certificate`.

    Attributes:
        verdict: As it was recorded when the certificate was made.
        effective_size: Exact draws that the corrected ones are worth.
        efficiency: The effective share of draws if the likelihood were known.
        missed_share: The share of the posterior that the approximation misses.
        num_simulations: Simulations of the certificate.
        comparison: For each parameter, the shift of the mean in corrected sds, and the ratio of the
            sds.
        findings: What the certificate says about itself.
    """

    verdict: str
    effective_size: float
    efficiency: float
    missed_share: float
    num_simulations: int
    comparison: Mapping[str, tuple[float, float]]
    findings: tuple[Finding, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictionFacts:
    """What a posterior predictive check found.

    Attributes:
        passed: Whether the observation looks like the simulated ones.
        p_value: Of all statistics together.
        worst_name: The statistic with the smallest p-value of its own.
    """

    passed: bool
    p_value: float
    worst_name: str
    worst_p_value: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that a judgement depends on.

    Make it with `Evidence.of`, or state the facts of draws that have no report:

    Attributes:
        source: Where the draws come from.
        exact: Whether the draws follow the posterior, up to Monte Carlo error.
        worth: How many independent draws these are worth.
        power: How much of the mechanism's density was taken into account, from 0 to 1; None is all.
        num_dropped: Simulations that failed twice and were dropped.
        findings: What a reader must know, except what the certificate says about itself.
        certificate: What a certificate measured, if there is one.
        certifiable: Whether the mechanism has a density, so that a certificate could be made.
        prediction: What a posterior predictive check found, if one was made.

    >>> from noisewise.assessment import judge
    >>> judge(Evidence(source=Source.METHOD, exact=True, worth=1000.0)).level.value
    'trust'
    """

    source: Source
    exact: bool
    worth: float
    power: float | None = None
    num_dropped: int = 0
    findings: tuple[Finding, ...] = ()
    certificate: CertificateFacts | None = None
    certifiable: bool = True
    prediction: PredictionFacts | None = None

    @property
    def partial(self) -> bool:
        """Whether the observation was not taken into account in full."""
        return self.power is not None and self.power < 1.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings in words, each once."""
        return tuple(dict.fromkeys(finding.sentence for finding in self.findings))

    @classmethod
    def of(
        cls,
        posterior: AbstractPosterior,
        *,
        certificate: Certificate | None = None,
        approximation: AbstractPosterior | None = None,
        check: PredictiveCheck | None = None,
        certifiable: bool = True,
        found: Iterable[Finding] = (),
    ) -> Evidence:
        """The facts about a posterior.

        Args:
            posterior: The answer: draws of a method, or those that a certificate corrected.
            certificate: The certificate of these draws, or of `approximation`.
            approximation: What the certificate was made for, if `posterior` is what it corrected.
            check: A posterior predictive check of `posterior`.
            certifiable: Whether a certificate could be made.
            found: What else was found, about the stated mechanism say.
        """
        report, facts = posterior.report, None
        findings, source = report.findings, Source.of(report.method)
        if certificate is not None:
            findings = certificate.other_findings(approximation or posterior)
            corrected = source is Source.CORRECTED
            facts = certificate.facts if corrected else certificate.facts_about(posterior)
        worth = measured_size(posterior)
        if worth >= MIN_DRAWS:  # of fewer no interval is shown
            findings = (*findings, *_about_tails(posterior))
        for finding in found:
            findings = with_finding(findings, finding)
        dropped = report.numbers.get("simulations dropped")
        return cls(
            source=source,
            exact=report.exact,
            worth=worth,
            power=report.power,
            num_dropped=dropped if isinstance(dropped, int) else 0,
            findings=findings,
            certificate=facts,
            certifiable=certifiable,
            prediction=None if check is None else check.facts,
        )


def measured_size(posterior: AbstractPosterior) -> float:
    """The effective size, or the number of draws where these are too few to measure it."""
    size = float(posterior.effective_size)
    return float(len(posterior.theta)) if math.isnan(size) else size


def _about_tails(posterior: AbstractPosterior) -> tuple[Finding, ...]:
    """That ends of intervals rest on few draws, where they do."""
    thin = posterior.thin_tails
    if not thin:
        return ()
    ends = [" and ".join(ends) for ends in thin.values()]
    found = Finding(
        Kind.TAILS_THIN, {"names": list(thin), "ends": ends, "fewer_than": int(MIN_TAIL_DRAWS)}
    )
    return (found,)
