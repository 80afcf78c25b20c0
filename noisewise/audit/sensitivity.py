"""The largest change of a query that one person can make, searched over neighbouring databases."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from noisewise._core.arrays import describe, integer
from noisewise._core.neighbours import (
    REPLACE_ONE,
    AbstractNeighbours,
    AddRemoveOne,
    as_neighbours,
)
from noisewise.audit.databases import search_databases
from noisewise.audit.outside import search_outside
from noisewise.audit.records import search_added, search_records
from noisewise.audit.verdict import AbstractVerdict
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.queries.base import AbstractAdditiveQuery, AbstractCountQuery, AbstractQuery
from noisewise.queries.domains import AbstractDomain, Box
from noisewise.queries.function_query import as_query

_SLACK = 1.0 + 1e-9
"""A factor that covers float64 rounding when two changes are compared."""

_DEFAULT_SIZE = 3
"""Records of a database, for a query that takes any number: enough for one between two others."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SensitivityAudit(AbstractVerdict):
    """The largest change of a query between neighbours that a search found, and the claim.

    Attributes:
        norm: The norm of the change.
        found: The change, a lower bound of the sensitivity: above `claimed` the claim is false.
        claimed: The sensitivity that the query states; None if it states none.
        database: A database where the change is found.
        neighbour: Its neighbour.
    """

    norm: float
    found: float
    claimed: float | None
    database: np.ndarray
    neighbour: np.ndarray

    @property
    def ratio(self) -> float:
        """Found over claimed: above 1 the claim is false, far below 1 it may be larger than
        necessary. 1 if nothing changes, as was claimed.
        """
        if self.claimed is None:
            return math.nan
        if self.claimed == 0.0:
            return math.inf if self.found else 1.0
        return self.found / self.claimed

    @property
    def passed(self) -> bool:
        """Whether the claim survives, up to float64 rounding."""
        return self.claimed is not None and self.found <= self.claimed * _SLACK

    def describe(self) -> str:
        claimed = "nothing claimed"
        if self.claimed is not None:
            claimed = f"claimed {self.claimed:.6g}, ratio {self.ratio:.4g}"
        return f"L{self.norm:g} norm: found {self.found:.6g}, {claimed}"


def sensitivity(
    query: AbstractQuery | Callable[[Any], Any],
    *,
    norm: float = 1,
    neighbours: AbstractNeighbours = REPLACE_ONE,
    domain: AbstractDomain | None = None,
    num_records: int | None = None,
    num_starts: int = 64,
    seed: int = 0,
) -> SensitivityAudit:
    """Search for the pair of neighbours that moves a query most: one record is replaced, or the
    records of one unit are removed.

    Additive queries are searched over pairs of records, or the records of one unit. Others are
    searched over whole databases: m records at one extreme and the rest at another for every m,
    records next to values that the query returned, and mixtures; then coordinate by coordinate with
    a shrinking radius. For linear combinations of order statistics of one column (quantiles,
    ranges, trimmed means) up to 64 records that is exact, otherwise a lower bound. A query with a
    `step` is measured by its exact integer statistic: with a grid, the audit is of the rounded
    query to which a release adds noise.

    Databases may hold any finite numbers, so a query with a box of its own must clamp: records far
    outside the box are tried too, unless the query refuses them.

    No search of this kind sees a query that behaves differently for values that it neither returns
    nor has at the ends of the domain (`x == 0.1234567`), for other numbers of records (a quantile's
    sensitivity depends on n: ask for yours), in time, memory or errors, or because it keeps a state
    or draws random numbers.

    Args:
        query: A query, or a bare function of a database.
        norm: The norm of the change: 0, 1, 2 or math.inf.
        neighbours: Which databases are neighbours. A unit's records are taken to be alike, but for
            tables, whose cells hold at most `max_per_cell` of them.
        domain: The set of possible records; by default that of the query. If given, no records
            outside are tried. A query without a domain gets one column with shape (n,).
        num_records: The number of records, of the larger database where they differ; by default
            that of the query, else 3, or all that a unit may have.
        num_starts: The number of random starts: more of them find more.
        seed: The seed of the search, which is reproducible.

    Returns:
        The verdict, with the pair of databases.

    Raises:
        MissingCapabilityError: If nothing says what a record is.
        InvalidInputError: If the domain or the number of records contradicts the query.
        SensitivityError: If the query is not defined for both neighbours.
        SimulationError: If the query is NaN for a database of the domain.

    >>> import noisewise as nw
    >>> query = nw.queries.RegressionMoments(
    ...     num_records=100, num_predictors=2, sensitivity_bound="paper"
    ... )
    >>> audit = sensitivity(query, norm=1)
    >>> audit.passed, round(audit.ratio, 3)
    (True, 0.721)
    >>> middle = nw.queries.FunctionQuery(lambda x: [np.median(x)], sensitivity=0.5)
    >>> sensitivity(middle, domain=nw.queries.Box(low=(0.0,), high=(1.0,)), num_records=3).found
    1.0
    """
    query = as_query(query)
    relation = as_neighbours(neighbours)
    claimed = _claimed(query, norm, relation)
    norm = float(norm)
    given, domain = domain, _domain(query, domain)
    removed = _alike(query, relation) if isinstance(relation, AddRemoveOne) else 0
    most = relation.max_contributions if isinstance(relation, AddRemoveOne) else 0
    size = max(_size(query, num_records, most), most)
    num_starts = integer("num_starts", at_least=1)(num_starts)
    rng = np.random.default_rng(integer("seed", at_least=0)(seed))
    if not isinstance(query, AbstractAdditiveQuery):
        database, neighbour = search_databases(
            query, domain, norm, size, num_starts, rng, removed=removed
        )
    elif isinstance(relation, AddRemoveOne):
        database, neighbour = search_added(query, domain, norm, size, relation, num_starts, rng)
    else:
        database, neighbour = search_records(query, domain, norm, size, num_starts, rng)
    found = _measure(query, norm, database, neighbour)
    if given is None and isinstance(domain, Box):
        change = functools.partial(_measure, query, norm)
        further = search_outside(change, domain, size, num_starts, rng, removed=removed)
        # A clamp makes records outside as good as those at the ends, which are easier to read.
        if further is not None and further[0] > found * _SLACK:
            found, database, neighbour = further
    return SensitivityAudit(norm, found, claimed, database, neighbour)


