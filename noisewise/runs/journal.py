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

import dataclasses
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._core.files import unwritten
from noisewise._core.json_files import require_keys, require_schema
from noisewise._core.regular_files import check_no_links
from noisewise.errors import FileFormatError, NoisewiseError, ResumeError
from noisewise.runs.tensors import read_tensors, write_tensors

SCHEMA, VERSION = "noisewise.journal", 1
_KEYS = ("schema", "schema_version", "run", "seconds", "num_simulations", "steps")
_STEPS = {
    "rows": ("kind", "call", "row", "rows", "inputs", "faults"),
    "result": ("kind", "call", "name", "arrays", "stopped", "moves"),
    "time": ("kind", "call", "row"),
}
_SECONDS = 1.0
"""Seconds between two files: what a killed process loses, and long beside writing one."""
_STATE_SHARE = 0.05
"""The largest share of the time that goes into writing the state of chains."""
_MOST_STEPS = 20_000
"""Steps of one file: their JSON stays far below the largest that is read, 16 MiB."""
_MAX_COUNT = 2**53
"""Counts stay below: larger ones are not exact in float64."""
_STATE = "state"
_SUFFIX = ".safetensors"

Arrays = dict[str, np.ndarray]
Position = tuple[int, int]
"""The number of a call, and how much of it is done."""


@dataclasses.dataclass(frozen=True)
class Result:
    """Named arrays, and why the work was to end: an empty text where it was not."""

    arrays: Arrays
    stopped: str


@dataclasses.dataclass(frozen=True)
class Contents:
    """One file of a journal.

    Attributes:
        path: The file.
        seconds: The time spent when it was written.
        num_simulations: The simulations made when it was written.
        steps: Its steps as JSON objects, in the order in which they were done.
        arrays: The statistics of all its batches, "s" of shape (n, k), and the arrays of its
            results.
    """

    path: Path
    seconds: float
    num_simulations: int
    steps: list[dict[str, Any]]
    arrays: Arrays


def read_contents(path: Path, run: str) -> Contents:
    """Read one file of the journal of a run.

    Args:
        path: The file.
        run: The id of the run.

    Raises:
        FileFormatError: If it is altered, truncated, foreign, or of another run.
    """
    what = f"The journal file {path.name}"
    content, arrays = read_tensors(path)
    require_schema(content, SCHEMA, VERSION, what)
    require_keys(content, _KEYS, what)
    if content["run"] != run:
        raise FileFormatError(f"{what} belongs to another run.")
    seconds, num, steps = content["seconds"], content["num_simulations"], content["steps"]
    counted = isinstance(seconds, float) and seconds >= 0.0 and type(num) is int and num >= 0
    if not counted or not isinstance(steps, list):
        raise FileFormatError(f"{what} must have seconds, simulations and steps.")
    for step in steps:
        _check_step(step, arrays, what)
    s = arrays.get("s", np.zeros((0, 1)))
    if s.ndim != 2 or s.dtype != np.float64 or sum(step.get("rows", 0) for step in steps) != len(s):
        raise FileFormatError(f"{what} does not hold the statistics that its steps describe.")
    return Contents(path, seconds, num, steps, arrays)


def _check_step(step: Any, arrays: Arrays, what: str) -> None:
    kind = step.get("kind") if isinstance(step, dict) else None
    if not isinstance(kind, str) or kind not in _STEPS:
        raise FileFormatError(f"{what} has a step of an unknown kind.")
    require_keys(step, _STEPS[kind], f"{what}: a step")
    if not all(_fits(name, value) for name, value in step.items()):
        raise FileFormatError(f"{what} has a step with numbers or texts of another kind.")
    names = step.get("arrays", [])
    if not isinstance(names, list) or not all(
        isinstance(n, str) and f"{step['call']}.{n}" in arrays for n in names
    ):
        raise FileFormatError(f"{what} does not hold the arrays of a step.")


def _fits(name: str, value: Any) -> bool:
    """Whether a field of a step may have this value."""
    if name in ("call", "row", "rows", "moves"):
        return type(value) is int and 0 <= value < _MAX_COUNT
    return isinstance(value, str) or name not in ("inputs", "name", "stopped")


def journal_files(folder: Path) -> list[Path]:
    """The files of a journal in their order, without the state."""
    return sorted(path for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())


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
        path = self.folder / f"{_STATE}{_SUFFIX}"
        if not path.exists():
            return
        try:
            call, moves, state = _state(path, self.run)
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
                f" {step['name']} when recorded, but is {name} now. Choose another folder, or delete"
                " this one."
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
            write_tensors(self.folder / f"{self._next:06d}{_SUFFIX}", content, arrays)
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
        write_tensors(self.folder / f"{_STATE}{_SUFFIX}", content, arrays, overwrite=True)
        self._state, now = None, time.monotonic()
        self._state_due = now + (now - started) / _STATE_SHARE


def _state(path: Path, run: str) -> tuple[int, int, list[np.ndarray]]:
    """The state of the chains of a run, with the call and the number of the step after which it
    was.

    """
    content, arrays = read_tensors(path)
    require_keys(content, ("run", "call", "moves"), "The state")
    counts = all(type(content[name]) is int for name in ("call", "moves"))
    numbered = list(arrays) == [*map(str, range(len(arrays)))]
    if content["run"] != run or not counts or not numbered:
        raise FileFormatError("The state belongs to another run.")
    return content["call"], content["moves"], list(arrays.values())


def _inputs(words: np.ndarray, theta: np.ndarray) -> str:
    digest = hashlib.sha256(repr((words.shape, theta.shape)).encode())
    for array in (words, theta):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
