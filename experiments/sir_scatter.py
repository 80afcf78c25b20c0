"""The posterior of the epidemic after every round."""

from __future__ import annotations

from typing import Any

from experiments import clouds
from experiments.items import Progress, Scale
from experiments.methods import NAMES

TITLE = "SIR: the posterior after every round"
PAPER = "Figure 4 (fig:sir_scatter)"
QUESTION = "Both methods meet the SMC-ABC posterior within ten rounds of 1000 simulations."


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    return clouds.collected(scale, progress, tuple(range(1, scale.rounds + 1)))


def table(result: dict[str, Any]) -> str:
    return clouds.table(result)


def figure(result: dict[str, Any]) -> Any:
    return clouds.figure(result)


def paragraph(result: dict[str, Any]) -> str:
    parts = []
    for slug in clouds.LEARNERS:
        away = [clouds.distance(result, slug, i) for i in range(len(result["rounds"]))]
        near = next((r for r, d in zip(result["rounds"], away, strict=True) if d < 0.5), None)
        when = (
            "in no round"
            if near is None
            else (
                f"from round {near} on" if max(away[near - 1 :]) < 0.5 else f"first in round {near}"
            )
        )
        parts.append(
            f"{NAMES[slug]} has its mean within half an exact standard deviation of the exact one"
            f" {when}"
        )
    exact, abc = (result[name]["sd"] for name in ("exact", "smc-abc"))
    return (
        f"On average over trials {' and '.join(parts)}. The target is the exact posterior (grey"
        f" regions), with sds ({exact[0]:.3f}, {exact[1]:.3f}), not SMC-ABC, which the paper takes"
        f" for it and whose sds here are ({abc[0]:.3f}, {abc[1]:.3f})."
    )
