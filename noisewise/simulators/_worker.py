"""What runs in a worker process: a batch of simulations by a plain Python function.

It imports next to nothing, so that workers start fast.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import faulthandler
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

import cloudpickle
import numpy as np

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from numpy.typing import ArrayLike

RAISED, HUNG, LOST = "raised an error", "took too long", "were lost with their worker"
"""The ways in which a simulation fails."""

_MAX_LOADED = 8
"""Pairs of simulator and query kept unpickled per process: more than one inference uses, and each
may hold large data.
"""

_loading = threading.Lock()
_loaded: collections.OrderedDict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = (
    collections.OrderedDict()
)


@dataclasses.dataclass(frozen=True)
class Failure:
    """What went wrong in a simulation.

    Attributes:
        reason: One sentence, such as "ValueError: no people left".
        trace: The traceback as text; empty where there is none.
        error: The exception itself, where it did not have to travel between processes.
        kind: `RAISED`, `HUNG` or `LOST`.
    """

    reason: str
    trace: str = ""
    error: BaseException | None = None
    kind: str = RAISED


class BadStatisticError(Exception):
    """The query did not return one vector of real numbers."""


class TimeIsUp(SystemExit):
    """Raised in a thread whose simulation takes too long; not caught by `except Exception`."""


Outcome = Any
"""A statistic (k,), a database, or a `Failure`."""


def run_batch(
    fn: Callable[..., Any],
    query: Callable[..., Any] | None,
    timeout: float | None,
    words: np.ndarray,
    indices: np.ndarray,
    theta: np.ndarray,
    serial: int = 0,
) -> list[Outcome]:
    """One simulation per row; never raises because one of them fails.

    Args:
        fn: The simulator's function (rng, theta_1d) -> x.
        query: Function from x to its statistic; None to return databases.
        timeout: Seconds per simulation; None for no limit.
        words: Keys as numbers, shape (B, w).
        indices: Numbers to fold into the keys, shape (B,).
        theta: Parameters, shape (B, d).
        serial: Makes equal batches different, for executors that run equal tasks only once.

    Returns:
        One outcome per row.
    """
    run = _run_one if timeout is None else _guarded(timeout)
    return [run(fn, query, *row) for row in zip(words, indices, theta, strict=True)]


def run_pickled_batch(payload: bytes, digest: str, *arguments: Any) -> list[Outcome]:
    """`run_batch` with (fn, query) as cloudpickle wrote them, unpickled once per process.

    Args:
        payload: The pickled pair.
        digest: Hash of the payload, under which the pair is kept.
        arguments: The other arguments of `run_batch`.

    Returns:
        One outcome per row; failures without their exceptions, which need not be picklable.
    """
    with _loading:
        if digest not in _loaded:
            _loaded[digest] = cloudpickle.loads(payload)
            while len(_loaded) > _MAX_LOADED:
                _loaded.popitem(last=False)
        task = _loaded[digest]
    outcomes = run_batch(*task, *arguments)
    return [
        dataclasses.replace(item, error=None) if isinstance(item, Failure) else item
        for item in outcomes
    ]


def generator(words: np.ndarray, index: int) -> np.random.Generator:
    """The generator of one simulation.

    Args:
        words: The key as numbers, shape (w,).
        index: Number of the simulation under this key.

    Returns:
        A Philox generator seeded by both.
    """
    return np.random.Generator(
        np.random.Philox(np.random.SeedSequence(words.tolist(), spawn_key=(int(index),)))
    )


def _run_one(
    fn: Callable[..., Any],
    query: Callable[..., Any] | None,
    words: np.ndarray,
    index: int,
    theta: np.ndarray,
) -> Outcome:
    try:
        x = fn(generator(words, index), theta.copy())
        return x if query is None or is_nan(x) else _vector(query(x))
    except (Exception, SystemExit) as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc(), error)


def is_nan(x: object) -> bool:
    """Whether NaN stands in place of data."""
    return isinstance(x, float) and x != x


def _vector(s: ArrayLike) -> np.ndarray:
    try:
        array = np.asarray(s)
        numeric = array.dtype.kind in "fiub"
    except ValueError:
        numeric = False
    if not numeric:
        raise BadStatisticError(
            f"the query must return one array of real numbers, got {type(s).__name__}"
        )
    if array.ndim > 1 or array.size == 0:
        raise BadStatisticError(
            f"the query must return a statistic of shape (k,), got {array.shape}"
        )
    return np.atleast_1d(array).astype(np.float64)


# Simulations that hang ----------------------------------------------------------------------------

_watchdog: TextIO | None = None


def _end_when_hung(log: TextIO) -> None:
    """From now on, end this process when a simulation takes too long, and write where it was to
    `log`.

    Nothing else stops compiled code. Only for processes that are replaced when they end.
    """
    global _watchdog
    _watchdog = log


def _guarded(timeout: float) -> Callable[..., Outcome]:
    def run(*arguments: Any) -> Outcome:
        if _watchdog is None:
            return _in_thread(timeout, *arguments)
        with _watched(timeout, _watchdog):
            return _run_one(*arguments)

    return run


@contextlib.contextmanager
def _watched(timeout: float, log: TextIO) -> Iterator[None]:
    faulthandler.dump_traceback_later(timeout, exit=True, file=log)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _in_thread(timeout: float, *arguments: Any) -> Outcome:
    """The outcome of a simulation in a thread of its own, which is abandoned when it takes too
    long.
    """
    box: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: box.put(_run_one(*arguments)), daemon=True)
    thread.start()
    try:
        return box.get(timeout=timeout)
    except queue.Empty:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(TimeIsUp)
        )
        return Failure(too_long(timeout), kind=HUNG)


def too_long(timeout: float) -> str:
    """The reason given for a simulation that hangs."""
    return f"it took more than {timeout:g} s."


# Workers of our own -------------------------------------------------------------------------------


def serve(connection: Connection, log: str) -> None:
    """Run tasks until the parent is gone; interrupts are left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()  # so that what it starts can be ended with it
    with (
        open(log, "w") as file,
        contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError),
    ):
        _end_when_hung(file)
        connection.send_bytes(b"ready")
        while True:
            task = connection.recv_bytes()
            connection.send_bytes(_answer(task))


def _answer(task: bytes) -> bytes:
    try:
        fn, args, kwargs = cloudpickle.loads(task)
        return cloudpickle.dumps((True, fn(*args, **kwargs)))
    except Exception as error:
        return cloudpickle.dumps((False, _picklable(error)))


def _picklable(error: Exception) -> Exception:
    """The error, or its text where it cannot be sent."""
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
