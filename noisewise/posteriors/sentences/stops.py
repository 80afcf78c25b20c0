"""Sentences, or rather clauses, about why the work ended."""

from __future__ import annotations

from noisewise.posteriors.kinds import StopKind

SENTENCES: dict[StopKind, str] = {
    StopKind.STATED: "{text}",
    StopKind.FINISHED: "finished",
    StopKind.SIMULATIONS_SPENT: "the budget of {budget:,} simulations is spent",
    StopKind.TIME_SPENT: "the time budget is spent",
    StopKind.BUDGET_SPENT: "a budget is spent",
    StopKind.SHORT_OF_TARGET: "short of the target",
    StopKind.STEPS_MADE: "the limit max_steps = {limit:,} was reached",
    StopKind.SWEEPS_MADE: "the limit max_sweeps = {limit:,} was reached",
    StopKind.DRAWS_MADE: "the limit max_draws = {limit:,} was reached",
    StopKind.IMPORTANCE_DRAWS_MADE: (
        "max_steps allows no more than the {num:,} importance draws made"
    ),
    StopKind.NOTHING_POSSIBLE: "no simulated statistic gives the observation positive probability",
    StopKind.ACCEPTANCE_TOO_LOW: (
        "the acceptance fell below min_acceptance={limit:g} at the tolerance {tolerance:.4g}"
    ),
}
