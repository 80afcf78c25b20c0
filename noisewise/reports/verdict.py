"""How far to trust an answer, in plain words."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from noisewise.diagnostics import Certificate, PredictiveCheck
from noisewise.diagnostics.certificate import MISSED, NOT_CERTIFIABLE, Wording
from noisewise.posteriors import AbstractPosterior
from noisewise.reports.answer import FEW
from noisewise.reports.html import (
    Markup,
    bullets,
    element,
    facts,
    join,
    number,
    paragraphs,
    section,
)

TRUST, CARE, DISTRUST = "trust", "trust with care", "do not trust"
_CLASSES = {TRUST: "trust", CARE: "care", DISTRUST: "distrust"}
_RANK = {TRUST: 0, CARE: 1, DISTRUST: 2}

_MANY = 400.0
_OFF, _STRETCHED = 0.25, 1.25
_SUSPECT = 0.05
_ABOUT_LEVEL = {
    TRUST: "Nothing that was checked speaks against these numbers.",
    CARE: "These numbers are usable, with the reservations below.",
    DISTRUST: "These numbers should not be used as they stand.",
}


@dataclasses.dataclass(frozen=True)
class Assessment:
    """One of "trust", "trust with care" and "do not trust", with the reasons, worst first."""

    level: str
    reasons: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The level in words, with the worst of the reasons."""
        return _ABOUT_LEVEL[self.level] + ("" if self.level == TRUST else f" {self.reasons[0]}")


def assess(
    posterior: AbstractPosterior,
    *,
    certificate: Certificate | None = None,
    check: PredictiveCheck | None = None,
    warnings: tuple[str, ...] | None = None,
) -> Assessment:
    """How far to trust the posterior, from its own report, its certificate, a posterior predictive
    check, and warnings: its own if None.

    | level | when |
    |---|---|
    | trust | draws are exact or certified, worth 400 or more, predict the observation, and carry no warning |
    | trust with care | a few hundred draws, a warning, corrected draws of a poor approximation, or one that nothing has checked |
    | do not trust | the certificate speaks against it, less than 100 draws, or predictions unlike the observation |

    >>> import numpy as np, noisewise as nw
    >>> draws = np.random.default_rng(0).normal(size=(1000, 1))
    >>> exact = nw.posteriors.Draws(draws, ("a",), nw.posteriors.Report("example", exact=True))
    >>> assess(exact).level, assess(nw.posteriors.Draws(draws, ("a",), nw.posteriors.Report("example"))).level
    ('trust', 'trust with care')
    """
    found = [
        *_of_method(posterior, certificate),
        *_of_size(posterior),
        *_of_certificate(posterior, certificate),
    ]
    found += _of_check(check)
    if posterior.report.warnings if warnings is None else warnings:
        found.append((CARE, "There are warnings, listed below."))
    found.sort(key=lambda item: -_RANK[item[0]])
    return Assessment(found[0][0], tuple(text for _, text in found))


def _of_method(
    posterior: AbstractPosterior, certificate: Certificate | None
) -> list[tuple[str, str]]:
    report = posterior.report
    if report.method == "naive":
        return [
            (
                DISTRUST,
                "This is the naive answer, which ignores the noise and the clamping of records.",
            )
        ]
    if report.partial:
        return [
            (
                DISTRUST,
                (
                    "The work ended before the observation was taken into account in full: the"
                    " draws are too wide."
                ),
            )
        ]
    if report.exact:
        return [
            (TRUST, "The method is exact: its draws follow the posterior, up to Monte Carlo error.")
        ]
    if certificate is None:
        return [
            (
                CARE,
                (
                    "The method is an approximation, and nothing has checked it: certify the"
                    " posterior."
                ),
            )
        ]
    return []


def _of_size(posterior: AbstractPosterior) -> list[tuple[str, str]]:
    size = float(posterior.effective_size)
    if math.isnan(size):
        return []
    worth = f"The draws are worth {size:,.0f} independent ones"
    error = (
        f"so that averages carry an error of {100 / math.sqrt(max(size, 1.0)):.0f}% of a"
        " posterior sd"
    )
    if size < FEW:
        return [(DISTRUST, f"{worth}, too few to say anything of intervals.")]
    return [(TRUST if size >= _MANY else CARE, f"{worth}, {error}.")]


