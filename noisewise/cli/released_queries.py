"""From the options of `noisewise release` to a query, its data, and names for what is published.

Builders use the columns' names and the number of lines, which are public; cells are read later,
by `Prepared.read`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from noisewise.cli.catalogue import RELEASED
from noisewise.cli.exits import did_you_mean
from noisewise.cli.prepared_queries import Prepared
from noisewise.cli.tables import Table
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    from noisewise.queries import AbstractQuery

Bounds = tuple[float, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """The options that describe a query, as given; each has the name of its option.

    `number_is_public` says whether neighbours have the same number of lines.
    """

    query: str
    columns: tuple[str, ...] = ()
    outcome: str | None = None
    predictors: tuple[str, ...] = ()
    bounds: Bounds | None = None
    bounds_of: dict[str, Bounds] = dataclasses.field(default_factory=dict)
    bins: int | None = None
    edges: tuple[float, ...] = ()
    levels: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    candidates: tuple[float, ...] = ()
    trials: int | None = None
    threshold: float | None = None
    number_is_public: bool = True

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The columns that are named, for the entry in the ledger."""
        return (*self.columns, *self.predictors, *((self.outcome,) if self.outcome else ())) or (
            "all columns",
        )

    def check(self) -> None:
        """Check that the query exists, and has the options it needs and no others.

        Raises:
            InvalidInputError: If not; the message says which option is missing or too much.
        """
        if self.query not in _NEEDED:
            raise InvalidInputError(
                f"There is no query {self.query!r} to release:"
                f" {did_you_mean(self.query, list(_NEEDED))}"
            )
        if not self.number_is_public and self.query in _DIVIDED:
            raise InvalidInputError(
                f"--query {self.query} needs the number of lines, which --neighbours add-remove"
                " keeps confidential: release --query sum and --query count instead."
            )
        needed, taken = _NEEDED[self.query], _TAKEN[self.query]
        for name, flag in _FLAGS.items():
            given = getattr(self, name) not in (None, (), {})
            if given and name not in (*needed, *taken):
                takes = ", ".join(_FLAGS[other] for other in (*needed, *taken)) or "none"
                raise InvalidInputError(f"--query {self.query} takes no {flag}; it takes {takes}.")
            if not given and name in needed:
                raise InvalidInputError(
                    f"--query {self.query} needs {flag}, such as {_EXAMPLES[name]}."
                )


def prepare(asked: Asked, table: Table) -> Prepared:
    """The query that is asked for; no cell is read yet.

    Args:
        asked: The options, checked.
        table: The open file.

    Raises:
        InvalidInputError: If columns, bounds or levels are missing or unknown.
    """
    return _BUILDERS[asked.query](asked, table)


# One builder per query ----------------------------------------------------------------------------


