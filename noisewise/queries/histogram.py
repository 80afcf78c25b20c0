"""Counts, or proportions, of a real column in bins."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AddRemoveOne
from noisewise.queries._converters import as_normalize, count, increasing, set_checked
from noisewise.queries.base import AbstractCountQuery, counted, namespace
from noisewise.queries.domains import Box


@dataclasses.dataclass(frozen=True)
class Histogram(AbstractCountQuery):
    r"""s_j = #{i : x_i in bin j}, divided by n if `normalize`; bin j is [edges[j], edges[j+1]), the
    last one closed.

    `x` has shape (n,) or (n, 1). Values below the first edge count in the first bin, values above
    the last in the last: the counts add up to n, and do not reveal who lies outside.

    Attributes:
        edges: The public edges of the bins, increasing, at least three.
        num_records: n, if it is public and fixed; needed to normalize.
        normalize: Whether counts become proportions.

    Sensitivity: replacing one record takes 1 from one bin and gives it to another, or changes
    nothing. So, exactly, Delta_1 = 2, Delta_2 = sqrt 2, Delta_inf = 1, all divided by n if
    `normalize`. Adding or removing one record changes one bin by 1: exactly 1 in every norm. With
    up to c records of one unit, at most m of them in a bin, Delta_1 = c, Delta_2 = c if m = c and
    at most sqrt(c m) in general, Delta_inf = m (exactly as `queries.base.counted` says and proves).
    Proportions have none, as n is confidential then.

    >>> import noisewise as nw
    >>> query = nw.queries.Histogram(edges=(0.0, 1.0, 2.0, 5.0), num_records=5, normalize=True)
    >>> query([-3.0, 0.5, 1.0, 2.0, 99.0])
    array([0.4, 0.2, 0.4])
    >>> query.sensitivity(norm=1)
    0.4
    >>> nw.queries.Histogram(edges=(0.0, 1.0, 2.0)).sensitivity(neighbours=nw.AddRemoveOne())
    1.0
    """

    edges: tuple[float, ...]
    num_records: int | None = None
    normalize: bool = False

    def __post_init__(self) -> None:
        set_checked(self, edges=increasing("edges", self.edges, at_least=3))
        set_checked(self, num_records=count("num_records", self.num_records, optional=True))
        set_checked(self, normalize=as_normalize(self.normalize, self.num_records))

    @property
    def names(self) -> tuple[str, ...]:
        closing = [")"] * (self.width - 1) + ["]"]
        bins = zip(self.edges[:-1], self.edges[1:], closing, strict=True)
        return tuple(f"[{low}, {high}{end}" for low, high, end in bins)

    @property
    def width(self) -> int:
        return len(self.edges) - 1

    @property
    def domain(self) -> Box:
        return Box(low=self.edges[:1], high=self.edges[-1:])

    @property
    def divisor(self) -> float:
        return float(self.num_records) if self.normalize and self.num_records else 1.0

    def _cells(self, records: Array) -> Array:
        return namespace(records).searchsorted(np.asarray(self.edges[1:-1]), records, side="right")

    def _sensitivity(self, norm: float) -> float:
        return {1.0: 2.0, 2.0: math.sqrt(2.0), math.inf: 1.0}[norm] / self.divisor

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        if self.normalize:
            raise self._needs_number()
        return counted(norm, neighbours, self.width)
