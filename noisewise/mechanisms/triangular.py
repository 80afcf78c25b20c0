"""The triangular design: whether at least one of two statements is true."""

from __future__ import annotations

from noisewise.mechanisms.columns import PerColumn
from noisewise.mechanisms.survey_design import AbstractSurveyDesign, probability, shown


class Triangular(AbstractSurveyDesign):
    r"""The respondent sees the sensitive statement and one that is true of a known share p of
    people, and answers 0 if neither is true, 1 if at least one is:

        P(1 | s = 1) = 1,    P(1 | s = 0) = p.

    Guarantee: none. The answer 0 tells that s = 0; who has the attribute is hidden among a share p
    of the others, which is what the design promises, and less than differential privacy.

    Reference: Yu, Tian and Tang (2008), Metrika 67, 251-263.

    Attributes:
        p: The share of people of whom the other statement is true, independently of the sensitive
            one: one number, or one for each column.
        sensitivity: Not used, as there is no guarantee.
        neighbours: Not used either.

    >>> import numpy as np
    >>> import noisewise as nw
    >>> survey = nw.mechanisms.Triangular(p=0.25)
    >>> np.exp(survey.log_prob([[0.0], [1.0]], [[0.0], [0.0]])).round(6).tolist()
    [0.75, 0.25]
    >>> survey.guarantee
    NoGuarantee()
    """

    p: PerColumn = probability("p")

    def _yes(self) -> tuple[PerColumn, PerColumn]:
        return self.p, 1.0

    def describe(self) -> str:
        return (
            "each answer says whether the sensitive statement or one that is true with probability"
            f" {shown(self.p)} is true, or both"
        )
