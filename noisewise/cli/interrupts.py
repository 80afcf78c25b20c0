"""Ctrl-C: compiled programs cannot be interrupted, so work runs in a thread and the main one
exits.
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

_POLL_SECONDS = 0.2
"""Seconds between two chances to hear Ctrl-C: short for a person, next to no work."""


def in_thread(work: Callable[[], Result], farewell: str) -> Result:
    """Run `work()` in a thread; at Ctrl-C the process prints `farewell` and ends at once.

    Ending hard is safe, since everything on disk is written whole or not at all.

    Args:
        work: What to do.
        farewell: Last line after Ctrl-C, such as how to resume.

    Returns:
        What `work()` returns; what it raises is raised here.
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
            thread.join(_POLL_SECONDS)
    except KeyboardInterrupt:
        _exit_at_once(farewell)
    if "error" in box:
        raise box["error"]
    return box["result"]


def _exit_at_once(farewell: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for child in multiprocessing.active_children():
        with contextlib.suppress(ProcessLookupError):
            # a worker leads a group of its own, with all that it has started
            os.killpg(child.pid or -1, signal.SIGKILL)
        child.kill()
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    os.write(2, f"{cursor}\n{printable(farewell)}\n".encode())
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def pool(workers: int) -> Iterator[Executor | None]:
    """Worker processes for the time of a `with` block; Ctrl-C is left to the main process.

    Args:
        workers: How many.

    Yields:
        An executor; None for one worker, which is this process.
    """
    if workers == 1:
        yield None
        return
    from noisewise.simulators import Workers

    # when a process ends hard, Python's tracker removes its semaphores, and would warn about them
    filters = [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker"]
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, filters))
    with Workers(workers) as executor:
        yield executor
