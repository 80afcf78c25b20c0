"""s_dp -> posterior: one method per file, one contract for all."""

from noisewise.inference.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.confidential_posterior import ConfidentialPosterior
from noisewise.inference.data_augmentation_mcmc import DataAugmentationMCMC
from noisewise.inference.exact_smc import ExactSMC
from noisewise.inference.gibbs_sufficient_statistics import GibbsSufficientStatistics
from noisewise.inference.importance_sampling import ImportanceSampling
from noisewise.inference.naive_plug_in import NaivePlugIn

__all__ = [
    "AbstractMethod",
    "AbstractSequentialMethod",
    "ConfidentialPosterior",
    "DataAugmentationMCMC",
    "ExactSMC",
    "GibbsSufficientStatistics",
    "ImportanceSampling",
    "NaivePlugIn",
]
