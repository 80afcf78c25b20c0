"""The sets of possible records: real columns, or categories.

Domains check databases, and give audits the records to search.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Num

from noisewise._core.arrays import Array, describe, is_traced
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.queries._converters import Bounds, as_levels, floats, set_checked

_SHOWN = 6
"""Columns that a sentence lists: as many as fit into a line."""

_STEPS = np.linspace(-1.0, 1.0, 9)
"""Where a search tries a value, in radii: four points on each side and the value itself."""


class AbstractDomain(abc.ABC):
    """The set of possible records, each a row of `width` numbers.

    A domain of your own gives `width`, `describe`, `_check`, `_cast`, and for audits `sample`,
    `extremes` and `around`.
    """

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """The number of columns of a record."""

    def records(self, x: Any, num_records: int | None = None) -> Num[Array, "n width"]:
        """A database as an array of records, checked.

        Args:
            x: Records, shape (n, width), or (n,) for one column. Values are checked unless `x` is a
                JAX tracer.
            num_records: The number of records that x must have; None for any number, none included:
                where records are added or removed, a database without any has neighbours too.

        Returns:
            Shape (n, width): float64 for a `Box`, int64 for `Categories`.

        Raises:
            InvalidInputError: If the shape or a value does not fit. Messages name shapes, never
                values.
            InvalidTypeError: If x does not hold real numbers.
        """
        array = as_array(x)
        if array.shape == (0, 0) or (array.ndim == 1 and (self.width == 1 or len(array) == 0)):
            array = array.reshape(len(array), self.width)
        self._check_shape(array.shape, num_records)
        if not is_traced(array):
            self._check(array)
        return self._cast(array)

    def _check_shape(self, shape: tuple[int, ...], num_records: int | None) -> None:
        if len(shape) != 2 or shape[1] != self.width:
            wanted = "(n,) or (n, 1)" if self.width == 1 else f"(n, {self.width})"
            raise InvalidInputError(f"x must have shape {wanted}, one row per record, got {shape}.")
        if num_records not in (None, shape[0]):
            raise InvalidInputError(
                f"x must have {num_records} record(s), got {shape[0]}: "
                "the number of records is part of the query."
            )

    @abc.abstractmethod
    def describe(self) -> str:
        """The values of a column, as the object of a sentence."""

    @abc.abstractmethod
    def _check(self, array: np.ndarray) -> None:
        """Refuse values that no record can have."""

    @abc.abstractmethod
    def _cast(self, array: Array) -> Array: ...

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> Num[np.ndarray, "size width"]:
        """`size` random records."""

    @abc.abstractmethod
    def extremes(self, rng: np.random.Generator, at_most: int) -> Num[np.ndarray, "rows width"]:
        """The records where a change tends to be largest, or `at_most` of them at random."""

    @abc.abstractmethod
    def around(
        self, column: int, values: Num[np.ndarray, " size"], radius: float
    ) -> Num[np.ndarray, "size tries"]:
        """Values to try in a column instead of the given ones.

        Args:
            column: The number of the column.
            values: One value per record.
            radius: How far to move, as a share of the column's range.

        Returns:
            One row of possible values per record, the ends of the column among them.
        """


@dataclasses.dataclass(frozen=True)
class Box(AbstractDomain):
    """Real columns between `low` and `high`, on a grid if one is given.

    Databases may hold any finite numbers: queries clamp them.

    Attributes:
        low: The lower end of each column.
        high: The upper end of each column.
        grid: The spacing of the grid of each column, starting at `low`; None for no grid.

    >>> Box(low=(0.0, -1.0), high=(1.0, 1.0)).width
    2
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    grid: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        low, high = floats("low", self.low), floats("high", self.high)
        if len(low) != len(high) or not all(a < b for a, b in zip(low, high, strict=True)):
            raise InvalidInputError(
                f"Box needs low < high in every column, got low={low}, high={high}."
            )
        set_checked(self, low=low, high=high)
        if self.grid is not None:
            grid = floats("grid", self.grid)
            if len(grid) != len(low) or min(grid) <= 0.0:
                raise InvalidInputError(
                    f"grid must be {len(low)} positive number(s), one per column, got {grid}."
                )
            set_checked(self, grid=grid)

    @property
    def width(self) -> int:
        return len(self.low)

    def describe(self) -> str:
        return "finite numbers"

    def _check(self, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            raise InvalidInputError(
                "x must be finite: remove or fill missing and infinite values first."
            )

    def _cast(self, array: Array) -> Array:
        return array.astype(np.float64)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        records = rng.uniform(self.low, self.high, (size, self.width))
        return self._snap(records, np.arange(self.width))

    def extremes(self, rng: np.random.Generator, at_most: int) -> np.ndarray:
        return _all_or_some(rng, list(zip(self.low, self.high, strict=True)), at_most)

    def around(self, column: int, values: np.ndarray, radius: float) -> np.ndarray:
        low, high = self.low[column], self.high[column]
        near = np.clip(values[:, None] + radius * (high - low) * _STEPS, low, high)
        ends = np.broadcast_to([low, high], (len(values), 2))
        return self._snap(np.concatenate([near, ends], axis=1), column)

    def _snap(self, values: np.ndarray, column: int | np.ndarray) -> np.ndarray:
        if self.grid is None:
            return values
        low, high, grid = (np.asarray(ends)[column] for ends in (self.low, self.high, self.grid))
        return np.clip(low + np.rint((values - low) / grid) * grid, low, high)


@dataclasses.dataclass(frozen=True)
class Categories(AbstractDomain):
    """Columns of category numbers: column j holds 0, ..., levels[j] - 1.

    Attributes:
        levels: The number of categories of each column.

    >>> Categories(levels=(2, 3)).records([[0, 2], [1, 1]]).tolist()
    [[0, 2], [1, 1]]
    """

    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        set_checked(self, levels=as_levels("levels", self.levels, at_least=1))

    @property
    def width(self) -> int:
        return len(self.levels)

    def describe(self) -> str:
        shown = ", ".join(f"0 to {count - 1}" for count in self.levels[:_SHOWN])
        return f"category numbers ({shown}{', ...' if len(self.levels) > _SHOWN else ''})"

    def _check(self, array: np.ndarray) -> None:
        if not np.isfinite(array).all() or not (array == np.rint(array)).all():
            raise InvalidInputError(
                "x must hold category numbers 0, 1, 2, ...: whole, none missing."
            )
        if not ((array >= 0) & (array < np.asarray(self.levels))).all():
            raise InvalidInputError(
                "x must hold category numbers from 0 to one less than the number of levels"
                f" {self.levels}: some lie outside. Number the categories from 0, or state more"
                " levels."
            )

    def _cast(self, array: Array) -> Array:
        return array.astype(np.int64)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.integers(0, self.levels, (size, self.width))

    def extremes(self, rng: np.random.Generator, at_most: int) -> np.ndarray:
        return _all_or_some(rng, [range(count) for count in self.levels], at_most)

    def around(self, column: int, values: np.ndarray, radius: float) -> np.ndarray:
        return np.broadcast_to(np.arange(self.levels[column]), (len(values), self.levels[column]))


def box(bounds: Bounds, columns: int, grid: tuple[float, ...] | None = None) -> Box:
    """The box of clamping bounds: one (low, high) for all columns, or one pair for each.

    >>> box((0.0, 1.0), columns=2)
    Box(low=(0.0, 0.0), high=(1.0, 1.0), grid=None)
    """
    pairs = np.broadcast_to(np.asarray(bounds), (columns, 2))
    return Box(low=tuple(pairs[:, 0]), high=tuple(pairs[:, 1]), grid=grid)


def as_array(x: Any) -> Array:
    """Data as a JAX array if traced, else as a NumPy array of real numbers.

    Raises:
        InvalidInputError: If it is not a rectangular array, or a masked one.
        InvalidTypeError: If it does not hold real numbers.

    >>> as_array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if is_traced(x):
        return jnp.asarray(x)
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidInputError(
            "x must not be a masked array: remove or fill the missing values first."
        )
    try:
        array = _any_array(x)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"x must be a rectangular array of numbers, got {describe(x)}."
        ) from None
    if array.dtype.kind not in "fiub":
        raise InvalidTypeError(
            f"x must be an array of real numbers, got {describe(x)} with dtype {array.dtype}."
        )
    return array


def _any_array(x: Any) -> np.ndarray:
    try:
        array = np.asarray(x)
    except OverflowError:  # whole numbers beyond float64
        array = np.asarray(x, dtype=object)
    if array.dtype.kind != "O":
        return array
    values = array.ravel().tolist()
    if not all(type(value) in (int, float) for value in values):
        return array
    return np.array([_saturated(value) for value in values]).reshape(array.shape)


def _saturated(value: float) -> float:
    """A whole number beyond float64 as the largest float64: it lies beyond all bounds anyway."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def _all_or_some(rng: np.random.Generator, choices: list[Any], at_most: int) -> np.ndarray:
    total = np.prod([float(len(choice)) for choice in choices])
    if total <= at_most:
        return np.array(list(itertools.product(*choices)))
    return np.column_stack([rng.choice(np.asarray(choice), at_most) for choice in choices])
