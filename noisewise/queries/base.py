r"""What a query is: the confidential statistic s of one database x, and how far one person can move
it.

    x  --query-->  s

Neighbours are two databases of the same size that differ in one record (replace-one).
`AbstractQuery` owns precision, checks and files; a concrete query is the formula. Queries are
frozen and hashable, know public facts only, and run on NumPy arrays (with checks) and on JAX
tracers (inside `jit` and `vmap`, without).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core import specs
from noisewise._core.arrays import Array, in_float64, is_traced, number
from noisewise.errors import InvalidInputError, MissingCapabilityError, ReleaseError
from noisewise.queries.domains import AbstractDomain


class AbstractQuery(abc.ABC):
    """Base of all queries: `query(x)` is the statistic, shape (k,), of ONE database x.

    A concrete class gives `names`, `domain`, `step`, `_statistic` and `_sensitivity`, and
    `_integers` where the step is not None. For sums over records, extend `AbstractAdditiveQuery`;
    for counts of cells, `AbstractCountQuery`.
    """

    norms: ClassVar[tuple[float, ...]] = (1.0, 2.0, math.inf)
    """The norms in which the sensitivity can be asked for."""

    off_lattice: ClassVar[str] = "Pass grid=..., a public grid to which records are rounded."
    """What to write when there is no `step`, for messages."""

    if TYPE_CHECKING:
        num_records: int | None

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...] | None:
        """One name per entry of s; None if they are known only after a run."""

    @property
    def width(self) -> int | None:
        """The number k of entries of s; None if it is known only after a run."""
        return None if self.names is None else len(self.names)

    @property
    @abc.abstractmethod
    def domain(self) -> AbstractDomain | None:
        """The set of possible records; None if unknown."""

    @property
    @abc.abstractmethod
    def step(self) -> float | None:
        """The spacing of the lattice on which s lies; None if s is continuous."""

    @property
    def blocks(self) -> tuple[AbstractQuery, ...]:
        """The queries of its blocks of columns, in order: itself, unless it is composed."""
        return (self,)

    @property
    def is_composed(self) -> bool:
        """Whether its `blocks` are other queries than itself."""
        return self.blocks[0] is not self

    @property
    def choices(self) -> tuple[float, ...] | None:
        """The values of which s holds the utilities; None if s holds something else."""
        return None

    @property
    def private_names(self) -> tuple[str, ...] | None:
        """One name per released number: those of s, or one where s holds utilities of choices."""
        return self.names

    over_time: ClassVar[str | None] = None
    """What the entries of s count at successive times, such as "people infected"; else None."""

    @property
    def has_spec(self) -> bool:
        """Whether `to_spec` can describe it; a Python function cannot be written to a file."""
        return True

    def on_default_grid(self) -> AbstractQuery:
        """The same query with a public grid that depends on its bounds alone; itself if s already
        lies on a lattice.

        Raises:
            ReleaseError: If there is no such grid: pass one.
        """
        if self.step is None:
            raise ReleaseError(
                f"The statistic of {type(self).__name__} lies on no grid. {self.off_lattice}"
            )
        return self

    @property
    def largest_integer(self) -> int | None:
        """The largest |entry| of `integer_statistic` over all databases; None if no public fact
        bounds it.
        """
        return None

    def takes_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape can be a database: it has the right number of columns, and
        of records where that is stated.
        """
        if self.domain is None or not shape:
            return self.domain is None
        columns = shape[1] if len(shape) == 2 else 1
        return (
            len(shape) <= 2
            and columns == self.domain.width
            and self.num_records in (None, shape[0])
        )

    @property
    def expected_data(self) -> str:
        """What `x` must be, in words that depend on the query alone, never on data."""
        rows = f"{self.num_records} rows" if self.num_records else "one or more rows"
        columns = (
            ""
            if self.domain is None
            else f" and {self.domain.width} column(s) of {self.domain.describe()}"
        )
        return f"an array of {rows}, one per record,{columns}, with nothing missing"

    @in_float64
    def __call__(self, x: Any) -> Float[Array, " k"]:
        """The statistic of one database.

        Args:
            x: Usually an array of records, shape (n, columns) or (n,) for one column; any pytree if
                the query has no `domain`. Tracers are allowed, and are not checked.

        Returns:
            The statistic s, shape (k,), float64.

        Raises:
            InvalidInputError: If x does not fit the domain or the number of records. Messages name
                shapes, never values.
        """
        return self._statistic(self._data(x))

    def integer_statistic(self, x: Any) -> list[int]:
        """Exact Python integers with s = step * integers: a safe release adds whole noise to them.

        Args:
            x: One database, as for a call.

        Returns:
            One integer per entry of s.

        Raises:
            MissingCapabilityError: If s lies on no lattice, or x is a tracer.
            InvalidInputError: If x does not fit.
        """
        if self.step is None:
            raise MissingCapabilityError(
                f"{type(self).__name__} has no integer statistic. {self.off_lattice}"
            )
        if is_traced(x):
            raise MissingCapabilityError(
                "integer_statistic needs data, not a tracer: call it outside jit and vmap."
            )
        return [int(value) for value in self._integers(self._data(x))]

    def sensitivity(self, norm: float = 1) -> float:
        """The largest change |s - s'| between neighbours.

        Args:
            norm: 1, 2 or math.inf (some queries also know 0, the number of entries that change).

        Returns:
            The exact value or, where the class says so, an upper bound.

        Raises:
            InvalidInputError: If the query does not know this norm.
            MissingCapabilityError: If a user's function states no sensitivity.
        """
        value = number("norm", at_least=0.0, infinite=True)(norm)
        if value not in self.norms:
            known = ", ".join(
                "math.inf" if math.isinf(item) else f"{item:g}" for item in self.norms
            )
            raise InvalidInputError(f"norm must be one of {known}, got {value:g}.")
        return self._sensitivity(value)

    def _data(self, x: Any) -> Any:
        return x if self.domain is None else self.domain.records(x, self.num_records)

    @abc.abstractmethod
    def _statistic(self, x: Any) -> Array: ...

    @abc.abstractmethod
    def _sensitivity(self, norm: float) -> float: ...

    def _integers(self, x: Any) -> Any:
        """Whole numbers (k,), as Python integers or as floats of at most 2^53."""
        raise MissingCapabilityError(
            f"{type(self).__name__} has no integer statistic. {self.off_lattice}"
        )

    def to_spec(self) -> dict[str, Any]:
        """A JSON-ready description (public facts only); `from_spec` reads it back to the last bit.

        Raises:
            MissingCapabilityError: If it holds a Python function.
        """
        return specs.to_spec(self, AbstractQuery, "A query")


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


def namespace(x: Any) -> Any:
    """`jax.numpy` for JAX arrays and tracers, else `numpy`: one formula serves both.

    >>> namespace([1.0]).__name__
    'numpy'
    """
    return jnp if isinstance(x, jax.Array) else np


def from_spec_with(spec: Any, kinds: Mapping[str, type[AbstractQuery]]) -> AbstractQuery:
    """The query that `to_spec` described, given the known classes by name.

    Raises:
        FileFormatError: If the class is not known, or its fields have other names.
    """
    kind = specs.named_class(spec, dict(sorted(kinds.items())), "A query")
    return kind(**specs.fields_of(spec, lambda part: from_spec_with(part, kinds)))
