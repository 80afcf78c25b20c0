"""Which of two learnt posteriors predicts held-out simulations near the observation better."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.learned.posterior.regions import Estimate, in_all

_MIN_ROWS = 20
"""Held-out simulations below which nothing is said: their standard error is hardly known."""
_FEW_ROWS = 64
"""Held-out simulations that are compared at least, where there are as many: with fewer the standard
error hides what rounds do.
"""
_MAX_ROWS = 128
"""Held-out simulations compared: a loss of .1 nats is 2 standard errors where differences have an
sd of .6.
"""
NUM_NOISE = 4
"""Noisy versions of each of them: they average out what the privacy noise adds to differences."""
_NUM_DRAWS = 16
"""Draws that find how much of a posterior lies inside the regions, for each noisy version: an error
of .13 nats for each simulation where half does, little against the differences between them. At
most eight blocks of 1,024 rows.
"""
_WORSE = 2.0
"""Standard errors: a round as good as the one before is taken for worse in 2% of cases."""
_MOST = 10.0
"""Nats that one row may count: a row that a network calls impossible is not the whole mean."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The mean change of held-out log scores, in nats, and its standard error."""

    change: float
    error: float

    @property
    def worse(self) -> bool:
        """Whether the scores fell by more than chance explains."""
        return self.change < -_WORSE * self.error


def compared(
    key: Array,
    former: Estimate,
    new: ConditionalDensity,
    z: Float[np.ndarray, "n p"],
    condition: Float[np.ndarray, "n m w"],
) -> Comparison | None:
    r"""The paired difference of log scores over simulations (z_i, c_i) that neither was trained on.

        1/n sum_i  log [q_new(z_i | c_i) / Q_new(A | c_i)] - log [q_old(z_i | c_i) / Q_old(A | c_i)]

    averaged over noisy versions of c_i. A is where the simulations lie, Q its mass, found from
    draws. Pairs come from the prior inside A, so that the law of z_i given c_i ends at its surface;
    the old density, learnt in a wider region, rightly has mass beyond.

    Args:
        key: JAX PRNG key of the draws, the same for both.
        former: The estimate so far, with the regions.
        new: The density to judge.
        z: Held-out parameters inside the regions.
        condition: Features of noisy versions of their statistics, shape (n, m, w).

    Returns:
        The comparison, over the half of the simulations that is nearest to the observation, but 64
        at least and 128 at most; None where there are too few.
    """
    if len(z) < _MIN_ROWS:
        return None
    num, versions = min(max(_FEW_ROWS, len(z) // 2), _MAX_ROWS, len(z)), condition.shape[1]
    centre = condition.mean(axis=1)
    scale = np.maximum(centre.std(axis=0), 1e-300)
    distance = (((centre - former.condition) / scale) ** 2).sum(axis=1)
    rows = np.argsort(distance, kind="stable")[:num]
    z, condition = np.repeat(z[rows], versions, axis=0), np.concatenate(condition[rows])
    new_score, old_score = (
        density.log_prob(z, condition) - _log_mass(key, density, former, condition)
        for density in (new, former.density)
    )
    with np.errstate(invalid="ignore"):
        difference = np.clip(np.nan_to_num(new_score - old_score), -_MOST, _MOST)
    difference = difference.reshape(num, versions).mean(axis=1)
    return Comparison(float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(num)))


def _log_mass(
    key: Array, density: ConditionalDensity, former: Estimate, condition: Float[np.ndarray, "n w"]
) -> Float[np.ndarray, " n"]:
    """The log of a density's mass inside the regions, for each condition."""
    if not former.regions:
        return np.zeros(len(condition))
    draws = density.sample(key, np.repeat(condition, _NUM_DRAWS, axis=0))
    hits = in_all(former.regions, draws).reshape(len(condition), _NUM_DRAWS).sum(axis=1)
    return np.log((hits + 0.5) / (_NUM_DRAWS + 1.0))
