"""The section that says how far to trust the answer, and why."""

from __future__ import annotations

from typing import Any

from noisewise._core.text import Markup, bullets, element, join
from noisewise.assessment.assessment import Assessment
from noisewise.assessment.reasons import Level
from noisewise.diagnostics import Certificate
from noisewise.diagnostics.certificates.advice import Wording
from noisewise.posteriors import AbstractPosterior
from noisewise.reports.html import facts, number, paragraphs, section
from noisewise.reports.style import CLASSES

_WORDING = Wording(
    use="",
    may_use="They are exact and may be used.",
    refine="A better approximation, by more rounds or simulations, would be certified.",
    more="About {num:,} simulations would certify them.",
    records=(
        "For models of records there are methods that change one record at a time, and need no"
        " certificate."
    ),
)

MEASURED = {
    "route": "How the answer was found",
    "effective size": "Independent draws that it is worth, where it is worth least",
    "gradients per draw": "Gradients computed for each draw",
    "integrated out": "Drawn from the prior inside each simulation",
    "R-hat": "Agreement of the chains (R-hat; at most 1.01 is good)",
    "Pareto k": "Tail of the weights (Pareto k; at most 0.7 is good, 0.67 of 1,000 draws)",
    "log evidence": "Log evidence of the model",
    "log evidence se": "Standard error of the log evidence",
    "efficiency of q": "Efficiency of the approximation (1 is perfect)",
    "1 + rv": (
        "Simulations that one exact draw would cost if the approximation were perfect (1 + rv; the"
        " simulator alone decides)"
    ),
    "missed share": "Share of the posterior that the approximation missed",
    "verdict": "Certificate",
    "smallest mode sure to be seen": (
        "Mass from which a mode was sure to be seen (probability 95%; 1: nothing can be said)"
    ),
    "prior predictive p-value": (
        "How well the prior predicted the observation (p-value; below 0.005 is surprising)"
    ),
    "mass where nothing was simulated": "Share of the answer where nothing was simulated",
    "acceptance": "Share of proposals accepted",
    "divergent": "Divergent steps (0 is good)",
    "tolerance": "Tolerance within which simulations count as the observation",
    "power": "Share of the observation's weight that was taken into account",
    "simulations learnt from": "Simulations learnt from",
}
"""What is measured, in words for people who do not know the methods."""


def badge(level: Level) -> Markup:
    """The level in colour."""
    return element("span", level[0].upper() + level[1:], class_=f"badge {CLASSES[level]}")


def verdict(
    posterior: AbstractPosterior,
    assessment: Assessment,
    certificate: Certificate | None,
    pictures: Markup,
) -> Markup:
    """The section.

    Args:
        posterior: The answer, whose report holds what was measured.
        assessment: How far to trust it, with reasons and warnings.
        certificate: Shown with its advice, if there is one.
        pictures: Of the predictive check.
    """
    warnings = assessment.warnings
    return section(
        "trust",
        "Can it be trusted?",
        element("p", badge(assessment.level), " ", assessment.about_level),
        bullets(assessment.reasons),
        _certificate(certificate),
        (
            join(element("h3", "Warnings"), bullets(warnings))
            if warnings
            else paragraphs("There are no warnings.")
        ),
        pictures,
        _measured(posterior.report.diagnostics),
    )


def _certificate(certificate: Certificate | None) -> Markup:
    """The verdict of the certificate, its finding, and advice for readers who run nothing."""
    if certificate is None:
        return Markup("")
    return join(
        element("h3", f"Certificate: {certificate.verdict}"), paragraphs(certificate.said(_WORDING))
    )


def _measured(diagnostics: dict[str, Any]) -> Markup:
    """What the method measured, by plain names; nothing if there is nothing."""
    rows = [(MEASURED.get(name, name), _shown(value)) for name, value in diagnostics.items()]
    return join(element("h3", "What was measured"), facts(rows)) if rows else Markup("")


def _shown(value: Any) -> str:
    """A number with four digits, or text."""
    return number(value) if isinstance(value, (int, float)) else str(value)
