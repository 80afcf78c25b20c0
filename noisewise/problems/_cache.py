"""Exact draws on disk: NumPy arrays without pickled objects, named by the hash of all they depend on."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._files import write_atomically

VERSION = 2
"""Part of every name: raise it when a reference sampler changes."""


def cache_folder() -> Path:
    """`$NOISEWISE_CACHE_DIR`, or `noisewise` in the user's cache folder."""
    chosen = os.environ.get("NOISEWISE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "noisewise"


def cached_draws(identity: dict[str, Any], compute: Callable[[], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The stored draws of this identity, or freshly computed ones, which are then stored.

    A damaged file is computed anew and replaced; a folder that cannot be written costs only the time.
    """
    text = json.dumps({"version": VERSION, **identity}, sort_keys=True)
    path = cache_folder() / "references" / f"{hashlib.sha256(text.encode()).hexdigest()}.npy"
    stored = _read(path, shape)
    if stored is not None:
        return stored
    draws = np.ascontiguousarray(compute(), dtype=np.float64)
    _write(path, draws)
    return draws


def _read(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    try:
        if path.stat().st_size > 8 * int(np.prod(shape)) + 4096:
            return None
        draws = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    good = draws.shape == shape and draws.dtype == np.float64 and np.isfinite(draws).all()
    return draws if good else None


def _write(path: Path, draws: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, draws, allow_pickle=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, buffer.getvalue(), overwrite=True)
    except (OSError, ValueError):
        return
