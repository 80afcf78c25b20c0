"""What queries build on: `AbstractQuery`, and sums over records (means, moments, counts)."""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, in_float64
from noisewise._core.neighbours import AddRemoveOne
from noisewise.errors import MissingCapabilityError
from noisewise.queries.query import AbstractQuery as AbstractQuery
from noisewise.queries.query import from_spec_with as from_spec_with
from noisewise.queries.query import namespace as namespace


class AbstractAdditiveQuery(AbstractQuery):
    r"""s = sum_i t(x_i) / divisor. A concrete class writes t in units of `unit`, one row per
    record.

    With a `unit` the rows are whole numbers, and the constructor must make sure that their sums
    stay within 2^53.
    """

    @property
    @abc.abstractmethod
    def divisor(self) -> float:
        """The number by which the sum is divided: n for means, 1 for counts."""

    @property
    @abc.abstractmethod
    def unit(self) -> float | None:
        """Every contribution is a whole multiple of this number; None if there is none."""

    @property
    def step(self) -> float | None:
        return None if self.unit is None else self.unit / self.divisor

    @in_float64
    def contributions(self, x: Any) -> Float[Array, "n k"]:
        """The terms t of each record: s = contributions.sum(0) / divisor.

        Args:
            x: Any number n of records, which need not be that of the query.

        Returns:
            One row per record, shape (n, k).

        >>> import noisewise as nw
        >>> nw.queries.Histogram(edges=(0.0, 1.0, 2.0)).contributions([0.5, 1.5])
        array([[1., 0.],
               [0., 1.]])
        """
        return self._units(self._records(x)) * (self.unit or 1.0)

    def _records(self, x: Any) -> Array:
        """Any number of records, checked."""
        if self.domain is None:
            raise MissingCapabilityError(f"{type(self).__name__} does not say what a record is.")
        return self.domain.records(x)

    @abc.abstractmethod
    def _units(self, records: Array) -> Array:
        """The contributions divided by `unit`, float64, shape (n, k)."""

    def _total(self, records: Array) -> Array:
        return self._units(records).sum(0)

    def _statistic(self, x: Array) -> Array:
        return self._total(x) * (self.unit or 1.0) / self.divisor

    def _integers(self, x: Array) -> Array:
        return self._total(x)


class AbstractMomentQuery(AbstractAdditiveQuery):
    """Means of products of columns. They give sums over the records, and their law is known for
    normal records.
    """

    if TYPE_CHECKING:
        num_predictors: int
        grid: float | None

    @abc.abstractmethod
    def sums_of(
        self, s: Float[Array, "*batch k"]
    ) -> tuple[Float[Array, "*batch q q"], Float[Array, "*batch q"], Float[Array, "*batch"]]:
        """X'X, X'y and y'y of the clamped records, from s; q = num_predictors + 1."""

    @abc.abstractmethod
    def normal_moments(
        self, mean: Float[Array, " q"], covariance: Float[Array, "q q"]
    ) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
        """The mean and covariance of one record's contribution, if records are normal and none is
        clamped.

        Args:
            mean: Mean of a record's q columns, shape (q,).
            covariance: Their covariance, shape (q, q).

        Returns:
            Mean of the contribution, shape (k,), and its covariance, shape (k, k).
        """


class AbstractCountQuery(AbstractAdditiveQuery):
    """Counts of cells: a concrete class gives, by `_cells`, the cells into which each record falls.

    A query of your own, for example, which counts people at each distance from 0:

    >>> import dataclasses
    >>> from noisewise.queries.domains import Categories
    >>> @dataclasses.dataclass(frozen=True)
    ... class Distances(AbstractCountQuery):
    ...     num_records: int | None = None
    ...     names = ("0", "1", "2")
    ...     width = 3
    ...     domain = Categories((3,))
    ...     divisor = 1.0
    ...     def _cells(self, records):
    ...         return records
    ...     def _sensitivity(self, norm):
    ...         return {1.0: 2.0, 2.0: math.sqrt(2.0), math.inf: 1.0}[norm]
    >>> query = Distances()
    >>> query([0, 2, 2]), query.integer_statistic([0, 2, 2]), query.sensitivity(norm=1)
    (array([1., 0., 2.]), [1, 0, 2], 2.0)
    """

    @property
    def unit(self) -> float:
        return 1.0

    @property
    def largest_integer(self) -> int | None:
        return self.num_records

    @property
    @abc.abstractmethod
    def width(self) -> int: ...

    @abc.abstractmethod
    def _cells(self, records: Array) -> Array:
        """Cell numbers from 0 to width - 1, shape (n, cells per record)."""

    def _units(self, records: Array) -> Array:
        cells = self._cells(records)
        return (cells[:, :, None] == np.arange(self.width)).sum(1).astype(np.float64)

    def _total(self, records: Array) -> Array:
        cells = self._cells(records)
        if namespace(cells) is np:
            return np.bincount(cells.ravel(), minlength=self.width).astype(np.float64)
        return (cells[:, :, None] == np.arange(self.width)).sum((0, 1)).astype(np.float64)


def counted(norm: float, neighbours: AddRemoveOne, cells: int) -> float:
    r"""How far all records of one unit move a table in which each record counts in one cell.

    With n_j of its records in cell j, 0 <= n_j <= m = `max_per_cell` and sum_j n_j <= c =
    `max_contributions`, no more than t = min(c, m `cells`) records fit. So Delta_1 = t and
    Delta_inf = m. |n|_2 is convex, hence largest at a vertex of these constraints, where all n_j
    but one are 0 or m: with t = q m + r, Delta_2 = sqrt(q m^2 + r^2), at most sqrt(c m). All three
    are reached, in an empty table.

    Args:
        norm: 1, 2 or math.inf.
        neighbours: The bounds of a unit's records.
        cells: The number of cells.

    >>> from noisewise._core.neighbours import AddRemoveOne
    >>> [counted(norm, AddRemoveOne(max_contributions=4), 9) for norm in (1.0, 2.0, math.inf)]
    [4.0, 4.0, 4.0]
    >>> counted(2.0, AddRemoveOne(max_contributions=4, max_per_cell=1), 9)
    2.0
    """
    most = neighbours.max_per_cell
    total = min(neighbours.max_contributions, most * cells)
    full, rest = divmod(total, most)
    return {1.0: float(total), 2.0: math.sqrt(full * most**2 + rest**2), math.inf: float(most)}[
        norm
    ]
