"""s_dp -> posterior: one method per file, one contract for all."""

from noisewise.inference.abc.distances import Euclidean, Weighted
from noisewise.inference.abc.rejection_abc import RejectionABC
from noisewise.inference.abc.smc_abc import SMCABC
from noisewise.inference.abc.tolerances import GeometricDecay, QuantileDecay
from noisewise.inference.baselines.confidential_posterior import ConfidentialPosterior
from noisewise.inference.baselines.gibbs_sufficient_statistics import GibbsSufficientStatistics
from noisewise.inference.baselines.naive_plug_in import NaivePlugIn
from noisewise.inference.contract.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.exact.data_augmentation_mcmc import DataAugmentationMCMC
from noisewise.inference.exact.exact_smc import ExactSMC
from noisewise.inference.exact.importance_sampling import ImportanceSampling
from noisewise.inference.exact.pseudo_marginal_mcmc import PseudoMarginalMCMC
from noisewise.inference.learned.confidential.confidential_likelihood_estimation import (
    ConfidentialLikelihoodEstimation,
)
from noisewise.inference.learned.confidential.learned_confidential_likelihood import (
    LearnedConfidentialLikelihood,
)
from noisewise.inference.learned.likelihood.learned_likelihood import LearnedLikelihood
from noisewise.inference.learned.likelihood.private_likelihood_estimation import (
    PrivateLikelihoodEstimation,
)
from noisewise.inference.learned.posterior.amortised_posterior import AmortisedPosterior
from noisewise.inference.learned.posterior.corrections import AtomicProposals, TruncatedProposals
from noisewise.inference.learned.posterior.private_posterior_estimation import (
    PrivatePosteriorEstimation,
)
from noisewise.inference.learned.robust.error_models import MechanismError, SpikeAndSlab
from noisewise.inference.learned.robust.robust_posterior_estimation import RobustPosteriorEstimation

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
