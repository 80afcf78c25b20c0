"""s_dp -> posterior: one method per file, one contract for all. Names load on first use."""

# ruff: noqa: F401 - what type checkers import is exported by `__all__`, which is made of the rows

from __future__ import annotations

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach
from noisewise.inference.registry import METHODS

if TYPE_CHECKING:
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
    from noisewise.inference.learned.posterior.corrections import (
        AtomicProposals,
        TruncatedProposals,
    )
    from noisewise.inference.learned.posterior.private_posterior_estimation import (
        PrivatePosteriorEstimation,
    )
    from noisewise.inference.learned.robust.error_models import MechanismError, SpikeAndSlab
    from noisewise.inference.learned.robust.robust_posterior_estimation import (
        RobustPosteriorEstimation,
    )
    from noisewise.inference.marginal.count_augmentation import CountAugmentationMCMC
    from noisewise.inference.marginal.marginal_nuts import MarginalNUTS
    from noisewise.inference.paper_settings import as_in_paper

_PARTS = {
    "AbstractMethod": "contract.base",
    "AbstractSequentialMethod": "contract.base",
    "AmortisedPosterior": "learned.posterior.amortised_posterior",
    "AtomicProposals": "learned.posterior.corrections",
    "Euclidean": "abc.distances",
    "GeometricDecay": "abc.tolerances",
    "LearnedConfidentialLikelihood": "learned.confidential.learned_confidential_likelihood",
    "LearnedLikelihood": "learned.likelihood.learned_likelihood",
    "MechanismError": "learned.robust.error_models",
    "QuantileDecay": "abc.tolerances",
    "SpikeAndSlab": "learned.robust.error_models",
    "TruncatedProposals": "learned.posterior.corrections",
    "as_in_paper": "paper_settings",
    "Weighted": "abc.distances",
}
"""What methods are made of, and what they learn."""

_MODULES = _PARTS | {row.name: row.module for row in METHODS}

__all__ = sorted(_MODULES)

__getattr__, __dir__ = attach(
    __name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()}
)
