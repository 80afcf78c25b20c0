"""SMC-ABC: accuracy against simulations."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import accuracy, trials
from experiments.items import Progress, Scale
from experiments.measures import METRICS
from experiments.methods import NAMES
from experiments.words import markdown, number

TITLE = "SIR: SMC-ABC's accuracy against simulations"
PAPER = "Figure 5 (fig:sir_smc)"
QUESTION = "SPPE and SPLE after 10,000 simulations match SMC-ABC after about 100,000."
LEARNERS = ("sppe", "sple")


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    found = trials.each("sir", 10.0, "smc-abc", scale, progress)
    learnt = {slug: trials.each("sir", 10.0, slug, scale, progress) for slug in LEARNERS}
    exact = trials.get("sir", 10.0, "exact", scale.seed, scale, progress=progress).rounds[-1]
    names = ("num_simulations", "tolerance", *METRICS)
    return {
        "trials": [{name: [each[name] for each in trial.rounds] for name in names} for trial in found],
        "stopped": [trial.rounds[-1]["stopped"] for trial in found],
        "learnt": {
            slug: {
                name: float(np.mean([trial.rounds[-1][name] for trial in each]))
                for name in names
                if name != "tolerance"
            }
            for slug, each in learnt.items()
        },
        "exact": {name: exact[name] for name in METRICS},
    }


def _rounds(result: dict[str, Any]) -> int:
    """Rounds that all trials have."""
    return min(len(trial["mmd"]) for trial in result["trials"])


def _means(result: dict[str, Any], name: str) -> np.ndarray:
    return np.mean([trial[name][: _rounds(result)] for trial in result["trials"]], axis=0)


def table(result: dict[str, Any]) -> str:
    names = ("tolerance", "num_simulations", *METRICS)
    columns = {name: _means(result, name) for name in names}
    decimals = {"tolerance": 4, "num_simulations": 0, "mmd": 4, "c2st": 3, "nlog": 3, "lmd": 3}
    rows = [
        [str(r + 1), *(f"{columns[name][r]:,.{decimals[name]}f}" for name in names)] for r in range(_rounds(result))
    ]
    for slug, values in result["learnt"].items():
        rows.append([NAMES[slug], "-", *(f"{values[name]:,.{decimals[name]}f}" for name in names[1:])])
    rows.append(["exact draws", "-", "-", *(number(result["exact"][name], decimals[name]) for name in METRICS)])
    heads = ["tolerance", "simulations", *(name.replace("$^2$", "²") for name in METRICS.values())]
    return markdown(["round", *heads], rows)


def figure(result: dict[str, Any]) -> Any:
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting.style import OKABE_ITO, PRIOR, STYLE

    with matplotlib.rc_context(STYLE):
        made, grid = plt.subplots(1, 4, figsize=(9.6, 2.7))
        for ax, (metric, name) in zip(grid, METRICS.items(), strict=True):
            clip = (lambda values: np.maximum(values, 3e-4)) if metric == "mmd" else np.asarray
            for i, trial in enumerate(result["trials"]):
                ax.plot(
                    trial["num_simulations"],
                    clip(trial[metric]),
                    color=OKABE_ITO[2],
                    marker="D",
                    markersize=3.0,
                    linewidth=1.0,
                    alpha=0.8,
                    label="SMC-ABC, each trial" if i == 0 else None,
                )
            for colour, marker, (slug, values) in zip(OKABE_ITO, "os", result["learnt"].items(), strict=False):
                place = (values["num_simulations"], clip(values[metric]))
                ax.plot(*place, color=colour, marker=marker, markersize=7.0, linestyle="", label=f"{NAMES[slug]}, mean")
            if metric == "mmd":
                ax.set_yscale("log")
                ax.axhline(accuracy.THRESHOLD, color="black", linewidth=0.7, linestyle=":")
            else:
                ax.axhline(result["exact"][metric], color=PRIOR, linestyle="--", linewidth=1.0, label="exact draws")
            ax.set_xscale("log")
            ax.set_xlabel("simulations")
            ax.set_ylabel(name)
        handles, texts = grid[1].get_legend_handles_labels()
        made.legend(handles, texts, loc="outside upper center", ncols=4)
    return made


def paragraph(result: dict[str, Any]) -> str:
    simulations, values = _means(result, "num_simulations"), _means(result, "c2st")
    parts = []
    for slug, learnt in result["learnt"].items():
        better = np.flatnonzero(values <= learnt["c2st"])
        when = (
            f"{simulations[better[0]]:,.0f} simulations"
            if len(better)
            else f"not within {simulations[-1]:,.0f} simulations"
        )
        parts.append(
            f"{NAMES[slug]}'s C2ST of {learnt['c2st']:.3f} ({learnt['num_simulations']:,.0f} simulations) is matched by SMC-ABC: {when}"
        )
    below = accuracy.first_below(list(_means(result, "mmd")))
    reached = "never" if below is None else f"after {simulations[below - 1]:,.0f} simulations"
    return (
        f"{'; '.join(parts)}. SMC-ABC's mean MMD² falls below {accuracy.THRESHOLD} {reached} and ends at "
        f"{_means(result, 'mmd')[-1]:.4f}, its C2ST "
        f"at {values[-1]:.3f}. It stopped because: {result['stopped'][0]}. A tolerance widens the posterior, whatever the "
        "number of particles."
    )
