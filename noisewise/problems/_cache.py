"""Exact draws on disk: files of arrays, named by a hash of all they depend on."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._core.json_files import json_digest
from noisewise._core.regular_files import opened
from noisewise.errors import NoisewiseError
from noisewise.runs.archive_version_1 import read_npy
from noisewise.runs.array_files import read_arrays, write_arrays

VERSION = 2
"""Part of every name: raise it when a reference sampler changes."""

_MAX_HEADER = 4096
"""Bytes of a file besides the numbers, at most: a header takes some 300."""

_DRAWS = "draws"


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
    name = json_digest({"version": VERSION, **identity})
    path = cache_folder() / "references" / f"{name}.safetensors"
    stored = _read(path, tuple(map(int, shape)))
    if stored is not None:
        return stored
    draws = np.ascontiguousarray(compute(), dtype=np.float64)
    with contextlib.suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, {}, {_DRAWS: draws}, overwrite=True)
    return draws


def _read(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """The stored draws, also those of earlier versions, which are .npy files."""
    limit, old = 8 * math.prod(shape) + _MAX_HEADER, path.with_suffix(".npy")
    with contextlib.suppress(OSError, LookupError, NoisewiseError):
        if path.exists() or not old.exists():
            draws = read_arrays(path, limit=limit)[1][_DRAWS]
        else:
            with opened(old, limit=limit, follow_links=False) as file:
                if os.fstat(file.fileno()).st_size < limit - _MAX_HEADER:
                    return None
                draws = read_npy(file, shape, "float64", "The cached array")
        if draws.shape == shape and draws.dtype == np.float64 and np.isfinite(draws).all():
            return draws
    return None
