"""Tables of OpenDP queries, and what their `.summarize()` says of the noise."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisewise._core.arrays import describe
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.readers.description import TableDescription
from noisewise.readers.files import SourceFile, cells_named, number_in, one_of, read_source
from noisewise.readers.frames import (
    ABSENT,
    all_cells,
    frame_of,
    label_names,
    public_cells,
    published,
    texts_of,
)
from noisewise.readers.laws import Law, relation_or_given

if TYPE_CHECKING:
    import pandas as pd

COLUMN, VALUE, MISSING = "column", "value", "missing"
"""The columns of a table that is made of a query's: which of its columns, and what is in it."""
_NEEDED = ("column", "aggregate", "distribution", "scale")
_DISTRIBUTIONS = {
    "Integer Laplace": "discrete-laplace",
    "Integer Gaussian": "discrete-gaussian",
    "Float Laplace": "laplace",
    "Float Gaussian": "gaussian",
}


def described(
    source: SourceFile,
    *,
    output: Any,
    sensitivity: float | Mapping[str, float] | None,
    labels: Sequence[str] | str,
    columns: Sequence[str] | None,
    cells: Any,
    signed: bool | None,
    neighbours: Any,
    guarantee: Any,
    name: str | None,
    description: str,
) -> TableDescription:
    """What a query released, with the noise that its summary says; see `opendp`.

    Args:
        source: The summary.
        output: The query's table.
        sensitivity: The largest change of each column, or of the only one.
        labels: The grouping columns of the table.
        columns: The columns that are read.
        cells: The public list of groups.
        signed: Whether counts may be negative.
        neighbours: The relation of neighbours.
        guarantee: What the publisher states.
        name: What the table is called.
        description: A line about it.
    """
    keys = label_names(labels) if labels else ()
    if COLUMN in keys or VALUE in keys or MISSING in keys:
        raise InvalidInputError(
            f"Rename the labels {COLUMN}, {VALUE} and {MISSING}: they are taken."
        )
    summary = texts_of(source)
    for needed in _NEEDED:
        if needed not in summary:
            raise FileFormatError(
                f"{source.name} has no column {needed!r}: expected the table of a query's"
                " .summarize(), or the JSON of dp.serialize."
            )
    relation = relation_or_given(None, None, neighbours, guarantee)
    rows = _rows(source, summary, columns)
    laws = {
        row[COLUMN]: _law(source, row, _sensitivity(sensitivity, row, rows), signed, relation)
        for row in rows
    }
    deciding = [column for column, law in laws.items() if law.threshold is not None]
    content = _content(_released(output, keys, list(laws), source), keys, laws, deciding, cells)
    made = {column: law.mechanism() for column, law in laws.items()}
    return TableDescription(
        frame_of(content),
        value=VALUE,
        labels=(*keys, COLUMN),
        mechanism=made if len(made) > 1 else next(iter(made.values())),
        by=COLUMN if len(made) > 1 else None,
        absent=ABSENT if deciding else None,
        missing=MISSING if any(content[MISSING]) else None,
        neighbours=relation,
        guarantee=guarantee,
        name=name,
        description=description,
        source=source.origin("opendp", signed=signed),
    )


def _rows(
    source: SourceFile, summary: Mapping[str, list[str]], columns: Sequence[str] | None
) -> list[dict[str, str]]:
    """The lines of the summary for the columns that are read."""
    names = summary[COLUMN]
    wanted = list(dict.fromkeys(names)) if columns is None else list(columns)
    for each in wanted:
        one_of(each, names, f"In {source.name}, the column")
    rows = [dict(zip(summary, line, strict=True)) for line in zip(*summary.values(), strict=True)]
    kept = [row for row in rows if row[COLUMN] in wanted]
    if not kept:
        raise InvalidInputError("Name the columns that are read (columns=): there are none.")
    if len(kept) > len(wanted):
        raise FileFormatError(
            f"{source.name} gives the noise of two numbers for one column, such as a mean: what was"
            " published is their ratio, whose law is not known here. Leave it out by --columns"
            " (columns=)."
        )
    return kept


