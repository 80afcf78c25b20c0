"""Batches of simulations, here or in the workers of an executor; whatever becomes of them, each
gives an outcome.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import hashlib
import itertools
import queue
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from typing import Any

import cloudpickle
import numpy as np

from noisewise.errors import InvalidInputError, SimulationError
from noisewise.simulators import _worker
from noisewise.simulators._keys import RowKeys
from noisewise.simulators._worker import HUNG, LOST, Failure, Outcome
from noisewise.simulators.base import Query
from noisewise.simulators.workers import WorkerLostError, Workers

MAX_IN_FLIGHT = 512
"""How many batches are handed to an executor before the first has come back."""

GRACE, START_UP = 60.0, 600.0
"""Seconds beyond the time-outs of a batch before an executor counts as stuck: after its first
result, and before.
"""

_TASKS_EACH, _UNKNOWN_WORKERS = 4, 16
_serial = itertools.count()


@dataclasses.dataclass
class Batches:
    """Simulations by `fn` and `query`, one per row of keys and theta (N, d)."""

    fn: Callable[..., Any]
    query: Query | None
    timeout: float | None
    keys: RowKeys
    theta: np.ndarray
    executor: Executor | None
    awake: bool = False
    """Whether the executor has given a result."""

    @property
    def num_workers(self) -> int:
        """How many simulate at once, as far as is known."""
        return 1 if self.executor is None else num_workers(self.executor) or _UNKNOWN_WORKERS

    @property
    def size(self) -> int:
        """How many simulations make a task by default."""
        return max(1, min(64, len(self.theta) // (_TASKS_EACH * self.num_workers)))

    def run(
        self, rows: np.ndarray, batch_size: int
    ) -> Generator[tuple[np.ndarray, list[Outcome]], None, None]:
        """(rows of a batch, their outcomes) for all these rows, as they come. Closing it cancels
        what has not started.
        """
        executor = self.executor or (None if self.timeout is None else _own_worker())
        if executor is None:
            for row in rows:
                batch = np.array([row])
                yield batch, _worker.run_batch(self.fn, self.query, None, *self._inputs(batch))
            return
        task = self._task(executor)
        flight = _Flight(self, executor, batch_size)
        try:
            for first in range(0, len(rows), batch_size):
                batch = rows[first : first + batch_size]
                flight.launch(batch, *task, self.timeout, *self._inputs(batch))
                if len(flight.pending) >= MAX_IN_FLIGHT:
                    yield from flight.land()
            while flight.pending:
                yield from flight.land()
        finally:
            for future in flight.pending:
                future.cancel()

    def _inputs(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.keys.words[batch], self.keys.indices[batch], self.theta[batch]

    def _task(self, executor: Executor) -> tuple[Any, ...]:
        """The function that a worker calls and its leading arguments."""
        if isinstance(executor, ThreadPoolExecutor):
            return (_worker.run_batch, self.fn, self.query)
        if isinstance(executor, ProcessPoolExecutor) and _start_method(executor) == "fork":
            raise InvalidInputError(
                "This pool forks, and JAX deadlocks in forked processes. Write"
                " nw.simulators.Workers(), or"
                ' ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")), in a script'
                ' under if __name__ == "__main__":.'
            )
        try:
            payload = cloudpickle.dumps((self.fn, self.query))
        except Exception as error:
            raise SimulationError(
                "The simulator or the query cannot be sent to worker processes"
                f" ({type(error).__name__}: {error}). Create what cannot be pickled (files, locks,"
                " clients) inside the function, or take a ThreadPoolExecutor or executor=None."
            ) from error
        return (_worker.run_pickled_batch, payload, hashlib.sha256(payload).hexdigest())


class _Flight:
    """The batches that are under way in an executor; somebody else's that gives none back for long
    is stuck.
    """

    def __init__(self, batches: Batches, executor: Executor, batch_size: int) -> None:
        self.pending: dict[Future[list[Outcome]], np.ndarray] = {}
        self._done: queue.SimpleQueue[Future[list[Outcome]]] = queue.SimpleQueue()
        self._batches, self._executor = batches, executor
        self._limited = batches.timeout is not None and not isinstance(executor, Workers)
        self._seconds = (batches.timeout or 0.0) * batch_size + GRACE

    def launch(self, batch: np.ndarray, fn: Callable[..., list[Outcome]], *task: Any) -> None:
        """Submit a task. Its number makes it another than all before: some executors run equal
        tasks once only.
        """
        try:
            future = self._executor.submit(fn, *task, next(_serial))
        except RuntimeError as error:
            raise _broken(error) from error
        self.pending[future] = batch
        future.add_done_callback(self._done.put)

    def land(self) -> Iterator[tuple[np.ndarray, list[Outcome]]]:
        """The batch that comes back next, or all, as failures, where the executor is stuck."""
        future = self._next()
        if future is None:
            yield from self._abandoned()
        else:
            self._batches.awake = True
            batch = self.pending.pop(future)
            yield batch, self._outcomes(future, len(batch))

    def _next(self) -> Future[list[Outcome]] | None:
        """None where nothing came for too long, though there were workers."""
        while True:
            limit = (
                self._seconds + (0.0 if self._batches.awake else START_UP)
                if self._limited
                else None
            )
            try:
                return self._done.get(timeout=limit)
            except queue.Empty:
                if num_workers(self._executor) != 0:
                    return None

    def _abandoned(self) -> Iterator[tuple[np.ndarray, list[Outcome]]]:
        stuck, self.pending = self.pending, {}
        self._done = queue.SimpleQueue()
        for future in stuck:
            future.cancel()
        failure = Failure(f"no worker came back with it, and {self._too_long}", kind=HUNG)
        for batch in stuck.values():
            yield batch, [failure] * len(batch)

    def _outcomes(self, future: Future[list[Outcome]], num: int) -> list[Outcome]:
        try:
            return future.result()
        except BrokenExecutor as error:
            raise _broken(error) from error
        except WorkerLostError as error:
            failure = Failure(f"{error}.", error=error, kind=LOST)
            if error.trace:
                failure = Failure(self._too_long, error.trace, kind=HUNG)
        except Exception as error:
            failure = Failure(
                f"its batch could not be run or sent back ({type(error).__name__}: {error}). What"
                " the simulator imports must be installed where the workers run, and what it"
                " returns must be picklable.",
                error=error,
                kind=LOST,
            )
        return [failure] * num

    @property
    def _too_long(self) -> str:
        return _worker.too_long(self._batches.timeout or 0.0)


def _start_method(executor: ProcessPoolExecutor) -> str | None:
    return None if executor._mp_context is None else executor._mp_context.get_start_method()


def _broken(error: Exception) -> SimulationError:
    return SimulationError(
        f"The executor has stopped working ({error}). A worker may have run out of memory or"
        " crashed, or the pool was shut down; nw.simulators.Workers replaces workers that die. In"
        ' a script, the code that starts workers must stand under if __name__ == "__main__":.'
    )


@functools.cache
def _own_worker() -> Workers:
    """One worker for simulations with a time-out and no executor; it stays until this process ends."""
    workers = Workers(1)
    atexit.register(workers.kill)
    return workers


def num_workers(executor: Executor) -> int | None:
    """How many workers an executor has; None where it does not say."""
    if isinstance(executor, Workers):
        return executor.num_workers
    client: Any = getattr(executor, "_client", None)
    if hasattr(client, "nthreads"):
        return sum(client.nthreads().values())
    return getattr(executor, "_max_workers", None)
