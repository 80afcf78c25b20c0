"""How far apart are two sets of draws? Plain functions of (reference, draws)."""

from noisewise.metrics.c2st import c2st
from noisewise.metrics.kolmogorov_smirnov import kolmogorov_smirnov
from noisewise.metrics.mmd import mmd

__all__ = ["c2st", "kolmogorov_smirnov", "mmd"]
