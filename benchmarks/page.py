"""The page of the benchmarks, `docs/benchmarks.md` and its pictures, from the JSON files under benchmarks/results/: no number is typed.

python -m benchmarks.page
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from benchmarks import sections
from benchmarks.contenders import CONTENDERS
from benchmarks.contest import LARGE, LIMIT, PROBLEMS, STORE, stored
from benchmarks.sections import PICTURES
from benchmarks.standings import (
    BUDGETS,
    LEVELS,
    MEASURES,
    NAMES,
    Spread,
    Standings,
    begins,
    for_good,
    reached,
    verdicts,
)
from experiments.words import markdown
from noisewise.plotting.style import looks, styled

DOCS = Path(__file__).parent.parent / "docs"


def main() -> None:
    """Write the page and its pictures."""
    folder = DOCS / PICTURES
    folder.mkdir(exist_ok=True)
    for name, figure in figures():
        figure.savefig(folder / f"{name}.png", dpi=150)
        plt.close(figure)
    (DOCS / "benchmarks.md").write_text(page())
    print(f"{DOCS / 'benchmarks.md'}")


def page() -> str:
    """The whole text."""
    parts = (targets, contest, lost, circumstances, *sections.ALL)
    return "\n\n".join(["# Benchmarks", INTRODUCTION, *(text for part in parts if (text := part()))]) + "\n"


def figures() -> Iterator[tuple[str, Figure]]:
    """Every picture that there are numbers for."""
    if STORE.exists():
        yield "head_to_head", head_to_head(Standings(stored()))
    if (found := sections.result("scaling")) is not None:
        yield "scaling", sections.scaling_figure(found)
    if (gpu_found := sections.stored_json("gpu")) is not None and "throughput" in gpu_found:
        yield "gpu", sections.gpu_figure(gpu_found["throughput"])


INTRODUCTION = """How accurate and how fast noisewise is beside the tools one would use instead, on the same machine, with the same
simulators. Accuracy is C2ST against draws of the *exact* posterior (1000 against 1000: .5 is perfect, exact draws give .50 with sd .011).
Every number on this page comes from `benchmarks/results/`; `make bench` measures and writes the page (45 minutes; it goes on where it was
stopped), `make bench-quick` measures noisewise alone (5 minutes), and `python -m benchmarks.history` compares the last two runs. Elsewhere:
`estimators.md` (accuracy of every method at the paper's budget, nested noise), `calibration.md`, `reproduction.md`."""


WHY = """Why targets are missed or not shown. Of the seconds of SPPE and CLE to .60, two thirds and more are the compilation of their
programs, which a second inference in the same process, or one with JAX's compilation cache, does not pay. CLE needs a density of the
statistics given theta, and SIR's have an atom where the epidemic dies out: SPLE is what serves there. What memory holds beside the
simulations and the padded copy that training takes has not been traced. Cells that are missing are to be run."""


# Head to head ----------------------------------------------------------------------------------------------------------


def targets() -> str:
    """The targets, with what was measured."""
    rows = [
        [row["target"], {True: "met", False: "**missed**", None: "**not shown**"}[row["met"]], row["text"]]
        for row in [*verdicts(Standings(stored())), *own_targets()]
    ]
    return "## In short\n\n" + markdown(["target", "", "measured (range over pairs of seeds)"], rows) + f"\n\n{WHY}"


def own_targets() -> Iterator[dict[str, Any]]:
    """Import time and memory."""
    if (found := sections.result("start_up")) is not None:
        (ours,) = [row for row in found["imports"] if row["process"] == "import noisewise"]
        heavy = [name for name in ("matplotlib", "arviz", "numba") if name in ours["loaded"]]
        text = (
            f"{ours['seconds']:.2f} s, of which {1e3 * ours['beyond an empty process']:.0f} ms beyond an empty process; of matplotlib, "
            f"arviz and numba it loads {', '.join(heavy) or 'none'}"
        )
        met = ours["seconds"] < 2.0 and not heavy
        yield {"target": "`import noisewise` under 2 s, no heavier than needed", "met": met, "text": text}
    if (found := sections.result("memory")) is not None:
        growth, peaks, holds = found["growth"], found["peaks, in arrays"], found["holds"]
        yield {
            "target": "memory grows by at most 5% from round 5 to 20 of a million simulations",
            "met": holds["growth"],
            "text": ", ".join(f"{name} {value:+.1%}" for name, value in growth.items()),
        }
        for name, when in (("peak once compiled", "once programs are compiled"), ("peak", "with their compilation")):
            target = f"its peak over a tiny inference is at most 3 times the arrays of simulations, {when}"
            yield {"target": target, "met": holds[name], "text": f"{peaks[name]:.3g} times"}


def contest() -> str:
    """Time and simulations to an accuracy, and accuracy at a budget."""
    standings = Standings(stored())
    parts = [
        "## Head to head, epsilon 10",
        f"![C2ST against seconds and against simulations]({PICTURES}/head_to_head.png)",
        "Wall time and simulations until C2ST against the exact posterior is at most .60 and .55: median over seeds (range). *No* means "
        "that it was not reached within 15 minutes, or within 10,000 simulations by a method that learns.",
    ]
    for problem in PROBLEMS:
        parts.append(f"### On {NAMES[problem]}\n\n{reach_table(standings, problem)}")
        parts.append(
            f"C2ST with a given number of simulations (empty: stopped before, or not run):\n\n{budget_table(standings, problem)}"
        )
    return "\n\n".join(parts)


def reach_table(standings: Standings, problem: str) -> str:
    header = ["contender", "seeds", "threads tried"]
    header += [f"{what} to {level:.2f}" for level in LEVELS for what in MEASURES]
    header += ["C2ST at the end", "minutes"]
    rows = []
    for name in standings.contenders(problem):
        cells = standings.best(name, problem)
        row = [CONTENDERS[name].says, f"{len(cells)}", " and ".join(map(str, sorted(standings.threads(name, problem))))]
        row += [_spread(standings.reach(name, problem, what, level)) for level in LEVELS for what in MEASURES]
        ends = [cell["stages"][-1]["c2st"] for cell in cells if cell["stages"]]
        minutes = float(np.median([cell["seconds"] for cell in cells])) / 60.0
        stopped = {cell["ended"] for cell in cells} == {"limit"}
        row += [f"{np.median(ends):.3f}" if ends else "", f"> {LIMIT / 60:.0f}" if stopped else f"{minutes:.1f}"]
        rows.append(row)
    return markdown(header, rows)


def budget_table(standings: Standings, problem: str) -> str:
    rows = []
    for name in standings.contenders(problem):
        found = [standings.accuracy(name, problem, budget) for budget in BUDGETS]
        rows.append([CONTENDERS[name].says, *(_score(spread) for spread in found)])
    return markdown(["contender", *(f"{budget:,}" for budget in BUDGETS)], rows)


def _spread(spread: Spread | None) -> str:
    """The median and its range; *no* where most seeds did not get there."""
    if spread is None:
        return ""
    if math.isinf(spread.median):
        return "no"
    if spread.num == 1:
        return f"{spread.median:,.0f}"
    high = "no" if math.isinf(spread.high) else f"{spread.high:,.0f}"
    return f"{spread.median:,.0f} ({spread.low:,.0f} to {high})"


def _score(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{spread.median:.3f}" if spread.num == 1 else f"{spread.median:.3f} ({spread.low:.3f} to {spread.high:.3f})"


def lost() -> str:
    """Where a rival is ahead of a method of ours that it competes with."""
    standings = Standings(stored())
    compared, lines = 0, []
    for problem in PROBLEMS:
        names = standings.contenders(problem)
        for rival in (name for name in names if not CONTENDERS[name].ours):
            for mine in (name for name in PEERS[rival] if name in names):
                compared += 1
                lines += list(_ahead(standings, problem, rival, mine))
    if not compared:
        return ""
    none = "No contender measured here is ahead of a method of ours that it competes with."
    return "## Where a rival wins\n\n" + ("\n".join(lines) or none)


PEERS = {
    "sbi-npe": ("sppe", "cle"),
    "sbi-npe-paper": ("sppe", "sppe-atomic"),
    "sbi-nle": ("sple", "cle"),
    "sbi-nle-paper": ("sple", "cle"),
    "sbi-smc-abc": ("smc-abc",),
    "pyabc": ("smc-abc",),
    "pyabc-exact": ("exact-smc", "sppe", "cle"),
    "torch-sppe": ("sppe-atomic", "sppe"),
}
"""Which of ours a rival competes with."""


def _ahead(standings: Standings, problem: str, rival: str, mine: str) -> Iterator[str]:
    """Sentences on measures by which the rival is better."""
    theirs, ours = CONTENDERS[rival].says, CONTENDERS[mine].says
    a, b = (Spread.of(begins(cell) for cell in standings.best(name, problem)) for name in (rival, mine))
    if a.median < b.median:
        yield f"- On {NAMES[problem]}, seconds to a first answer, however good: {theirs} {_spread(a)}, {ours} {_spread(b)}."
    for level in LEVELS:
        for what in MEASURES:
            c, d = standings.reach(rival, problem, what, level), standings.reach(mine, problem, what, level)
            if c is not None and math.isfinite(c.median) and (d is None or c.median < d.median):
                yield f"- On {NAMES[problem]}, {what} to C2ST {level:.2f}: {theirs} {_spread(c)}, {ours} {_spread(d) or 'none'}."
    for budget in BUDGETS:
        e, f = standings.accuracy(rival, problem, budget), standings.accuracy(mine, problem, budget)
        if e is not None and (f is None or e.median < f.median):
            text = _score(f) or "has not begun or was not run"
            yield f"- On {NAMES[problem]}, C2ST with {budget:,} simulations: {theirs} {_score(e)}, {ours} {text}."


def circumstances() -> str:
    """How the contest was held, from the records of its cells."""
    cells = stored()
    if not cells:
        return ""
    versions = sorted({f"{name} {version}" for cell in cells for name, version in cell["versions"].items()})
    processors = sorted({cell["processor"].split(",")[0] for cell in cells})
    dates = sorted({cell["date"] for cell in cells})
    yardsticks = [cell["yardstick ms"] for cell in cells]
    sources = sorted({cell["noisewise"] for cell in cells if CONTENDERS[cell["contender"]].ours})
    shifts = sum(reached(cell, LEVELS[0]) != for_good(cell, LEVELS[0]) for cell in cells)
    return f"""## How

- A contender is run as its documentation shows, with its defaults, but: *paper's flow* has 8 spline layers of 2 x 50 units and 10 bins,
  batches of 100, patience 20, 10 atoms; our SPPE adds one noise at a time (`num_noise=1`), as `nw.infer` does where simulations are cheap;
  populations have 1000 particles, and ExactSMC ends at an effective size of 1000. Methods that learn do so in rounds of 1000 simulations up
  to 10,000, or in rounds of 10,000 up to {LARGE:,}; the better counts. sbi's truncated proposals (TSNPE) are not among the rivals.
- Each cell is a process of its own, bound to one core, or alone on both where it has two threads; cells of one thread run two at a time.
  Of one and two threads the faster counts. The clock starts when packages are imported and the problem is made; nothing that JAX compiles
  for a contender is there before, Numba's kernels are. It stands still while draws are scored. At 15 minutes it ends the cell.
- The simulators are the same in law. sbi and we call them in batches; pyABC, which simulates one data set at a time, calls the compiled
  kernel of SIR directly and a NumPy version of the regression, which is faster for one. ExactSMC moves record by record on the regression,
  which pyABC cannot; its simulations are sweeps over all records, counted as data sets.
- One observation per problem, the published one, and one set of exact draws: seeds vary the method alone. A stage is a round or a
  population; the first with C2ST at most .60 counts, for all alike. To count the first from which on it stays there changes {shifts} of
  {len(cells)} cells.
- {len(cells)} cells, {dates[0]} to {dates[-1]}, on {", ".join(processors)}, 2 cores; sorting a million numbers took {min(yardsticks):g} to
  {max(yardsticks):g} ms as they began. {", ".join(versions)}; noisewise sources {", ".join(sources)}."""


@styled
def head_to_head(standings: Standings) -> Figure:
    """C2ST against seconds and simulations, one line per contender: the seed whose time to the end is the median."""
    figure, axes = plt.subplots(len(PROBLEMS), 2, figsize=(9.5, 3.3 * len(PROBLEMS)), sharey=True)
    names = [name for name in CONTENDERS if any(name in standings.contenders(problem) for problem in PROBLEMS)]
    look = looks(names)
    for row, problem in zip(axes, PROBLEMS, strict=True):
        for name in standings.contenders(problem):
            stages = _typical(standings.best(name, problem))
            style = {**look[name], "linewidth": 2.0 if CONTENDERS[name].ours else 1.1}
            for ax, what in zip(row, ("seconds", "simulations"), strict=True):
                ax.plot([s[what] for s in stages], [s["c2st"] for s in stages], **style, label=CONTENDERS[name].says)
        _dress(row, problem)
    handles = {text: handle for ax in axes.flat for handle, text in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(5, len(handles)))
    return figure


def _typical(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stages of the cell with the median score at its end."""
    told = sorted((cell for cell in cells if cell["stages"]), key=lambda cell: cell["stages"][-1]["c2st"])
    return list(told[len(told) // 2]["stages"]) if told else []


def _dress(row: Any, problem: str) -> None:
    for ax, what in zip(row, ("seconds", "simulations"), strict=True):
        for level in LEVELS:
            ax.axhline(level, color="0.6", linewidth=0.7, zorder=0)
        ax.set(xscale="log", xlabel=what, ylim=(0.47, 1.01))
    row[0].axvline(LIMIT, color="0.6", linewidth=0.7, linestyle=":", zorder=0)
    row[0].set_ylabel(f"{NAMES[problem]}: C2ST")


if __name__ == "__main__":
    main()
