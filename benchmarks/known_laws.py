"""The ready problems whose statistic has a known law, by `nw.infer` with its defaults: C2ST and means
against exact draws, and seconds the first time in a process, with compilation, and again.

python -m benchmarks.known_laws            # all four at epsilon 10, 1, .1, kept under benchmarks/results/; six minutes on two cores
python -m benchmarks.known_laws --quick    # contingency alone, printed
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np

from benchmarks import history
from experiments.words import markdown

PROBLEMS = ("small_area", "randomized_response", "contingency", "incomes")
EPSILONS = (10.0, 1.0, 0.1)
NUM = 2_000
"""Exact draws, and draws of each answer."""


def measure(name: str, epsilon: float) -> dict[str, Any]:
    """Two answers in this process, which has compiled nothing before."""
    import noisewise as nw

    problem = getattr(nw.problems, name)(epsilon)
    prior = problem.model.prior
    exact = problem.reference(jax.random.key(100), NUM)
    found: dict[str, Any] = {"problem": name, "epsilon": epsilon}
    for seed, when in enumerate(("first", "again")):
        wall, cpu = time.perf_counter(), time.process_time()
        posterior = nw.infer(jax.random.key(seed), problem.model, problem.observed, progress=False)
        seconds = {
            "seconds": time.perf_counter() - wall,
            "CPU seconds": time.process_time() - cpu,
        }
        z = prior.unconstrain(posterior.sample(jax.random.key(200 + seed), NUM))
        shift = np.abs(posterior.theta.mean(0) - exact.mean(0)) / exact.std(0)
        size = posterior.report.diagnostics["effective size"]
        found[when] = {
            **seconds,
            "route": posterior.report.diagnostics["route"],
            "exact": posterior.report.exact,
            "C2ST": nw.metrics.c2st(z, prior.unconstrain(exact)),
            "worst mean, sd": float(shift.max()),
            "allowed": 0.05 + 3.0 * float(np.sqrt(1.0 / NUM + 1.0 / size)),
            "effective size": size,
        }
    return found


def run(quick: bool = False) -> dict[str, Any]:
    """All cells, each in a process of its own."""
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    rows = []
    for name in PROBLEMS[2:3] if quick else PROBLEMS:
        for epsilon in EPSILONS:
            command = [sys.executable, "-m", "benchmarks.known_laws", "--cell", name, str(epsilon)]
            done = subprocess.run(
                command, env=environment, check=True, stdout=subprocess.PIPE, text=True
            )
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(table(rows[-1:]), flush=True)
    return {"rows": rows}


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each problem and budget; numbers of the first and of the second answer."""
    cells = [
        [
            row["problem"],
            f"{row['epsilon']:g}",
            *(
                " / ".join(f"{row[when][name]:.{digits}f}" for when in ("first", "again"))
                for name, digits in (
                    ("C2ST", 3),
                    ("worst mean, sd", 3),
                    ("allowed", 3),
                    ("seconds", 1),
                    ("CPU seconds", 1),
                )
            ),
            row["first"]["route"] + ("" if row["first"]["exact"] else ", not exact"),
        ]
        for row in rows
    ]
    names = ["problem", "epsilon", "C2ST", "worst mean, sd", "allowed", "seconds", "CPU s", "route"]
    return markdown(names, cells)


def section(found: dict[str, Any] | None) -> str:
    """The section of the page; nothing where it was not run."""
    if found is None:
        return ""
    return (
        "## Known laws\n\nProblems whose statistic has a known law, by `nw.infer` with its defaults,"
        " against 2,000 exact draws: the first answer of a process, with compilation, and the"
        " second with another key. C2ST of equal laws is .5 with a standard error of .011; means"
        " may be off by .05 sd and three Monte Carlo errors, which is what is allowed.\n\n"
        + table(found["rows"])
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cell", nargs=2, metavar=("PROBLEM", "EPSILON"))
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(measure(options.cell[0], float(options.cell[1]))))
        return
    found = run(options.quick)
    if not options.quick:
        history.keep("known_laws", found)
        print(table(found["rows"]))


if __name__ == "__main__":
    main()
