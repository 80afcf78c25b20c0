"""Means of clamped columns."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from noisewise._core.arrays import Array, number
from noisewise._core.neighbours import AddRemoveOne
from noisewise.queries._converters import (
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
class ClampedMean(AbstractAdditiveQuery):
    r"""s_j = (1/n) sum_i clip(x_ij, low_j, high_j).

    `x` has shape (n,) or (n, num_columns).

    Attributes:
        bounds: The public (low, high) of all columns, or one pair for each.
        num_records: n, public.
        num_columns: The number of columns; by default the number of pairs.
        grid: The spacing to which clamped values are rounded, for releases; None for no rounding.

    Sensitivity: replacing one record moves column j by at most w_j = high_j - low_j before the
    division by n, and all columns by that much when a record at every `low` becomes one at every
    `high`. So, exactly, Delta_1 = sum_j w_j / n, Delta_2 = |w|_2 / n, Delta_inf = max_j w_j / n.
    Where records are added or removed, n is confidential and no sensitivity is defined: take
    `ClampedSum` and `Count`.

    With `grid`, each clamped value is rounded to the nearest multiple of `grid`, and both bounds
    must be such multiples: values stay within the bounds, so the sensitivities stay what they are,
    and s lies on the multiples of `step` = grid / n.

    >>> import noisewise as nw
    >>> query = nw.queries.ClampedMean(bounds=(0.0, 10.0), num_records=4, grid=0.5)
    >>> query([1.2, 3.3, -7.0, 80.0])
    array([3.625])
    >>> query.integer_statistic([1.2, 3.3, -7.0, 80.0]), query.step
    ([29], 0.125)
    >>> query.sensitivity()
    2.5
    """

    bounds: Bounds
    num_records: int
    num_columns: int = None  # type: ignore[assignment]
    grid: float | None = None

    def __post_init__(self) -> None:
        set_checked(self, num_records=count("num_records", self.num_records))
        columns = num_pairs(self.bounds) if self.num_columns is None else self.num_columns
        set_checked(self, num_columns=count("num_columns", columns))
        check_width(self.num_columns, "num_columns")
        set_checked(self, bounds=as_bounds(self.bounds, self.num_columns))
        set_checked(self, grid=number("grid", above=0.0, optional=True)(self.grid))
        if self.grid is not None:
            check_exact(self.largest_integer or 0)

    @property
    def names(self) -> tuple[str, ...]:
        if self.num_columns == 1:
            return ("mean",)
        return tuple(f"mean[{j}]" for j in range(self.num_columns))

    @functools.cached_property
    def domain(self) -> Box:
        grid = None if self.grid is None else (self.grid,) * self.num_columns
        return box(self.bounds, self.num_columns, grid)

    @property
    def divisor(self) -> float:
        return float(self.num_records)

    @property
    def unit(self) -> float | None:
        return self.grid

    def on_default_grid(self) -> ClampedMean:
        """The same query with the largest grid of which all bounds are multiples, halved until 2^12
        steps fit between the bounds of each column.

        >>> ClampedMean(bounds=(0.0, 100.0), num_records=50).on_default_grid().grid
        0.0244140625
        """
        if self.grid is not None:
            return self
        return dataclasses.replace(self, grid=default_grid(self.domain.low, self.domain.high))

    @property
    def largest_integer(self) -> int | None:
        if self.grid is None:
            return None
        units = in_steps(self.domain.low, self.domain.high, self.grid)
        return self.num_records * max(abs(end) for end in units)

    def _units(self, records: Array) -> Array:
        clamped = namespace(records).clip(
            records, np.asarray(self.domain.low), np.asarray(self.domain.high)
        )
        # Division and rint are monotone and map the bounds to whole numbers: nothing leaves them.
        return clamped if self.grid is None else namespace(records).rint(clamped / self.grid)

    def _sensitivity(self, norm: float) -> float:
        ends = list(zip(self.domain.low, self.domain.high, strict=True))
        widths = [high - low for low, high in ends]
        grid = self.grid
        if grid is not None:  # float64 bounds may lie a little off the grid: count its steps
            widths = [(round(high / grid) - round(low / grid)) * grid for low, high in ends]
        changes = {1.0: math.fsum(widths), 2.0: math.hypot(*widths), math.inf: max(widths)}
        return changes[norm] / self.num_records

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        raise self._needs_number()
