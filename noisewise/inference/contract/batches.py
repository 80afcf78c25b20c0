"""How many simulations to run at once, so that the clock and the journal are kept up with."""

from __future__ import annotations

from concurrent.futures import Executor

from noisewise.simulators import AbstractSimulator, PythonSimulator
from noisewise.simulators.dispatch import ASSUMED_WORKERS, num_workers

_MIN_CHUNK = 16
"""Simulations at once under a deadline, at least: calls for fewer cost more than they simulate."""

_FIRST_CHUNK = 256
"""Simulations at once while their speed is unknown, and the unit of batches of compiled simulators,
whose programs run 256 wide.
"""

_CHUNK_SECONDS = 1.0
"""Seconds of simulations between looks at the clock: a budget of time is kept about as closely."""

_FIRST_BATCH = 8
"""Simulations in the first recorded batch of a simulator in Python: few, as each may take seconds.
"""

_BATCH_SECONDS = 3.0
"""Seconds of simulations in a recorded batch: what an interruption loses at most."""


def num_at_once(
    simulator: AbstractSimulator, executor: Executor | None, speed: float | None, *, kept: bool
) -> int:
    """Simulations to run at once where time is limited or a journal is kept.

    Args:
        simulator: The simulator: compiled ones run 256 wide.
        executor: Runs simulators that are written in Python: each of its workers gets some.
        speed: Simulations per second so far; None before the first.
        kept: Whether a journal records each batch: then a few seconds' worth, else about one.
    """
    if not kept:
        return _FIRST_CHUNK if speed is None else max(_MIN_CHUNK, int(speed * _CHUNK_SECONDS))
    if not isinstance(simulator, PythonSimulator):
        return _FIRST_CHUNK * max(1, int((speed or 0.0) * _BATCH_SECONDS / _FIRST_CHUNK))
    least = 1 if executor is None else 4 * (num_workers(executor) or ASSUMED_WORKERS)
    return max(least, _FIRST_BATCH if speed is None else int(speed * _BATCH_SECONDS))
