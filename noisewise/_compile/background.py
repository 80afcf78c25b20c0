"""Work ahead of time, in another thread, while this one is busy in compiled programs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def in_background(call: Callable[[], Any] | None) -> Iterator[None]:
    """Make a call in another thread during the block, and wait for it at the end.

    Use it to compile programs that are needed later: that takes seconds of one core. On a machine
    with one core the call is left out. What it raises is ignored here, because it will be raised
    again where its result is needed.

    Args:
        call: The call, or None for nothing.

    >>> found = []
    >>> with in_background(lambda: found.append(1)):
    ...     pass
    >>> len(found) == (num_cores() > 1)
    True
    """
    if call is None or num_cores() == 1:
        yield
        return

    def quietly() -> None:
        with contextlib.suppress(Exception):
            call()

    thread = threading.Thread(target=quietly, name="noisewise-ahead")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def num_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
