"""What learnt estimators cost and how right they are: a picture and a table from runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.runner import Run

CONTENDERS = {
    "cle": ("CLE", "#0b6e4f", "o"),
    "sple": ("SPLE", "#1f77b4", "o"),
    "sppe": ("SPPE", "#8e44ad", "o"),
    "sbi-nle": ("sbi NLE", "#d62728", "^"),
    "sbi-snle": ("sbi NLE, 5 rounds", "#ff7f0e", "^"),
    "sbi-npe": ("sbi NPE", "#7f7f7f", "s"),
    "sbi-npe-c": ("sbi NPE-C, 5 rounds", "#444444", "s"),
    "sbi-fmpe": ("sbi flow matching", "#c49c2a", "D"),
}
"""Name, colour and marker of each; ours are filled circles."""
COLUMNS = 5
"""Panels beside each other."""
LOWEST, HIGHEST = 0.47, 0.77
"""The edges of all panels: below the one lies only chance, and what is above the other stands at
it."""


def means(records: Sequence[Run]) -> dict[tuple[str, str], dict[str, float]]:
    """C2ST and CPU seconds of each problem and method with its defaults, over seeds."""
    cells: dict[tuple[str, str], list[Run]] = {}
    for record in records:
        if "failed" not in record and not set(record["settings"]) - {"num_rounds"}:
            cells.setdefault((record["problem"], record["method"]), []).append(record)
    return {
        key: {
            "c2st": float(np.mean([run["c2st"] for run in runs])),
            "seconds": float(np.mean([run["cpu seconds"] for run in runs])),
            "shift": float(np.mean([run["shift max"] for run in runs])),
            "seeds": len(runs),
        }
        for key, runs in cells.items()
    }


def best(
    found: dict[tuple[str, str], dict[str, float]], problem: str, methods: Sequence[str]
) -> tuple[str, dict[str, float]]:
    """The most accurate of some methods on a problem."""
    there = {name: found[problem, name] for name in methods if (problem, name) in found}
    name = min(there, key=lambda method: there[method]["c2st"])
    return name, there[name]


def markdown(records: Sequence[Run], problems: Sequence[str]) -> str:
    """A table, problem by problem: ours, the most accurate of sbi, and how much longer it took."""
    found = means(records)
    rivals = [name for name in CONTENDERS if name.startswith("sbi")]
    lines = [
        "| problem | CLE | SPLE | SPPE | sbi's most accurate | its seconds over those of the better"
        " of CLE and SPLE |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for problem in problems:
        ours = [_cell(found.get((problem, name))) for name in ("cle", "sple", "sppe")]
        _, better = best(found, problem, ("cle", "sple"))
        name, rival = best(found, problem, rivals)
        said = f"{CONTENDERS[name][0].removeprefix('sbi ')} {_cell(rival)}"
        ratio = rival["seconds"] / better["seconds"]
        lines.append(f"| {problem} | {' | '.join(ours)} | {said} | {ratio:.1f} |")
    return "\n".join(lines)


def _cell(mean: dict[str, float] | None) -> str:
    """C2ST and seconds."""
    if mean is None:
        return ""
    return f"{mean['c2st']:.3f}".removeprefix("0") + f", {mean['seconds']:.0f} s"


def draw(records: Sequence[Run], problems: Sequence[str], path: Path) -> None:
    """C2ST against CPU seconds, a panel for each problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = means(records)
    rows = -(-len(problems) // COLUMNS)
    figure, panels = plt.subplots(
        rows, COLUMNS, figsize=(12.0, 2.7 * rows + 0.7), sharex=True, sharey=True, squeeze=False
    )
    for panel, problem in zip(panels.ravel(), problems, strict=False):
        for name, (label, colour, marker) in CONTENDERS.items():
            if (problem, name) in found:
                _dot(panel, found[problem, name], label, colour, marker, ours="sbi" not in name)
        panel.axhline(0.5, color="#999999", linewidth=0.8)
        panel.set(title=problem, xscale="log", ylim=(LOWEST, HIGHEST + 0.01))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels.ravel()[len(problems) :]:
        panel.set_visible(False)
    figure.supxlabel("seconds on one core")
    figure.supylabel(f"C2ST (.5 is exact; {HIGHEST:g} and more at the edge)")
    handles = {text: dot for p in panels.ravel() for dot, text in zip(*_legend(p), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=8, frameon=False)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 1.0 - 0.35 / (2.7 * rows + 0.7)))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _dot(
    panel: Any, mean: dict[str, float], label: str, colour: str, marker: str, *, ours: bool
) -> None:
    """One contender; one that is off the scale stands at its upper edge."""
    panel.plot(
        mean["seconds"],
        min(mean["c2st"], HIGHEST),
        marker,
        color=colour,
        markerfacecolor=colour if ours else "white",
        markersize=7,
        label=label,
        linestyle="none",
    )


def _legend(panel: Any) -> tuple[list[Any], list[str]]:
    handles, labels = panel.get_legend_handles_labels()
    return handles, labels
