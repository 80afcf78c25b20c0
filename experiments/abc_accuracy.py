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
    names = ("num_simulations", *METRICS)
    return {
        "trials": [
            {name: [each[name] for each in passed(trial.rounds)] for name in ("tolerance", *names)}
            for trial in found
        ],
        "stopped": [trial.rounds[-1]["stopped"] for trial in found],
        "simulations": [trial.rounds[-1]["num_simulations"] for trial in found],
        "learnt": {
            slug: {name: [t.rounds[-1][name] for t in each] for name in names}
            for slug, each in learnt.items()
        },
        "exact": {name: exact[name] for name in METRICS},
        "measured draws": scale.num_draws // 2,
    }


def passed(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rounds of SMC-ABC that came to a smaller tolerance: one that was given up repeats the
    round before.
    """
    return [
        each
        for i, each in enumerate(rounds)
        if i == 0 or each["tolerance"] is None or each["tolerance"] < rounds[i - 1]["tolerance"]
    ]


def num_rounds(result: dict[str, Any]) -> int:
    """Rounds that all trials have."""
    return min(len(trial["num_simulations"]) for trial in result["trials"])


def means(result: dict[str, Any], name: str) -> np.ndarray:
    """Of a metric or a count after each round, over trials."""
    return np.asarray(
        np.mean([trial[name][: num_rounds(result)] for trial in result["trials"]], axis=0)
    )


def table(result: dict[str, Any]) -> str:
    names = ("tolerance", "num_simulations", *METRICS)
    columns = {name: means(result, name) for name in names}
    decimals = {"tolerance": 4, "num_simulations": 0, **accuracy.DECIMALS}
    rows = [
        [
            str(r + 1),
            *(f"{columns[name][r]:,.{decimals[name]}f}" for name in names[:2]),
            *_quartiles(result, r),
        ]
        for r in range(num_rounds(result))
    ]
    for slug, values in result["learnt"].items():
        cells = [accuracy.quartiles(values[name], decimals[name]) for name in METRICS]
        rows.append([NAMES[slug], "-", f"{np.mean(values['num_simulations']):,.0f}", *cells])
    rows.append(
        [
            "exact draws",
            "-",
            "-",
            *(number(result["exact"][name], decimals[name]) for name in METRICS),
        ]
    )
    heads = ["tolerance", "simulations", *(name.replace("$^2$", "²") for name in METRICS.values())]
    return markdown(["round, mean [quartiles]", *heads], rows)


def _quartiles(result: dict[str, Any], r: int) -> list[str]:
    return [
        accuracy.quartiles([trial[name][r] for trial in result["trials"]], accuracy.DECIMALS[name])
        for name in METRICS
    ]


def figure(result: dict[str, Any]) -> Any:
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting.style import OKABE_ITO, PRIOR, STYLE

    with matplotlib.rc_context(STYLE):
        made, grid = plt.subplots(1, 4, figsize=(9.6, 2.7))
        for ax, (metric, name) in zip(grid, METRICS.items(), strict=True):
            clip = (
                (lambda values: np.maximum(values, accuracy.floor(result)))
                if metric == "mmd"
                else np.asarray
            )
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
            for colour, marker, (slug, values) in zip(
                OKABE_ITO, "os", result["learnt"].items(), strict=False
            ):
                place = (np.mean(values["num_simulations"]), clip(np.mean(values[metric])))
                ax.plot(
                    *place,
                    color=colour,
                    marker=marker,
                    markersize=7.0,
                    linestyle="",
                    label=f"{NAMES[slug]}, mean",
                )
            if metric == "mmd":
                ax.set_yscale("log")
                ax.axhline(accuracy.THRESHOLD, color="black", linewidth=0.7, linestyle=":")
            else:
                ax.axhline(
                    result["exact"][metric],
                    color=PRIOR,
                    linestyle="--",
                    linewidth=1.0,
                    label="exact draws",
                )
            ax.set_xscale("log")
            ax.set_xlabel("simulations")
            ax.set_ylabel(name)
        handles, texts = grid[1].get_legend_handles_labels()
        made.legend(handles, texts, loc="outside upper center", ncols=4)
    return made


def bracket(result: dict[str, Any], slug: str) -> tuple[float | None, float | None]:
    """Simulations after which SMC-ABC's C2ST is still above that of a learnt posterior, and the
    first after which it is not above.

    Means over trials; None where there is no such round.
    """
    simulations, values = means(result, "num_simulations"), means(result, "c2st")
    enough = np.flatnonzero(values <= np.mean(result["learnt"][slug]["c2st"]))
    first = int(enough[0]) if len(enough) else len(values)
    return (
        float(simulations[first - 1]) if first > 0 else None,
        float(simulations[first]) if first < len(values) else None,
    )


def comes_there(result: dict[str, Any], slug: str) -> str:
    """When SMC-ABC comes to the C2ST of a learnt posterior, in words."""
    low, high = bracket(result, slug)
    learnt = result["learnt"][slug]
    if high is None:
        when = f"SMC-ABC does not come to within {low:,.0f}"
    elif low is None:
        when = f"SMC-ABC has within its first {high:,.0f}"
    else:
        when = f"SMC-ABC comes to between {low:,.0f} and {high:,.0f}"
    return (
        f"{NAMES[slug]} has C2ST {np.mean(learnt['c2st']):.3f} after"
        f" {np.mean(learnt['num_simulations']):,.0f} simulations, which {when}"
    )


def paragraph(result: dict[str, Any]) -> str:
    simulations, values = means(result, "num_simulations"), means(result, "c2st")
    below = accuracy.first_below(list(means(result, "mmd")))
    reached = "never" if below is None else f"after {simulations[below - 1]:,.0f} simulations"
    return (
        f"{'; '.join(comes_there(result, slug) for slug in result['learnt'])}. SMC-ABC's mean MMD²"
        f" falls below {accuracy.THRESHOLD} {reached} and ends at {means(result, 'mmd')[-1]:.4f},"
        f" its C2ST at {values[-1]:.3f} after {simulations[-1]:,.0f} simulations, at the tolerance"
        f" {means(result, 'tolerance')[-1]:.4f}. {_ends(result)} At a tolerance above 0 it targets"
        " another law than the posterior, whatever the number of particles."
    )


def _ends(result: dict[str, Any]) -> str:
    """Why trials stopped, and what rounds took that were given up."""
    counts = {
        reason: result["stopped"].count(reason) for reason in dict.fromkeys(result["stopped"])
    }
    reasons = "; ".join(
        f"{reason} ({count} of {len(result['stopped'])} trials)" for reason, count in counts.items()
    )
    wasted = np.subtract(
        result["simulations"], [trial["num_simulations"][-1] for trial in result["trials"]]
    )
    lost = (
        f", after {wasted.min():,.0f} to {wasted.max():,.0f} more simulations for a round that was"
        " given up and is not shown"
        if wasted.any()
        else ""
    )
    return f"Trials ended because: {reasons}{lost}."
