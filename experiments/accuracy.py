"""Accuracy against rounds: what several figures of the paper show, for several problems."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import trials
from experiments.items import Progress, Scale
from experiments.measures import METRICS
from experiments.methods import NAMES
from experiments.words import joined, markdown, number

THRESHOLD = 0.1
"""The MMD^2 that the paper's table of costs asks for."""
_FLOOR = 3e-4
"""The sd of MMD^2 of exact draws: what is below is not told apart on the logarithmic axis."""
_VALUES = (*METRICS, "nlog_paper")


def panel(
    scale: Scale, progress: Progress, problem: str, epsilon: float, methods: tuple[str, ...], layers: int | None = None
) -> dict[str, Any]:
    """The metrics (trials, rounds) of each method, and those of exact draws."""
    found = {slug: trials.each(problem, epsilon, slug, scale, progress, layers=layers) for slug in methods}
    exact = trials.get(problem, epsilon, "exact", scale.seed, scale, progress=progress).rounds[-1]
    return {
        "problem": problem,
        "epsilon": epsilon,
        "layers": layers or scale.layers,
        "methods": {slug: of_trials(each) for slug, each in found.items()},
        "exact": {name: exact[name] for name in _VALUES},
        "sources": sorted({trial.record["source"] for each in found.values() for trial in each}),
        "hardware": sorted({trial.record["hardware"] for each in found.values() for trial in each}),
    }


def of_trials(found: list[trials.Trial]) -> dict[str, Any]:
    """Simulations per round (R,) and each metric (trials, R)."""
    values = {name: [[each[name] for each in trial.rounds] for trial in found] for name in _VALUES}
    return {"num_simulations": [each["num_simulations"] for each in found[0].rounds], **values}


def rows(shown: dict[str, Any]) -> list[list[str]]:
    """One row per method and metric: the mean over trials after some rounds, and the exact value."""
    made = []
    for slug, values in shown["methods"].items():
        for metric, name in METRICS.items():
            means = np.mean(values[metric], axis=0)
            decimals = 4 if metric == "mmd" else 3
            cells = [number(means[r - 1], decimals) for r in _rounds(shown)]
            made.append([NAMES[slug], name.replace("$^2$", "²"), *cells, number(shown["exact"][metric], decimals)])
    return made


def table(shown: dict[str, Any]) -> str:
    """Markdown of one panel."""
    heads = [f"round {r}" for r in _rounds(shown)]
    return markdown(["method", "metric", *heads, "exact draws"], rows(shown))


def first_below(values: list[float], threshold: float = THRESHOLD) -> int | None:
    """The first round, from 1, with a value below the threshold.

    >>> first_below([0.3, 0.05, 0.2]), first_below([0.3])
    (2, None)
    """
    return next((i for i, value in enumerate(values, start=1) if value < threshold), None)


def settled(shown: dict[str, Any], slug: str, margin: float = 0.02) -> int:
    """The first round from which on the mean C2ST stays within a margin of its last value."""
    means = np.mean(shown["methods"][slug]["c2st"], axis=0)
    away = np.flatnonzero(np.abs(means - means[-1]) > margin)
    return int(away[-1]) + 2 if len(away) else 1


def sentence(shown: dict[str, Any]) -> str:
    """Where each method is after the last round, and when it came below the threshold."""
    parts = []
    for slug, values in shown["methods"].items():
        first = [first_below(trial) for trial in values["mmd"]]
        reached = [r for r in first if r is not None]
        when = f"after {number(float(np.mean(reached)), 1)} rounds on average" if reached else "in no trial"
        if 0 < len(reached) < len(first):
            when += f" in {len(reached)} of {len(first)} trials"
        last = float(np.mean(values["c2st"], axis=0)[-1])
        parts.append(f"{NAMES[slug]} has MMD² < {THRESHOLD} {when} and ends at C2ST {number(last, 3)}")
    return joined(parts) + f" (exact draws: {number(shown['exact']['c2st'], 3)})"


def draw(shown: dict[str, Any], axes: Any, *, legend: bool) -> None:
    """Four panels, one per metric."""
    from noisewise.plotting import convergence

    for ax, (metric, name) in zip(axes, METRICS.items(), strict=True):
        logarithmic = metric == "mmd"
        values = {NAMES[slug]: np.asarray(each[metric]) for slug, each in shown["methods"].items()}
        values = {slug: np.maximum(each, _FLOOR) if logarithmic else each for slug, each in values.items()}
        convergence(values, metric=name, ax=ax, floor=_FLOOR if logarithmic else shown["exact"][metric])
        if logarithmic:
            ax.axhline(THRESHOLD, color="black", linewidth=0.7, linestyle=":")
            ax.set_yscale("log")
        if not legend or ax is not axes[0]:
            ax.get_legend().remove()


def figure(panels: dict[str, dict[str, Any]]) -> Any:
    """One row of four panels for each of `panels`, with its title at the left."""
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting.style import STYLE

    with matplotlib.rc_context(STYLE):
        made, grid = plt.subplots(len(panels), 4, figsize=(9.6, 0.5 + 2.3 * len(panels)), squeeze=False)
        for row, (title, shown) in zip(grid, panels.items(), strict=True):
            draw(shown, row, legend=False)
            if len(panels) > 1:
                row[0].set_title(title, loc="left", fontweight="bold")
        handles, texts = grid[0, 1].get_legend_handles_labels()
        made.legend(handles, texts, loc="outside upper center", ncols=len(texts))
    return made


def _rounds(shown: dict[str, Any]) -> list[int]:
    """Some rounds: the first, a few between, the last."""
    last = min(len(values["mmd"][0]) for values in shown["methods"].values())
    return sorted({r for r in (1, 2, 3, 5, last) if r <= last})
