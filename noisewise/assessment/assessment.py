"""The result of a judgement, and how it is shown."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from noisewise._core.text import Markup, bullets, element, printable
from noisewise.assessment import sentences
from noisewise.assessment.evidence import Evidence, Source
from noisewise.assessment.reasons import Level, Reason, Verdict

if TYPE_CHECKING:
    from noisewise.diagnostics import Certificate, PredictiveCheck

COLOURS = {Level.TRUST: "#00694d", Level.CARE: "#8a5a00", Level.DISTRUST: "#a32626"}
"""Backgrounds for white type, of contrast 5.5 or more."""
_MARKS = {Level.TRUST: "+", Level.CARE: "!", Level.DISTRUST: "x"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assessment:
    """How far to trust an answer, and why: what `nw.assess` and `judge` return.

    Print it, or show it in a notebook. Programs use `level`, `reasons` and `verdict`; sentences are
    for people, and may be worded differently in another version.

    Attributes:
        level: "trust", "trust with care" or "do not trust".
        reasons: Why, the worst first.
        verdict: What stands behind the answer: "exact", "certified", and so on.
        evidence: What the judgement is based on.
        certificate: The certificate that `nw.assess` made or was given; it has the corrected draws.
        check: The posterior predictive check that `nw.assess` made.
    """

    level: Level
    reasons: tuple[Reason, ...]
    verdict: Verdict
    evidence: Evidence = dataclasses.field(repr=False)
    certificate: Certificate | None = dataclasses.field(default=None, repr=False, compare=False)
    check: PredictiveCheck | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def trustworthy(self) -> bool:
        """Whether the method is exact and its draws suffice for intervals, or the answer is
        certified, and nothing else is a reason not to trust it. The command line exits with 0 then,
        and else with 3.

        A poor approximation is not trustworthy even where its corrected draws are exact and may be
        used: a script that goes by the exit code alone reads the posterior, which is the
        approximation. Nor is an exact answer that does not predict the observation: the model is
        wrong then.
        """
        return self.verdict.trustworthy and self.level is not Level.DISTRUST

    @property
    def about_level(self) -> str:
        """The level in a sentence."""
        return sentences.level(self.level)

    @property
    def sentence(self) -> str:
        """The level in words, with the worst of the reasons."""
        worst = "" if self.level is Level.TRUST else f" {self.reasons[0].sentence}"
        return f"{self.about_level}{worst}"

    @property
    def about_verdict(self) -> str:
        """The verdict in a sentence or two."""
        evidence = self.evidence
        if evidence.certificate is not None:
            return " ".join(finding.sentence for finding in evidence.certificate.findings)
        if evidence.exact:
            few = self.verdict is Verdict.EXACT_BUT_FEW
            return sentences.exact_draws(evidence.worth, few, evidence.num_dropped)
        if evidence.source in (Source.NAIVE, Source.CONFIDENTIAL):
            return sentences.FOR_COMPARISON
        return sentences.NOT_CHECKED if evidence.certifiable else sentences.NOT_CERTIFIED

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else a reader must know, in words."""
        return self.evidence.warnings

    def __str__(self) -> str:
        lines = [f"{_capital(self.level)}. {self.about_level}"]
        lines += [f"  {_MARKS[reason.level]} {reason.sentence}" for reason in self.reasons]
        lines += [f"Verdict: {self.verdict}. {self.about_verdict}".rstrip()]
        lines += [f"Warning: {text}" for text in self.warnings]
        return printable("\n".join(lines))

    def _repr_html_(self) -> str:
        """A box for notebooks: the level in colour, reasons, verdict and warnings."""
        parts = [
            element("p", _badge(self.level), self.about_level, style="margin:0 0 .4em"),
            bullets(map(_bullet, self.reasons), style="margin:.2em 0 .4em;padding-left:1.2em"),
            _line("Verdict", f"{self.verdict}. {self.about_verdict}".rstrip()),
            *(_line("Warning", text) for text in self.warnings),
        ]
        border = f"border-left:.3em solid {COLOURS[self.level]};padding:.3em .9em;max-width:48em"
        return str(element("div", *parts, style=border))


def _capital(level: Level) -> str:
    return level[0].upper() + level[1:]


def _badge(level: Level) -> Markup:
    style = (
        f"background:{COLOURS[level]};color:#fff;font-weight:700;padding:.1em .6em;"
        "border-radius:.3em;margin-right:.5em"
    )
    return element("span", _capital(level), style=style)


def _bullet(reason: Reason) -> Markup:
    """Reasons that lower the level are bold: coloured type is hard to read on dark notebooks."""
    return element("span" if reason.level is Level.TRUST else "strong", reason.sentence)


def _line(name: str, text: str) -> Markup:
    return element("p", element("b", f"{name}: "), text, style="margin:.2em 0")
