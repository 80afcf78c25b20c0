"""What fresh simulations say about a posterior."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from noisewise._core.json_values import jsonable
from noisewise.assessment.evidence import CertificateFacts
from noisewise.assessment.judging import (
    CERTIFYING_SIZE,
    FAIR_EFFICIENCY,
    MAX_MISSED,
    speaks_against,
)
from noisewise.assessment.reasons import Verdict
from noisewise.diagnostics.certificates.advice import PYTHON, Advice, Wording, rounded_up
from noisewise.diagnostics.certificates.comparison import compare
from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.posteriors import AbstractPosterior, Finding, Kind, WeightedSamples
from noisewise.posteriors.findings import without
from noisewise.posteriors.kinds import ABOUT_CERTIFICATES
from noisewise.posteriors.sentences.words import percent
from noisewise.posteriors.weighted_samples import MAX_PARETO_K

SATURATED = 0.25
"""Share of R: above it, 1 + rv from R simulations at each theta is only a lower bound."""

_DOUBTS = frozenset({Kind.UNEXPLAINED, Kind.FOUND_BY_FEW})
"""What more simulations or another approximation alone would not cure."""

_MAX_SIMULATIONS = 1_000_000
"""Simulations: more are not recommended, as methods that move single records then cost less."""
_RESERVE = 1.2
"""Times the simulations that should do, so that chance rarely leaves them short."""
_MIN_EFFICIENCY = 0.1
"""Efficiency that is assumed where it is lower: a better approximation is within reach there."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    r"""What importance weights say about an approximation q of the posterior:

        w_i = pi(theta_i) eta(s_dp | s_i) / p(theta_i),   p = (1 - a) q + a pi.

    Their effective size is, for large N,

        ESS = N / E[r (1 + rv)],   r = posterior / p,
        1 + rv = E[eta^2 | theta] / E[eta | theta]^2,

    the mean being over the posterior: q is responsible for r, the simulator and the mechanism for
    1 + rv. There are four verdicts:

    - certified: `corrected` stands for the posterior. ESS >= 800, Pareto k <= .7, `missed_share`
      <= .1.
    - the approximation is poor: another q would be certified by as many simulations. Not certified,
      and N / (1 + rv) >= 800.
    - the observation is not explained: noise as large as the corrected draws need has a probability
      below .02. The model is wrong, or a part of the posterior was missed.
    - not certifiable by simulation: no q would be. All other cases.

    With 800 effective draws averages are known to 3.5% of a posterior standard deviation and tails
    of 2.5% to .6%, no draw has more than 3.5% of the weight (the share is at most ESS^-1/2), and a
    classifier hardly distinguishes 2000 draws of `corrected` from exact ones (C2ST .53 +- .015 on
    three parameters, .52 +- .01 on two). k <= .7 is where effective sizes can be believed; a share
    a of prior draws bounds the weights, so that little can hide in the tails. A perfect q has at
    most a share a / (1 - a), 11%, of the posterior where it is below a / (1 - a) pi, and next to
    nothing unless the posterior hardly differs from the prior. Where q's efficiency is below .5,
    N / (1 + rv) >= 400 is enough to blame it, as 1 + rv is only known to a factor of two there.

    A poor q does not spoil `corrected`, whose `report.exact` says whether its own weights are
    sound: where privacy is strong the prior draws alone may do.

    `nw.assess` says how far to trust the draws of q, or the corrected ones, given this certificate.

    Attributes:
        verdict: "certified", "the approximation is poor", "the observation is not explained" or
            "not certifiable by simulation".
        effective_size: How many exact draws `corrected` is worth.
        max_weight: The largest share of the weight that one draw has.
        pareto_k: The tail of the weights: above .7 their effective size cannot be believed.
        efficiency: 1 / E[r]: the effective share of draws from p if the likelihood were known.
        relative_variance: 1 + rv: what a draw costs with a perfect q. Where the weights are sound
            it is what efficiency leaves of N / ESS, that is E[r (1 + rv)] / E[r]; elsewhere what
            repeated simulation shows, or the larger of both if that reaches its limit or q has an
            efficiency of .5.
        repeated_relative_variance: 1 + rv averaged over the posterior, from repeated simulation
            alone.
        relative_variance_cap: Simulations at each theta: the latter cannot exceed it, and is too
            low where it comes near.
        missed_share: The share of the posterior mass where q is negligible: below a / (1 - a) pi,
            so that p is mostly prior.
        unseen_share: A mode that q misses altogether, of any shape, was seen with probability .95
            if it holds this share of the posterior or more: 3 sup eta / (a N Z). 1 where nothing
            can be said.
        log_evidence: log p(s_dp), estimated by the mean weight.
        log_evidence_se: Its standard error.
        comparison: For each parameter, how far q's mean lies from the corrected one, in corrected
            sds, and the ratio of q's sd to the corrected one.
        proposal: What q is: the posterior's own density, or a law fitted to its draws.
        num_draws: N, with one simulation each.
        num_repeats: Simulations that measured efficiency and 1 + rv instead.
        num_failed: Simulations that gave NaN; their weight is 0.
        num_unusable: Draws from q off the prior's support, or where its own log density is not
            finite; their weight is 0.
        corrected: The weighted draws, which may serve as the answer.
    """

    verdict: str
    effective_size: float
    max_weight: float
    pareto_k: float
    efficiency: float
    relative_variance: float
    repeated_relative_variance: float
    relative_variance_cap: int
    missed_share: float
    unseen_share: float
    log_evidence: float
    log_evidence_se: float
    comparison: dict[str, tuple[float, float]]
    proposal: str
    num_draws: int
    num_repeats: int
    num_failed: int
    num_unusable: int
    corrected: WeightedSamples = dataclasses.field(repr=False)

    @property
    def certified(self) -> bool:
        """Whether the verdict is "certified"."""
        return self.verdict == Verdict.CERTIFIED

    @property
    def facts(self) -> CertificateFacts:
        """What `noisewise.assessment.judge` needs to know of this certificate."""
        hidden = (self.hidden_modes,) if self.certified else ()
        return CertificateFacts(
            verdict=self.verdict,
            effective_size=self.effective_size,
            efficiency=self.efficiency,
            missed_share=self.missed_share,
            num_simulations=self.num_simulations,
            comparison=self.comparison,
            findings=(self.found, *hidden),
        )

    def facts_about(self, posterior: AbstractPosterior) -> CertificateFacts:
        """The same, with these draws compared to the corrected ones: they need not be those that
        the certificate was made for.

        Raises:
            InvalidInputError: If they are of other parameters.
        """
        if posterior.names != self.corrected.names:
            raise InvalidInputError(
                f"The certificate is of {', '.join(self.corrected.names)}, the posterior of"
                f" {', '.join(posterior.names)}: pass the certificate of this posterior."
            )
        return dataclasses.replace(self.facts, comparison=compare(posterior, self.corrected))

    @property
    def cost(self) -> float:
        """Simulations per exact draw."""
        return self.num_draws / self.effective_size if self.effective_size else math.inf

    @property
    def perfect_size(self) -> float:
        """The effective size that a perfect q would have had."""
        return self.num_draws / self.relative_variance

    @property
    def sentence(self) -> str:
        """What an analyst needs to know, and what to do next in Python."""
        return self.said(PYTHON)

    def said(self, wording: Wording) -> str:
        """`finding`, and `advice` in the words of a front end."""
        return " ".join([self.finding, *wording.words(self.advice)])

    @property
    def finding(self) -> str:
        """What an analyst needs to know, in words that fit Python and the command line alike."""
        return " ".join(finding.sentence for finding in self.facts.findings)

    @property
    def found(self) -> Finding:
        """The verdict with its numbers."""
        if self.certified:
            return Finding(
                Kind.CERTIFIED, {"effective_size": self.effective_size, "cost": self.cost}
            )
        if self.verdict == Verdict.POOR:
            return self._poor
        if self.verdict == Verdict.UNEXPLAINED:
            return Finding(Kind.CERTIFICATE_UNEXPLAINED, {"effective_size": self.effective_size})
        if not self.effective_size:
            return Finding(Kind.NOTHING_CERTIFIABLE, {"num": self.num_draws})
        return self._not_certifiable

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a reader of the corrected draws must know: why they are not certified."""
        return () if self.certified else (self.found,)

    @property
    def hidden_modes(self) -> Finding:
        """What a certificate cannot see."""
        return Finding(Kind.HIDDEN_MODES, {"share": self.unseen_share})

    @property
    def advice(self) -> Advice:
        """What to do next: fields of `Wording`, with a number of simulations where one is due."""
        if self.certified:
            return (("use", None),)
        if _DOUBTS & {finding.kind for finding in self.corrected.report.findings}:
            return (("check", None),)
        use: Advice = (("may_use", None),) if self.corrected.report.exact else ()
        if self.verdict == Verdict.POOR:
            return (*use, self._against_poor)
        if not self.effective_size:
            return (("check", None),)
        efficiency = max(self.efficiency, _MIN_EFFICIENCY)
        draws = CERTIFYING_SIZE * self.relative_variance / efficiency
        needed = draws * self.num_simulations / self.num_draws
        if self.saturated or needed > _MAX_SIMULATIONS:
            return (*use, ("records", None))
        return (*use, ("more", rounded_up(needed)))

    @property
    def _against_poor(self) -> tuple[str, int | None]:
        """A fair approximation is cheaper to weigh for longer than to improve."""
        fair = self.efficiency >= FAIR_EFFICIENCY and self.missed_share <= MAX_MISSED
        if not fair:
            return "refine", None
        needed = _RESERVE * CERTIFYING_SIZE * self.num_simulations / self.effective_size
        if needed <= self.num_simulations:  # the size suffices, but something else was doubtful
            needed = 2.0 * self.num_simulations
        return "more", rounded_up(needed)

    @property
    def _poor(self) -> Finding:
        """The finding that another approximation would be certified."""
        missed = {"missed": self.missed_share} if self.missed_share > MAX_MISSED else {}
        sizes = {"effective_size": self.effective_size, "perfect_size": self.perfect_size}
        usable = {"usable": self.corrected.report.exact}
        return Finding(Kind.APPROXIMATION_POOR, {**sizes, **missed, **usable})

    @property
    def _not_certifiable(self) -> Finding:
        """The finding that no approximation would be certified."""
        sizes = {"effective_size": self.effective_size, "enough": CERTIFYING_SIZE}
        against = speaks_against(self.missed_share, self.efficiency)
        suspicious = {"suspicious_efficiency": self.efficiency} if against else {}
        cost = {"cost": self.relative_variance, "at_least": self.saturated}
        return Finding(Kind.NOT_CERTIFIABLE, {**sizes, **suspicious, **cost})

    def other_findings(self, approximation: AbstractPosterior) -> tuple[Finding, ...]:
        """What else the reports of q and of the corrected draws say; a certified q need not explain
        itself.

        What the certificate found itself is left out, as it is shown with the verdict.

        Args:
            approximation: The posterior that was certified, q.
        """
        own = () if self.certified else approximation.report.findings
        theirs = without(self.corrected.report.findings, *ABOUT_CERTIFICATES)
        said = {self.found, self.hidden_modes, *map(Finding.stated, (self.finding, self.caveat))}
        return tuple(finding for finding in dict.fromkeys((*own, *theirs)) if finding not in said)

    def other_warnings(self, approximation: AbstractPosterior) -> tuple[str, ...]:
        """`other_findings` in words."""
        return tuple(
            dict.fromkeys(finding.sentence for finding in self.other_findings(approximation))
        )

    @property
    def saturated(self) -> bool:
        """Whether repeated simulation could not reach 1 + rv, which then is a lower bound."""
        return self.repeated_relative_variance > SATURATED * self.relative_variance_cap

    @property
    def num_simulations(self) -> int:
        """All simulations that were run for this certificate, or set aside for it."""
        return self.num_draws + self.num_repeats

    def __str__(self) -> str:
        lines = [f"{self.verdict}. {self.sentence}"]
        lines += [f"  {name:<16}{text}" for name, text in self._rows.items()]
        lines += [
            f"  {name:<16}q's mean is off by {shift:+.2f} sd, its sd {ratio:.2f} times the"
            " corrected one"
            for name, (shift, ratio) in self.comparison.items()
        ]
        return "\n".join(lines)

    @property
    def _rows(self) -> dict[str, str]:
        """What `print` shows, by name."""
        size, weight = f"{self.effective_size:,.1f}", percent(self.max_weight)
        efficiency, missed = percent(self.efficiency), percent(self.missed_share)
        repeated, cap = f"{self.repeated_relative_variance:,.1f}", f"{self.relative_variance_cap:,}"
        rows = {
            "effective size": f"{size} of {self.num_draws:,} draws (largest weight {weight})",
            "Pareto k": f"{self.pareto_k:.2f} (at most {MAX_PARETO_K:g})",
            "efficiency of q": f"{efficiency}, misses {missed} of the posterior",
            "1 + rv": (
                f"{self.relative_variance:,.1f} (by repeated simulation {repeated}, at most {cap})"
            ),
            "log evidence": f"{self.log_evidence:.4g} +- {self.log_evidence_se:.2g}",
            "q": self.proposal,
            "simulations": (
                f"{self.num_draws:,} for draws, {self.num_repeats:,} to measure;"
                f" {self.num_failed:,} failed"
            ),
        }
        if self.num_unusable:
            rows["unusable"] = f"{self.num_unusable:,} draws off the support or without density"
        return rows

    @property
    def caveat(self) -> str:
        """What a certificate cannot see, in words."""
        return self.hidden_modes.sentence

    def to_spec(self) -> dict[str, Any]:
        """JSON-ready, without the corrected draws; numbers that are not finite become None."""
        fields = {name: getattr(self, name) for name in _STORED}
        return {**jsonable(fields), "sentence": self.sentence}

    @classmethod
    def from_spec(cls, spec: dict[str, Any], corrected: WeightedSamples) -> Certificate:
        """Read what `to_spec` wrote.

        Args:
            spec: What `to_spec` returned; other names in it are ignored.
            corrected: The corrected draws, which are stored as a posterior.

        Raises:
            FileFormatError: If a field is of another type. A `KeyError` or `ValueError` says that
                one is missing, or that the numbers contradict each other.
        """
        fields: dict[str, Any] = {
            name: _INFINITE.get(name, math.nan) if spec[name] is None else spec[name]
            for name in _STORED
        }
        for name, kind in _STORED.items():
            if not isinstance(fields[name], kind) or isinstance(fields[name], bool):
                raise FileFormatError(f"its field {name} is of another type.")
        pairs = fields["comparison"].items()
        fields["comparison"] = {name: (float(mean), float(sd)) for name, (mean, sd) in pairs}
        certificate = cls(
            **{**fields, "verdict": Verdict(fields["verdict"]).value}, corrected=corrected
        )
        # what cannot be worded or divided is refused here, not when it is shown
        _ = certificate.sentence, certificate.perfect_size, certificate.cost
        return certificate


_KINDS: dict[Any, Any] = {"float": (float, int), "int": int, "str": str}
"""Types of the fields of a certificate, by their annotation."""
_STORED = {
    field.name: _KINDS.get(field.type, dict)
    for field in dataclasses.fields(Certificate)
    if field.name != "corrected"
}
_INFINITE = {"pareto_k": math.inf, "log_evidence": -math.inf}
"""What None stands for in JSON, which has no infinity; in other fields it is NaN."""
