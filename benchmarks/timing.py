"""Timings in turns, and their medians with spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def in_turns(
    calls: Mapping[str, Callable[[], object]], repetitions: int = 5
) -> dict[str, list[float]]:
    """Seconds of each call, one after the other so that all meet the same load, after one
    unmeasured turn.
    """
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, call in calls.items():
            seconds[name].append(elapsed(call))
    return seconds


def elapsed(call: Callable[[], object]) -> float:
    """Wall seconds of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def summary(values: Sequence[float], digits: int = 3) -> dict[str, Any]:
    """The median with the least and the largest value, rounded to significant digits.

    >>> summary([0.30001, 0.1, 0.2])
    {'median': 0.2, 'low': 0.1, 'high': 0.3, 'repetitions': 3}
    """
    ends = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    return {name: float(f"{value:.{digits}g}") for name, value in ends.items()} | {
        "repetitions": len(values)
    }


def ratios(slow: Sequence[float], fast: Sequence[float]) -> dict[str, Any]:
    """How many times longer the first takes, turn by turn."""
    return summary([a / b for a, b in zip(slow, fast, strict=True)])
