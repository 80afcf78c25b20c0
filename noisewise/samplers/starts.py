"""Particles chosen from many draws of the reference law: the first step of tempering, by densities
alone.

    w_i = (density(z_i) / reference(z_i))^lambda

with lambda the largest, at most 1, that leaves twice as many draws effective as there will be
particles, or half of all draws.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise._core.weights import normalised, systematic_rows
from noisewise.errors import InvalidInputError
from noisewise.samplers.densities import LogDensity, log_densities

EFFECTIVE_SHARE = 0.5
"""Share of the particles that each temperature leaves effective: of the usual choices (.5 to .9)
the one with fewest temperatures. More particles make up for the variance at the same cost.
"""
_EFFECTIVE_STARTS = 2
"""Effective starts for each particle, where there are enough: choosing particles from them then
adds more to the error than the starts have.
"""
BISECTIONS = 60
"""Halvings for the next lambda: from 1 down to 1e-18, the change that a likelihood as narrow as
float64 resolves still allows.
"""


def chosen(
    key: Array,
    target: LogDensity,
    reference: LogDensity,
    z: Float[np.ndarray, "n d"],
    groups: int,
    num: int,
) -> tuple[Float[np.ndarray, "m d"], float, Float[np.ndarray, " g"]]:
    """The particles at the first lambda, each population from its own share of the starts.

    Args:
        key: JAX PRNG key.
        target: z (d,) -> unnormalised log density.
        reference: The same for the law of the starts.
        z: The starts, one population after another.
        groups: Populations.
        num: Particles of all populations.

    Returns:
        Particles, shape (num, d), the first lambda, and log evidence by population.

    Raises:
        InvalidInputError: If the density vanishes at all starts.
    """
    values = log_densities(reference, z, target)
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isfinite(values).all(axis=0), values[1] - values[0], -np.inf)
    if not np.isfinite(ratio).any():
        raise InvalidInputError(
            f"The density vanishes at all {len(z)} starts: draw more from the reference law."
        )
    most = EFFECTIVE_SHARE * np.isfinite(ratio).sum()
    power = _first_power(ratio, min(_EFFECTIVE_STARTS * num, most))
    with np.errstate(invalid="ignore"):
        log_weights = np.where(np.isfinite(ratio), power * ratio, -np.inf).reshape(groups, -1)
    evidence = logsumexp(log_weights, axis=1) - math.log(log_weights.shape[1])
    places = generator(key).random(groups)
    rows = [
        _rows(each, log_weights, number, num // groups, place)
        for number, (each, place) in enumerate(zip(log_weights, places, strict=True))
    ]
    return z[np.concatenate(rows)], power, evidence


def _rows(
    own: Float[np.ndarray, " n"],
    all_of_them: Float[np.ndarray, "g n"],
    number: int,
    num: int,
    place: float,
) -> Int[np.ndarray, " num"]:
    """Starts of population `number` by its log weights, or by those of all populations where its
    own are impossible: it counts for nothing then, but the moves of the others are tuned to it too.
    """
    if np.isfinite(own).any():
        return number * len(own) + systematic_rows(normalised(own), num, place)
    return systematic_rows(normalised(all_of_them.reshape(-1)), num, place)


def _first_power(ratio: Float[np.ndarray, " n"], wanted: float) -> float:
    """The largest lambda, at most 1, that leaves so many starts effective."""
    centred = ratio[np.isfinite(ratio)] - ratio.max()

    def enough(power: float) -> bool:
        weights = np.exp(power * centred)
        return bool(weights.sum() ** 2 >= wanted * (weights**2).sum())

    low, high = 0.0, 1.0
    if enough(high):
        return high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low if low > 0.0 else high
