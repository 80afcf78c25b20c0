"""What is the same for all mechanisms that claim no privacy."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from noisewise._core.neighbours import AbstractNeighbours
from noisewise.errors import MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee, NoGuarantee


class AbstractUnprotected(AbstractMechanism):
    """A publicly known rule from s to s_dp that promises nothing about neighbours."""

    norm: ClassVar[float] = 1.0

    @property
    def sensitivity(self) -> None:
        """None: nothing is promised, whatever the change of s."""
        return None

    @property
    def guarantee(self) -> AbstractGuarantee:
        return NoGuarantee()

    def for_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        """Itself: it promises nothing, whoever the neighbours are."""
        return self

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        raise MissingCapabilityError(
            f"{type(self).__name__} claims no privacy: there is no loss to audit."
        )
