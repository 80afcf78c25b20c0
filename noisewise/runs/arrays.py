"""One array of a .npy stream, of which everything but the numbers is known beforehand."""

from __future__ import annotations

import hashlib
from typing import IO

import numpy as np

from noisewise.errors import FileFormatError

_MAGIC = b"\x93NUMPY\x01\x00"
_PIECE = 2**20
"""Bytes that are read at once."""


def read_array(file: IO[bytes], shape: tuple[int, ...], dtype: str, what: str) -> np.ndarray:
    """The array of this shape and type that NumPy wrote there, up to the end; anything else is a
    `FileFormatError`.

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
    array = np.empty(shape, dtype)
    rest = _bytes(array)
    while rest:
        piece = file.read(min(_PIECE, len(rest)))
        if not piece:
            raise FileFormatError(f"{what} is truncated: get an unaltered copy.")
        rest[: len(piece)] = piece
        rest = rest[len(piece) :]
    if file.read(1):
        raise FileFormatError(f"{what} holds more than it should: get an unaltered copy.")
    return array


def digest(array: np.ndarray) -> str:
    """The sha256 of the numbers, in C order."""
    return hashlib.sha256(_bytes(np.ascontiguousarray(array))).hexdigest()


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
