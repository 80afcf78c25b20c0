"""What fresh simulations say about a posterior."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from noisewise.posteriors import AbstractPosterior, Finding, Kind, WeightedSamples
from noisewise.posteriors.findings import without
from noisewise.posteriors.kinds import ABOUT_CERTIFICATES
from noisewise.posteriors.sentences.words import percent

CERTIFIED = "certified"
POOR = "the approximation is poor"
NOT_CERTIFIABLE = "not certifiable by simulation"

ENOUGH = 800.0
"""Effective draws of a certified posterior: averages are then known to 3.5% of a posterior sd."""
HEAVY = 0.7
"""Pareto k above which the effective size of importance weights, and averages, cannot be trusted
(Vehtari et al. 2024).
"""
MISSED = 0.1
"""Posterior mass beyond which q's gaps are no longer a matter of tails."""

SATURATED = 0.25
"""1 + rv from R simulations at each theta is only a lower bound above this share of R."""

_DEAR = 1_000_000
_SUSPECT = 0.05
_FAIR = 0.5
"""An approximation of this efficiency is cheaper to weigh longer than to better."""
_BLIND = 0.2
"""A hidden mode that may hold more of the posterior than this is warned of."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wording:
    """How a front end puts each advice of a certificate into words; `{num}` stands for a number of
    simulations.
    """

    use: str
    """The corrected draws are certified."""
    may_use: str
    """They are not, but exact."""
    refine: str
    """Another approximation would be certified."""
    more: str
    """More simulations would certify."""
    records: str
    """Only methods that change one record at a time will do."""
    check: str = "Check the observation and the model."


PYTHON = Wording(
    use="Use certificate.corrected.",
    may_use="They are exact and may be used: certificate.corrected.",
    refine=(
        "Train further (more rounds or simulations), or let"
        " ImportanceSampling(proposal=certificate.corrected) find a better one."
    ),
    more="Pass num_simulations={num} or more.",
    records=(
        "For models of records use DataAugmentationMCMC or ExactSMC, which change one record at a"
        " time."
    ),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    r"""What importance weights w_i = pi(theta_i) eta(s_dp | s_i) / p(theta_i), p = (1 - a) q + a
    pi, say about q.

    Their effective size is, for large N,

        ESS = N / E[r (1 + rv)],   r = posterior / p,   1 + rv = E[eta^2 | theta] / E[eta | theta]^2,

    the mean being over the posterior: q answers for r, the simulator and the mechanism for 1 + rv.

    | verdict | what it means | when |
    |---|---|---|
    | certified | `corrected` stands for the posterior | ESS >= 800, Pareto k <= .7, `missed_share` <= .1 |
    | the approximation is poor | another q would be certified by as many simulations | otherwise, if N / (1 + rv) >= 800 |
    | not certifiable by simulation | no q would be | otherwise |

    With 800 effective draws averages are known to 3.5% of a posterior standard deviation and tails
    of 2.5% to .6%, no draw has more than 3.5% of the weight (the share is at most ESS^-1/2), and a
    classifier hardly tells 2000 draws of `corrected` from exact ones (C2ST .53 +- .015 on three
    parameters, .52 +- .01 on two). k <= .7 is where effective sizes can be believed; a share a of
    prior draws bounds the weights, so that what tails hide is small. A perfect q has at most a
    share a / (1 - a), 11%, of the posterior where it is below a / (1 - a) pi, and next to nothing
    unless the posterior hardly differs from the prior. Where q's efficiency is below .5, N / (1 +
    rv) >= 400 is enough to blame it, as 1 + rv is only known to a factor of two there.

    A poor q does not spoil `corrected`, whose `report.exact` says whether its own weights are
    sound: where privacy is strong the prior draws alone may do.
    """

    verdict: str
    effective_size: float
    """How many exact draws `corrected` is worth."""
    max_weight: float
    """The largest share of the weight that one draw has."""
    pareto_k: float
    efficiency: float
    """1 / E[r]: the effective share of draws from p if the likelihood were known."""
    relative_variance: float
    """1 + rv: what a draw costs with a perfect q. Where the weights are sound it is what efficiency
    leaves of N / ESS, that is E[r (1 + rv)] / E[r]; elsewhere what repeated simulation shows, or
    the larger of both if that reaches its limit or q has an efficiency of .5."""
    repeated_relative_variance: float
    """1 + rv averaged over the posterior, from repeated simulation alone."""
    relative_variance_cap: int
    """Simulations at each theta: the latter cannot exceed it, and is too low where it comes near.
    """
    missed_share: float
    """The share of the posterior mass where q is negligible: below a / (1 - a) pi, so that p is
    mostly prior.
    """
    unseen_share: float
    """A region that q misses altogether may have gone unnoticed if it holds less than this share of
    the posterior.
    """
    log_evidence: float
    log_evidence_se: float
    comparison: dict[str, tuple[float, float]]
    """For each parameter, how far q's mean lies from the corrected one, in corrected sds, and the
    ratio of q's sd to the corrected one.
    """
    proposal: str
    """What q is: the posterior's own density, or a law fitted to its draws."""
    num_draws: int
    """N, with one simulation each."""
    num_repeats: int
    """Simulations that measured efficiency and 1 + rv instead."""
    num_failed: int
    """Simulations that gave NaN; their weight is 0."""
    num_unusable: int
    """Draws from q off the prior's support, or where its own log density is not finite; their
    weight is 0.
    """
    corrected: WeightedSamples = dataclasses.field(repr=False)

    @property
    def certified(self) -> bool:
        """Whether the verdict is that."""
        return self.verdict == CERTIFIED

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
        said = ((getattr(wording, name), num) for name, num in self.advice)
        words = (text if num is None else text.format(num=num) for text, num in said)
        return " ".join([self.finding, *filter(None, words)])

    @property
    def finding(self) -> str:
        """What an analyst needs to know, in words that hold in Python and on the command line
        alike.
        """
        hidden = (self.hidden_modes,) if self.certified and self.blind else ()
        return " ".join(found.sentence for found in (self.found, *hidden))

    @property
    def found(self) -> Finding:
        """The verdict with its numbers."""
        if self.certified:
            return Finding(
                Kind.CERTIFIED, {"effective_size": self.effective_size, "cost": self.cost}
            )
        if self.verdict == POOR:
            return self._poor
        if not self.effective_size:
            return Finding(Kind.NOTHING_CERTIFIABLE, {"num": self.num_draws})
        return self._not_certifiable

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a reader of the corrected draws must know: why they are not certified, or what the
        certificate cannot see.
        """
        if not self.certified:
            return (self.found,)
        return (self.hidden_modes,) if self.blind else ()

    @property
    def blind(self) -> bool:
        """Whether a mode that q misses altogether may hold a large part of the posterior, and have
        gone unnoticed.
        """
        return self.unseen_share > _BLIND

    @property
    def hidden_modes(self) -> Finding:
        """What a certificate cannot see."""
        return Finding(Kind.HIDDEN_MODES, {"share": self.unseen_share})

    @property
    def advice(self) -> tuple[tuple[str, int | None], ...]:
        """What to do next: fields of `Wording`, with a number of simulations where one is due."""
        if self.certified:
            return (("use", None),)
        use: tuple[tuple[str, int | None], ...] = (
            (("may_use", None),) if self.corrected.report.exact else ()
        )
        if self.verdict == POOR and self.efficiency >= _FAIR and self.missed_share <= MISSED:
            return (
                *use,
                ("more", _rounded(1.2 * ENOUGH * self.num_simulations / self.effective_size)),
            )
        if self.verdict == POOR:
            return (*use, ("refine", None))
        if not self.effective_size:
            return (("check", None),)
        needed = (
            ENOUGH
            * self.relative_variance
            / max(self.efficiency, 0.1)
            * self.num_simulations
            / self.num_draws
        )
        dear = self.saturated or needed > _DEAR
        return (*use, ("records", None) if dear else ("more", _rounded(needed)))

    @property
    def _poor(self) -> Finding:
        numbers: dict[str, Any] = {
            "effective_size": self.effective_size,
            "perfect_size": self.perfect_size,
        }
        if self.missed_share > MISSED:
            numbers["missed"] = self.missed_share
        return Finding(Kind.APPROXIMATION_POOR, {**numbers, "usable": self.corrected.report.exact})

    @property
    def _not_certifiable(self) -> Finding:
        numbers: dict[str, Any] = {"effective_size": self.effective_size, "enough": ENOUGH}
        if self.missed_share > MISSED or self.efficiency < _SUSPECT:
            numbers["suspicious_efficiency"] = self.efficiency
        return Finding(
            Kind.NOT_CERTIFIABLE,
            {**numbers, "cost": self.relative_variance, "at_least": self.saturated},
        )

    def other_findings(self, approximation: AbstractPosterior) -> tuple[Finding, ...]:
        """What the reports of q and of the corrected draws tell besides; a certified q need not
        explain itself.

        What the certificate found by itself is left out: it is shown with the verdict.
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
        rows = [
            (
                "effective size",
                (
                    f"{self.effective_size:,.1f} of {self.num_draws:,} draws (largest weight"
                    f" {percent(self.max_weight)})"
                ),
            ),
            ("Pareto k", f"{self.pareto_k:.2f} (at most {HEAVY:g})"),
            (
                "efficiency of q",
                f"{percent(self.efficiency)}, misses {percent(self.missed_share)} of the posterior",
            ),
            (
                "1 + rv",
                (
                    f"{self.relative_variance:,.1f} (by repeated simulation"
                    f" {self.repeated_relative_variance:,.1f}, at most"
                    f" {self.relative_variance_cap:,})"
                ),
            ),
            ("log evidence", f"{self.log_evidence:.4g} +- {self.log_evidence_se:.2g}"),
            ("q", self.proposal),
            (
                "simulations",
                (
                    f"{self.num_draws:,} for draws, {self.num_repeats:,} to measure;"
                    f" {self.num_failed:,} failed"
                ),
            ),
        ]
        if self.num_unusable:
            rows.append(
                ("unusable", f"{self.num_unusable:,} draws off the support or without density")
            )
        lines = [
            f"{self.verdict}. {self.sentence}",
            *(f"  {name:<16}{text}" for name, text in rows),
        ]
        lines += [
            f"  {name:<16}q's mean is off by {shift:+.2f} sd, its sd {ratio:.2f} times the"
            " corrected one"
            for name, (shift, ratio) in self.comparison.items()
        ]
        return "\n".join(
            [*lines, f"  {self.caveat}"] if self.certified and not self.blind else lines
        )

    @property
    def caveat(self) -> str:
        """What a certificate cannot see, in words."""
        return self.hidden_modes.sentence

    def to_spec(self) -> dict[str, Any]:
        """JSON-ready, without the corrected draws."""
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "corrected"
        }
        fields["comparison"] = {name: list(pair) for name, pair in self.comparison.items()}
        return {name: _plain(value) for name, value in fields.items()} | {"sentence": self.sentence}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _rounded(number: float) -> int:
    """Upwards to two digits."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit
