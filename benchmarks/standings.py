"""What the cells of the contest say: time and simulations to an accuracy, accuracy at a budget,
ratios, and whether the targets are met.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from benchmarks.contenders import CONTENDERS
from benchmarks.contest import PROBLEMS

LEVELS = (0.60, 0.55)
"""C2ST at which a contender has arrived: the limit of the accuracy tests, and the aim."""
BUDGETS = (1000, 2000, 5000, 10_000, 100_000)
"""Simulations at which accuracy is compared."""
NEVER = math.inf
SEEDS = 3
"""Seeds that a verdict needs."""
THREADS = (1, 2)
"""Numbers of threads that a verdict on seconds needs: the contest was held on two cores."""
NAMES = {"linear_regression": "the regression", "sir": "SIR"}


@dataclasses.dataclass(frozen=True)
class Spread:
    """A median over seeds with the least and the largest value; infinite where most seeds did not
    get there.
    """

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


Cells = list[dict[str, Any]]
Measure = Literal["seconds", "simulations"]
MEASURES: tuple[Measure, ...] = ("seconds", "simulations")


class Standings:
    """The cells of one contest. A contender counts by its best entry: on one or two threads, with
    rounds of 1000 or of 10,000.
    """

    def __init__(self, cells: Sequence[dict[str, Any]]) -> None:
        self._cells = list(cells)

    def contenders(self, problem: str) -> list[str]:
        """Those with a cell on the problem, in the order of the table of contenders."""
        found = {cell["contender"] for cell in self._cells if cell["problem"] == problem}
        return [name for name in CONTENDERS if name in found]

    def entries(self, contender: str, problem: str) -> list[Cells]:
        """Its cells by threads and size of rounds, one per seed; entries with fewer seeds than
        another are left out.
        """
        groups: dict[tuple[int, bool], Cells] = {}
        for cell in self._cells:
            if (cell["contender"], cell["problem"]) == (contender, problem):
                groups.setdefault((cell["threads"], cell["large"]), []).append(cell)
        most = max(map(len, groups.values()), default=0)
        return [groups[place] for place in sorted(groups) if len(groups[place]) == most]

    def best(
        self, contender: str, problem: str, what: Measure = "seconds", level: float = LEVELS[0]
    ) -> Cells:
        """The entry that needs least, by the median over seeds."""
        key = lambda cells: statistics.median_low(needed(cell, level, what) for cell in cells)  # noqa: E731
        return min(self.entries(contender, problem), key=key, default=[])

    def reach(self, contender: str, problem: str, what: Measure, level: float) -> Spread | None:
        """What its best entry needs to C2ST <= level; None without cells."""
        cells = self.best(contender, problem, what, level)
        return Spread.of(reached(cell, level, what) for cell in cells) if cells else None

    def accuracy(self, contender: str, problem: str, budget: int) -> Spread | None:
        """The least C2ST within a budget of simulations, of entries all of whose seeds have one:
        None where there is none.
        """
        found = []
        for cells in self.entries(contender, problem):
            values = [value for cell in cells if (value := at_budget(cell, budget)) is not None]
            if len(values) == len(cells):
                found.append(Spread.of(values))
        return min(found, key=lambda spread: spread.median, default=None)

    def threads(self, contender: str, problem: str) -> set[int]:
        """On how many threads it has been tried, on one seed at least."""
        return {cell["threads"] for cell in self._of(contender, problem)}

    def tried_well(self, contender: str, problem: str, level: float) -> bool:
        """Whether both numbers of threads were tried: on all seeds, or on some of which none was
        faster with it.
        """
        groups = {
            number: {c["seed"]: c for c in self._of(contender, problem, number)}
            for number in THREADS
        }
        full = max(groups.values(), key=len)
        return all(
            len(group) == len(full)
            or (
                group
                and all(
                    needed(cell, level) >= needed(full[seed], level) for seed, cell in group.items()
                )
            )
            for group in groups.values()
        )

    def _of(self, contender: str, problem: str, threads: int | None = None) -> Cells:
        """Its cells with rounds of 1000, on all or on one number of threads."""
        return [
            cell
            for cell in self._cells
            if (cell["contender"], cell["problem"], cell["large"]) == (contender, problem, False)
            and threads in (None, cell["threads"])
        ]

    def ratio(
        self, ours: str, rival: str, problem: str, level: float, what: Measure = "seconds"
    ) -> Ratio | None:
        """How many times more the rival needs: rival over ours, of medians, with the range over all
        pairs of seeds.

        Where the rival did not get there it is a bound from below: what it had spent when it was
        stopped stands for what it needs.
        """
        mine = [reached(cell, level, what) for cell in self.best(ours, problem, what, level)]
        cells = self.best(rival, problem, what, level)
        if not mine or not cells:
            return None
        theirs = sorted(
            (needed(cell, level, what), math.isinf(reached(cell, level, what))) for cell in cells
        )
        value, bound = theirs[(len(theirs) - 1) // 2]
        return Ratio(
            value=value / statistics.median_high(mine),
            low=theirs[0][0] / max(mine),
            high=NEVER if any(missed for _, missed in theirs) else theirs[-1][0] / min(mine),
            bound=bound,
            arrives=math.isfinite(statistics.median_high(mine)),
            seeds=min(len(mine), len(theirs)),
        )


@dataclasses.dataclass(frozen=True)
class Ratio:
    """`bound` where the rival was never there, `arrives` where ours was, for most seeds."""

    value: float
    low: float
    high: float
    bound: bool
    arrives: bool
    seeds: int

    def __str__(self) -> str:
        high = "" if math.isinf(self.high) else f"{self.high:.3g}"
        extent = f"{self.low:.3g} to {high}" if high else f"{self.low:.3g} or more"
        return f"{'> ' if self.bound else ''}{self.value:.3g} times ({extent})"


def reached(cell: dict[str, Any], level: float, what: Measure = "seconds") -> float:
    """Seconds or simulations of the first stage with C2ST <= level; infinite where there is none.

    >>> stages = [{"simulations": 1000, "seconds": 9.0, "c2st": 0.7}, {"simulations": 2000, "seconds": 19.0, "c2st": 0.58}]
    >>> reached({"stages": stages}, 0.6), reached({"stages": stages}, 0.6, "simulations"), reached({"stages": stages}, 0.55)
    (19.0, 2000.0, inf)
    """
    return next((float(stage[what]) for stage in cell["stages"] if stage["c2st"] <= level), NEVER)


def needed(cell: dict[str, Any], level: float, what: Measure = "seconds") -> float:
    """The same, or where it was never reached, what had been spent: no less than that is needed."""
    value = reached(cell, level, what)
    if math.isfinite(value):
        return value
    if what == "seconds":
        return float(cell["seconds"])
    return float(cell["stages"][-1]["simulations"]) if cell["stages"] else 0.0


def begins(cell: dict[str, Any]) -> float:
    """Seconds to the first draws, however good."""
    return float(cell["stages"][0]["seconds"]) if cell["stages"] else NEVER


def for_good(cell: dict[str, Any], level: float) -> float:
    """Seconds of the first stage from which on C2ST stays at or below the level."""
    later = [stage["c2st"] <= level for stage in cell["stages"]]
    return next(
        (stage["seconds"] for i, stage in enumerate(cell["stages"]) if all(later[i:])), NEVER
    )


def at_budget(cell: dict[str, Any], budget: int) -> float | None:
    """C2ST of the last stage with no more simulations than the budget; None before the first, or
    where the cell was stopped earlier.

    A contender that ended by itself has spent less than a larger budget, and keeps its accuracy.
    """
    within = [stage for stage in cell["stages"] if stage["simulations"] <= budget]
    if not within:
        return None
    all_of_it = len(within) == len(cell["stages"])
    stopped_early = all_of_it and within[-1]["simulations"] < budget and cell["ended"] != "finished"
    return None if stopped_early else float(within[-1]["c2st"])


NPE: tuple[tuple[Measure, float], ...] = (("seconds", 10.0), ("simulations", 1.0))
"""Targets: how many times more of each sbi's NPE-C must need."""