def _of_certificate(
    posterior: AbstractPosterior, certificate: Certificate | None
) -> list[tuple[str, str]]:
    if certificate is None:
        return []
    shown = posterior.report.method == "certify"
    if certificate.certified:
        if shown:
            return [(TRUST, f"Certified by {certificate.num_simulations:,} fresh simulations.")]
        return [_of_comparison(certificate)]
    if posterior.report.exact and shown:
        return [
            (
                CARE,
                (
                    f"The certificate reads: {certificate.verdict}. Here are its corrected draws,"
                    " which are exact."
                ),
            )
        ]
    if posterior.report.exact:
        return [
            (
                TRUST,
                f"The certificate reads: {certificate.verdict}. The draws are exact all the same.",
            )
        ]
    suspicious = (
        certificate.missed_share > MISSED
        or certificate.efficiency < _SUSPECT
        or not certificate.effective_size
    )
    if certificate.verdict == NOT_CERTIFIABLE and not suspicious:
        return [
            (
                CARE,
                (
                    "Fresh simulations could not tell how good the approximation is; they do not"
                    " speak against it."
                ),
            )
        ]
    return [
        (DISTRUST, "Fresh simulations speak against the approximation: see the certificate below.")
    ]


def _of_comparison(certificate: Certificate) -> tuple[str, str]:
    """Whether the learnt draws shown agree with the corrected ones that the certificate vouches
    for.
    """
    off = {
        name: (shift, ratio)
        for name, (shift, ratio) in certificate.comparison.items()
        if not (abs(shift) <= _OFF and 1.0 / _STRETCHED <= ratio <= _STRETCHED)
    }
    if not off:
        return (
            TRUST,
            (
                f"Certified by {certificate.num_simulations:,} fresh simulations, with which the"
                " draws agree."
            ),
        )
    name, (shift, ratio) = max(
        off.items(), key=lambda item: abs(item[1][0]) + abs(math.log(max(item[1][1], 1e-9)))
    )
    return (
        CARE,
        (
            f"The draws differ from the corrected ones that are certified: the mean of {name} by"
            f" {shift:+.2f} sd, its sd by a factor of {ratio:.2f}. Use those."
        ),
    )


def _of_check(check: PredictiveCheck | None) -> list[tuple[str, str]]:
    if check is None:
        return []
    if check.passed:
        return [
            (
                TRUST,
                (
                    "Data simulated from the answer look like the published numbers (p ="
                    f" {check.p_value:.2g})."
                ),
            )
        ]
    return [
        (
            DISTRUST,
            (
                "Data simulated from the answer do not look like the published numbers:"
                f" {check.sentence}"
            ),
        )
    ]


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

_PLAIN = {
    "route": "How the answer was found",
    "effective size": "Independent draws that it is worth",
    "R-hat": "Agreement of the chains (R-hat; at most 1.01 is good)",
    "Pareto k": "Tail of the weights (Pareto k; at most 0.7 is good)",
    "log evidence": "Log evidence of the model",
    "log evidence se": "Standard error of the log evidence",
    "efficiency of q": "Efficiency of the approximation (1 is perfect)",
    "1 + rv": (
        "Simulations that one exact draw would cost if the approximation were perfect (1 + rv; the"
        " simulator alone decides)"
    ),
    "missed share": "Share of the posterior that the approximation missed",
    "verdict": "Certificate",
    "smallest mode that would have been noticed": (
        "Smallest hidden region that would have been noticed"
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


def badge(level: str) -> Markup:
    """The level as a coloured word."""
    return element("span", level[0].upper() + level[1:], class_=f"badge {_CLASSES[level]}")


def verdict(
    posterior: AbstractPosterior,
    assessment: Assessment,
    certificate: Certificate | None,
    warnings: tuple[str, ...],
    pictures: Markup,
) -> Markup:
    """The section."""
    return section(
        "trust",
        "Can it be trusted?",
        element("p", badge(assessment.level), " ", _ABOUT_LEVEL[assessment.level]),
        bullets(assessment.reasons),
        _certificate(certificate),
        (
            join(element("h3", "Warnings"), bullets(warnings))
            if warnings
            else paragraphs("There are no warnings.")
        ),
        pictures,
        element("h3", "What was measured"),
        facts(_measured(posterior.report.diagnostics)),
    )


def _certificate(certificate: Certificate | None) -> Markup:
    if certificate is None:
        return Markup("")
    return join(
        element("h3", f"Certificate: {certificate.verdict}"), paragraphs(certificate.said(_WORDING))
    )


def _measured(diagnostics: dict[str, Any]) -> list[tuple[str, str]]:
    return [(_PLAIN.get(name, name), _shown(value)) for name, value in diagnostics.items()]


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)
