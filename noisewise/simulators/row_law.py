"""Laws of a statistic whose numbers are rows of a table."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

if TYPE_CHECKING:
    import numpyro.distributions as dist


class AbstractRowLaw(abc.ABC):
    """A function of theta for `StatisticLaw` that can give the law of some rows alone: those that
    say nothing are left out, and those that are alike are computed once.
    """

    @abc.abstractmethod
    def __call__(self, theta: Any) -> dist.Distribution:
        """The law of all rows, independent of each other, on the last batch axis."""

    @abc.abstractmethod
    def of_rows(self, rows: Sequence[int]) -> AbstractRowLaw:
        """The law of some rows, in this order."""

    @property
    @abc.abstractmethod
    def kinds(self) -> Int[np.ndarray, " k"]:
        """A number for each row: where it is the same, so is the law at every theta."""
