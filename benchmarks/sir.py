"""SIR epidemics in a population of a million: leaps against events, and events against the same loop in C."""

import ctypes
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

import noisewise as nw
from noisewise.simulators import _epidemic, _xoshiro

POPULATION = 1_000_000
TIMES = tuple(17.0 * j for j in range(10))
TRUTH = (-0.5, -3.0)
KEY = jax.random.key(2)
ROUNDS = 7


def run() -> list[dict[str, object]]:
    return [leaps_against_events(), events_against_c()]


def leaps_against_events(num_exact: int = 16, num_leap: int = 4000) -> dict[str, object]:
    """Per epidemic, on all cores."""

    def simulate(method: str, num: int) -> Callable[[], object]:
        simulator = nw.simulators.SIR(POPULATION, TIMES, method=method)
        theta = np.tile(TRUTH, (num, 1))
        return lambda: simulator.simulate(KEY, theta)

    exact, leap = in_turns(simulate("gillespie", num_exact), simulate("leap", num_leap))
    ratios = [a / num_exact / (b / num_leap) for a, b in zip(exact, leap, strict=True)]
    return {
        "gillespie ms": round(statistics.median(exact) / num_exact * 1e3, 2),
        "leap ms": round(statistics.median(leap) / num_leap * 1e3, 4),
        "times faster": round(statistics.median(ratios), 1),
        "target": 100,
    }


def events_against_c(num: int = 8) -> dict[str, object]:
    """Per event, on one core, in turns."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return {"gillespie against C": "skipped: no C compiler"}
    key, times = _xoshiro.key_words(KEY), np.array(TIMES)
    words, indices = np.tile(key, (num, 1)), np.arange(num, dtype=np.uint32)
    ours, theirs = np.empty((num, len(times))), np.empty((num, len(times)))
    rates = np.tile(np.exp(TRUTH), (num, 1))

    def by_numba() -> None:
        _epidemic.epidemics(words, indices, rates, float(POPULATION), 1.0, times, np.inf, 0.05, ours)

    with tempfile.TemporaryDirectory() as folder:
        compiled = compiled_loop(compiler, Path(folder))

        def by_c() -> int:
            people = (*rates[0], float(POPULATION), 1.0)
            return compiled(key, len(key), num, *people, times, len(times), theirs)

        events = by_c()
        numba_seconds, c_seconds = in_turns(by_numba, by_c)
    return {
        "numba ns per event": round(statistics.median(numba_seconds) / events * 1e9, 2),
        "C -O3 ns per event": round(statistics.median(c_seconds) / events * 1e9, 2),
        "ratio": round(statistics.median(a / b for a, b in zip(numba_seconds, c_seconds, strict=True)), 3),
        "target": "<= 1.5",
        "same curves": bool(np.array_equal(ours, theirs)),
    }


def compiled_loop(compiler: str, folder: Path) -> Callable[..., int]:
    source, library = Path(__file__).with_name("gillespie.c"), folder / "gillespie.so"
    subprocess.run([compiler, "-O3", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).epidemics
    floats, words = np.ctypeslib.ndpointer(np.float64), np.ctypeslib.ndpointer(np.uint64)
    number, real = ctypes.c_int64, ctypes.c_double
    function.argtypes = [words, number, number, real, real, real, real, floats, number, floats]
    function.restype = number
    return function


def in_turns(first: Callable[[], object], second: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Seconds of `ROUNDS` calls of each, one after the other, so that both meet the same load."""
    first(), second()
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, kept in zip((first, second), seconds, strict=True):
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
    return seconds
