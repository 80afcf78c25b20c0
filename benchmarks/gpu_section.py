"""The section of the page that was measured on a GPU."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from benchmarks.sections import PICTURES, stored_json
from experiments.words import markdown
from noisewise.plotting.style import looks, styled


def gpu() -> str:
    """One page measured on a GPU by the same script that runs on a CPU."""
    found = stored_json("gpu")
    if found is None:
        return ""
    parts = [
        "## On a GPU",
        f"`python -m benchmarks.gpu` on one {next(iter(found.values()))['device']}.",
    ]
    if "throughput" in found:
        rows = [
            [
                f"{row['batch']:,}",
                f"{row['ms']:.2f} ({row['least']:.2f} to {row['most']:.2f})",
                f"{row['pairs per second']:,}",
            ]
            for row in found["throughput"]["rows"]
        ]
        parts.append(
            "Training the 8-layer flow (2 targets, 10"
            f" conditions):\n\n{markdown(['batch', 'ms per step', 'pairs per second'], rows)}"
        )
        parts.append(f"![Pairs per second against the batch]({PICTURES}/gpu.png)")
    scores = found.get("score", {})
    if "trials" in found:
        parts.append(_trials(found["trials"], scores.get("trials")))
    if "exact_smc" in found:
        parts.append(_particles(found["exact_smc"], scores.get("exact_smc")))
    return "\n\n".join(parts)


def _trials(made: dict[str, Any], score: Any) -> str:
    done, asked = len(made["rounds"]), made["rounds asked for"]
    seconds, simulations = made["rounds"][-1]["seconds"], made["simulations per round"]
    text = (
        f"{made['trials']} trials of SPPE at once on SIR at epsilon 10 (atomic loss, 10 atoms, M ="
        f" 32, 8 layers, {simulations:,} simulations a round): {done} of {asked} rounds in"
        f" {seconds:.0f} s, compilation included, {seconds / made['trials']:.0f} s a trial"
    )
    if score:
        text += (
            f"; C2ST {score['median']:.3f} (median; {min(score['c2st']):.3f} to"
            f" {max(score['c2st']):.3f})"
        )
    return text + "."


def _particles(made: dict[str, Any], score: Any) -> str:
    last = made["stages"][-1]
    ended = (
        "to the end"
        if made["exact"]
        else f"not ended, at power {last.get('temperature', 0.0):.2g} of the mechanism's density"
    )
    text = (
        f"ExactSMC with {made['particles']:,} particles on SIR at epsilon 10:"
        f" {last['simulations']:,} simulations in {last['seconds']:.0f} s, {ended}"
    )
    if score:
        text += f"; C2ST {score['median']:.3f}"
    return text + "."


@styled
def gpu_figure(found: dict[str, Any]) -> Figure:
    figure, ax = plt.subplots(figsize=(4.5, 3.0))
    rows = found["rows"]
    ax.plot(
        [row["batch"] for row in rows],
        [row["pairs per second"] for row in rows],
        **looks(["pairs"])["pairs"],
    )
    ax.set(xscale="log", yscale="log", xlabel="batch", ylabel="training pairs per second")
    return figure
