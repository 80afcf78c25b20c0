"""A folder of arrays and one JSON file: written whole or not at all, read without trusting it.

    path/manifest.json      schema, versions, kind, content, for each array its shape, type and sha256, and the sha256 of all this
    path/arrays.npz         float64, integer and boolean arrays, no pickled objects

The manifest is written last, so that a folder without one is unfinished.
"""

from __future__ import annotations

import io
import math
import os
import platform
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from noisewise import __version__
from noisewise._core.files import (
    as_path,
    check_seal,
    dump_json,
    read_json,
    require_keys,
    require_schema,
    sealed,
    unwritten,
    write_atomically,
)
from noisewise._core.regular_files import opened
from noisewise.errors import FileFormatError, InvalidInputError, NoisewiseError
from noisewise.runs.arrays import digest, read_array

SCHEMA, VERSION = "noisewise.archive", 1
FITS = ("AmortisedPosterior", "LearnedLikelihood", "LearnedConfidentialLikelihood")
POSTERIORS = ("Draws", "WeightedSamples", "LearnedPosterior")
_MANIFEST, _ARRAYS, _MEMBER = "manifest.json", "arrays.npz", ".npy"
_KEYS = ("schema", "schema_version", "kind", "noisewise", "python", "content", "arrays", "sha256")
_TYPES = {"float64", "float32", "int64", "int32", "uint32", "bool"}
_MAX_BYTES = 2**34
_OVERHEAD = 4096
"""Bytes that an array may take besides its numbers: its header, and its name in two places."""
_ENDS = 56 + 20 + 22
"""Bytes of the records at the end of a zip file: two of the long form, and the last, which says
where the list of members is.
"""


