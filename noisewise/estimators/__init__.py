"""q(target | condition): flows and mixtures, their standardisation, and the compiled training loop.
Nothing here knows of privacy.
"""

from noisewise._core.lazy import attach

__all__ = [
    "Affine",
    "ConditionalDensity",
    "Conditioner",
    "Embedding",
    "Training",
    "Whitening",
    "autoregressive_mixture",
    "ensemble",
    "masked_autoregressive_flow",
    "mixture_density_network",
    "negative_log_prob",
    "neural_spline_flow",
    "train",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Affine": "noisewise.estimators.whitening",
        "ConditionalDensity": "noisewise.estimators.conditional_density",
        "Conditioner": "noisewise.estimators.conditioner",
        "Embedding": "noisewise.estimators.embedding",
        "Training": "noisewise.estimators.training",
        "Whitening": "noisewise.estimators.whitening",
        "autoregressive_mixture": "noisewise.estimators.coordinate_mixtures",
        "ensemble": "noisewise.estimators.members",
        "masked_autoregressive_flow": "noisewise.estimators.flows",
        "mixture_density_network": "noisewise.estimators.mixture_density",
        "negative_log_prob": "noisewise.estimators.training",
        "neural_spline_flow": "noisewise.estimators.flows",
        "train": "noisewise.estimators.training",
    },
)
