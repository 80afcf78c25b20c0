"""How many people are infected at each of several times."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from noisewise._arrays import Array, integer
from noisewise.errors import InvalidInputError
from noisewise.queries.base import AbstractAdditiveQuery
from noisewise.queries.domains import Categories, as_array


@dataclasses.dataclass(frozen=True)
class InfectionCurve(AbstractAdditiveQuery):
    r"""s_l = number of people infected at time l, for L = `num_times` times.

    `x` is either everyone's statuses, 0 or 1, of shape (population, L), or the counts themselves, shape (L,), as
    epidemic simulators give them.

    Sensitivity: one person's row of L statuses moves each count by at most 1, and all of them, one way, if someone
    never infected is replaced by someone always infected. Exactly, Delta_1 = L, Delta_2 = sqrt L, Delta_inf = 1.

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
        object.__setattr__(self, "population", integer("population", at_least=1)(self.population))
        object.__setattr__(self, "num_times", integer("num_times", at_least=1)(self.num_times))

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

    def _data(self, x: Any) -> Array:
        array = as_array(x)
        if array.ndim != 1:
            return self.domain.records(array, self.population)
        if len(array) != self.num_times:
            raise InvalidInputError(f"x must have {self.num_times} counts, one per time, got {len(array)}.")
        # One row, whose entries are the counts 0, ..., population
        return Categories((self.population + 1,) * self.num_times).records(array[None, :])

    def _units(self, records: Array) -> Array:
        return records.astype(np.float64)

    def _sensitivity(self, norm: float) -> float:
        return {1.0: float(self.num_times), 2.0: math.sqrt(self.num_times), math.inf: 1.0}[norm]
