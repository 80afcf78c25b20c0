"""The report of a whole `nw.infer`, over all methods that it ran."""

from __future__ import annotations

import dataclasses
from typing import Any

from noisewise.automatic.ranking import MIN_ESS_TO_EXTRAPOLATE, SAFETY_FACTOR, num_exact_draws
from noisewise.automatic.search import Search
from noisewise.posteriors import (
    AbstractPosterior,
    Finding,
    Kind,
    Report,
    Stop,
    StopKind,
    WeightedSamples,
)
from noisewise.posteriors.findings import without
from noisewise.simulators import Faults


def summarised(
    search: Search, posterior: AbstractPosterior, settings: dict[str, Any]
) -> AbstractPosterior:
    """The chosen posterior with a report of the whole search in place of its method's own.

    Args:
        search: The search, which is over.
        posterior: The posterior that it ended with.
        settings: What `nw.infer` was asked for, by name.
    """
    report, effective_size = posterior.report, num_exact_draws(posterior)
    ended = StopKind.BUDGET_SPENT if search.budget.is_spent() else StopKind.SHORT_OF_TARGET
    route = "sppe, corrected" if report.method == "certify" else report.method
    return posterior.with_report(
        dataclasses.replace(
            report,
            settings=settings,
            num_simulations=search.budget.num_simulations,
            num_failed=search.budget.num_failed,
            seconds=60.0 * search.budget.minutes,
            stop=Stop() if effective_size >= search.target_ess else Stop(ended),
            rounds=tuple(search.stages),
            numbers={"route": route, **report.numbers},
            findings=(*_findings(search, report), *_shortfall(search, posterior, effective_size)),
        )
    )


def _findings(search: Search, report: Report) -> tuple[Finding, ...]:
    """The method's findings, with the failures of the whole search in place of its own."""
    found = without(report.findings, Kind.SIMULATIONS_REJECTED, Kind.SIMULATIONS_DROPPED)
    faults: Faults = search.options["faults"]
    budget, dropped = search.budget, faults.numbers()
    num_impossible = budget.num_failed - faults.total
    if num_impossible > 0:
        numbers = {"failed": num_impossible, "simulations": budget.num_simulations}
        found += (Finding(Kind.SIMULATIONS_IMPOSSIBLE, numbers),)
    if dropped is not None:
        found += (Finding(Kind.SIMULATIONS_DROPPED, dropped),)
    return found


def _shortfall(
    search: Search, posterior: AbstractPosterior, effective_size: float
) -> tuple[Finding, ...]:
    """What to say where the target was missed, with the simulations that would reach it."""
    target = search.target_ess
    # where enough weighted draws are not called exact, their own findings say why
    weighted = isinstance(posterior, WeightedSamples) and posterior.effective_size >= target
    if effective_size >= target or weighted:
        return ()
    exact = posterior.report.exact
    numbers: dict[str, Any] = {"target": target, "worth": effective_size, "exact": exact}
    if effective_size >= MIN_ESS_TO_EXTRAPOLATE and search.budget.num_simulations:
        per_draw = search.budget.num_simulations / max(effective_size, 1.0)
        numbers["needed"] = SAFETY_FACTOR * target * per_draw
    return (Finding(Kind.TARGET_NOT_REACHED, numbers),)
