"""The route for few parameters: importance sampling from a law fitted to its own draws.

Three stages fit the law. Then sets of draws follow, each from a law fitted to all draws so far, and
all sets are pooled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from noisewise.automatic.ranking import MIN_ESS_TO_EXTRAPOLATE, SAFETY_FACTOR, Candidate
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.inference import ImportanceSampling
from noisewise.inference.exact.weighted_draws import pooled_draws
from noisewise.posteriors import AbstractPosterior, WeightedSamples

MAX_PARAMETERS = 3
"""Free parameters up to which one heavy-tailed law fits most posteriors well: weights degenerate
quickly in more dimensions.
"""

_MAX_PER_STAGE, _MIN_PER_STAGE = 4000, 200
"""Simulations of each of three stages that fit the law. The most is the default of
`ImportanceSampling`; with fewer than 200 a fit is mostly noise.
"""

_FINAL_STAGES = 5
"""Simulations of the final draws, in units of a stage: the default of `ImportanceSampling`."""

_BUDGETS = 25
"""Simulations left, in units of a stage: three stages and the final draws then take a third."""


def _applies(search: Search) -> bool:
    return search.model.prior.unconstrained_dim <= MAX_PARAMETERS and search.budget.can_spend(
        _BUDGETS * _MIN_PER_STAGE
    )


def _candidates(search: Search) -> Iterator[Candidate]:
    """Draws from the fitted law, then more while they leave half of what is left."""
    num = min(_MAX_PER_STAGE, search.budget.remaining // _BUDGETS)
    method = ImportanceSampling(num_stages=3, num_adapt=num, num_final=_FINAL_STAGES * num)
    pooled = search.run(Use.ADAPTED, method)
    yield Candidate(pooled)
    sets = [pooled]
    while isinstance(sets[-1], WeightedSamples) and pooled.effective_size >= MIN_ESS_TO_EXTRAPOLATE:
        more = _num_more(search, pooled, sum(len(part.theta) for part in sets))
        if not search.budget.can_spend(2 * more):
            return
        final = ImportanceSampling(num_stages=0, num_final=more, proposal=pooled)
        sets.append(search.run(Use.ADAPTED + len(sets), final))
        before, pooled = pooled, pooled_draws(sets)  # type: ignore[arg-type]
        yield Candidate(pooled, replaces=before)


def _num_more(search: Search, pooled: AbstractPosterior, num_drawn: int) -> int:
    """Draws that the target still takes, at least half as many as there are."""
    missing = search.target_ess / pooled.effective_size - 1.0 if pooled.report.exact else 1.0
    return max(math.ceil(SAFETY_FACTOR * num_drawn * missing), num_drawn // 2)


ROUTE = Route(
    name="adapted importance",
    when=f"at most {MAX_PARAMETERS} free parameters",
    methods="`ImportanceSampling` from a law fitted to its own draws",
    evidence="the weights",
    applies=_applies,
    candidates=_candidates,
)
