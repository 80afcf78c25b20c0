"""Where later rounds simulate: the regions in which the estimates so far have their mass."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.priors.prior import Prior


@dataclasses.dataclass(frozen=True)
class Region:
    """A set of z: the part of the box [low, high] where a density is above a level."""

    density: ConditionalDensity
    condition: Float[np.ndarray, " w"]
    level: float
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]

    def contains(self, z: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, " n"]:
        """Which rows of z lie in it."""
        result: np.ndarray = np.all((z >= self.low) & (z <= self.high), axis=1)
        if result.any():
            result[result] = self.density.log_prob(z[result], self.condition) > self.level
        return result


def in_all(regions: tuple[Region, ...], z: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, " n"]:
    """Which rows of z lie in all regions; the last, being the smallest, is asked first."""
    result = np.ones(len(z), dtype=bool)
    for region in reversed(regions):
        if result.any():
            result[result] = region.contains(z[result])
    return result


class Regions:
    """The regions of all rounds so far, and which simulations lie in all of them."""

    def __init__(self) -> None:
        self.all: tuple[Region, ...] = ()
        self._within, self._num_asked = np.empty(0, dtype=bool), 0

    def add(self, region: Region) -> None:
        """Restrict what follows to one more region."""
        self.all = (*self.all, region)

    def holding(self, z: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, " n"]:
        """Which simulations lie in all regions: new ones are tested against all of them, those
        known from earlier calls against new regions only.

        Args:
            z: The parameters of all simulations so far; earlier calls gave its first rows.
        """
        known = np.flatnonzero(self._within)
        for region in self.all[self._num_asked :]:
            known = known[region.contains(z[known])]
        result, num = np.zeros(len(z), dtype=bool), len(self._within)
        result[known] = True
        result[num:] = in_all(self.all, z[num:])
        self._within, self._num_asked = result, len(self.all)
        return result


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The posterior as learnt so far, for a correction to propose from."""

    density: ConditionalDensity
    condition: Float[np.ndarray, " w"]
    prior: Prior
    regions: tuple[Region, ...] = ()
    past: Float[np.ndarray, "n p"] | None = None
    """The parameters of all simulations so far; None where there are none."""

    @property
    def simulated(self) -> Float[np.ndarray, "n p"]:
        """The parameters of all simulations so far."""
        return np.empty((0, self.prior.unconstrained_dim)) if self.past is None else self.past

    def sample(self, key: Array, num: int) -> Float[np.ndarray, "n p"]:
        """Draws of z."""
        return self.density.sample(key, self.condition, num)

    def log_prob(self, z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """The log of the density at z."""
        return self.density.log_prob(z, self.condition)


@dataclasses.dataclass(frozen=True)
class NextRound:
    """Parameters for the next round, and what the learner has to add to what it knows."""

    z: Float[np.ndarray, "n p"]
    region: Region | None = None
    """A region that z was restricted to, and the rounds to come are too."""
    gave_up: bool = False
    """Whether z comes from the whole prior because the region could not be reached."""
