"""Memory over 20 rounds of posterior estimation and a million simulations: whether anything grows
but what is kept, and the peak.
"""

import ctypes
import functools
import gc
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

import noisewise as nw
from noisewise.inference.learned.posterior.posterior_rounds import PosteriorRounds

ROUNDS, NUM, FEW = 20, 50_000, 500
COMPILED, EARLY = 2, 5
"""After which round nothing is compiled any more, and from which on memory may not grow."""
MOST_GROWTH, MOST_PEAK = 0.05, 3.0


def run(quick: bool = False) -> dict[str, Any]:
    """All rounds in a process of its own, twice: as it is, and with what is free given back after
    every round.
    """
    context = multiprocessing.get_context("spawn")
    found = {}
    for name, trim in (("resident", False), ("in use", True)):
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            found[name] = pool.submit(measured, FEW if quick else NUM, trim).result()
    return judged(found)


def judged(found: dict[str, Any]) -> dict[str, Any]:
    """Growth from round 5 to 20, and the peak over a tiny inference in units of the arrays that
    hold all simulations.

    Memory moves from round to round, so that a line through all from 5 on says more than two of
    them: both must hold. What compilers have freed stays resident, so that the peak as it is counts
    them in; that of the other run, once programs are compiled, does not.
    """
    growth: dict[str, float] = {}
    for name, run in found.items():
        values = np.array([row["MB"] for row in run["rounds"]][EARLY - 1 :])
        growth[name] = float(values[-1] / values[0] - 1.0)
        slope = np.polyfit(np.linspace(0.0, 1.0, len(values)), values / values[0], 1)[0]
        growth[f"{name}, by a line"] = float(slope)
    arrays = found["resident"]["arrays MB"]
    peaks = {
        "peak": max(run["peak MB"] - run["baseline MB"] for run in found.values()),
        "peak without compilers": (
            found["in use"]["peak once compiled MB"] - found["in use"]["baseline MB"]
        ),
    }
    return found | {
        "targets": f"growth <= {MOST_GROWTH:g}, peak <= {MOST_PEAK:g} times the arrays",
        "growth": {name: round(value, 4) for name, value in growth.items()},
        "peaks, in arrays": {name: round(peak / arrays, 2) for name, peak in peaks.items()},
        "holds": {
            "growth": all(value <= MOST_GROWTH for value in growth.values()),
            **{name: peak <= MOST_PEAK * arrays for name, peak in peaks.items()},
        },
    }


def measured(num: int, trim: bool) -> dict[str, Any]:
    """Memory after every round of `num` simulations, over that after a tiny inference; nothing
    compiled is read from disk.
    """
    jax.config.update("jax_enable_compilation_cache", False)
    made = nw.problems.linear_regression(epsilon=1.0)
    for _ in _method(2, 50).rounds(jax.random.key(0), made.model, made.observed, progress=False):
        pass
    baseline, started, rounds = _in_use(), time.perf_counter(), []
    for posterior in _method(ROUNDS, num).rounds(
        jax.random.key(1), made.model, made.observed, progress=False
    ):
        arrays, copied = _arrays()
        rounds.append(
            {
                "simulations": posterior.report.num_simulations,
                "seconds": round(time.perf_counter() - started, 1),
                "MB": round(_in_use() if trim else _resident(), 1),
            }
        )
        print(rounds[-1], file=sys.stderr, flush=True)
        if len(rounds) == COMPILED:
            first = _peak()
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts anew
    return {
        "baseline MB": round(baseline, 1),
        "peak MB": round(max(first, _peak()), 1),
        "peak once compiled MB": round(_peak(), 1),
        "arrays MB": round(arrays, 1),
        "copied for training MB": round(copied, 1),
        "rounds": rounds,
    }


def _method(rounds: int, num: int) -> Any:
    """Hardly any training: one epoch of a small flow, one noisy version of each simulation."""
    return nw.inference.PrivatePosteriorEstimation(
        num_rounds=rounds,
        num_simulations=num,
        num_noise=1,
        noise_bank=1,
        estimator=functools.partial(
            nw.estimators.neural_spline_flow, num_layers=2, num_units=16, num_hidden=1
        ),
        training=nw.estimators.Training(max_epochs=1, batch_size=min(num, 1000)),
    )


def _arrays() -> tuple[float, float]:
    """MB of the arrays of all simulations and their noisy versions, and of those that are copied
    for a training.
    """
    rounds = max((one for one in gc.get_objects() if isinstance(one, PosteriorRounds)), key=_size)
    bank = rounds.task.bank.whole.nbytes
    copied = rounds.simulations.whole()[0].nbytes + bank
    return (rounds.simulations.nbytes + bank) / 1e6, copied / 1e6


def _size(rounds: PosteriorRounds) -> int:
    return rounds.simulations.num


def _resident() -> float:
    """MB of resident memory, once garbage is collected."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _in_use() -> float:
    """MB of resident memory, once all that is free was given back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _resident()


def _peak() -> float:
    """MB of memory at most since this process began, or since the peak was told to count anew."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6


if __name__ == "__main__":
    print(json.dumps(run("--quick" in sys.argv), indent=1))
