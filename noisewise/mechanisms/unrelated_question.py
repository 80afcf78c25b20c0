"""The unrelated question design: the sensitive question or a harmless one."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from noisewise.mechanisms.columns import PerColumn
from noisewise.mechanisms.forced_response import asked
from noisewise.mechanisms.survey_design import AbstractSurveyDesign, probability, shown


class UnrelatedQuestion(AbstractSurveyDesign):
    r"""A device picks the sensitive question with probability p, else an unrelated one that a share
    b of people, `prevalence`, answer with yes; the answer is 1 for yes:

        P(1 | s = 1) = p + (1 - p) b,    P(1 | s = 0) = (1 - p) b.

    Where b is not known, it is a parameter of the model (two groups with different p tell it):
    `mechanism=lambda theta: UnrelatedQuestion(p=p, prevalence=theta["b"])` in `nw.PrivateModel`.

    Guarantee: epsilon = log(1 + p / ((1 - p) min(b, 1 - b))) per answer: that of `ForcedResponse`
    with truth = p, yes = (1 - p) b. It holds against everybody who does not know the answer to the
    unrelated question: whoever does learns more.

    Reference: Greenberg, Abul-Ela, Simmons and Horvitz (1969), J. Am. Stat. Assoc. 64, 520-539.

    Attributes:
        p: The probability of the sensitive question: one number, or one for each column.
        prevalence: The share b of yes to the unrelated one, among all people.
        sensitivity: The number of entries of s that one person can change; 1 unless given.
        neighbours: Which databases differ by them; `nw.ReplaceOne()` by default.

    >>> import noisewise as nw
    >>> survey = nw.mechanisms.UnrelatedQuestion(p=0.75, prevalence=0.5)
    >>> round(survey.guarantee.epsilon, 6)
    1.94591
    """

    p: PerColumn = probability("p")
    prevalence: PerColumn = probability("prevalence")

    def _yes(self) -> tuple[PerColumn, PerColumn]:
        unrelated = (1.0 - self.p) * self.prevalence
        return unrelated, self.p + unrelated

    def _at_loss(self, loss: float) -> UnrelatedQuestion:
        p = asked(np.minimum(self.prevalence, 1.0 - self.prevalence), loss)
        p = float(p) if self.width is None else np.broadcast_to(p, (self.width,))
        changes: dict[str, Any] = {"p": p}
        return dataclasses.replace(self, **changes)

    def describe(self) -> str:
        return (
            f"each answer is to the question with probability {shown(self.p)}, else to an unrelated"
            f" one to which a share of {shown(self.prevalence)} says yes"
        )