# The targets --------------------------------------------------------------------------------------


def verdicts(standings: Standings) -> list[dict[str, Any]]:
    """Each target with what was measured: `met` is True, False, or None where it is not shown, and
    `text` says what was seen.
    """
    rows = []
    for ours in ("sppe", "cle"):
        for problem in PROBLEMS:
            if problem not in CONTENDERS[ours].problems:
                target = (
                    f"{CONTENDERS[ours].says} against {CONTENDERS['sbi-npe'].says},"
                    f" {NAMES[problem]}"
                )
                text = "it refused statistics with atoms when this was run; SPLE serves there"
                rows.append({"target": target, "asked": "as above", "met": False, "text": text})
                rows += [_compared(standings, "sple", "sbi-npe", problem, *more) for more in NPE]
                rows.append(
                    _compared(standings, "sple", "pyabc-exact", problem, "simulations", 1.0)
                )
                continue
            rows += [_compared(standings, ours, "sbi-npe", problem, *more) for more in NPE]
            rows.append(_compared(standings, ours, "pyabc-exact", problem, "simulations", 1.0))
    for problem in PROBLEMS:
        rows += [
            _compared(standings, "exact-smc", "pyabc-exact", problem, "seconds", 5.0, level)
            for level in LEVELS
        ]
    return rows


def _compared(
    standings: Standings,
    ours: str,
    rival: str,
    problem: str,
    what: Measure,
    least: float,
    level: float = LEVELS[0],
) -> dict[str, Any]:
    found = standings.ratio(ours, rival, problem, level, what)
    mine, theirs = CONTENDERS[ours].says, CONTENDERS[rival].says
    target = f"{mine} against {theirs}, {NAMES[problem]}: {what} to {level:.2f}"
    asked = f"at least {least:g} times" if least > 1.0 else "no fewer"
    if found is None:
        return {"target": target, "asked": asked, "met": None, "text": "not measured"}
    met: bool | None = found.arrives and found.value >= least
    text = f"{found}" if found.arrives else f"{mine} does not get there"
    if found.arrives and not met and found.bound:
        met = None
    if what == "seconds" and not all(
        standings.tried_well(name, problem, level) for name in (ours, rival)
    ):
        text += "; one number of threads only"
        met = None if met else met
    if found.seeds < SEEDS:
        text, met = f"{text}; {found.seeds} of {SEEDS} seeds", None
    elif met and found.low < least:
        text += "; by the median, not by every pair"
    return {"target": target, "asked": asked, "met": met, "text": text}
