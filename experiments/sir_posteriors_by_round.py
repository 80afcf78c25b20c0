"""Figure SIR-A: the posterior after some rounds."""

from __future__ import annotations

from typing import Any

from experiments import clouds
from experiments.items import Progress, Scale
from experiments.methods import NAMES

TITLE = "SIR: the posterior after some rounds"
PAPER = "Figure 1-A (fig:sir)"
QUESTION = (
    "After one round SPPE has found where the posterior is while SPLE still explores; after five"
    " both have concentrated there."
)


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    return clouds.collected(scale, progress, (1, 2, 5, scale.rounds))


def table(result: dict[str, Any]) -> str:
    return clouds.table(result)


def figure(result: dict[str, Any]) -> Any:
    return clouds.figure(result)


def paragraph(result: dict[str, Any]) -> str:
    first, last = result["rounds"][0], result["rounds"][-1]
    parts = [
        f"the mean of {NAMES[slug]} is {clouds.distance(result, slug, 0):.1f} exact standard"
        f" deviations off after round {first} and {clouds.distance(result, slug, -1):.2f} after"
        f" round {last}"
        for slug in clouds.LEARNERS
    ]
    exact, abc = result["exact"]["sd"], result["smc-abc"]["sd"]
    return (
        f"On average over trials {' and '.join(parts)}. The paper takes SMC-ABC for the truth."
        " Ours, averaged over trials at the last tolerance each came to, after"
        f" {result['smc-abc']['num_simulations']:,.0f} simulations, has standard deviations"
        f" ({abc[0]:.3f}, {abc[1]:.3f}); the exact ones are ({exact[0]:.3f}, {exact[1]:.3f})."
    )
