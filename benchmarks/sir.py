"""SIR epidemics in a population of a million: leaps against events, and events against the same
loop in C.
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import noisewise as nw
from benchmarks.timing import in_turns, ratios, summary
from noisewise.simulators import epidemic, xoshiro

POPULATION = 1_000_000
TIMES = tuple(17.0 * j for j in range(10))
TRUTH = (-0.5, -3.0)
KEY = jax.random.key(2)


def run(quick: bool = False) -> dict[str, Any]:
    if quick:
        return {"leaps": leaps_against_events(4, 1000, 3), "events": events_against_c(2, 3)}
    return {"leaps": leaps_against_events(), "events": events_against_c()}


def leaps_against_events(
    num_exact: int = 16, num_leap: int = 4000, repetitions: int = 7
) -> dict[str, Any]:
    """Per epidemic, on all cores."""

    def simulate(method: str, num: int) -> Callable[[], object]:
        simulator = nw.simulators.SIR(POPULATION, TIMES, method=method)
        theta = np.tile(TRUTH, (num, 1))
        return lambda: simulator.simulate(KEY, theta)

    seconds = in_turns(
        {"gillespie": simulate("gillespie", num_exact), "leap": simulate("leap", num_leap)},
        repetitions,
    )
    each = {
        "gillespie": [value / num_exact for value in seconds["gillespie"]],
        "leap": [value / num_leap for value in seconds["leap"]],
    }
    return {
        **{
            f"{name} ms": summary([1e3 * value for value in values])
            for name, values in each.items()
        },
        "leaps per second": summary([1.0 / value for value in each["leap"]]),
        "times faster": ratios(each["gillespie"], each["leap"]),
        "target": 100,
    }


def events_against_c(num: int = 8, repetitions: int = 7) -> dict[str, Any]:
    """Per event, on one core, in turns."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return {"gillespie against C": "skipped: no C compiler"}
    key, times = xoshiro.key_words(KEY), np.array(TIMES)
    words, indices = np.tile(key, (num, 1)), np.arange(num, dtype=np.uint32)
    ours, theirs = np.empty((num, len(times))), np.empty((num, len(times)))
    rates = np.tile(np.exp(TRUTH), (num, 1))

    def by_numba() -> None:
        epidemic.epidemics(words, indices, rates, float(POPULATION), 1.0, times, np.inf, 0.05, ours)

    with tempfile.TemporaryDirectory() as folder:
        compiled = compiled_loop(compiler, Path(folder))

        def by_c() -> int:
            people = (*rates[0], float(POPULATION), 1.0)
            return compiled(key, len(key), num, *people, times, len(times), theirs)

        events = by_c()
        seconds = in_turns({"numba": by_numba, "C -O3": by_c}, repetitions)
    return {
        **{
            f"{name} ns": summary([1e9 * value / events for value in values])
            for name, values in seconds.items()
        },
        "ratio": ratios(seconds["numba"], seconds["C -O3"]),
        "target": "<= 1.5",
        "same curves": bool(np.array_equal(ours, theirs)),
    }


def compiled_loop(compiler: str, folder: Path) -> Callable[..., int]:
    source, library = Path(__file__).with_name("gillespie.c"), folder / "gillespie.so"
    subprocess.run(
        [compiler, "-O3", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True
    )
    function = ctypes.CDLL(str(library)).epidemics
    floats, words = np.ctypeslib.ndpointer(np.float64), np.ctypeslib.ndpointer(np.uint64)
    number, real = ctypes.c_int64, ctypes.c_double
    function.argtypes = [words, number, number, real, real, real, real, floats, number, floats]
    function.restype = number
    return function
