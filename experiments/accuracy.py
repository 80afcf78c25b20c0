"""Accuracy against rounds: what several figures of the paper show, for several problems."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import trials
from experiments.items import Progress, Scale
from experiments.measures import METRICS
from experiments.methods import NAMES
from experiments.verdicts import Judged, above, all_of, below, difference
from experiments.words import joined, markdown, number

THRESHOLD = 0.1
"""The MMD^2 that the paper's table of costs asks for."""
MARGIN = 0.02
"""C2STs that differ by less count as the same."""
AFTER = 5
"""The paper compares what comes after this round."""
DECIMALS = {"mmd": 4, "c2st": 3, "nlog": 3, "lmd": 3}
_LAST = 3
_VALUES = (*METRICS, "nlog_paper")


def panel(
    scale: Scale,
    progress: Progress,
    problem: str,
    epsilon: float,
    methods: tuple[str, ...],
    layers: int | None = None,
) -> dict[str, Any]:
    """The metrics (trials, rounds) of each method, and those of exact draws."""
    found = {
        slug: trials.each(problem, epsilon, slug, scale, progress, layers=layers)
        for slug in methods
    }
    exact = trials.get(problem, epsilon, "exact", scale.seed, scale, progress=progress).rounds[-1]
    return {
        "problem": problem,
        "epsilon": epsilon,
        "layers": layers or scale.layers,
        "measured draws": scale.num_draws // 2,
        "methods": {slug: of_trials(each) for slug, each in found.items()},
        "exact": {name: exact[name] for name in _VALUES},
    }


def of_trials(found: list[trials.Trial]) -> dict[str, Any]:
    """Simulations per round (R,) and each metric (trials, R)."""
    values = {name: [[each[name] for each in trial.rounds] for trial in found] for name in _VALUES}
    return {"num_simulations": [each["num_simulations"] for each in found[0].rounds], **values}


def floor(shown: dict[str, Any]) -> float:
    """The sd of MMD^2 of exact draws, about .5 over their number: what is below is not told apart
    on the logarithmic axis.

    >>> floor({"measured draws": 1000})
    0.0005
    """
    return 0.5 / float(shown["measured draws"])


def rows(shown: dict[str, Any]) -> list[list[str]]:
    """One row per method and metric: mean and quartiles over trials after some rounds, and the
    exact value.
    """
    made = []
    for slug, values in shown["methods"].items():
        for metric, name in METRICS.items():
            decimals = DECIMALS[metric]
            cells = [
                quartiles(np.array(values[metric])[:, r - 1], decimals) for r in _rounds(shown)
            ]
            made.append(
                [
                    NAMES[slug],
                    name.replace("$^2$", "²"),
                    *cells,
                    number(shown["exact"][metric], decimals),
                ]
            )
    return made


def quartiles(values: Any, decimals: int) -> str:
    """The mean over trials and, of several, the lower and the upper quartile.

    >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0], 1), quartiles([1.0], 1)
    ('3.0 [2.0, 4.0]', '1.0')
    """
    mean = number(float(np.mean(values)), decimals)
    if len(values) < 2:
        return mean
    low, high = np.quantile(values, [0.25, 0.75])
    return f"{mean} [{number(low, decimals)}, {number(high, decimals)}]"


def table(shown: dict[str, Any]) -> str:
    """Markdown of one panel."""
    heads = [f"round {r}" for r in _rounds(shown)]
    several = any(len(values["mmd"]) > 1 for values in shown["methods"].values())
    metric = "metric, mean [quartiles]" if several else "metric"
    return markdown(["method", metric, *heads, "exact draws"], rows(shown))


def first_below(values: list[float], threshold: float = THRESHOLD) -> int | None:
    """The first round, from 1, with a value below the threshold.

    >>> first_below([0.3, 0.05, 0.2]), first_below([0.3])
    (2, None)
    """
    return next((i for i, value in enumerate(values, start=1) if value < threshold), None)


def settled(shown: dict[str, Any], slug: str) -> int | None:
    """The first round from which on the mean C2ST stays where it is in the end; None where it does
    not even in the last round.

    The end is the mean of the last three rounds, and staying there means within .02 of it. What
    trials differ by has no part: methods that vary more would settle sooner.
    """
    found = np.mean(shown["methods"][slug]["c2st"], axis=0)
    away = np.flatnonzero(np.abs(found - end(shown, slug).mean()) > MARGIN)
    first = int(away[-1]) + 2 if len(away) else 1
    return first if first <= len(found) else None


