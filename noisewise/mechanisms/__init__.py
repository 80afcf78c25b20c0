"""s -> s_dp: the publicly known noise. One mechanism per file."""

from noisewise.mechanisms.laplace import Laplace
from noisewise.mechanisms.point_sets import IndependentUniforms, ScrambledSobol

__all__ = ["IndependentUniforms", "Laplace", "ScrambledSobol"]
