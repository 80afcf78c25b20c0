"""Marginals of the log-linear model."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import trials
from experiments.items import Progress, Scale
from experiments.methods import NAMES
from experiments.words import joined, markdown, number

TITLE = "Log-linear model: marginals"
PAPER = "Figure 14 (fig:loglinear_hist)"
QUESTION = "After ten rounds the marginals of SPPE, SPLE and SMC-ABC agree."
METHODS = ("exact", "smc-abc", "sppe", "sple")
NAMES_OF_COLUMNS = ("p^1_11", "p^2_11", "p^1_21", "p^2_21", "p_1")
LABELS = ("$p^1_{1,1}$", "$p^2_{1,1}$", "$p^1_{2,1}$", "$p^2_{2,1}$", "$p_1$")
_POINTS = 500


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    found = {slug: trials.each("log_linear", 10.0, slug, scale, progress) for slug in METHODS}
    problem = trials.made("log_linear", 10.0)
    free = list(problem.free_columns)
    last = {slug: [trial.rounds[-1] for trial in each] for slug, each in found.items()}
    return {
        "truth": problem.truth[free],
        "draws": {slug: each[0].final[:_POINTS, free] for slug, each in found.items()},
        "mean": {
            slug: [np.array(each["mean"])[free] for each in rounds] for slug, rounds in last.items()
        },
        "sd": {
            slug: [np.array(each["sd"])[free] for each in rounds] for slug, rounds in last.items()
        },
    }


def table(result: dict[str, Any]) -> str:
    rows = []
    for slug in METHODS:
        mean, sd = (np.mean(result[name][slug], axis=0) for name in ("mean", "sd"))
        rows.append(
            [
                NAMES[slug],
                *(f"{number(m, 3)} ± {number(s, 3)}" for m, s in zip(mean, sd, strict=True)),
            ]
        )
    rows.append(["truth", *(number(value, 3) for value in result["truth"])])
    return markdown(["mean ± sd", "p¹₁₁", "p²₁₁", "p¹₂₁", "p²₂₁", "p₁"], rows)


def figure(result: dict[str, Any]) -> Any:
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting import marginals
    from noisewise.plotting.style import STYLE

    draws = {NAMES[slug]: np.array(result["draws"][slug]) for slug in METHODS}
    with matplotlib.rc_context(STYLE):
        made, axes = plt.subplots(1, len(LABELS), figsize=(9.6, 2.4))
        marginals(draws, names=list(NAMES_OF_COLUMNS), truth=result["truth"], axes=axes)
        for ax, text in zip(axes, LABELS, strict=True):
            ax.set(xlabel=text, ylabel="density" if ax is axes[0] else "")
        handles, texts = axes[0].get_legend_handles_labels()
        axes[0].get_legend().remove()
        made.legend(handles, texts, loc="outside upper center", ncols=len(texts))
    return made


def paragraph(result: dict[str, Any]) -> str:
    exact_mean, exact_sd = (np.mean(result[name]["exact"], axis=0) for name in ("mean", "sd"))
    parts = []
    for slug in METHODS[1:]:
        mean, sd = (np.mean(result[name][slug], axis=0) for name in ("mean", "sd"))
        off, ratio = np.abs(mean - exact_mean) / exact_sd, sd / exact_sd
        parts.append(
            f"{NAMES[slug]} by at most {off.max():.2f}, with sds of {ratio.min():.2f} to"
            f" {ratio.max():.2f} of the exact ones"
        )
    return (
        "In units of exact standard deviations the means, averaged over trials, are off in"
        f" {joined(parts)}. This model has exact, independent draws, against which the paper does"
        " not compare."
    )
