"""Accuracy against rounds on the log-linear model."""

from __future__ import annotations

from typing import Any

from experiments import accuracy
from experiments.items import Progress, Scale

TITLE = "Log-linear model: accuracy against rounds"
PAPER = "Figure 13 (fig:loglinear_accu)"
QUESTION = "Both methods are stable after round 3."
METHODS = ("sppe", "sple")


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    return {"panel": accuracy.panel(scale, progress, "log_linear", 10.0, METHODS)}


def table(result: dict[str, Any]) -> str:
    return accuracy.table(result["panel"])


def figure(result: dict[str, Any]) -> Any:
    return accuracy.figure({"Log-linear, ε = 10": result["panel"]})


def paragraph(result: dict[str, Any]) -> str:
    shown = result["panel"]
    return (
        f"{accuracy.sentence(shown)}. {accuracy.stays(shown)}. Distances are taken on the five free"
        " probabilities, not on all ten columns, of which half are one minus others."
    )