def write_archive(
    path: Any,
    kind: str,
    content: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    overwrite: bool = False,
) -> Path:
    """Write a folder of this kind. `content` is JSON-ready; an existing archive is kept unless
    `overwrite`.
    """
    folder = as_path(path)
    manifest = folder / _MANIFEST
    if not overwrite:
        check_free(folder)
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in stored.items():
        if str(array.dtype) not in _TYPES:
            raise InvalidInputError(
                f"The array {name!r} has type {array.dtype}, which is not stored."
            )
    buffer = io.BytesIO()
    np.savez(buffer, **stored)  # type: ignore[arg-type]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(folder, error) from None
    write_atomically(folder / _ARRAYS, buffer.getvalue(), overwrite=True)
    described = {
        name: {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": digest(array)}
        for name, array in stored.items()
    }
    record = {
        "schema": SCHEMA,
        "schema_version": VERSION,
        "kind": kind,
        "noisewise": __version__,
        "python": platform.python_version(),
        "content": dict(content),
        "arrays": described,
    }
    write_atomically(manifest, dump_json(sealed(record)), overwrite=True)
    return folder


def check_free(path: Any) -> None:
    """Refuse a folder that holds an archive already."""
    folder = as_path(path)
    if (folder / _MANIFEST).exists():
        raise InvalidInputError(
            f"{folder} holds an archive and is kept: choose another name, delete it, or save with"
            " overwrite=True."
        )


def read_archive(
    path: Any, kinds: tuple[str, ...]
) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """The kind, content and arrays of a folder; anything altered, truncated or foreign is a
    `FileFormatError`.
    """
    folder = as_path(path)
    if not folder.is_dir():
        raise InvalidInputError(f"There is no folder {folder}.")
    what = f"The archive {folder.name}"
    record = read_json(folder / _MANIFEST, "manifest", follow_links=False)
    require_schema(record, SCHEMA, VERSION, what)
    require_keys(record, _KEYS, what)
    if not isinstance(record["kind"], str) or record["kind"] not in kinds:
        raise FileFormatError(
            f"{what} must be of kind {' or '.join(kinds)}, but is of kind"
            f" {_told(record['kind'])}.{_way(record['kind'])}"
        )
    check_seal(record, what)
    if not isinstance(record["content"], dict) or not isinstance(record["arrays"], dict):
        raise FileFormatError(f"{what} must hold objects 'content' and 'arrays'.")
    return record["kind"], record["content"], _read_arrays(folder / _ARRAYS, record["arrays"], what)


def _told(kind: Any) -> str:
    return kind[:40] if isinstance(kind, str) and kind.isidentifier() else "another sort"


def _way(kind: Any) -> str:
    """Which call reads an archive of this kind."""
    if kind in FITS:
        return f" Read it with nw.inference.{kind}.load(path, model)."
    return " Read it with nw.load_posterior(path)." if kind in POSTERIORS else ""


def _read_arrays(path: Path, described: dict[str, Any], what: str) -> dict[str, np.ndarray]:
    """The arrays of the file; what is returned is what was compared with the manifest, read from
    the file once.
    """
    shapes = {name: _description(name, entry, what) for name, entry in described.items()}
    sizes = {
        name: math.prod(shape) * np.dtype(dtype).itemsize
        for name, (shape, dtype, _) in shapes.items()
    }
    expected, more = sum(sizes.values()), _OVERHEAD * (len(shapes) + 1)
    try:
        with opened(path, limit=_MAX_BYTES, follow_links=False) as file:
            if not expected <= os.fstat(file.fileno()).st_size <= expected + more:
                raise FileFormatError(
                    f"{what} has an array file of another size than its manifest says."
                )
            _check_directory(file, more, what)
            with zipfile.ZipFile(file) as stored:
                members = _members(stored, sizes, what)
                return {
                    name: _checked(stored, members[name], name, *shapes[name], what=what)
                    for name in shapes
                }
    except NoisewiseError:
        raise
    except (
        OSError,
        ValueError,
        EOFError,
        LookupError,
        RuntimeError,
        MemoryError,
        struct.error,
        zipfile.BadZipFile,
    ):
        raise FileFormatError(f"{what} has a damaged array file: get an unaltered copy.") from None


def _check_directory(file: IO[bytes], most: int, what: str) -> None:
    """Refuse a list of members that is larger than theirs can be, before it is read: `zipfile`
    would make objects of all of it.
    """
    file.seek(-min(_ENDS, os.fstat(file.fileno()).st_size), os.SEEK_END)
    tail = file.read().rjust(_ENDS, b"\0")
    ends, long, end = tail[:56], tail[56:76], tail[76:]
    size = int.from_bytes(end[12:16], "little")
    if long[:4] == b"PK\6\7":
        size = max(int.from_bytes(ends[40:48], "little"), size if size < 2**32 - 1 else 0)
    if end[:4] != b"PK\5\6" or size > most:
        raise FileFormatError(f"{what} has a damaged array file: get an unaltered copy.")


def _members(
    stored: zipfile.ZipFile, sizes: dict[str, int], what: str
) -> dict[str, zipfile.ZipInfo]:
    """Each array's member: neither compressed nor larger than the array, once each, and no others."""
    found = {info.orig_filename: info for info in stored.infolist()}
    if len(found) != len(stored.infolist()) or set(found) != {f"{name}{_MEMBER}" for name in sizes}:
        raise FileFormatError(
            f"{what} does not hold the arrays that its manifest lists, once each and no others."
        )
    for name, size in sizes.items():
        info = found[f"{name}{_MEMBER}"]
        whole = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        if not whole or not size <= info.file_size <= size + _OVERHEAD:
            raise FileFormatError(
                f"{what} has an array {name!r} of another size than its manifest says, or"
                " compressed."
            )
    return {name: found[f"{name}{_MEMBER}"] for name in sizes}


def _description(name: str, entry: Any, what: str) -> tuple[tuple[int, ...], str, str]:
    entry = require_keys(entry, ("shape", "dtype", "sha256"), f"{what}: {name!r}")
    shape, dtype, digest = entry["shape"], entry["dtype"], entry["sha256"]
    whole = isinstance(shape, list) and all(
        type(size) is int and 0 <= size < 2**40 for size in shape
    )
    if (
        not whole
        or not isinstance(dtype, str)
        or dtype not in _TYPES
        or not isinstance(digest, str)
    ):
        raise FileFormatError(f"{what} describes the array {name!r} in an unknown way.")
    return tuple(shape), dtype, digest


def _checked(
    stored: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    expected: str,
    *,
    what: str,
) -> np.ndarray:
    with stored.open(member) as file:
        array = read_array(file, shape, dtype, f"{what}: its array {name!r}")
    if digest(array) != expected:
        raise FileFormatError(f"{what} was altered: the array {name!r} does not match its sha256.")
    return array
