"""Worker processes of our own: replaced when they die, ended when a simulation hangs in them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle

from noisewise._core.arrays import integer
from noisewise.errors import InvalidInputError
from noisewise.simulators import _worker

_START_ATTEMPTS = 3
"""Attempts to start a process before its task fails: a machine short of memory may recover."""

_SECONDS_BETWEEN_ATTEMPTS = 0.5
"""Seconds between these attempts: a round number, short compared with the start of a process."""

_EXIT_CODE_SECONDS = 2.0
"""Seconds to wait for an exit code that another thread has collected: normally it is there within
milliseconds, and where it never comes nothing else waits for it.
"""

_POLL_SECONDS = 0.002
"""Seconds between two looks at an exit code; results do not depend on it."""


class WorkerLostError(Exception):
    """A worker ended in the middle of a task.

    Attributes:
        trace: Where it hung, as text; empty if it did not hang.
    """

    def __init__(self, exitcode: int | None, trace: str) -> None:
        super().__init__(f"its worker ended with exit code {exitcode}")
        self.trace = trace


class Workers(Executor):
    """An executor of spawned processes that survives the death of any of them.

    Use it to run a `PythonSimulator` on all cores. A `concurrent.futures.ProcessPoolExecutor`
    breaks for good when one of its processes dies, and waits forever for one that hangs. Here a
    thread waits for each process: when it dies, its task alone fails, with `WorkerLostError`, and
    the next task gets a new process. `PythonSimulator` runs what was lost again, alone, so that
    only the simulation that kills its worker is dropped.

    In a script, start workers under `if __name__ == "__main__":`, since spawned processes import
    the script again. Leaving the `with` block by an error ends them at once.

    Args:
        num_workers: Number of processes; by default one per core.

    Raises:
        InvalidInputError: If `num_workers` is not at least 1.

    Example:
        >>> import jax, numpy as np
        >>> import noisewise as nw
        >>> draw = lambda rng, theta: rng.normal(theta[0], 1.0, size=100)
        >>> simulator = nw.simulators.PythonSimulator(draw, timeout=60.0)
        >>> query, theta = lambda x: [x.mean()], np.zeros((8, 1))
        >>> with nw.simulators.Workers(2) as workers:
        ...     s = simulator.statistics(jax.random.key(0), theta, query, executor=workers)
        >>> s.shape
        (8, 1)
    """

    def __init__(self, num_workers: int | None = None) -> None:
        given = integer("num_workers", at_least=1, optional=True)(num_workers)
        self.num_workers = given or os.cpu_count() or 1
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._folder = tempfile.TemporaryDirectory(prefix="noisewise-")
        self._lock = threading.Lock()
        self._slots: list[_WorkerSlot] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"Workers({self.num_workers})"

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a worker call fn(*args, **kwargs); processes start with the first tasks.

        Args:
            fn: Any function that cloudpickle can send, lambdas and closures included.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            A future of the result.

        Raises:
            InvalidInputError: If the workers were shut down.
        """
        task = _Task(Future(), cloudpickle.dumps((fn, args, kwargs)))
        with self._lock:
            if self._closed:
                raise InvalidInputError("These workers were shut down: start new ones.")
            self._tasks.put(task)
            if len(self._slots) < self.num_workers:
                log = Path(self._folder.name) / f"{len(self._slots)}.log"
                self._slots.append(_WorkerSlot(self._tasks, log))
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when they have done what was submitted.

        Args:
            wait: Whether to wait until they have ended.
            cancel_futures: Whether to cancel tasks that have not started.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if cancel_futures:
                with contextlib.suppress(queue.Empty):
                    while task := self._tasks.get_nowait():
                        task.future.cancel()
            for _ in self._slots:
                self._tasks.put(None)
        if wait:
            for slot in self._slots:
                slot.thread.join()
            self._folder.cleanup()

    def kill(self) -> None:
        """End the processes at once, in the middle of their tasks."""
        with self._lock:
            slots = list(self._slots)
        for slot in slots:
            slot.kill()
        self.shutdown(cancel_futures=True)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool | None:
        if kind is None:
            self.shutdown()
        else:
            self.kill()
        return None


class _Task(NamedTuple):
    future: Future[Any]
    payload: bytes


class _WorkerSlot:
    """The process of one worker, replaced when it dies, and the thread that waits for it."""

    def __init__(self, tasks: queue.SimpleQueue[_Task | None], log: Path) -> None:
        self._tasks, self._log = tasks, log
        self._process: Any = None
        self._connection: Connection | None = None
        self._left = False
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._work, name="noisewise-worker", daemon=True)
        self.thread.start()

    def kill(self) -> None:
        """End the process, and start no other."""
        with self._lock:
            self._left = True
            if self._process is not None:
                end_group(self._process.pid)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if task.future.set_running_or_notify_cancel():
                self._run(task)
        self._end()

    def _run(self, task: _Task) -> None:
        """Always resolve the future, so that no caller blocks."""
        try:
            good, value = self._answer(task.payload)
        except Exception as error:
            good, value = False, error
        task.future.set_result(value) if good else task.future.set_exception(value)

    def _answer(self, payload: bytes) -> tuple[bool, Any]:
        """Whether the task succeeded, and what it returned or raised."""
        try:
            self._start()
            assert self._connection is not None
            self._connection.send_bytes(payload)
            answer: tuple[bool, Any] = cloudpickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._lost() from None
        return answer

    def _start(self) -> None:
        """Start a process where there is none, in a few attempts."""
        for attempts_left in reversed(range(_START_ATTEMPTS)):
            if self._process is not None:
                return
            try:
                self._try_to_start()
            except BrokenExecutor:
                if not attempts_left or self._left:
                    raise
                time.sleep(_SECONDS_BETWEEN_ATTEMPTS)

    def _try_to_start(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker.serve, args=(theirs, str(self._log)), daemon=True)
        with self._lock:
            if self._left:
                raise BrokenExecutor("the workers were killed")
            try:
                process.start()
            except (RuntimeError, OSError) as error:
                raise BrokenExecutor(f"a worker could not be started: {error}") from error
            finally:
                theirs.close()
            self._connection, self._process = ours, process
        try:
            ours.recv_bytes()
        except (EOFError, OSError):
            exitcode = self._end()
            raise BrokenExecutor(f"a worker could not be started, exit code {exitcode}") from None

    def _lost(self) -> WorkerLostError:
        exitcode = self._end()
        trace = self._log.read_text() if self._log.exists() else ""
        return WorkerLostError(exitcode, trace)

    def _end(self) -> int | None:
        """The exit code of the process, which ends when its connection closes, with all it has
        started.
        """
        with self._lock:
            process, connection = self._process, self._connection
            self._process = self._connection = None
        if process is None or connection is None:
            return None
        connection.close()
        exitcode = _exit_code(process)
        end_group(process.pid)
        with contextlib.suppress(ValueError):
            process.close()
        return exitcode


def _exit_code(process: BaseProcess) -> int | None:
    """Wait until a process has ended; None where its exit code never becomes known.

    When another thread starts a process, it also collects the ended ones, and sets their exit codes
    a moment after `join` has returned. If foreign code collects a process, its code is never set.
    """
    process.join()
    deadline = time.monotonic() + _EXIT_CODE_SECONDS
    while process.exitcode is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    exitcode: int | None = process.exitcode
    return exitcode


def end_group(pid: int) -> None:
    """End a worker and all that it has started; nothing happens if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
