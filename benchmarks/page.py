"""The page of the benchmarks, `docs/benchmarks.md` and its pictures, from the JSON files under
benchmarks/results/: no number is typed.

python -m benchmarks.page
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from benchmarks import sections
from benchmarks.contenders import CONTENDERS
from benchmarks.contest import LARGE, LIMIT, MOST, NUM_DRAWS, PROBLEMS, STORE, stored
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
    return (
        "\n\n".join(["# Benchmarks", INTRODUCTION, *(text for part in parts if (text := part()))])
        + "\n"
    )


def figures() -> Iterator[tuple[str, Figure]]:
    """Every picture that there are numbers for."""
    if STORE.exists():
        yield "head_to_head", head_to_head(Standings(stored()))
    if (found := sections.result("scaling")) is not None:
        yield "scaling", sections.scaling_figure(found)
    if (gpu_found := sections.stored_json("gpu")) is not None and "throughput" in gpu_found:
        yield "gpu", sections.gpu_figure(gpu_found["throughput"])


INTRODUCTION = """How accurate and how fast noisewise is beside the tools one would use instead, on the same machine, with the same
simulators. Accuracy is C2ST against draws of the *exact* posterior (1000 against 1000: .5 is perfect; the sd of 2000 fair coins is .011).
Every number on this page comes from `benchmarks/results/`; `make bench` measures and writes the page (45 minutes; it goes on where it was
stopped), `make bench-quick` measures noisewise alone (5 minutes), and `python -m benchmarks.history` compares the last two runs. Elsewhere:
`estimators.md` (accuracy of every method at the paper's budget, nested noise), `calibration.md`, `reproduction.md`."""


REFUSED = """CLE needs a density of the statistics given theta; those of SIR are 0 in every epidemic that dies out at once. What
can be learnt there is the law of the statistics blurred by the least private of the mechanisms in question; with one mechanism that is what
SPLE learns, which stands in for it."""

MEMORY = """In memory there are, beside the arrays and the copy that training takes, its temporaries (all rows are shuffled in every epoch)
and what compilers took, which the allocator keeps."""

BOUND = """*> x times*: the rival was stopped before it got there, so that the ratio is larger than x, and nobody knows by how much."""


def why(rows: list[dict[str, Any]]) -> str:
    """Why targets are missed, with the profile of CLE where it is one of them; nothing where none
    is.
    """
    missed = [row for row in rows if not row["met"]]
    about = lambda *words: any(all(word in row["target"] for word in words) for row in missed)  # noqa: E731
    reasons = [REFUSED] * about("CLE", NAMES["sir"])
    reasons += [profile()] * about("CLE", NAMES["linear_regression"], "seconds")
    reasons += [MEMORY] * about("its peak")
    reasons += [BOUND] * any(row["text"].startswith(">") for row in missed)
    return " ".join(["Why targets are missed.", *filter(None, reasons)]) if missed else ""


def profile() -> str:
    """What a first inference by CLE spends its time on."""
    found = sections.result("first_inference")
    slow = next((row for row in (found or {"rows": []})["rows"] if row["contender"] == "cle"), None)
    if slow is None:
        return ""
    return (
        f"Of the {slow['first s']:.0f} seconds of CLE to a first posterior"
        f" {slow['first s'] - slow['second s']:.0f} are spent on programs that a second inference"
        " in the same process finds compiled (*Where the seconds go*, below)."
    )


CAPTION = """*Accuracy (C2ST against the exact posterior, lower is better) after so many seconds, left, and simulations, right, at epsilon
10: the seed with the median score at the end. Thick lines: noisewise.*"""

PROBLEMS_ARE = """The problems are the paper's. *Regression*: 3 parameters, 100 records, 9 means of clamped products with Laplace noise.
*SIR*: 2 parameters, the infected of an epidemic at 10 times, each released as a padded binomial count. Exact posteriors are noisewise's
own (`problems`), checked against independent numbers in the tests; C2ST follows the recipe of sbibm."""


# Head to head -------------------------------------------------------------------------------------


def targets() -> str:
    """The targets, with what was measured."""
    found = [*verdicts(Standings(stored())), *own_targets()]
    words = {True: "met", False: "**missed**", None: "**not shown**"}
    rows = [[row["target"], row["asked"], row["text"], words[row["met"]]] for row in found]
    picture = f"![C2ST against seconds and against simulations]({PICTURES}/head_to_head.png)"
    table = markdown(
        ["what", "asked of the rival", "what it needs, in ours (range over pairs of seeds)", ""],
        rows,
    )
    return f"## In short\n\n{picture}\n\n{CAPTION}\n\n{table}\n\n{why(found)}".rstrip()


def own_targets() -> Iterator[dict[str, Any]]:
    """Import time and memory."""
    if (found := sections.result("start_up")) is not None:
        (ours,) = [row for row in found["imports"] if row["process"] == "import noisewise"]
        heavy = [name for name in ("matplotlib", "arviz", "numba") if name in ours["loaded"]]
        method = {row["process"]: row["seconds"] for row in found["imports"]}
        line, theirs = (
            "from noisewise.inference import PrivatePosteriorEstimation",
            "from sbi.inference import NPE",
        )
        text = (
            f"{ours['seconds']:.2f} s ({1e3 * ours['beyond an empty process']:.0f} ms beyond an"
            " empty process), without"
            f" {'matplotlib, arviz and numba' if not heavy else 'all but ' + ', '.join(heavy)};"
            f" with a method {method[line]:.2g} s"
        )
        text += f" (sbi's NPE {method[theirs]:.2g} s)" if theirs in method else ""
        met = ours["seconds"] < 2.0 and not heavy
        yield {
            "target": "`import noisewise`",
            "asked": "under 2 s, no heavier than needed",
            "met": met,
            "text": text,
        }
    if (found := sections.result("memory")) is not None:
        growth, peaks, holds = found["growth"], found["peaks, in arrays"], found["holds"]
        yield {
            "target": "growth of memory from round 5 to 20 of a million simulations",
            "asked": "at most 5%",
            "met": holds["growth"],
            "text": ", ".join(f"{name} {value:+.1%}" for name, value in growth.items()),
        }
        for name, what in (
            ("peak", "as it is"),
            ("peak without compilers", "without what compilers took"),
        ):
            target = f"its peak over a tiny inference, {what}"
            asked = "at most 3 times the arrays of simulations"
            yield {
                "target": target,
                "asked": asked,
                "met": holds[name],
                "text": f"{peaks[name]:.3g} times",
            }


def contest() -> str:
    """Time and simulations to an accuracy, and accuracy at a budget."""
    standings = Standings(stored())
    parts = [
        "## Head to head, epsilon 10",
        PROBLEMS_ARE,
        (
            "Wall time and simulations until C2ST against the exact posterior is at most .60 and"
            f" .55: median over seeds (range). *No*: not within {LIMIT / 60:.0f} minutes or, by a"
            f" method that learns, within {MOST:,} simulations, whichever came first."
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
    header = ["contender", "seeds", "threads tried"]
    header += [f"{what} to {level:.2f}" for level in LEVELS for what in MEASURES]
    header += ["C2ST at the end", "seconds to a first answer", "minutes in all", "peak MB"]
    rows = []
    for name in standings.contenders(problem):
        cells = standings.best(name, problem)
        row = [
            CONTENDERS[name].says,
            f"{len(cells)}",
            " and ".join(map(str, sorted(standings.threads(name, problem)))),
        ]
        row += [
            _spread(standings.reach(name, problem, what, level))
            for level in LEVELS
            for what in MEASURES
        ]
        ends = [cell["stages"][-1]["c2st"] for cell in cells if cell["stages"]]
        minutes = float(np.median([cell["seconds"] for cell in cells])) / 60.0
        stopped = {cell["ended"] for cell in cells} == {"limit"}
        row += [
            f"{np.median(ends):.3f}" if ends else "",
            _spread(Spread.of(begins(cell) for cell in cells)),
        ]
        row += [f"> {LIMIT / 60:.0f}" if stopped else f"{minutes:.1f}"]
        row.append(f"{np.median([cell['peak MiB'] for cell in cells]) * 1.048576:,.0f}")
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
    return (
        f"{spread.median:.3f}"
        if spread.num == 1
        else f"{spread.median:.3f} ({spread.low:.3f} to {spread.high:.3f})"
    )


def lost() -> str:
    """Where a rival is ahead of any method of ours that was measured by the same."""
    standings = Standings(stored())
    rows = []
    for problem in PROBLEMS:
        names = standings.contenders(problem)
        mine = [name for name in names if CONTENDERS[name].ours]
        for rival in (name for name in names if not CONTENDERS[name].ours):
            for what, shown, values in _measures(standings, problem, [rival, *mine]):
                theirs, *ours = values
                if theirs is None or math.isinf(theirs.median):
                    continue
                behind = [
                    (n, v)
                    for n, v in zip(mine, ours, strict=True)
                    if v is not None and v.median > theirs.median
                ]
                if behind:
                    text = "; ".join(
                        f"{CONTENDERS[name].says} {shown(value)}" for name, value in behind
                    )
                    rows.append(
                        [
                            f"{NAMES[problem]}: {what}",
                            f"{CONTENDERS[rival].says} {shown(theirs)}",
                            text,
                        ]
                    )
    if not rows:
        return ""
    said = (
        "Every measure by which a rival is ahead of one of our methods, though another of ours may"
        " be ahead of both."
    )
    return f"## Where a rival wins\n\n{said}\n\n" + markdown(
        ["measure", "rival", "ours behind it"], rows
    )


Shown = Callable[[Spread | None], str]


def _measures(
    standings: Standings, problem: str, names: list[str]
) -> Iterator[tuple[str, Shown, list[Spread | None]]]:
    """Each measure, how it is printed, and its value for each contender."""
    first = [Spread.of(begins(cell) for cell in standings.best(name, problem)) for name in names]
    yield "seconds to a first answer, however good", _spread, list(first)
    for level in LEVELS:
        for what in MEASURES:
            yield (
                f"{what} to {level:.2f}",
                _spread,
                [standings.reach(name, problem, what, level) for name in names],
            )
    for budget in BUDGETS:
        found = [standings.accuracy(name, problem, budget) for name in names]
        yield f"C2ST with {budget:,} simulations", _score, found


def circumstances() -> str:
    """How the contest was held, from the records of its cells."""
    cells = stored()
    if not cells:
        return ""
    versions = sorted(
        {f"{name} {version}" for cell in cells for name, version in cell["versions"].items()}
    )
    processors = sorted({cell["processor"].split(",")[0] for cell in cells})
    dates = sorted({cell["date"] for cell in cells})
    yardsticks = [cell["yardstick ms"] for cell in cells]
    sources = sorted({cell["noisewise"] for cell in cells if CONTENDERS[cell["contender"]].ours})
    shifts = sum(reached(cell, LEVELS[0]) != for_good(cell, LEVELS[0]) for cell in cells)
    return f"""## How

- A contender is run as its documentation shows, with its defaults, but: *paper's flow* has 8 spline layers of 2 x 50 units and 10 bins,
  batches of 100, patience 20, 10 atoms; our SPPE adds one noise at a time (`num_noise=1`), as `nw.infer` does where simulations are cheap;
  populations have 1000 particles, and ExactSMC ends at an effective size of 1000. Methods that learn do so in rounds of 1000 simulations up
  to {MOST:,}, or in rounds of 10,000 up to {LARGE:,}; the better counts. sbi's truncated proposals (TSNPE), which its
  user puts together from parts, are not among the rivals; our SPPE with the paper's atomic loss is closest to NPE-C.
- Each cell is a process of its own, bound to one core, or alone on both where it has two threads; cells of one thread run two at a time.
  Of one and two threads the faster counts; where the second is slower on a first seed, the other seeds are left out. The clock starts when
  packages are imported and the problem is made; nothing that JAX compiles for a contender is there before, Numba's kernels are. It stands
  still while draws are scored. At {LIMIT / 60:.0f} minutes it ends the cell. Weighted populations of rivals are scored by as many draws as
  they are worth, at most {NUM_DRAWS:,}: copies would give them away.
- The simulators are the same in law. sbi and we call them in batches; pyABC, which simulates one data set at a time, calls the compiled
  kernel of SIR directly and a NumPy version of the regression, which is faster for one. ExactSMC moves record by record on the regression,
  which pyABC cannot; its simulations are sweeps over all records, counted as data sets.
- One observation per problem, the published one, and one set of exact draws: seeds vary the method alone. A stage is a round or a
  population; the first with C2ST at most {LEVELS[0]:.2f} counts, for all alike. To count the first from which on it stays there changes
  {shifts} of {len(cells)} cells.
- {len(cells)} cells, {dates[0]} to {dates[-1]}, on {", ".join(processors)}, at most {max(cell["threads"] for cell in cells)} cores;
  sorting a million numbers took {min(yardsticks):g} to {max(yardsticks):g} ms as they began. {", ".join(versions)}; noisewise sources
  {", ".join(sources)}."""


@styled
def head_to_head(standings: Standings) -> Figure:
    """C2ST against seconds and simulations, one line per contender: the seed whose score at the end
    is the median.
    """
    figure, axes = plt.subplots(len(PROBLEMS), 2, figsize=(9.5, 3.3 * len(PROBLEMS)), sharey=True)
    names = [
        name
        for name in CONTENDERS
        if any(name in standings.contenders(problem) for problem in PROBLEMS)
    ]
    look = looks(names)
    for row, problem in zip(axes, PROBLEMS, strict=True):
        for name in standings.contenders(problem):
            stages = _typical(standings.best(name, problem))
            style = {**look[name], "linewidth": 2.0 if CONTENDERS[name].ours else 1.1}
            for ax, what in zip(row, ("seconds", "simulations"), strict=True):
                ax.plot(
                    [s[what] for s in stages],
                    [s["c2st"] for s in stages],
                    **style,
                    label=CONTENDERS[name].says,
                )
        _dress(row, problem)
    handles = {
        text: handle
        for ax in axes.flat
        for handle, text in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=min(5, len(handles))
    )
    return figure


def _typical(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stages of the cell with the median score at its end."""
    told = sorted(
        (cell for cell in cells if cell["stages"]), key=lambda cell: cell["stages"][-1]["c2st"]
    )
    return list(told[len(told) // 2]["stages"]) if told else []


def _dress(row: Any, problem: str) -> None:
    for ax, what in zip(row, ("seconds", "simulations"), strict=True):
        for level in LEVELS:
            ax.axhline(level, color="0.6", linewidth=0.7, zorder=0)
        ax.set(xscale="log", xlabel=what, ylim=(0.47, 1.01))
    row[0].axvline(LIMIT, color="0.6", linewidth=0.7, linestyle=":", zorder=0)
    row[0].annotate(
        "15 min",
        (LIMIT, 1.0),
        xytext=(-3, -2),
        textcoords="offset points",
        ha="right",
        va="top",
        color="0.5",
    )
    for level in LEVELS:
        row[1].annotate(
            f"{level:.2f}",
            (1.0, level),
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            **_SMALL,
        )
    row[0].set_ylabel(f"{NAMES[problem]}: C2ST")


_SMALL: dict[str, Any] = {
    "textcoords": "offset points",
    "va": "center",
    "color": "0.5",
    "fontsize": "small",
}


if __name__ == "__main__":
    main()
