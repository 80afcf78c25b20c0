"""What a GPU buys: training pairs per second against the batch, a million particles, and twenty
inferences side by side.

    python -m benchmarks.gpu --out gpu.json                                   # on a GPU
    python -m benchmarks.gpu --part throughput trials --minutes 8 --out gpu.json
    JAX_PLATFORMS=cpu python -m benchmarks.gpu --quick --out /tmp/gpu.json    # the same at tiny sizes, to try it

The file is written after every batch size, stage and round, so that a run that is stopped leaves
what it had. Draws are kept beside it; `--part score`, the last part, scores them on a CPU, of this
machine or another.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import noisewise as nw
from benchmarks.neural_accuracy import problem
from benchmarks.timing import elapsed
from benchmarks.training import pairs, training
from noisewise.estimators.training import Training
from noisewise.metrics import c2st

BATCHES, FEW_BATCHES = (100, 320, 1000, 3200, 10_000, 32_000), (100, 320)
STEPS, TURNS = 10, 5
PARTICLES, FEW_PARTICLES = 1_000_000, 1000
EPSILON, NUM_DRAWS = 10.0, 1000
_CHECKS = 100


class Log:
    """A JSON file of parts, each replaced whole whenever it has something new, and draws by name
    beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.draws = path, path.with_suffix(".npz")

    def write(self, part: str, result: dict[str, Any]) -> None:
        """Replace one part, and say so."""
        found = json.loads(self.path.read_text()) if self.path.exists() else {}
        found[part] = result | {"device": jax.devices()[0].device_kind, "jax": jax.__version__}
        self.path.write_text(json.dumps(found, indent=1) + "\n")

    def keep(self, **draws: np.ndarray) -> None:
        """Replace draws of these names."""
        found = dict(np.load(self.draws)) if self.draws.exists() else {}
        np.savez(self.draws, **(found | draws))


def throughput(log: Log, options: argparse.Namespace) -> None:
    """Milliseconds per step and pairs per second of the 8-layer flow on data like those of the SIR:
    2 targets, 10 conditions.
    """
    rows: list[dict[str, Any]] = []
    for batch in FEW_BATCHES if options.quick else BATCHES:
        rows.append(_steps(batch, 1 if options.quick else 40, 2 if options.quick else TURNS))
        _say(f"batch {batch}: {rows[-1]}")
        log.write("throughput", {"rows": rows})


def _steps(batch: int, epochs: int, turns: int) -> dict[str, Any]:
    steps, num, _ = training(
        *pairs(STEPS * batch + _CHECKS, 2, 10), batch=batch, epochs=epochs, checks=_CHECKS
    )
    seconds = [elapsed(steps) / num for _ in range(1 + turns)]
    usual = seconds[1:]
    middle = statistics.median(usual)
    spread = {"ms": middle, "least": min(usual), "most": max(usual)}
    return {
        "batch": batch,
        **{name: round(1e3 * value, 4) for name, value in spread.items()},
        "turns": turns,
        "pairs per second": round(batch / middle),
        "first call, seconds": round(seconds[0] * num, 1),
    }


def exact_smc(log: Log, options: argparse.Namespace) -> None:
    """ExactSMC with a million particles on the SIR at epsilon 10."""
    made, num = (
        problem("sir", EPSILON, options.backend),
        (FEW_PARTICLES if options.quick else PARTICLES),
    )
    method = nw.inference.ExactSMC(num_particles=num)
    stages: list[dict[str, Any]] = []
    started = time.perf_counter()
    for posterior in method.rounds(jax.random.key(0), made.model, made.observed, progress=False):
        report = posterior.report
        stages.append(
            {
                "seconds": round(time.perf_counter() - started, 2),
                "simulations": report.num_simulations,
                **{
                    name: report.rounds[-1][name]
                    for name in ("temperature", "acceptance")
                    if name in report.rounds[-1]
                },
            }
        )
        _say(f"stage {len(stages)}: {stages[-1]}")
        told = {
            "particles": num,
            "backend": options.backend,
            "exact": report.exact,
            "stopped": report.stopped,
        }
        log.write("exact_smc", told | {"stages": stages, "diagnostics": _plain(report.diagnostics)})
    log.keep(exact_smc=posterior.sample(jax.random.key(1), NUM_DRAWS))


def trials(log: Log, options: argparse.Namespace) -> None:
    """SPPE with the atomic loss, M = 32: all trials at once, round by round until the next one
    would pass the deadline.
    """
    made = problem("sir", EPSILON, options.backend)
    num, rounds, simulations = (2, 2, 100) if options.quick else (20, 10, 1000)
    method = nw.inference.PrivatePosteriorEstimation(
        num_rounds=rounds,
        num_simulations=simulations,
        num_noise=32,
        correction=nw.inference.AtomicProposals(num_atoms=10),
        training=Training(max_epochs=2 if options.quick else 1000),
    )
    keys = [jax.random.key(seed) for seed in range(1, num + 1)]
    done: list[dict[str, Any]] = []
    started = time.perf_counter()
    for posteriors in method.rounds_of_many(keys, [made.model] * num, [made.observed] * num):
        seconds = time.perf_counter() - started
        last = [posterior.report.rounds[-1] for posterior in posteriors]
        done.append({"seconds": round(seconds, 1), "epochs": [one["epochs"] for one in last]})
        _say(f"round {len(done)}: {done[-1]}")
        told = {"trials": num, "rounds asked for": rounds, "simulations per round": simulations}
        log.write("trials", told | {"backend": options.backend, "rounds": done})
        log.keep(
            trials=np.stack(
                [posterior.sample(jax.random.key(99), NUM_DRAWS) for posterior in posteriors]
            )
        )
        if seconds + _longest(done) > 60.0 * options.minutes:
            break


def _longest(done: list[dict[str, Any]]) -> float:
    """What the next round may take: as long as the last, and as much more as that grew."""
    ends = [0.0, *(one["seconds"] for one in done)]
    lengths = np.diff(ends)
    return float(lengths[-1] + max(0.0, lengths[-1] - lengths[-2] if len(lengths) > 2 else 0.0))


def score(log: Log, options: argparse.Namespace) -> None:
    """C2ST of all kept draws against as many exact ones."""
    made = problem("sir", EPSILON)
    reference = made.reference(jax.random.key(98), NUM_DRAWS)
    scores: dict[str, list[float]] = {}
    with jax.default_device(jax.devices("cpu")[0]):
        for part, draws in np.load(log.draws).items():
            scores[part] = [
                round(float(c2st(reference, one)), 4)
                for one in draws.reshape(-1, NUM_DRAWS, draws.shape[-1])
            ]
            _say(f"C2ST of {part}: {scores[part]}")
            told = {
                name: {"c2st": each, "median": statistics.median(each)}
                for name, each in scores.items()
            }
            log.write("score", told)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: float(value) for name, value in values.items()}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


PARTS: dict[str, Callable[[Log, argparse.Namespace], None]] = {
    "throughput": throughput,
    "exact_smc": exact_smc,
    "trials": trials,
    "score": score,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part", nargs="+", choices=list(PARTS), default=list(PARTS), help="all, where left out"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="when no further round of trials is begun"
    )
    parser.add_argument(
        "--backend", default="jax", choices=["numba", "jax"], help="what simulates epidemics"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    options = parser.parse_args(arguments)
    for part in options.part:
        PARTS[part](Log(options.out), options)


if __name__ == "__main__":
    main()
