"""The stochastic lie detector: Warner's design where some of those concerned do not keep to it."""

from __future__ import annotations

from noisewise.mechanisms.columns import PerColumn
from noisewise.mechanisms.survey_design import AbstractSurveyDesign, probability, shown


class StochasticLieDetector(AbstractSurveyDesign):
    r"""People with the attribute answer 1 with probability `truth`, whatever the device says;
    those without it keep to the device, which asks them for the true answer 0 with probability p:

        P(1 | s = 1) = truth,    P(1 | s = 0) = 1 - p.

    How many are honest is rarely known. It is then a parameter of the model, which groups with
    different p tell: `mechanism=lambda theta: StochasticLieDetector(truth=theta["t"], p=p)` in
    `nw.PrivateModel`.

    Guarantee: epsilon = max(|log truth / (1 - p)|, |log p / (1 - truth)|) per answer, where people
    behave so. A part of the noise is their own choice, which no device promises.

    Reference: Moshagen, Musch and Erdfelder (2012), Behav. Res. Methods 44, 222-231; Heck and
    Moshagen (2018), J. Stat. Softw. 85(2).

    Attributes:
        truth: The share of yes among those with the attribute: one number, or one for each column.
        p: The probability that the device asks others for the true answer.
        sensitivity: The number of entries of s that one person can change; 1 unless given.
        neighbours: Which databases differ by them; `nw.ReplaceOne()` by default.

    >>> import noisewise as nw
    >>> survey = nw.mechanisms.StochasticLieDetector(truth=0.75, p=[0.25, 0.75])
    >>> survey.transport([0.5, 0.5], [0, 0]).tolist()
    [1.0, 0.0]
    """

    truth: PerColumn = probability("truth")
    p: PerColumn = probability("p")

    def _yes(self) -> tuple[PerColumn, PerColumn]:
        return 1.0 - self.p, self.truth

    def describe(self) -> str:
        return (
            f"those concerned say yes with probability {shown(self.truth)}, others say no with"
            f" probability {shown(self.p)}"
        )
