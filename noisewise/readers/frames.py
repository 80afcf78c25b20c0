"""Frames of labels and numbers, from the texts of files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from noisewise._core.arrays import describe
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.readers.files import (
    SourceFile,
    columns_of,
    number_in,
    read_source,
    require_columns,
    shown,
)
from noisewise.readers.parquet import is_parquet, parquet_columns

if TYPE_CHECKING:
    import pandas as pd

K = TypeVar("K", bound=Hashable)

ABSENT = "absent"
"""What stands for a suppressed cell in frames that readers make."""
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "": False}


def texts_of(
    source: SourceFile, names: Sequence[str] | None = None, *, separator: str = ","
) -> dict[str, list[str]]:
    """The columns of a CSV or Parquet file, as texts.

    Args:
        source: The file.
        names: The columns that are kept; None for all.
        separator: What stands between the cells of a text file.

    Raises:
        FileFormatError: If the file cannot be read, or lacks a column.
    """
    if is_parquet(source):
        return parquet_columns(source, names)
    return columns_of(source, separator, names)


def frame_of(columns: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    """A frame whose texts stay as they are: postal codes keep their zeros."""
    import pandas as pd

    return pd.DataFrame(
        {name: pd.Series(list(cells), dtype=object) for name, cells in columns.items()}
    )


def published(
    texts: Sequence[str],
    name: str,
    absent: str | None,
    missing: Sequence[bool] | None,
    cell: Callable[[int], str],
) -> list[Any]:
    """A column of published numbers, with the mark of suppressed ones left in place.

    Args:
        texts: The column.
        name: Its name.
        absent: The mark; None for none.
        missing: Where nothing was measured; None for nowhere.
        cell: How messages name the cell in a row.

    Raises:
        FileFormatError: If a cell is neither a number nor the mark.
    """
    values: list[Any] = []
    for row, text in enumerate(texts):
        if missing is not None and missing[row] and text in ("", absent):
            values.append(math.nan)
        elif text == absent:
            values.append(text)
        else:
            values.append(_number(text, name, absent, cell, row))
    return values


def _number(
    text: str, name: str, absent: str | None, cell: Callable[[int], str], row: int
) -> float:
    try:
        return number_in(text, name)
    except FileFormatError:
        where = f"{name} {cell(row)}"
        if absent is not None:
            return number_in(text, where)
        raise FileFormatError(
            f"{where} must be a number, got {shown(text)}. If that stands for a suppressed cell,"
            " give it by --absent (absent=); if nothing was measured there, name a column that says"
            " so by --missing (missing=)."
        ) from None


def flags(
    texts: Sequence[str], name: str, mark: str | None, cell: Callable[[int], str]
) -> list[bool]:
    """Where a column of texts says that nothing was measured.

    Args:
        texts: The column.
        name: Its name.
        mark: The text that says so; None where it holds true and false.
        cell: How messages name the cell in a row.

    Raises:
        FileFormatError: If a cell is neither true nor false.
    """
    if mark is not None:
        return [text == mark for text in texts]
    for row, text in enumerate(texts):
        if text.lower() not in _BOOLEANS:
            raise FileFormatError(
                f"{name} {cell(row)} must be true or false, or 1 or 0, got {shown(text)}. If one of"
                f" its texts says that nothing was measured, give it too: --missing {name}=TEXT"
                f' (missing={{"{name}": "TEXT"}}).'
            )
    return [_BOOLEANS[text.lower()] for text in texts]


def public_cells(
    cells: Any, labels: Sequence[str], *, besides: Sequence[str] = (), separator: str = ","
) -> pd.DataFrame | None:
    """The public list of cells, with the columns `labels`, all texts.

    Args:
        cells: A frame, or a CSV or Parquet file; None for none.
        labels: The columns that name a cell.
        besides: Columns that are kept where the list has them.
        separator: What stands between the cells of a text file.

    Raises:
        InvalidTypeError: If it is something else.
        InvalidInputError: If a frame lacks a column, or has no rows.
        FileFormatError: If the file cannot be read, or lacks a column.
    """
    import pandas as pd

    if cells is None:
        return None
    if isinstance(cells, (str, os.PathLike)):
        source = read_source(cells)
        texts = texts_of(source, separator=separator)
        require_columns(source, tuple(texts), labels)
        return frame_of({name: texts[name] for name in (*labels, *besides) if name in texts})
    if not isinstance(cells, pd.DataFrame):
        raise InvalidTypeError(
            f"cells must be a frame or a file that lists all cells, got {describe(cells)}."
        )
    if lacking := [name for name in labels if name not in cells.columns]:
        raise InvalidInputError(f"The list of cells (cells=) has no column {lacking[0]!r}.")
    if len(cells) == 0:
        raise InvalidInputError("The list of cells (cells=) is empty.")
    kept = [name for name in (*labels, *besides) if name in cells.columns]
    return frame_of({name: map(str, cells[name]) for name in kept})


def all_cells(
    found: Collection[K], listed: list[K] | None, what: str, *, suppressed: bool
) -> list[K]:
    """All public cells: those of the public list, else those that are found.

    Args:
        found: The cells of a table.
        listed: The public list; None for none.
        what: The table, as messages name it.
        suppressed: Whether small numbers are not in the table, so that a list is needed.

    Raises:
        InvalidInputError: If the list is needed, or does not fit the table.

    >>> all_cells(["b"], ["a", "b"], "output", suppressed=True)
    ['a', 'b']
    """
    if listed is None:
        if suppressed:
            raise InvalidInputError(
                f"What is below the threshold is not in the {what}: list all cells by --cells FILE"
                " (cells=). Without it one would select on the outcome."
            )
        return list(found)
    known = set(listed)
    if len(known) < len(listed) or not set(found) <= known:
        raise InvalidInputError(
            f"The list of cells (cells=) must name every cell of the {what}, and each once."
        )
    if not suppressed and len(known) > len(found):
        raise InvalidInputError(
            f"The list of cells (cells=) names cells that the {what} lacks, and without a threshold"
            " all are there."
        )
    return listed


def label_names(labels: Any) -> tuple[str, ...]:
    """Names of columns, one or several.

    Raises:
        InvalidTypeError: If they are no texts.
        InvalidInputError: If there are none, or two alike.
    """
    names = (labels,) if isinstance(labels, str) else tuple(labels or ())
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"labels must be names of columns, got {describe(labels)}.")
    if not names or len(set(names)) < len(names):
        raise InvalidInputError(
            "What names a cell is needed: give --label (labels=), columns of the file, each once."
        )
    return names
