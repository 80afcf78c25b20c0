"""Files are written whole or not at all.

Writing goes through a temporary file in the same folder, flushed to the disk, then renamed: a
reader sees the old file or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noisewise._core.json_files import json_line
from noisewise.errors import InvalidInputError, InvalidTypeError, NoisewiseError, StorageError

PathLike = str | os.PathLike[str]
"""What names a file: a text or a path object."""
_RESERVED = json_line(
    {"schema": "noisewise.reservation", "meaning": "A release that did not end. Delete this file."}
)


def as_path(path: Any, name: str = "path") -> Path:
    """`path` as a `Path`.

    Args:
        path: A text or a path object.
        name: The argument that it was given for, as messages name it.

    Raises:
        InvalidTypeError: If it is something else, or empty.
    """
    if (
        isinstance(path, (str, os.PathLike))
        and not isinstance(path, bytes)
        and str(path)
        and "\0" not in str(path)
    ):
        return Path(path)
    raise InvalidTypeError(
        f"{name} must be the path of a file, such as 'release.json', got {type(path).__name__}."
    )


def write_atomically(path: Path, content: str | bytes, *, overwrite: bool) -> None:
    """Write the whole file or nothing.

    Args:
        path: The name of the file.
        content: Its bytes, or its text, which is written as UTF-8.
        overwrite: Whether a file that exists is replaced; otherwise it wins, whenever it appeared.

    Raises:
        InvalidInputError: If the file exists, or its folder cannot be written.
        StorageError: If the disk is full, or fails.
    """
    try:
        with _temporary(path, content) as temporary:
            if overwrite:
                os.replace(temporary, path)
            else:
                _link(temporary, path)
        _sync_folder(path.parent)
    except FileExistsError:
        raise InvalidInputError(
            f"{path} exists and is kept: choose another name, or pass overwrite=True."
        ) from None
    except OSError as error:
        raise unwritten(path, error) from None


def unwritten(
    path: Path, error: OSError, advice: str = "Free some space, and do the same again."
) -> NoisewiseError:
    """The error to raise where a file or a folder cannot be written.

    Args:
        path: What was to be written.
        error: What the system said.
        advice: What to do where the disk is full.

    Returns:
        A `StorageError` where the disk is full or fails, else an `InvalidInputError`.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        reason = "the disk fails" if error.errno == errno.EIO else "the disk is full"
        return StorageError(
            f"{path} cannot be written, because {reason}. What was written before is intact."
            f" {advice}".rstrip()
        )
    hint = " Make its folder first." if error.errno == errno.ENOENT else ""
    return InvalidInputError(f"{path} cannot be written: {error.strerror}.{hint}")


def remove_parts(*folders: Path) -> None:
    """Remove what processes that were killed while they wrote have left in some folders.

    Args:
        folders: The folders; symbolic links are left alone.
    """
    with contextlib.suppress(OSError):
        own = (folder for folder in folders if not folder.is_symlink())
        for part in itertools.chain.from_iterable(folder.glob(".*.part") for folder in own):
            part.unlink(missing_ok=True)


def require_new(path: Path) -> None:
    """Refuse a path that could not become a new file, before work is done for its content.

    Args:
        path: The name of the file.

    Raises:
        InvalidInputError: If it exists, or its folder cannot be written.
        StorageError: If the disk is full, or fails.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            path.lstat()
            raise InvalidInputError(
                f"{path} exists and is kept: choose another name, or move it away."
            )
        with _temporary(path, b""):
            pass
    except OSError as error:
        raise unwritten(path, error) from None


class Reservation:
    """The name of a file that will be written later, reserved so that nobody else gets it.

    Use it as a context manager: the name is given back where the file is not written.

    Raises:
        InvalidInputError: If the file exists, or its folder cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.json"
    ...     with Reservation(path) as reserved:
    ...         reserved.fill("{}")
    ...     path.read_text()
    '{}'
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.filled = False
        try:
            with path.open("x") as file:
                file.write(_RESERVED)
                file.flush()
                os.fsync(file.fileno())
                self._identity = _identity(os.fstat(file.fileno()))
            with _temporary(path, _RESERVED):
                pass  # the finished file is written next to it and then renamed
        except FileExistsError:
            raise InvalidInputError(
                f"{path} exists and is kept: choose another name, or move it away."
            ) from None
        except OSError as error:
            self._give_back()
            raise unwritten(path, error) from None

    def fill(self, content: str) -> None:
        """Write the whole file in place of the reservation.

        Args:
            content: The text of the file.

        Raises:
            InvalidInputError: If another file has taken the place of the reservation.
            StorageError: If the disk is full; the message does not say to try again.
        """
        try:
            with _temporary(self.path, content) as temporary:
                if not self._is_ours():
                    raise InvalidInputError(
                        f"{self.path} was replaced by another file in the meantime."
                    )
                os.replace(temporary, self.path)
            self.filled = True
            _sync_folder(self.path.parent)
        except OSError as error:
            raise unwritten(self.path, error, "") from None

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.filled:
            self._give_back()

    def _is_ours(self) -> bool:
        with contextlib.suppress(OSError):
            return _identity(self.path.lstat()) == self._identity
        return False

    def _give_back(self) -> None:
        with contextlib.suppress(
            OSError, AttributeError
        ):  # without an identity there is no file of ours
            if self._is_ours():
                self.path.unlink()


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    """What a file is recognised by: its number alone would be that of the next one, once it is
    deleted.
    """
    return found.st_dev, found.st_ino, found.st_mtime_ns


@contextlib.contextmanager
def _temporary(path: Path, content: str | bytes) -> Iterator[Path]:
    """A file beside `path` with this content, flushed to the disk; removed at the end unless
    renamed.

    """
    name = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.part"
    try:
        with name.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        yield name
    finally:
        name.unlink(missing_ok=True)


def _link(temporary: Path, path: Path) -> None:
    """Give a file its name unless that is taken, also where the file system has no hard links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        path.open("x").close()
        os.replace(temporary, path)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
