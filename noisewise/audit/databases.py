r"""The search over whole databases, for queries that are not sums over records.

Three families of starts, the best of which are climbed coordinate by coordinate:

- chains: m records are `new`, n - m are `old` (two extreme records), and the next `old` one becomes
  `new`, for every m;
- records next to a value that the query returned, all but the exchanged one;
- mixtures: all alike, half and half, extreme records in any mix, anything.

Chains are exact for linear combinations of the order statistics of one column (quantiles, ranges,
trimmed means). With the n + 1 values of a database and of the new record in a given order, the
change is linear in these values, so its norm is convex and largest at a vertex of low <= v_1 <= ...
<= v_(n+1) <= high: every value is `low` or `high`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from noisewise.audit.records import POOL, RADII
from noisewise.errors import SimulationError
from noisewise.queries.base import AbstractQuery
from noisewise.queries.domains import AbstractDomain

# The numbers of tries below are round: a search takes some seconds with them, and more tries only
# tighten its lower bound.

_CLIMBS_PER_FAMILY = 2
"""Starts of each family that are climbed, the best ones."""

_MOVED_ENTRIES = 32
"""Values of unchanged records that are moved at each radius, besides those of the exchanged one."""

_ALL_LINKS_UP_TO = 64
"""The largest number of records for which a chain is tried at every m. Longer chains are halved
where the query moves.
"""

_KEPT_LINKS = 8
"""Links of a chain that are followed and kept, those that move the query most."""

_CHAINS = 6
"""Chains, each from one extreme record to another, in an order of its own; also the first columns
whose returned values are tried.
"""

_RETURNED_VALUES = 6
"""Values that the query returned which are tried in records."""

_OFFSETS = np.array([0.0, 1e-9, -1e-9, 1e-3, -1e-3])
"""Distances from a returned value at which records are put, in widths of the column; the next
float64 on each side is tried too.
"""

_RADII_PER_SHARPENING = 4
"""Once in this many radii of a climb, records move next to the values that the query returns."""


def search_databases(
    query: AbstractQuery,
    domain: AbstractDomain,
    norm: float,
    size: int,
    num_starts: int,
    rng: np.random.Generator,
    *,
    removed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Search for a database and a neighbour between which the query changes most.

    Args:
        query: Any query that is not a sum over records.
        domain: The set of possible records.
        norm: The norm of the change: 0, 1, 2 or infinity.
        size: The number of records.
        num_starts: The number of mixtures to try.
        rng: Where random starts come from.
        removed: How many records neighbours lack; 0 if one is replaced instead.

    Returns:
        The database and its neighbour, as the query takes them.

    Raises:
        SimulationError: If the query is NaN for a database of the domain.
    """
    search = _Search(query, domain, norm, rng, removed)
    chained = [start for chain in _chains(search, size) for start in _links(search, chain)]
    gathered = [start for pair in chained[:1] for start in _near_returned(search, pair)]
    mixed = [_mixture(search, size, kind) for kind in range(num_starts)]
    families = (
        sorted(starts, key=search.change, reverse=True) for starts in (chained, gathered, mixed)
    )
    climbed = [
        _climb(search, start) for family in families for start in family[:_CLIMBS_PER_FAMILY]
    ]
    return search.databases(max(climbed, key=search.change))


@dataclasses.dataclass(frozen=True, eq=False)
class _Candidate:
    """A database, followed by the record that replaces its record at `position`, if one does; else
    the records from `position` on are removed.
    """

    records: np.ndarray
    position: int

    def with_entries(
        self, rows: Sequence[int] | np.ndarray, column: int, value: float
    ) -> _Candidate:
        records = self.records.copy()
        records[rows, column] = value
        return _Candidate(records, self.position)


