r"""What a query is: the confidential statistic s of one database x, and how far one person can move
it.

    x  --query-->  s

Neighbours are two databases of the same size that differ in one record, or two of which one has all
records of a unit and the other none (`nw.ReplaceOne`, `nw.AddRemoveOne`). `AbstractQuery` owns
precision, checks and files; a concrete query is the formula. Queries are frozen and hashable, know
public facts only, and run on NumPy arrays (with checks) and on JAX tracers (inside `jit` and
`vmap`, without).
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
from noisewise._core.neighbours import (
    REPLACE_ONE,
    AbstractNeighbours,
    AddRemoveOne,
    ReplaceOne,
    as_neighbours,
)
from noisewise.errors import (
    InvalidInputError,
    MissingCapabilityError,
    ReleaseError,
    SensitivityError,
)
from noisewise.queries.domains import AbstractDomain


class AbstractQuery(abc.ABC):
    """Base of all queries: `query(x)` is the statistic, shape (k,), of ONE database x.

    A concrete class gives `names`, `domain`, `step`, `_statistic`, `_sensitivity` (where a record
    is replaced) and `_added` (where records are added or removed), and `_integers` where the step
    is not None. For sums over records, extend `AbstractAdditiveQuery`; for counts of cells,
    `AbstractCountQuery`.
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
        if self.num_records is None and shape in ((0,), (0, 0)):
            return True  # no records, from whose lists and frames no columns are known
        columns = shape[1] if len(shape) == 2 else 1
        return (
            len(shape) <= 2
            and columns == self.domain.width
            and self.num_records in (None, shape[0])
        )

    @property
    def expected_data(self) -> str:
        """What `x` must be, in words that depend on the query alone, never on data."""
        rows = f"{self.num_records} rows" if self.num_records else "rows"
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

    def sensitivity(self, norm: float = 1, neighbours: AbstractNeighbours = REPLACE_ONE) -> float:
        """The largest change |s - s'| between neighbours.

        Args:
            norm: 1, 2 or math.inf (some queries also know 0, the number of entries that change).
            neighbours: Which databases are neighbours; its unit plays no part.

        Returns:
            The exact value or, where the class says so, an upper bound.

        Raises:
            InvalidInputError: If the query does not know this norm.
            MissingCapabilityError: If a user's function states no sensitivity.
            SensitivityError: If the statistic is not defined for both neighbours, as a mean is not
                where the number of records is confidential.
        """
        relation = as_neighbours(neighbours)
        value = number("norm", at_least=0.0, infinite=True)(norm)
        if value not in self.norms:
            known = ", ".join(
                "math.inf" if math.isinf(item) else f"{item:g}" for item in self.norms
            )
            raise InvalidInputError(f"norm must be one of {known}, got {value:g}.")
        if isinstance(relation, AddRemoveOne):
            return self._added(value, relation)
        if not isinstance(relation, ReplaceOne):
            raise MissingCapabilityError(
                f"{type(self).__name__} does not know its sensitivity for {relation!r}."
            )
        return self._sensitivity(value)

    def _data(self, x: Any) -> Any:
        return x if self.domain is None else self.domain.records(x, self.num_records)

    @abc.abstractmethod
    def _statistic(self, x: Any) -> Array: ...

    @abc.abstractmethod
    def _sensitivity(self, norm: float) -> float:
        """The largest change where one record is replaced by another."""

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        """The largest change where all records of one unit are added or removed."""
        raise MissingCapabilityError(
            f"{type(self).__name__} does not say how far records that are added or removed move it:"
            " give it a method _added(norm, neighbours)."
        )

    def _needs_number(self) -> SensitivityError:
        """The refusal of a statistic that is divided by the number of records."""
        return SensitivityError(
            f"This {type(self).__name__} divides by the number of records, which AddRemoveOne()"
            " keeps confidential, so its sensitivity is not defined: release sums and counts"
            " instead, as by queries.ClampedSum and queries.Count, whose ratio is a mean."
        )

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
