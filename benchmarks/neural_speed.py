"""An optimiser step of the paper's flow, batch 100, in turns with the same network in nflows and
with sbi's own flow of that size.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

from benchmarks.timing import in_turns, ratios, summary
from benchmarks.training import pairs, training

BATCH, ROWS, EPOCHS, TURNS = 100, 1000, 40, 5
STEPS = 100
SIZES = {"like SIR": (2, 10), "like the regression": (3, 9)}
"""Targets and conditions."""


def run(quick: bool = False) -> dict[str, Any]:
    """Milliseconds per step; rivals where they are installed, on 1 or 2 threads, whichever is
    faster.
    """
    rivals = not quick and importlib.util.find_spec("sbi") is not None
    return {
        name: steps(*sizes, turns=3 if quick else TURNS, rivals=rivals)
        for name, sizes in SIZES.items()
    }


def steps(dim: int, width: int, *, turns: int, rivals: bool) -> dict[str, Any]:
    target, condition = pairs(ROWS, dim, width)
    ours, num, weights = training(target, condition, batch=BATCH, epochs=EPOCHS, checks=BATCH)
    calls: dict[str, Callable[[], object]] = {"noisewise": ours}
    counts, sizes = {"noisewise": num}, {"noisewise": weights}
    if rivals:
        from benchmarks.rivals import sbi_tools

        for name, build in (
            ("nflows, same network", sbi_tools.same_flow),
            ("sbi's flow", sbi_tools.sbi_flow),
        ):
            for threads in (1, 2):
                place = f"{name}, {threads} threads"
                theirs, sizes[place] = sbi_tools.stepper(build, target, condition, BATCH, threads)
                calls[place], counts[place] = (lambda theirs=theirs: theirs(STEPS)), STEPS
    seconds = in_turns(calls, turns)
    each = {name: [value / counts[name] for value in values] for name, values in seconds.items()}
    return {
        "targets": dim,
        "conditions": width,
        "batch": BATCH,
        "target": ">= 10 times",
        "ms": {name: summary([1e3 * value for value in values]) for name, values in each.items()},
        "weights": sizes,
        "times slower": {
            name: ratios(values, each["noisewise"])
            for name, values in each.items()
            if name != "noisewise"
        },
    }
