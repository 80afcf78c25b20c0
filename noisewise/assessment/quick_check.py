"""The posterior predictive check that reports make if simulations are fast enough."""

from __future__ import annotations

import dataclasses
import time

import jax
import numpy as np
from jaxtyping import Float

from noisewise.diagnostics.predictive import PredictiveCheck, predictive_check
from noisewise.errors import NoisewiseError
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior

_SEED = 7
"""Seed of the simulations for reports: fixed, so that a report is the same when written again."""
CHECK_SIMULATIONS = 400
"""Simulations for a check: twice the 2 / alpha that its p-value needs at alpha = .01."""
_FIRST_TIMED = 20
"""Simulations timed first: enough to tell milliseconds from minutes."""
_MAX_SECONDS = 30.0
"""Seconds of simulation that a reader waits for without being asked."""


@dataclasses.dataclass(frozen=True)
class QuickCheck:
    """How many simulations fit in half a minute, and the posterior predictive check if 400 do.

    Attributes:
        num_affordable: Simulations that take half a minute; 0 without a model.
    """

    num_affordable: int = 0
    check: PredictiveCheck | None = None

    @classmethod
    def run(
        cls,
        posterior: AbstractPosterior,
        model: PrivateModel | None,
        observed: Float[np.ndarray, " kp"] | None,
    ) -> QuickCheck:
        """Simulate from the posterior, if there are a model and an observation, shape (k',)."""
        if model is None or observed is None:
            return cls()
        num = _affordable(model, posterior)
        check = _predicted(posterior, model, observed) if num >= CHECK_SIMULATIONS else None
        return cls(num, check)


def _affordable(model: PrivateModel, posterior: AbstractPosterior) -> int:
    """Simulations that take half a minute, judged by 20 of them, or by 400 where these are fast."""
    seconds, num = 0.0, _FIRST_TIMED
    for num in (_FIRST_TIMED, CHECK_SIMULATIONS):  # the first may compile
        theta = posterior.sample(jax.random.key(_SEED), num)
        started = time.monotonic()
        model.statistics(jax.random.key(num), theta, faults=model.new_faults())
        seconds = time.monotonic() - started
        if seconds > _MAX_SECONDS / 2:
            break
    return int(num * _MAX_SECONDS / max(seconds, 1e-6))


def _predicted(
    posterior: AbstractPosterior, model: PrivateModel, observed: Float[np.ndarray, " kp"]
) -> PredictiveCheck | None:
    """The check; None where the model cannot make the simulations."""
    if Capability.SAMPLE not in model.mechanism.capabilities:
        return None
    key = jax.random.key(_SEED)
    try:
        return predictive_check(key, posterior, model, observed, CHECK_SIMULATIONS)
    except NoisewiseError:
        return None
