"""Runs, each in a process of its own on one core, and their lines of JSON."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cells import append, read

Run = dict[str, Any]
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""For libraries that read it when they are loaded; the core they are bound to does the rest."""


def runs(
    problems: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    simulations: int,
    settings: Mapping[str, Any],
) -> list[Run]:
    """All combinations, the first seed of all first."""
    return [
        {
            "problem": problem,
            "method": method,
            "settings": dict(settings),
            "seed": seed,
            "simulations": simulations,
        }
        for seed in seeds
        for problem in problems
        for method in methods
    ]


def identity(record: Mapping[str, Any]) -> str:
    """What identifies a run."""
    names = ("problem", "method", "settings", "seed", "simulations")
    return json.dumps([record[name] for name in names], sort_keys=True)


def missing(wanted: Sequence[Run], path: Path) -> list[Run]:
    """Those without a line in the file; failed ones are tried again."""
    done = {identity(record) for record in read(path) if "failed" not in record}
    return [run for run in wanted if identity(run) not in done]


def run_all(wanted: Sequence[Run], path: Path, *, cold: bool, core: int | None) -> None:
    """Each missing run in a process of its own; its line is written when it ends."""
    for run in missing(wanted, path):
        append(path, [in_own_process(run, cold=cold, core=core)])


def in_own_process(run: Run, *, cold: bool, core: int | None) -> Run:
    """The record of one run, or of its failure.

    `cold` leaves out programs compiled before.
    """
    environment = dict(os.environ) | ONE_THREAD
    if cold:
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    command = [sys.executable, "-m", "benchmarks.learning", "--run", json.dumps(run)]
    command += [] if core is None else ["--core", str(core)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in ended.stdout.splitlines() if line.startswith('{"problem"')]
    if ended.returncode or not lines:
        return run | {"failed": (ended.stderr or ended.stdout)[-500:]}
    return json.loads(lines[-1]) | {"cold": cold}


def bind(core: int | None) -> None:
    """Bind this process to one core: the one that is named, or one by its process id."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[os.getpid() % len(cores)] if core is None else core})


def one(run: Run) -> Run:
    """The record of a run in this process.

    The clock runs from the method's first step to its 1,000 draws. Imports, the problem and the
    scores are not timed; compiling and simulating are.
    """
    from benchmarks.learning.catalogue import problem
    from benchmarks.learning.methods import method
    from benchmarks.learning.scores import scores

    made, work = problem(run["problem"]), method(run["method"])
    exact = made.reference()
    started, busy = time.perf_counter(), time.process_time()
    try:
        outcome = work(made, run["seed"], run["simulations"], run["settings"])
    except Exception as problem_met:
        traceback.print_exc()
        return run | {"failed": f"{type(problem_met).__name__}: {problem_met}"[:500]}
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    return run | {
        "num_simulations": outcome.num_simulations,
        **scores(exact, outcome.draws),
        "seconds": round(seconds, 2),
        "cpu seconds": round(busy, 2),
        "findings": outcome.findings,
        "numbers": outcome.numbers,
        "peak MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def table(records: Sequence[Run]) -> str:
    """Means over seeds, a row for each problem and method with its settings."""
    rows: dict[tuple[str, str, str], list[Run]] = {}
    for record in {identity(record): record for record in records}.values():
        said = " ".join(f"{name}={value}" for name, value in record["settings"].items())
        rows.setdefault((record["problem"], record["method"], said), []).append(record)
    lines = ["problem        method      seeds  c2st (range)      shift rms max   s    cpu s  what"]
    for (problem, name, said), found in sorted(rows.items()):
        good = [record for record in found if record.get("shift max") is not None]
        if not good:
            lines.append(f"{problem:14} {name:12} failed or not finite {said}")
            continue
        mean = lambda field, good=good: sum(r[field] for r in good) / len(good)  # noqa: E731
        low, high = (edge(r["c2st"] for r in good) for edge in (min, max))
        kinds = sorted({kind for record in good for kind in record["findings"]})
        lines.append(
            f"{problem:14} {name:12} {len(good)}/{len(found)}"
            f"   {mean('c2st'):.3f} ({low:.3f}-{high:.3f})"
            f"  {mean('shift rms'):.2f} {mean('shift max'):.2f}"
            f" {mean('seconds'):6.1f} {mean('cpu seconds'):6.1f}  {said} {','.join(kinds)}"
        )
    return "\n".join(lines)
