"""JSON files that a stranger may have touched: strict reading, atomic writing.

Reading accepts one JSON object and nothing ambiguous: no duplicate keys, no NaN or infinity (spelt
out or by overflow), no integer beyond 64 bits, no lone surrogate, bounded size and nesting. Writing
goes through a temporary file in the same folder, flushed to the disk, then renamed: a reader sees
the old file or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._core.regular_files import read_regular
from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    NoisewiseError,
    StorageError,
)

MAX_BYTES = 16 * 2**20
MAX_DEPTH = 32
_RESERVED = json.dumps(
    {"schema": "noisewise.reservation", "meaning": "A release that did not end. Delete this file."}
)
_MOST_ITEMS, _MOST_BRACKETS = 2_400_000, 400_000
"""Commas or quotes, and opening brackets, of one file: those that noisewise writes have fewer in
`MAX_BYTES`. So what is made of them stays below 256 MiB."""
_MAX_INTEGER = 2**63 - 1
_MAX_TEXT = 1000


def as_path(path: Any, name: str = "path") -> Path:
    """`path` as a `Path`, or an error that says what came."""
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


def read_json(path: Path, what: str, *, follow_links: bool = True) -> dict[str, Any]:
    """The JSON object in a file, read strictly. `what` names the kind of file in messages."""
    return parse_json(
        read_regular(path, limit=MAX_BYTES, follow_links=follow_links), f"{what} {path.name}"
    )


def parse_json(content: bytes | str, what: str) -> dict[str, Any]:
    """One JSON object, or a `FileFormatError` that says what is wrong."""
    if isinstance(content, str):
        content = content.encode("utf-8", errors="surrogatepass")
    if len(content) > MAX_BYTES:
        raise FileFormatError(
            f"{what} is larger than {MAX_BYTES // 2**20} MiB: this is not a file noisewise wrote."
        )
    commas, quotes, lists, objects = map(content.count, (b",", b'"', b"[", b"{"))
    if max(commas, quotes) > _MOST_ITEMS or lists + objects > _MOST_BRACKETS:
        raise FileFormatError(f"{what} holds too many items: this is not a file noisewise wrote.")
    try:
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
        _check_tree(value)
    except FileFormatError as error:
        raise FileFormatError(f"{what} is not valid: {error}") from None
    except UnicodeDecodeError:
        raise FileFormatError(f"{what} is not UTF-8 text: get an unaltered copy.") from None
    except RecursionError:
        raise FileFormatError(
            f"{what} is nested too deeply: this is not a file noisewise wrote."
        ) from None
    except ValueError as error:
        where = (
            f"line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else "a number"
        )
        raise FileFormatError(
            f"{what} is not JSON ({where}); it may be truncated: get an unaltered copy."
        ) from None
    if not isinstance(value, dict):
        raise FileFormatError(f"{what} must hold one JSON object, got a {type(value).__name__}.")
    return value


def require_keys(value: Any, expected: Iterable[str], what: str) -> dict[str, Any]:
    """`value` itself if it is an object with exactly the expected keys."""
    if not isinstance(value, dict):
        raise FileFormatError(f"{what} must be a JSON object, got {type(value).__name__}.")
    missing, unknown = sorted(set(expected) - set(value)), sorted(set(value) - set(expected))
    if missing:
        raise FileFormatError(f"{what} lacks {', '.join(missing)}.")
    if unknown:
        raise FileFormatError(
            f"{what} has keys that this version does not know:"
            f" {', '.join(map(ascii, unknown[:5]))}."
        )
    return value


def require_schema(value: dict[str, Any], schema: str, version: int, what: str) -> None:
    """Refuse a file of another kind or another version."""
    if value.get("schema") != schema:
        raise FileFormatError(
            f'{what} must say "schema": "{schema}"; this is another kind of file.'
        )
    found = value.get("schema_version")
    if isinstance(found, bool) or found != version:
        shown = found if isinstance(found, (int, float)) else "none"
        raise FileFormatError(
            f"{what} has schema version {shown}; this noisewise reads version {version}: use the"
            " one that wrote it."
        )


def sealed(value: dict[str, Any]) -> dict[str, Any]:
    """`value` with the sha256 of all it holds, by which `check_seal` knows whether it was altered."""
    rest = {name: item for name, item in value.items() if name != "sha256"}
    return {**rest, "sha256": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def check_seal(value: dict[str, Any], what: str) -> None:
    """Refuse an object that was altered since it was `sealed`."""
    if value.get("sha256") != sealed(value)["sha256"]:
        raise FileFormatError(
            f"{what} was altered: it does not match its sha256. Get an unaltered copy."
        )


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever goes wrong while objects are built from a file into a `FileFormatError`."""
    foreign = (
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        RecursionError,
        MemoryError,
    )
    try:
        with np.errstate(all="ignore"):  # absurd numbers overflow on their way to being refused
            yield
    except NoisewiseError as error:
        raise FileFormatError(f"{what} is not valid: {error}") from None
    except foreign as error:
        raise FileFormatError(
            f"{what} is not valid ({type(error).__name__}): get an unaltered copy."
        ) from None


