"""What a run has simulated and computed so far, step by step, so that none of it is done twice.

An inference is a deterministic function of its key, model, observation and settings, once simulated
statistics are given. The journal numbers each call for simulations and each expensive result in the
order in which they are asked for. A resumed run asks for the same in the same order and gets what
is on disk; the rest it does itself, and its result is the same to the last bit.

    journal/000012.safetensors      steps in the order in which they were done
    journal/state.safetensors       the state of long chains after one of the last steps

A step is a batch of statistics with the sha256 of the keys and parameters they belong to, a named
result, or the moment when the time was up. A file is written whole, about once a second. One that
is damaged or missing costs what it held: that is done again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._core.files import unwritten
from noisewise._core.regular_files import check_no_links
from noisewise.errors import NoisewiseError, ResumeError
from noisewise.runs.array_files import write_arrays
from noisewise.runs.journal_files import (
    SCHEMA,
    STATE,
    SUFFIX,
    VERSION,
    Arrays,
    Contents,
    Result,
    journal_files,
    read_contents,
    read_state,
)

_SECONDS = 1.0
"""Seconds between two files: what a killed process loses, and long compared with writing one."""
_STATE_SHARE = 0.05
"""The largest share of the time that goes into writing the state of chains."""
_MOST_STEPS = 20_000
"""Steps of one file: their JSON stays far below the largest that is read, 16 MiB."""

Position = tuple[int, int]
"""The number of a call, and how much of it is done."""


class Journal:
    """What is recorded of a run, by the number of each call.

    `begin` starts the next call; `recall_rows`, `recall` and `recall_move` return what is recorded
    of it; `keep_rows` and `keep` record what is new, which is on disk soon after.

    Args:
        folder: The folder of the journal, made where there is none.
        run: The id of the run.

    Attributes:
        num_simulations: Simulations of the calls so far, recorded ones included.
        num_moves: The number of the last step of chains.
        dropped: Names of files that were damaged.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self.folder, self.run = folder, run
        self.call = self.row = 0
        self.num_simulations = self.num_moves = 0
        self.seconds_before = 0.0
        self.dropped: list[str] = []
        self.checked = False
        """Whether the model was seen to simulate what is recorded."""
        self._rows: dict[int, dict[int, tuple[Path, int, dict[str, Any]]]] = {}
        self._results: dict[int, tuple[Path, dict[str, Any]]] = {}
        self._end: Position = (0, 0)
        self._time_up: Position | None = None
        self._open: Contents | None = None
        self._next = 0
        self._steps: list[dict[str, Any]] = []
        self._statistics: list[np.ndarray] = []
        self._arrays: Arrays = {}
        self._state: tuple[int, int, list[np.ndarray]] | None = None
        self._known_state: tuple[int, list[np.ndarray]] = (-1, [])
        self._started = self._written = time.monotonic()
        self._state_due = 0.0
        self._index()

    # Reading --------------------------------------------------------------------------------------

    def _index(self) -> None:
        check_no_links(self.folder.parent, self.folder.name)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritten(self.folder, error) from None
        for path in journal_files(self.folder):
            self._next = max(self._next, int(path.stem) + 1)
            try:
                self._take_in(read_contents(path, self.run))
            except NoisewiseError:
                self._drop(path)
        self._read_state()

    def _drop(self, path: Path) -> None:
        """Put a damaged file aside."""
        self.dropped.append(path.name)
        try:
            path.replace(path.with_suffix(".damaged"))
        except OSError as error:
            raise unwritten(path, error) from None

    def _take_in(self, contents: Contents) -> None:
        self.seconds_before = max(self.seconds_before, contents.seconds)
        first = 0
        for step in contents.steps:
            call, kind = step["call"], step["kind"]
            if kind == "rows":
                self._rows.setdefault(call, {})[step["row"]] = (contents.path, first, step)
                first += step["rows"]
                end = (call, step["row"] + step["rows"])
            elif kind == "result":
                self._results[call] = (contents.path, step)
                end = (call, 1)
            else:
                self._time_up = end = (call, step["row"])
            self._end = max(self._end, end)

    def _read_state(self) -> None:
        """Where chains stood, if every step before it is known."""
        path = self.folder / f"{STATE}{SUFFIX}"
        if not path.exists():
            return
        try:
            call, moves, state = read_state(path, self.run)
        except NoisewiseError:
            self._drop(path)
            return
        made = [
            step["moves"]
            for number, (_, step) in sorted(self._results.items())
            if number <= call and step["moves"]
        ]
        if call in self._results and len(made) == moves and made == list(range(1, len(made) + 1)):
            self._known_state = (call, state)

    def _contents(self, path: Path) -> Contents:
        if self._open is None or self._open.path != path:
            self._open = read_contents(path, self.run)
        return self._open

    # Asking ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the next call."""
        self.call, self.row = self.call + 1, 0

    def count(self, num: int) -> None:
        """Count simulations whose rows are not kept, those of earlier sessions included."""
        self.num_simulations += num

    def recall_rows(self, words: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, Any] | None:
        """The recorded statistics of the present call, from row `row` on.

        Args:
            words: The words of the keys of all rows of the call, shape (n, 2).
            theta: The parameters of all rows, shape (n, d).

        Returns:
            Statistics of the next rows, shape (m, k), and what is recorded of failures; None if
            these rows are not recorded.

        Raises:
            ResumeError: If they were simulated with other keys or parameters.
        """
        found = self._rows.get(self.call, {}).get(self.row)
        if found is None:
            return None
        path, first, step = found
        rows = slice(self.row, self.row + step["rows"])
        if rows.stop > len(theta) or step["inputs"] != _inputs(words[rows], theta[rows]):
            raise ResumeError(
                f"Cannot resume the run in {self.folder.parent}: it now simulates at other"
                " parameters than when it was recorded. The model, or a package it uses, has"
                " changed: choose another folder, or delete this one."
            )
        self.row = rows.stop
        self.num_simulations += step["rows"]
        return self._contents(path).arrays["s"][first : first + step["rows"]], step["faults"]

    def unknown_rows(self) -> int | None:
        """The number of rows of the present call, from `row` on, that are missing before a recorded
        one; None if no later one is recorded.
        """
        later = [row for row in self._rows.get(self.call, {}) if row > self.row]
        return min(later) - self.row if later else None

    def keep_rows(
        self, words: np.ndarray, theta: np.ndarray, s: np.ndarray, faults: Any = None
    ) -> None:
        """Record statistics of the present call, from row `row` on.

        Args:
            words: The words of the keys of all rows of the call, shape (n, 2).
            theta: The parameters of all rows, shape (n, d).
            s: Statistics of the next rows, shape (m, k).
            faults: All failures so far, JSON-ready.
        """
        rows = slice(self.row, self.row + len(s))
        inputs = _inputs(words[rows], theta[rows])
        step = {
            "kind": "rows",
            "call": self.call,
            "row": self.row,
            "rows": len(s),
            "inputs": inputs,
            "faults": faults,
        }
        self._steps.append(step)
        self._statistics.append(s)
        self.row = rows.stop
        self.num_simulations += len(s)
        self._flush_if_due()

    def recall(self, name: str) -> Result | None:
        """The recorded result of the present call, None if there is none.

        Args:
            name: What is asked for.

        Raises:
            ResumeError: If the recorded result has another name.
        """
        found = self._results.get(self.call)
        if found is None or found[1]["moves"]:
            return None
        return self._result(name, *found)

    def recall_move(self, name: str) -> tuple[Result, list[np.ndarray] | None] | None:
        """The recorded step of chains in the present call, None if there is none.

        Args:
            name: What is asked for.

        Returns:
            The result, and at the last recorded step the arrays of the state of the chains, None
            before.

        Raises:
            ResumeError: If the recorded result has another name.
        """
        self.num_moves += 1
        found, (known, state) = self._results.get(self.call), self._known_state
        if found is None or self.call > known:
            return None
        return self._result(name, *found), state if self.call == known else None

    def _result(self, name: str, path: Path, step: dict[str, Any]) -> Result:
        if step["name"] != name:
            raise ResumeError(
                f"Cannot resume the run in {self.folder.parent}: step {self.call} was"
                f" {step['name']} when recorded, but is {name} now. Choose another folder, or"
                " delete this one."
            )
        arrays = self._contents(path).arrays
        self.row = 1
        return Result(
            {part: arrays[f"{self.call}.{part}"].copy() for part in step["arrays"]}, step["stopped"]
        )

    def keep(self, name: str, result: Result, *, state: Sequence[np.ndarray] | None = None) -> None:
        """Record the result of the present call.

        Args:
            name: What was asked for; it is compared when the run is resumed, so it never changes.
            result: The arrays.
            state: For chains the arrays of their state, of which only the last is kept.
        """
        moves = 0 if state is None else self.num_moves
        self._arrays |= {
            f"{self.call}.{part}": np.asarray(array) for part, array in result.arrays.items()
        }
        names = list(result.arrays)
        kept = {"name": name, "arrays": names, "stopped": result.stopped, "moves": moves}
        self._steps.append({"kind": "result", "call": self.call, **kept})
        if state is not None:
            self._state = (self.call, moves, [np.asarray(array) for array in state])
        self.row = 1
        self._flush_if_due()

    def remembered(self, name: str, compute: Callable[[], Mapping[str, np.ndarray]]) -> Arrays:
        """The recorded result under this name, computed now if there is none.

        Args:
            name: What is asked for.
            compute: Returns named arrays.
        """
        self.begin()
        found = self.recall(name)
        if found is None:
            found = Result(dict(compute()), "")
            self.keep(name, found)
        return found.arrays

    def time_is_up(self, expired: bool) -> bool:
        """Whether the time is up at this point of the run.

        The clock decides only where nothing was recorded beyond this point, and its decision is
        recorded.

        Args:
            expired: What the clock says.
        """
        now = (self.call, self.row)
        if self._time_up is not None:
            return now >= self._time_up
        if now < self._end:
            return False
        if expired:
            self._time_up = now
            self._steps.append({"kind": "time", "call": self.call, "row": self.row})
        return expired

    # Writing --------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """The time spent so far in s, that of earlier sessions included."""
        return self.seconds_before + time.monotonic() - self._started

    def _flush_if_due(self) -> None:
        if time.monotonic() - self._written >= _SECONDS or len(self._steps) >= _MOST_STEPS:
            self.flush()

    def flush(self) -> None:
        """Write what is not on disk yet."""
        if self._steps:
            content = {
                "schema": SCHEMA,
                "schema_version": VERSION,
                "run": self.run,
                "seconds": self.seconds,
                "num_simulations": self.num_simulations,
                "steps": self._steps,
            }
            arrays = dict(self._arrays)
            if self._statistics:
                arrays["s"] = np.concatenate(self._statistics)
            write_arrays(self.folder / f"{self._next:06d}{SUFFIX}", content, arrays)
            self._next += 1
            self._steps, self._statistics, self._arrays = [], [], {}
        self._write_state()
        self._written = time.monotonic()

    def _write_state(self) -> None:
        """Write the state of chains, after the steps that lead to it, and rarely enough to cost a
        twentieth of the time.
        """
        started = time.monotonic()
        if self._state is None or started < self._state_due:
            return
        call, moves, state = self._state
        content = {"run": self.run, "call": call, "moves": moves}
        arrays = {str(i): array for i, array in enumerate(state)}
        write_arrays(self.folder / f"{STATE}{SUFFIX}", content, arrays, overwrite=True)
        self._state, now = None, time.monotonic()
        self._state_due = now + (now - started) / _STATE_SHARE


def _inputs(words: np.ndarray, theta: np.ndarray) -> str:
    digest = hashlib.sha256(repr((words.shape, theta.shape)).encode())
    for array in (words, theta):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
