"""The posterior of the regression after the last round."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import trials
from experiments.items import Progress, Scale
from experiments.methods import NAMES
from experiments.words import joined, markdown, number, spread

TITLE = "Linear regression: the posterior after the last round"
PAPER = "Figure 10 (fig:linreg_scatter)"
QUESTION = "After ten rounds SPPE and SPLE are close to SMC-ABC."
METHODS = ("exact", "smc-abc", "sppe", "sple")
_POINTS = 600


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    found = {
        slug: trials.each("linear_regression", 10.0, slug, scale, progress) for slug in METHODS
    }
    problem = trials.made("linear_regression", 10.0)
    return {
        "names": problem.model.names,
        "truth": problem.truth,
        "draws": {slug: each[0].final[:_POINTS] for slug, each in found.items()},
        "c2st": {
            slug: [trial.rounds[-1]["c2st"] for trial in each] for slug, each in found.items()
        },
        "mmd": {slug: [trial.rounds[-1]["mmd"] for trial in each] for slug, each in found.items()},
        "simulations": {
            slug: [trial.rounds[-1]["num_simulations"] for trial in each]
            for slug, each in found.items()
        },
        "correlations": {slug: _correlations(each) for slug, each in found.items()},
    }


def _correlations(found: list[trials.Trial]) -> Any:
    return np.mean([np.corrcoef(trial.final.T)[np.triu_indices(3, 1)] for trial in found], axis=0)


def table(result: dict[str, Any]) -> str:
    rows = []
    for slug in METHODS:
        count = np.mean(result["simulations"][slug])
        simulations = "-" if slug == "exact" else f"{count:,.0f}"
        correlations = [number(value, 2) for value in result["correlations"][slug]]
        rows.append(
            [
                NAMES[slug],
                simulations,
                spread(result["c2st"][slug], 3),
                spread(result["mmd"][slug], 4),
                *correlations,
            ]
        )
    heads = ["simulations", "C2ST to exact", "MMD² to exact", "corr β₀β₁", "corr β₀β₂", "corr β₁β₂"]
    return markdown(["", *heads], rows)


def figure(result: dict[str, Any]) -> Any:
    from noisewise.plotting import pair_plot

    draws = {NAMES[slug]: np.array(result["draws"][slug]) for slug in METHODS}
    return pair_plot(draws, names=list(result["names"]), truth=result["truth"])[0, 0].figure


def paragraph(result: dict[str, Any]) -> str:
    parts = [
        f"{NAMES[slug]} {number(float(np.mean(result['c2st'][slug])), 3)}" for slug in METHODS[1:]
    ]
    floor = number(float(np.mean(result["c2st"]["exact"])), 3)
    return (
        f"C2ST against the exact posterior, mean over trials: {joined(parts)}; another set of exact"
        f" draws has {floor}. The paper's figure compares with SMC-ABC, which is near the exact"
        " posterior only where its tolerance is small enough."
    )
