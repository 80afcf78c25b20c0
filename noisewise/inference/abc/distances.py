r"""How far simulated private statistics lie from the observed ones.

    rho(s_dp, s_dp') = sqrt( sum_j ((s_dp,j - s_dp',j) / scale_j)^2 + number of j absent in one )

Columns are on the paper's scale, means and proportions: `mechanism.distance_unit` divides counts
first. An absent cell lies at its threshold, and a published one is one scale further from it.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, describe, in_blocks
from noisewise._core.keys import fold_in
from noisewise.errors import InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism


class AbstractDistance(abc.ABC):
    """How columns of s_dp are scaled before differences are added up."""

    @abc.abstractmethod
    def scales(
        self, simulated: Float[np.ndarray, "n kp"], unit: Float[np.ndarray, " kp"]
    ) -> Float[np.ndarray, " kp"]:
        """The scale of each column.

        Args:
            simulated: Prior-predictive s_dp, shape (n, k'), without failed simulations.
            unit: The mechanism's units, shape (k',): n for a count out of n, else 1.

        Returns:
            Scales, shape (k',).
        """


@dataclasses.dataclass(frozen=True)
class Euclidean(AbstractDistance):
    """The paper's distance: scale_j = 1, or n for a count out of n.

    >>> Euclidean().scales(np.zeros((5, 2)), np.array([1.0, 100.0])).tolist()
    [1.0, 100.0]
    """

    def scales(
        self, simulated: Float[np.ndarray, "n kp"], unit: Float[np.ndarray, " kp"]
    ) -> Float[np.ndarray, " kp"]:
        return unit


@dataclasses.dataclass(frozen=True)
class Weighted(AbstractDistance):
    """scale_j = the median absolute deviation of column j among prior-predictive s_dp: all columns
    count alike.

    Where more than half the draws are equal it is their standard deviation, and where all are, the
    unit.

    >>> Weighted().scales(np.array([[0.0, 7.0], [1.0, 7.0], [3.0, 7.0]]), np.ones(2)).tolist()
    [1.0, 1.0]
    """

    def scales(
        self, simulated: Float[np.ndarray, "n kp"], unit: Float[np.ndarray, " kp"]
    ) -> Float[np.ndarray, " kp"]:
        if not len(simulated):
            return unit
        deviation = np.median(np.abs(simulated - np.median(simulated, axis=0)), axis=0)
        spread = np.where(deviation > 0.0, deviation, simulated.std(axis=0))
        return np.where(spread > 0.0, spread, unit)


def check_distance(distance: Any) -> None:
    """Refuse anything but a distance."""
    if not isinstance(distance, AbstractDistance):
        raise InvalidTypeError(
            f"distance must be Euclidean() or Weighted(), got {describe(distance)}."
        )


@dataclasses.dataclass(frozen=True)
class Ruler:
    """Adds noise to simulated statistics, and measures how far they are from the observed ones.

    Attributes:
        mechanism: Adds the noise.
        observed: The private statistic, shape (k',).
        scales: The scale of each column, shape (k',).
    """

    mechanism: AbstractMechanism
    observed: np.ndarray
    scales: np.ndarray

    @staticmethod
    def fitted(
        key: Array,
        distance: AbstractDistance,
        mechanism: AbstractMechanism,
        observed: Float[np.ndarray, " kp"],
        s: Float[np.ndarray, "n k"],
    ) -> Ruler:
        """The ruler of a distance.

        Args:
            key: A PRNG key, for noise.
            distance: Chooses the scales.
            mechanism: Adds the noise.
            observed: The private statistic, shape (k',).
            s: Prior-predictive statistics, shape (n, k).
        """
        unit = np.broadcast_to(
            np.asarray(mechanism.distance_unit, dtype=np.float64), observed.shape
        )
        s_dp = mechanism.support.filled(private(key, mechanism, s)[:, 0])
        good = ~(np.isnan(s_dp).any(axis=1) | np.isnan(s).any(axis=1))
        return Ruler(mechanism, observed, distance.scales(s_dp[good], unit))

    def distances(
        self, key: Array, s: Float[np.ndarray, "n k"], num_noise: int = 1
    ) -> Float[np.ndarray, "n m"]:
        """How far statistics are from the observed ones, after noise.

        Args:
            key: A PRNG key, for noise.
            s: Simulated statistics, shape (n, k).
            num_noise: Draws of noise for each.

        Returns:
            Distances, shape (n, num_noise); infinite for failed simulations.
        """
        s_dp = private(key, self.mechanism, s, num_noise)
        squares = ((self._filled(s_dp) - self._filled(self.observed)) / self.scales) ** 2
        differ = np.isnan(s_dp) != np.isnan(self.observed)
        distances = np.sqrt(np.sum(squares + differ, axis=-1))
        return np.where(
            np.isnan(distances) | np.isnan(s).any(axis=1, keepdims=True), np.inf, distances
        )

    def _filled(self, values: np.ndarray) -> np.ndarray:
        return self.mechanism.support.filled(values)


def private(
    key: Array, mechanism: AbstractMechanism, s: Float[np.ndarray, "n k"], num_noise: int = 1
) -> Float[np.ndarray, "n m kp"]:
    """s_dp (n, num_noise, k') with independent noise, for statistics s (n, k)."""

    def noisy(block: int, rows: np.ndarray) -> np.ndarray:
        copies = np.broadcast_to(rows[:, None, :], (len(rows), num_noise, rows.shape[-1]))
        return mechanism.sample(fold_in(key, block), copies)

    return in_blocks(noisy, s)