@dataclasses.dataclass(frozen=True, eq=False)
class _Search:
    """What is searched, and the extreme records of its domain."""

    query: AbstractQuery
    domain: AbstractDomain
    norm: float
    rng: np.random.Generator
    removed: int

    @functools.cached_property
    def pool(self) -> np.ndarray:
        return self.domain.extremes(self.rng, POOL)

    def shaped(self, records: np.ndarray) -> np.ndarray:
        """A copy, as a query may sort it in place. One column has shape (n,) for a query without a
        domain.
        """
        return np.array(
            records[:, 0] if self.query.domain is None and self.domain.width == 1 else records
        )

    def databases(self, candidate: _Candidate) -> tuple[np.ndarray, np.ndarray]:
        first, second = candidate.records[:-1], np.array(candidate.records[:-1])
        if self.removed:
            gone = (candidate.position + np.arange(self.removed)) % len(first)
            return self.shaped(first), self.shaped(np.delete(first, gone, axis=0))
        second[candidate.position] = candidate.records[-1]
        return self.shaped(first), self.shaped(second)

    def distance(self, first: np.ndarray, second: np.ndarray) -> float:
        difference = float(np.linalg.norm(first - second, ord=self.norm))
        if math.isnan(difference):
            raise SimulationError(
                "The query is NaN for some database of the domain: it has no sensitivity there."
            )
        return difference

    def change(self, candidate: _Candidate) -> float:
        first, second = self.databases(candidate)
        return self.distance(self.query(first), self.query(second))

    def returned(self, candidate: _Candidate, column: int) -> np.ndarray:
        """Values of a column at and near those that the query returns for the two databases, and
        the ends.
        """
        found = np.unique(
            np.concatenate([self.query(database) for database in self.databases(candidate)])
        )
        found = found[np.isfinite(found)]
        if found.size > _RETURNED_VALUES:
            found = self.rng.choice(found, _RETURNED_VALUES, replace=False)
        near = found[:, None] + _OFFSETS * float(np.ptp(self.pool[:, column]))
        tried = [near.ravel(), np.nextafter(found, -np.inf), np.nextafter(found, np.inf)]
        return np.unique(self.domain.around(column, np.concatenate(tried), 0.0))


# Chains -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class _Chain:
    """Databases from all `old` to all `new`: records change one by one, in a given order."""

    old: np.ndarray
    new: np.ndarray
    order: np.ndarray

    def candidate(self, m: int) -> _Candidate:
        """The step from m new records to m + 1."""
        records = np.stack([self.old] * self.order.size + [self.new])
        records[self.order[:m]] = self.new
        return _Candidate(records, int(self.order[min(m, self.order.size - 1)]))


def _chains(search: _Search, size: int) -> list[_Chain]:
    """The extreme records furthest apart in the listing, in the order of rows; then pairs and
    orders at random.
    """
    pool, rng = search.pool, search.rng
    chains = [_Chain(pool[0], pool[-1], np.arange(size))]
    while len(chains) < _CHAINS:
        old, new = pool[rng.choice(len(pool), 2, replace=False)] if len(pool) > 1 else pool[[0, 0]]
        chains.append(_Chain(old, new, rng.permutation(size)))
        if len(pool) <= 2 and len(chains) == 2:
            break
    return chains


def _links(search: _Search, chain: _Chain) -> list[_Candidate]:
    """The steps of a chain that move the query most."""
    values = functools.cache(lambda m: search.query(search.shaped(chain.candidate(m).records[:-1])))
    return [chain.candidate(m) for m in largest_steps(values, chain.order.size, search.distance)]


