"""Whether a mechanism is calibrated for the query whose statistic it releases."""

from __future__ import annotations

import math
from collections.abc import Iterator

from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours
from noisewise.errors import InvalidInputError, MissingCapabilityError, SensitivityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.queries import AbstractQuery

_SLACK = 1.0 + 1e-9
"""A factor that covers rounding, when a sensitivity was computed in another order of operations."""


def check_sensitivity(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    """Refuse a mechanism calibrated for less than the query's sensitivity between its neighbours,
    where both are known.

    A block of w columns that matches no part of a `Joint` changes by at most as much as all columns
    do, and by at most w^(1/norm) times the largest change of one column.

    Args:
        mechanism: The mechanism, possibly composed of blocks.
        query: The query whose statistic it releases.

    Raises:
        SensitivityError: If a block is calibrated for less than it needs, where the message shows
            the line to write, or the query has no sensitivity between these neighbours.

    >>> import noisewise as nw
    >>> query = nw.queries.ClampedMean(bounds=(0.0, 1.0), num_records=10)
    >>> check_sensitivity(nw.mechanisms.Laplace(scale=1.0, sensitivity=0.05), query)
    Traceback (most recent call last):
    noisewise.errors.SensitivityError: The Laplace is calibrated for a sensitivity of 0.05 ...
    """
    for block, part, width in _blocks(mechanism, query):
        norm, calibrated, relation = block.norm, block.total_sensitivity, block.neighbours
        if calibrated is None:
            continue
        needed = _needed(part, norm, width, relation)
        if needed is not None and needed > calibrated * _SLACK:
            between = "" if relation == REPLACE_ONE else f" between {relation.describe()}"
            raise SensitivityError(
                f"The {type(block).__name__} is calibrated for a sensitivity of {calibrated:.6g} in"
                f" the L{norm:g} norm, but that of the {type(part).__name__} is {needed:.6g}"
                f"{between}, so its guarantee would be false. {block.remedy(needed)}"
            )


def check_calibration(mechanism: AbstractMechanism, query: AbstractQuery | None) -> None:
    """The same for a release, of which the query may be unknown; nothing is checked where no
    guarantee is derived from the mechanism.

    Args:
        mechanism: The noise, between the neighbours of the release.
        query: The query, where it is known.

    Raises:
        SensitivityError: If what is derived would be false.
    """
    if query is not None and mechanism.derives_guarantee:
        check_sensitivity(mechanism, query)


def _blocks(
    mechanism: AbstractMechanism, query: AbstractQuery, width: int | None = None
) -> Iterator[tuple[AbstractMechanism, AbstractQuery, int | None]]:
    """For every block: its mechanism, the query it serves, and the number of that query's columns
    it takes, None for all.
    """
    if mechanism.inner is not mechanism:
        yield from _blocks(mechanism.inner, query, width)
    elif mechanism.is_composed:
        if query.is_composed and mechanism.has_blocks_of([part.width for part in query.blocks]):
            for block, part in zip(mechanism.blocks, query.blocks, strict=True):
                yield from _blocks(block, part)
        else:
            for block, columns in mechanism.calibrated_blocks(query.width or 0):
                yield from _blocks(block, query, columns)
    else:
        yield mechanism, query, width


def _needed(
    query: AbstractQuery, norm: float, width: int | None, neighbours: AbstractNeighbours
) -> float | None:
    """The smallest known bound of the change of `width` columns; None if nothing is known."""
    bounds = [_sensitivity(query, norm, neighbours)]
    whole = width is None or norm == 0.0
    each = None if whole else _sensitivity(query, math.inf, neighbours)
    if each is not None and width is not None:
        bounds.append(each * (1.0 if math.isinf(norm) else width ** (1.0 / norm)))
    return min((bound for bound in bounds if bound is not None), default=None)


def _sensitivity(query: AbstractQuery, norm: float, neighbours: AbstractNeighbours) -> float | None:
    if norm not in query.norms:
        return None
    try:
        return query.sensitivity(norm, neighbours)
    except (MissingCapabilityError, InvalidInputError):
        return None
