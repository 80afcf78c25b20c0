"""Neural inference on two cores: an optimiser step against the same flow in PyTorch, SPPE on SIR against sbi's NPE-C, and ten rounds.

make rivals          # a virtual environment of its own with torch and sbi, then this
"""

import argparse
import json
import multiprocessing
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import noisewise as nw
from benchmarks.neural_accuracy import problem as ready
from benchmarks.neural_accuracy import score
from noisewise.estimators.members import ensemble
from noisewise.estimators.training import Training, train
from noisewise.metrics import c2st

RESULT = Path(__file__).parent / "results" / "neural_speed.json"
BATCH, ROWS, EPOCHS, TURNS = 100, 1000, 40, 5
ATOMS, LIMIT = 10, 15 * 60.0


class Rows(eqx.Module):
    """Fixed pairs."""

    target: Any
    condition: Any

    def __call__(self, key: Any, rows: Any) -> tuple[Any, Any]:
        return self.target[rows], self.condition[rows]


def steps() -> list[dict[str, object]]:
    """Milliseconds per optimiser step, batch 100, both in turns: data like those of the SIR (2 targets) and the regression (4)."""
    return [_steps(dim, width) for dim, width in ((2, 10), (4, 5))]


def _steps(dim: int, width: int) -> dict[str, object]:
    from benchmarks import rival

    rng = np.random.default_rng(0)
    target, condition = (rng.normal(size=(ROWS, size)).astype(np.float32) for size in (dim, width))
    members = ensemble(jax.random.key(0), nw.estimators.neural_spline_flow, 1, dim, width)
    weights = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(members, eqx.is_inexact_array)))
    split = np.arange(ROWS) < ROWS - BATCH
    num = EPOCHS * (int(split.sum()) // BATCH)
    settings = Training(max_epochs=EPOCHS, patience=EPOCHS, batch_size=BATCH)

    def ours() -> None:
        rows = {"train_rows": np.flatnonzero(split), "validation_rows": np.flatnonzero(~split), "capacity": ROWS}
        data = Rows(jnp.asarray(target), jnp.asarray(condition))
        train(jax.random.key(1), members, data, settings=settings, **rows)  # type: ignore[arg-type]

    row: dict[str, object] = {"what": "step", "targets": dim, "conditions": width, "batch": BATCH, "weights": weights}
    theirs = {}
    for name, build in (("nflows, same network", rival.same_flow), ("sbi's nsf", rival.sbi_flow)):
        for threads in (1, 2):
            theirs[name, threads] = rival.stepper(build, target, condition, BATCH, threads)
    ours()
    for run, _ in theirs.values():
        run(20)
    seconds: dict[Any, list[float]] = {"ours": []} | {key: [] for key in theirs}
    for _ in range(TURNS):
        seconds["ours"].append(_time(ours) / num)
        for key, (run, _) in theirs.items():
            seconds[key].append(_time(lambda run=run: run(100)) / 100)
    row["ours ms"] = round(1e3 * statistics.median(seconds["ours"]), 3)
    for name in ("nflows, same network", "sbi's nsf"):
        best = min(((name, threads) for threads in (1, 2)), key=lambda key: statistics.median(seconds[key]))
        ratios = [b / a for a, b in zip(seconds["ours"], seconds[best], strict=True)]
        row[f"{name} ms"] = round(1e3 * statistics.median(seconds[best]), 3)
        row[f"{name} threads"], row[f"{name} weights"] = best[1], theirs[best][1]
        row[f"{name} times slower"] = round(statistics.median(ratios), 1)
    return row | {"target": ">= 10"}


def _time(call: Any) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def inferences(seeds: range = range(1, 4)) -> list[dict[str, object]]:
    """SIR at epsilon 10, 2 rounds of 1000, the first time in a process and once compiled: SPPE as it is, with one noise at a time, with the
    atomic loss, and with what noisewise adds taken away, one noisy version of each simulation and the rival's learning rate; NPE-C on 1
    and on 2 threads.
    """
    made = ready("sir", 10.0)
    atomic = {"correction": nw.inference.AtomicProposals(num_atoms=ATOMS), "num_noise": 1}
    plain = Training(learning_rate=5e-4, averaging=0.0, decay=1.0)
    methods: dict[str, dict[str, Any]] = {
        "SPPE, truncated": {},
        "SPPE, truncated, one noise at a time": {"num_noise": 1},
        "SPPE, atomic": atomic,
        "SPPE, atomic, noise as in NPE-C": atomic | {"noise_bank": 1, "training": plain},
    }
    rows = []
    for name, settings in methods.items():
        method = nw.inference.PrivatePosteriorEstimation(num_rounds=2, **settings)
        jax.clear_caches()
        first, _ = _ours(made, method, 0)
        found = [_ours(made, method, seed) for seed in seeds]
        row = _row(name, method.num_noise, method.correction.num_atoms, found)
        rows.append(row | {"the first time": round(first, 1)})
        print(rows[-1], flush=True)
    for threads in (1, 2):
        rows.append(_row(f"sbi NPE-C, {threads} threads", 1, ATOMS, [_theirs(1, threads)]))
        print(rows[-1], flush=True)
    return rows


def _ours(made: Any, method: Any, seed: int) -> tuple[float, float]:
    started = time.perf_counter()
    posterior = method.infer(jax.random.key(seed), made.model, made.observed, progress=False)
    return time.perf_counter() - started, score(made, posterior)


def _theirs(seed: int, threads: int) -> tuple[float, float]:
    """In a process of its own, which is stopped after a quarter of an hour."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_npe_c, args=(queue, seed, threads))
    started = time.perf_counter()
    process.start()
    process.join(LIMIT)
    if process.is_alive():
        process.kill()
        return time.perf_counter() - started, float("nan")
    if process.exitcode:
        raise RuntimeError(f"NPE-C ended with exit code {process.exitcode}.")
    return queue.get()


def _npe_c(queue: Any, seed: int, threads: int) -> None:
    from benchmarks import rival

    made = ready("sir", 10.0)
    draws, seconds = rival.npe_c(made, seed, rounds=2, num=1000, atoms=ATOMS, threads=threads, limit=LIMIT)
    reference = made.reference(jax.random.key(99), 2000)
    queue.put((seconds, float("nan") if draws is None else round(float(c2st(reference, draws)), 4)))


def _row(name: str, noise: int, atoms: int, found: list[tuple[float, float]]) -> dict[str, object]:
    seconds, scores = zip(*found, strict=True)
    spent = statistics.median(seconds)
    stopped = bool(np.isnan(scores).all())
    return {
        "what": "SIR, epsilon 10, 2 x 1000",
        "method": name,
        "M": noise,
        "atoms": atoms,
        "seeds": len(found),
        "seconds": f"> {spent:.0f}" if stopped else round(spent, 1),
        "c2st": None if stopped else statistics.median(scores),
    }


def ten_rounds() -> list[dict[str, object]]:
    """The paper's whole budget with defaults, compilation included."""
    made = ready("sir", 10.0)
    jax.clear_caches()
    seconds, value = _ours(made, nw.inference.PrivatePosteriorEstimation(), 1)
    return [{"what": "SIR, 10 x 1000", "seconds": round(seconds, 1), "c2st": value, "target": "< 360 s"}]


PARTS = {"steps": steps, "inferences": inferences, "ten-rounds": ten_rounds}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"which of {', '.join(PARTS)}; all by default")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)  # so that compilation counts
    rows = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else {}
    for name in options.parts or list(PARTS):
        rows[name] = PARTS[name]()
        for row in rows[name]:
            print("  ".join(f"{key}: {value}" for key, value in row.items()))
        record = {"made by": "make rivals", "python": platform.python_version(), "jax": jax.__version__, "rows": rows}
        RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
