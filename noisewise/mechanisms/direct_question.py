"""The question without a device: answers as they are."""

from __future__ import annotations

from noisewise.mechanisms.columns import PerColumn
from noisewise.mechanisms.survey_design import AbstractSurveyDesign


class DirectQuestion(AbstractSurveyDesign):
    r"""The answer is s itself, P(1 | s) = s: the arm of a survey that is asked without a device.

    Guarantee: none, as every answer tells s.

    Attributes:
        sensitivity: Not used, as there is no guarantee.
        neighbours: Not used either.

    >>> import noisewise as nw
    >>> m = nw.mechanisms
    >>> survey = m.PerCell([m.DirectQuestion(), m.Warner(p=0.8)], which=[0, 1])
    >>> survey.transport([0.9, 0.9], [0, 0]).tolist()
    [0.0, 1.0]
    """

    def _yes(self) -> tuple[PerColumn, PerColumn]:
        return 0.0, 1.0

    def describe(self) -> str:
        return "the answer as it is, without a device"
