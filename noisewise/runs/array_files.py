"""Arrays and a JSON object in one file, in the layout of safetensors.

Nothing in such a file can be run, any changed bit is noticed, and it is read without unpacking:

    8 bytes     the length of the header, little-endian
    header      {"__metadata__": {"content": JSON, "sha256": ...}, NAME: ARRAY, ...}
    data        the arrays, little-endian, one after the other

where ARRAY is {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}. The sha256 covers the
content, the description of the arrays and the data.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from noisewise._core.files import write_atomically
from noisewise._core.json_files import json_line, parse_json, reading, require_keys
from noisewise._core.regular_files import opened
from noisewise.errors import FileFormatError, InvalidInputError

_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_METADATA = "__metadata__"
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_MAX_FILE = 2**36
"""Bytes of one file, 64 GiB: more than the memory of the machines that noisewise is made for."""
_MAX_SIZE = 2**40
"""Entries along one axis: more than a file can hold, so that products of sizes stay small."""
_MAX_AXES = 64
"""Axes of an array: as many as NumPy has."""
_MAX_HEADER = 4 * 2**20
"""Bytes of a header: some 40,000 arrays, where the largest fit has hundreds. What is made of a
header takes some 20 times as much memory.
"""
_MAX_ENTRIES = 20_000
"""Objects in a header, the arrays among them: reading so many takes a tenth of a second."""
_MAX_NAME = 40
"""Characters of a stranger's name that a message shows: enough to find it."""
_PIECE = 2**20
"""Bytes read at once: small compared with the arrays, large compared with the cost of a call."""

Arrays = dict[str, np.ndarray]


def write_arrays(
    path: Path,
    content: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    overwrite: bool = False,
) -> str:
    """Write the whole file or nothing.

    Args:
        path: The name of the file, in a folder that exists.
        content: An object that is JSON-ready.
        arrays: Arrays by name, of numbers or booleans.
        overwrite: Whether a file of this name may be replaced.

    Returns:
        The sha256 in the header, by which `read_arrays` can be asked for this file and no other.

    Raises:
        InvalidInputError: If an array has another type, or the file exists.
    """
    sha256, stored = _packed(content, arrays)
    write_atomically(path, stored, overwrite=overwrite)
    return sha256


