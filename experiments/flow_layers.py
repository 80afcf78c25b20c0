"""5, 8 and 10 layers of the flow on the epidemic and the regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import accuracy
from experiments.items import Progress, Scale
from experiments.measures import METRICS
from experiments.methods import NAMES
from experiments.words import joined, markdown, number

TITLE = "Flows of 5, 8 and 10 layers"
PAPER = "Figure 15 (fig:nsf_layers)"
QUESTION = "Five layers are slightly slower for SPLE on SIR; ten are no better than eight."
METHODS = ("sppe", "sple")
PROBLEMS = {"sir": "SIR", "linear_regression": "regression"}
ROLES = {"fewer": 5, "usual": 8, "more": 10}
"""What the numbers of layers stand for; small scales have others, in the panels."""
PANELS = (
    ("sir", "fewer"),
    ("sir", "more"),
    ("linear_regression", "fewer"),
    ("linear_regression", "more"),
)
"""A, B, C and D of the paper."""


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    panels = {
        problem: {
            role: accuracy.panel(scale, progress, problem, 10.0, METHODS, of_scale(layers, scale))
            for role, layers in ROLES.items()
        }
        for problem in PROBLEMS
    }
    return {"panels": panels}


def of_scale(layers: int, scale: Scale) -> int:
    """Eight stands for what the scale calls usual, so that small scales differ by the same numbers
    of layers.
    """
    return max(1, scale.layers + layers - ROLES["usual"])


def table(result: dict[str, Any]) -> str:
    rows = []
    for problem, by_role in result["panels"].items():
        for slug in METHODS:
            for shown in by_role.values():
                rows.append(
                    [
                        f"{NAMES[slug]}, {PROBLEMS[problem]}",
                        str(shown["layers"]),
                        *_cells(shown, slug),
                    ]
                )
    heads = [f"C2ST, {name}" for name in ("first round", "middle", "last")]
    others = [
        f"{name.replace('$^2$', '²')}, last" for metric, name in METRICS.items() if metric != "c2st"
    ]
    return markdown(["mean [quartiles]", "layers", "rounds to MMD² < .1", *heads, *others], rows)


def _cells(shown: dict[str, Any], slug: str) -> list[str]:
    values = {metric: np.array(shown["methods"][slug][metric]) for metric in METRICS}
    first = [accuracy.first_below(trial) for trial in shown["methods"][slug]["mmd"]]
    reached = [r for r in first if r is not None]
    when = (
        number(float(np.mean(reached)), 1)
        if len(reached) == len(first)
        else f"{len(reached)} of {len(first)} trials"
    )
    last = values["c2st"].shape[1] - 1
    c2st = [
        accuracy.quartiles(values["c2st"][:, i], accuracy.DECIMALS["c2st"])
        for i in (0, last // 2, last)
    ]
    others = [m for m in METRICS if m != "c2st"]
    return [
        when,
        *c2st,
        *(accuracy.quartiles(values[m][:, -1], accuracy.DECIMALS[m]) for m in others),
    ]


def figure(result: dict[str, Any]) -> Any:
    """The paper's panels, A to D, each with the four metrics; thin lines are those of eight layers."""
    from noisewise.plotting.style import looks

    shown = {(problem, role): result["panels"][problem][role] for problem, role in PANELS}
    titles = {
        place: f"{letter}. {panel['layers']} layers, {PROBLEMS[place[0]]}"
        for letter, (place, panel) in zip("ABCD", shown.items(), strict=True)
    }
    made = accuracy.figure({titles[place]: panel for place, panel in shown.items()})
    colours = looks([NAMES[slug] for slug in METHODS])
    axes = np.array(made.axes).reshape(len(PANELS), len(METRICS))
    for row, (problem, _) in zip(axes, PANELS, strict=True):
        usual = result["panels"][problem]["usual"]
        for ax, metric in zip(row, METRICS, strict=True):
            for slug in METHODS:
                mean = np.mean(usual["methods"][slug][metric], axis=0)
                mean = np.maximum(mean, accuracy.floor(usual)) if metric == "mmd" else mean
                ax.plot(
                    range(1, len(mean) + 1),
                    mean,
                    color=colours[NAMES[slug]]["color"],
                    linewidth=0.7,
                    linestyle="--",
                )
    usual = result["panels"]["sir"]["usual"]["layers"]
    (line,) = axes[0, 1].plot([], [], color="black", linewidth=0.7, linestyle="--")
    axes[0, 1].legend(
        [line], [f"{usual} layers, mean"], loc="upper right", frameon=False, fontsize=8.0
    )
    return made


def paragraph(result: dict[str, Any]) -> str:
    parts = []
    for problem, by_role in result["panels"].items():
        for slug in METHODS:
            last = [
                np.mean(shown["methods"][slug]["c2st"], axis=0)[-1] for shown in by_role.values()
            ]
            numbers = [shown["layers"] for shown in by_role.values()]
            listed = joined(
                [f"{number(value, 3)} with {n}" for n, value in zip(numbers, last, strict=True)]
            )
            parts.append(f"{NAMES[slug]} on {PROBLEMS[problem]} ends at C2ST {listed} layers")
    usual = result["panels"]["sir"]["usual"]["layers"]
    return (
        f"{'; '.join(parts)}. {_chance(result)}Panels are those of the paper; dashed lines without"
        f" marks are the means with {usual} layers, which the paper shows elsewhere."
    )


def _chance(result: dict[str, Any]) -> str:
    """The sd over trials of the last C2ST, averaged over settings."""
    last = [
        np.array(shown["methods"][slug]["c2st"])[:, -1]
        for by_role in result["panels"].values()
        for shown in by_role.values()
        for slug in METHODS
    ]
    if len(last[0]) < 2:
        return ""
    return (
        f"The sd over trials is {np.mean([np.std(values, ddof=1) for values in last]):.3f} on"
        " average. "
    )
