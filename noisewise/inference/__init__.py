"""s_dp -> posterior: one method per file, one contract for all."""

from noisewise.inference.amortised_posterior import AmortisedPosterior
from noisewise.inference.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.confidential_likelihood_estimation import ConfidentialLikelihoodEstimation
from noisewise.inference.confidential_posterior import ConfidentialPosterior
from noisewise.inference.corrections import AtomicProposals, TruncatedProposals
from noisewise.inference.data_augmentation_mcmc import DataAugmentationMCMC
from noisewise.inference.distances import Euclidean, Weighted
from noisewise.inference.error_models import MechanismError, SpikeAndSlab
from noisewise.inference.exact_smc import ExactSMC
from noisewise.inference.gibbs_sufficient_statistics import GibbsSufficientStatistics
from noisewise.inference.importance_sampling import ImportanceSampling
from noisewise.inference.learned_confidential_likelihood import LearnedConfidentialLikelihood
from noisewise.inference.learned_likelihood import LearnedLikelihood
from noisewise.inference.naive_plug_in import NaivePlugIn
from noisewise.inference.private_likelihood_estimation import PrivateLikelihoodEstimation
from noisewise.inference.private_posterior_estimation import PrivatePosteriorEstimation
from noisewise.inference.pseudo_marginal_mcmc import PseudoMarginalMCMC
from noisewise.inference.rejection_abc import RejectionABC
from noisewise.inference.robust_posterior_estimation import RobustPosteriorEstimation
from noisewise.inference.smc_abc import SMCABC
from noisewise.inference.tolerances import GeometricDecay, QuantileDecay

__all__ = [
    "SMCABC",
    "AbstractMethod",
    "AbstractSequentialMethod",
    "AmortisedPosterior",
    "AtomicProposals",
    "ConfidentialLikelihoodEstimation",
    "ConfidentialPosterior",
    "DataAugmentationMCMC",
    "Euclidean",
    "ExactSMC",
    "GeometricDecay",
    "GibbsSufficientStatistics",
    "ImportanceSampling",
    "LearnedConfidentialLikelihood",
    "LearnedLikelihood",
    "MechanismError",
    "NaivePlugIn",
    "PrivateLikelihoodEstimation",
    "PrivatePosteriorEstimation",
    "PseudoMarginalMCMC",
    "QuantileDecay",
    "RejectionABC",
    "RobustPosteriorEstimation",
    "SpikeAndSlab",
    "TruncatedProposals",
    "Weighted",
]