def _mean(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import ClampedMean

    columns = _columns(asked, table)
    query = ClampedMean(
        bounds=_bounds(asked, columns), num_records=table.num_records, num_columns=len(columns)
    )
    return _of_numbers(
        query,
        table,
        columns,
        tuple(f"mean {name}" for name in columns) if len(columns) > 1 else None,
    )


def _sum(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import ClampedSum

    columns = _columns(asked, table)
    query = ClampedSum(
        bounds=_bounds(asked, columns),
        num_columns=len(columns),
        num_records=_number_of(asked, table),
    )
    names = tuple(f"sum {name}" for name in columns) if len(columns) > 1 else None
    return _of_numbers(query, table, columns, names)


def _count(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import Count

    refusal = _refusal(table, table.names, "anything")
    return Prepared(Count(), lambda: [[0.0] for _ in table.numbers(())], refusal)


def _median(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import Median

    query = Median(candidates=asked.candidates, num_records=_number_of(asked, table))
    return _of_numbers(query, table, [_one_column(asked, table)])


def _histogram(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import Histogram

    query = Histogram(edges=_edges(asked), num_records=_number_of(asked, table))
    column = _one_column(asked, table)
    return _of_numbers(query, table, [column]).labelled({column: query.names})


def _contingency_table(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import ContingencyTable

    columns = _columns(asked, table)
    labels = _all_levels(asked, columns)
    query = ContingencyTable(
        levels=tuple(len(part) for part in labels), num_records=_number_of(asked, table)
    )
    cells = list(itertools.product(*labels))
    names = tuple(
        ", ".join(f"{name}={label}" for name, label in zip(columns, cell, strict=True))
        for cell in cells
    )
    prepared = _of_codes(query, table, columns, labels, names)
    return prepared.labelled(dict(zip(columns, zip(*cells, strict=True), strict=True)))


def _category_proportions(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import CategoryProportions

    columns = [str(asked.outcome), *asked.predictors]
    labels = _all_levels(asked, columns)
    sizes = tuple(len(part) for part in labels)
    query = CategoryProportions(
        num_classes=sizes[0], num_values=sizes[1:], num_records=table.num_records
    )
    names = tuple(
        f"{columns[0]}={group}, {name}={label}"
        for group in labels[0]
        for name, part in zip(columns[1:], labels[1:], strict=True)
        for label in part
    )
    return _of_codes(query, table, columns, labels, names)


def _regression_moments(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import RegressionMoments

    columns = [*asked.predictors, str(asked.outcome)]
    query = RegressionMoments(
        num_records=table.num_records,
        num_predictors=len(asked.predictors),
        bounds=_bounds(asked, columns),
    )
    return _of_numbers(query, table, columns)


def _infection_curve(asked: Asked, table: Table) -> Prepared:
    from noisewise.queries import InfectionCurve

    columns = asked.columns or table.names
    query = InfectionCurve(population=table.num_records, num_times=len(columns))
    return _of_numbers(query, table, columns, what="0 or 1")


_BUILDERS: dict[str, Callable[[Asked, Table], Prepared]] = {
    RELEASED["ClampedMean"]: _mean,
    RELEASED["ClampedSum"]: _sum,
    RELEASED["Count"]: _count,
    RELEASED["Median"]: _median,
    RELEASED["Histogram"]: _histogram,
    RELEASED["ContingencyTable"]: _contingency_table,
    RELEASED["CategoryProportions"]: _category_proportions,
    RELEASED["RegressionMoments"]: _regression_moments,
    RELEASED["InfectionCurve"]: _infection_curve,
}
_FLAGS = {
    "columns": "--column",
    "outcome": "--outcome",
    "predictors": "--predictors",
    "bounds": "--bounds",
    "bounds_of": "--bounds-of",
    "bins": "--bins",
    "edges": "--edges",
    "levels": "--levels",
    "candidates": "--candidates",
    "trials": "--trials",
    "threshold": "--threshold",
}
_NEEDED: dict[str, tuple[str, ...]] = {
    "mean": (),
    "sum": (),
    "count": (),
    "median": ("candidates",),
    "histogram": (),
    "contingency-table": ("columns", "levels"),
    "category-proportions": ("outcome", "predictors", "levels"),
    "regression-moments": ("outcome", "predictors"),
    "infection-curve": (),
}
_TAKEN: dict[str, tuple[str, ...]] = {
    "mean": ("columns", "bounds", "bounds_of"),
    "sum": ("columns", "bounds", "bounds_of"),
    "count": ("threshold",),
    "median": ("columns",),
    "histogram": ("columns", "edges", "bounds", "bins", "threshold"),
    "contingency-table": ("threshold",),
    "category-proportions": (),
    "regression-moments": ("bounds", "bounds_of"),
    "infection-curve": ("columns", "trials"),
}
_DIVIDED = ("mean", "category-proportions", "regression-moments", "infection-curve")
"""Queries of a public number of lines."""
_EXAMPLES = {
    "columns": "--column age",
    "outcome": "--outcome income",
    "predictors": "--predictors age,size",
    "levels": "--levels smoker=no,yes",
    "candidates": "--candidates 10,20,30",
}


# What builders share ------------------------------------------------------------------------------


def _number_of(asked: Asked, table: Table) -> int | None:
    """The number of lines, where it is public."""
    return table.num_records if asked.number_is_public else None


def _columns(asked: Asked, table: Table) -> tuple[str, ...]:
    """The columns that are named, or the only one there is."""
    if asked.columns:
        return asked.columns
    if len(table.names) > 1:
        raise InvalidInputError(f"{table.path.name} has several columns: choose one with --column.")
    return table.names


def _one_column(asked: Asked, table: Table) -> str:
    columns = _columns(asked, table)
    if len(columns) > 1:
        raise InvalidInputError(
            f"--query {asked.query} takes one column, got {len(columns)}: make one release for"
            " each."
        )
    return columns[0]


def _bounds(asked: Asked, columns: tuple[str, ...] | list[str]) -> Any:
    """The bounds of each column: its own, else those of all."""
    for name in asked.bounds_of:
        if name not in columns:
            raise InvalidInputError(
                f"--bounds-of names the column {name!r}, which the query does not use."
            )
    missing = [name for name in columns if name not in asked.bounds_of]
    if missing and asked.bounds is None:
        raise InvalidInputError(
            f"--query {asked.query} needs public bounds of {', '.join(missing)}, not taken from the"
            f" data: pass --bounds 0 100, say, or --bounds-of {missing[0]}=0,100."
        )
    return tuple(asked.bounds_of.get(name, asked.bounds) for name in columns)


def _edges(asked: Asked) -> tuple[float, ...]:
    """The edges of a histogram: as given, or of bins of equal width."""
    if asked.edges and asked.bounds is None and asked.bins is None:
        return asked.edges
    if asked.edges or asked.bounds is None or asked.bins is None:
        raise InvalidInputError(
            "--query histogram needs either --edges 0,18,65,120 or --bounds 0 100 --bins 10."
        )
    low, high = asked.bounds
    return tuple(low + (high - low) * number / asked.bins for number in range(asked.bins + 1))


def _all_levels(asked: Asked, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The levels of each column, all of which must be given."""
    for name in asked.levels:
        if name not in columns:
            raise InvalidInputError(
                f"--levels names the column {name!r}, which the query does not use: name it by"
                " --column too, or leave it out."
            )
    return [_levels(asked, name) for name in columns]


def _levels(asked: Asked, name: str) -> tuple[str, ...]:
    if name not in asked.levels:
        raise InvalidInputError(
            f"The column {name!r} needs its public levels: pass --levels {name}=a,b,c with all of"
            " them."
        )
    return asked.levels[name]


def _of_numbers(
    query: AbstractQuery,
    table: Table,
    columns: Sequence[str],
    names: tuple[str, ...] | None = None,
    what: str = "a plain number such as -1.5 or 2e3, not 1_000",
) -> Prepared:
    """A query that takes columns of numbers."""
    table.require(columns)
    refusal = _refusal(table, columns, f"{what}, nothing missing")
    return Prepared(query, lambda: table.numbers(columns), refusal, names)


def _of_codes(
    query: AbstractQuery,
    table: Table,
    columns: Sequence[str],
    labels: Sequence[Sequence[str]],
    names: tuple[str, ...],
) -> Prepared:
    """A query that takes the numbers of levels."""
    table.require(columns)
    refusal = _refusal(table, columns, "one of the levels given for it: list them all")
    return Prepared(query, lambda: table.codes(columns, labels), refusal, names)


def _refusal(table: Table, columns: Sequence[str], what: str) -> str:
    """What every line of the file must be, in public words."""
    cells = "one cell" if len(table.names) == 1 else f"{len(table.names)} cells"
    return (
        f"{table.path.name} is refused: every line after the first must have {cells}, and under"
        f" {', '.join(columns)} {what}; no line may be blank, not even the last."
    )
