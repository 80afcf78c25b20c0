"""The search over pairs of records: enough for a sum over records, where the others cancel."""

from __future__ import annotations

import numpy as np

from noisewise.queries.base import AbstractAdditiveQuery
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
            pair[moved] = _improve(query, domain, norm, pair[moved], pair[fixed], radius)
    change = np.linalg.norm(
        query.contributions(pair[0]) - query.contributions(pair[1]), ord=norm, axis=1
    )
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
    """Move each record, coordinate by coordinate, away from its partner in `others`."""
    records, away_from = records.copy(), query.contributions(others)[:, None, :]
    for column in range(domain.width):
        values = domain.around(column, records[:, column], radius)
        trials = np.repeat(records[:, None, :], values.shape[1], axis=1)
        trials[:, :, column] = values
        reached = query.contributions(trials.reshape(-1, domain.width)).reshape(*values.shape, -1)
        best = np.argmax(np.linalg.norm(reached - away_from, ord=norm, axis=2), axis=1)
        records[:, column] = values[np.arange(len(values)), best]
    return records
