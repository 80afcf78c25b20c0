"""Arrays and a JSON object in one file, in the layout of safetensors: nothing in it can be run, and
any changed bit is noticed.

    8 bytes     the length of the header, little-endian
    header      {"__metadata__": {"content": JSON, "sha256": ...}, "name": {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}, ...}
    data        the arrays, little-endian, one after the other

The sha256 is of the content, of the description of the arrays and of the data.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._core.files import MAX_BYTES, parse_json, reading, require_keys, write_atomically
from noisewise._core.regular_files import read_regular
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
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_MAX_FILE = 2**36


def write_tensors(
    path: Path,
    content: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    overwrite: bool = False,
) -> None:
    """Write the whole file or nothing. `content` is JSON-ready."""
    write_atomically(path, packed(content, arrays), overwrite=overwrite)


def packed(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a file."""
    table, parts, end = {}, [], 0
    for name, value in arrays.items():
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
    text, data = json.dumps(content, allow_nan=False), b"".join(parts)
    metadata = {"content": text, "sha256": _digest(text, table, data)}
    header = json.dumps({"__metadata__": metadata, **table}).encode()
    if len(header) > MAX_BYTES:
        raise InvalidInputError(f"{len(arrays):,} arrays are too many for one file.")
    return len(header).to_bytes(8, "little") + header + data


def read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The content and the arrays of a file; anything altered, truncated or foreign is a
    `FileFormatError`.
    """
    return unpacked(
        read_regular(path, limit=_MAX_FILE, follow_links=False), f"The file {path.name}"
    )


def unpacked(stored: bytes, what: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `packed` made the bytes of."""
    size = int.from_bytes(stored[:8], "little")
    if len(stored) < 8 or size > min(len(stored) - 8, MAX_BYTES):
        raise FileFormatError(f"{what} is truncated or has no header of this kind.")
    table, data = parse_json(stored[8 : 8 + size], what), memoryview(stored)[8 + size :]
    metadata = require_keys(
        table.pop("__metadata__", None), ("content", "sha256"), f"{what}: its metadata"
    )
    places, end = {}, 0
    for name, entry in table.items():
        places[name] = _place(entry, end, f"{what}: {name!r}")
        end += math.prod(places[name][0]) * places[name][1].itemsize
    if end != len(data):
        raise FileFormatError(
            f"{what} has {len(data)} bytes of arrays, but its header describes {end}."
        )
    text = metadata["content"]
    if not isinstance(text, str) or metadata["sha256"] != _digest(text, table, data):
        raise FileFormatError(f"{what} was altered: it does not match its sha256.")
    arrays, start = {}, 0
    with reading(what):  # a shape of a hundred sizes, one of them 0, is none of NumPy's
        for name, (shape, dtype) in places.items():
            stop = start + math.prod(shape) * dtype.itemsize
            arrays[name] = np.frombuffer(data[start:stop], dtype=dtype).reshape(shape)
            start = stop
    return parse_json(text, what), arrays


def _place(entry: Any, start: int, what: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    entry = require_keys(entry, ("dtype", "shape", "data_offsets"), what)
    shape, kind = entry["shape"], entry["dtype"]
    if not isinstance(shape, list) or not all(
        type(size) is int and 0 <= size < 2**40 for size in shape
    ):
        raise FileFormatError(f"{what} must have a shape of whole numbers.")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise FileFormatError(f"{what} must have one of the types {', '.join(_TYPES)}.")
    dtype = np.dtype(_TYPES[kind])
    if entry["data_offsets"] != [start, start + math.prod(shape) * dtype.itemsize]:
        raise FileFormatError(f"{what} must follow the array before it.")
    return tuple(shape), dtype


def _digest(text: str, table: Mapping[str, Any], data: bytes | memoryview) -> str:
    digest = hashlib.sha256(text.encode("utf-8", errors="surrogatepass"))
    digest.update(json.dumps(table).encode())
    digest.update(data)
    return digest.hexdigest()
