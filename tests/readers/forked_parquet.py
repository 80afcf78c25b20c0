"""The process that unpacks Parquet files, forked from one that has imported pyarrow: what a file
takes is then milliseconds, where Python, numpy and pyarrow take a quarter of a second to start.

Each file still has a process of its own, with the same limits, that may end in any way.
"""

import contextlib
import io
import os
import struct
import subprocess
import sys
from pathlib import Path

_HEAD = struct.Struct("<QQ")
"""The sizes of the two parts of a request; those of an answer come with 0."""


class Forked:
    """Stands for `subprocess` in `noisewise.readers.parquet`: `run` asks the process that forks."""

    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
        )

    def run(self, command, *, input, **_):
        asked = command[-1].encode()
        self._process.stdin.write(_HEAD.pack(len(asked), len(input)) + asked + input)
        self._process.stdin.flush()
        size, _ = _HEAD.unpack(self._process.stdout.read(_HEAD.size))
        return subprocess.CompletedProcess(command, 0, self._process.stdout.read(size), b"")

    def close(self):
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def serve():
    """Answer requests until there are no more."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "noisewise" / "readers"))
    import parquet_process
    import pyarrow.parquet  # noqa: F401  what a fork need not do again

    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(_HEAD.size):
        asked, content = map(requests.read, _HEAD.unpack(head))
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                sys.argv = ["", asked.decode()]
                sys.stdin = io.TextIOWrapper(io.BytesIO(content))
                sys.stdout = os.fdopen(writes, "w")
                parquet_process.main()
                sys.stdout.flush()
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        answers.write(_HEAD.pack(len(answer), 0) + answer)
        answers.flush()


if __name__ == "__main__":
    serve()
