"""The page of the benchmarks, `docs/benchmarks.md` and its pictures, from the JSON files under benchmarks/results/: no number is typed.

python -m benchmarks.page
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.contenders import CONTENDERS
from benchmarks.contest import LARGE, LIMIT, PROBLEMS, STORE, stored
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

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs"
PICTURES = "benchmarks"


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
    sections = (targets, contest, lost, circumstances, speed, start, memory, scaling, gpu)
    return "\n\n".join(["# Benchmarks", INTRODUCTION, *(text for section in sections if (text := section()))]) + "\n"


def figures() -> Iterator[tuple[str, Figure]]:
    """Every picture that there are numbers for."""
    if STORE.exists():
        yield "head_to_head", head_to_head(Standings(stored()))
    if (found := result("scaling")) is not None:
        yield "scaling", scaling_figure(found)
    if (gpu_found := _json("gpu")) is not None and "throughput" in gpu_found:
        yield "gpu", gpu_figure(gpu_found["throughput"])


def result(name: str) -> Any:
    """What a part measured; None where it has not been run."""
    found = _json(name)
    return None if found is None else found["result"]


def _json(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


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
    if (found := result("start_up")) is not None:
        (ours,) = [row for row in found["imports"] if row["process"] == "import noisewise"]
        heavy = [name for name in ("matplotlib", "arviz", "numba") if name in ours["loaded"]]
        text = (
            f"{ours['seconds']:.2f} s, of which {1e3 * ours['beyond an empty process']:.0f} ms beyond an empty process; of matplotlib, "
            f"arviz and numba it loads {', '.join(heavy) or 'none'}"
        )
        met = ours["seconds"] < 2.0 and not heavy
        yield {"target": "`import noisewise` under 2 s, no heavier than needed", "met": met, "text": text}
    if (found := result("memory")) is not None:
        yield {
            "target": "memory grows by at most 5% from round 5 to 20 of a million simulations",
            "met": found["growth of all memory holds"],
            "text": f"{found['growth of all memory']:+.1%}",
        }
        text = (
            f"{found['trend beyond the kept arrays']:+.1%} (trend; spread {found['spread beyond the kept arrays']:.1%})"
        )
        met = found["trend beyond the kept arrays holds"]
        yield {"target": "the same beyond the simulations that are kept, which grow fourfold", "met": met, "text": text}
        peaks = found["over baseline, in kept arrays"]
        yield {
            "target": "its peak, over a tiny inference, is at most 3 times the arrays",
            "met": found["holds"]["peak MB"],
            "text": f"{peaks['peak MB']:.2g} times",
        }
        text = f"{peaks['peak once compiled MB']:.2g} times"
        yield {
            "target": "the same once programs are compiled",
            "met": found["holds"]["peak once compiled MB"],
            "text": text,
        }


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


# Parts -----------------------------------------------------------------------------------------------------------------


def speed() -> str:
    """Optimiser steps, simulators, point sets, quantiles, exact methods."""
    parts = ["## Parts"]
    if (found := result("neural_speed")) is not None:
        rows = []
        for name, made in found.items():
            for who, ms in made["ms"].items():
                times = made["times slower"].get(who)
                rows.append(
                    [
                        f"{name} ({made['targets']} targets, {made['conditions']} conditions)",
                        who,
                        _median(ms),
                        _median(times),
                    ]
                )
        parts.append(
            "An optimiser step of the paper's flow, batch 100, in turns; ours includes validation after every epoch (target: 10 times).\n\n"
            + markdown(["data", "who", "ms", "times slower than noisewise"], rows)
        )
    rows = [
        *_pair("point_sets", "1000 nets of 32 x 10, ms"),
        *_pair("mechanisms", "320,000 binomial quantiles, ms"),
        *_epidemics(),
    ]
    if rows:
        parts.append(markdown(["what", "noisewise", "other", "times", "target"], rows))
    if (found := result("inference")) is not None:
        rows = [
            [made["method"], *(_median(made[name]) for name in ("simulations", "seconds", "c2st", "mmd^2"))]
            for made in found["epidemics"]
        ]
        parts.append(
            "SIR at epsilon 10, in one process:\n\n"
            + markdown(["method", "simulations", "seconds", "C2ST", "MMD^2"], rows)
        )
        made = found["interweaving"]
        parts.append(
            f"DA-MCMC on the regression at epsilon .1: {_median(made['effective draws per second'])} effective draws per second, "
            f"{_median(made['without interweaving'])} without interweaving: {_median(made['times better'])} times."
        )
    return "\n\n".join(parts) if len(parts) > 1 else ""


def _pair(name: str, says: str) -> Iterator[list[str]]:
    found = result(name)
    if found is not None:
        found = found.get("throughput", found)
        other = f"scipy {_median(found['scipy ms'])}"
        yield [
            says,
            _median(found["noisewise ms"]),
            other,
            _median(found["times faster"]),
            f"{found.get('target', '')}",
        ]


def _epidemics() -> Iterator[list[str]]:
    found = result("sir")
    if found is None:
        return
    leaps, events = found["leaps"], found["events"]
    other = f"Gillespie {_median(leaps['gillespie ms'])}"
    yield [
        "an epidemic by leaps, ms",
        _median(leaps["leap ms"]),
        other,
        _median(leaps["times faster"]),
        f"{leaps['target']}",
    ]
    if "ratio" in events:
        other = f"C -O3 {_median(events['C -O3 ns'])}"
        yield [
            "an event by Gillespie, ns",
            _median(events["numba ns"]),
            other,
            f"{_median(events['ratio'])} of C",
            "1.5",
        ]


def _median(value: Any) -> str:
    """A median with its range."""
    if value is None:
        return ""
    return f"{_digits(value['median'])} ({_digits(value['low'])} to {_digits(value['high'])})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def start() -> str:
    """Imports and first posteriors."""
    found = result("start_up")
    if found is None:
        return ""
    rows = [
        [
            f"`{row['process']}`" if row["process"] != "pass" else "nothing",
            f"{row['seconds']:.2f} ({row['least']:.2f} to {row['most']:.2f})",
            f"{row['peak MB']}",
            ", ".join(row["loaded"]),
        ]
        for row in found["imports"]
    ]
    first = [
        [
            row["use"],
            f"{row['seconds']:.1f} ({row['least']:.1f} to {row['most']:.1f})",
            f"{row['imports']:.1f}",
            f"{row['peak MB']}",
        ]
        for row in found["first posterior"]
    ]
    return (
        "## From nothing\n\n"
        + markdown(["process", "seconds", "peak MB", "loaded"], rows)
        + "\n\nFrom the start of a process to the printed summary of its first posterior, nothing compiled before:\n\n"
        + markdown(["use", "seconds", "of these imports", "peak MB"], first)
    )


def memory() -> str:
    """Twenty rounds, a million simulations."""
    found = result("memory")
    if found is None:
        return ""
    chosen = [found["rounds"][i] for i in (0, 4, 9, 14, 19)]
    rows = [
        [
            f"{row['simulations']:,}",
            f"{row['in use MB']:.0f}",
            f"{row['kept MB']:.0f}",
            f"{row['in use MB'] - row['kept MB']:.0f}",
        ]
        for row in chosen
    ]
    over, padded = found["over baseline, in kept arrays"], found["over baseline, in kept and padded arrays"]
    return (
        "## Memory\n\nSPPE in 20 rounds of 50,000 simulations, hardly any training. A tiny inference leaves "
        f"{found['baseline MB']:.0f} MB. In use is what is resident once the allocator has given back what is free.\n\n"
        + markdown(["simulations", "MB in use", "MB of simulations kept", "MB beyond them"], rows)
        + f"\n\nFrom round 5 to 20 resident memory changes by {found['growth of all memory']:+.1%}, though four times as many simulations "
        f"are kept; beyond them the trend is {found['trend beyond the kept arrays']:+.1%}, with a spread of "
        f"{found['spread beyond the kept arrays']:.1%} between rounds. The peak above a tiny inference is "
        f"{over['peak once compiled MB']:.2g} times the simulations ({over['peak MB']:.2g} while the first rounds compile), "
        f"{padded['peak once compiled MB']:.2g} times these and the padded copy that training takes."
    )


_STATISTICS = {"step": "an optimiser step", "inference": "SPPE, 500 simulations, hardly any training"}


def scaling() -> str:
    """Exponents of the cost."""
    found = result("scaling")
    if found is None:
        return ""
    columns = _swept(found["columns of s"])
    rows = [
        [
            "a simulation",
            "records n",
            _range(found["records"]["rows"], "n"),
            f"{found['records']['exponent at the end']:.2f} at the end",
        ],
        [
            "SPPE, 400 simulations, hardly any training",
            "records n",
            _range(found["whole inference against records"]["rows"], "n"),
            f"{found['whole inference against records']['exponent'] or 0.0:.2f}",
        ],
        *(
            [_STATISTICS.get(name, name), "columns of s", _range(made["rows"], "k"), f"{made['exponent']:.2f}"]
            for name, made in columns.items()
        ),
        [
            "a round of 200 simulations, 20 epochs over all so far",
            "rounds",
            _range(found["rounds"]["rows"][1:], "round"),
            f"{found['rounds']['exponent, from round 2']:.2f}",
        ],
    ]
    return (
        f"## Cost against size\n\n![Seconds against records, columns and rounds]({PICTURES}/scaling.png)\n\n"
        + markdown(["cost of", "against", "seconds, from smallest to largest", "exponent"], rows)
    )


def _swept(parts: dict[str, Any]) -> dict[str, Any]:
    """Those parts that are sweeps."""
    return {name: part for name, part in parts.items() if isinstance(part, dict)}


def _range(rows: list[dict[str, Any]], size: str) -> str:
    first, last = rows[0], rows[-1]
    return f"{first['seconds']:.2g} at {first[size]:,} to {last['seconds']:.2g} at {last[size]:,}"


@styled
def scaling_figure(found: dict[str, Any]) -> Figure:
    """Three panels on logarithmic axes."""
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.0))
    panels: tuple[tuple[Axes, str, str, dict[str, Any]], ...] = (
        (
            axes[0],
            "n",
            "records n",
            {"a simulation": found["records"], "SPPE, 400 simulations": found["whole inference against records"]},
        ),
        (axes[1], "k", "columns of s", _swept(found["columns of s"])),
        (axes[2], "round", "round", {"a round of 200": found["rounds"]}),
    )
    for ax, size, says, curves in panels:
        look = looks(curves)
        for name, made in curves.items():
            ax.plot(
                [row[size] for row in made["rows"]], [row["seconds"] for row in made["rows"]], **look[name], label=name
            )
        ax.set(xscale="log", yscale="log", xlabel=says)
        ax.legend()
    axes[2].set(xscale="linear", yscale="linear", ylim=(0.0, None))
    axes[0].set_ylabel("seconds")
    return figure


# The GPU ---------------------------------------------------------------------------------------------------------------


def gpu() -> str:
    """One page measured on a GPU by the same script that runs on a CPU."""
    found = _json("gpu")
    if found is None:
        return ""
    parts = ["## On a GPU", f"`python -m benchmarks.gpu` on one {next(iter(found.values()))['device']}."]
    if "throughput" in found:
        rows = [
            [
                f"{row['batch']:,}",
                f"{row['ms']:.2f} ({row['least']:.2f} to {row['most']:.2f})",
                f"{row['pairs per second']:,}",
            ]
            for row in found["throughput"]["rows"]
        ]
        parts.append(
            f"Training the 8-layer flow (2 targets, 10 conditions):\n\n{markdown(['batch', 'ms per step', 'pairs per second'], rows)}"
        )
        parts.append(f"![Pairs per second against the batch]({PICTURES}/gpu.png)")
    scores = found.get("score", {})
    if "trials" in found:
        parts.append(_trials(found["trials"], scores.get("trials")))
    if "exact_smc" in found:
        parts.append(_particles(found["exact_smc"], scores.get("exact_smc")))
    return "\n\n".join(parts)


def _trials(made: dict[str, Any], score: Any) -> str:
    done, asked = len(made["rounds"]), made["rounds asked for"]
    seconds, simulations = made["rounds"][-1]["seconds"], made["simulations per round"]
    text = (
        f"{made['trials']} trials of SPPE at once on SIR at epsilon 10 (atomic loss, 10 atoms, M = 32, 8 layers, {simulations:,} "
        f"simulations a round): {done} of {asked} rounds in {seconds:.0f} s, compilation included, {seconds / made['trials']:.0f} s a trial"
    )
    if score:
        text += f"; C2ST {score['median']:.3f} (median; {min(score['c2st']):.3f} to {max(score['c2st']):.3f})"
    return text + "."


def _particles(made: dict[str, Any], score: Any) -> str:
    last = made["stages"][-1]
    ended = (
        "to the end"
        if made["exact"]
        else f"not ended, at power {last.get('temperature', 0.0):.2g} of the mechanism's density"
    )
    text = (
        f"ExactSMC with {made['particles']:,} particles on SIR at epsilon 10: {last['simulations']:,} simulations in "
        f"{last['seconds']:.0f} s, {ended}"
    )
    if score:
        text += f"; C2ST {score['median']:.3f}"
    return text + "."


@styled
def gpu_figure(found: dict[str, Any]) -> Figure:
    figure, ax = plt.subplots(figsize=(4.5, 3.0))
    rows = found["rows"]
    ax.plot([row["batch"] for row in rows], [row["pairs per second"] for row in rows], **looks(["pairs"])["pairs"])
    ax.set(xscale="log", yscale="log", xlabel="batch", ylabel="training pairs per second")
    return figure


if __name__ == "__main__":
    main()
