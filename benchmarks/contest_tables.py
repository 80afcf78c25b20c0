"""Tables of the contest: time and simulations to an accuracy, accuracy at a budget, and where a
rival is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.contenders import CONTENDERS
from benchmarks.contest import LIMIT, MOST, PROBLEMS
from benchmarks.standings import BUDGETS, LEVELS, MEASURES, NAMES, Spread, Standings, begins
from experiments.words import markdown

PROBLEMS_ARE = """The problems are the paper's. *Regression*: 3 parameters, 100 records, 9 means of clamped products with Laplace noise.
*SIR*: 2 parameters, the infected of an epidemic at 10 times, each released as a padded binomial count. Exact posteriors are
noisewise's own (`problems`), checked against independent numbers in the tests. C2ST follows the recipe of sbibm."""


def contest(standings: Standings) -> str:
    """Both tables of each problem."""
    parts = [
        "## Head to head, epsilon 10",
        PROBLEMS_ARE,
        (
            "Wall time and simulations until C2ST is at most .60 and .55: median over three seeds"
            f" (range), or one seed where no range is given. *No*: not within {LIMIT / 60:.0f}"
            f" minutes or, by a method that learns, within {MOST:,} simulations, whichever came"
            " first."
        ),
    ]
    for problem in PROBLEMS:
        parts.append(f"### On {NAMES[problem]}\n\n{reach_table(standings, problem)}")
        parts.append(
            "C2ST with a given number of simulations (empty: stopped before, or not"
            f" run):\n\n{budget_table(standings, problem)}"
        )
    return "\n\n".join(parts)


def reach_table(standings: Standings, problem: str) -> str:
    header = ["contender"]
    header += [f"{what} to {level:.2f}" for level in LEVELS for what in MEASURES]
    header += ["C2ST at the end", "seconds to any answer", "peak MB"]
    rows = []
    for name in standings.contenders(problem):
        cells = standings.best(name, problem)
        ends = [cell["stages"][-1]["c2st"] for cell in cells if cell["stages"]]
        rows.append(
            [
                CONTENDERS[name].says,
                *(
                    _spread(standings.reach(name, problem, what, level))
                    for level in LEVELS
                    for what in MEASURES
                ),
                f"{np.median(ends):.3f}" if ends else "",
                _spread(_first(standings, name, problem)),
                f"{np.median([cell['peak MiB'] for cell in cells]) * 1.048576:,.0f}",
            ]
        )
    return markdown(header, rows)


def budget_table(standings: Standings, problem: str) -> str:
    rows = []
    for name in standings.contenders(problem):
        found = [standings.accuracy(name, problem, budget) for budget in BUDGETS]
        rows.append([CONTENDERS[name].says, *(_score(spread) for spread in found)])
    return markdown(["contender", *(f"{budget:,}" for budget in BUDGETS)], rows)


def _first(standings: Standings, name: str, problem: str) -> Spread:
    return Spread.of(begins(cell) for cell in standings.best(name, problem))


def _spread(spread: Spread | None) -> str:
    """The median and its range; *no* where most seeds did not get there."""
    if spread is None:
        return ""
    if math.isinf(spread.median):
        return "no"
    if spread.num == 1 or spread.low == spread.high:
        return f"{spread.median:,.0f}"
    high = "no" if math.isinf(spread.high) else f"{spread.high:,.0f}"
    return f"{spread.median:,.0f} ({spread.low:,.0f} to {high})"


