"""Ready problems: a model, an observation, the truth where known, and draws from the exact
posterior.

Use them to try methods and to measure them: `gaussian_mean` takes seconds, `linear_regression`,
`log_linear` and `sir` are those of the paper, and `outbreak` holds real epidemics.
"""

from noisewise.problems.base import Limit, Problem
from noisewise.problems.gaussian_mean import gaussian_mean
from noisewise.problems.linear_regression import linear_regression
from noisewise.problems.log_linear import log_linear
from noisewise.problems.outbreak import outbreak
from noisewise.problems.sir import sir

__all__ = [
    "Limit",
    "Problem",
    "gaussian_mean",
    "linear_regression",
    "log_linear",
    "outbreak",
    "sir",
]
