"""How far simulated private statistics may lie from the observed ones, round by round."""

from __future__ import annotations

import abc
import dataclasses

import numpy as np

from noisewise._core.arrays import number
from noisewise.errors import InvalidInputError


class AbstractTolerance(abc.ABC):
    """A schedule of tolerances for the rounds t = 1, 2, ..."""

    @abc.abstractmethod
    def at(self, round: int, distances: np.ndarray, weights: np.ndarray | None = None) -> float:
        """The tolerance of a round.

        Args:
            round: Which round, from 1 on.
            distances: Distances accepted in the round before, or those of prior draws for the first
                round, shape (n,); infinite for failed simulations.
            weights: Their weights, shape (n,); None for equal ones.

        Returns:
            The largest distance that is accepted in this round.
        """


@dataclasses.dataclass(frozen=True)
class GeometricDecay(AbstractTolerance):
    """start * factor^t, t = 1, 2, ...: the paper's schedule.

    It knows nothing of the problem's scale, so the first tolerance must suit it.

    Args:
        start: The tolerance before the first round.
        factor: What it is multiplied by in each round, in (0, 1).

    >>> [round(GeometricDecay(0.5, 0.7).at(t, np.zeros(1)), 4) for t in (1, 2, 3)]
    [0.35, 0.245, 0.1715]
    """

    start: float
    factor: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", number("start", at_least=0.0)(self.start))
        object.__setattr__(self, "factor", number("factor", above=0.0, below=1.0)(self.factor))

    def at(self, round: int, distances: np.ndarray, weights: np.ndarray | None = None) -> float:
        return self.start * self.factor**round


@dataclasses.dataclass(frozen=True)
class QuantileDecay(AbstractTolerance):
    """A quantile of the distances accepted in the round before, and at first of distances of prior
    draws.

    Quantiles are those of the weighted draws, and always one of the distances. So the schedule
    finds the scale by itself, and each round accepts about that share of what the round before
    would.

    Args:
        quantile: Which quantile, in (0, 1).

    >>> QuantileDecay(0.5).at(1, np.array([1.0, 2.0, 3.0, 4.0, np.inf]))
    2.0
    """

    quantile: float

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "quantile", number("quantile", above=0.0, below=1.0)(self.quantile)
        )

    def at(self, round: int, distances: np.ndarray, weights: np.ndarray | None = None) -> float:
        finite = np.isfinite(distances)
        if not finite.any():
            raise InvalidInputError(
                "QuantileDecay needs at least one finite distance: every simulation failed."
            )
        shares = None if weights is None else weights[finite]
        return float(
            np.quantile(distances[finite], self.quantile, method="inverted_cdf", weights=shares)
        )
