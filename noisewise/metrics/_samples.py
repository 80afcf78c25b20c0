"""Checks of draws that metrics and plots make first."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisewise.errors import InvalidInputError, InvalidTypeError

_MIN_DRAWS = 10


def two_samples(reference: Any, draws: Any, *, allow_constant: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Both sets as float64 (n, d) and (m, d), finite and of one width."""
    pair = tuple(one_sample(value, name) for value, name in ((reference, "reference"), (draws, "draws")))
    first, second = pair
    if first.shape[1] != second.shape[1]:
        raise InvalidInputError(
            f"reference and draws must have the same number of columns, got {first.shape[1]} and {second.shape[1]}."
        )
    if not allow_constant and np.any(first.std(axis=0) == 0.0):
        columns = np.flatnonzero(first.std(axis=0) == 0.0).tolist()
        raise InvalidInputError(f"Columns {columns} of the reference are constant: leave them out of the comparison.")
    return first, second


def one_sample(value: Any, name: str) -> np.ndarray:
    """One set of draws as float64 (n, d): at least ten, all finite."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must be an array of draws (n, d), got {type(value).__name__}.") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInputError(f"{name} must have shape (n, d), got {array.shape}.")
    if len(array) < _MIN_DRAWS:
        raise InvalidInputError(f"{name} must hold at least {_MIN_DRAWS} draws, got {len(array)}: draw more.")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).any(axis=1).sum())
        raise InvalidInputError(
            f"{name} must be finite; {bad} of {len(array)} rows hold NaN or infinity: leave them out."
        )
    return array
