"""Noisy measurements of the 2020 US Census, in Parquet files."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from noisewise import mechanisms
from noisewise._core.arrays import describe
from noisewise._core.files import PathLike
from noisewise._core.neighbours import ReplaceOne
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.readers.description import TableDescription, reader
from noisewise.readers.files import SourceFile, check_size, one_of, read_source
from noisewise.readers.frames import frame_of
from noisewise.readers.laws import Law
from noisewise.readers.parquet import check_list, parquet_cells

_PERSONS = ("hhgq", "votingage", "hispanic", "cenrace")
_UNITS = ("h1",)
_NOISY = ("geocode", "query_name", "query_shape", "value", "variance")
_CONSTRAINT = ("geocode", "query_name", "query_shape", "value", "sign")
_EQUAL = ("=", "==", "equal")
EXACT = "exact"
"""The word for cells without noise."""


@reader
def census_nmf(
    path: PathLike,
    *,
    query: str,
    variance_is_sigma_squared: bool = False,
    constraints: PathLike | None = None,
    invariants: Sequence[str] = (),
    geocodes: Sequence[str] | None = None,
    sensitivity: float | None = None,
    guarantee: Any = None,
    neighbours: Any = None,
    name: str | None = None,
    description: str = "",
) -> TableDescription:
    """Read one query of one geographic level: a Parquet file of DPQuery, with that of Constraint.

    The noise is discrete Gaussian with the scale sqrt(variance) of the row. That `variance` is the
    square of sigma is how existing readers take it, but it stands in no document of the Bureau's:
    it must be confirmed. Negative and inconsistent numbers are published as they are. Cells are
    labelled by their place along each dimension of the query.

    Args:
        path: The file, with the columns geocode, query_name, the dimensions (hhgq, votingage,
            hispanic and cenrace, or h1), query_shape, value and variance.
        query: The name of the query.
        variance_is_sigma_squared: True to confirm it.
        constraints: The file of constraints, which has sign in place of variance.
        invariants: The names of the constraints that are read as cells without noise, such as state
            totals. Only equations can be: bounds are no published numbers.
        geocodes: The areas that are read; by default all.
        sensitivity: The largest change of the query between neighbours, in the L2 norm: sqrt(2) for
            a table of counts where one person is replaced.
        guarantee: What the publisher states for this query.
        neighbours: The relation of neighbours; by default one person is replaced. Of files on
            housing units it must be given.
        name: What the table is called.
        description: A line about it.

    Returns:
        The release; `census_nmf.describe(...)` gives the `TableDescription`.

    Raises:
        InvalidInputError: If something is missing, or there is no such query.
        FileFormatError: If the file is damaged.

    Reference:
        US Census Bureau, "2020 Census Noisy Measurement Files" (2023).
    """
    source = read_source(path)
    if not isinstance(query, str):
        raise InvalidTypeError(f"query must be the name of one query, got {describe(query)}.")
    if variance_is_sigma_squared is not True:
        raise InvalidInputError(
            "The file has the variance, and its document does not say of what: confirm that it is"
            " the square of sigma by --variance-is-sigma-squared (variance_is_sigma_squared=True)."
        )
    if bool(invariants) != (constraints is not None):
        raise InvalidInputError(
            "Constraints are read from their own file, and by their names: give both --constraints"
            " FILE and --invariant NAME (constraints=, invariants=)."
        )
    rows = list(_rows(source, _NOISY, (query,), geocodes))
    dimensions = rows[0].dimensions
    relation = neighbours
    if relation is None and guarantee is None:
        if dimensions == _UNITS:
            raise InvalidInputError(
                "A file on housing units does not say whose records are neighbours: give"
                " --neighbours replace-one --unit 'housing unit' (neighbours=)."
            )
        relation = ReplaceOne()
    laws = {
        _word(row): Law("discrete-gaussian", row.sigma(source), sensitivity, neighbours=relation)
        for row in rows
    }
    made = {word: law.mechanism() for word, law in laws.items()}
    if constraints is not None:
        exact = read_source(constraints)
        rows += list(_rows(exact, _CONSTRAINT, tuple(invariants), geocodes))
        made[EXACT] = mechanisms.Exact()
    check_size(source, sum(len(row.values) for row in rows) * (len(dimensions) + 3))
    same = len(made) == 1
    return TableDescription(
        frame_of(_content(rows, dimensions)),
        value="value",
        labels=("query_name", "geocode", *dimensions),
        mechanism=next(iter(made.values())) if same else made,
        by=None if same else "law",
        neighbours=relation,
        guarantee=guarantee,
        name=name,
        description=description,
        source=source.origin("census_nmf", query=query, variance_is_sigma_squared=True),
    )


@dataclasses.dataclass(frozen=True)
class _Row:
    """One query of one area.

    Attributes:
        geocode: The area.
        query: The name of the query.
        dimensions: The names of its dimensions.
        shape: How many cells it has along each.
        values: The published numbers, the last dimension running fastest.
        variance: That of the noise; None for a constraint.
    """

    geocode: str
    query: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    values: tuple[float, ...]
    variance: float | None

    def sigma(self, source: SourceFile) -> float:
        """The scale of the noise."""
        if self.variance is None or not 0.0 < self.variance < math.inf:
            raise FileFormatError(
                f"The variance of {self.query} in {source.name} must be above 0, got"
                f" {self.variance}."
            )
        return math.sqrt(self.variance)


def _word(row: _Row) -> str:
    return EXACT if row.variance is None else f"variance {row.variance!r}"


def _rows(
    source: SourceFile,
    needed: Sequence[str],
    queries: Sequence[str],
    geocodes: Sequence[str] | None,
) -> Iterator[_Row]:
    """The rows of some queries and areas, each checked."""
    where = {"query_name": list(queries)}
    if geocodes is not None:
        where["geocode"] = list(map(str, geocodes))
    dimensions, found, seen = _cells(source, needed, where)
    twice: set[tuple[str, str]] = set()
    for line in zip(*found.values(), strict=True):
        row = dict(zip(found, line, strict=True))
        if not isinstance(row["geocode"], str) or not isinstance(row["query_name"], str):
            raise FileFormatError(f"geocode and query_name of {source.name} must be texts.")
        key = row["query_name"], row["geocode"]
        if key in twice:
            raise FileFormatError(f"{source.name} has {key[0]} of {key[1]} twice.")
        twice.add(key)
        yield _row(source, row, dimensions)
    for query in queries:
        one_of(query, seen["query_name"], f"In {source.name}, the query")
        if query not in found["query_name"]:
            raise InvalidInputError(f"{source.name} has none of the areas (--geocode, geocodes=).")


def _cells(
    source: SourceFile, needed: Sequence[str], where: dict[str, list[str]]
) -> tuple[tuple[str, ...], dict[str, list[Any]], dict[str, list[str]]]:
    """The dimensions of a file, its columns that are needed, and the names in it."""
    try:
        return _PERSONS, *parquet_cells(source, (*needed, *_PERSONS), where=where)
    except FileFormatError as error:
        if "no column 'hhgq'" not in str(error):
            raise
        missing = error
    try:
        return _UNITS, *parquet_cells(source, (*needed, *_UNITS), where=where)
    except FileFormatError:
        raise missing from None


def _row(source: SourceFile, row: dict[str, Any], dimensions: tuple[str, ...]) -> _Row:
    what = f"{row['query_name']} of {row['geocode']} in {source.name}"
    shape = check_list(row["query_shape"], "query_shape", source)
    values = check_list(row["value"], "value", source)
    if not all(isinstance(size, int) and size > 0 for size in shape):
        raise FileFormatError(f"The query_shape of {what} must be whole numbers above 0.")
    if len(shape) != len(dimensions) or math.prod(shape) != len(values):
        raise FileFormatError(
            f"The query_shape of {what} must have {len(dimensions)} numbers, whose product is the"
            f" number of values, {len(values)}."
        )
    numbers = [_number(value, what) for value in values]
    variance = None
    if "sign" in row:
        if row["sign"] not in _EQUAL:
            raise FileFormatError(
                f"{what} is a bound ({row['sign']}), no published number: leave it out of"
                " --invariant (invariants=)."
            )
    else:
        variance = _number(row["variance"], f"The variance of {what}")
    return _Row(
        row["geocode"], row["query_name"], dimensions, tuple(shape), tuple(numbers), variance
    )


def _number(value: Any, what: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf:
        return float(value)
    raise FileFormatError(f"{what} must hold finite numbers, got {describe(value)}.")


def _content(rows: Sequence[_Row], dimensions: tuple[str, ...]) -> dict[str, list[Any]]:
    """One row of the frame per cell; a dimension over which a query adds up is "all"."""
    names = ("query_name", "geocode", *dimensions, "value", "law")
    content: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        if row.dimensions != dimensions:
            raise FileFormatError("Measurements and constraints have different dimensions.")
        places = itertools.product(*map(range, row.shape))
        for place, value in zip(places, row.values, strict=True):
            content["query_name"].append(row.query)
            content["geocode"].append(row.geocode)
            for dimension, index, size in zip(dimensions, place, row.shape, strict=True):
                content[dimension].append("all" if size == 1 else str(index))
            content["value"].append(value)
            content["law"].append(_word(row))
    return content
