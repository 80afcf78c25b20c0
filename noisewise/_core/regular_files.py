"""Files that a stranger may have put in place: regular ones alone, opened once, and never more of
them than was looked for.

A name in a folder that travels may stand for anything: a pipe that never answers, a device that
never ends, a link to another folder, or a file that seems to be a terabyte.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from noisewise.errors import FileFormatError, InvalidInputError

_SAFELY = functools.reduce(
    operator.or_,
    (getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "CLOEXEC", "NOCTTY", "BINARY")),
)
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_READING = os.O_RDONLY | _SAFELY
_LOCKING = os.O_RDWR | os.O_CREAT | _NO_LINKS | _SAFELY
_SMALL = 16 * 2**20
"""Bytes up to which a file may be as empty as it likes."""
_SPARSEST = 8
"""How many times larger than what is stored of it a larger file may be: disks compress zeros, and
noise not at all.
"""
_MOST_PARTS = 10_000
"""Stored parts that are counted before a file is taken for empty."""


def read_regular(path: Path, *, limit: int, follow_links: bool = True) -> bytes:
    """The bytes of a regular file of at most `limit` of them; see `opened`."""
    with opened(path, limit=limit, follow_links=follow_links) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            content = file.read(size + 1)
        except OSError as error:
            raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) != size:
        raise InvalidInputError(
            f"{path} changed while it was read: wait until it is written, and read it again."
        )
    return content


@contextlib.contextmanager
def opened(path: Path, *, limit: int, follow_links: bool) -> Iterator[BinaryIO]:
    """A regular file, opened once, for its bytes; without `follow_links`, as inside folders that
    travel, no symbolic link to one.

    Folders, pipes and devices are refused before they are opened, which could hang or have an
    effect, and what was put in place of a file meanwhile is refused as well. So is a large file
    that is next to empty on the disk: it would fill the memory.
    """
    try:
        _check_regular(path.stat() if follow_links else path.lstat(), path, limit)
        descriptor = os.open(path, _READING if follow_links else _READING | _NO_LINKS)
    except FileNotFoundError:
        raise InvalidInputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        _check_regular(found, path, limit)
        if (
            found.st_size > _SMALL
            and hasattr(os, "SEEK_DATA")
            and found.st_blocks * 512 * _SPARSEST < found.st_size
        ):
            _check_filled(descriptor, found.st_size, path)
        yield file


def _check_regular(found: os.stat_result, path: Path, limit: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise InvalidInputError(
            f"{path} is a symbolic link, where a file must be: put a copy of the file in its place."
        )
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInputError(f"{path} is a folder, a device or a pipe, not a file.")
    if found.st_size > limit:
        told = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit:,} bytes"
        raise FileFormatError(f"{path} is larger than {told}: this is not a file noisewise wrote.")


def _check_filled(descriptor: int, size: int, path: Path) -> None:
    """Refuse a file of which hardly anything is stored. Where a file system counts otherwise, its
    parts are asked for.
    """
    end = stored = 0
    with contextlib.suppress(OSError):  # there are no more parts
        for _ in range(_MOST_PARTS):
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
            stored += end - start
    os.lseek(descriptor, 0, os.SEEK_SET)
    if stored * _SPARSEST < size:
        raise FileFormatError(
            f"{path} is next to empty on the disk, though it seems large: get an unaltered copy."
        )


def opened_lock(path: Path) -> BinaryIO:
    """The regular file of this name, made where there is none, and open so that it can be locked;
    nothing is written into it.
    """
    with contextlib.suppress(FileNotFoundError):
        _check_regular(path.lstat(), path, _SMALL)
    file = os.fdopen(os.open(path, _LOCKING, 0o666), "rb")
    try:
        _check_regular(os.fstat(file.fileno()), path, _SMALL)
    except BaseException:
        file.close()
        raise
    return file


def check_no_links(folder: Path, *names: str) -> None:
    """Refuse a folder in which one of these files or folders is a symbolic link, by which it would
    reach elsewhere.
    """
    for name in names:
        if (folder / name).is_symlink():
            raise InvalidInputError(
                f"{folder / name} is a symbolic link, and nothing was touched: put what it stands"
                " for in its place."
            )
