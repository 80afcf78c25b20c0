"""5, 8 and 10 layers of the flow on the epidemic and the regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import accuracy
from experiments.items import Progress, Scale
from experiments.methods import NAMES
from experiments.words import joined, markdown, number

TITLE = "Flows of 5, 8 and 10 layers"
PAPER = "Figure 15 (fig:nsf_layers)"
QUESTION = "Five layers are slightly slower for SPLE on SIR; ten are no better than eight."
METHODS = ("sppe", "sple")
PROBLEMS = {"sir": "SIR", "linear_regression": "regression"}
LAYERS = (5, 8, 10)


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    panels = {
        problem: {
            str(layers): accuracy.panel(scale, progress, problem, 10.0, METHODS, layers)
            for layers in (_of_scale(usual, scale) for usual in LAYERS)
        }
        for problem in PROBLEMS
    }
    return {"panels": panels}


def _of_scale(layers: int, scale: Scale) -> int:
    """Eight stands for what the scale calls usual, so that small scales differ by the same numbers of layers."""
    return max(1, scale.layers + layers - 8)


def table(result: dict[str, Any]) -> str:
    rows = []
    for problem, by_layers in result["panels"].items():
        for slug in METHODS:
            for layers, shown in by_layers.items():
                means = np.mean(shown["methods"][slug]["c2st"], axis=0)
                first = [accuracy.first_below(trial) for trial in shown["methods"][slug]["mmd"]]
                reached = [r for r in first if r is not None]
                when = number(float(np.mean(reached)), 1) if len(reached) == len(first) else "-"
                cells = [number(means[i], 3) for i in _places(means)]
                rows.append([f"{NAMES[slug]}, {PROBLEMS[problem]}", layers, when, *cells])
    heads = [f"C2ST, {name}" for name in ("first round", "middle", "last")]
    return markdown(["method", "layers", "rounds to MMD² < .1", *heads], rows)


def _places(means: np.ndarray) -> tuple[int, int, int]:
    return 0, (len(means) - 1) // 2, len(means) - 1


def figure(result: dict[str, Any]) -> Any:
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting import convergence
    from noisewise.plotting.style import STYLE

    panels = [(p, m) for p in PROBLEMS for m in METHODS]
    with matplotlib.rc_context(STYLE):
        made, grid = plt.subplots(2, 4, figsize=(9.6, 4.6))
        for column, (letter, (problem, slug)) in enumerate(zip("ABCD", panels, strict=True)):
            for ax, metric in zip(grid[:, column], ("mmd", "c2st"), strict=True):
                by_layers = result["panels"][problem]
                values = {f"{k} layers": np.asarray(v["methods"][slug][metric]) for k, v in by_layers.items()}
                if metric == "mmd":
                    values = {name: np.maximum(each, 3e-4) for name, each in values.items()}
                convergence(values, metric=accuracy.METRICS[metric], ax=ax)
                ax.get_legend().remove()
                if metric == "mmd":
                    ax.axhline(accuracy.THRESHOLD, color="black", linewidth=0.7, linestyle=":")
                    ax.set_yscale("log")
                    ax.set_title(f"{letter}. {NAMES[slug]}, {PROBLEMS[problem]}", loc="left", fontweight="bold")
        handles, texts = grid[0, 0].get_legend_handles_labels()
        made.legend(handles, texts, loc="outside upper center", ncols=3)
    return made


def paragraph(result: dict[str, Any]) -> str:
    parts = []
    for problem, by_layers in result["panels"].items():
        for slug in METHODS:
            last = [np.mean(shown["methods"][slug]["c2st"], axis=0)[-1] for shown in by_layers.values()]
            listed = joined(
                [f"{number(value, 3)} with {layers}" for layers, value in zip(by_layers, last, strict=True)]
            )
            parts.append(f"{NAMES[slug]} on {PROBLEMS[problem]} ends at C2ST {listed} layers")
    return (
        f"{'; '.join(parts)}. {_chance(result)}The paper draws one panel per problem and number of layers; here the three "
        "numbers of layers "
        "share a panel, so that they can be compared."
    )


def _chance(result: dict[str, Any]) -> str:
    """The sd over trials of the last C2ST, averaged over settings."""
    last = [
        np.array(shown["methods"][slug]["c2st"])[:, -1]
        for by_layers in result["panels"].values()
        for shown in by_layers.values()
        for slug in METHODS
    ]
    if len(last[0]) < 2:
        return ""
    return f"The sd over trials is {np.mean([np.std(values, ddof=1) for values in last]):.3f} on average. "
