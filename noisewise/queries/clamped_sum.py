"""Sums of clamped columns."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from noisewise._core.arrays import Array, number
from noisewise._core.neighbours import AddRemoveOne
from noisewise.errors import InvalidInputError
from noisewise.queries._converters import (
    MAX_STEPS,
    Bounds,
    as_bounds,
    check_exact,
    check_width,
    count,
    default_grid,
    in_steps,
    num_pairs,
    set_checked,
)
from noisewise.queries.base import AbstractAdditiveQuery, namespace
from noisewise.queries.domains import Box, box


@dataclasses.dataclass(frozen=True)
class ClampedSum(AbstractAdditiveQuery):
    r"""s_j = sum_i clip(x_ij, low_j, high_j), over any number of records, none included.

    `x` has shape (n,) or (n, num_columns). With `Count` beside it, in a `Joint`, it gives a mean
    where the number of records is confidential.

    Attributes:
        bounds: The public (low, high) of all columns, or one pair for each.
        num_columns: The number of columns; by default the number of pairs.
        num_records: n, if it is public and fixed.
        grid: The spacing to which clamped values are rounded, for releases; None for no rounding.

    Sensitivity. Replacing a record moves column j by at most w_j = high_j - low_j, and all columns
    by that much when a record at every `low` becomes one at every `high`: exactly, Delta_1 = sum_j
    w_j, Delta_2 = |w|_2, Delta_inf = max_j w_j. Adding or removing one record moves column j by the
    clamped value, at most m_j = max(|low_j|, |high_j|), and all columns by that much at once when
    each value is at its farther end; c records of one unit move it c times as far when they are
    alike. Exactly, Delta_1 = c sum_j m_j, Delta_2 = c |m|_2, Delta_inf = c max_j m_j.

    With `grid`, each clamped value is rounded to the nearest multiple of `grid`, and both bounds
    must be such multiples: the sensitivities stay what they are, and s lies on the multiples of
    `step` = grid.

    >>> import noisewise as nw
    >>> query = nw.queries.ClampedSum(bounds=(-2.0, 10.0), grid=0.5)
    >>> query([1.2, 3.3, -7.0, 80.0]), query([])
    (array([12.5]), array([0.]))
    >>> query.sensitivity(), query.sensitivity(neighbours=nw.AddRemoveOne())
    (12.0, 10.0)
    """

    bounds: Bounds
    num_columns: int = None  # type: ignore[assignment]
    num_records: int | None = None
    grid: float | None = None

    def __post_init__(self) -> None:
        set_checked(self, num_records=count("num_records", self.num_records, optional=True))
        columns = num_pairs(self.bounds) if self.num_columns is None else self.num_columns
        set_checked(self, num_columns=count("num_columns", columns))
        check_width(self.num_columns, "num_columns")
        set_checked(self, bounds=as_bounds(self.bounds, self.num_columns))
        set_checked(self, grid=number("grid", above=0.0, optional=True)(self.grid))
        if self.grid is not None:
            self._check_grid()

    def _check_grid(self) -> None:
        """Sums of any number of records that fits into a computer are exact in 64-bit integers."""
        if self.num_records is not None:
            check_exact(self.num_records * self._largest_unit)
        elif self._largest_unit > MAX_STEPS:
            raise InvalidInputError(
                f"The grid is too fine for exact sums: a record has up to {self._largest_unit}"
                " units, more than 2^30. Take a coarser grid, or state num_records."
            )

    @property
    def names(self) -> tuple[str, ...]:
        if self.num_columns == 1:
            return ("sum",)
        return tuple(f"sum[{j}]" for j in range(self.num_columns))

    @functools.cached_property
    def domain(self) -> Box:
        grid = None if self.grid is None else (self.grid,) * self.num_columns
        return box(self.bounds, self.num_columns, grid)

    @property
    def divisor(self) -> float:
        return 1.0

    @property
    def unit(self) -> float | None:
        return self.grid

    def on_default_grid(self) -> ClampedSum:
        """The same query with the largest grid of which all bounds are multiples, halved until 2^12
        steps fit between the bounds of each column.

        >>> ClampedSum(bounds=(0.0, 100.0)).on_default_grid().grid
        0.0244140625
        """
        if self.grid is not None:
            return self
        return dataclasses.replace(self, grid=default_grid(self.domain.low, self.domain.high))

    @property
    def _largest_unit(self) -> int:
        """The largest |contribution| of a record, in steps of the grid."""
        units = in_steps(self.domain.low, self.domain.high, self.grid)  # type: ignore[arg-type]
        return max(abs(end) for end in units)

    @property
    def largest_integer(self) -> int | None:
        if self.grid is None or self.num_records is None:
            return None
        return self.num_records * self._largest_unit

    def _units(self, records: Array) -> Array:
        clamped = namespace(records).clip(
            records, np.asarray(self.domain.low), np.asarray(self.domain.high)
        )
        # Division and rint are monotone and map the bounds to whole numbers: nothing leaves them.
        return clamped if self.grid is None else namespace(records).rint(clamped / self.grid)

    def _integers(self, x: Array) -> Array:
        return self._units(x).astype(np.int64).sum(0)

    @property
    def _ends(self) -> list[tuple[float, float]]:
        """The bounds of each column; with a grid the steps that they round to, as for a mean."""
        ends = list(zip(self.domain.low, self.domain.high, strict=True))
        grid = self.grid
        if grid is None:
            return ends
        return [(round(low / grid) * grid, round(high / grid) * grid) for low, high in ends]

    def _sensitivity(self, norm: float) -> float:
        return _length([high - low for low, high in self._ends], norm)

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        farthest = [max(abs(low), abs(high)) for low, high in self._ends]
        return neighbours.max_contributions * _length(farthest, norm)


def _length(changes: list[float], norm: float) -> float:
    return {1.0: math.fsum(changes), 2.0: math.hypot(*changes), math.inf: max(changes)}[norm]
