"""SIR accuracy against rounds where privacy is strong."""

from __future__ import annotations

from typing import Any

from experiments import accuracy
from experiments.items import Progress, Scale

TITLE = "SIR: accuracy against rounds at ε = 1 and 0.1"
PAPER = "Figure 8 (fig:sir_diffeps)"
QUESTION = "SPPE converges fast and stably; SPLE needs about 5 rounds."
EPSILONS = (1.0, 0.1)
METHODS = ("sppe", "sple")


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    return {
        "panels": {f"{e:g}": accuracy.panel(scale, progress, "sir", e, METHODS) for e in EPSILONS}
    }


def table(result: dict[str, Any]) -> str:
    return "\n\n".join(
        f"ε = {e}\n\n{accuracy.table(shown)}" for e, shown in result["panels"].items()
    )


def figure(result: dict[str, Any]) -> Any:
    names = zip("AB", result["panels"].items(), strict=True)
    return accuracy.figure({f"{letter}. ε = {e}": shown for letter, (e, shown) in names})


def paragraph(result: dict[str, Any]) -> str:
    parts = [
        f"At ε = {e} {accuracy.sentence(shown)}. {accuracy.stays(shown)}."
        for e, shown in result["panels"].items()
    ]
    return (
        f"{' '.join(parts)} The paper's observations at these budgets come from other epidemics"
        " than the one at ε = 10: budgets must not be compared by these figures."
    )
