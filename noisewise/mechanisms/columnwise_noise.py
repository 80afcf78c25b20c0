"""What all independent additive noise shares: a scale, and a sensitivity, for all columns or for
each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise._core.arrays import is_traced
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.columns import PerColumn, kinds_of, num_columns, rescaled, taken
from noisewise.mechanisms.guarantees import AbstractGuarantee

_MANY_SDS = 60.0
"""Sds within which likelihoods end: 40 nats of Laplace noise are 28 sds, and twice as many where a
law pulls.
"""


class AbstractColumnwiseNoise(AbstractMechanism):
    """Independent noise whose scale, and whose sensitivity, is one number or one per column.

    A concrete class has the fields `scale` and `sensitivity` with the converter `per_column`; its
    formulas broadcast the scale over the last axis.
    """

    if TYPE_CHECKING:

        @property
        def scale(self) -> PerColumn:
            """The scale of the noise, in the units of s."""

        @property
        def sensitivity(self) -> PerColumn | None:
            """The largest change of s between neighbours, or that of each column."""

    def __check_init__(self) -> None:
        num_columns(scale=self.scale, sensitivity=self.sensitivity)

    @property
    def width(self) -> int | None:
        return num_columns(scale=self.scale, sensitivity=self.sensitivity)

    @property
    def reach(self) -> float:
        deviations = self.noise_sd(self.width or 1)
        return _MANY_SDS * max(math.inf if sd is None else sd for sd in deviations)

    def of_columns(self, columns: Sequence[int]) -> AbstractMechanism:
        changes: dict[str, Any] = {
            name: taken(getattr(self, name), columns) for name in ("scale", "sensitivity")
        }
        return self if self.width is None else dataclasses.replace(self, **changes)

    def column_kinds(self, k: int) -> np.ndarray:
        found: np.ndarray = kinds_of(k, self.scale)
        return found

    def recalibrated(self, guarantee: AbstractGuarantee) -> AbstractMechanism:
        """Scales per column keep their ratios.

        >>> import noisewise as nw
        >>> noise = nw.mechanisms.Laplace(scale=[1.0, 4.0], sensitivity=2.0)
        >>> noise.recalibrated(nw.PureDP(4.0))
        Laplace(scale=[0.5, 2.0], sensitivity=2.0)
        """
        if np.ndim(self.scale) == 0 or self.sensitivity is None or is_traced(self):
            return super().recalibrated(guarantee)
        sensitivity, shares = rescaled(self.scale, self.sensitivity, self.norm)
        single = dataclasses.replace(self, **{"scale": 1.0, "sensitivity": sensitivity})
        made = AbstractMechanism.recalibrated(single, guarantee)
        scale = made.scale * shares  # type: ignore[attr-defined]
        return dataclasses.replace(self, **{"scale": scale})

    def _quietest(self, k: int) -> np.ndarray:
        """The columns with the least noise, out of k."""
        scales = np.broadcast_to(self.scale, k)
        return np.flatnonzero(scales == scales.min())
