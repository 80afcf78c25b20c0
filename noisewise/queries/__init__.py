"""x -> s: confidential statistics and how far one person can move them. One query per file."""

from __future__ import annotations

from typing import Any

from noisewise._core.specs import concrete, registered, require_few
from noisewise.queries.base import (
    AbstractAdditiveQuery,
    AbstractCountQuery,
    AbstractQuery,
    from_spec_with,
    namespace,
)
from noisewise.queries.category_proportions import CategoryProportions
from noisewise.queries.clamped_mean import ClampedMean
from noisewise.queries.clamped_sum import ClampedSum
from noisewise.queries.contingency_table import ContingencyTable
from noisewise.queries.count import Count
from noisewise.queries.domains import AbstractDomain, Box, Categories
from noisewise.queries.function_query import FunctionQuery, as_query
from noisewise.queries.histogram import Histogram
from noisewise.queries.infection_curve import InfectionCurve
from noisewise.queries.joint import Joint
from noisewise.queries.median import Median
from noisewise.queries.regression_moments import RegressionMoments

__all__ = [
    "AbstractAdditiveQuery",
    "AbstractCountQuery",
    "AbstractDomain",
    "AbstractQuery",
    "Box",
    "Categories",
    "CategoryProportions",
    "ClampedMean",
    "ClampedSum",
    "ContingencyTable",
    "Count",
    "FunctionQuery",
    "Histogram",
    "InfectionCurve",
    "Joint",
    "Median",
    "RegressionMoments",
    "as_query",
    "from_spec",
    "namespace",
    "register",
]

_KINDS: dict[str, type[AbstractQuery]] = concrete(vars(), AbstractQuery, but=(FunctionQuery,))
"""The classes that files may name."""


def register(kind: type[AbstractQuery]) -> type[AbstractQuery]:
    """Let files name a query of your own: a decorator of its class.

    The class must be imported before a file is read. A file can name only what was registered in
    this process, so no file decides what code runs.

    Returns:
        The class itself.

    Raises:
        InvalidTypeError: If it is not a class that extends `AbstractQuery`.
        InvalidInputError: If files know another class of this name.
    """
    return registered(kind, AbstractQuery, _KINDS)


def from_spec(spec: Any) -> AbstractQuery:
    """The query that `to_spec` described.

    Raises:
        FileFormatError: If `spec` names no known class, or not exactly its fields.
        InvalidInputError: If the query refuses the fields.

    >>> query = Median(candidates=(1.0, 2.0), num_records=7)
    >>> from_spec(query.to_spec()) == query
    True
    """
    require_few(spec, "A query")
    return from_spec_with(spec, _KINDS)
