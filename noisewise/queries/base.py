r"""What a query is: the confidential statistic s of one database x, and how far one person can move
it.

    x  --query-->  s         neighbours: two databases of the same size that differ in one record (replace-one)

`AbstractQuery` owns precision, checks and files; a concrete query is the formula. Queries are
frozen and hashable, know public facts only, and run on NumPy arrays (with checks) and on JAX
tracers (inside `jit` and `vmap`, without).
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, in_float64, is_traced, number
from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    MissingCapabilityError,
    ReleaseError,
)
from noisewise.queries.domains import AbstractDomain


class AbstractQuery(abc.ABC):
    """Base of all queries: `query(x)` is the statistic, shape (k,), of ONE database x.

    A concrete class gives `names`, `domain`, `_statistic` and `_sensitivity`, and `_integers` where
    it has a `step`.
    """

    norms: ClassVar[tuple[float, ...]] = (1.0, 2.0, math.inf)
    """The norms in which the sensitivity can be asked for."""

    off_lattice: ClassVar[str] = "Pass grid=..., a public grid to which records are rounded."
    """What to do when there is no `step`."""

    if TYPE_CHECKING:
        num_records: int | None

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...] | None:
        """One name per entry of s; None if only running the query can tell."""

    @property
    def width(self) -> int | None:
        """The number of entries of s; None if only running the query can tell."""
        return None if self.names is None else len(self.names)

    @property
    @abc.abstractmethod
    def domain(self) -> AbstractDomain | None:
        """What one record can be; None if unknown."""

    @property
    @abc.abstractmethod
    def step(self) -> float | None:
        """The spacing of the lattice on which s lies; None if s is continuous."""

    @property
    def blocks(self) -> tuple[AbstractQuery, ...]:
        """The queries of its blocks of columns, one after the other: itself, unless it is composed
        of several.
        """
        return (self,)

    @property
    def is_composed(self) -> bool:
        """Whether its `blocks` are others than itself."""
        return self.blocks[0] is not self

    @property
    def choices(self) -> tuple[float, ...] | None:
        """The values of which s holds the utilities; None if s holds something else."""
        return None

    @property
    def private_names(self) -> tuple[str, ...] | None:
        """One name per number that a release of s has: the choice has one, where s holds utilities."""
        return self.names

    over_time: ClassVar[str | None] = None
    """What is counted, if the entries of s are counts of it at successive times."""

    @property
    def has_spec(self) -> bool:
        """Whether `to_spec` can describe it: a function cannot be written down."""
        return True

    def on_default_grid(self) -> AbstractQuery:
        """The same query with a public grid that depends on its bounds alone; itself if it lies on
        a lattice.
        """
        if self.step is None:
            raise ReleaseError(
                f"The statistic of {type(self).__name__} lies on no grid. {self.off_lattice}"
            )
        return self

    @property
    def largest_integer(self) -> int | None:
        """The largest |entry| of `integer_statistic` over all databases; None where nothing public
        bounds it.
        """
        return None

    def takes_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape can be a database: its number of columns is right, and of
        records where stated.
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
        """What `x` must be, in words that depend on nothing but the query."""
        rows = f"{self.num_records} rows" if self.num_records else "one or more rows"
        columns = (
            ""
            if self.domain is None
            else f" and {self.domain.width} column(s) of {self.domain.describe()}"
        )
        return f"an array of {rows}, one per record,{columns}, with nothing missing"

    @in_float64
    def __call__(self, x: Any) -> Array:
        """The statistic s of the database x, shape (k,), float64."""
        return self._statistic(self._data(x))

    def integer_statistic(self, x: Any) -> list[int]:
        """Exact Python integers with s = step * integers: what a safe release adds integer noise
        to.
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
        """The largest change of s between neighbours, in the L1, L2 or L-infinity norm."""
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
        """A JSON-ready description (public facts only); `from_spec` reads it back to the last bit."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {
            "type": type(self).__name__,
            **{name: _field_to_spec(value) for name, value in fields.items()},
        }


class AbstractAdditiveQuery(AbstractQuery):
    r"""s = sum_i t(x_i) / divisor. A concrete class writes t in units of `unit`, one row per
    record.

    With a `unit` the rows are whole numbers, and the constructor must see to it that their sums
    stay within 2^53.
    """

    @property
    @abc.abstractmethod
    def divisor(self) -> float:
        """What the sum of the contributions is divided by: n for means, 1 for counts."""

    @property
    @abc.abstractmethod
    def unit(self) -> float | None:
        """Every contribution is a whole multiple of it; None if contributions are continuous."""

    @property
    def step(self) -> float | None:
        return None if self.unit is None else self.unit / self.divisor

    @in_float64
    def contributions(self, x: Any) -> Array:
        """The terms t of each record, shape (n, k), for any number n of records; s =
        contributions.sum(0) / divisor.
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
    """Means of products of columns, from which sums over the records are read off; their law is
    known for normal records.
    """

    if TYPE_CHECKING:
        num_predictors: int
        grid: float | None

    @abc.abstractmethod
    def sums_of(self, s: Array) -> tuple[Array, Array, Array]:
        """X'X, X'y and y'y of the clamped records, from s (..., k)."""

    @abc.abstractmethod
    def normal_moments(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """The mean (k,) and covariance (k, k) of one record's contribution, if records are normal
        and none is clamped.
        """


class AbstractCountQuery(AbstractAdditiveQuery):
    """Counts of cells: a concrete class says, by `_cells`, into which cells each record falls."""

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
    """`jax.numpy` for JAX arrays and tracers, `numpy` for all else: write a formula once for both."""
    return jnp if isinstance(x, jax.Array) else np


def _field_to_spec(value: Any) -> Any:
    if isinstance(value, AbstractQuery):
        return value.to_spec()
    if isinstance(value, tuple):
        return [_field_to_spec(item) for item in value]
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise MissingCapabilityError(
        f"A query with a field of type {type(value).__name__} cannot be written as JSON."
    )


def _field_from_spec(value: Any, kinds: dict[str, type[AbstractQuery]]) -> Any:
    if isinstance(value, dict):
        return from_spec_with(value, kinds)
    if isinstance(value, list):
        return tuple(_field_from_spec(item, kinds) for item in value)
    return value


def from_spec_with(spec: Any, kinds: dict[str, type[AbstractQuery]]) -> AbstractQuery:
    """Read what `to_spec` wrote, given the known classes by name."""
    if (
        not isinstance(spec, dict)
        or not isinstance(spec.get("type"), str)
        or spec["type"] not in kinds
    ):
        raise FileFormatError(
            f"A query must be an object whose 'type' is one of {', '.join(sorted(kinds))}."
        )
    kind = kinds[spec["type"]]
    expected = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given = set(spec) - {"type"}
    if given != expected:
        raise FileFormatError(
            f"{kind.__name__} has the fields {sorted(expected)}, got {sorted(given)}."
        )
    return kind(**{name: _field_from_spec(spec[name], kinds) for name in expected})
