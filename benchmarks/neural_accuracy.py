"""Accuracy of learnt posteriors at the paper's budget, 10 rounds of 1000 simulations: C2ST against
exact draws, cell by cell.

    python -m benchmarks.neural_accuracy sppe-truncated sppe-atomic sple cle --seeds 5 --out cells.jsonl
    python -m benchmarks.neural_accuracy --table cells.jsonl

A cell is a method, a problem, an epsilon and a seed. Each is written to the file as soon as it is
done, and cells in the file are not run again. With --together the trials of a problem, over all
epsilons and seeds, train side by side, which is how a GPU wants them.
"""

import argparse
import dataclasses
import json
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import noisewise as nw
from benchmarks.cells import append, read
from benchmarks.history import sources
from noisewise.metrics import c2st

RESULT = Path(__file__).parent / "results" / "neural_accuracy.json"
SETTINGS = {
    "linear_regression": (10.0, 1.0, 0.1),
    "sir": (10.0, 1.0, 0.1),
    "log_linear": (10.0,),
}
NUM_DRAWS = 2000
REFERENCE, DRAWS = jax.random.key(99), jax.random.key(98)


METHODS: dict[str, Callable[[], Any]] = {
    "sppe-truncated": lambda: nw.inference.PrivatePosteriorEstimation(
        correction=nw.inference.TruncatedProposals()
    ),
    "sppe-atomic": lambda: nw.inference.PrivatePosteriorEstimation(
        correction=nw.inference.AtomicProposals(), num_noise=1
    ),
    "sple": lambda: nw.inference.PrivateLikelihoodEstimation(),
    "cle": lambda: nw.inference.ConfidentialLikelihoodEstimation(),
}


def problem(name: str, epsilon: float, backend: str = "numba") -> Any:
    """A ready problem; `backend` says what simulates epidemics."""
    made = getattr(nw.problems, name)(epsilon=epsilon)
    if name != "sir" or backend == "numba":
        return made
    simulator = dataclasses.replace(made.model.simulator, backend=backend)
    return dataclasses.replace(made, model=dataclasses.replace(made.model, simulator=simulator))


def score(made: Any, posterior: Any) -> float:
    """C2ST of 2000 draws against 2000 exact ones, on free coordinates."""
    free = list(made.free_columns)
    reference = made.reference(REFERENCE, NUM_DRAWS)
    return round(float(c2st(reference[:, free], posterior.sample(DRAWS, NUM_DRAWS)[:, free])), 4)


def cell(
    method: str, name: str, epsilon: float, seed: int, backend: str = "numba"
) -> dict[str, Any]:
    """One cell by itself."""
    made, started = problem(name, epsilon, backend), time.perf_counter()
    posterior = METHODS[method]().infer(
        jax.random.key(seed), made.model, made.observed, progress=False
    )
    seconds = time.perf_counter() - started
    return _record(method, name, epsilon, seed, score(made, posterior), posterior, seconds)


def one_training(name: str, seed: int, backend: str) -> Iterator[dict[str, Any]]:
    """Every epsilon of a problem from one training of the confidential likelihood."""
    made, started = problem(name, 1.0, backend), time.perf_counter()
    fit = METHODS["cle"]().fit(jax.random.key(seed), made.model, progress=False)
    for epsilon in SETTINGS[name]:
        made = problem(name, epsilon, backend)
        posterior = fit.posterior(jax.random.key(100 + seed), made.observed, made.model.mechanism)
        seconds = time.perf_counter() - started
        record = _record("cle", name, epsilon, seed, score(made, posterior), posterior, seconds)
        yield record | {"simulations": fit.report.num_simulations, "settings": fit.report.settings}


def together(
    method: str, name: str, cells: list[tuple[float, int]], backend: str
) -> Iterator[dict[str, Any]]:
    """Several cells of one problem, trained side by side; the seconds are those of all."""
    made = [problem(name, epsilon, backend) for epsilon, _ in cells]
    keys = [jax.random.key(seed) for _, seed in cells]
    started = time.perf_counter()
    rounds = METHODS[method]().rounds_of_many(
        keys, [m.model for m in made], [m.observed for m in made]
    )
    *_, posteriors = rounds
    seconds = time.perf_counter() - started
    for (epsilon, seed), m, posterior in zip(cells, made, posteriors, strict=True):
        record = _record(method, name, epsilon, seed, score(m, posterior), posterior, seconds)
        yield record | {"trials at once": len(cells)}


def _record(
    method: str, name: str, epsilon: float, seed: int, value: float, posterior: Any, seconds: float
) -> dict[str, Any]:
    return {
        "method": method,
        "problem": name,
        "epsilon": epsilon,
        "seed": seed,
        "c2st": value,
        "simulations": posterior.report.num_simulations,
        "seconds": round(seconds, 1),
        "settings": posterior.report.settings,
        "noisewise": sources(),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def run(
    names: list[str], seeds: range, out: Path, *, at_once: bool, backend: str, only: list[str]
) -> None:
    """Every cell that the file lacks."""
    done = {_identity(record) for record in read(out)}
    for method in names:
        for name in only:
            if method == "cle" and name != "linear_regression":
                continue
            missing = [
                (e, s) for e in SETTINGS[name] for s in seeds if (method, name, e, s) not in done
            ]
            if not missing:
                continue
            if at_once and method.startswith("sppe"):
                append(out, together(method, name, missing, backend))
            elif method == "cle":
                for seed in sorted({seed for _, seed in missing}):
                    append(out, one_training(name, seed, backend))
            else:
                for epsilon, seed in missing:
                    append(out, [cell(method, name, epsilon, seed, backend)])


def _identity(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["method"], record["problem"], record["epsilon"], record["seed"]


def table(paths: list[Path]) -> dict[str, Any]:
    """Cells of several files, and the median over seeds of each setting."""
    cells = {_identity(record): record for path in paths for record in read(path)}
    groups: dict[tuple[Any, ...], list[float]] = {}
    for (method, name, epsilon, _), record in sorted(cells.items()):
        groups.setdefault((method, name, epsilon), []).append(record["c2st"])
    rows = [
        {
            "method": m,
            "problem": p,
            "epsilon": e,
            "seeds": len(v),
            "median c2st": round(float(np.median(v)), 4),
            "worst": max(v),
        }
        for (m, p, e), v in groups.items()
    ]
    made = (
        "python -m benchmarks.neural_accuracy METHODS --out FILE (GPU: --together --backend jax),"
        " then --table FILE"
    )
    return {"made by": made, "rows": rows, "cells": [cells[key] for key in sorted(cells)]}


def main(arguments: list[str] | None = None, write: Callable[[str], Any] = print) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "methods", nargs="*", choices=[*METHODS, []], help="which methods; all by default"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--problems", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--out", type=Path, default=Path("neural_accuracy.jsonl"))
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--backend", default="numba", choices=["numba", "jax"])
    parser.add_argument("--table", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    if options.table:
        result = table(options.table)
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
        for row in result["rows"]:
            write("  ".join(f"{name}: {value}" for name, value in row.items()))
        return
    names = options.methods or list(METHODS)
    seeds = range(1, options.seeds + 1)
    run(
        names,
        seeds,
        options.out,
        at_once=options.together,
        backend=options.backend,
        only=options.problems,
    )


if __name__ == "__main__":
    main()
