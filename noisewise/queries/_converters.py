"""Checks of constructor arguments that several queries share, and the grids of releases.

Arguments are public, so messages may show them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from noisewise._core.arrays import describe, integer
from noisewise.errors import InvalidInputError, InvalidTypeError, ReleaseError

Bounds = tuple[float, float] | tuple[tuple[float, float], ...]
"""One (low, high) for all columns, or one pair for each."""

EXACT_INTEGERS = 2**53
"""Whole numbers up to this size are distinct in float64, and their sums exact, in any order."""

RESOLUTION = 2**12
"""A default grid has at least this many steps between the bounds (for regression moments, between 0
and 1): rounding to it moves a number by at most 1/8192 of its range.
"""

MAX_WIDTH = 1_000_000
"""The largest number of entries of a statistic: 8 MB each, so that a mistyped argument is an error
and not all memory.
"""

MAX_STEPS = 2**30
"""A proposed grid has at most this many steps between 0 and a bound, so that the exact sums of
eight million records still fit into 2^53.
"""

_NEAR_WHOLE = 1e-12
"""Relative: a quotient of two float64 numbers this close to a whole number is meant to be whole."""

_NEAR_WHOLE_AT_MOST = 1e-3
"""Absolute: the limit of the same for quotients above 1e9."""


def set_checked(query: object, **values: Any) -> None:
    """Set the fields of a frozen query to what its constructor made of the arguments."""
    for name, value in values.items():
        object.__setattr__(query, name, value)


def count(name: str, value: Any, *, optional: bool = False) -> Any:
    """A whole number of at least 1, or None where that is allowed."""
    return integer(name, at_least=1, optional=optional)(value)


def as_bounds(value: Any, columns: int) -> Bounds:
    """Clamping bounds as floats: one (low, high) for all columns, or one pair for each.

    >>> as_bounds([0, 1], columns=2), as_bounds([[0, 1], [0, 5]], columns=2)
    ((0.0, 1.0), ((0.0, 1.0), (0.0, 5.0)))
    """
    try:
        array = np.asarray(value)
        numeric = array.dtype.kind in "fiu"
    except ValueError:
        numeric = False
    if not numeric or array.shape not in ((2,), (columns, 2)):
        raise InvalidInputError(
            f"bounds must be a pair (low, high), or {columns} such pair(s), one per column, got"
            f" {value!r}."
        )
    low, high = array[..., 0], array[..., 1]
    if not np.isfinite(array).all() or not (low < high).all():
        raise InvalidInputError(f"bounds must be finite with low < high, got {value!r}.")
    if array.ndim == 1:
        return float(low), float(high)
    return tuple((float(a), float(b)) for a, b in array)


def num_pairs(bounds: Any) -> int:
    """The number of columns that these bounds are for: one per pair, and 1 for a single pair."""
    try:
        shape = np.shape(bounds)
    except ValueError:
        return 1
    return shape[0] if len(shape) == 2 and shape[1] == 2 else 1


def check_width(width: int, source: str) -> None:
    """Refuse a statistic too long for the memory; `source` names the arguments that make it so."""
    if width > MAX_WIDTH:
        raise InvalidInputError(
            f"{source} would make a statistic of more than {MAX_WIDTH} numbers: take fewer."
        )


def as_levels(name: str, value: Any, *, at_least: int) -> tuple[int, ...]:
    """Numbers of levels, one per column."""
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) == 0:
        raise InvalidTypeError(
            f"{name} must be a tuple of whole numbers, one per column, such as (2, 3), got"
            f" {describe(value)}."
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
    """Whether counts become proportions; if so, the number of records must be known."""
    if not isinstance(normalize, (bool, np.bool_)):
        raise InvalidTypeError(f"normalize must be True or False, got {describe(normalize)}.")
    if normalize and num_records is None:
        raise InvalidInputError(
            "normalize=True divides by the number of records: pass num_records=..."
        )
    return bool(normalize)


def whole(value: float, rule: str) -> int:
    """`value` as an integer if it is one up to rounding; `rule` opens the message if not.

    >>> whole(1 / 0.1, "1/grid must be a whole number")
    10
    """
    if not _is_whole(value):
        raise InvalidInputError(f"{rule}, got {value:.17g}.")
    return round(value)


def _is_whole(value: float) -> bool:
    slack = min(_NEAR_WHOLE_AT_MOST, _NEAR_WHOLE * max(1.0, abs(value)))
    return abs(value - round(value)) <= slack


def in_steps(low: Sequence[float], high: Sequence[float], grid: float) -> list[int]:
    """All bounds as multiples of the grid: first the low ones, then the high ones.

    >>> in_steps([0.0, -1.0], [0.5, 1.0], grid=0.25)
    [0, -4, 2, 4]
    """
    for a, b in zip(low, high, strict=True):
        if not (_is_whole(a / grid) and _is_whole(b / grid)):
            better = _nearby_grid([*low, *high], grid)
            hint = "take rounder bounds" if better is None else f"{better:.12g} would do"
            raise InvalidInputError(
                f"bounds {a:.12g} and {b:.12g} must be multiples of grid={grid:.12g}; {hint}."
            )
    return [round(end / grid) for end in (*low, *high)]


def common_grid(ends: Sequence[float]) -> Fraction:
    """The largest number of which all `ends` (not all of them 0) are multiples.

    >>> common_grid([-1.5, 2.5, 0.0])
    Fraction(1, 2)
    """
    written = [as_written(end) for end in ends]
    shared = math.lcm(*(end.denominator for end in written))
    return Fraction(math.gcd(*(int(end * shared) for end in written)), shared)


def default_grid(low: Sequence[float], high: Sequence[float]) -> float:
    """The grid of a release that names none: the largest number of which all bounds are multiples,
    halved until `RESOLUTION` steps fit into every column.

    It depends on the bounds alone, which are public.

    >>> default_grid([0.0], [100.0])
    0.0244140625
    """
    grid = common_grid([*low, *high])
    narrowest = min(as_written(b) - as_written(a) for a, b in zip(low, high, strict=True))
    if max(abs(as_written(end)) for end in (*low, *high)) / grid > MAX_STEPS:
        raise ReleaseError(
            "The bounds have no common grid of reasonable size: take rounder bounds, or pass"
            " grid=... to the query, a number that divides every bound."
        )
    while narrowest / grid < RESOLUTION:
        grid /= 2
    return float(grid)


def as_written(value: float) -> Fraction:
    """The number that its author wrote: 0.1 is one tenth, not the float64 next to it."""
    return Fraction(repr(float(value)))


def _nearby_grid(ends: Sequence[float], grid: float) -> float | None:
    """The coarsest grid up to `grid` that is the common grid divided by 2^a 5^b, so that it has few
    digits.
    """
    common = common_grid(ends)
    least = common / as_written(grid)
    farthest = max(abs(as_written(end)) for end in ends)
    if max(least, farthest / min(common, as_written(grid))) > MAX_STEPS:
        return None
    divisors = (2**a * 5**b for a in range(32) for b in range(14))  # both powers pass MAX_STEPS
    found = float(common / min(divisor for divisor in divisors if divisor >= least))
    return found if all(_is_whole(end / found) for end in ends) else None


def check_exact(largest: int) -> None:
    """Refuse a grid so fine that a sum of up to `largest` units could be inexact."""
    if largest > EXACT_INTEGERS:
        raise InvalidInputError(
            f"The grid is too fine for exact sums: up to {float(largest):.3g} units exceed 2^53."
            " Take a coarser grid."
        )
