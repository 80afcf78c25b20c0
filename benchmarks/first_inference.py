"""Where the seconds of a first inference go, compiling or working, and what a second one in the
same process takes.
"""

import itertools
import multiprocessing
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

ENTRIES = (
    ("sppe", "linear_regression", 3),
    ("sppe", "sir", 3),
    ("cle", "linear_regression", 1),
    ("sple", "sir", 2),
    ("exact-smc", "linear_regression", None),
    ("exact-smc", "sir", None),
)
"""Contender, problem, and how many rounds of 1000 simulations: as many as it typically needs to
C2ST .60.
"""
QUICK = (("sppe", "sir", 1),)
TOLD = 4


def run(quick: bool = False) -> dict[str, Any]:
    """One row per entry, each measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    rows = []
    for entry in QUICK if quick else ENTRIES:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            rows.append(pool.submit(measured, *entry).result())
    return {"rows": rows}


def measured(contender: str, problem: str, rounds: int | None) -> dict[str, Any]:
    """Seconds of two inferences with different seeds, and of compiling in the first: what it waits
    for, and what another thread does.
    """
    import jax

    from benchmarks.contenders import CONTENDERS
    from benchmarks.contest import EPSILON, ROUND
    from noisewise import problems

    jax.config.update("jax_enable_compilation_cache", False)
    events: list[tuple[str, str, float]] = []
    here = threading.current_thread().name

    def listen(event: str, seconds: float, **more: Any) -> None:
        if event.endswith("backend_compile_duration"):
            name = str(more.get("fun_name")).removeprefix("jit(").removesuffix(")")
            events.append((name, threading.current_thread().name, seconds))

    jax.monitoring.register_event_duration_secs_listener(listen)
    made = getattr(problems, problem)(epsilon=EPSILON)
    made.reference(jax.random.key(99), 10)
    seconds = []
    for seed in (1, 2):
        if seed == 1:
            events.clear()
        started = time.perf_counter()
        stages = CONTENDERS[contender].start(made, seed, threads=2, num=ROUND)
        for _ in itertools.islice(stages, rounds):
            pass
        stages.close()  # type: ignore[attr-defined]
        seconds.append(time.perf_counter() - started)
        if seed == 1:
            first = list(events)
    programs: Counter[str] = Counter()
    for name, thread, spent in first:
        programs[name if thread == here else f"{name}, ahead"] += spent  # type: ignore[assignment]
    return {
        "contender": contender,
        "problem": problem,
        "rounds": rounds,
        "first s": round(seconds[0], 1),
        "compiling s": round(sum(spent for _, thread, spent in first if thread == here), 1),
        "compiling ahead s": round(sum(spent for _, thread, spent in first if thread != here), 1),
        "programs": {name: round(spent, 1) for name, spent in programs.most_common(TOLD)},
        "second s": round(seconds[1], 1),
    }
