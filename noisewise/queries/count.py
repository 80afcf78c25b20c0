"""The number of records."""

from __future__ import annotations

import dataclasses

import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AddRemoveOne
from noisewise.queries import _converters
from noisewise.queries._converters import set_checked
from noisewise.queries.base import AbstractAdditiveQuery, namespace
from noisewise.queries.domains import Box


@dataclasses.dataclass(frozen=True)
class Count(AbstractAdditiveQuery):
    r"""s = the number n of records, none included.

    `x` has shape (n,) or (n, num_columns); its values do not matter, but they must be numbers, and
    none may be missing. With `ClampedSum` beside it, in a `Joint`, it gives a mean where the number
    of records is confidential.

    Attributes:
        num_columns: The number of columns of the data.

    Sensitivity: replacing a record changes no count, so 0, exactly: where neighbours replace, the
    number of records is public and needs no noise. Adding or removing the records of a unit changes
    it by their number c: exactly c in every norm.

    >>> import noisewise as nw
    >>> mean = nw.queries.Joint([nw.queries.ClampedSum(bounds=(0.0, 4.0)), nw.queries.Count()])
    >>> mean([0.5, 3.0, 9.0]), mean([])
    (array([7.5, 3. ]), array([0., 0.]))
    >>> mean.sensitivity(neighbours=nw.AddRemoveOne())
    5.0
    """

    num_columns: int = 1

    def __post_init__(self) -> None:
        set_checked(self, num_columns=_converters.count("num_columns", self.num_columns))
        _converters.check_width(self.num_columns, "num_columns")

    @property
    def num_records(self) -> None:  # type: ignore[override]
        """None: it is what is asked."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("count",)

    @property
    def width(self) -> int:
        return 1

    @property
    def domain(self) -> Box:
        return Box(low=(0.0,) * self.num_columns, high=(1.0,) * self.num_columns)

    @property
    def divisor(self) -> float:
        return 1.0

    @property
    def unit(self) -> float:
        return 1.0

    def _units(self, records: Array) -> Array:
        return namespace(records).ones((len(records), 1), dtype=np.float64)

    def _sensitivity(self, norm: float) -> float:
        return 0.0

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        return float(neighbours.max_contributions)
