"""Draws after each round as clouds of points over the regions of the exact posterior: two figures
of the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import trials
from experiments.abc_accuracy import passed
from experiments.items import Progress, Scale
from experiments.methods import NAMES
from experiments.words import markdown, number

LEARNERS = ("sppe", "sple")
_POINTS = 250
_REACH = 7.0
"""Panels reach so many exact standard deviations from the exact mean; what lies beyond is counted
in the table.
"""


def collected(scale: Scale, progress: Progress, rounds: tuple[int, ...]) -> dict[str, Any]:
    """Draws of the first trial after some rounds, of SMC-ABC in the end, and exact ones; moments of
    all trials.
    """
    exact = trials.get("sir", 10.0, "exact", scale.seed, scale, progress=progress)
    abc = trials.each("sir", 10.0, "smc-abc", scale, progress)
    found = {slug: trials.each("sir", 10.0, slug, scale, progress) for slug in LEARNERS}
    shown = sorted({min(r, scale.rounds) for r in rounds})
    return {
        "truth": trials.made("sir", 10.0).truth,
        "rounds": shown,
        "exact": {**_moments(exact.rounds[-1]), "draws": exact.final[: 2 * _POINTS]},
        "smc-abc": {
            **_averages([passed(trial.rounds)[-1] for trial in abc]),
            "draws": abc[0].final[:_POINTS],
        },
        "methods": {
            slug: {
                "draws": {str(r): each[0].draws[r - 1][:_POINTS] for r in shown},
                **{
                    name: [[trial.rounds[r - 1][name] for trial in each] for r in shown]
                    for name in ("mean", "sd")
                },
                "outside": [
                    [_outside(trial.draws[r - 1], exact.rounds[-1]) for trial in each]
                    for r in shown
                ],
            }
            for slug, each in found.items()
        },
    }


def _moments(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("mean", "sd", "num_simulations")}


def _averages(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Moments averaged over trials."""
    each = [_moments(record) for record in records]
    return {name: np.mean([moments[name] for moments in each], axis=0) for name in each[0]}


def _outside(draws: np.ndarray, exact: dict[str, Any]) -> float:
    """The share of draws beyond the panels."""
    away = np.abs(draws - np.array(exact["mean"])) > _REACH * np.array(exact["sd"])
    return float(np.mean(away.any(axis=1)))


def table(result: dict[str, Any]) -> str:
    """Means and sds of both parameters after each round, averaged over trials."""
    rows = []
    for slug, each in result["methods"].items():
        for i, r in enumerate(result["rounds"]):
            mean, sd = (np.mean(each[name][i], axis=0) for name in ("mean", "sd"))
            beyond = float(np.mean(each["outside"][i]))
            rows.append([f"{NAMES[slug]}, round {r}", *_cells(mean, sd), f"{beyond:.0%}"])
    for slug in ("smc-abc", "exact"):
        rows.append(
            [
                NAMES[slug],
                *_cells(np.array(result[slug]["mean"]), np.array(result[slug]["sd"])),
                "-",
            ]
        )
    columns = ["", "mean log β", "mean log γ", "sd log β", "sd log γ", "draws beyond the panels"]
    return markdown(columns, rows)


def _cells(mean: np.ndarray, sd: np.ndarray) -> list[str]:
    return [number(value, 3) for value in (*mean, *sd)]


def figure(result: dict[str, Any], per_row: int = 5) -> Any:
    """A row of panels per method (or two), a panel per round."""
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting.style import STYLE, label

    rounds = result["rounds"]
    blocks = [rounds[i : i + per_row] for i in range(0, len(rounds), per_row)]
    lines = [(slug, block) for slug in result["methods"] for block in blocks]
    with matplotlib.rc_context(STYLE):
        size = (0.9 + 1.75 * len(blocks[0]), 0.6 + 1.65 * len(lines))
        made, grid = plt.subplots(
            len(lines), len(blocks[0]), figsize=size, sharex=True, sharey=True, squeeze=False
        )
        for row, (slug, block) in zip(grid, lines, strict=True):
            for ax, r in zip(row, block, strict=False):
                _draw(ax, result, slug, r)
                ax.set_title(f"{NAMES[slug]}, round {r}")
            for spare in row[len(block) :]:
                spare.set_axis_off()
            row[0].set_ylabel(label("log_gamma"))
        for ax in grid[-1]:
            ax.set_xlabel(label("log_beta"))
        handles, texts = grid[0, 0].get_legend_handles_labels()
        made.legend(handles, texts, loc="outside upper center", ncols=len(texts))
    return made


def _draw(ax: Any, result: dict[str, Any], slug: str, r: int) -> None:
    from noisewise.plotting.densities import density_surface
    from noisewise.plotting.style import OKABE_ITO, PRIOR, SHADE, TRUTH

    colour = OKABE_ITO[LEARNERS.index(slug)]
    exact, abc = (np.array(result[name]["draws"]) for name in ("exact", "smc-abc"))
    surface = density_surface(exact[:, 0], exact[:, 1], (0.5, 0.95))
    if surface is not None:
        *grid, levels = surface
        ax.contourf(*grid, levels=[*levels, grid[2].max()], colors=("#EEEEEE", SHADE), zorder=0)
    ax.scatter(
        *abc.T, s=5.0, color=PRIOR, marker="x", linewidths=0.5, alpha=0.7, label="SMC-ABC", zorder=1
    )
    draws = np.array(result["methods"][slug]["draws"][str(r)])
    ax.scatter(
        *draws.T, s=4.0, color=colour, alpha=0.6, linewidths=0.0, label="after the round", zorder=2
    )
    ax.plot(
        *result["truth"],
        marker="+",
        color=TRUTH,
        markersize=8.0,
        linestyle="",
        label="truth",
        zorder=3,
    )
    ax.fill_between([], [], color=SHADE, label="exact, 50% and 95%")
    mean, sd = np.array(result["exact"]["mean"]), np.array(result["exact"]["sd"])
    ax.set_xlim(mean[0] - _REACH * sd[0], mean[0] + _REACH * sd[0])
    ax.set_ylim(mean[1] - _REACH * sd[1], mean[1] + _REACH * sd[1])


def distance(result: dict[str, Any], slug: str, i: int) -> float:
    """How far the mean after a round is from the exact one, in exact sds: the larger of both
    parameters, averaged over trials.
    """
    mean, sd = np.array(result["exact"]["mean"]), np.array(result["exact"]["sd"])
    return float(
        np.mean(np.max(np.abs(np.array(result["methods"][slug]["mean"][i]) - mean) / sd, axis=-1))
    )
