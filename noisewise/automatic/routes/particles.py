"""The routes that temper: particles led from the prior to the posterior.

They reach observations that weighted prior draws never come near.
"""

from __future__ import annotations

from collections.abc import Iterator

from noisewise.automatic.ranking import Candidate
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.inference import ExactSMC
from noisewise.mechanisms.base import Capability

_NUM_PARTICLES = 2000
"""Particles: half the default of `ExactSMC`, so that one temperature takes 2% of the default
budget.
"""

MIN_SIMULATIONS = 5 * _NUM_PARTICLES
"""Simulations without which tempering gets nowhere: every particle simulated five times."""

_SHARE = 1 / 3
"""Share of the simulations left that tempering may take where learning can follow it."""


def method(search: Search) -> ExactSMC:
    """The method that these routes run, and that others fall back to."""
    return ExactSMC(num_particles=_NUM_PARTICLES, target_ess=search.target_ess)


def _applies_alone(search: Search) -> bool:
    able = search.model.mechanism.capabilities
    return not search.budget.is_spent() and Capability.SAMPLE not in able


def _alone(search: Search) -> Iterator[Candidate]:
    yield Candidate(search.run(Use.PARTICLES, method(search)))


def _applies_first(search: Search) -> bool:
    return search.observation_surprises and search.budget.can_spend(3 * MIN_SIMULATIONS)


def _first(search: Search) -> Iterator[Candidate]:
    yield Candidate(search.run(Use.PARTICLES, method(search), share=_SHARE))


ALONE = Route(
    name="particles alone",
    when="the mechanism's noise cannot be simulated",
    methods="`ExactSMC`",
    evidence="R-hat and effective size",
    applies=_applies_alone,
    candidates=_alone,
    is_last=True,
)

FIRST = Route(
    name="particles first",
    when="the prior hardly predicts the observation",
    methods="`ExactSMC`, with a third of the simulations left",
    evidence="R-hat and effective size",
    applies=_applies_first,
    candidates=_first,
)
"""Where few simulations come near the observation tempering may get there, and a network may
extrapolate to it: each has its turn.
"""
