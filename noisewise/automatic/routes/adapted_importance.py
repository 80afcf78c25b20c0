"""The route for few parameters: independent searches, then draws from a fitted law.

Each search has prior draws of its own. They go on until several have found every part of the
posterior. Then fresh draws follow: some decide whether the others are called exact.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import jax

from noisewise._core.arrays import Array
from noisewise._core.weights import MANY_DRAWS, MIN_DRAWS
from noisewise.automatic.ranking import SAFETY_FACTOR, Candidate
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.inference.contract.run import OutOfBudget
from noisewise.inference.exact.importance_sampling import relative_variance_at
from noisewise.inference.exact.pool import Pool
from noisewise.inference.exact.searches import MAX_PARAMETERS, NUM_SEARCHES, Searches
from noisewise.inference.exact.soundness import MIN_RELIABLE, MIN_TAIL, Soundness
from noisewise.inference.exact.weighted_draws import ImportanceDraws
from noisewise.samplers.adaptive_importance import Defended

_MAX_PER_STAGE, _MIN_PER_STAGE = 1500, 200
"""Simulations of a stage, over all searches: with fewer than 20 for each a fit is mostly noise, and
1,500 let six stages and a check fit into 12% of the default budget.
"""

_STAGES_IN_BUDGET = 25
"""Simulations left, in units of a stage."""

_EXPLORING_SHARE = 0.88
"""Share of the simulations left that exploring may take where modes may have been missed: the rest
suffices for the draws, as posteriors with hidden modes cost a few simulations per draw.
"""

_DRAWS_PER_EFFECTIVE = 20
"""Draws that an effective one takes where the simulator is noisy, as epidemics are."""

_ROUNDED = 2000
"""Draws are made in multiples of this: programs for arrays of the same size are compiled once."""

_MAX_SETS = 3
"""Sets of final draws: the first almost always reaches the target."""


def _applies(search: Search) -> bool:
    return search.model.prior.unconstrained_dim <= MAX_PARAMETERS and search.budget.can_spend(
        _STAGES_IN_BUDGET * _MIN_PER_STAGE
    )


def _candidates(search: Search) -> Iterator[Candidate]:
    """Draws from the law that the searches led to, or all their simulations if these would be
    worth next to nothing.
    """
    left = search.budget.affordable(search.rate)
    if left < _STAGES_IN_BUDGET * _MIN_PER_STAGE:  # too little time: learning makes more of it
        return
    search_key, draw_key, end_key = jax.random.split(search.key_for(Use.ADAPTED), 3)
    run = search.start("importance")
    pool = Pool(run)
    if search.pilot is not None:
        pilot = search.pilot
        pool.include(pilot.proposal, pilot.z, pilot.s, num_searches=NUM_SEARCHES)
    draws: ImportanceDraws | None = None
    sound: Soundness | None = None
    with run.progress(), contextlib.suppress(OutOfBudget):
        search.proposal, sound = _searched(search_key, search, pool, left)
        draws = ImportanceDraws(run, search.proposal)
        for number in range(_MAX_SETS):
            num = _num_draws(search.target_ess, draws, sound, run.remaining or 0)
            if not num:
                break
            draws.add(jax.random.fold_in(draw_key, number), num)
        if draws.effective_size:
            run.diagnostics["1 + rv"] = relative_variance_at(end_key, run, draws.posterior())
    search.pool, search.sound = pool, sound
    if draws is not None and draws.effective_size:
        posterior = draws.posterior(sound)
    elif pool.effective_size:
        posterior = pool.posterior()
    else:
        search.count("importance", run.num_simulations, run.num_failed, effective_size=0.0)
        return
    search.count_posterior("importance", posterior, run.num_simulations)
    yield Candidate(posterior, replaces=search.superseded)


def _searched(key: Array, search: Search, pool: Pool, left: int) -> tuple[Defended, Soundness]:
    return Searches(pool).thoroughly(
        key,
        num_stage=min(_MAX_PER_STAGE, left // _STAGES_IN_BUDGET),
        num_final=_DRAWS_PER_EFFECTIVE * max(search.target_ess, MANY_DRAWS),
        most=pool.num + int(_EXPLORING_SHARE * left),
    )


def _num_draws(target: int, draws: ImportanceDraws, sound: Soundness, left: int) -> int:
    """Draws to add for the target; 0 if there are enough, or another route makes more of what is
    left.
    """
    if draws.num:
        missing = target / max(draws.effective_size, 1.0) - 1.0
        more = math.ceil(SAFETY_FACTOR * draws.num * missing)
        return more if 0 < more <= left else 0
    size = max(sound.effective_size, 1e-9) / sound.num
    reliable = max(sound.reliable_size, 1e-9) / sound.num
    needed = SAFETY_FACTOR * max(max(target, MIN_DRAWS) / size, MIN_RELIABLE / reliable)
    for_tails = SAFETY_FACTOR * MIN_TAIL * sound.num / max(sound.tail_size, 1e-9)
    if sound.findings(math.ceil(needed)) and for_tails <= left / 2:
        needed = max(needed, for_tails)
    if needed <= left:
        return min(left, math.ceil(needed / _ROUNDED) * _ROUNDED)
    half = left // 2
    return half if sound.size_of(half) >= MIN_DRAWS else 0


ROUTE = Route(
    name="adapted importance",
    when=f"at most {MAX_PARAMETERS} free parameters",
    methods="independent searches, then `ImportanceSampling` from a law fitted to what they found",
    evidence="separate weighted draws, and what the searches agree on",
    applies=_applies,
    candidates=_candidates,
)
