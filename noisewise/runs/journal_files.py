"""The files of a journal, read without trusting them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._core.json_files import require_keys, require_schema
from noisewise.errors import FileFormatError
from noisewise.runs.array_files import read_arrays

SCHEMA, VERSION = "noisewise.journal", 1
_KEYS = ("schema", "schema_version", "run", "seconds", "num_simulations", "steps")
_STEPS = {
    "rows": ("kind", "call", "row", "rows", "inputs", "faults"),
    "result": ("kind", "call", "name", "arrays", "stopped", "moves"),
    "time": ("kind", "call", "row"),
}
_MAX_COUNT = 2**53
"""Counts stay below: larger ones are not exact in float64."""
STATE = "state"
SUFFIX = ".safetensors"

Arrays = dict[str, np.ndarray]


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
    content, arrays = read_arrays(path)
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
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


def read_state(path: Path, run: str) -> tuple[int, int, list[np.ndarray]]:
    """The state of the chains of a run, with the call and the number of the step after which it
    was.

    """
    content, arrays = read_arrays(path)
    require_keys(content, ("run", "call", "moves"), "The state")
    counts = all(type(content[name]) is int for name in ("call", "moves"))
    numbered = list(arrays) == [*map(str, range(len(arrays)))]
    if content["run"] != run or not counts or not numbered:
        raise FileFormatError("The state belongs to another run.")
    return content["call"], content["moves"], list(arrays.values())
