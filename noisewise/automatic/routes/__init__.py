"""The routes of `nw.infer`, one file each, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterator

from noisewise.automatic.ranking import Candidate
from noisewise.automatic.routes import (
    adapted_importance,
    known_law,
    known_records,
    learnt_and_corrected,
    no_density,
    particles,
    weighted_prior,
)
from noisewise.automatic.search import Search

ROUTES = (
    known_law.ROUTE,
    no_density.ROUTE,
    known_records.ROUTE,
    weighted_prior.ROUTE,
    adapted_importance.ROUTE,
    particles.ALONE,
    particles.FIRST,
    learnt_and_corrected.ROUTE,
)


def candidates(search: Search) -> Iterator[Candidate]:
    """What the routes that apply offer, one after the other.

    Args:
        search: The search. What one route spends and finds decides whether the next one applies.
    """
    for route in ROUTES:
        if route.applies(search):
            yield from route.candidates(search)
            if route.is_last:
                return
