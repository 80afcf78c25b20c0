"""Ready problems: a model, an observation, the truth where known, and draws from the exact
posterior.

Use them to try methods and to measure them: `gaussian_mean` takes seconds, `linear_regression`,
`log_linear` and `sir` are those of the paper, `outbreak` holds real epidemics. `small_area`,
`randomized_response`, `contingency` and `incomes` have statistics of a known law: `nw.infer` sums
them out.
"""

from noisewise.problems.base import Limit, Problem
from noisewise.problems.contingency import contingency
from noisewise.problems.gaussian_mean import gaussian_mean
from noisewise.problems.incomes import incomes
from noisewise.problems.linear_regression import linear_regression
from noisewise.problems.log_linear import log_linear
from noisewise.problems.outbreak import outbreak
from noisewise.problems.randomized_response import randomized_response
from noisewise.problems.sir import sir
from noisewise.problems.small_area import small_area

__all__ = [
    "Limit",
    "Problem",
    "contingency",
    "gaussian_mean",
    "incomes",
    "linear_regression",
    "log_linear",
    "outbreak",
    "randomized_response",
    "sir",
    "small_area",
]
