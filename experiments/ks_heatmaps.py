"""Kolmogorov-Smirnov distances between all methods on the regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import trials
from experiments.items import Progress, Scale
from experiments.measures import spaced
from experiments.methods import NAMES
from experiments.words import joined, markdown, number
from noisewise.metrics import kolmogorov_smirnov

TITLE = "Linear regression: Kolmogorov-Smirnov distances between methods"
PAPER = "Figure 3 (fig:ks_test) and Figure 12 (fig:ks_test_appendix)"
QUESTION = (
    "At ε = 10 Gibbs-SS and RNPE are biased, at 1 and 0.1 RNPE alone; the others agree, and SPLE is"
    " the closest to DA-MCMC."
)
EPSILONS = (10.0, 1.0, 0.1)
METHODS = ("exact", "da-mcmc", "smc-abc", "sppe", "sple", "gibbs-ss", "rnpe", "exact-smc", "cle")
_FLOORS = 200


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    num = scale.num_draws // 2
    found = {f"{e:g}": _draws(e, num, scale, progress) for e in EPSILONS}
    return {
        "distances": {epsilon: distances(draws) for epsilon, draws in found.items()},
        "floor": {
            epsilon: floor(np.corrcoef(draws[0][0].T), num, scale.trials)
            for epsilon, draws in found.items()
        },
        "weighted": {
            f"{e:g}": _weighted(e, found[f"{e:g}"][0][0], num, scale, progress) for e in EPSILONS
        },
        "draws": num,
    }


def _draws(epsilon: float, num: int, scale: Scale, progress: Progress) -> list[list[np.ndarray]]:
    """By method and trial, (num, 3), as few repeated as there can be."""
    found = [trials.each("linear_regression", epsilon, slug, scale, progress) for slug in METHODS]
    return [[spaced(trial.final.astype(float), num) for trial in each] for each in found]


def _weighted(
    epsilon: float, exact: np.ndarray, num: int, scale: Scale, progress: Progress
) -> dict[str, float]:
    """How many draws SMC-ABC's weighted particles are worth, and what exact draws of that number
    would have.
    """
    found = trials.each("linear_regression", epsilon, "smc-abc", scale, progress)
    worth = min(num, round(float(np.mean([trial.rounds[-1]["effective_size"] for trial in found]))))
    return {"worth": worth, **floor(np.corrcoef(exact.T), num, scale.trials, worth)}


def distances(found: list[list[np.ndarray]]) -> list[list[list[np.ndarray]]]:
    """Of each method from those before it, by trial, (3,): between trials of the same seed; what
    has one trial serves all.
    """
    return [
        [
            [
                kolmogorov_smirnov(first[i % len(first)], second[i % len(second)])
                for i in range(max(len(first), len(second)))
            ]
            for second in found[:a]
        ]
        for a, first in enumerate(found)
    ]


def floor(
    correlation: np.ndarray, num: int, num_trials: int, worth: int | None = None
) -> dict[str, float]:
    """What tables show of exact methods: the mean over trials of the largest of three distances to
    one set of `num` exact draws.

    Trials have `num` draws too, or `worth`.

    Its mean and 95% quantile, simulated. Distances do not depend on the laws of the coefficients,
    so normal draws with the correlations of the exact posterior stand for its draws.
    """
    rng = np.random.default_rng(0)
    factor = np.linalg.cholesky(correlation)
    draw = lambda *size: rng.normal(size=(*size, len(factor))) @ factor.T  # noqa: E731
    shown = [_largest(draw(num), draw(num_trials, worth or num)) for _ in range(_FLOORS)]
    return {"mean": float(np.mean(shown)), "high": float(np.quantile(shown, 0.95))}


def _largest(exact: np.ndarray, sets: np.ndarray) -> float:
    """The mean over trials of the largest distance of `sets` (trials, K, 3) from exact draws (N,
    3).
    """
    return float(np.mean([kolmogorov_smirnov(exact, each).max() for each in sets]))


def between(result: dict[str, Any], epsilon: str, slug: str, other: str) -> np.ndarray:
    """Distances (trials, 3) between two methods."""
    a, b = sorted((METHODS.index(slug), METHODS.index(other)), reverse=True)
    return np.zeros((1, 3)) if a == b else np.array(result["distances"][epsilon][a][b], dtype=float)


def by_trial(result: dict[str, Any], epsilon: str, slug: str, other: str) -> np.ndarray:
    """The largest distance over coefficients between two methods, of each trial."""
    return np.asarray(between(result, epsilon, slug, other).max(axis=1))


def to(result: dict[str, Any], epsilon: str, slug: str, other: str) -> float:
    """The mean over trials of the largest distance over coefficients between two methods."""
    return float(by_trial(result, epsilon, slug, other).mean())


def nearest(result: dict[str, Any], epsilon: str) -> str:
    """Which of the likelihood-free methods of the paper is the closest to DA-MCMC, on average over
    trials.
    """
    return min(("smc-abc", "sppe", "sple"), key=lambda slug: to(result, epsilon, slug, "da-mcmc"))


def table(result: dict[str, Any]) -> str:
    parts = []
    for epsilon in result["distances"]:
        rows = [
            [NAMES[a], *(number(to(result, epsilon, a, b), 2) for b in METHODS)] for a in METHODS
        ]
        shown = markdown(["", *(NAMES[slug] for slug in METHODS)], rows)
        parts.append(
            f"ε = {epsilon}, the largest over the three coefficients, mean over trials\n\n{shown}"
        )
    return "\n\n".join(parts)


def figure(result: dict[str, Any]) -> Any:
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting.style import STYLE

    names = [NAMES[slug] for slug in METHODS]
    with matplotlib.rc_context(STYLE):
        made, grid = plt.subplots(
            len(EPSILONS), 3, figsize=(11.0, 3.55 * len(EPSILONS)), squeeze=False
        )
        for row, epsilon in zip(grid, result["distances"], strict=True):
            means = np.array(
                [[between(result, epsilon, a, b).mean(axis=0) for b in METHODS] for a in METHODS]
            )
            for j, ax in enumerate(row):
                image = _heatmap(ax, means[..., j])
                ax.set_xticks(
                    range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor"
                )
                ax.set_yticks(range(len(names)), names if j == 0 else [])
                ax.set_title(rf"$\beta_{j}$, $\epsilon$ = {epsilon}")
        made.colorbar(image, ax=grid, label="KS distance", shrink=0.4, pad=0.01)
    return made


def _heatmap(ax: Any, distances: np.ndarray) -> Any:
    image = ax.imshow(distances, cmap="Blues", vmin=0.0, vmax=0.5)
    for (row, column), value in np.ndenumerate(distances):
        text = "0" if row == column else f"{value:.2f}".removeprefix("0")
        ax.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=7.0,
            color="white" if value > 0.28 else "black",
        )
    ax.tick_params(length=0.0)
    ax.spines[:].set_visible(False)
    return image


def paragraph(result: dict[str, Any]) -> str:
    parts = []
    for epsilon in result["distances"]:
        far = [f"{NAMES[slug]} {to(result, epsilon, slug, 'exact'):.3f}" for slug in METHODS[1:]]
        closest, exact = NAMES[nearest(result, epsilon)], result["floor"][epsilon]
        weighted = result["weighted"][epsilon]
        highs = {
            slug: weighted["high"] if slug == "smc-abc" else exact["high"] for slug in METHODS[1:]
        }
        beyond = [
            NAMES[slug] for slug, high in highs.items() if to(result, epsilon, slug, "exact") > high
        ]
        parts.append(
            f"At ε = {epsilon} the distances to the exact posterior are {joined(far)}, where exact"
            f" draws would have {exact['mean']:.3f} (less than {exact['high']:.3f} in 95% of cases;"
            f" {weighted['worth']} of them, as many as SMC-ABC's weighted particles are worth, less"
            f" than {weighted['high']:.3f}), which {joined(beyond) if beyond else 'none'}"
            f" {'exceeds' if len(beyond) == 1 else 'exceed'}; of SMC-ABC, SPPE and SPLE, the mean"
            f" distance of {closest} to DA-MCMC is the smallest."
        )
    gibbs = to(result, "10", "gibbs-ss", "exact")
    return (
        f"{' '.join(parts)} All distances are between two sets of {result['draws']:,} draws: fewer"
        " would make them larger, of exact methods too. The paper finds Gibbs-SS biased at ε = 10,"
        f" by an implementation that is not published; ours is {gibbs:.2f} from the exact posterior"
        " there. RNPE ignores that the law of the noise is known, so that it has no reason to"
        " agree; by how much it does not, the distances say."
    )
