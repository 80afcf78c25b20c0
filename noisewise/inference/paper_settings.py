"""The settings of the paper, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noisewise.errors import InvalidInputError
from noisewise.estimators.flows import neural_spline_flow
from noisewise.estimators.training import Training
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.learned.likelihood.private_likelihood_estimation import (
    PrivateLikelihoodEstimation,
)
from noisewise.inference.learned.posterior.private_posterior_estimation import (
    PrivatePosteriorEstimation,
)


def as_in_paper(slug: str, **changes: Any) -> AbstractMethod:
    """A method as Xiong, Ju and Zhang ran it: its rounds, its networks and what they see, and our
    usual training. Our defaults need fewer steps for a better answer.

    Args:
        slug: Which method: "sppe" or "sple".
        **changes: Settings that are to be others.

    Returns:
        The method.

    Raises:
        InvalidInputError: If the method has no settings of the paper here.

    >>> method = as_in_paper("sppe", num_rounds=2)
    >>> method.num_rounds, method.num_simulations, method.embedding
    (2, 1000, None)
    """
    if slug not in _SETTINGS:
        known = ", ".join(map(repr, _SETTINGS))
        raise InvalidInputError(f"as_in_paper knows {known}, got {slug!r}.")
    method, settings = _SETTINGS[slug]
    return method(**{**settings, **changes})


_SETTINGS: dict[str, tuple[Callable[..., AbstractMethod], dict[str, Any]]] = {
    "sppe": (
        PrivatePosteriorEstimation,
        {
            "num_rounds": 10,
            "num_simulations": 1000,
            "estimator": neural_spline_flow,
            "embedding": None,
            "num_noise": 8,
            "noise_bank": 128,
            "training": Training(),
        },
    ),
    "sple": (
        PrivateLikelihoodEstimation,
        {
            "num_rounds": 10,
            "num_simulations": 1000,
            "estimator": neural_spline_flow,
            "training": Training(),
        },
    ),
}
