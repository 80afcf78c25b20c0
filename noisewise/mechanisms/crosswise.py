"""The crosswise design: whether two statements have the same answer."""

from __future__ import annotations

import dataclasses
from typing import Any

from noisewise.mechanisms.columns import PerColumn
from noisewise.mechanisms.survey_design import AbstractSurveyDesign, probability, shown
from noisewise.mechanisms.warner import symmetric


class Crosswise(AbstractSurveyDesign):
    r"""The respondent sees the sensitive statement and one that is true of a known share p of
    people, such as a birthday in some months, and answers 1 if both are true or neither is:

        P(1 | s = 1) = p,    P(1 | s = 0) = 1 - p.

    No device is needed. The law is that of `Warner(p)`; for p < 1/2 the slope d is negative. Where
    1 stands for "one of both is true", take 1 - p.

    Guarantee: epsilon = |log p / (1 - p)| per answer, as for `Warner`, against everybody who does
    not know the answer to the other statement. Whoever knows it, such as a birthday, reads s.

    Reference: Yu, Tian and Tang (2008), Metrika 67, 251-263.

    Attributes:
        p: The share of people of whom the other statement is true, independently of the sensitive
            one: one number, or one for each column.
        sensitivity: The number of entries of s that one person can change; 1 unless given.
        neighbours: Which databases differ by them; `nw.ReplaceOne()` by default.

    >>> import noisewise as nw
    >>> import numpy as np
    >>> nw.mechanisms.Crosswise(p=0.2).estimate(np.array([0.5, 0.2])).round(6).tolist()
    [0.5, 1.0]
    """

    p: PerColumn = probability("p")

    def _yes(self) -> tuple[PerColumn, PerColumn]:
        return 1.0 - self.p, self.p

    def _at_loss(self, loss: float) -> Crosswise:
        changes: dict[str, Any] = {"p": symmetric(self.p, loss)}
        return dataclasses.replace(self, **changes)

    def describe(self) -> str:
        return (
            "each answer says whether the sensitive statement and one that is true with probability"
            f" {shown(self.p)} are both true or both false"
        )
