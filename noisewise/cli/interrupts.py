"""Ctrl-C: compiled programs cannot be interrupted, so the work runs in a thread and the main one
leaves.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar

from noisewise._core.text import printable
from noisewise.cli.exits import INTERRUPTED

Result = TypeVar("Result")


def in_thread(work: Callable[[], Result], farewell: str) -> Result:
    """What `work()` returns; at Ctrl-C the process prints `farewell` and ends at once.

    Everything on disk is written whole or not at all, so that ending hard is safe.
    """
    box: dict[str, Any] = {}

    def run() -> None:
        try:
            box["result"] = work()
        except BaseException as error:
            box["error"] = error

    thread = threading.Thread(target=run, name="noisewise", daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(0.2)
    except KeyboardInterrupt:
        _leave(farewell)
    if "error" in box:
        raise box["error"]
    return box["result"]


def _leave(farewell: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for child in multiprocessing.active_children():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(
                child.pid or -1, signal.SIGKILL
            )  # a worker leads a group of its own, with what it has started
        child.kill()
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    os.write(2, f"{cursor}\n{printable(farewell)}\n".encode())
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def pool(workers: int) -> Iterator[Executor | None]:
    """Worker processes, which leave Ctrl-C to us; None for one worker."""
    if workers == 1:
        yield None
        return
    from noisewise.simulators import Workers

    # a process that ends hard leaves its semaphores to Python's tracker, which clears them away but
    # would complain on the terminal
    os.environ["PYTHONWARNINGS"] = ",".join(
        filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker"])
    )
    with Workers(workers) as executor:
        yield executor
