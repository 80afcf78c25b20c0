"""Scores of candidate medians, for the exponential mechanism."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AddRemoveOne
from noisewise.queries._converters import count, increasing, set_checked
from noisewise.queries.base import AbstractQuery, namespace
from noisewise.queries.domains import Box


@dataclasses.dataclass(frozen=True)
class Median(AbstractQuery):
    r"""s_c = -|D_c| / 2 with D_c = #{i : x_i < c} - #{i : x_i > c}: how well each candidate c
    splits the records.

    `x` has shape (n,) or (n, 1). Feed s to `mechanisms.ExponentialMechanism` with the same
    candidates. 2 s_c is a whole number, so s lies on a lattice of `step` 1/2; records need no
    bounds and no grid, being only compared with the candidates.

    Sensitivity. One record adds sign(c - x_i), which is -1, 0 or 1, to D_c. Replacing it moves D_c
    by at most 2 and |D_c| / 2 by at most 1, for each of the m candidates: Delta_inf <= 1, Delta_1
    <= m, Delta_2 <= sqrt m. All three are reached once n >= 2: with every record below every
    candidate, D_c = n for all c; one record moved above all makes it n - 2 >= 0, and every s_c
    rises by exactly 1. Adding or removing a record moves D_c by at most 1 and |D_c| / 2 by at most
    1/2, c records of one unit c times as far, and all s_c by exactly c/2 where all records lie
    below every candidate: exactly, Delta_inf = c/2, Delta_1 = m c/2, Delta_2 = sqrt(m) c/2.

    Attributes:
        candidates: The values among which the median is chosen, increasing, public.
        num_records: n, if it is public and fixed.

    >>> import noisewise as nw
    >>> query = nw.queries.Median(candidates=(1.0, 2.0, 3.0), num_records=5)
    >>> query([0.5, 1.0, 2.5, 2.7, 9.0])
    array([-1. , -0.5, -1.5])
    >>> query.sensitivity(norm=float("inf"))
    1.0
    """

    candidates: tuple[float, ...]
    num_records: int | None = None

    def __post_init__(self) -> None:
        set_checked(self, candidates=increasing("candidates", self.candidates, at_least=1))
        set_checked(self, num_records=count("num_records", self.num_records, optional=True))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"utility[{candidate}]" for candidate in self.candidates)

    @property
    def domain(self) -> Box:
        """A box that reaches beyond all candidates; a record outside it counts like its ends."""
        margin = max(1.0, *(abs(candidate) for candidate in self.candidates))
        return Box(low=(self.candidates[0] - margin,), high=(self.candidates[-1] + margin,))

    @property
    def step(self) -> float:
        return 0.5

    @property
    def choices(self) -> tuple[float, ...]:
        return self.candidates

    @property
    def private_names(self) -> tuple[str, ...]:
        return ("median",)

    @property
    def largest_integer(self) -> int | None:
        return self.num_records

    def _integers(self, x: Array) -> Array:
        xp = namespace(x)
        ordered, candidates = xp.sort(x[:, 0]), np.asarray(self.candidates)
        below = xp.searchsorted(ordered, candidates, side="left")
        above = len(ordered) - xp.searchsorted(ordered, candidates, side="right")
        return -abs(below - above)

    def _statistic(self, x: Array) -> Array:
        return 0.5 * self._integers(x)

    def _sensitivity(self, norm: float) -> float:
        size = len(self.candidates)
        return {1.0: float(size), 2.0: math.sqrt(size), math.inf: 1.0}[norm]

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        return 0.5 * neighbours.max_contributions * self._sensitivity(norm)
