"""Kolmogorov-Smirnov distances between all methods on the regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import trials
from experiments.items import Progress, Scale
from experiments.methods import NAMES
from experiments.words import joined, markdown, number
from noisewise.metrics import kolmogorov_smirnov

TITLE = "Linear regression: Kolmogorov-Smirnov distances between methods"
PAPER = "Figure 3 (fig:ks_test) and Figure 12 (fig:ks_test_appendix)"
QUESTION = "Gibbs-SS and RNPE are biased, the others agree, and SPLE is the closest to DA-MCMC."
EPSILONS = (10.0, 1.0, 0.1)
METHODS = ("exact", "da-mcmc", "smc-abc", "sppe", "sple", "gibbs-ss", "rnpe", "exact-smc", "cle")


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    return {"distances": {f"{e:g}": _distances(e, scale, progress) for e in EPSILONS}, "draws": scale.num_draws}


def _distances(epsilon: float, scale: Scale, progress: Progress) -> Any:
    """(M, M, 3), the mean over trials of the distances between trials of the same seed."""
    found = [
        [trial.final for trial in trials.each("linear_regression", epsilon, slug, scale, progress)] for slug in METHODS
    ]
    result = np.zeros((len(METHODS), len(METHODS), 3))
    for a in range(len(METHODS)):
        for b in range(a):
            result[a, b] = result[b, a] = _mean_distance(found[a], found[b])
    return result


def _mean_distance(first: list[np.ndarray], second: list[np.ndarray]) -> np.ndarray:
    num = max(len(first), len(second))
    pairs = [(first[i % len(first)], second[i % len(second)]) for i in range(num)]
    return np.asarray(np.mean([kolmogorov_smirnov(a, b) for a, b in pairs], axis=0))


def table(result: dict[str, Any]) -> str:
    parts = []
    for epsilon, distances in result["distances"].items():
        worst = np.max(np.array(distances), axis=-1)
        rows = [[NAMES[slug], *(number(v, 2) for v in row)] for slug, row in zip(METHODS, worst, strict=True)]
        shown = markdown(["", *(NAMES[slug] for slug in METHODS)], rows)
        parts.append(f"ε = {epsilon}, the largest over the three coefficients\n\n{shown}")
    return "\n\n".join(parts)


def figure(result: dict[str, Any]) -> Any:
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting.style import STYLE

    names = [NAMES[slug] for slug in METHODS]
    with matplotlib.rc_context(STYLE):
        made, grid = plt.subplots(len(EPSILONS), 3, figsize=(11.0, 3.55 * len(EPSILONS)), squeeze=False)
        for row, (epsilon, distances) in zip(grid, result["distances"].items(), strict=True):
            for j, ax in enumerate(row):
                image = _heatmap(ax, np.array(distances)[..., j])
                ax.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
                ax.set_yticks(range(len(names)), names if j == 0 else [])
                ax.set_title(rf"$\beta_{j}$, $\epsilon$ = {epsilon}")
        made.colorbar(image, ax=grid, label="KS distance", shrink=0.4, pad=0.01)
    return made


def _heatmap(ax: Any, distances: np.ndarray) -> Any:
    image = ax.imshow(distances, cmap="Blues", vmin=0.0, vmax=0.5)
    for (row, column), value in np.ndenumerate(distances):
        text = "0" if row == column else f"{value:.2f}".removeprefix("0")
        ax.text(column, row, text, ha="center", va="center", fontsize=7.0, color="white" if value > 0.28 else "black")
    ax.tick_params(length=0.0)
    ax.spines[:].set_visible(False)
    return image


def to(result: dict[str, Any], epsilon: str, slug: str, other: str) -> float:
    """The largest distance over coefficients between two methods."""
    return float(np.max(result["distances"][epsilon][METHODS.index(slug)][METHODS.index(other)]))


def nearest(result: dict[str, Any], epsilon: str) -> str:
    """Which of the likelihood-free methods of the paper is the closest to DA-MCMC."""
    return min(("smc-abc", "sppe", "sple"), key=lambda slug: to(result, epsilon, slug, "da-mcmc"))


def paragraph(result: dict[str, Any]) -> str:
    parts = []
    for epsilon in result["distances"]:
        far = [f"{NAMES[slug]} {to(result, epsilon, slug, 'exact'):.2f}" for slug in METHODS[1:]]
        closest = NAMES[nearest(result, epsilon)]
        parts.append(
            f"At ε = {epsilon} the distances to the exact posterior are {joined(far)}; of SMC-ABC, SPPE and SPLE {closest} is "
            "the closest to DA-MCMC."
        )
    noise = 1.36 * float(np.sqrt(2.0 / result["draws"]))
    return (
        f"{' '.join(parts)} Two sets of {result['draws']:,} exact draws have less than {noise:.3f} in 95% of cases. The paper "
        "finds Gibbs-SS biased at "
        "ε = 10; a correct implementation agrees with the exact posterior (see the tables of the regression). RNPE ignores the "
        "known law of "
        "the noise and is far off at every budget."
    )
