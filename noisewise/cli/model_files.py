"""Which model file is run: one that the user names, or one that this machine's own record names
for this very run.

A run directory may come from a stranger. What it says about a model file is shown, never run. The
record lies outside of it:

    (state folder)/runs/SHA256-OF-THE-PATH.json

with the real paths of run and model, what was asked for, and the sha256 of the model.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisewise._core.json_files import json_digest
from noisewise._core.local_records import read_record, write_record
from noisewise._core.regular_files import read_regular

NAME = "model"
"""The name that is looked up in a file where none is given."""

_KIND = "runs"
_MAX_BYTES = 16 * 2**20  # of a model file: far more than code needs, and quickly read


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A Python file and the name in it.

    It is read once: the content that is hashed is the content that is run.

    Attributes:
        path: Where it lies.
        name: The name of the model in it.
        content: Its bytes.
    """

    path: Path
    name: str
    content: bytes = dataclasses.field(repr=False)

    @property
    def sha256(self) -> str:
        """The hash of the content, as hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()


def parsed(text: str) -> tuple[Path, str] | None:
    """The file and the name that a target stands for.

    Args:
        text: 'model.py:name', or 'model.py' for the name `model`.

    Returns:
        The path and the name; None if it is not a Python file.
    """
    found = re.fullmatch(r"(.+\.py)(?::(\w+))?", text)
    return None if found is None else (Path(found[1]), found[2] or NAME)


def spelt(path: Path, name: str) -> str:
    """The shortest text from which `parsed` reads this path and name."""
    return str(path) if name == NAME else f"{path}:{name}"


def read(path: Path, name: str = NAME) -> ModelFile:
    """Read the file that a user has named.

    Args:
        path: A regular file of at most 16 MiB.
        name: The name of the model in it.

    Returns:
        The file with its content.

    Raises:
        InvalidInputError: If it cannot be read, or is not a regular file.
        FileFormatError: If it is larger.
    """
    return ModelFile(path, name, read_regular(path, limit=_MAX_BYTES))


def remember(run: Path, request: Mapping[str, Any], model: ModelFile) -> bool:
    """Write down, outside the run directory, that this file is used for this run.

    Args:
        run: The run directory.
        request: What was asked for, JSON-ready.
        model: The file.

    Returns:
        Whether the record could be written.
    """
    known = {"path": os.path.realpath(model.path), "name": model.name, "sha256": model.sha256}
    record = {"run": os.path.realpath(run), "request": json_digest(request), "model": known}
    return write_record(_KIND, _key(run), record)


def recalled(run: Path, request: Mapping[str, Any]) -> tuple[Path, str, str] | None:
    """The file that this user used on this machine for this very run.

    Args:
        run: The run directory.
        request: What was asked for, JSON-ready.

    Returns:
        Path, name and sha256; None if there is no record, or it is of another request.
    """
    record = read_record(_KIND, _key(run)) or {}
    model = record.get("model")
    same = record.get("run") == os.path.realpath(run) and record.get("request") == json_digest(
        request
    )
    if not same or not isinstance(model, dict) or set(model) != {"path", "name", "sha256"}:
        return None
    if not all(isinstance(text, str) for text in model.values()):
        return None
    return Path(model["path"]), model["name"], model["sha256"]


def _key(run: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(run))).hexdigest()
