"""Joint counts of categorical columns."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AddRemoveOne
from noisewise.queries._converters import (
    as_levels,
    as_normalize,
    check_width,
    count,
    set_checked,
)
from noisewise.queries.base import AbstractCountQuery, counted
from noisewise.queries.domains import Categories


@dataclasses.dataclass(frozen=True)
class ContingencyTable(AbstractCountQuery):
    r"""s_c = #{i : x_i = c} for each cell c = (c_1, ..., c_m), last index fastest, divided by n if
    `normalize`.

    `x` has shape (n, m) and holds in column j whole numbers from 0 to levels[j] - 1.

    Attributes:
        levels: The number of categories of each column, at least 2.
        num_records: n, if it is public and fixed; needed to normalize.
        normalize: Whether counts become proportions.

    Sensitivity: every record lies in one cell, so replacing one takes 1 from a cell and gives it to
    another. Exactly, Delta_1 = 2, Delta_2 = sqrt 2, Delta_inf = 1, all divided by n if `normalize`.
    Adding or removing one record changes one cell by 1: exactly 1 in every norm. With up to c
    records of one unit, at most m of them in a cell, Delta_1 = c, Delta_2 = c if m = c and at most
    sqrt(c m) in general, Delta_inf = m (exactly as `queries.base.counted` says and proves).
    Proportions have none, as n is confidential then.

    >>> import noisewise as nw
    >>> query = nw.queries.ContingencyTable(levels=(2, 3))
    >>> query([[0, 2], [0, 2], [1, 0]])
    array([0., 0., 2., 1., 0., 0.])
    >>> query.names[2]
    'cell[0,2]'
    """

    levels: tuple[int, ...]
    num_records: int | None = None
    normalize: bool = False

    def __post_init__(self) -> None:
        set_checked(self, levels=as_levels("levels", self.levels, at_least=2))
        check_width(self.width, "The product of levels")
        set_checked(self, num_records=count("num_records", self.num_records, optional=True))
        set_checked(self, normalize=as_normalize(self.normalize, self.num_records))

    @property
    def names(self) -> tuple[str, ...]:
        cells = itertools.product(*(range(count) for count in self.levels))
        return tuple(f"cell[{','.join(map(str, cell))}]" for cell in cells)

    @property
    def width(self) -> int:
        return math.prod(self.levels)

    @property
    def domain(self) -> Categories:
        return Categories(self.levels)

    @property
    def divisor(self) -> float:
        return float(self.num_records) if self.normalize and self.num_records else 1.0

    def _cells(self, records: Array) -> Array:
        strides = [math.prod(self.levels[j + 1 :]) for j in range(len(self.levels))]
        return (records * np.asarray(strides)).sum(1, keepdims=True)

    def _sensitivity(self, norm: float) -> float:
        return {1.0: 2.0, 2.0: math.sqrt(2.0), math.inf: 1.0}[norm] / self.divisor

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        if self.normalize:
            raise self._needs_number()
        return counted(norm, neighbours, self.width)
