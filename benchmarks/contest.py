"""Head to head: every contender on the same problems with the same simulators, scored against draws
of the exact posterior.

    RIVALS=.cache/rivals/bin/python                                      # made by make rivals
    $RIVALS -m benchmarks.contest                                       # the cells behind the claims that are still missing
    $RIVALS -m benchmarks.contest --contender sppe sbi-npe --seed 1 2 3
    $RIVALS -m benchmarks.contest --contender sppe sbi-npe --large      # rounds of 10,000, up to 100,000

A cell is a contender, a problem, a seed and a number of threads. It runs in a process of its own,
bound to as many cores as it has threads, with nothing compiled before. The clock runs while the
contender works, from its first step to the draws of each stage, and stands still while these are
scored; at 15 minutes it ends the cell. A cell is written to `results/head_to_head.jsonl` as soon as
it is done, and runs again only with --again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import append, read
from benchmarks.contenders import CONTENDERS
from benchmarks.history import circumstances, sources

STORE = Path(__file__).parent / "results" / "head_to_head.jsonl"
PROBLEMS = ("linear_regression", "sir")
EPSILON = 10.0
"""The paper's main budget."""
LIMIT = 15 * 60.0
"""Seconds of work after which a cell is ended: a round number, which the page states."""
MOST = 10_000
"""Simulations of a method that learns: the paper's 10 rounds of 1000."""
LARGE = 100_000
"""Simulations where rounds have 10,000: about what the paper gives SMC-ABC."""
ROUND = 1000
"""Simulations per round, as in the paper."""
NUM_DRAWS = 1000
"""Draws that are scored, of ours and of the exact posterior: C2ST then has an sd of .011."""
CLAIMED = ("sppe", "cle", "exact-smc", "sbi-npe", "pyabc-exact")
INSTEAD_OF_CLE = (("sple",), ("sir",))
"""Who stands in for CLE, and where there is no density to learn."""
SEEDS = (1, 2, 3)


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is run; `large` means rounds of 10,000 simulations, up to 100,000."""

    contender: str
    problem: str
    seed: int
    threads: int = 1
    large: bool = False

    @property
    def most(self) -> int:
        """Simulations after which a contender that could go on is ended."""
        if CONTENDERS[self.contender].neural:
            return LARGE if self.large else MOST
        return 10**9


class Clock:
    """Seconds of work, which end the process once they pass the limit: no rival can be asked to
    stop in the middle of a round.
    """

    def __init__(self, limit: float, at_end: Any) -> None:
        self.seconds, self._limit, self._at_end = 0.0, limit, at_end

    def timed(self, call: Any) -> Any:
        """What the call returns, its time added."""
        watchdog = threading.Timer(self._limit - self.seconds, self._end)
        watchdog.daemon = True
        started = time.perf_counter()
        watchdog.start()
        try:
            return call()
        finally:
            watchdog.cancel()
            self.seconds += time.perf_counter() - started

    def _end(self) -> None:
        for child in multiprocessing.active_children():
            child.kill()
        self._at_end()
        os._exit(0)


def run_cell(cell: Cell, *, limit: float = LIMIT, most: int | None = None) -> dict[str, Any]:
    """One cell in this process; where the limit passes, its record is printed and the process ends."""
    import jax

    from noisewise import problems
    from noisewise.metrics import c2st

    made = getattr(problems, cell.problem)(epsilon=EPSILON)
    free = list(made.free_columns)
    reference = made.reference(jax.random.key(99), NUM_DRAWS)[:, free]
    record = {**dataclasses.asdict(cell), "epsilon": EPSILON, "stages": []}
    record |= circumstances(CONTENDERS[cell.contender].packages)
    clock = Clock(limit, lambda: print_record(_ended(record, "limit", limit)))
    stages = CONTENDERS[cell.contender].start(
        made, cell.seed, threads=cell.threads, num=10 * ROUND if cell.large else ROUND
    )
    while (stage := clock.timed(lambda: next(stages, None))) is not None:
        simulations, draws = stage
        draws = np.asarray(draws, dtype=float)[:, free]
        score = float(c2st(reference[: len(draws)], draws)) if np.isfinite(draws).all() else 1.0
        stage_record = {
            "simulations": int(simulations),
            "seconds": round(clock.seconds, 2),
            "c2st": round(score, 4),
        }
        record["stages"].append(
            stage_record | ({} if len(draws) == NUM_DRAWS else {"draws": len(draws)})
        )
        print(f"{cell} {record['stages'][-1]}", file=sys.stderr, flush=True)
        if simulations >= (most or cell.most):
            return _ended(record, "budget", clock.seconds)
    return _ended(record, "finished", clock.seconds)


def print_record(record: dict[str, Any]) -> None:
    """Print a record on its own line: a rival may have printed text without an end of line."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), f"\n{json.dumps(record)}\n".encode())


def _ended(record: dict[str, Any], why: str, seconds: float) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**record, "ended": why, "seconds": round(seconds, 2), "peak MiB": round(peak)}


# Many cells ---------------------------------------------------------------------------------------


