"""Records outside a query's box, which a forgotten clamp lets in."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from noisewise.queries.domains import Box

Change = Callable[[np.ndarray, np.ndarray], float]
"""The change of a query between a database and its neighbour."""

_BEYOND = (1.0, 1e6)
"""Distances from the box at which records are tried, in widths of the box: a common mistake, and
far beyond every sensible value.
"""
_HUGE = 1e100
"""A value that is tried, with a square that is still finite."""

_INSIDE = 128
"""Extreme records of the box, at most, that fill a database: a round number."""


def search_outside(
    change: Change,
    domain: Box,
    size: int,
    num_random: int,
    rng: np.random.Generator,
    *,
    removed: int = 0,
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Search for the largest change between databases with records outside the box.

    The last record of a database is replaced by one outside, or the last ones lie outside and are
    removed. The others lie at the ends of the box, or half of the time anywhere.

    Args:
        change: The change of the query between two databases; it may refuse them by raising.
        domain: The box of the query.
        size: The number of records.
        num_random: The number of records with only some columns outside.
        rng: Where random records come from.
        removed: How many records neighbours lack, all of them alike; 0 if one is replaced instead.

    Returns:
        The change, the database and its neighbour; None if the query refuses all.
    """
    inside, outside = domain.extremes(rng, _INSIDE), records_outside(domain, rng, num_random)
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    for i, record in enumerate(outside):
        pool = inside if i % 2 == 0 else np.concatenate([inside, outside])
        database = pool[rng.integers(0, len(pool), size)]
        neighbour = database[: size - removed].copy()
        (database if removed else neighbour)[size - max(removed, 1) :] = record
        found = _accepted(change, database, neighbour)
        if found is not None and (best is None or found > best[0]):
            best = found, database, neighbour
    return best


def records_outside(
    domain: Box, rng: np.random.Generator, num_random: int
) -> Float[np.ndarray, "rows width"]:
    """Records outside the box, first in all columns alike, then `num_random` with some columns
    outside, at mixed distances.

    >>> records_outside(Box(low=(0.0,), high=(2.0,)), np.random.default_rng(0), 0)[:, 0].tolist()
    [-2.0, -2000000.0, 4.0, 2000002.0, -1e+100, 1e+100]
    """
    low, high = np.asarray(domain.low), np.asarray(domain.high)
    below = [low - beyond * (high - low) for beyond in _BEYOND]
    above = [high + beyond * (high - low) for beyond in _BEYOND]
    rows = np.stack([*below, *above, np.full(domain.width, -_HUGE), np.full(domain.width, _HUGE)])
    choices = np.concatenate([rows, [low, high]])
    mixed = choices[
        rng.integers(0, len(choices), (num_random, domain.width)), np.arange(domain.width)
    ]
    return np.concatenate([rows, mixed])


def _accepted(change: Change, database: np.ndarray, neighbour: np.ndarray) -> float | None:
    """The change, infinite if it is NaN; None if the query refuses a database by any exception."""
    try:
        with np.errstate(all="ignore"):
            found = change(database, neighbour)
    except Exception:
        return None
    return math.inf if math.isnan(found) else found
