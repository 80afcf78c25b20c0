"""Regressions whose outcome was noised, randomised, rounded or suppressed: a formula, a frame and a
mechanism make a model with its observation.
"""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.regressions.analysis import Analysis
    from noisewise.regressions.building import regression
    from noisewise.regressions.likelihood import MaximumLikelihood, maximum_likelihood

__all__ = ["Analysis", "MaximumLikelihood", "maximum_likelihood", "regression"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Analysis": "noisewise.regressions.analysis",
        "MaximumLikelihood": "noisewise.regressions.likelihood",
        "maximum_likelihood": "noisewise.regressions.likelihood",
        "regression": "noisewise.regressions.building",
    },
)
