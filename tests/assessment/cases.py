"""Evidence of every kind, and what follows from it."""

import dataclasses
from typing import NamedTuple

from noisewise.assessment import CertificateFacts, Evidence, PredictionFacts
from noisewise.assessment.evidence import Source
from noisewise.posteriors import Finding, Kind

CERTIFIED, POOR, UNEXPLAINED, UNDECIDED = (
    "certified",
    "the approximation is poor",
    "the observation is not explained",
    "not certifiable by simulation",
)
TRUST, CARE, DISTRUST = "trust", "trust with care", "do not trust"


def certificate(verdict, **changes):
    """A certificate of draws that agree with the corrected ones."""
    usual = CertificateFacts(
        verdict=verdict,
        effective_size=1500.0 if verdict == CERTIFIED else 300.0,
        efficiency=0.7,
        missed_share=0.01,
        num_simulations=10_000,
        comparison={"a": (0.1, 1.1), "b": (-0.2, 0.9)},
    )
    return dataclasses.replace(usual, **changes)


def compared(**pairs):
    return certificate(CERTIFIED, comparison=pairs)


METHOD = Evidence(source=Source.METHOD, exact=False, worth=1000.0)
EXACT = dataclasses.replace(METHOD, exact=True)
NAIVE = dataclasses.replace(METHOD, source=Source.NAIVE)
CONFIDENTIAL = dataclasses.replace(EXACT, source=Source.CONFIDENTIAL)
CORRECTED = dataclasses.replace(EXACT, source=Source.CORRECTED)
PREDICTS = PredictionFacts(passed=True, p_value=0.6, worst_name="s", worst_p_value=0.3)
MISFIT = PredictionFacts(passed=False, p_value=0.001, worst_name="s", worst_p_value=0.002)
WARNED = (Finding.stated("Beware."),)
FEW_YES = {"side": "few", "total": 90, "num": 769, "expected": 128.2, "p": 0.0003}
AGAINST = (Finding(Kind.ANSWERS_OUT_OF_RANGE, FEW_YES),)


class Case(NamedTuple):
    """Evidence: a base and what is changed; then the level, the verdict and the reasons."""

    base: Evidence
    changes: dict
    level: str
    verdict: str
    reasons: str

    @property
    def evidence(self):
        return dataclasses.replace(self.base, **self.changes)


