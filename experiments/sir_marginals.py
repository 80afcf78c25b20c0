"""Marginals of beta, gamma and beta / gamma."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import trials
from experiments.items import Progress, Scale
from experiments.methods import NAMES
from experiments.words import interval, markdown, number

TITLE = "SIR: marginals of β, γ and β/γ"
PAPER = "Figure 6 (fig:sir_hist)"
QUESTION = (
    "SPPE and SPLE perform similarly well; SPPE is slightly more concentrated than SMC-ABC and"
    " SPLE."
)
METHODS = ("exact", "smc-abc", "sppe", "sple")
QUANTITIES = ("beta", "gamma", "R0")
_POINTS = 600


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    found = {slug: trials.each("sir", 10.0, slug, scale, progress) for slug in METHODS}
    return {
        "truth": _rates(trials.made("sir", 10.0).truth[None])[0],
        "draws": {slug: _rates(each[0].final[:_POINTS]) for slug, each in found.items()},
        "moments": {
            slug: [_moments(trial.final) for trial in each] for slug, each in found.items()
        },
    }


def _rates(theta: np.ndarray) -> np.ndarray:
    """(N, 3): beta, gamma, R0."""
    theta = np.asarray(theta, dtype=float)
    return np.column_stack([np.exp(theta), np.exp(theta[:, 0] - theta[:, 1])])


def _moments(theta: np.ndarray) -> dict[str, Any]:
    rates = _rates(theta)
    low, high = np.quantile(rates, [0.025, 0.975], axis=0)
    return {"mean": rates.mean(0), "sd": rates.std(0, ddof=1), "low": low, "high": high}


def _mean(result: dict[str, Any], slug: str, name: str) -> np.ndarray:
    return np.mean([each[name] for each in result["moments"][slug]], axis=0)


def table(result: dict[str, Any]) -> str:
    rows = []
    for slug in METHODS:
        mean, sd, low, high = (_mean(result, slug, name) for name in ("mean", "sd", "low", "high"))
        decimals = (3, 4, 2)
        cells = [
            f"{interval(mean[j], low[j], high[j], d)}, sd {number(sd[j], d)}"
            for j, d in enumerate(decimals)
        ]
        rows.append([NAMES[slug], *cells])
    rows.append(["truth", *(number(v, d) for v, d in zip(result["truth"], (3, 4, 2), strict=True))])
    return markdown(["", "β", "γ", "β/γ"], rows)


def figure(result: dict[str, Any]) -> Any:
    from noisewise.plotting import marginals

    draws = {NAMES[slug]: np.array(result["draws"][slug]) for slug in METHODS}
    return marginals(draws, names=list(QUANTITIES), truth=result["truth"])[0].figure


def paragraph(result: dict[str, Any]) -> str:
    exact = _mean(result, "exact", "sd")
    ratios = {slug: _mean(result, slug, "sd") / exact for slug in METHODS[1:]}
    parts = [
        f"{NAMES[slug]} {ratio[0]:.2f}, {ratio[1]:.2f} and {ratio[2]:.2f}"
        for slug, ratio in ratios.items()
    ]
    return (
        "Standard deviations of β, γ and β/γ divided by the exact ones, mean over trials:"
        f" {'; '.join(parts)}. The paper has no exact posterior; it finds SPPE slightly more"
        " concentrated than SMC-ABC and SPLE. A ratio near 1 is what is right."
    )
