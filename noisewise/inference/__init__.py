"""s_dp -> posterior: one method per file, one contract for all."""

from noisewise.inference.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.importance_sampling import ImportanceSampling

__all__ = ["AbstractMethod", "AbstractSequentialMethod", "ImportanceSampling"]
