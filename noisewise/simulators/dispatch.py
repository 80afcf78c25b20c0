"""Batches of simulations, here or in the workers of an executor.

Every simulation gives an outcome, also when it fails, hangs, or is lost with its worker.
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
"""Batches handed to an executor before one comes back: bounds the memory that waiting tasks take,
and keeps hundreds of workers busy.
"""

GRACE_SECONDS = 60.0
"""Seconds beyond the time-outs of a batch before an executor counts as stuck: generous, since what
is declared stuck is submitted again.
"""

START_UP_SECONDS = 600.0
"""Seconds added before the first answer, in which a cluster may have to start its workers."""

_MAX_TASK_SIZE = 64
"""Simulations per task by default, at most: when a worker dies, a whole task is run again, one
simulation at a time.
"""

_TASKS_PER_WORKER = 4
"""Tasks by default: enough that a slow one does not keep the other workers idle."""

ASSUMED_WORKERS = 16
"""Workers of an executor that does not say how many it has; only the default size depends on it."""

_task_numbers = itertools.count()


@dataclasses.dataclass
class Batches:
    """Simulations by `fn` and `query`, run in batches.

    Attributes:
        fn: The simulator's function (rng, theta_1d) -> x.
        query: Function from x to its statistic; None to return databases.
        timeout: Seconds per simulation; None for no limit.
        keys: The randomness of the N simulations.
        theta: Parameters, shape (N, d).
        executor: Where they run; None for this process, or for one worker where there is a timeout.
    """

    fn: Callable[..., Any]
    query: Query | None
    timeout: float | None
    keys: RowKeys
    theta: np.ndarray
    executor: Executor | None
    has_answered: bool = False
    """Whether the executor has given a result."""

    @property
    def num_workers(self) -> int:
        """How many simulations run at once: what the executor says, else 16."""
        return 1 if self.executor is None else num_workers(self.executor) or ASSUMED_WORKERS

    @property
    def size(self) -> int:
        """How many simulations make a task by default."""
        even = len(self.theta) // (_TASKS_PER_WORKER * self.num_workers)
        return max(1, min(_MAX_TASK_SIZE, even))

    def run(
        self, rows: np.ndarray, batch_size: int
    ) -> Generator[tuple[np.ndarray, list[Outcome]], None, None]:
        """Run some of the simulations, and yield batches as they come back.

        Closing the generator cancels what has not started.

        Args:
            rows: Numbers of the simulations to run.
            batch_size: Simulations per task.

        Yields:
            The rows of a batch, and one outcome for each of them.

        Raises:
            InvalidInputError: If the executor is a process pool that forks.
            SimulationError: If functions cannot be pickled, or the executor has stopped working.
        """
        executor = self.executor or (None if self.timeout is None else _own_worker())
        if executor is None:
            for row in rows:
                batch = np.array([row])
                yield batch, _worker.run_batch(self.fn, self.query, None, *self._inputs(batch))
            return
        task = self._task(executor)
        tasks = _Submitted(self, executor, batch_size)
        try:
            for first in range(0, len(rows), batch_size):
                batch = rows[first : first + batch_size]
                tasks.submit(batch, *task, self.timeout, *self._inputs(batch))
                if len(tasks.pending) >= MAX_IN_FLIGHT:
                    yield from tasks.collect()
            while tasks.pending:
                yield from tasks.collect()
        finally:
            for future in tasks.pending:
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
                " clients) inside the function, or use a ThreadPoolExecutor or executor=None."
            ) from error
        return (_worker.run_pickled_batch, payload, hashlib.sha256(payload).hexdigest())


class _Submitted:
    """The batches that an executor has not given back yet.

    An executor that is not ours counts as stuck when none comes back for too long.
    """

    def __init__(self, batches: Batches, executor: Executor, batch_size: int) -> None:
        self.pending: dict[Future[list[Outcome]], np.ndarray] = {}
        self._done: queue.SimpleQueue[Future[list[Outcome]]] = queue.SimpleQueue()
        self._batches, self._executor = batches, executor
        self._limited = batches.timeout is not None and not isinstance(executor, Workers)
        self._seconds = (batches.timeout or 0.0) * batch_size + GRACE_SECONDS

    def submit(self, batch: np.ndarray, fn: Callable[..., list[Outcome]], *task: Any) -> None:
        """Submit a task, with a number of its own: some executors run equal tasks only once."""
        try:
            future = self._executor.submit(fn, *task, next(_task_numbers))
        except RuntimeError as error:
            raise _broken(error) from error
        self.pending[future] = batch
        future.add_done_callback(self._done.put)

    def collect(self) -> Iterator[tuple[np.ndarray, list[Outcome]]]:
        """The batch that comes back next; all of them, as failures, if the executor is stuck."""
        future = self._next()
        if future is None:
            yield from self._abandoned()
        else:
            self._batches.has_answered = True
            batch = self.pending.pop(future)
            yield batch, self._outcomes(future, len(batch))

    def _next(self) -> Future[list[Outcome]] | None:
        """The task that ends next; None if none ends for too long, though there are workers."""
        while True:
            start_up = 0.0 if self._batches.has_answered else START_UP_SECONDS
            try:
                return self._done.get(timeout=self._seconds + start_up if self._limited else None)
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
    """One worker for simulations with a time-out and no executor; it lives as long as this
    process.
    """
    workers = Workers(1)
    atexit.register(workers.kill)
    return workers


def num_workers(executor: Executor) -> int | None:
    """How many workers an executor has.

    Args:
        executor: `Workers`, an executor of `concurrent.futures`, or that of a dask client.

    Returns:
        The number of workers; None if the executor does not say.
    """
    if isinstance(executor, Workers):
        return executor.num_workers
    client: Any = getattr(executor, "_client", None)
    if hasattr(client, "nthreads"):
        return sum(client.nthreads().values())
    return getattr(executor, "_max_workers", None)
