"""Whose code is run: that of a file which the user names, or which this machine's own record names
for the very run.

A run directory may be a stranger's, and what it says of a model file is shown, never run. The
record lies outside of it:

    (state folder)/runs/SHA256-OF-THE-PATH.json     run and model, as real paths; what was asked for; the sha256 of the model
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisewise._core.local_records import read_record, write_record
from noisewise._core.regular_files import read_regular

NAME = "model"
"""What is taken from a file where no name is given."""
_KIND = "runs"
_MAX_BYTES = 16 * 2**20


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A file of Python and the name in it. It is read once: the content that is hashed is the
    content that is run.
    """

    path: Path
    name: str
    content: bytes = dataclasses.field(repr=False)

    @property
    def sha256(self) -> str:
        """Of the content."""
        return hashlib.sha256(self.content).hexdigest()


def parsed(text: str) -> tuple[Path, str] | None:
    """The path and the name of 'model.py:name', or of 'model.py' for short; None for what is no
    Python file.
    """
    found = re.fullmatch(r"(.+\.py)(?::(\w+))?", text)
    return None if found is None else (Path(found[1]), found[2] or NAME)


def spelt(path: Path, name: str) -> str:
    """What `parsed` reads, as short as it can be."""
    return str(path) if name == NAME else f"{path}:{name}"


def read(path: Path, name: str = NAME) -> ModelFile:
    """The file that a user has named."""
    return ModelFile(path, name, read_regular(path, limit=_MAX_BYTES))


def remember(run: Path, request: Mapping[str, Any], model: ModelFile) -> bool:
    """Write down, outside the run directory, that this file is used for this run; whether that was
    possible.
    """
    known = {"path": os.path.realpath(model.path), "name": model.name, "sha256": model.sha256}
    return write_record(
        _KIND,
        _key(run),
        {"run": os.path.realpath(run), "request": _digest(request), "model": known},
    )


def recalled(run: Path, request: Mapping[str, Any]) -> tuple[Path, str, str] | None:
    """Path, name and sha256 of the file that this user used on this machine for this very run."""
    record = read_record(_KIND, _key(run)) or {}
    model = record.get("model")
    same = record.get("run") == os.path.realpath(run) and record.get("request") == _digest(request)
    if (
        not same
        or not isinstance(model, dict)
        or not all(isinstance(text, str) for text in model.values())
    ):
        return None
    return (
        None
        if set(model) != {"path", "name", "sha256"}
        else (Path(model["path"]), model["name"], model["sha256"])
    )


def _key(run: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(run))).hexdigest()


def _digest(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