def largest_steps(
    values: Callable[[int], np.ndarray],
    size: int,
    distance: Callable[[np.ndarray, np.ndarray], float],
) -> list[int]:
    """The numbers m where `values` moves most between m and m + 1, at most 8, largest first.

    All m are tried up to a size of 64. Beyond, intervals between 65 of them are halved repeatedly,
    and those across which the values move most are kept: of two halves one moves at least half as
    far as the whole, and a single jump is found.

    Args:
        values: The query's answer after m exchanges, m = 0..size.
        size: The number of exchanges.
        distance: How far two answers lie apart.

    Returns:
        Numbers m in 0..size-1.

    >>> largest_steps(lambda m: np.array([float(m > 712)]), 1000, lambda a, b: abs(a - b).max())[0]
    712
    """
    num_marks = min(size, _ALL_LINKS_UP_TO) + 1
    marks = np.unique(np.rint(np.linspace(0, size, num_marks)).astype(int)).tolist()
    intervals = list(itertools.pairwise(marks))
    while True:
        intervals.sort(key=lambda ends: distance(values(ends[0]), values(ends[1])), reverse=True)
        del intervals[_KEPT_LINKS:]
        if all(high - low == 1 for low, high in intervals):
            return [low for low, _ in intervals]
        intervals = [half for interval in intervals for half in _halves(*interval)]


def _halves(low: int, high: int) -> list[tuple[int, int]]:
    middle = (low + high) // 2
    return [(low, high)] if high - low == 1 else [(low, middle), (middle, high)]


# Other starts -------------------------------------------------------------------------------------


def _near_returned(search: _Search, start: _Candidate) -> list[_Candidate]:
    """All unchanged records lie next to a value that the query returned; the exchanged one moves
    between extremes.
    """
    stay = np.delete(np.arange(len(start.records) - 1), start.position)
    return [
        start.with_entries(stay, column, value)
        for column in range(min(search.domain.width, _CHAINS))
        for value in search.returned(start, column)
    ]


def _mixture(search: _Search, size: int, kind: int) -> _Candidate:
    """All records alike, half and half, any mix of extremes, or anything; one extreme replaces
    another.
    """
    pool, rng = search.pool, search.rng
    old, new = pool[rng.integers(0, len(pool), 2)] if kind >= 2 else pool[[0, -1]]
    records = np.stack([old] * size + [new])
    position = int(rng.integers(0, size))
    if kind % 4 == 1:
        records[:size:2] = new
        records[position] = old
    elif kind % 4 == 2:
        records = pool[rng.integers(0, len(pool), size + 1)]
    elif kind % 4 == 3:
        records = search.domain.sample(rng, size + 1)
    return _Candidate(records, position)


# Climbing -----------------------------------------------------------------------------------------


def _climb(search: _Search, start: _Candidate) -> _Candidate:
    """Coordinate ascent over the two exchanged records and some of the others."""
    best, reached = start, search.change(start)
    last = len(start.records) - 1
    for turn, radius in enumerate(RADII):
        columns = range(search.domain.width)
        shared = search.rng.permutation(last)[: max(1, _MOVED_ENTRIES // search.domain.width)]
        for row, column in itertools.product((last, start.position, *shared), columns):
            values = search.domain.around(column, best.records[row : row + 1, column], radius)[0]
            best, reached = _best_entry(search, best, reached, [row], column, values)
        if turn % _RADII_PER_SHARPENING == 0:
            for column in columns:
                for rows in _together(best, column):
                    values = search.returned(best, column)
                    best, reached = _best_entry(search, best, reached, rows, column, values)
    return best


def _together(candidate: _Candidate, column: int) -> list[np.ndarray]:
    """Rows that move together: each exchanged record, and the unchanged ones that share one of the
    commonest values.
    """
    last = len(candidate.records) - 1
    stay = np.delete(np.arange(last), candidate.position)
    values, counts = np.unique(candidate.records[stay, column], return_counts=True)
    common = values[np.argsort(counts)[::-1][:_CLIMBS_PER_FAMILY]]
    return [
        np.array([last]),
        np.array([candidate.position]),
        *(stay[candidate.records[stay, column] == value] for value in common),
    ]


def _best_entry(
    search: _Search,
    best: _Candidate,
    reached: float,
    rows: Sequence[int] | np.ndarray,
    column: int,
    values: np.ndarray,
) -> tuple[_Candidate, float]:
    """The best of the candidates with one of `values` in these rows, if it is better."""
    for value in values:
        trial = best.with_entries(rows, column, value)
        there = search.change(trial)
        if there > reached:
            best, reached = trial, there
    return best, reached
