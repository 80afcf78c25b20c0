"""How the paper's claims about formulas and data are judged: orders of cost, nets, the privacy
proposition, the literature on R0.
"""

from __future__ import annotations

from typing import Any

from experiments import complexity, noise_rmse, outbreaks
from experiments.judges import PAPER_VALUES, Judge
from experiments.verdicts import HOLDS, NOT, PARTLY, UNTOLD, Judged, by_settings, graded
from experiments.words import joined


def grows(size: str, degree: int) -> Judge:
    """The degree in a size of the operations of a training step, by polynomials; the cost of PLE
    and of PPE alike.
    """

    def judge(result: dict[str, Any]) -> Judged:
        verdicts, told = [], []
        for kind in ("PLE", "PPE"):
            sweep = _sweep(result, kind, size)
            verdicts.append(_of_degree(sweep, degree))
            errors = [
                f"{complexity.polynomial(sweep, each)[0]:.1%} of degree {each}"
                for each in (degree, degree - 1)
            ]
            flat = complexity.least_degree(sweep) == 0
            told.append(
                f"{kind} {joined(errors)}{', so that it hardly grows over these sizes' * flat}"
            )
        text = (
            f"largest errors of polynomials for the operations: {'; '.join(told)}; within"
            f" {complexity.FITS:.0%} fits"
        )
        return by_settings(verdicts), text + (
            f"; {complexity.swapped(result)}" if size != "units" else ""
        )

    return judge


def _of_degree(sweep: dict[str, Any], degree: int) -> str:
    """Whether a polynomial of that degree fits and grows, and none of a lower degree fits; as many
    sizes as it has terms tell nothing.
    """
    if len(sweep["values"]) <= degree + 1:
        return UNTOLD
    _, leading = complexity.polynomial(sweep, degree)
    return HOLDS if complexity.least_degree(sweep) == degree and leading > 0.0 else NOT


def linear_in_records(result: dict[str, Any]) -> Judged:
    """The cost of simulations and that of noise in training steps, by the exponents of seconds."""
    found = {
        kind: float(_sweep(result, kind, "n")["seconds_last"]) for kind in ("simulation", "noise")
    }
    verdicts = [HOLDS if abs(last - 1.0) <= complexity.CLOSE else NOT for last in found.values()]
    told = joined([f"{kind} {last:.2f}" for kind, last in found.items()])
    return (
        by_settings(verdicts),
        (
            f"exponents of seconds at the largest sizes: {told}; claimed 1. Training steps draw"
            " noise for stored statistics, not for records: n is paid once per simulation"
        ),
    )


def _sweep(result: dict[str, Any], kind: str, size: str) -> dict[str, Any]:
    (found,) = [
        sweep for sweep in result["sweeps"] if (sweep["kind"], sweep["size"]) == (kind, size)
    ]
    return dict(found)


def literature(result: dict[str, Any]) -> Judged:
    """The exact mean of R0 within the range, or at least an interval that meets it, by outbreak."""
    verdicts, told = [], []
    for name, made in result["outbreaks"].items():
        exact, (low, high) = made["variants"]["released"]["exact"], made["literature"]
        inside, meets = (
            outbreaks.inside(exact, made["literature"]),
            outbreaks.overlaps(exact, made["literature"]),
        )
        verdict = HOLDS if inside else PARTLY if meets else NOT
        if name != "influenza":
            verdicts.append(verdict)
        part = exact["R0"]
        words = {HOLDS: "mean within", PARTLY: "interval meets", NOT: "outside"}[verdict]
        published = made["variants"]["published"]["exact"]["R0"]["mean"]
        told.append(
            f"{outbreaks.SHORT[name]} {part['mean']:.2f} ({part['low']:.2f}, {part['high']:.2f}; as"
            f" published {published:.2f}) for {low:g} to {high:g}, {words}"
        )
    return (
        by_settings(verdicts),
        (
            "exact R0 of the released curve (95% interval; mean from the curve as published, which"
            f" is not judged): {'; '.join(told)}; influenza is excepted by the paper"
        ),
    )


def nets(result: dict[str, Any]) -> Judged:
    """The slope of nets, by problem: near the paper's, or at least steeper than that of independent
    points.
    """
    found = result["problems"]
    told = [
        f"{noise_rmse.NAMES[name]} {made['RQMC']['slope']:.2f} (MC {made['MC']['slope']:.2f})"
        for name, made in found.items()
    ]
    verdicts = [
        HOLDS if made["paper_slope"] else PARTLY if made["steeper"] else NOT
        for made in found.values()
    ]
    gain = joined([f"{made['gain']:.2f}" for made in found.values()])
    return (
        by_settings(verdicts),
        f"slopes: {joined(told)}, claimed {PAPER_VALUES['slope']:g}; steeper than MC by {gain}",
    )


def proposition(result: dict[str, Any]) -> Judged:
    """The exact loss against the bound."""
    points = result["rows"] + [point for sweep in result["sweeps"].values() for point in sweep]
    held = [point["holds"] for point in points]
    ratio = [point["audit"] / point["paper"] for point in points]
    text = (
        f"exact epsilon at most n L / m in {sum(held)} of {len(held)} settings, {min(ratio):.2f} to"
        f" {max(ratio):.4f} of it"
    )
    return graded(held), text
