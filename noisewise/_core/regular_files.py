"""Reading files that a stranger may have put in place: only regular ones, opened once, with a limit
on their size.
An entry in a folder from elsewhere may be anything: a pipe that never answers, a device that
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
"""Flags for reading: without waiting for a pipe, and without becoming a terminal's process."""
_LOCKING = os.O_RDWR | os.O_CREAT | _NO_LINKS | _SAFELY
_SMALL = 16 * 2**20
"""Bytes up to which a file may be empty on the disk: that much memory does no harm."""
_SPARSEST = 8
"""How many times larger than what is stored of it a larger file may be: disks compress zeros, but
noise hardly at all.
"""
_MOST_PARTS = 10_000
"""Stored parts that are added up, so that counting takes milliseconds."""


NOT_OURS = "this is not a file noisewise wrote."
"""What is said of a file that is larger than any that noisewise writes."""


def read_regular(
    path: Path, *, limit: int, follow_links: bool = True, too_large: str = NOT_OURS
) -> bytes:
    """Read a regular file.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        follow_links: Whether it may be a symbolic link: not inside folders that travel.
        too_large: What is said of a file with more bytes: what to do, for files of others.

    Returns:
        Its bytes.

    Raises:
        InvalidInputError: If there is no such file, it cannot be read, or it changes while it is
            read.
        FileFormatError: If it is too large; see `opened`.
    """
    with opened(path, limit=limit, follow_links=follow_links, too_large=too_large) as file:
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
def opened(
    path: Path, *, limit: int, follow_links: bool, too_large: str = NOT_OURS
) -> Iterator[BinaryIO]:
    """Open a regular file, once, to read its bytes.

    Folders, pipes and devices are refused before they are opened, which could hang or have an
    effect, and so is what takes the place of a file in between. A large file that is nearly empty
    on the disk is refused as well: it would fill the memory.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        follow_links: Whether it may be a symbolic link.
        too_large: What is said of a file with more bytes.

    Yields:
        The open file.

    Raises:
        InvalidInputError: If it is not a regular file, or cannot be read.
        FileFormatError: If it is larger than `limit`, or nearly empty.
    """
    try:
        _check_regular(path.stat() if follow_links else path.lstat(), path, limit, too_large)
        descriptor = os.open(path, _READING if follow_links else _READING | _NO_LINKS)
    except FileNotFoundError:
        raise InvalidInputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        _check_regular(found, path, limit, too_large)
        if (
            found.st_size > _SMALL
            and hasattr(os, "SEEK_DATA")
            and found.st_blocks * 512 * _SPARSEST < found.st_size
        ):
            _check_filled(descriptor, found.st_size, path)
        yield file


def _check_regular(
    found: os.stat_result, path: Path, limit: int, too_large: str = NOT_OURS
) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise InvalidInputError(f"{path} is a symbolic link: put a copy of the file in its place.")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInputError(f"{path} is a folder, a device or a pipe, not a file.")
    if found.st_size > limit:
        most = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit:,} bytes"
        raise FileFormatError(f"{path} is larger than {most}: {too_large}")


def _check_filled(descriptor: int, size: int, path: Path) -> None:
    """Refuse a file of which hardly anything is stored. Where a file system counts in another way,
    its stored parts are added up.

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
            f"{path} takes almost no space on disk for its size (a sparse file): get an unaltered"
            " copy."
        )


def opened_lock(path: Path) -> BinaryIO:
    """Open a lock file, which is made where there is none; nothing is written into it.

    Args:
        path: The file.

    Returns:
        The open file, so that it can be locked.

    Raises:
        InvalidInputError: If it is not a regular file.
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
    """Refuse a folder in which one of these files or folders is a symbolic link, which would lead
    out of it.

    Args:
        folder: The folder.
        names: Files or folders in it.

    Raises:
        InvalidInputError: If one is a link; nothing is touched.
    """
    for name in names:
        if (folder / name).is_symlink():
            raise InvalidInputError(
                f"{folder / name} is a symbolic link, and nothing was touched: replace it by what"
                " it points to."
            )
