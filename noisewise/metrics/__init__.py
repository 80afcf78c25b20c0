"""How far apart are two sets of draws? Plain functions of (reference, draws).

Which to use: `c2st` for one number about all parameters together, `kolmogorov_smirnov` or
`cdf_error` for one per parameter, `sliced_wasserstein` in units of posterior sds, `mmd` to compare
with published tables. Where no exact draws exist, `log_median_distance` and `negative_log_density`
need only the observation or the truth. Each docstring states the floor: what exact draws reach.
"""

from noisewise.metrics.c2st import c2st
from noisewise.metrics.cdf_error import cdf_error
from noisewise.metrics.kolmogorov_smirnov import kolmogorov_smirnov
from noisewise.metrics.log_median_distance import log_median_distance
from noisewise.metrics.mmd import mmd
from noisewise.metrics.negative_log_density import negative_log_density
from noisewise.metrics.sliced_wasserstein import sliced_wasserstein

__all__ = [
    "c2st",
    "cdf_error",
    "kolmogorov_smirnov",
    "log_median_distance",
    "mmd",
    "negative_log_density",
    "sliced_wasserstein",
]