def _score(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return (
        f"{spread.median:.3f}"
        if spread.num == 1
        else f"{spread.median:.3f} ({spread.low:.3f} to {spread.high:.3f})"
    )


# Where a rival is ahead ---------------------------------------------------------------------------

Shown = Callable[[Spread | None], str]
Values = dict[str, Spread]


def measures(standings: Standings, problem: str) -> Iterator[tuple[str, Shown, Values]]:
    """Each measure, how it is printed, and its value for each contender that has one."""
    names = standings.contenders(problem)
    first = {name: _first(standings, name, problem) for name in names}
    yield "seconds to any answer", _spread, first
    for level in LEVELS:
        for what in MEASURES:
            reached = {name: standings.reach(name, problem, what, level) for name in names}
            yield f"{what} to {level:.2f}", _spread, _there(reached)
    for budget in BUDGETS:
        scores = {name: standings.accuracy(name, problem, budget) for name in names}
        yield f"C2ST with {budget:,} simulations", _score, _there(scores)


def _there(values: dict[str, Spread | None]) -> Values:
    return {name: value for name, value in values.items() if value is not None}


def _sides(values: Values) -> tuple[Values, Values]:
    """Ours, and the rivals that got there."""
    mine = {name: value for name, value in values.items() if CONTENDERS[name].ours}
    theirs = {
        name: value
        for name, value in values.items()
        if not CONTENDERS[name].ours and math.isfinite(value.median)
    }
    return mine, theirs


def _best(values: Values) -> str:
    return min(values, key=lambda name: values[name].median)


def best_pair(values: Values) -> tuple[str, str] | None:
    """The best of ours and the best of the rivals; None where one side has no value."""
    mine, theirs = _sides(values)
    return (_best(mine), _best(theirs)) if mine and theirs else None


def ahead(standings: Standings) -> list[list[str]]:
    """Measures by which the best rival is ahead of the best of ours: measure, rival, ours."""
    rows = []
    for problem in PROBLEMS:
        for what, shown, values in measures(standings, problem):
            ours, rival = best_pair(values) or ("", "")
            if ours and values[rival].median < values[ours].median:
                rows.append(
                    [
                        f"{NAMES[problem]}: {what}",
                        f"{CONTENDERS[rival].says} {shown(values[rival])}",
                        f"{CONTENDERS[ours].says} {shown(values[ours])}",
                    ]
                )
    return rows


def behind(standings: Standings) -> list[list[str]]:
    """For each of our methods and each problem the measures by which a rival is ahead of it, each
    with the best such rival. A method that does not get to the first level is behind in most of
    them, so that these are only counted.
    """
    rows = []
    for problem in PROBLEMS:
        found: dict[str, list[str]] = {}
        all_measures = list(measures(standings, problem))
        for what, shown, values in all_measures:
            mine, theirs = _sides(values)
            for name, value in mine.items():
                if theirs and theirs[rival := _best(theirs)].median < value.median:
                    found.setdefault(name, []).append(
                        f"{what} {shown(_bare(value))} ({CONTENDERS[rival].says}"
                        f" {shown(_bare(theirs[rival]))})"
                    )
        for name, texts in found.items():
            reach = standings.reach(name, problem, "seconds", LEVELS[0])
            if reach is None or math.isinf(reach.median):
                texts = [
                    f"does not get to {LEVELS[0]:.2f}; a rival is ahead in {len(texts)} of"
                    f" {len(all_measures)} measures"
                ]
            rows.append([f"{CONTENDERS[name].says}, {NAMES[problem]}", "; ".join(texts)])
    return rows


def _bare(spread: Spread) -> Spread:
    """The median alone: ranges are in the tables above."""
    return Spread(spread.median, spread.median, spread.median, 1)


def lost(standings: Standings) -> str:
    """Where rivals win: first over all of ours, then over each of ours."""
    overall, each = ahead(standings), behind(standings)
    if not each:
        return ""
    parts = ["## Where a rival wins"]
    if overall:
        parts.append(
            "Measures by which the best rival is ahead of the best of ours:\n\n"
            + markdown(["measure", "rival", "ours"], overall)
        )
    parts.append(
        "Each of our methods by itself: where a rival is ahead of it, and the best such rival in"
        " brackets. Another of ours may be ahead of both. All pairs are in"
        " [the records of the contest](../benchmarks/results/head_to_head.jsonl).\n\n"
        + markdown(["ours", "behind in"], each).replace("|---|--:|", "|---|---|")
    )
    return "\n\n".join(parts)


def typical(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stages of the cell with the median score at its end."""
    ended = sorted(
        (cell for cell in cells if cell["stages"]), key=lambda cell: cell["stages"][-1]["c2st"]
    )
    return list(ended[len(ended) // 2]["stages"]) if ended else []
