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
from pathlib import Path
from typing import Any

import cloudpickle

from noisewise._core.arrays import integer
from noisewise.errors import InvalidInputError
from noisewise.simulators import _worker

_CHANCES, _PAUSE = 3, 0.5
_PATIENCE, _MOMENT = 2.0, 0.002


class WorkerLostError(Exception):
    """A worker ended in the middle of a task. `trace` says where it hung, and is empty where it did
    not.
    """

    def __init__(self, exitcode: int | None, trace: str) -> None:
        super().__init__(f"its worker ended with exit code {exitcode}")
        self.trace = trace


class Workers(Executor):
    """An executor of `num_workers` spawned processes, all cores by default, that outlives their
    deaths.

    A `concurrent.futures.ProcessPoolExecutor` is broken for good when one of its processes dies,
    and waits forever for one that hangs. Here each process has a thread of this one that waits for
    it: when it dies, its task alone fails, with `WorkerLostError`, and the next one gets a new
    process. `PythonSimulator` runs what was lost once more, alone, so that nothing but the
    simulation that kills its worker is dropped.

    Start it in a script under `if __name__ == "__main__":`, since spawned processes import the
    script anew.

    >>> import jax, numpy as np
    >>> import noisewise as nw
    >>> simulator = nw.simulators.PythonSimulator(lambda rng, theta: rng.normal(theta[0], 1.0, size=100), timeout=60.0)
    >>> with nw.simulators.Workers(2) as workers:
    ...     s = simulator.statistics(jax.random.key(0), np.zeros((8, 1)), lambda x: [x.mean()], executor=workers)
    >>> s.shape
    (8, 1)
    """

    def __init__(self, num_workers: int | None = None) -> None:
        given = integer("num_workers", at_least=1, optional=True)(num_workers)
        self.num_workers = given or os.cpu_count() or 1
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._folder = tempfile.TemporaryDirectory(prefix="noisewise-")
        self._lock = threading.Lock()
        self._seats: list[_Seat] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"Workers({self.num_workers})"

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a worker call fn(*args, **kwargs); functions travel by cloudpickle. Processes start
        with the first tasks.
        """
        task = _Task(Future(), cloudpickle.dumps((fn, args, kwargs)))
        with self._lock:
            if self._closed:
                raise InvalidInputError("These workers were shut down: start new ones.")
            self._tasks.put(task)
            if len(self._seats) < self.num_workers:
                log = Path(self._folder.name) / f"{len(self._seats)}.log"
                self._seats.append(_Seat(self._tasks, log))
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: when they have done what was submitted, or with `cancel_futures` what
        they are at.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if cancel_futures:
                with contextlib.suppress(queue.Empty):
                    while task := self._tasks.get_nowait():
                        task.future.cancel()
            for _ in self._seats:
                self._tasks.put(None)
        if wait:
            for seat in self._seats:
                seat.thread.join()
            self._folder.cleanup()

    def kill(self) -> None:
        """End the processes at once, whatever they are at."""
        with self._lock:
            seats = list(self._seats)
        for seat in seats:
            seat.leave()
        self.shutdown(cancel_futures=True)

    def __exit__(self, kind: Any, *rest: Any) -> bool | None:
        if kind is None:
            self.shutdown()
        else:
            self.kill()
        return None


class _Task:
    def __init__(self, future: Future[Any], payload: bytes) -> None:
        self.future, self.payload = future, payload


class _Seat:
    """One worker after the other, and the thread that waits for them."""

    def __init__(self, tasks: queue.SimpleQueue[_Task | None], log: Path) -> None:
        self._tasks, self._log = tasks, log
        self._process: Any = None
        self._connection: Connection | None = None
        self._left = False
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._work, name="noisewise-worker", daemon=True)
        self.thread.start()

    def leave(self) -> None:
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
        """Whatever happens, the future hears of it: who waits for it would wait for ever."""
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
        """Start a process where there is none; a machine that is short of something gets a few
        chances.
        """
        for chance in reversed(range(_CHANCES)):
            if self._process is not None:
                return
            try:
                self._try_to_start()
            except BrokenExecutor:
                if not chance or self._left:
                    raise
                time.sleep(_PAUSE)

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
        """The exit code of the process, which ends when its connection closes; what it has started
        ends with it.
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


def _exit_code(process: Any) -> int | None:
    """Wait until a process has ended.

    Another thread that starts a process collects those that have ended, this one too, and says so a
    moment after `join` has returned; for one that foreign code collects the exit code is never
    known.
    """
    process.join()
    patience = time.monotonic() + _PATIENCE
    while process.exitcode is None and time.monotonic() < patience:
        time.sleep(_MOMENT)
    exitcode: int | None = process.exitcode
    return exitcode


def end_group(pid: int) -> None:
    """End a worker and all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