def _claimed(query: AbstractQuery, norm: float, neighbours: AbstractNeighbours) -> float | None:
    try:
        return query.sensitivity(norm, neighbours)
    except MissingCapabilityError:
        return None


def _domain(query: AbstractQuery, domain: AbstractDomain | None) -> AbstractDomain:
    if domain is not None and not isinstance(domain, AbstractDomain):
        raise InvalidTypeError(
            f"domain must be a queries.Box or queries.Categories, got {describe(domain)}."
        )
    if domain is not None and query.domain is not None and domain.width != query.domain.width:
        raise InvalidInputError(
            f"The query's records have {query.domain.width} column(s), domain has {domain.width}."
        )
    chosen = domain or query.domain
    if chosen is None:
        raise MissingCapabilityError(
            "This query does not say what a record is: pass domain=, such as"
            " queries.Box(low=(0.0,), high=(1.0,)) or queries.Categories(levels=(2, 3)), one entry"
            " per column."
        )
    return chosen


def _alike(query: AbstractQuery, neighbours: AddRemoveOne) -> int:
    """How many records of one unit may be alike: fewer where they fall into cells, as they may in a
    user's function.
    """
    in_cells = any(
        isinstance(block, AbstractCountQuery) or block.domain is None for block in query.blocks
    )
    return neighbours.max_per_cell if in_cells else neighbours.max_contributions


def _size(query: AbstractQuery, num_records: int | None, removed: int) -> int:
    if removed and query.num_records is not None and not isinstance(query, AbstractAdditiveQuery):
        raise InvalidInputError(
            f"The query is of {query.num_records} records, but neighbours that add or remove some"
            " have different numbers of them: leave num_records out of the query."
        )
    given = integer("num_records", at_least=1, optional=True)(num_records)
    if given is not None and query.num_records not in (None, given):
        raise InvalidInputError(
            f"The query is of {query.num_records} records, got num_records={given}: leave it out."
        )
    return query.num_records or given or _DEFAULT_SIZE


def _measure(
    query: AbstractQuery, norm: float, database: np.ndarray, neighbour: np.ndarray
) -> float:
    fixed_size = query.num_records is not None and len(database) != len(neighbour)
    if query.step is not None and not fixed_size:
        integers = (query.integer_statistic(x) for x in (database, neighbour))
        steps = [float(a - b) for a, b in zip(*integers, strict=True)]
        return float(query.step * np.linalg.norm(steps, ord=norm))
    if isinstance(query, AbstractAdditiveQuery):
        # The other records cancel exactly here; in a difference of long sums they would leave
        # rounding errors.
        if len(neighbour) < len(database):
            change = query.contributions(database[len(neighbour) :]).sum(0)
        else:
            first, second = query.contributions(database[-1:]), query.contributions(neighbour[-1:])
            change = (first - second)[0]
        return float(np.linalg.norm(change, ord=norm) / query.divisor)
    return float(np.linalg.norm(query(database) - query(neighbour), ord=norm))