def end(shown: dict[str, Any], slug: str) -> np.ndarray:
    """The C2ST of each trial (T,), averaged over the last three rounds."""
    return np.asarray(
        np.asarray(shown["methods"][slug]["c2st"], dtype=float)[:, -_LAST:].mean(axis=1)
    )


def stays(shown: dict[str, Any]) -> str:
    """From which round on the C2ST of SPPE and of SPLE stays where it is in the end."""
    parts = [f"{settles(settled(shown, slug))} for {NAMES[slug]}" for slug in ("sppe", "sple")]
    return (
        f"The mean C2ST stays within {MARGIN:g} of its mean over the last three rounds"
        f" {' and '.join(parts)}"
    )


def settles(first: int | None) -> str:
    """A round in words."""
    return "in no round" if first is None else f"from round {first} on"


def later(shown: dict[str, Any], slug: str) -> np.ndarray:
    """The C2ST of each trial (T,), averaged over the rounds after the fifth; of the last round
    where there are no more.
    """
    values = np.asarray(shown["methods"][slug]["c2st"], dtype=float)
    return np.asarray(values[:, min(AFTER, values.shape[1] - 1) :].mean(axis=1))


def similar(shown: dict[str, Any]) -> Judged:
    """Whether SPPE and SPLE differ by less than the margin after round 5."""
    found = [later(shown, slug) for slug in ("sppe", "sple")]
    gap = difference(*found)
    verdict = all_of([below(gap, MARGIN), above(gap, -MARGIN)])
    text = (
        f"C2ST averaged over the rounds after round {AFTER}: SPPE {found[0].mean():.3f}, SPLE"
        f" {found[1].mean():.3f}, difference by seed {gap.text()}"
    )
    return verdict, text


def sentence(shown: dict[str, Any]) -> str:
    """Where each method is after the last round, and when it came below the threshold."""
    parts = []
    for slug, values in shown["methods"].items():
        first = [first_below(trial) for trial in values["mmd"]]
        reached = [r for r in first if r is not None]
        when = (
            f"after {number(float(np.mean(reached)), 1)} rounds on average"
            if reached
            else "in no trial"
        )
        if 0 < len(reached) < len(first):
            when += f" in {len(reached)} of {len(first)} trials"
        last = float(np.mean(values["c2st"], axis=0)[-1])
        parts.append(
            f"{NAMES[slug]} has MMD² < {THRESHOLD} {when} and ends at C2ST {number(last, 3)}"
        )
    return joined(parts) + f" (exact draws: {number(shown['exact']['c2st'], 3)})"


def draw(shown: dict[str, Any], axes: Any, *, legend: bool) -> None:
    """Four panels, one per metric."""
    from noisewise.plotting import convergence

    for ax, (metric, name) in zip(axes, METRICS.items(), strict=True):
        values = {NAMES[slug]: np.asarray(each[metric]) for slug, each in shown["methods"].items()}
        convergence(
            values,
            metric=name,
            ax=ax,
            floor=floor(shown) if metric == "mmd" else shown["exact"][metric],
        )
        if metric == "mmd":
            logarithmic(ax, floor(shown))
        if not legend or ax is not axes[0]:
            ax.get_legend().remove()


def logarithmic(ax: Any, least: float) -> None:
    """A logarithmic axis for MMD^2, with the threshold; means and quartiles below `least` are drawn
    there.
    """
    for line in ax.lines:
        line.set_ydata(np.maximum(line.get_ydata(), least))
    for bars in ax.collections:
        bars.set_segments(
            [
                np.column_stack([each[:, 0], np.maximum(each[:, 1], least)])
                for each in bars.get_segments()
            ]
        )
    ax.axhline(THRESHOLD, color="black", linewidth=0.7, linestyle=":")
    ax.set_yscale("log")
    ax.set_ylim(bottom=least / 1.5)
    ax.set_ylabel(f"{ax.get_ylabel()}, drawn from {least:g} up")


def figure(panels: dict[str, dict[str, Any]]) -> Any:
    """One row of four panels for each of `panels`, with its title at the left."""
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting.style import STYLE

    with matplotlib.rc_context(STYLE):
        made, grid = plt.subplots(
            len(panels), 4, figsize=(9.6, 0.5 + 2.3 * len(panels)), squeeze=False
        )
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
