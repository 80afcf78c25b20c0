"""Warner's randomised response: the statement or its opposite."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from noisewise.mechanisms.columns import PerColumn
from noisewise.mechanisms.survey_design import AbstractSurveyDesign, probability, shown


class Warner(AbstractSurveyDesign):
    r"""A device picks "I have the attribute" with probability p, else "I have it not"; the answer,
    1 for yes, is to the statement that was picked:

        P(1 | s = 1) = p,    P(1 | s = 0) = 1 - p.

    Guarantee: epsilon = |log p / (1 - p)| per answer, as both answers change their probabilities
    between p and 1 - p. For p >= 1/2 the law is that of `RandomizedResponse(truth_probability=p)`.

    Reference: Warner (1965), J. Am. Stat. Assoc. 60, 63-69.

    Attributes:
        p: The probability of the statement itself: one number, or one for each column.
        sensitivity: The number of entries of s that one person can change; 1 unless given.
        neighbours: Which databases differ by them; `nw.ReplaceOne()` by default.

    >>> import noisewise as nw
    >>> nw.mechanisms.Warner(p=0.25).guarantee == nw.mechanisms.Warner(p=0.75).guarantee
    True
    >>> nw.mechanisms.Warner(p=0.75).transport([0.2, 0.8], [1, 0]).tolist()
    [0.0, 1.0]
    """

    p: PerColumn = probability("p")

    def _yes(self) -> tuple[PerColumn, PerColumn]:
        return 1.0 - self.p, self.p

    def _at_loss(self, loss: float) -> Warner:
        changes: dict[str, Any] = {"p": symmetric(self.p, loss)}
        return dataclasses.replace(self, **changes)

    def describe(self) -> str:
        return (
            f"each answer is to the question with probability {shown(self.p)}, else to its opposite"
        )


def symmetric(p: PerColumn, loss: float) -> PerColumn:
    """The probability on the same side of 1/2 with |log p / (1 - p)| = loss.

    >>> round(symmetric(0.75, 1.0), 6), round(symmetric(0.25, 1.0), 6)
    (0.731059, 0.268941)
    """
    above = 1.0 / (1.0 + math.exp(-loss))
    found = np.where(np.asarray(p) >= 0.5, above, 1.0 - above)
    return found if np.ndim(p) else float(found)
