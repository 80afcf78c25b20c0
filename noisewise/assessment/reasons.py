"""What an assessment is made of: levels, verdicts, and reasons with their numbers."""

from __future__ import annotations

import dataclasses
import enum

from noisewise.assessment import sentences
from noisewise.posteriors.findings import Said


class Level(enum.StrEnum):
    """How far to trust an answer."""

    TRUST = "trust"
    CARE = "trust with care"
    DISTRUST = "do not trust"

    @property
    def severity(self) -> int:
        """0 for "trust", 2 for "do not trust"."""
        return list(Level).index(self)


class Verdict(enum.StrEnum):
    """What stands behind an answer, in a word or two. Files hold these words, so they stay."""

    EXACT = "exact"
    EXACT_BUT_FEW = "exact, but few draws"
    CERTIFIED = "certified"
    POOR = "the approximation is poor"
    UNEXPLAINED = "the observation is not explained"
    NOT_CERTIFIABLE = "not certifiable by simulation"
    NOT_CERTIFIED = "not certified"
    """No certificate was made."""

    @property
    def trustworthy(self) -> bool:
        """Whether the command line exits with 0."""
        return self in (Verdict.EXACT, Verdict.CERTIFIED)


class ReasonKind(enum.StrEnum):
    """A reason for a level. Each kind speaks for one level."""

    # the method
    NOISE_IGNORED = "noise ignored"
    PARTIAL = "partial"
    EXACT_METHOD = "exact method"
    UNCHECKED = "unchecked"

    # the number of draws
    TOO_FEW_DRAWS = "too few draws"
    SOME_DRAWS = "some draws"
    ENOUGH_DRAWS = "enough draws"

    # the certificate
    CORRECTED_CERTIFIED = "corrected draws certified"
    AGREES_WITH_CERTIFIED = "agrees with certified draws"
    DIFFERS_FROM_CERTIFIED = "differs from certified draws"
    CORRECTED_NOT_CERTIFIED = "corrected draws not certified"
    EXACT_NOT_CERTIFIED = "exact draws not certified"
    CERTIFICATE_UNDECIDED = "certificate undecided"
    CERTIFICATE_AGAINST = "certificate against"

    # the posterior predictive check, and the rest
    PREDICTS = "predicts"
    DOES_NOT_PREDICT = "does not predict"
    MECHANISM_CONTRADICTED = "mechanism contradicted"
    WARNINGS = "warnings"

    @property
    def level(self) -> Level:
        """The best level that an answer with this reason can have."""
        if self in _AGAINST:
            return Level.DISTRUST
        return Level.CARE if self in _WITH_CARE else Level.TRUST


_AGAINST = frozenset(
    {
        ReasonKind.NOISE_IGNORED,
        ReasonKind.PARTIAL,
        ReasonKind.TOO_FEW_DRAWS,
        ReasonKind.CERTIFICATE_AGAINST,
        ReasonKind.DOES_NOT_PREDICT,
        ReasonKind.MECHANISM_CONTRADICTED,
    }
)
_WITH_CARE = frozenset(
    {
        ReasonKind.UNCHECKED,
        ReasonKind.SOME_DRAWS,
        ReasonKind.DIFFERS_FROM_CERTIFIED,
        ReasonKind.CORRECTED_NOT_CERTIFIED,
        ReasonKind.CERTIFICATE_UNDECIDED,
        ReasonKind.WARNINGS,
    }
)


@dataclasses.dataclass(frozen=True)
class Reason(Said):
    """Why an answer is trusted, or not: a kind and named `numbers`.

    Programs use the kind and the numbers. The `sentence` is for people, and may be worded
    differently in another version.

    >>> reason = Reason(ReasonKind.SOME_DRAWS, {"worth": 250.0})
    >>> reason.level.value, reason.sentence.split(",")[0]
    ('trust with care', 'The draws are worth 250 independent ones')
    """

    kind: ReasonKind
    __hash__ = Said.__hash__

    @property
    def level(self) -> Level:
        """The best level that an answer with this reason can have."""
        return self.kind.level

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return sentences.reason(self.kind, self.numbers)
