"""How far can one person move a query? A search over neighbouring databases."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from noisewise._arrays import describe, integer
from noisewise.audit.outside import search_outside
from noisewise.audit.verdict import AbstractVerdict
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError, SimulationError
from noisewise.queries.base import AbstractAdditiveQuery, AbstractQuery
from noisewise.queries.domains import AbstractDomain, Box
from noisewise.queries.function_query import as_query

_POOL = 128
_RADII = 0.5 ** np.arange(12)
_CLIMBS = 4
_ENTRIES = 32


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SensitivityAudit(AbstractVerdict):
    """The largest change that the search found, between `database` and `neighbour`, and what the query claims.

    `found` is a lower bound of the sensitivity: above `claimed` the claim is false. `claimed` is None if there is none.
    """

    norm: float
    found: float
    claimed: float | None
    database: np.ndarray
    neighbour: np.ndarray

    @property
    def ratio(self) -> float:
        """Found over claimed: above 1 the claim is false, far below 1 it may be larger than it need be."""
        return math.nan if self.claimed is None else self.found / self.claimed

    @property
    def passed(self) -> bool:
        """Whether the claim survives, up to float64 rounding."""
        return self.claimed is not None and self.found <= self.claimed * (1.0 + 1e-9)

    def describe(self) -> str:
        claimed = "nothing claimed" if self.claimed is None else f"claimed {self.claimed:.6g}, ratio {self.ratio:.4g}"
        return f"L{self.norm:g} norm: found {self.found:.6g}, {claimed}"


def sensitivity(
    query: Any,
    *,
    norm: float = 1,
    domain: AbstractDomain | None = None,
    num_records: int | None = None,
    num_starts: int = 64,
    seed: int = 0,
) -> SensitivityAudit:
    """Search for the pair of neighbours (one record replaced) that moves a query most.

    Additive queries are searched over pairs of records, others over whole databases: extreme records and random ones
    first, then coordinate by coordinate with a shrinking radius. A query with a `step` is measured by its exact integer
    statistic: with a grid, the audit is of the rounded query that a release adds noise to.

    Databases may hold any finite numbers, so a query with a box of its own must clamp: records far outside the box are
    tried too, unless the query refuses them. A `domain` given here says where records lie instead, and nothing outside
    is tried; a one-column database is handed over with shape (n,) if the query has no domain.

    >>> import noisewise as nw
    >>> query = nw.queries.RegressionMoments(num_records=100, num_predictors=2, sensitivity_bound="paper")
    >>> audit = sensitivity(query, norm=1)
    >>> audit.passed, round(audit.ratio, 3)
    (True, 0.721)
    >>> middle = nw.queries.FunctionQuery(lambda x: [np.median(x)], sensitivity=0.5)
    >>> sensitivity(middle, domain=nw.queries.Box(low=(0.0,), high=(1.0,)), num_records=3).found
    1.0
    """
    query = as_query(query)
    claimed = _claimed(query, norm)
    norm = float(norm)
    given, domain = domain, _domain(query, domain)
    size = _size(query, num_records)
    num_starts = integer("num_starts", at_least=1)(num_starts)
    rng = np.random.default_rng(integer("seed", at_least=0)(seed))
    if isinstance(query, AbstractAdditiveQuery):
        database, neighbour = _search_records(query, domain, norm, size, num_starts, rng)
    else:
        database, neighbour = _search_databases(query, domain, norm, size, num_starts, rng)
    found = _measure(query, norm, database, neighbour)
    if given is None and isinstance(domain, Box):
        further = search_outside(functools.partial(_measure, query, norm), domain, size, num_starts, rng)
        # A clamp makes records outside as good as those at the ends, which are nicer to read.
        if further is not None and further[0] > found * (1.0 + 1e-9):
            found, database, neighbour = further
    return SensitivityAudit(norm, found, claimed, database, neighbour)


def _claimed(query: AbstractQuery, norm: float) -> float | None:
    try:
        return query.sensitivity(norm)
    except MissingCapabilityError:
        return None


def _domain(query: AbstractQuery, domain: AbstractDomain | None) -> AbstractDomain:
    if domain is not None and not isinstance(domain, AbstractDomain):
        raise InvalidTypeError(f"domain must be a queries.Box or queries.Categories, got {describe(domain)}.")
    if domain is not None and query.domain is not None and domain.width != query.domain.width:
        raise InvalidInputError(f"The query's records have {query.domain.width} column(s), domain has {domain.width}.")
    chosen = domain or query.domain
    if chosen is None:
        raise MissingCapabilityError(
            "This query does not say what a record is: pass domain=, such as queries.Box(low=(0.0,), high=(1.0,)) "
            "or queries.Categories(levels=(2, 3)), one entry per column."
        )
    return chosen


def _size(query: AbstractQuery, num_records: int | None) -> int:
    given = integer("num_records", at_least=1, optional=True)(num_records)
    if given is not None and query.num_records not in (None, given):
        raise InvalidInputError(f"The query is of {query.num_records} records, got num_records={given}: leave it out.")
    return query.num_records or given or 3


# Additive queries: the other records cancel ---------------------------------------------------------------------------


def _search_records(
    query: AbstractAdditiveQuery,
    domain: AbstractDomain,
    norm: float,
    size: int,
    num_starts: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    pool = np.concatenate([domain.extremes(rng, _POOL), domain.sample(rng, _POOL)])
    values = query.contributions(pool)
    change = np.stack([np.linalg.norm(values - value, ord=norm, axis=1) for value in values])
    best = np.argsort(change, axis=None)[::-1][: (num_starts + 1) // 2]
    chosen = np.concatenate([best, rng.integers(0, change.size, num_starts // 2)])
    pair = [pool[index] for index in np.unravel_index(chosen, change.shape)]
    for radius in _RADII:
        for moved, fixed in ((0, 1), (1, 0)):
            pair[moved] = _improve(query, domain, norm, pair[moved], pair[fixed], radius)
    change = np.linalg.norm(query.contributions(pair[0]) - query.contributions(pair[1]), ord=norm, axis=1)
    winner = int(np.argmax(change))
    database = np.repeat(pool[:1], size, axis=0)
    neighbour = database.copy()
    database[-1], neighbour[-1] = pair[0][winner], pair[1][winner]
    return database, neighbour


def _improve(
    query: AbstractAdditiveQuery,
    domain: AbstractDomain,
    norm: float,
    records: np.ndarray,
    others: np.ndarray,
    radius: float,
) -> np.ndarray:
    """Move each record, one coordinate after the other, away from its partner in `others`."""
    records, away_from = records.copy(), query.contributions(others)[:, None, :]
    for column in range(domain.width):
        values = domain.around(column, records[:, column], radius)
        trials = np.repeat(records[:, None, :], values.shape[1], axis=1)
        trials[:, :, column] = values
        reached = query.contributions(trials.reshape(-1, domain.width)).reshape(*values.shape, -1)
        best = np.argmax(np.linalg.norm(reached - away_from, ord=norm, axis=2), axis=1)
        records[:, column] = values[np.arange(len(values)), best]
    return records


# Other queries: databases matter as a whole ---------------------------------------------------------------------------


def _search_databases(
    query: AbstractQuery,
    domain: AbstractDomain,
    norm: float,
    size: int,
    num_starts: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    flat = query.domain is None and domain.width == 1

    def change(candidate: _Candidate) -> float:
        first, second = candidate.databases(flat)
        difference = float(np.linalg.norm(query(first) - query(second), ord=norm))
        if math.isnan(difference):
            raise SimulationError("The query is NaN for some database of the domain: it has no sensitivity there.")
        return difference

    starts = sorted((_start(domain, size, kind, rng) for kind in range(num_starts)), key=change, reverse=True)
    climbed = [_climb(change, domain, start, rng) for start in starts[:_CLIMBS]]
    return max(climbed, key=change).databases(flat)


@dataclasses.dataclass(frozen=True, eq=False)
class _Candidate:
    """A database, followed by the record that replaces its record at `position`."""

    records: np.ndarray
    position: int

    def databases(self, flat: bool) -> tuple[np.ndarray, np.ndarray]:
        first, second = self.records[:-1], self.records[:-1].copy()
        second[self.position] = self.records[-1]
        return (first[:, 0], second[:, 0]) if flat else (first, second)

    def with_entry(self, row: int, column: int, value: Any) -> _Candidate:
        records = self.records.copy()
        records[row, column] = value
        return _Candidate(records, self.position)


def _start(domain: AbstractDomain, size: int, kind: int, rng: np.random.Generator) -> _Candidate:
    """All records alike, half and half, any mix of extremes, or anything; one extreme replaces another."""
    pool = domain.extremes(rng, _POOL)
    old, new = pool[rng.integers(0, len(pool), 2)] if kind >= 2 else pool[[0, -1]]
    records = np.stack([old] * size + [new])
    position = int(rng.integers(0, size))
    if kind % 4 == 1:
        records[:size:2] = new
        records[position] = old
    elif kind % 4 == 2:
        records = pool[rng.integers(0, len(pool), size + 1)]
    elif kind % 4 == 3:
        records = domain.sample(rng, size + 1)
    return _Candidate(records, position)


def _climb(
    change: Callable[[_Candidate], float], domain: AbstractDomain, start: _Candidate, rng: np.random.Generator
) -> _Candidate:
    """Coordinate ascent over the two exchanged records and some of the others."""
    best, reached = start, change(start)
    last = len(start.records) - 1
    for radius in _RADII:
        shared = rng.permutation(last)[: max(1, _ENTRIES // domain.width)]
        for row, column in itertools.product((last, start.position, *shared), range(domain.width)):
            for value in domain.around(column, best.records[row : row + 1, column], radius)[0]:
                trial = best.with_entry(row, column, value)
                there = change(trial)
                if there > reached:
                    best, reached = trial, there
    return best


def _measure(query: AbstractQuery, norm: float, database: np.ndarray, neighbour: np.ndarray) -> float:
    if query.step is not None:
        pairs = zip(query.integer_statistic(database), query.integer_statistic(neighbour), strict=True)
        return float(query.step * np.linalg.norm([float(a - b) for a, b in pairs], ord=norm))
    if isinstance(query, AbstractAdditiveQuery):
        # The other records cancel exactly here; in a difference of long sums they would leave rounding errors.
        first, second = query.contributions(database[-1:]), query.contributions(neighbour[-1:])
        return float(np.linalg.norm((first - second)[0], ord=norm) / query.divisor)
    return float(np.linalg.norm(query(database) - query(neighbour), ord=norm))