def _law(
    source: SourceFile, row: Mapping[str, str], sensitivity: Any, signed: bool | None, relation: Any
) -> Law:
    """The noise of one column."""
    word, what = row["distribution"], f"of {row[COLUMN]}, in {source.name},"
    if not word:
        return Law("exact")
    if word not in _DISTRIBUTIONS:
        raise FileFormatError(
            f"The distribution {what} is {word!r}: expected one of"
            f" {', '.join(_DISTRIBUTIONS)}. Leave the column out by --columns (columns=)."
        )
    kind, scale = _DISTRIBUTIONS[word], number_in(row["scale"], f"The scale {what}")
    if scale <= 0.0:
        raise FileFormatError(f"The scale {what} must be above 0, got {scale:g}.")
    threshold = None
    if row.get("threshold"):
        if not kind.startswith("discrete"):
            raise FileFormatError(f"The threshold {what} belongs to a column of whole numbers.")
        # A group is published if its noisy length is above this number, not if it reaches it.
        threshold = number_in(row["threshold"], f"The threshold {what}") + 1.0
    if kind.startswith("discrete") and threshold is None and signed is None:
        raise InvalidInputError(
            f"The summary does not say whether {row[COLUMN]} may be negative: give --signed if its"
            " type is i64 (dp.len(signed=True)), --unsigned if it is u32 and ends at 0 (signed=)."
        )
    lowest = 0.0 if kind.startswith("discrete") and signed is False else None
    return Law(kind, scale, sensitivity, threshold, lowest=lowest, neighbours=relation)


def _sensitivity(given: Any, row: Mapping[str, str], rows: list[dict[str, str]]) -> Any:
    """The sensitivity of one column; None for a column without noise."""
    if given is None or not row["distribution"]:
        return None
    if isinstance(given, Mapping):
        if row[COLUMN] not in given:
            raise InvalidInputError(
                f"The sensitivity of {row[COLUMN]} is missing: give --sensitivity"
                f" {row[COLUMN]}=... (sensitivity={{...}})."
            )
        return given[row[COLUMN]]
    if sum(bool(each["distribution"]) for each in rows) > 1:
        raise InvalidInputError(
            "Each column has a sensitivity of its own: give --sensitivity COLUMN=... for each"
            " (sensitivity={...})."
        )
    return given


def _released(
    output: Any, keys: Sequence[str], columns: Sequence[str], source: SourceFile
) -> list[tuple[tuple[str, ...], dict[str, float]]]:
    """The query's table: of each group its key and its numbers."""
    import pandas as pd

    if output is None:
        raise InvalidInputError(
            f"{source.name} has the noise, not what was released: give --output FILE (output=), the"
            " query's table."
        )
    if isinstance(output, (str, os.PathLike)):
        file = read_source(output)
        texts, name = texts_of(file, (*keys, *columns)), file.name
    elif isinstance(output, pd.DataFrame):
        name = "the query's table"
        if lacking := [each for each in (*keys, *columns) if each not in output.columns]:
            raise InvalidInputError(f"The query's table (output=) has no column {lacking[0]!r}.")
        texts = {each: list(map(str, output[each])) for each in (*keys, *columns)}
    else:
        raise InvalidTypeError(
            f"output must be a frame or a file with the query's table, got {describe(output)}."
        )
    cell = cells_named(name, texts, keys)
    numbers = {each: published(texts[each], each, None, None, cell) for each in columns}
    groups = list(zip(*(texts[key] for key in keys), strict=True)) if keys else [()]
    rows = [dict(zip(columns, line, strict=True)) for line in zip(*numbers.values(), strict=True)]
    if len(groups) != len(rows) or len(set(groups)) < len(groups):
        raise InvalidInputError(
            "A row of the query's table is one group: name all grouping columns by --label"
            " (labels=)."
        )
    return list(zip(groups, rows, strict=True))


def _content(
    rows: list[tuple[tuple[str, ...], dict[str, float]]],
    keys: Sequence[str],
    laws: Mapping[str, Law],
    deciding: Sequence[str],
    cells: pd.DataFrame | None,
) -> dict[str, list[Any]]:
    """One row per group and column. A group that is not published has a noisy length below the
    threshold; nothing was measured of its other columns.
    """
    found = dict(rows)
    listed = public_cells(cells, keys)
    rows_listed = None if listed is None else list(listed.itertuples(index=False, name=None))
    groups = all_cells(found, rows_listed, "table", suppressed=bool(deciding))
    content: dict[str, list[Any]] = {name: [] for name in (*keys, COLUMN, VALUE, MISSING)}
    for group, column in itertools.product(groups, laws):
        for name, label in zip(keys, group, strict=True):
            content[name].append(label)
        content[COLUMN].append(column)
        absent = ABSENT if column in deciding else math.nan
        content[VALUE].append(found[group][column] if group in found else absent)
        content[MISSING].append(group not in found and column not in deciding)
    return content
