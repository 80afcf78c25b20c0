"""The route for models of independent records: chains that move record by record.

Such chains are exact, and cheap at any epsilon. If they have not settled when the target should be
met, tempered particles get a turn. Nothing else is tried: other methods ignore the records.
"""

from __future__ import annotations

from collections.abc import Iterator

from noisewise.automatic.ranking import Candidate
from noisewise.automatic.routes import particles
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.inference import DataAugmentationMCMC

_MIN_SIMULATIONS = 40_000
"""Simulations below which weighted draws are tried instead: twice what the warm-up takes, which is
16 chains x 200 sweeps x 6 simulations = 19,200.
"""

_TARGETS = 4
"""Effective draws to ask for, in units of the target: sweeps cost next to nothing once the chains
are warm.
"""


def _chains(search: Search) -> DataAugmentationMCMC:
    return DataAugmentationMCMC(
        num_chains=16, num_warmup=200, target_ess=_TARGETS * search.target_ess
    )


def _applies(search: Search) -> bool:
    return _chains(search).supports(search.model) and search.budget.can_spend(_MIN_SIMULATIONS)


def _candidates(search: Search) -> Iterator[Candidate]:
    yield Candidate(search.run(Use.RECORD_CHAINS, _chains(search)))
    if search.budget.can_spend(particles.MIN_SIMULATIONS):
        yield Candidate(search.run(Use.RECORD_PARTICLES, particles.method(search)))


ROUTE = Route(
    name="known records",
    when="records are independent and the query sums over them",
    methods="`DataAugmentationMCMC`, else `ExactSMC`",
    evidence="R-hat and effective size",
    applies=_applies,
    candidates=_candidates,
    is_last=True,
)
