"""Forced response: the truth, a forced yes or a forced no."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours
from noisewise.mechanisms.columns import PerColumn, per_column
from noisewise.mechanisms.survey_design import AbstractSurveyDesign, probability, shown


class ForcedResponse(AbstractSurveyDesign):
    r"""A device tells the respondent to answer truthfully with probability `truth`, to say yes
    with probability `yes`, and else to say no:

        P(1 | s = 1) = truth + yes,    P(1 | s = 0) = yes.

    Guarantee: with no = 1 - truth - yes, epsilon = log(1 + truth / min(yes, no)) per answer, as
    yes changes its probability by the factor 1 + truth/yes and no by 1 + truth/no. Where yes or no
    is never forced, that answer tells s.

    With yes = no the law is that of `RandomizedResponse(truth_probability=(1 + truth)/2)`, in which
    the truth also counts what is forced and true: `RandomizedResponse(truth_probability=5/6)` is
    forced response with truth 2/3.

    Reference: Boruch (1971), Am. Sociologist 6, 308-311; Blair, Imai and Zhou (2015), J. Am. Stat.
    Assoc. 110, 1304-1319.

    Attributes:
        truth: The probability of being asked for the truth: one number, or one for each column.
        yes: That of being told to say yes; (1 - truth)/2 unless given.
        sensitivity: The number of entries of s that one person can change; 1 unless given.
        neighbours: Which databases differ by them; `nw.ReplaceOne()` by default.

    >>> import noisewise as nw
    >>> survey = nw.mechanisms.ForcedResponse(truth=2 / 3)
    >>> round(survey.yes, 6), round(survey.guarantee.epsilon, 6)
    (0.166667, 1.609438)
    >>> nw.mechanisms.ForcedResponse(truth=0.75, yes=0.25).guarantee
    NoGuarantee()
    """

    truth: PerColumn = probability("truth")
    yes: PerColumn = probability("yes")

    def __init__(
        self,
        truth: PerColumn,
        yes: PerColumn | None = None,
        *,
        sensitivity: int = 1,
        neighbours: AbstractNeighbours = REPLACE_ONE,
    ) -> None:
        self.truth = _share(truth)
        self.yes = (1.0 - self.truth) / 2.0 if yes is None else yes
        self.sensitivity = sensitivity
        self.neighbours = neighbours

    def _yes(self) -> tuple[PerColumn, PerColumn]:
        return self.yes, self.truth + self.yes

    def _at_loss(self, loss: float) -> ForcedResponse:
        forced = np.asarray(1.0 - np.asarray(self.truth))
        share = np.where(forced > 0.0, self.yes / np.where(forced > 0.0, forced, 1.0), 0.5)
        truth = asked(np.minimum(share, 1.0 - share), loss)
        changes: dict[str, Any] = {"truth": truth, "yes": (1.0 - truth) * share}
        if self.width is None:
            changes = {name: float(value) for name, value in changes.items()}
        return dataclasses.replace(self, **changes)

    def describe(self) -> str:
        return (
            f"each answer is true with probability {shown(self.truth)}, and a forced yes with"
            f" probability {shown(self.yes)}, else a forced no"
        )


_share = per_column("truth", at_least=0.0, at_most=1.0)


def asked(rarer: PerColumn, loss: float) -> PerColumn:
    """The probability t of asking for the truth at which log(1 + t / ((1 - t) m)) = loss, where
    other answers are yes or no, the rarer of them with probability m.

    >>> round(float(asked(0.5, np.log(5.0))), 6)
    0.666667
    """
    asked_for = -np.asarray(rarer) * math.expm1(-loss)
    return asked_for / (math.exp(-loss) + asked_for)
