"""The page of the benchmarks, `docs/benchmarks.md` and its pictures, from the JSON files under
benchmarks/results/: no number is typed.

python -m benchmarks.page
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from benchmarks import gpu_section, known_laws, many_cells_section, sections
from benchmarks.contenders import CONTENDERS
from benchmarks.contest import LARGE, LIMIT, MOST, NUM_DRAWS, PROBLEMS, STORE, stored
from benchmarks.contest_tables import contest, lost, typical
from benchmarks.headline import in_short, targets
from benchmarks.sections import PICTURES
from benchmarks.standings import LEVELS, NAMES, Standings, for_good, reached
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
    standings = Standings(stored())
    picture = f"![C2ST against seconds and against simulations]({PICTURES}/head_to_head.png)"
    parts = (
        "# Benchmarks",
        INTRODUCTION,
        in_short(standings),
        f"{picture}\n\n{CAPTION}",
        targets(standings),
        contest(standings),
        lost(standings),
        circumstances(),
        *(section() for section in (*sections.ALL, many_cells_section.many_cells, gpu_section.gpu)),
        known_laws.section(sections.result("known_laws")),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def figures() -> Iterator[tuple[str, Figure]]:
    """Every picture that there are numbers for."""
    if STORE.exists():
        yield "head_to_head", head_to_head(Standings(stored()))
    if (found := sections.result("scaling")) is not None:
        yield "scaling", sections.scaling_figure(found)
    if (gpu_found := sections.stored_json("gpu")) is not None and "throughput" in gpu_found:
        yield "gpu", gpu_section.gpu_figure(gpu_found["throughput"])


INTRODUCTION = """noisewise beside sbi, pyABC and a version in PyTorch: the same problems, simulators and machine. Accuracy is C2ST, how often a
classifier tells draws from those of the *exact* posterior: 0.5 is perfect, with a standard deviation of .011 by chance. That
of SIR is exact in the limit of a large population: with a million people it moves means by .01 posterior sds at most. The numbers
come from [`benchmarks/results/`](../benchmarks/results/); `make bench` measures them again and writes this page (45 minutes)."""

CAPTION = """*C2ST (lower is better) against seconds, left, and against simulations, right, at epsilon 10: the seed with the median score at the
end. Thick lines: noisewise.*"""


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
    return f"""## How it was measured

- **Settings.** Each contender runs as its documentation shows, with its defaults. Exceptions: *paper's flow* has 8 spline layers of
  2 x 50 units and 10 bins, batches of 100, patience 20 and 10 atoms. SPPE adds one noise at a time (`num_noise=1`), as `nw.infer` does where
  simulations are cheap. Populations have 1000 particles, and ExactSMC ends at an effective size of 1000. Methods that learn do so in
  rounds of 1000 simulations up to {MOST:,}, or of 10,000 up to {LARGE:,}; the better one counts.
- **Not among the rivals**: sbi's truncated proposals (TSNPE), which users put together from parts. NPE-C is closest to our SPPE with the
  paper's atomic loss.
- **Processes.** Each cell (contender, problem, seed, threads) is a process of its own, on one core or alone on both. Two cells of one
  thread run at a time. The faster of one and two threads counts; where two threads are slower on a first seed, the other seeds are left out.
- **The clock** starts when packages are imported and the problem is made. JAX has compiled nothing by then; Numba's kernels are
  compiled. It stands still while draws are scored, and at {LIMIT / 60:.0f} minutes it ends the cell.
- **Scoring.** Weighted populations of rivals are scored by as many draws as they are worth, at most {NUM_DRAWS:,}. A stage is a round or a
  population, and the first one with C2ST at most {LEVELS[0]:.2f} counts. Counting the first stage from which on C2ST stays there would
  change {shifts} of {len(cells)} cells.
- **Simulators** have the same distribution. sbi and noisewise call them in batches. pyABC simulates one data set at a time: it calls the
  compiled kernel of SIR and, on the regression, a NumPy version that is faster for one. ExactSMC moves record by record on the regression,
  which pyABC cannot do; a sweep over all records counts as one simulation.
- **One observation** per problem, the published one, and one set of exact draws: seeds vary the method alone.
- **When and where.** {len(cells)} cells, {dates[0]} to {dates[-1]}, {", ".join(processors)}, at most {max(cell["threads"] for cell in cells)} cores;
  sorting a million numbers took {min(yardsticks):g} to {max(yardsticks):g} ms at their start. {", ".join(versions)}; noisewise sources
  {", ".join(sources)}. `make bench-quick` measures noisewise alone (5 minutes), `python -m benchmarks.history` compares two runs."""


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
            stages = typical(standings.best(name, problem))
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