def identity(record: dict[str, Any] | Cell) -> tuple[Any, ...]:
    """What identifies a cell."""
    parts = dataclasses.asdict(record) if isinstance(record, Cell) else record
    return tuple(parts[field.name] for field in dataclasses.fields(Cell))


def stored(path: Path = STORE) -> list[dict[str, Any]]:
    """The cells measured so far, the latest of each; those that failed are to be run again."""
    latest = {identity(record): record for record in read(path)}
    return [record for record in latest.values() if record["ended"] != "failed"]


def chosen(
    contenders: Sequence[str] = CLAIMED,
    problems: Sequence[str] = PROBLEMS,
    seeds: Sequence[int] = SEEDS,
    *,
    threads: int = 1,
    large: bool = False,
) -> list[Cell]:
    """All cells of these, but those that a contender does not serve; the first seed of all comes
    first.
    """
    return [
        Cell(contender, problem, seed, threads, large)
        for seed in seeds
        for contender in contenders
        for problem in problems
        if problem in CONTENDERS[contender].problems
    ]


def missing(path: Path = STORE) -> list[Cell]:
    """Cells behind the claims that are not stored, or of ours with other sources than these; one
    thread first.
    """
    now = sources()
    done = {
        identity(record)
        for record in stored(path)
        if not CONTENDERS[record["contender"]].ours or record["noisewise"] == now
    }
    cells = [
        cell
        for threads in (1, 2)
        for cell in (*chosen(threads=threads), *chosen(*INSTEAD_OF_CLE, threads=threads))
    ]
    return [cell for cell in cells if identity(cell) not in done]


def run_cells(cells: Sequence[Cell], *, path: Path = STORE, until: float = float("inf")) -> None:
    """Run each cell in its own process on its own cores; start none that could end after `until`
    (time.monotonic).
    """
    cores = sorted(os.sched_getaffinity(0))
    free, waiting = list(cores), list(cells)
    running: list[Turn] = []
    try:
        while waiting or running:
            while waiting and len(free) >= min(waiting[0].threads, len(cores)):
                cell = waiting.pop(0)
                if time.monotonic() + LIMIT > until:
                    continue
                own = [free.pop() for _ in range(min(cell.threads, len(cores)))]
                running.append(_begun(cell, own))
            for turn in [turn for turn in running if turn.process.poll() is not None]:
                append(path, [turn.record()])
                running.remove(turn)
                free += turn.cores
            time.sleep(0.5)
    finally:
        for turn in running:
            turn.process.kill()


def _begun(cell: Cell, cores: list[int]) -> Turn:
    environment = {
        name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"
    }
    environment |= {"JAX_ENABLE_COMPILATION_CACHE": "false", "OMP_NUM_THREADS": str(cell.threads)}
    command = [
        sys.executable,
        "-m",
        "benchmarks.contest",
        "--cell",
        json.dumps(dataclasses.asdict(cell)),
    ]
    output = tempfile.TemporaryFile("w+")  # noqa: SIM115, a pipe that nobody reads would block a process that prints much
    process = subprocess.Popen(command, stdout=output, env=environment)
    os.sched_setaffinity(process.pid, cores)
    return Turn(cell, cores, process, output)


@dataclasses.dataclass
class Turn:
    """A cell that is running."""

    cell: Cell
    cores: list[int]
    process: subprocess.Popen[bytes]
    output: Any

    def record(self) -> dict[str, Any]:
        """The record that it printed; if it crashed, a record of failure."""
        self.output.seek(0)
        lines = [line for line in self.output.read().splitlines() if line.startswith("{")]
        self.output.close()
        if self.process.returncode or not lines:
            failed = {
                **dataclasses.asdict(self.cell),
                "epsilon": EPSILON,
                "stages": [],
                "seconds": 0.0,
                "peak MiB": 0,
            }
            return (
                failed
                | circumstances(CONTENDERS[self.cell.contender].packages)
                | {"ended": "failed"}
            )
        found: dict[str, Any] = json.loads(lines[-1])
        return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--contender", nargs="+", default=list(CLAIMED), choices=list(CONTENDERS))
    parser.add_argument("--problem", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--seed", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--threads", type=int, default=1, choices=[1, 2])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--again", action="store_true", help="also cells that are stored")
    parser.add_argument(
        "--minutes",
        type=float,
        default=float("inf"),
        help="start no cell that could end later than this",
    )
    parser.add_argument("--out", type=Path, default=STORE)
    parser.add_argument("--limit", type=float, default=LIMIT, help=argparse.SUPPRESS)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.cell:
        print_record(run_cell(Cell(**json.loads(options.cell)), limit=options.limit))
        return
    cells = chosen(
        options.contender,
        options.problem,
        options.seed,
        threads=options.threads,
        large=options.large,
    )
    done = set() if options.again else {identity(record) for record in stored(options.out)}
    until = time.monotonic() + 60.0 * options.minutes
    run_cells([cell for cell in cells if identity(cell) not in done], path=options.out, until=until)


if __name__ == "__main__":
    main()
