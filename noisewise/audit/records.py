"""The search over one record or two: enough for a sum over records, where the others cancel."""

from __future__ import annotations

import numpy as np

from noisewise._core.neighbours import AddRemoveOne
from noisewise.queries.base import AbstractAdditiveQuery, AbstractCountQuery
from noisewise.queries.domains import AbstractDomain

POOL = 128
"""Extreme records that are tried, at most, and as many random ones: all pairs of them, 65,536, take
a fraction of a second.
"""

RADII = 0.5 ** np.arange(12)
"""Distances by which a climb moves a value, in widths of its column: from end to end down to
1/2048.
"""


def search_records(
    query: AbstractAdditiveQuery,
    domain: AbstractDomain,
    norm: float,
    size: int,
    num_starts: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Search for the two records between which an additive query changes most.

    Args:
        query: A sum over records.
        domain: The set of possible records.
        norm: The norm of the change: 0, 1, 2 or infinity.
        size: The number of records of the databases to return.
        num_starts: The number of pairs that are climbed: half of them the best, half random ones.
        rng: Where random records come from.

    Returns:
        A database and its neighbour, which differ in the last record.
    """
    pool = np.concatenate([domain.extremes(rng, POOL), domain.sample(rng, POOL)])
    values = query.contributions(pool)
    change = np.stack([np.linalg.norm(values - value, ord=norm, axis=1) for value in values])
    best = np.argsort(change, axis=None)[::-1][: (num_starts + 1) // 2]
    chosen = np.concatenate([best, rng.integers(0, change.size, num_starts // 2)])
    pair = [pool[index] for index in np.unravel_index(chosen, change.shape)]
    for radius in RADII:
        for moved, fixed in ((0, 1), (1, 0)):
            away_from = query.contributions(pair[fixed])
            pair[moved] = _improve(query, domain, norm, pair[moved], away_from, radius)
    change = np.linalg.norm(
        query.contributions(pair[0]) - query.contributions(pair[1]), ord=norm, axis=1
    )
    winner = int(np.argmax(change))
    database = np.repeat(pool[:1], size, axis=0)
    neighbour = database.copy()
    database[-1], neighbour[-1] = pair[0][winner], pair[1][winner]
    return database, neighbour


def search_added(
    query: AbstractAdditiveQuery,
    domain: AbstractDomain,
    norm: float,
    size: int,
    neighbours: AddRemoveOne,
    num_starts: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Search for the records of one unit that move an additive query most when they are removed.

    They are alike, but in a table no more than `max_per_cell` of them fall into one cell.

    Args:
        query: A sum over records.
        domain: The set of possible records.
        norm: The norm of the change: 0, 1, 2 or infinity.
        size: The number of records of the larger database, at least those of the unit.
        neighbours: The bounds of a unit's records.
        num_starts: The number of records that are climbed: half of them the best, half random ones.
        rng: Where random records come from.

    Returns:
        A database and its neighbour, which lacks the last records.
    """
    pool = np.concatenate([domain.extremes(rng, POOL), domain.sample(rng, POOL)])
    moved = np.linalg.norm(query.contributions(pool), ord=norm, axis=1)
    best = np.argsort(moved)[::-1][: (num_starts + 1) // 2]
    chosen = np.concatenate([best, rng.integers(0, len(pool), num_starts // 2)])
    climbed = pool[chosen]
    for radius in RADII:
        nothing = np.zeros_like(query.contributions(climbed))
        climbed = _improve(query, domain, norm, climbed, nothing, radius)
    tried = np.concatenate([climbed, pool])
    unit = _of_one_unit(query, tried, norm, neighbours)
    database = np.concatenate([np.repeat(pool[:1], size - len(unit), axis=0), unit])
    return database, database[: size - len(unit)]


def _of_one_unit(
    query: AbstractAdditiveQuery, records: np.ndarray, norm: float, neighbours: AddRemoveOne
) -> np.ndarray:
    """As many of the records as one unit may have, those that move the query most first."""
    contributions = query.contributions(records)
    ranked = np.argsort(-np.linalg.norm(contributions, ord=norm, axis=1), kind="stable")
    if not isinstance(query, AbstractCountQuery):
        return np.repeat(records[ranked[:1]], neighbours.max_contributions, axis=0)
    unit: list[int] = []
    room = np.full(contributions.shape[1], neighbours.max_per_cell)
    for index in ranked:
        taken = contributions[index] > 0.0
        fits = min([neighbours.max_contributions - len(unit), *room[taken].tolist()])
        unit += [index] * fits
        room -= fits * taken
    return records[unit]


def _improve(
    query: AbstractAdditiveQuery,
    domain: AbstractDomain,
    norm: float,
    records: np.ndarray,
    away_from: np.ndarray,
    radius: float,
) -> np.ndarray:
    """Move each record, coordinate by coordinate, so that its contribution leaves `away_from`."""
    records, away_from = records.copy(), away_from[:, None, :]
    for column in range(domain.width):
        values = domain.around(column, records[:, column], radius)
        trials = np.repeat(records[:, None, :], values.shape[1], axis=1)
        trials[:, :, column] = values
        reached = query.contributions(trials.reshape(-1, domain.width)).reshape(*values.shape, -1)
        best = np.argmax(np.linalg.norm(reached - away_from, ord=norm, axis=2), axis=1)
        records[:, column] = values[np.arange(len(values)), best]
    return records
