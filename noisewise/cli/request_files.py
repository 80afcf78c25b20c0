"""The file of a request in a run directory: what it must look like before it is believed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisewise._core.json_files import MAX_BYTES, read_json, require_keys, require_schema
from noisewise._core.regular_files import check_no_links, read_regular
from noisewise.cli import catalogue
from noisewise.errors import FileFormatError, InvalidInputError

COMMAND = "command.json"
INPUTS = "inputs"
REGRESSION = "regression.json"
"""The same of a regression."""
SCHEMA, VERSION = "noisewise.command", 1
_FREE = ("argv", "noisewise", "workers", "certify")
"""What may differ between a run and its resumption; with another `certify` the posterior is
certified again.
"""
_PARTS = (
    COMMAND,
    INPUTS,
    "run.json",
    "journal",
    "posterior",
    "certificate.json",
    "corrected",
    "report.html",
    ".lock",
)
"""What noisewise reads or writes in a run directory: none of it may be a symbolic link."""
_MAX_WORKERS = 4096
"""Processes that a file may ask for: more than any one machine has cores, few enough not to exhaust
it.
"""


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a run besides its model file."""
    return {name: value for name, value in record.items() if name not in (*_FREE, "file")}


def read_record(out: Path) -> dict[str, Any]:
    """The record of the run in `out`, with every key, of our schema; values are not checked."""
    if not out.is_dir():
        raise InvalidInputError(f"There is no run {out}.")
    check_no_links(out, *_PARTS)
    if not (out / COMMAND).exists() and os.path.lexists(out / REGRESSION):
        raise InvalidInputError(
            f"{out} is a run of noisewise regress, which keeps no copy of the data: repeat the"
            f" command that began it, with --out {out}; a finished run is then shown again."
        )
    if not (out / COMMAND).exists():
        raise InvalidInputError(f"{out} is not a run of noisewise infer: it has no {COMMAND}.")
    what = f"The file {out / COMMAND}"
    record = read_json(out / COMMAND, "The file", follow_links=False)
    require_schema(record, SCHEMA, VERSION, what)
    keys = ("problem", "file", "releases", "method", "epsilon", "seed", "settings")
    require_keys(record, ("schema", "schema_version", *_FREE, *keys), what)
    named = {name: record[name] for name in ("problem", "method") if isinstance(record[name], str)}
    return record | {name: catalogue.slug_of(given) for name, given in named.items()}


def check_record(record: dict[str, Any]) -> None:
    """Refuse what `Request` does not write, and copies that lie elsewhere: the file may be a
    stranger's.
    """
    _check_types(record)
    if (record["problem"] is None) == (record["file"] is None):
        raise FileFormatError("it must name either a problem or a model file.")
    if not (
        0 <= record["seed"] < 2**32
        and 0 < record["certify"] < 2**53
        and 0 < record["workers"] <= _MAX_WORKERS
    ):
        raise FileFormatError(
            "seed, certify and workers must be numbers that the command line takes."
        )
    if record["file"] is not None:
        _check_file(record["file"])
    for value in record["settings"].values():
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise FileFormatError("settings must be numbers or strings.")
    for entry in record["releases"]:
        require_keys(entry, ("copy", "sha256"), "A release")
        if not re.fullmatch(rf"{INPUTS}/\d+-[^/\\]+", str(entry["copy"])):
            raise FileFormatError(f"copies of releases lie in {INPUTS}/.")


def _check_types(record: dict[str, Any]) -> None:
    needed = {"seed": int, "certify": int, "workers": int, "settings": dict, "releases": list}
    optional = {"method": str, "epsilon": float, "problem": str, "file": dict}
    for name, kind in (needed | optional).items():
        left_out = name in optional and record[name] is None
        if not left_out and type(record[name]) is not kind:
            raise FileFormatError(f"{name} must be a {kind.__name__}.")


def _check_file(file: dict[str, Any]) -> None:
    require_keys(file, ("path", "name", "sha256"), "A model file")
    texts = all(isinstance(text, str) for text in file.values())
    if not texts or not re.fullmatch(r"\w+", file["name"]):
        raise FileFormatError("a model file has a path, a name and a sha256.")


def require_same(stored: dict[str, Any], asked: dict[str, Any], out: Path) -> None:
    """Refuse to resume a run that was asked for something else, with the differences."""
    files = [
        {name: part for name, part in (each["file"] or {}).items() if name != "path"}
        for each in (stored, asked)
    ]
    others = [
        name
        for name, value in asked.items()
        if name not in (*_FREE, "file") and stored[name] != value
    ]
    others += ["file"] * (files[0] != files[1])  # wherever it lies now
    if others:
        differences = "; ".join(
            f"{name}: {_short(stored[name])} there, {_short(asked[name])} now" for name in others
        )
        raise InvalidInputError(
            f"{out} holds another run ({differences}): choose another --out, or resume that one"
            f" with noisewise resume {out}."
        )


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "others" if value else "none"
    return "the default" if value is None else str(value)[:60]


def digest(path: Path, *, follow_links: bool = True) -> str:
    """The sha256 of a small regular file."""
    return hashlib.sha256(
        read_regular(path, limit=MAX_BYTES, follow_links=follow_links)
    ).hexdigest()
