"""The rules of trust: from evidence to an assessment, without simulation or side effects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from noisewise._core.weights import MANY_DRAWS, MIN_DRAWS
from noisewise.assessment.assessment import Assessment
from noisewise.assessment.evidence import CertificateFacts, Evidence, Source
from noisewise.assessment.reasons import Reason, ReasonKind, Verdict
from noisewise.posteriors.kinds import AGAINST_THE_MECHANISM

CERTIFYING_SIZE = 800.0
"""Effective draws of a certified posterior: averages are then known to 3.5% of a posterior sd."""
MAX_MISSED = 0.1
"""Share of the posterior: what an approximation misses beyond this is more than a thin tail."""
SUSPICIOUS_EFFICIENCY = 0.05
"""Below this share of draws that count, the approximation is at fault, however noisy the
simulator: of normal laws one that is off by 1.7 sd, or six times too wide in two directions."""
FAIR_EFFICIENCY = 0.5
"""From this share on the approximation is not at fault: a better one would save less than half of
the simulations."""

MAX_SHIFT = 0.25
"""Posterior sds between the means of a learnt posterior and of its certified correction: a 95%
interval that is shifted so far still holds 94% of the posterior."""
MAX_STRETCH = 1.25
"""Ratio of the sds of the same two: a 95% interval that much too short still holds 88%."""


def judge(evidence: Evidence) -> Assessment:
    """How far to trust an answer, given all that is known about it. Pure: the same evidence always
    gives the same assessment.

    The level is that of the worst reason:

    - trust: the draws are exact or certified, worth 400 or more, predict the observation, and carry
      no warning;
    - trust with care: a few hundred draws, a warning, corrected draws of a poor approximation, or
      an approximation that nothing has checked;
    - do not trust: fewer than 100 draws, predictions unlike the observation, answers that
      contradict the stated mechanism, a certificate that shows that the approximation is poor, or
      draws that ignore some of what is known.

    >>> from noisewise.assessment.evidence import Evidence, Source
    >>> found = judge(Evidence(source=Source.METHOD, exact=False, worth=1000.0))
    >>> found.level.value, [reason.kind.value for reason in found.reasons]
    ('trust with care', ['unchecked', 'enough draws'])
    """
    reasons = [
        *_of_method(evidence),
        _of_size(evidence),
        *_of_certificate(evidence),
        *_of_prediction(evidence),
    ]
    if any(finding.kind in AGAINST_THE_MECHANISM for finding in evidence.findings):
        reasons.append(Reason(ReasonKind.MECHANISM_CONTRADICTED))
    if evidence.findings:
        reasons.append(Reason(ReasonKind.WARNINGS))
    reasons.sort(key=lambda reason: -reason.level.severity)
    return Assessment(
        level=reasons[0].level,
        reasons=tuple(reasons),
        verdict=_verdict(evidence),
        evidence=evidence,
    )


def too_few_for_intervals(worth: float) -> bool:
    """Whether draws that are worth this many independent ones are too few for intervals."""
    return not worth >= MIN_DRAWS  # NaN is too few


def certifies(*, exact: bool, effective_size: float, missed_share: float) -> bool:
    """Whether the weighted draws of a certificate stand for the posterior; `exact` says whether
    their weights can be believed.
    """
    return exact and effective_size >= CERTIFYING_SIZE and missed_share <= MAX_MISSED


def certificate_verdict(
    *,
    certified: bool,
    efficiency: float,
    relative_variance: float,
    num_draws: int,
    explained: bool = True,
) -> Verdict:
    """The verdict of a certificate, as its table says.

    Args:
        certified: What `certifies` returned.
        efficiency: The effective share of draws from q if the likelihood were known.
        relative_variance: 1 + rv, simulations that an exact draw costs with a perfect q.
        num_draws: N, the weighted draws.
        explained: Whether what was found explains the observation.
    """
    if certified:
        return Verdict.CERTIFIED
    if not explained:
        return Verdict.UNEXPLAINED
    # where q is inefficient, 1 + rv is known to a factor of two
    enough = CERTIFYING_SIZE if efficiency >= FAIR_EFFICIENCY else CERTIFYING_SIZE / 2.0
    better_would_do = num_draws / relative_variance >= enough
    return Verdict.POOR if better_would_do else Verdict.NOT_CERTIFIABLE


def speaks_against(missed_share: float, efficiency: float) -> bool:
    """Whether what a certificate measured speaks against the approximation itself."""
    return missed_share > MAX_MISSED or efficiency < SUSPICIOUS_EFFICIENCY


# The parts ----------------------------------------------------------------------------------------


def _verdict(evidence: Evidence) -> Verdict:
    """The verdict of the certificate, or what the method itself stands for."""
    if evidence.certificate is not None:
        return Verdict(evidence.certificate.verdict)
    if not evidence.exact:
        return Verdict.NOT_CERTIFIED
    return Verdict.EXACT_BUT_FEW if too_few_for_intervals(evidence.worth) else Verdict.EXACT


def _of_method(evidence: Evidence) -> Iterator[Reason]:
    """At most one reason: the worst fact about how the draws were made."""
    if evidence.source is Source.NAIVE:
        yield Reason(ReasonKind.NOISE_IGNORED)
    elif evidence.partial:
        yield Reason(ReasonKind.PARTIAL)
    elif evidence.exact:
        yield Reason(ReasonKind.EXACT_METHOD)
    elif evidence.certificate is None:
        yield Reason(ReasonKind.UNCHECKED)


def _of_size(evidence: Evidence) -> Reason:
    """What the number of draws allows; the error of an unchecked approximation is not in it."""
    numbers: dict[str, Any] = {"worth": evidence.worth}
    if too_few_for_intervals(evidence.worth):
        return Reason(ReasonKind.TOO_FEW_DRAWS, numbers)
    if not evidence.exact and evidence.certificate is None:
        numbers["unchecked"] = True
    kind = ReasonKind.ENOUGH_DRAWS if evidence.worth >= MANY_DRAWS else ReasonKind.SOME_DRAWS
    return Reason(kind, numbers)


def _of_certificate(evidence: Evidence) -> Iterator[Reason]:
    """What the certificate says about these draws, which may be its corrected ones."""
    facts = evidence.certificate
    if facts is None:
        return
    corrected = evidence.source is Source.CORRECTED
    if facts.verdict == Verdict.CERTIFIED:
        if corrected:
            numbers = {"num_simulations": facts.num_simulations}
            yield Reason(ReasonKind.CORRECTED_CERTIFIED, numbers)
        else:
            yield _of_comparison(facts)
    elif evidence.exact:
        kind = ReasonKind.CORRECTED_NOT_CERTIFIED if corrected else ReasonKind.EXACT_NOT_CERTIFIED
        yield Reason(kind, {"verdict": facts.verdict})
    else:
        yield Reason(_of_failed_certificate(facts))


def _of_failed_certificate(facts: CertificateFacts) -> ReasonKind:
    """Whether the certificate speaks against the approximation, or cannot tell."""
    undecided = facts.verdict == Verdict.NOT_CERTIFIABLE and facts.effective_size > 0.0
    if undecided and not speaks_against(facts.missed_share, facts.efficiency):
        return ReasonKind.CERTIFICATE_UNDECIDED
    return ReasonKind.CERTIFICATE_AGAINST


def _of_comparison(facts: CertificateFacts) -> Reason:
    """Whether the draws agree with the corrected ones that the certificate vouches for."""
    off = {name: pair for name, pair in facts.comparison.items() if not _agree(*pair)}
    if not off:
        numbers = {"num_simulations": facts.num_simulations}
        return Reason(ReasonKind.AGREES_WITH_CERTIFIED, numbers)
    name, (shift, ratio) = _farthest(off)
    return Reason(ReasonKind.DIFFERS_FROM_CERTIFIED, {"name": name, "shift": shift, "ratio": ratio})


def _agree(shift: float, ratio: float) -> bool:
    """Whether a learnt marginal is as good as the corrected one for most uses."""
    return abs(shift) <= MAX_SHIFT and 1.0 / MAX_STRETCH <= ratio <= MAX_STRETCH


def _farthest(off: Mapping[str, tuple[float, float]]) -> tuple[str, tuple[float, float]]:
    """The parameter that is off the most, in sds and in log ratios."""
    return max(off.items(), key=lambda item: abs(item[1][0]) + abs(math.log(max(item[1][1], 1e-9))))


def _of_prediction(evidence: Evidence) -> Iterator[Reason]:
    """What the posterior predictive check says."""
    facts = evidence.prediction
    if facts is None:
        return
    if facts.passed:
        yield Reason(ReasonKind.PREDICTS, {"p_value": facts.p_value})
        return
    yield Reason(
        ReasonKind.DOES_NOT_PREDICT,
        {
            "p_value": facts.p_value,
            "name": facts.worst_name,
            "p_of_name": facts.worst_p_value,
        },
    )
