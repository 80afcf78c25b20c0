"""Compiled programs in the user's cache folder, so that the next process need not compile them.

    $XDG_CACHE_HOME/noisewise/programs/MACHINE      (or ~/.cache/noisewise/programs/MACHINE)

JAX reads and writes them (its persistent compilation cache). They are native code, and whoever can
write them decides what runs: only folders that are closed to everybody else serve. A folder is
never named by a file; where the user has told JAX of a folder of their own, that one stands.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import jax

from noisewise._core.local_records import is_closed

SWITCH = "NOISEWISE_PROGRAMS"
"""Environment variable: `off`, or the size limit in megabytes."""

_MEGABYTE = 1_000_000
"""Bytes."""

_DEFAULT_LIMIT = 300
"""Megabytes: a method on a model leaves one or two, so that this is a hundred of them."""

_KEPT = 0.8
"""Share of the limit that is left when old programs are deleted, so that this is rare."""


@functools.cache
def keep_programs() -> Path | None:
    """Have JAX keep compiled programs, once in a process.

    Returns:
        The folder; None if none serves, or the user wants none or another.
    """
    limit = _limit()
    if not limit or _decided_by_user():
        return None
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: the user has no home
        folder = _made(_folder())
        if is_closed(folder.parent) and is_closed(folder):
            _delete_oldest(folder, limit)
            jax.config.update("jax_compilation_cache_dir", str(folder))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
            return folder
    return None


def _made(folder: Path) -> Path:
    """The folder, made if it was not there, as it is named without symbolic links above ours: JAX
    opens it by this name again.
    """
    caches = folder.parents[2]
    for part in (*reversed(caches.parents), caches):
        part.mkdir(mode=0o700, exist_ok=True)
    made = caches.resolve(strict=True)
    for name in folder.parts[-3:]:
        made = made / name
        made.mkdir(mode=0o700, exist_ok=True)
    return made


def _decided_by_user() -> bool:
    """Whether JAX was told of a folder, or to keep nothing."""
    settings: dict[str, Any] = jax.config.values
    chosen = settings["jax_compilation_cache_dir"]
    return chosen is not None or not settings["jax_enable_compilation_cache"]


def _limit() -> int:
    """Bytes that programs may take; 0 for none."""
    chosen = os.environ.get(SWITCH, "")
    if chosen.strip().lower() == "off":
        return 0
    return int(chosen) * _MEGABYTE if chosen.isdecimal() else _DEFAULT_LIMIT * _MEGABYTE


def _folder() -> Path:
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    caches = chosen if chosen.is_absolute() else Path.home() / ".cache"
    return caches / "noisewise" / "programs" / _machine()


def _machine() -> str:
    """A name for this kind of processor: a home folder may serve machines of several kinds, and a
    program may use instructions that only some of them have.
    """
    flags = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    known = [platform.system(), platform.machine(), platform.processor(), flags, jax.__version__]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _delete_oldest(folder: Path, limit: int) -> None:
    """Delete programs that were not used for the longest time, if all take more than the limit."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process deletes too
            found.append((path, path.lstat()))
    total = sum(entry.st_size for _, entry in found)
    if total <= limit:
        return
    for path, entry in sorted(found, key=lambda pair: max(pair[1].st_atime, pair[1].st_mtime)):
        if total <= _KEPT * limit:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= entry.st_size