def packed(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a file.

    Args:
        content: An object that is JSON-ready.
        arrays: Arrays by name, of numbers or booleans.
    """
    return _packed(content, arrays)[1]


def _packed(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> tuple[str, bytes]:
    """The sha256 in the header, and the bytes of a file."""
    table, parts, end = {}, [], 0
    for name, value in arrays.items():
        if name == _METADATA:
            raise InvalidInputError(f"An array cannot be called {_METADATA}: rename it.")
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        kind = _NAMES.get(array.dtype)
        if kind is None:
            raise InvalidInputError(
                f"The array {name!r} has type {array.dtype}, which is not stored."
            )
        table[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        parts.append(array.tobytes())
        end += array.nbytes
    text, data = json_line(content), b"".join(parts)
    sha256 = _digest(text, table, data)
    header = json_line({_METADATA: {"content": text, "sha256": sha256}, **table}).encode()
    if len(header) > _MAX_HEADER or header.count(b"{") > _MAX_ENTRIES:
        raise InvalidInputError(f"{len(arrays):,} arrays are too many for one file.")
    return sha256, len(header).to_bytes(8, "little") + header + data


def read_arrays(
    path: Path, *, sha256: str | None = None, limit: int = _MAX_FILE
) -> tuple[dict[str, Any], Arrays]:
    """Read what `write_arrays` wrote. No more memory is taken than the file has bytes.

    Args:
        path: A regular file, not a symbolic link.
        sha256: What the header must say, where another file records it.
        limit: The most bytes that the file may have.

    Returns:
        The content, and the arrays by name, in the order in which they were written.

    Raises:
        FileFormatError: If anything is altered, truncated or foreign.
    """
    what = f"The file {path.name}"
    with opened(path, limit=limit, follow_links=False) as file:
        return _read(file, os.fstat(file.fileno()).st_size, what, sha256)


def unpacked(stored: bytes, what: str) -> tuple[dict[str, Any], Arrays]:
    """Read the bytes that `packed` made.

    Args:
        stored: The bytes.
        what: The file, as messages name it.

    Returns:
        The content, and the arrays by name.

    Raises:
        FileFormatError: If anything is altered, truncated or foreign.
    """
    return _read(io.BytesIO(stored), len(stored), what)


def _read(
    file: IO[bytes], size: int, what: str, sha256: str | None = None
) -> tuple[dict[str, Any], Arrays]:
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _MAX_HEADER):
        raise FileFormatError(f"{what} is truncated or has no header of this kind.")
    header = file.read(length)
    if header.count(b"{") > _MAX_ENTRIES:
        raise FileFormatError(f"{what} describes more arrays than noisewise writes.")
    table = parse_json(header, what)
    metadata = require_keys(
        table.pop(_METADATA, None), ("content", "sha256"), f"{what}: its metadata"
    )
    places, end = {}, 0
    for name, entry in table.items():
        shape, dtype = places[name] = _place(entry, end, f"{what}: {name[:_MAX_NAME]!r}")
        end += math.prod(shape) * dtype.itemsize
    if end != size - 8 - length:
        raise FileFormatError(
            f"{what} has {size - 8 - length} bytes of arrays, but its header describes {end}."
        )
    arrays = {name: filled(file, shape, dtype, what) for name, (shape, dtype) in places.items()}
    text, expected = metadata["content"], metadata["sha256"]
    if (
        not isinstance(text, str)
        or expected != _digest(text, table, *map(raw, arrays.values()))
        or sha256 not in (None, expected)
    ):
        raise FileFormatError(f"{what} was altered: it does not match its sha256.")
    if any(array.dtype == bool and (array.view(np.uint8) > 1).any() for array in arrays.values()):
        raise FileFormatError(f"{what} holds booleans that are neither 0 nor 1.")
    return parse_json(text, what), arrays


def filled(file: IO[bytes], shape: tuple[int, ...], dtype: Any, what: str) -> np.ndarray:
    """The next array of a file, whose numbers are in C order.

    Args:
        file: The open file.
        shape: The shape of the array.
        dtype: Its type.
        what: The file, as messages name it.

    Raises:
        FileFormatError: If the file ends before it, or NumPy cannot make it.
    """
    with reading(what):  # one axis of 0 entries lets others be larger than NumPy allows
        array = np.empty(shape, dtype)
    rest = raw(array)
    while rest:
        try:
            piece = file.read(min(_PIECE, len(rest)))
        except OSError as error:
            raise InvalidInputError(f"{what} cannot be read: {error.strerror}.") from None
        if not piece:
            raise FileFormatError(f"{what} is truncated: get an unaltered copy.")
        rest[: len(piece)] = piece
        rest = rest[len(piece) :]
    return array


def raw(array: np.ndarray) -> memoryview:
    """The bytes of an array in C order."""
    return array.reshape(-1).view(np.uint8).data


def _place(entry: Any, start: int, what: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and type of an array that begins `start` bytes after the header."""
    entry = require_keys(entry, ("dtype", "shape", "data_offsets"), what)
    kind = entry["dtype"]
    if not isinstance(kind, str) or kind not in _TYPES:
        raise FileFormatError(f"{what} must have one of the types {', '.join(_TYPES)}.")
    shape, dtype = checked_shape(entry["shape"], what), np.dtype(_TYPES[kind])
    if entry["data_offsets"] != [start, start + math.prod(shape) * dtype.itemsize]:
        raise FileFormatError(f"{what} must follow the array before it.")
    return shape, dtype


def checked_shape(shape: Any, what: str) -> tuple[int, ...]:
    """The shape of an array as a file describes it; messages name it `what`."""
    if (
        not isinstance(shape, list)
        or len(shape) > _MAX_AXES
        or not all(type(size) is int and 0 <= size < _MAX_SIZE for size in shape)
    ):
        raise FileFormatError(f"{what} must have a shape of at most {_MAX_AXES} whole numbers.")
    return tuple(shape)


def _digest(text: str, table: Mapping[str, Any], *data: bytes | memoryview) -> str:
    """The sha256 of a file's content, of the description of its arrays, and of their bytes."""
    digest = hashlib.sha256(text.encode("utf-8", errors="surrogatepass"))
    digest.update(json_line(table).encode())
    for part in data:
        digest.update(part)
    return digest.hexdigest()