def require_text(value: Any, name: str, *, empty: bool = False) -> str:
    """A short printable line of text, or an error that names the argument."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be a text, got {type(value).__name__}.")
    if (not value.strip() and not empty) or len(value) > _MAX_TEXT or not value.isprintable():
        raise InvalidInputError(
            f"{name} must be one printable line of at most {_MAX_TEXT} characters."
        )
    return value


def dump_json(value: dict[str, Any]) -> str:
    """JSON text, two spaces deep, one newline at the end; floats are written so that they read back
    bit by bit.
    """
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def write_atomically(path: Path, content: str | bytes, *, overwrite: bool) -> None:
    """Write the whole file or nothing. Without `overwrite` an existing file wins, whenever it
    appeared.
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
    """What to raise where a file or a folder cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        reason = "the disk fails" if error.errno == errno.EIO else "the disk is full"
        return StorageError(
            f"{path} cannot be written, because {reason}. What was written before is intact."
            f" {advice}".rstrip()
        )
    hint = " Make its folder first." if error.errno == errno.ENOENT else ""
    return InvalidInputError(f"{path} cannot be written: {error.strerror}.{hint}")


def remove_parts(*folders: Path) -> None:
    """Remove what processes that were killed while they wrote have left in some folders."""
    with contextlib.suppress(OSError):
        own = (folder for folder in folders if not folder.is_symlink())
        for part in itertools.chain.from_iterable(folder.glob(".*.part") for folder in own):
            part.unlink(missing_ok=True)


def require_new(path: Path) -> None:
    """Refuse a path that could not become a new file, before work is done for its content."""
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
    """The name of a file that is yet to come, taken so that nobody else gets it; given back where
    the file never comes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Reservation(Path(folder) / "a.json") as reserved:
    ...     reserved.fill("{}")
    ...     (Path(folder) / "a.json").read_text()
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
            with _temporary(
                path, _RESERVED
            ):  # the finished file will come by way of another one beside it
                pass
        except FileExistsError:
            raise InvalidInputError(
                f"{path} exists and is kept: choose another name, or move it away."
            ) from None
        except OSError as error:
            self._give_back()
            raise unwritten(path, error) from None

    def fill(self, content: str) -> None:
        """Write the whole file in place of the reservation; where that fails the message does not
        say to try again.
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
    """By which a file is known again: its number alone would be that of the next one, once it is
    deleted.
    """
    return found.st_dev, found.st_ino, found.st_mtime_ns


@contextlib.contextmanager
def _temporary(path: Path, content: str | bytes) -> Iterator[Path]:
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


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FileFormatError("a key appears twice in one object.")
    return result


def _refuse_constant(name: str) -> Any:
    raise FileFormatError(f"{name} is not a number it may contain.")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise FileFormatError("a number is too large for float64.")
    return value


def _integer(text: str) -> int:
    value = int(text) if len(text) < 32 else _MAX_INTEGER + 1
    if abs(value) > _MAX_INTEGER:
        raise FileFormatError("a whole number is beyond 64 bits.")
    return value


def _check_tree(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                children += item
            elif isinstance(item, str) and any(
                "\ud800" <= character <= "\udfff" for character in item
            ):
                raise FileFormatError("a text contains half a character (a lone surrogate).")
        if not children:
            return
        level = children
    raise FileFormatError(f"it is nested more than {MAX_DEPTH} deep.")