CASES = {
    # the method
    "exact": Case(EXACT, {}, TRUST, "exact", "exact method, enough draws"),
    "unchecked": Case(METHOD, {}, CARE, "not certified", "unchecked, enough draws"),
    "naive": Case(NAIVE, {}, DISTRUST, "not certified", "noise ignored, enough draws"),
    "naive, though exact": Case(
        NAIVE, {"exact": True}, DISTRUST, "exact", "noise ignored, enough draws"
    ),
    "confidential": Case(CONFIDENTIAL, {}, TRUST, "exact", "exact method, enough draws"),
    "partial": Case(METHOD, {"power": 0.4}, DISTRUST, "not certified", "partial, enough draws"),
    "partial, though exact": Case(
        EXACT, {"power": 0.999}, DISTRUST, "exact", "partial, enough draws"
    ),
    "at full power": Case(EXACT, {"power": 1.0}, TRUST, "exact", "exact method, enough draws"),
    "certifiable or not": Case(
        METHOD, {"certifiable": False}, CARE, "not certified", "unchecked, enough draws"
    ),
    # the number of draws
    "99 draws": Case(
        EXACT, {"worth": 99.9}, DISTRUST, "exact, but few draws", "too few draws, exact method"
    ),
    "100 draws": Case(EXACT, {"worth": 100.0}, CARE, "exact", "some draws, exact method"),
    "399 draws": Case(EXACT, {"worth": 399.9}, CARE, "exact", "some draws, exact method"),
    "400 draws": Case(EXACT, {"worth": 400.0}, TRUST, "exact", "exact method, enough draws"),
    "few and unchecked": Case(
        METHOD, {"worth": 50.0}, DISTRUST, "not certified", "too few draws, unchecked"
    ),
    # the certificate
    "certified": Case(
        METHOD,
        {"certificate": certificate(CERTIFIED)},
        TRUST,
        "certified",
        "enough draws, agrees with certified draws",
    ),
    "certified, too few": Case(
        METHOD,
        {"certificate": certificate(CERTIFIED), "worth": 50.0},
        DISTRUST,
        "certified",
        "too few draws, agrees with certified draws",
    ),
    "certified, corrected": Case(
        CORRECTED,
        {"certificate": compared(a=(3.0, 9.0))},
        TRUST,
        "certified",
        "exact method, enough draws, corrected draws certified",
    ),
    **{
        f"certified, {name}": Case(
            METHOD,
            {"certificate": compared(a=(0.0, 1.0), b=pair)},
            level,
            "certified",
            "differs from certified draws, enough draws"
            if level == CARE
            else "enough draws, agrees with certified draws",
        )
        for name, pair, level in (
            ("a shift that counts", (0.26, 1.0), CARE),
            ("a shift that does not", (0.25, 1.0), TRUST),
            ("a shift to the left", (-0.26, 1.0), CARE),
            ("too wide", (0.0, 1.26), CARE),
            ("hardly too wide", (0.0, 1.25), TRUST),
            ("too narrow", (0.0, 0.79), CARE),
            ("hardly too narrow", (0.0, 0.81), TRUST),
            ("without spread", (0.0, 0.0), CARE),
            ("nowhere near", (float("inf"), float("inf")), CARE),
            ("not a number", (float("nan"), 1.0), CARE),
        )
    },
    "poor": Case(
        METHOD,
        {"certificate": certificate(POOR)},
        DISTRUST,
        POOR,
        "certificate against, enough draws",
    ),
    "unexplained": Case(
        METHOD,
        {"certificate": certificate(UNEXPLAINED)},
        DISTRUST,
        UNEXPLAINED,
        "certificate against, enough draws",
    ),
    "poor, corrected": Case(
        CORRECTED,
        {"certificate": certificate(POOR)},
        CARE,
        POOR,
        "corrected draws not certified, exact method, enough draws",
    ),
    "poor, but exact": Case(
        EXACT,
        {"certificate": certificate(POOR)},
        TRUST,
        POOR,
        "exact method, enough draws, exact draws not certified",
    ),
    "undecided": Case(
        METHOD,
        {"certificate": certificate(UNDECIDED)},
        CARE,
        UNDECIDED,
        "certificate undecided, enough draws",
    ),
    **{
        f"undecided, {name}": Case(
            METHOD,
            {"certificate": certificate(UNDECIDED, **facts)},
            level,
            UNDECIDED,
            f"certificate {'against' if level == DISTRUST else 'undecided'}, enough draws",
        )
        for name, facts, level in (
            ("much missed", {"missed_share": 0.11}, DISTRUST),
            ("little missed", {"missed_share": 0.1}, CARE),
            ("inefficient", {"efficiency": 0.049}, DISTRUST),
            ("hardly efficient", {"efficiency": 0.05}, CARE),
            ("nothing possible", {"effective_size": 0.0}, DISTRUST),
        )
    },
    # the check, and the rest
    "predicts": Case(
        EXACT, {"prediction": PREDICTS}, TRUST, "exact", "exact method, enough draws, predicts"
    ),
    "answers that the mechanism cannot give": Case(
        EXACT,
        {"findings": AGAINST},
        DISTRUST,
        "exact",
        "mechanism contradicted, warnings, exact method, enough draws",
    ),
    "does not predict": Case(
        EXACT,
        {"prediction": MISFIT},
        DISTRUST,
        "exact",
        "does not predict, exact method, enough draws",
    ),
    "certified, does not predict": Case(
        METHOD,
        {"certificate": certificate(CERTIFIED), "prediction": MISFIT},
        DISTRUST,
        "certified",
        "does not predict, enough draws, agrees with certified draws",
    ),
    "warned": Case(
        EXACT, {"findings": WARNED}, CARE, "exact", "warnings, exact method, enough draws"
    ),
    "dropped simulations": Case(
        EXACT, {"num_dropped": 3}, TRUST, "exact", "exact method, enough draws"
    ),
    "everything at once": Case(
        METHOD,
        {"worth": 150.0, "power": 0.4, "prediction": MISFIT, "findings": WARNED},
        DISTRUST,
        "not certified",
        "partial, does not predict, some draws, warnings",
    ),
}
