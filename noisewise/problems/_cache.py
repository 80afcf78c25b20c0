"""Exact draws on disk: NumPy arrays without pickled objects, named by a hash of all they depend
on.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._core.files import write_atomically
from noisewise._core.regular_files import opened
from noisewise.errors import NoisewiseError
from noisewise.runs.arrays import read_array

VERSION = 2
"""Part of every name: raise it when a reference sampler changes."""

_MAX_HEADER = 4096
"""Bytes of a file besides the numbers, at most: NumPy's header takes 128."""


def cache_folder() -> Path:
    """Where exact draws are stored: `$NOISEWISE_CACHE_DIR`, or `noisewise` in the user's cache
    folder.
    """
    chosen = os.environ.get("NOISEWISE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "noisewise"


def cached_draws(
    identity: dict[str, Any], compute: Callable[[], np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    """The stored draws of this identity; where there are none, they are computed and stored.

    A damaged file is computed again and replaced. A folder that cannot be written costs only the
    time.

    Args:
        identity: JSON-ready values that determine the draws.
        compute: Computes them.
        shape: Their shape.

    Returns:
        The draws, float64.
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
    shape = tuple(map(int, shape))
    size = 8 * math.prod(shape)
    try:
        with opened(path, limit=size + _MAX_HEADER, follow_links=False) as file:
            if os.fstat(file.fileno()).st_size < size:
                return None
            draws = read_array(file, shape, "float64", "The cached array")
    except (OSError, NoisewiseError):
        return None
    return draws if np.isfinite(draws).all() else None


def _write(path: Path, draws: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, draws, allow_pickle=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, buffer.getvalue(), overwrite=True)
    except (OSError, ValueError):
        return
