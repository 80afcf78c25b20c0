"""A folder of arrays and one JSON file: written whole or not at all, read without trusting it.

    path/manifest.json      schema, versions, kind, content, for each array its shape, type and sha256, and the sha256 of all this
    path/arrays.npz         float64, integer and boolean arrays, no pickled objects

The manifest is written last, so that a folder without one is unfinished.
"""

from __future__ import annotations

import hashlib
import io
import math
import platform
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from noisewise import __version__
from noisewise._files import (
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
from noisewise.errors import FileFormatError, InvalidInputError

SCHEMA, VERSION = "noisewise.archive", 1
FITS = ("AmortisedPosterior", "LearnedLikelihood", "LearnedConfidentialLikelihood")
POSTERIORS = ("Draws", "WeightedSamples", "LearnedPosterior")
_MANIFEST, _ARRAYS = "manifest.json", "arrays.npz"
_KEYS = ("schema", "schema_version", "kind", "noisewise", "python", "content", "arrays", "sha256")
_TYPES = {"float64", "float32", "int64", "int32", "uint32", "bool"}
_MAX_BYTES = 2**34


def write_archive(
    path: Any, kind: str, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, overwrite: bool = False
) -> Path:
    """Write a folder of this kind. `content` is JSON-ready; an existing archive is kept unless `overwrite`."""
    folder = as_path(path)
    manifest = folder / _MANIFEST
    if not overwrite:
        check_free(folder)
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in stored.items():
        if str(array.dtype) not in _TYPES:
            raise InvalidInputError(f"The array {name!r} has type {array.dtype}, which is not stored.")
    buffer = io.BytesIO()
    np.savez(buffer, **stored)  # type: ignore[arg-type]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(folder, error) from None
    write_atomically(folder / _ARRAYS, buffer.getvalue(), overwrite=True)
    described = {
        name: {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": _digest(array)}
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
            f"{folder} holds an archive and is kept: choose another name, delete it, or save with overwrite=True."
        )


def read_archive(path: Any, kinds: tuple[str, ...]) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """The kind, content and arrays of a folder; anything altered, truncated or foreign is a `FileFormatError`."""
    folder = as_path(path)
    if not folder.is_dir():
        raise InvalidInputError(f"There is no folder {folder}.")
    what = f"The archive {folder.name}"
    record = read_json(folder / _MANIFEST, "manifest")
    require_schema(record, SCHEMA, VERSION, what)
    require_keys(record, _KEYS, what)
    if not isinstance(record["kind"], str) or record["kind"] not in kinds:
        raise FileFormatError(
            f"{what} must be of kind {' or '.join(kinds)}, but is of kind {_told(record['kind'])}.{_way(record['kind'])}"
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
    shapes = {name: _description(name, entry, what) for name, entry in described.items()}
    expected = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype, _ in shapes.values())
    try:
        if expected > _MAX_BYTES or path.stat().st_size > expected + 4096 * (len(shapes) + 1):
            raise FileFormatError(f"{what} has an array file larger than its manifest says.")
        # np.load leaves a file that it cannot read open, so it is opened here
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if set(stored.files) != set(shapes):
                raise FileFormatError(f"{what} does not hold the arrays that its manifest lists.")
            arrays = {name: _checked(stored, name, *shapes[name], what=what) for name in shapes}
    except FileFormatError:
        raise
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        NotImplementedError,
        zipfile.BadZipFile,
        RuntimeError,
        MemoryError,
    ):
        raise FileFormatError(f"{what} has a damaged array file: get an unaltered copy.") from None
    return arrays


def _description(name: str, entry: Any, what: str) -> tuple[tuple[int, ...], str, str]:
    entry = require_keys(entry, ("shape", "dtype", "sha256"), f"{what}: {name!r}")
    shape, dtype, digest = entry["shape"], entry["dtype"], entry["sha256"]
    whole = isinstance(shape, list) and all(type(size) is int and 0 <= size < 2**40 for size in shape)
    if not whole or not isinstance(dtype, str) or dtype not in _TYPES or not isinstance(digest, str):
        raise FileFormatError(f"{what} describes the array {name!r} in an unknown way.")
    return tuple(shape), dtype, digest


def _checked(stored: Any, name: str, shape: tuple[int, ...], dtype: str, digest: str, *, what: str) -> np.ndarray:
    with stored.zip.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0(file) if version == (1, 0) else None
    if header is None or header[0] != shape or str(header[2]) != dtype:
        raise FileFormatError(f"{what} has an array {name!r} of another shape or type than its manifest says.")
    array = stored[name]
    if _digest(array) != digest:
        raise FileFormatError(f"{what} was altered: the array {name!r} does not match its sha256.")
    return array


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
