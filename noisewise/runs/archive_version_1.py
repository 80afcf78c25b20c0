"""Archives of version 1, whose arrays lie in a zip file; they are read, and no longer written.

    path/manifest.json      as in version 2, but for each array its shape, type and sha256
    path/arrays.npz         uncompressed .npy streams, as `numpy.savez` writes them

`zipfile` and NumPy believe what such a file says of itself, so all of that is compared with the
manifest before anything is made of it.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from noisewise._core.json_files import require_keys
from noisewise._core.regular_files import opened
from noisewise.errors import FileFormatError, NoisewiseError
from noisewise.runs.array_files import Arrays, checked_shape, filled, raw

ARRAYS = "arrays.npz"
_MEMBER = ".npy"
_TYPES = {"float64", "float32", "int64", "int32", "uint32", "bool"}
_MAX_BYTES = 2**34
"""Bytes of one file, 16 GiB: none of version 1 was larger."""
_OVERHEAD = 4096
"""Bytes that an array may take besides its numbers: its header, and its name in two places."""
_LAST = 22
"""Bytes of the record at the end of a zip file, which says where the list of members is."""
_ENDS = 56 + 20 + _LAST
"""Bytes of all records at the end of a zip file: two of the long form come before the last."""
_MAGIC = b"\x93NUMPY\x01\x00"
_BROKEN = (
    OSError,
    ValueError,
    EOFError,
    LookupError,
    RuntimeError,
    MemoryError,
    struct.error,
    zipfile.BadZipFile,
)
"""What `zipfile` raises on damaged files."""

Described = tuple[tuple[int, ...], np.dtype[Any], str]
"""Shape, type and sha256 of an array."""


def read_npz(path: Path, described: dict[str, Any], what: str) -> Arrays:
    """Read the arrays of an archive of version 1.

    Args:
        path: The zip file.
        described: The description of its arrays in the manifest.
        what: The archive, as messages name it.

    Returns:
        The arrays by name: those that were compared with the manifest, read from the file once.

    Raises:
        FileFormatError: If anything is altered, truncated or foreign.
    """
    arrays = {name: _description(entry, f"{what}: {name!r}") for name, entry in described.items()}
    sizes = {name: math.prod(shape) * dtype.itemsize for name, (shape, dtype, _) in arrays.items()}
    expected, more = sum(sizes.values()), _OVERHEAD * (len(sizes) + 1)
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
                    name: _checked(stored, members[name], name, *arrays[name], what=what)
                    for name in arrays
                }
    except NoisewiseError:
        raise
    except _BROKEN:
        raise FileFormatError(f"{what} has a damaged array file: get an unaltered copy.") from None


def read_npy(file: IO[bytes], shape: tuple[int, ...], dtype: Any, what: str) -> np.ndarray:
    """The array of this shape and type in a .npy stream, which ends with it.

    The header is compared, not parsed. Callers make sure that the file is as large as the array.
    """
    start = file.read(len(_MAGIC) + 2)
    header = file.read(int.from_bytes(start[len(_MAGIC) :], "little"))
    expected = f"{{'descr': {np.dtype(dtype).str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    if start[: len(_MAGIC)] != _MAGIC or header.rstrip(b" \n") != expected.encode():
        raise FileFormatError(
            f"{what} is of another shape or type than it should be, or not of a kind that noisewise"
            " writes."
        )
    array = filled(file, shape, dtype, what)
    if file.read(1):
        raise FileFormatError(f"{what} has unexpected extra content: get an unaltered copy.")
    return array


def _description(entry: Any, what: str) -> Described:
    """Shape, type and sha256 of an array, as the manifest says them."""
    entry = require_keys(entry, ("shape", "dtype", "sha256"), what)
    shape, dtype, digest = checked_shape(entry["shape"], what), entry["dtype"], entry["sha256"]
    if not isinstance(dtype, str) or dtype not in _TYPES or not isinstance(digest, str):
        raise FileFormatError(f"{what} is described in an unknown way.")
    return shape, np.dtype(dtype), digest


def _check_directory(file: IO[bytes], most: int, what: str) -> None:
    """Refuse a list of members that is larger than theirs can be, before `zipfile` makes objects of
    all of it.
    """
    file.seek(-min(_ENDS, os.fstat(file.fileno()).st_size), os.SEEK_END)
    tail = file.read().rjust(_ENDS, b"\0")
    ends, long, end = tail[:56], tail[56:-_LAST], tail[-_LAST:]
    size = int.from_bytes(end[12:16], "little")
    if long[:4] == b"PK\6\7":
        size = max(int.from_bytes(ends[40:48], "little"), size if size < 2**32 - 1 else 0)
    if end[:4] != b"PK\5\6" or size > most:
        raise FileFormatError(f"{what} has a damaged array file: get an unaltered copy.")


def _members(
    stored: zipfile.ZipFile, sizes: dict[str, int], what: str
) -> dict[str, zipfile.ZipInfo]:
    """Each array's member: not compressed, no larger than the array, once each, and no others."""
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
                f"{what} has an array {name!r} that is compressed, or whose size differs from its"
                " manifest."
            )
    return {name: found[f"{name}{_MEMBER}"] for name in sizes}


def _checked(
    stored: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    expected: str,
    *,
    what: str,
) -> np.ndarray:
    """One array, whose shape, type and sha256 are what the manifest says."""
    with stored.open(member) as file:
        array = read_npy(file, shape, dtype, f"{what}: its array {name!r}")
    if hashlib.sha256(raw(array)).hexdigest() != expected:
        raise FileFormatError(f"{what} was altered: the array {name!r} does not match its sha256.")
    return array
