"""What is the same for every fixed function of another mechanism's output."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from noisewise._core.neighbours import AbstractNeighbours
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.columns import PerColumn
from noisewise.mechanisms.guarantees import AbstractGuarantee


class AbstractPostProcessing(AbstractMechanism):
    """A fixed function of the output of an inner mechanism, column by column.

    Its guarantee is that of the inner mechanism, since post-processing reveals nothing more (Dwork
    and Roth 2014, proposition 2.1). A concrete class gives the support and the law, and draws
    exactly by applying its function to what the inner mechanism draws.

    Attributes:
        mechanism: The inner mechanism.
    """

    mechanism: AbstractMechanism

    @property
    def inner(self) -> AbstractMechanism:
        return self.mechanism.inner

    def of_columns(self, columns: Sequence[int]) -> AbstractMechanism:
        return dataclasses.replace(self, mechanism=self.mechanism.of_columns(columns))

    @property
    def needs_delta(self) -> bool:
        return self.mechanism.needs_delta

    @property
    def normal_mixture(self) -> None:
        return None

    @property
    def spends(self) -> bool:
        return self.mechanism.spends

    @property
    def has_noiseless_columns(self) -> bool:
        return self.mechanism.has_noiseless_columns

    def recalibrated(self, guarantee: AbstractGuarantee) -> AbstractMechanism:
        return dataclasses.replace(self, mechanism=self.mechanism.recalibrated(guarantee))

    @property
    def exact_counterpart(self) -> str | None:  # type: ignore[override]
        """The inner mechanism's."""
        return self.mechanism.exact_counterpart

    @property
    def exact_step(self) -> float | None:
        return self.mechanism.exact_step

    @property
    def largest_statistic(self) -> float | None:
        return self.mechanism.largest_statistic

    @property
    def is_exact(self) -> bool:
        return self.mechanism.is_exact

    @property
    def norm(self) -> float:  # type: ignore[override]
        """The inner mechanism's."""
        return self.mechanism.norm

    @property
    def sensitivity(self) -> PerColumn:
        """The inner mechanism's."""
        return self.mechanism.sensitivity

    @property
    def derives_guarantee(self) -> bool:
        return self.mechanism.derives_guarantee

    @property
    def neighbours(self) -> AbstractNeighbours:
        return self.mechanism.neighbours

    def for_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        return dataclasses.replace(self, mechanism=self.mechanism.for_neighbours(neighbours))

    @property
    def guarantee(self) -> AbstractGuarantee:
        return self.mechanism.guarantee

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.mechanism.capabilities

    @property
    def width(self) -> int | None:
        return self.mechanism.width

    @property
    def input_bounds(self) -> tuple[Any, Any]:
        return self.mechanism.input_bounds

    @property
    def distance_unit(self) -> float | np.ndarray:
        return self.mechanism.distance_unit

    def output_width(self, k: int) -> int:
        return self.mechanism.output_width(k)

    def num_uniforms(self, k: int) -> int:
        return self.mechanism.num_uniforms(k)

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The inner mechanism's: where the function keeps outputs apart, the probabilities of their
        images have the same ratio.
        """
        return self.mechanism.adjacent_pairs(k)

    def _check_statistic(self, s: np.ndarray) -> None:
        self.mechanism._check_statistic(s)
