"""Several statistics of one database."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, ClassVar

import numpy as np

from noisewise._core.arrays import Array, describe
from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours, AddRemoveOne
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.queries.base import AbstractQuery, namespace
from noisewise.queries.domains import AbstractDomain, Box
from noisewise.queries.function_query import as_query


@dataclasses.dataclass(frozen=True)
class Joint(AbstractQuery):
    r"""s = (s^1, s^2, ...): the statistics of `queries`, one block after the other.

    Use it with `mechanisms.Product`, one mechanism per block, or with one mechanism for all.

    Sensitivity: |s - s'|_1 is the sum over blocks, |s - s'|_2 the root of the sum of squares, and
    |s - s'|_inf the largest, so the blocks' sensitivities combine in the same way, whichever
    databases are neighbours. This is an upper bound, not always reached: no one record need be the
    worst for every block.

    Names that occur in several blocks are preceded by the block's number. `step` is the blocks'
    common step, if they have one.

    Attributes:
        queries: The queries, or bare functions, at least one; they see the same database.

    Raises:
        InvalidTypeError: If `queries` is not a list of queries.
        InvalidInputError: If the queries state different numbers of records.

    >>> import noisewise as nw
    >>> mean = nw.queries.ClampedMean(bounds=(0.0, 4.0), num_records=2)
    >>> query = nw.queries.Joint([mean, nw.queries.Histogram(edges=(0.0, 1.0, 4.0))])
    >>> query([0.5, 3.5])
    array([2., 1., 1.])
    >>> query.sensitivity(norm=1)
    4.0
    """

    norms: ClassVar[tuple[float, ...]] = (0.0, 1.0, 2.0, math.inf)
    off_lattice: ClassVar[str] = (
        "Its blocks lie on different lattices, or on none: ask each of `queries` by itself."
    )

    queries: tuple[AbstractQuery, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.queries, (list, tuple)) or not self.queries:
            raise InvalidTypeError(
                f"Joint takes a list of one or more queries, got {describe(self.queries)}."
            )
        object.__setattr__(self, "queries", tuple(as_query(query) for query in self.queries))
        sizes = {query.num_records for query in self.queries if query.num_records is not None}
        if len(sizes) > 1:
            raise InvalidInputError(
                f"All queries of a Joint see one database, but they state {sorted(sizes)} records."
            )

    @property
    def num_records(self) -> int | None:  # type: ignore[override]
        """The number of records that the blocks state; None if none does."""
        return next(filter(None, (query.num_records for query in self.queries)), None)

    @property
    def names(self) -> tuple[str, ...] | None:
        blocks = [query.names for query in self.queries]
        if any(names is None for names in blocks):
            return None
        plain = tuple(itertools.chain.from_iterable(blocks))  # type: ignore[arg-type]
        if len(set(plain)) == len(plain):
            return plain
        return tuple(f"{block}:{name}" for block, names in enumerate(blocks) for name in names)  # type: ignore[union-attr]

    @property
    def domain(self) -> AbstractDomain | None:
        """The blocks' common domain, or the smallest box around their boxes; None if there is
        neither.
        """
        domains = [query.domain for query in self.queries]
        if all(domain == domains[0] for domain in domains):
            return domains[0]
        boxes = [domain for domain in domains if isinstance(domain, Box)]
        if len(boxes) < len(domains) or len({domain.width for domain in boxes}) > 1:
            return None
        low, high = (np.array([getattr(each, end) for each in boxes]) for end in ("low", "high"))
        return Box(low=tuple(low.min(0)), high=tuple(high.max(0)))

    @property
    def step(self) -> float | None:
        steps = {query.step for query in self.queries}
        return steps.pop() if len(steps) == 1 else None

    @property
    def blocks(self) -> tuple[AbstractQuery, ...]:
        return self.queries

    @property
    def has_spec(self) -> bool:
        return all(query.has_spec for query in self.queries)

    def on_default_grid(self) -> Joint:
        return Joint(tuple(query.on_default_grid() for query in self.queries))

    @property
    def largest_integer(self) -> int | None:
        sizes = [query.largest_integer for query in self.queries]
        return None if None in sizes else max(sizes)  # type: ignore[type-var]

    def takes_shape(self, shape: tuple[int, ...]) -> bool:
        return all(query.takes_shape(shape) for query in self.queries)

    @property
    def expected_data(self) -> str:
        return ", and for another query ".join(
            dict.fromkeys(query.expected_data for query in self.queries)
        )

    def _data(self, x: Any) -> Any:
        return x

    def _statistic(self, x: Any) -> Array:
        parts = [query(x) for query in self.queries]
        return namespace(parts[0]).concatenate(parts)

    def _integers(self, x: Any) -> list[int]:
        return [value for query in self.queries for value in query.integer_statistic(x)]

    def _sensitivity(self, norm: float) -> float:
        return self._together(norm, REPLACE_ONE)

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        return self._together(norm, neighbours)

    def _together(self, norm: float, neighbours: AbstractNeighbours) -> float:
        parts = [query.sensitivity(norm, neighbours) for query in self.queries]
        if norm == 2.0:
            return math.hypot(*parts)
        return max(parts) if math.isinf(norm) else math.fsum(parts)
