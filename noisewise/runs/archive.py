"""A folder of arrays and one JSON file: written whole or not at all, read without trusting it.

    path/manifest.json          schema, versions, kind, content, sha256 of arrays and manifest
    path/arrays.safetensors     numbers and booleans (see `tensors`)

The manifest is written last, so that a folder without one is unfinished.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from noisewise import __version__
from noisewise._core.files import PathLike, as_path, unwritten, write_atomically
from noisewise._core.json_files import (
    check_seal,
    dump_json,
    read_json,
    require_keys,
    require_schema,
    sealed,
)
from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.runs.archive_version_1 import ARRAYS as NPZ
from noisewise.runs.archive_version_1 import read_npz
from noisewise.runs.array_files import Arrays, read_arrays, write_arrays

SCHEMA, VERSION = "noisewise.archive", 2
FITS = ("AmortisedPosterior", "LearnedLikelihood", "LearnedConfidentialLikelihood")
POSTERIORS = ("Draws", "WeightedSamples", "LearnedPosterior")
MANIFEST, ARRAYS = "manifest.json", "arrays.safetensors"
_KEYS = ("schema", "schema_version", "kind", "noisewise", "python", "content", "arrays", "sha256")
_MAX_KIND = 40
"""Characters of a foreign kind that a message repeats: more than any of noisewise has."""


def write_archive(
    path: PathLike,
    kind: str,
    content: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    overwrite: bool = False,
) -> Path:
    """Write a folder of this kind.

    Args:
        path: The folder, made where there is none.
        kind: What it holds: the name of the class that reads it.
        content: An object that is JSON-ready.
        arrays: Arrays by name, of numbers or booleans.
        overwrite: Whether an archive that is there may be replaced.

    Returns:
        The folder.

    Raises:
        InvalidInputError: If there is an archive already, or an array has another type.
        StorageError: If the disk is full.
    """
    folder = as_path(path)
    if not overwrite:
        check_free(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(folder, error) from None
    record = {
        "schema": SCHEMA,
        "schema_version": VERSION,
        "kind": kind,
        "noisewise": __version__,
        "python": platform.python_version(),
        "content": dict(content),
        "arrays": write_arrays(folder / ARRAYS, {}, arrays, overwrite=True),
    }
    write_atomically(folder / MANIFEST, dump_json(sealed(record)), overwrite=True)
    with contextlib.suppress(OSError):  # the arrays of the version 1 that was replaced
        (folder / NPZ).unlink()
    return folder


def check_free(path: PathLike) -> None:
    """Refuse a folder that holds an archive already."""
    folder = as_path(path)
    if (folder / MANIFEST).exists():
        raise InvalidInputError(
            f"{folder} holds an archive and is kept: choose another name, delete it, or save with"
            " overwrite=True."
        )


def read_archive(path: PathLike, kinds: tuple[str, ...]) -> tuple[str, dict[str, Any], Arrays]:
    """Read what `write_archive` wrote, in this version or in version 1.

    Args:
        path: The folder.
        kinds: The kinds that the caller can read.

    Returns:
        The kind, the content, and the arrays by name.

    Raises:
        InvalidInputError: If there is no such folder.
        FileFormatError: If anything is altered, truncated or foreign.
    """
    folder = as_path(path)
    if not folder.is_dir():
        raise InvalidInputError(f"There is no folder {folder}.")
    what = f"The archive {folder.name}"
    record = read_json(folder / MANIFEST, "manifest", follow_links=False)
    version = 1 if record.get("schema_version") == 1 else VERSION
    require_schema(record, SCHEMA, version, what)
    require_keys(record, _KEYS, what)
    if not isinstance(record["kind"], str) or record["kind"] not in kinds:
        raise FileFormatError(
            f"{what} must be of kind {' or '.join(kinds)}, but is of kind"
            f" {_printable_kind(record['kind'])}.{_reader_hint(record['kind'])}"
        )
    check_seal(record, what)
    content, described = record["content"], record["arrays"]
    if not isinstance(content, dict) or not isinstance(described, dict if version == 1 else str):
        raise FileFormatError(f"{what} must hold an object 'content', and describe its arrays.")
    if isinstance(described, str):
        return record["kind"], content, read_arrays(folder / ARRAYS, sha256=described)[1]
    return record["kind"], content, read_npz(folder / NPZ, described, what)


def _printable_kind(kind: Any) -> str:
    """The kind that a foreign file names, if a message can repeat it."""
    return kind[:_MAX_KIND] if isinstance(kind, str) and kind.isidentifier() else "another sort"


def _reader_hint(kind: Any) -> str:
    """Which call reads an archive of this kind."""
    if kind in FITS:
        return f" Read it with nw.inference.{kind}.load(path, model)."
    return " Read it with nw.load_posterior(path)." if kind in POSTERIORS else ""
