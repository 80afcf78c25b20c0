"""Numbers that a mechanism has once for all columns, or once for each: scales, sensitivities,
thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from noisewise._core.arrays import Array, describe, number
from noisewise.errors import InvalidInputError, InvalidTypeError

PerColumn = Any
"""One number for all columns, a float, or one for each, a float64 array of shape (k,)."""

_SHOWN = 8
"""Numbers of a list that `repr` shows: as many as fit into a line."""


def per_column(name: str, *, optional: bool = False, **limits: Any) -> Callable[[Any], Any]:
    """Make a converter for a setting that is one number, or a list of one number per column.

    Args:
        name: The setting, as messages name it.
        optional: Whether None is allowed; it stays None.
        limits: What `number` takes: `above`, `at_least`, `below`, `at_most`.

    Returns:
        A function that returns a Python float for a number, a read-only float64 array for a list,
        and tracers as they are, or raises `InvalidTypeError` or `InvalidInputError`.

    >>> per_column("scale", above=0.0)([3, 8]).tolist()
    [3.0, 8.0]
    """
    single = number(name, optional=optional, **limits)
    entry = number(f"Each {name}", **limits)

    def convert(value: Any) -> Any:
        if not is_listed(value):
            return single(value)
        if len(value) == 0:
            raise InvalidInputError(f"{name} must be one number, or one per column, got none.")
        plain = isinstance(value, tuple) and {type(item) for item in value} <= {int, float}
        if plain or getattr(value, "dtype", np.dtype(object)).kind in "fiu":
            values = np.array(value, dtype=float)
            for worst in (*values[~np.isfinite(values)][:1], values.min(), values.max()):
                entry(worst)
        else:
            items = value.tolist() if hasattr(value, "tolist") else value
            values = np.array([entry(item) for item in items], dtype=float)
        values.setflags(write=False)
        return values

    return convert


def is_listed(value: Any) -> bool:
    """Whether a setting has one number per column; tracers of one axis count."""
    if isinstance(value, (str, bytes, jax.core.Tracer)):
        return False
    try:
        return bool(np.ndim(value) == 1)
    except ValueError:  # lists of unequal lengths
        raise InvalidTypeError(
            f"Expected one number, or a list of one number per column, got {describe(value)}."
        ) from None


def num_columns(**settings: Any) -> int | None:
    """The number of columns that settings are given for; None if all of them are single numbers.

    Args:
        settings: Converted settings by name.

    Raises:
        InvalidInputError: If two are given for different numbers of columns.

    >>> num_columns(scale=np.array([1.0, 2.0]), sensitivity=1.0)
    2
    """
    lengths = {name: len(value) for name, value in settings.items() if np.ndim(value) == 1}
    if len(set(lengths.values())) > 1:
        found = " and ".join(f"{length} for {name}" for name, length in lengths.items())
        raise InvalidInputError(f"Give one number per column to each: got {found}.")
    return next(iter(lengths.values()), None)


def loss(sensitivity: PerColumn, scale: PerColumn, norm: float) -> float:
    r"""The largest norm of (D_1/b_1, ..., D_k/b_k) over the changes D between neighbours.

    With a sensitivity per column |D_j| <= d_j, and the norm is that of (d_j/b_j). With one
    sensitivity Delta of all columns together it is at most Delta / min_j b_j, in the L1 and in the
    L2 norm alike, because every |D_j/b_j| is at most |D_j| / min b.

    Args:
        sensitivity: Delta in this norm, or d_j for each column.
        scale: b, or b_j for each column.
        norm: 1 or 2.

    >>> loss(2.0, np.array([4.0, 8.0]), 1.0), loss(np.array([2.0, 2.0]), np.array([4.0, 8.0]), 1.0)
    (0.5, 0.75)
    """
    if np.ndim(sensitivity) == 0:
        smallest = scale if np.ndim(scale) == 0 else float(np.min(scale))
        return sensitivity / smallest
    return length(np.asarray(sensitivity) / scale, norm)


def length(values: PerColumn, norm: float) -> float:
    """The L1, L2 or L-infinity norm of numbers per column; a single number is its own.

    >>> length(np.array([3.0, 4.0]), 2.0), length(2.5, 1.0)
    (5.0, 2.5)
    """
    if np.ndim(values) == 0:
        return values
    entries = np.abs(values).tolist()
    if math.isinf(norm):
        return max(entries)
    return math.fsum(entries) if norm == 1 else math.hypot(*entries)


def rescaled(scale: PerColumn, sensitivity: PerColumn, norm: float) -> tuple[float, PerColumn]:
    """What calibration needs to keep the ratios of scales.

    Returns:
        The sensitivity for which a single scale b has the loss of the scales b * shares, and the
        shares, of which the smallest is 1.
    """
    smallest = scale if np.ndim(scale) == 0 else float(np.min(scale))
    shares = 1.0 if np.ndim(scale) == 0 else np.asarray(scale) / smallest
    return loss(sensitivity, shares, norm), shares


def each(fn: Callable[[float], float], values: PerColumn) -> Any:
    """fn of a number, or the list of fn of each.

    >>> each(abs, -1.0), each(abs, np.array([-1.0, 2.0]))
    (1.0, [1.0, 2.0])
    """
    if np.ndim(values) == 0:
        return fn(values)
    known = {value: fn(value) for value in set(values.tolist())}
    return [known[value] for value in values.tolist()]


def taken(values: PerColumn | None, columns: Sequence[int]) -> Any:
    """The numbers of some columns; a single one is that of each.

    >>> taken(np.array([1.0, 2.0, 3.0]), [2, 0]).tolist(), taken(5.0, [2, 0])
    ([3.0, 1.0], 5.0)
    """
    if values is None or np.ndim(values) == 0:
        return values
    return values[np.array(columns, dtype=int)]


def kinds_of(k: int, *settings: PerColumn) -> Any:
    """A number for each of k columns, the same where all settings are the same.

    >>> kinds_of(3, 5.0, np.array([1.0, 2.0, 1.0])).tolist(), kinds_of(2).tolist()
    ([0, 1, 0], [0, 0])
    """
    rows = np.stack([np.zeros(k), *(np.broadcast_to(value, k) for value in settings)])
    return np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)


def in_words(noun: str, values: PerColumn) -> str:
    """The number or the range of numbers, with its noun.

    >>> in_words("scale", 4.0), in_words("scale", np.array([3.0, 8.0]))
    ('scale 4', 'scales from 3 to 8')
    """
    if np.ndim(values) == 0:
        return f"{noun} {values:.4g}"
    return f"{noun}s from {np.min(values):.4g} to {np.max(values):.4g}"


class Listed:
    """A list of numbers as `repr` shows it: the first ones, and how many there are.

    >>> Listed(np.arange(3.0)), Listed(np.arange(10.0))
    ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, ... (10 numbers)])
    """

    def __init__(self, values: Array) -> None:
        self._values = values.tolist()

    def __repr__(self) -> str:
        if len(self._values) <= _SHOWN:
            return repr(self._values)
        shown = ", ".join(map(repr, self._values[:_SHOWN]))
        return f"[{shown}, ... ({len(self._values)} numbers)]"


def column_samplers(
    make: Callable[[Any, Any], Callable[[Sequence[int]], list[int]]],
    scale: PerColumn,
    sensitivity: PerColumn,
) -> Callable[[Sequence[int]], list[int]]:
    """The exact sampler of noise whose scale or sensitivity differs between columns.

    Args:
        make: The sampler of a scale and a sensitivity.
        scale: b, or b_j for each column.
        sensitivity: Delta, or d_j for each column. Where it is a number, all of it may fall into
            any column.

    Returns:
        A sampler of one integer per column: each is drawn by the sampler of its column.
    """
    if np.ndim(scale) == 0 and np.ndim(sensitivity) == 0:
        return make(scale, sensitivity)
    pairs = np.broadcast_arrays(scale, sensitivity)
    columns = list(zip(*(part.tolist() for part in pairs), strict=True))
    samplers = {pair: make(*pair) for pair in set(columns)}
    return lambda integers: [
        samplers[pair]([integer])[0] for pair, integer in zip(columns, integers, strict=False)
    ]
