"""Models written in plain Python, NumPy or Numba."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import queue
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import cloudpickle
import numpy as np

from noisewise._arrays import describe
from noisewise._signatures import check_call
from noisewise.errors import InvalidInputError, InvalidTypeError, SimulationError
from noisewise.simulators import _worker
from noisewise.simulators._keys import RowKeys
from noisewise.simulators.base import AbstractSimulator, Query

MAX_IN_FLIGHT = 512
"""How many batches are handed to an executor before the first has come back."""


@dataclasses.dataclass(frozen=True)
class PythonSimulator(AbstractSimulator):
    """x = fn(rng, theta): one database, any object, from one parameter vector (d,), a NumPy array of your own.

    Simulation i gets the generator `np.random.Generator(np.random.Philox(np.random.SeedSequence(words,
    spawn_key=(i,))))`, where `words` are the numbers in `stage_key(key, "simulator")`: the result depends on the key and
    i only (with keys of their own: on the i-th, and 0 in place of i), not on workers, batch size or order of completion.
    Draw from `rng` alone.

    With an `executor` the simulation and the query run in its workers and only s comes back. Functions travel by
    cloudpickle, so closures and lambdas will do; a thread pool gets them as they are. `batch_size` simulations make one
    task, by default a 64-th of them, at most 64. Pools that fork are refused: JAX deadlocks in forked processes.

    >>> import jax, numpy as np
    >>> import noisewise as nw
    >>> simulator = nw.simulators.PythonSimulator(lambda rng, theta: rng.normal(theta[0], 1.0, size=100))
    >>> theta = np.array([[-1.0], [1.0]])
    >>> simulator.statistics(jax.random.key(0), theta, lambda x: [x.mean(), x.std()]).round(2).tolist()
    [[-1.01, 1.06], [1.16, 1.01]]
    """

    fn: Callable[[np.random.Generator, np.ndarray], Any]

    def __post_init__(self) -> None:
        if not callable(self.fn) or isinstance(self.fn, type):
            raise InvalidTypeError(f"PythonSimulator needs a function fn(rng, theta) -> x, got {describe(self.fn)}.")
        check_call(self.fn, "fn(rng, theta)", "rng", "theta")

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, executor: Executor | None, batch_size: int | None
    ) -> np.ndarray:
        s = np.empty((len(theta), 0))
        for index, row in self._outcomes(keys, theta, query, executor, batch_size):
            if s.shape[1] == 0:
                s, seen = np.empty((len(theta), len(row))), index
            if len(row) != s.shape[1]:
                raise SimulationError(
                    f"The query must always return as many entries: it gave {s.shape[1]} in simulation {seen} and "
                    f"{len(row)} in simulation {index} (theta = {theta[index].tolist()})."
                )
            s[index] = row
        return s

    def _simulate(
        self, keys: RowKeys, theta: np.ndarray, executor: Executor | None, batch_size: int | None
    ) -> list[Any]:
        databases: list[Any] = [None] * len(theta)
        for index, outcome in self._outcomes(keys, theta, None, executor, batch_size):
            databases[index] = outcome
        return databases

    def _outcomes(
        self, keys: RowKeys, theta: np.ndarray, query: Query | None, executor: Executor | None, batch_size: int | None
    ) -> Iterator[tuple[int, Any]]:
        """(i, result of simulation i) in the order of completion; the one place where a failure is met."""
        batch_size = batch_size or min(64, -(-len(theta) // 64))
        with contextlib.closing(_run(self.fn, query, keys, theta, executor, batch_size)) as batches:
            for first, outcomes in batches:
                for index, outcome in enumerate(outcomes, start=first):
                    if isinstance(outcome, _worker.Failure):
                        raise _failed(outcome, index, theta[index])
                    yield index, outcome


def _run(
    fn: Callable[..., Any],
    query: Query | None,
    keys: RowKeys,
    theta: np.ndarray,
    executor: Executor | None,
    batch_size: int,
) -> Generator[tuple[int, list[Any]], None, None]:
    """(first index, outcomes) of every batch, as they come."""
    arrays = (keys.words, keys.indices, theta)
    starts = range(0, len(theta), batch_size)
    batches = ((first, [array[first : first + batch_size] for array in arrays]) for first in starts)
    if executor is None:
        for first, rows in batches:
            yield first, _worker.run_batch(fn, query, *rows)
        return
    task = _task(fn, query, executor)
    done: queue.SimpleQueue[Future[list[Any]]] = queue.SimpleQueue()
    pending: dict[Future[list[Any]], int] = {}
    try:
        for first, rows in batches:
            pending[_submit(executor, done, *task, *rows)] = first
            if len(pending) >= MAX_IN_FLIGHT:
                yield _next(done, pending)
        while pending:
            yield _next(done, pending)
    finally:
        for future in pending:
            future.cancel()


def _task(fn: Callable[..., Any], query: Query | None, executor: Executor) -> tuple[Any, ...]:
    """The function that a worker calls and its leading arguments."""
    if isinstance(executor, ThreadPoolExecutor):
        return (_worker.run_batch, fn, query)
    if isinstance(executor, ProcessPoolExecutor) and _start_method(executor) == "fork":
        raise InvalidInputError(
            "This pool forks, and JAX deadlocks in forked processes. Write "
            'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")), '
            'in a script under if __name__ == "__main__":.'
        )
    try:
        payload = cloudpickle.dumps((fn, query))
    except Exception as error:
        raise SimulationError(
            f"The simulator or the query cannot be sent to worker processes ({type(error).__name__}: {error}). Create "
            "what cannot be pickled (files, locks, clients) inside the function, or take a ThreadPoolExecutor or "
            "executor=None."
        ) from error
    return (_worker.run_pickled_batch, payload, hashlib.sha256(payload).hexdigest())


def _start_method(executor: ProcessPoolExecutor) -> str | None:
    return None if executor._mp_context is None else executor._mp_context.get_start_method()


def _submit(executor: Executor, done: queue.SimpleQueue[Future[list[Any]]], *task: Any) -> Future[list[Any]]:
    try:
        future = executor.submit(*task)
    except RuntimeError as error:
        raise _broken(error) from error
    future.add_done_callback(done.put)
    return future


def _next(done: queue.SimpleQueue[Future[list[Any]]], pending: dict[Future[list[Any]], int]) -> tuple[int, list[Any]]:
    future = done.get()
    first = pending.pop(future)
    try:
        return first, future.result()
    except BrokenExecutor as error:
        raise _broken(error) from error
    except Exception as error:
        raise SimulationError(
            f"The batch that starts with simulation {first} could not be run or sent back ({type(error).__name__}: "
            f"{error}). What the simulator imports must be installed where the workers run, and what it returns must "
            "be picklable."
        ) from error


def _broken(error: Exception) -> SimulationError:
    return SimulationError(
        f"The executor has stopped working ({error}). A worker may have run out of memory or crashed, or the pool was "
        'shut down; in a script, the code that starts the pool must stand under if __name__ == "__main__":.'
    )


class WorkerError(Exception):
    """The traceback of a failed simulation, as text from its worker."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _failed(failure: _worker.Failure, index: int, theta: np.ndarray) -> SimulationError:
    error = SimulationError(f"Simulation {index} failed at theta = {theta.tolist()}: {failure.reason}")
    error.__cause__ = failure.error or WorkerError(failure.trace)
    return error
