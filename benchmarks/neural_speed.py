"""An optimiser step of the paper's flow, batch 100, in turns with the same network in nflows and with sbi's own flow of that size."""

import importlib.util
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import noisewise as nw
from benchmarks.timing import in_turns, ratios, summary
from noisewise.estimators.members import ensemble
from noisewise.estimators.training import Training, train

BATCH, ROWS, EPOCHS, TURNS = 100, 1000, 40, 5
STEPS = 100
SIZES = {"like SIR": (2, 10), "like the regression": (4, 5)}
"""Targets and conditions."""


class Rows(eqx.Module):
    """Fixed pairs."""

    target: Any
    condition: Any

    def __call__(self, key: Any, rows: Any) -> tuple[Any, Any]:
        return self.target[rows], self.condition[rows]


def run(quick: bool = False) -> dict[str, Any]:
    """Milliseconds per step; rivals where they are installed, on 1 or 2 threads, whichever is faster."""
    rivals = not quick and importlib.util.find_spec("sbi") is not None
    return {name: steps(*sizes, turns=3 if quick else TURNS, rivals=rivals) for name, sizes in SIZES.items()}


def steps(dim: int, width: int, *, turns: int, rivals: bool) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    target, condition = (rng.normal(size=(ROWS, size)).astype(np.float32) for size in (dim, width))
    ours, num, weights = our_steps(target, condition, BATCH)
    calls: dict[str, Callable[[], object]] = {"noisewise": ours}
    counts, sizes = {"noisewise": num}, {"noisewise": weights}
    if rivals:
        from benchmarks.rivals import sbi_tools

        for name, build in (("nflows, same network", sbi_tools.same_flow), ("sbi's flow", sbi_tools.sbi_flow)):
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
            name: ratios(values, each["noisewise"]) for name, values in each.items() if name != "noisewise"
        },
    }


def our_steps(target: np.ndarray, condition: np.ndarray, batch: int) -> tuple[Callable[[], None], int, int]:
    """A whole short training, validation after every epoch included; the number of its steps, and of weights."""
    num = len(target)
    members = ensemble(jax.random.key(0), nw.estimators.neural_spline_flow, 1, target.shape[1], condition.shape[1])
    weights = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(members, eqx.is_inexact_array)))
    split = np.arange(num) < num - batch
    settings = Training(max_epochs=EPOCHS, patience=EPOCHS, batch_size=batch)
    rows: dict[str, Any] = {"train_rows": np.flatnonzero(split), "validation_rows": np.flatnonzero(~split)}
    data = Rows(jnp.asarray(target), jnp.asarray(condition))

    def ours() -> None:
        train(jax.random.key(1), members, data, settings=settings, capacity=num, **rows)  # type: ignore[arg-type]

    return ours, EPOCHS * (int(split.sum()) // batch), weights
