"""What this user has done on this machine, kept outside the folders that travel: small JSON files
in the user's state folder.

    $XDG_STATE_HOME/noisewise/KIND/NAME.json        (or ~/.local/state/noisewise/...)

A folder that somebody else could have written is not believed: it must belong to the user, be
closed to others and be no symbolic link. Where the records cannot be read or written, callers
continue without them and say so.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Any

from noisewise._core.files import write_atomically
from noisewise._core.json_files import dump_json, read_json
from noisewise.errors import NoisewiseError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
"""Permission bits with which others may change what a folder holds."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""Permission bits of others, of any kind."""


def state_folder() -> Path:
    """`noisewise` in the user's folder for the state of programs; a relative `XDG_STATE_HOME` does
    not count, as its standard says.
    """
    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".local" / "state") / "noisewise"


def read_record(kind: str, name: str) -> dict[str, Any] | None:
    """Read a record of this user on this machine.

    Args:
        kind: The folder of the record, in small letters.
        name: Its name, in hexadecimal digits.

    Returns:
        What was written under this name; None if nothing was, or nothing that can be trusted.
    """
    with contextlib.suppress(OSError, RuntimeError, NoisewiseError):
        path = _path(kind, name)
        if all(is_own(folder) for folder in (path.parent.parent, path.parent)):
            return read_json(path, "The record")
    return None


def write_record(kind: str, name: str, value: dict[str, Any]) -> bool:
    """Write a record of this user on this machine, whole or not at all.

    Args:
        kind: The folder of the record, in small letters.
        name: Its name, in hexadecimal digits.
        value: A JSON-ready object.

    Returns:
        Whether that was possible.
    """
    with contextlib.suppress(
        OSError, RuntimeError, NoisewiseError
    ):  # RuntimeError: the user has no home
        path = _path(kind, name)
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_own(folder):
                return False
        write_atomically(path, dump_json(value), overwrite=True)
        return True
    return False


def _path(kind: str, name: str) -> Path:
    if not re.fullmatch(r"[a-z-]+", kind) or not re.fullmatch(r"[0-9a-f]+", name):
        raise ValueError(
            "A record is named by a kind in small letters and a name in hexadecimal digits."
        )
    return state_folder() / kind / f"{name}.json"


def is_own(folder: Path) -> bool:
    """Whether a folder is the user's own, no symbolic link, and nobody else may write in it."""
    return _is_own(folder, _OTHERS_WRITE)


def is_closed(folder: Path) -> bool:
    """Whether a folder is the user's own, closed to everybody else, named without symbolic links,
    and nobody else can put another in its place. False where that cannot be known, as on Windows.
    """
    if not hasattr(os, "getuid") or folder != folder.resolve():
        return False
    return _is_own(folder, _OTHERS) and all(map(_keeps_its_entries, folder.parents))


def _is_own(folder: Path, forbidden: int) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return stat.S_ISDIR(found.st_mode) and own and not found.st_mode & forbidden


def _keeps_its_entries(folder: Path) -> bool:
    """Whether only the user and the administrator can rename or replace what lies in a folder."""
    try:
        found = folder.stat()
    except OSError:
        return False
    trusted = found.st_uid in (0, os.getuid())
    sticky = bool(found.st_mode & stat.S_ISVTX)  # as /tmp: entries belong to who made them
    return trusted and (sticky or not found.st_mode & _OTHERS_WRITE)
