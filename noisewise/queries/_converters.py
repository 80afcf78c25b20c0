"""Checks of constructor arguments that several queries share. Arguments are public, so messages may show them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from noisewise._arrays import describe, integer
from noisewise.errors import InvalidInputError, InvalidTypeError

Bounds = tuple[float, float] | tuple[tuple[float, float], ...]

EXACT_INTEGERS = 2**53
"""Sums of whole numbers up to here are exact in float64, in any order, and float64 tells them apart."""


def as_bounds(value: Any, columns: int) -> Bounds:
    """Clamping bounds: one (low, high) for all columns, or one pair for each."""
    try:
        array = np.asarray(value)
        numeric = array.dtype.kind in "fiu"
    except ValueError:
        numeric = False
    if not numeric or array.shape not in ((2,), (columns, 2)):
        raise InvalidInputError(
            f"bounds must be a pair (low, high), or {columns} such pair(s), one per column, got {value!r}."
        )
    low, high = array[..., 0], array[..., 1]
    if not np.isfinite(array).all() or not (low < high).all():
        raise InvalidInputError(f"bounds must be finite with low < high, got {value!r}.")
    if array.ndim == 1:
        return float(low), float(high)
    return tuple((float(a), float(b)) for a, b in array)


def as_levels(name: str, value: Any, *, at_least: int) -> tuple[int, ...]:
    """Numbers of levels, one per column."""
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) == 0:
        raise InvalidTypeError(
            f"{name} must be a tuple of whole numbers, one per column, such as (2, 3), got {describe(value)}."
        )
    return tuple(integer(f"each of {name}", at_least=at_least)(count) for count in value)


def floats(name: str, value: Any, *, at_least: int = 1) -> tuple[float, ...]:
    """A sequence of finite numbers as a tuple of floats."""
    expected = f"{name} must be a sequence of at least {at_least} finite number(s)"
    if isinstance(value, (str, bytes)) or not np.iterable(value):
        raise InvalidTypeError(f"{expected}, got {describe(value)}.")
    try:
        array = np.asarray(list(value))
    except ValueError:
        raise InvalidInputError(f"{expected}, got uneven rows.") from None
    if array.ndim != 1 or array.dtype.kind not in "fiu" or len(array) < at_least:
        raise InvalidInputError(f"{expected}, got shape {array.shape} of dtype {array.dtype}.")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{expected}, got {value!r}.")
    return tuple(float(item) for item in array)


def increasing(name: str, value: Any, *, at_least: int) -> tuple[float, ...]:
    """A strictly increasing sequence of finite numbers as a tuple of floats."""
    result = floats(name, value, at_least=at_least)
    if not all(a < b for a, b in itertools.pairwise(result)):
        raise InvalidInputError(f"{name} must be strictly increasing, got {value!r}.")
    return result


def as_normalize(normalize: Any, num_records: int | None) -> bool:
    """Whether counts become proportions, which needs a known number of records."""
    if not isinstance(normalize, (bool, np.bool_)):
        raise InvalidTypeError(f"normalize must be True or False, got {describe(normalize)}.")
    if normalize and num_records is None:
        raise InvalidInputError("normalize=True divides by the number of records: pass num_records=...")
    return bool(normalize)


def whole(value: float, rule: str) -> int:
    """`value` as an integer if it is one up to rounding."""
    nearest = round(value)
    if abs(value - nearest) > min(1e-3, 1e-12 * max(1.0, abs(value))):
        raise InvalidInputError(f"{rule}, got {value:.17g}.")
    return nearest


def check_exact(largest: int) -> None:
    """Refuse a grid so fine that a sum of up to `largest` units could be inexact."""
    if largest > EXACT_INTEGERS:
        raise InvalidInputError(
            f"The grid is too fine for exact sums: up to {float(largest):.3g} units exceed 2^53. Take a coarser grid."
        )
