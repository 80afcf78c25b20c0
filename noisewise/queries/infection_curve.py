"""The number of people infected at each of several times."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from noisewise._core.arrays import Array, is_traced
from noisewise._core.neighbours import AddRemoveOne
from noisewise.errors import InvalidInputError
from noisewise.queries._converters import check_width, count, set_checked
from noisewise.queries.base import AbstractAdditiveQuery
from noisewise.queries.domains import Categories, as_array


@dataclasses.dataclass(frozen=True)
class InfectionCurve(AbstractAdditiveQuery):
    r"""s_l = number of people infected at time l, for L = `num_times` times.

    `x` is either everyone's statuses, 0 or 1, of shape (population, L), or the counts themselves,
    shape (L,), as epidemic simulators give them.

    Attributes:
        population: The number of people, public.
        num_times: L, the number of times.

    Sensitivity: one person's row of L statuses moves each count by at most 1, and all of them, one
    way, if someone never infected is replaced by someone always infected. Exactly, Delta_1 = L,
    Delta_2 = sqrt L, Delta_inf = 1. Adding or removing someone who is always infected moves all
    counts by 1 too, and nobody moves them further: the same, times c for c rows of one unit.

    >>> import noisewise as nw
    >>> query = nw.queries.InfectionCurve(population=3, num_times=4)
    >>> query([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    array([1., 2., 1., 0.])
    >>> query([1, 2, 1, 0])
    array([1., 2., 1., 0.])
    >>> query.sensitivity(norm=1), query.sensitivity(norm=2)
    (4.0, 2.0)
    """

    population: int
    num_times: int

    def __post_init__(self) -> None:
        set_checked(self, population=count("population", self.population))
        set_checked(self, num_times=count("num_times", self.num_times))
        check_width(self.num_times, "num_times")

    @property
    def num_records(self) -> int:  # type: ignore[override]
        """One record per person."""
        return self.population

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"infected[{time}]" for time in range(self.num_times))

    @property
    def domain(self) -> Categories:
        return Categories((2,) * self.num_times)

    @property
    def divisor(self) -> float:
        return 1.0

    @property
    def unit(self) -> float:
        return 1.0

    over_time: ClassVar[str | None] = "people infected"

    @property
    def largest_integer(self) -> int:
        return self.population

    def takes_shape(self, shape: tuple[int, ...]) -> bool:
        return shape in ((self.num_times,), (self.population, self.num_times))

    @property
    def expected_data(self) -> str:
        return (
            f"everyone's statuses, 0 or 1, of shape (population, num_times) = ({self.population},"
            f" {self.num_times}), or whole counts from 0 to population={self.population}, of shape"
            f" ({self.num_times},)"
        )

    def _data(self, x: Any) -> Array:
        array = as_array(x)
        if array.shape not in ((self.num_times,), (self.population, self.num_times)):
            raise InvalidInputError(
                "x must be everyone's statuses, of shape (population, num_times) ="
                f" ({self.population}, {self.num_times}), or counts, of shape ({self.num_times},);"
                f" got shape {array.shape}."
            )
        if array.ndim == 2:
            return self._records(array)
        if not (is_traced(array) or bool(((array >= 0) & (array <= self.population)).all())):
            raise InvalidInputError(
                f"x must hold counts of infected people, from 0 to population={self.population}; at"
                " least one does not."
            )
        return array[None, :]

    def _records(self, x: Any) -> Array:
        array = as_array(x)
        if array.shape[1:] == (self.num_times,) and not _whole_up_to(array, 1):
            raise InvalidInputError(
                "x must hold statuses, 0 or 1 (infected); at least one is neither."
            )
        return self.domain.records(array)

    def _units(self, records: Array) -> Array:
        return records.astype(np.float64)

    def _integers(self, x: Array) -> Array:
        if not _whole_up_to(x, self.population):
            raise InvalidInputError("x must hold whole counts to be released; at least one is not.")
        return self._total(x)

    def _sensitivity(self, norm: float) -> float:
        return {1.0: float(self.num_times), 2.0: math.sqrt(self.num_times), math.inf: 1.0}[norm]

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        return neighbours.max_contributions * self._sensitivity(norm)


def _whole_up_to(array: Array, largest: int) -> bool:
    """Whether all entries are among 0, ..., largest; True for tracers, whose values are unknown."""
    return is_traced(array) or bool(
        ((array >= 0) & (array <= largest) & (array == np.rint(array))).all()
    )
