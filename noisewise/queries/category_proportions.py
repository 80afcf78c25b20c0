"""Proportions of (class, value) pairs, feature by feature: the statistic of log-linear (naive
Bayes) models.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AddRemoveOne
from noisewise.errors import InvalidInputError
from noisewise.queries._converters import as_levels, check_width, count, set_checked
from noisewise.queries.base import AbstractCountQuery, namespace
from noisewise.queries.domains import Categories


@dataclasses.dataclass(frozen=True)
class CategoryProportions(AbstractCountQuery):
    r"""s_(i,k,j) = #{records of class i whose feature k has value j} / n, ordered by class i, then
    feature k, then value j.

    `x` has shape (n, 1+K): the class (0 to I-1), then K features (feature k: 0 to J_k - 1). All
    numbers start at 0, in data and names.

    Attributes:
        num_classes: I, the number of classes.
        num_values: (J_1, ..., J_K), the number of values of each feature, at least 2.
        num_records: n, public.

    Sensitivity: each feature has its own I x J_k table, in which every record takes one cell.
    Replacing a record takes 1 from one cell and gives 1 to another in each of the K tables at most,
    and does so in all when all values change. Exactly, Delta_1 = 2K/n, Delta_2 = sqrt(2K)/n,
    Delta_inf = 1/n. Where records are added or removed, n is confidential and no sensitivity of a
    proportion is defined: count the cells of a `ContingencyTable`.

    >>> import noisewise as nw
    >>> query = nw.queries.CategoryProportions(num_classes=2, num_values=(2, 3), num_records=4)
    >>> query([[0, 1, 2], [0, 1, 0], [1, 0, 2], [0, 0, 2]])
    array([0.25, 0.5 , 0.25, 0.  , 0.5 , 0.25, 0.  , 0.  , 0.  , 0.25])
    >>> query.names[4], query.sensitivity()
    ('r[0,1,2]', 1.0)
    """

    num_classes: int
    num_values: tuple[int, ...]
    num_records: int

    def __post_init__(self) -> None:
        set_checked(self, num_classes=count("num_classes", self.num_classes))
        set_checked(self, num_values=as_levels("num_values", self.num_values, at_least=2))
        check_width(self.width, "num_classes times the sum of num_values")
        set_checked(self, num_records=count("num_records", self.num_records))

    @property
    def names(self) -> tuple[str, ...]:
        features = [(k, j) for k, count in enumerate(self.num_values) for j in range(count)]
        return tuple(f"r[{i},{k},{j}]" for i in range(self.num_classes) for k, j in features)

    @property
    def width(self) -> int:
        return self.num_classes * sum(self.num_values)

    @property
    def domain(self) -> Categories:
        return Categories((self.num_classes, *self.num_values))

    @property
    def divisor(self) -> float:
        return float(self.num_records)

    def statistic_of_tables(
        self, tables: Sequence[Float[Array, "num_classes values"]]
    ) -> Float[Array, " k"]:
        """The statistic from counts of classes by values, without records.

        Args:
            tables: One table of counts per feature, shape (I, J_k). Tracers are allowed.

        Returns:
            The statistic s, shape (k,).

        Raises:
            InvalidInputError: If the number or the shapes of the tables do not fit.

        >>> query = CategoryProportions(num_classes=2, num_values=(2,), num_records=4)
        >>> query.statistic_of_tables([np.array([[1, 2], [1, 0]])])
        array([0.25, 0.5 , 0.25, 0.  ])
        """
        expected = [(self.num_classes, count) for count in self.num_values]
        given = [table.shape for table in tables]
        if given != expected:
            raise InvalidInputError(
                f"tables must have the shapes {expected}, one per feature, got {given}."
            )
        return namespace(tables[0]).concatenate(list(tables), axis=1).ravel() / self.divisor

    def _cells(self, records: Array) -> Array:
        offsets = np.cumsum((0, *self.num_values))[:-1]
        return records[:, :1] * sum(self.num_values) + offsets + records[:, 1:]

    def _sensitivity(self, norm: float) -> float:
        moved = 2.0 * len(self.num_values)
        return {1.0: moved, 2.0: math.sqrt(moved), math.inf: 1.0}[norm] / self.num_records

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        raise self._needs_number()
