"""What the cells of the contest say: time and simulations to an accuracy, accuracy at a budget, ratios, and whether the targets are met."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.contenders import CONTENDERS
from benchmarks.contest import LARGE, PROBLEMS

LEVELS = (0.60, 0.55)
BUDGETS = (1000, 2000, 5000, 10_000, 100_000)
NEVER = math.inf
NAMES = {"linear_regression": "the regression", "sir": "SIR"}


@dataclasses.dataclass(frozen=True)
class Spread:
    """A median over seeds with the least and the largest value; infinite where most seeds did not get there."""

    median: float
    low: float
    high: float
    num: int

    @staticmethod
    def of(values: Iterable[float]) -> Spread:
        """Of one value per seed.

        >>> Spread.of([3.0, 1.0, NEVER])
        Spread(median=3.0, low=1.0, high=inf, num=3)
        """
        found = sorted(values)
        return Spread(statistics.median_high(found), found[0], found[-1], len(found))


class Standings:
    """The cells of one contest; of a contender that ran on one and on two threads the faster counts."""

    def __init__(self, cells: Sequence[dict[str, Any]]) -> None:
        self._cells = list(cells)

    def contenders(self, problem: str) -> list[str]:
        """Those with a cell on the problem, in the order of the table of contenders."""
        found = {cell["contender"] for cell in self._cells if cell["problem"] == problem and not cell["large"]}
        return [name for name in CONTENDERS if name in found]

    def cells(self, contender: str, problem: str, *, large: bool = False) -> list[dict[str, Any]]:
        """One per seed, on the number of threads that was faster."""
        found = [
            cell
            for cell in self._cells
            if (cell["contender"], cell["problem"], cell["large"]) == (contender, problem, large)
        ]
        by_threads = [[cell for cell in found if cell["threads"] == threads] for threads in (1, 2)]
        return min((cells for cells in by_threads if cells), key=_pace, default=[])

    def seconds(self, contender: str, problem: str, level: float) -> Spread | None:
        """Wall time to C2ST <= level; None without cells."""
        return self._spread(contender, problem, lambda cell: reached(cell, level)[0])

    def simulations(self, contender: str, problem: str, level: float) -> Spread | None:
        """Simulations to C2ST <= level."""
        return self._spread(contender, problem, lambda cell: reached(cell, level)[1])

    def accuracy(self, contender: str, problem: str, budget: int) -> Spread | None:
        """C2ST of the last stage within a budget of simulations: None where there is none."""
        cells = self.cells(contender, problem, large=budget == LARGE and CONTENDERS[contender].neural)
        values = [value for cell in cells if (value := at_budget(cell, budget)) is not None]
        return Spread.of(values) if values else None

    def ended(self, contender: str, problem: str) -> set[str]:
        """Why its cells ended."""
        return {cell["ended"] for cell in self.cells(contender, problem)}

    def ratio(self, ours: str, rival: str, problem: str, level: float, what: str = "seconds") -> dict[str, Any] | None:
        """How many times more the rival needs: rival over ours, of medians, with the range over all pairs of seeds.

        Where the rival did not get there it is a bound from below: what it had spent when it was stopped stands for what it needs.
        """
        part = ("seconds", "simulations").index(what)
        mine = [reached(cell, level)[part] for cell in self.cells(ours, problem)]
        theirs = [needed(cell, level)[part] for cell in self.cells(rival, problem)]
        if not mine or not theirs:
            return None
        missed = sum(math.isinf(reached(cell, level)[part]) for cell in self.cells(rival, problem))
        middle = statistics.median_high(mine)
        return {
            "ours": ours,
            "rival": rival,
            "problem": problem,
            "level": level,
            "what": what,
            "ratio": statistics.median_low(theirs) / middle if math.isfinite(middle) else 0.0,
            "low": min(theirs) / max(mine),
            "high": max(theirs) / min(mine) if math.isfinite(min(mine)) else 0.0,
            "bound": 2 * missed > len(theirs),
            "seeds": (len(mine), len(theirs)),
        }

    def _spread(self, contender: str, problem: str, value: Callable[[dict[str, Any]], float]) -> Spread | None:
        cells = self.cells(contender, problem)
        return Spread.of(value(cell) for cell in cells) if cells else None


def reached(cell: dict[str, Any], level: float) -> tuple[float, float]:
    """Seconds and simulations of the first stage with C2ST <= level; never where there is none.

    >>> stages = [{"simulations": 1000, "seconds": 9.0, "c2st": 0.7}, {"simulations": 2000, "seconds": 19.0, "c2st": 0.58}]
    >>> reached({"stages": stages}, 0.6), reached({"stages": stages}, 0.55)
    ((19.0, 2000), (inf, inf))
    """
    for stage in cell["stages"]:
        if stage["c2st"] <= level:
            return stage["seconds"], stage["simulations"]
    return NEVER, NEVER


def needed(cell: dict[str, Any], level: float) -> tuple[float, float]:
    """The same, or where it was never reached, what had been spent: no less than that is needed."""
    seconds, simulations = reached(cell, level)
    if math.isfinite(seconds):
        return seconds, simulations
    last = cell["stages"][-1]["simulations"] if cell["stages"] else 0
    return cell["seconds"], last


def at_budget(cell: dict[str, Any], budget: int) -> float | None:
    """C2ST of the last stage with no more simulations than the budget; None before the first, or where the cell was stopped earlier.

    A contender that ended by itself has spent less than a larger budget, and keeps its accuracy.
    """
    within = [stage for stage in cell["stages"] if stage["simulations"] <= budget]
    if not within:
        return None
    all_of_it = len(within) == len(cell["stages"])
    stopped_early = all_of_it and within[-1]["simulations"] < budget and cell["ended"] == "limit"
    return None if stopped_early else float(within[-1]["c2st"])


def _pace(cells: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """By what two numbers of threads are compared: seconds per simulation, then seconds."""
    rates = [cell["stages"][-1]["seconds"] / cell["stages"][-1]["simulations"] for cell in cells if cell["stages"]]
    return (statistics.median(rates) if rates else NEVER, statistics.median(cell["seconds"] for cell in cells))


# The targets -----------------------------------------------------------------------------------------------------------


def verdicts(standings: Standings) -> list[dict[str, Any]]:
    """Each target with what was measured: `met` is True, False, or None where cells are missing or a bound does not tell."""
    rows = []
    for ours in ("sppe", "cle"):
        for problem in PROBLEMS:
            if problem not in CONTENDERS[ours].problems:
                target = f"{CONTENDERS[ours].says} on {NAMES[problem]}: as fast, with as few simulations"
                text = "it refuses statistics that have no density given theta"
                rows.append({"target": target, "met": False, "text": text})
                continue
            rows.append(_compared(standings, ours, "sbi-npe", problem, "seconds", 10.0))
            rows.append(_compared(standings, ours, "sbi-npe", problem, "simulations", 1.0))
            rows.append(_compared(standings, ours, "pyabc-exact", problem, "simulations", 1.0))
    rows += [_compared(standings, "exact-smc", "pyabc-exact", problem, "seconds", 5.0) for problem in PROBLEMS]
    return rows


def _compared(standings: Standings, ours: str, rival: str, problem: str, what: str, least: float) -> dict[str, Any]:
    level = LEVELS[0]
    found = standings.ratio(ours, rival, problem, level, what)
    mine, theirs = CONTENDERS[ours].says, CONTENDERS[rival].says
    more = f"{least:g} times the {what} of {mine}" if least > 1.0 else f"no fewer {what} than {mine}"
    row: dict[str, Any] = {"target": f"{theirs} needs {more} to C2ST {level:.2f} on {NAMES[problem]}", "found": found}
    if found is None:
        return row | {"met": None, "text": "not measured"}
    sign = "> " if found["bound"] else ""
    text = f"{sign}{found['ratio']:.3g} times ({found['low']:.3g} to {found['high']:.3g})"
    undecided = found["bound"] and found["ratio"] > 0.0
    return row | {"met": True if found["ratio"] >= least else None if undecided else False, "text": text}
