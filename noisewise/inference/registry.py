"""The inference methods, one row each: what lists, help and lazy imports know without loading them.

A test holds every row against its class. To add a method, add its file and its row.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    """One method.

    Attributes:
        slug: What the command line and reports call it.
        name: Its class in `nw.inference`.
        module: Where the class is, below `noisewise.inference`.
        needs: Capabilities that the mechanism must have, as `Capability` spells them.
        line: One line about it: the first of its module.
    """

    slug: str
    name: str
    module: str
    needs: tuple[str, ...]
    line: str


_DENSITY, _SAMPLE = "log_prob", "sample"

METHODS = (
    Row(
        "cle",
        "ConfidentialLikelihoodEstimation",
        "learned.confidential.confidential_likelihood_estimation",
        (_DENSITY,),
        "CLE: the law of confidential statistics, learnt once for every mechanism.",
    ),
    Row(
        "confidential",
        "ConfidentialPosterior",
        "baselines.confidential_posterior",
        (),
        "The posterior that the curator could compute.",
    ),
    Row(
        "counts",
        "CountAugmentationMCMC",
        "marginal.count_augmentation",
        (_DENSITY,),
        "Markov chains on parameters and whole cells, for released sums that share cells.",
    ),
    Row(
        "da-mcmc",
        "DataAugmentationMCMC",
        "exact.data_augmentation_mcmc",
        (_DENSITY,),
        "Data augmentation over records.",
    ),
    Row(
        "exact-smc",
        "ExactSMC",
        "exact.exact_smc",
        (_DENSITY,),
        "Sequential Monte Carlo over the power of the mechanism's density.",
    ),
    Row(
        "gibbs-ss",
        "GibbsSufficientStatistics",
        "baselines.gibbs_sufficient_statistics",
        (),
        "Gibbs sampling of parameters and sufficient statistics.",
    ),
    Row(
        "importance",
        "ImportanceSampling",
        "exact.importance_sampling",
        (_DENSITY,),
        "Importance sampling by the mechanism's density.",
    ),
    Row(
        "naive",
        "NaivePlugIn",
        "baselines.naive_plug_in",
        (),
        "The private statistic treated as the confidential one.",
    ),
    Row(
        "nuts",
        "MarginalNUTS",
        "marginal.marginal_nuts",
        (_DENSITY,),
        "No-U-turn chains on the exact law of what was released.",
    ),
    Row(
        "pseudo-marginal",
        "PseudoMarginalMCMC",
        "exact.pseudo_marginal_mcmc",
        (_DENSITY,),
        "Markov chains on unbiased estimates of the likelihood.",
    ),
    Row(
        "rejection-abc",
        "RejectionABC",
        "abc.rejection_abc",
        (),
        "Rejection: simulate from the prior and keep what agrees with the observation.",
    ),
    Row(
        "rnpe",
        "RobustPosteriorEstimation",
        "learned.robust.robust_posterior_estimation",
        (),
        "RNPE: posterior estimation from statistics that may not be what the model says.",
    ),
    Row(
        "smc-abc",
        "SMCABC",
        "abc.smc_abc",
        (_SAMPLE,),
        "Sequential Monte Carlo with simulated private statistics: the tolerance falls from round"
        " to round.",
    ),
    Row(
        "sple",
        "PrivateLikelihoodEstimation",
        "learned.likelihood.private_likelihood_estimation",
        (_SAMPLE,),
        "SPLE: the likelihood of private statistics, learnt from simulated ones.",
    ),
    Row(
        "sppe",
        "PrivatePosteriorEstimation",
        "learned.posterior.private_posterior_estimation",
        (_SAMPLE,),
        "SPPE: the posterior learnt from simulated private data.",
    ),
)
"""In the order of their slugs, as lists show them."""
