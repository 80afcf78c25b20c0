"""Medians of repeated timings."""

import statistics
import time
from collections.abc import Callable


def median_seconds(call: Callable[[], object], repetitions: int = 5) -> float:
    """The median wall time of `call`, after one unmeasured call."""
    call()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
