"""Releases from data frames: one row per published cell, in the words of the publisher."""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise._core.arrays import describe
from noisewise.disclosure.tables.cells import Label, as_label, as_labels, is_nothing, rows_of
from noisewise.disclosure.tables.noise_columns import (
    Columns,
    column_of,
    mechanism_of,
    shown_cell,
)
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism

if TYPE_CHECKING:
    import pandas as pd

PRODUCT = "product"
"""Says that the public cells are all combinations of the labels that occur."""
Row = tuple[Label, ...]


@dataclasses.dataclass(frozen=True)
class Cells:
    """The cells of a table, in order, before they are a release.

    Attributes:
        labels: For each dimension the label of each cell.
        values: The published numbers, NaN where there is none.
        rows: The row of the frame that holds each cell, -1 where none does.
    """

    labels: dict[str, tuple[Label, ...]]
    values: np.ndarray
    rows: np.ndarray


def released_table(
    frame: Any,
    value: Any,
    labels: Any,
    mechanism: Any,
    noise: dict[str, Any],
    by: Any,
    *,
    absent: Any,
    cells: Any,
    missing: Any,
    name: Any,
) -> dict[str, Any]:
    """The values, the mechanism and the labels of a release, by name.

    Args are those of `Release.from_table`, with `scale`, `sd` and `variance` by role in `noise`.
    """
    frame = _as_frame(frame, "frame")
    labels = _as_columns(frame, labels)
    mask, own = _missing(frame, missing), _labels(frame, labels)
    numbers = _numbers(frame, value, absent, mask, rows_of(own))
    found = _cells(own, labels, numbers, cells)
    unmeasured = _unmeasured(missing, mask, found, cells)
    public = None if isinstance(cells, str) else cells
    columns = Columns(frame, public, found.labels, found.rows)
    made = mechanism_of(mechanism, noise, by, columns, unmeasured)
    _check_absence(made, found, unmeasured, absent=absent, cells=cells)
    dimensions = dict(found.labels)
    if name is not None:
        dimensions["name"] = (as_label(name),) * len(found.values)
    return {"values": found.values, "mechanism": made, "labels": dimensions}


# Cells --------------------------------------------------------------------------------------------


def _as_frame(frame: Any, name: str) -> pd.DataFrame:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise InvalidTypeError(
            f"{name} must be a pandas DataFrame with one row per cell, got {describe(frame)}."
        )
    if not len(frame):
        raise InvalidInputError(f"{name} must have at least one row.")
    return frame.reset_index(drop=True)


def _as_columns(frame: pd.DataFrame, labels: Any) -> list[str]:
    if isinstance(labels, str) or not isinstance(labels, (list, tuple)) or not labels:
        raise InvalidTypeError(
            'labels must be a list of columns, as in labels=["district", "year"], got'
            f" {describe(labels)}."
        )
    for name in labels:
        column_of(frame, name, "labels")
    return list(labels)


def _missing(frame: pd.DataFrame, missing: Any) -> np.ndarray:
    """Of which rows nothing was measured."""
    if missing is None:
        return np.zeros(len(frame), dtype=bool)
    given = column_of(frame, missing, "missing") if isinstance(missing, str) else missing
    mask = np.asarray(given)
    if mask.dtype == object and all(isinstance(item, (bool, np.bool_)) for item in mask.ravel()):
        mask = mask.astype(bool)
    if mask.dtype != bool or mask.shape != (len(frame),):
        raise InvalidInputError(
            "missing must be a column of True and False, or as many of these as there are rows,"
            f" {len(frame)}: True where nothing was measured." + _of_texts(missing, mask)
        )
    return mask


def _of_texts(missing: Any, mask: np.ndarray) -> str:
    """What to write where a column has texts, of which one says that nothing was measured."""
    other = next((item for item in mask.ravel().tolist() if not isinstance(item, bool)), None)
    if not isinstance(missing, str) or other is None:
        return ""
    return (
        f" The column {missing!r} holds {str(other)[:40]!r}: if one of its entries says so, write"
        f' missing=frame[{missing!r}] == "that entry".'
    )


def _unmeasured(missing: Any, mask: np.ndarray, found: Cells, cells: Any) -> np.ndarray:
    """Of which cells nothing was measured: by the public list where it says so."""
    listed = isinstance(missing, str) and hasattr(cells, "columns") and missing in cells.columns
    if listed:
        return _missing(_as_frame(cells, "cells"), missing)
    return np.where(found.rows >= 0, mask[found.rows], False)


def _numbers(
    frame: pd.DataFrame, value: Any, absent: Any, missing: np.ndarray, rows: list[Row]
) -> np.ndarray:
    """The published numbers, NaN where the cell has the mark of absence or is missing."""
    column = column_of(frame, value, "value")
    numbers = np.full(len(frame), math.nan)
    named = absent is not None and not _is_blank(absent)
    for j, item in enumerate(column.tolist()):
        if named and _is_blank(item) and not missing[j]:
            raise InvalidInputError(
                f"The column {value!r} has no number for the cell {shown_cell(rows[j])}, nor the"
                f" mark absent={absent!r}: if it was suppressed, write the mark there; if nothing"
                " was measured, say so in missing=. (pandas reads words such as NA as no number.)"
            )
        marked = _is_blank(item) or (
            isinstance(item, str) and absent is not None and item.strip() == str(absent)
        )
        marked = marked or (not isinstance(item, str) and absent is not None and item == absent)
        if marked:
            continue
        try:
            number = math.nan if isinstance(item, bool) else float(item)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InvalidInputError(
                f"The column {value!r} must hold numbers; that of the cell {shown_cell(rows[j])}"
                f" holds {str(item)[:40]!r}. If that marks a suppressed cell, pass it as absent=..."
            )
        numbers[j] = number
    if np.any(missing & ~np.isnan(numbers)):
        j = int(np.flatnonzero(missing & ~np.isnan(numbers))[0])
        raise InvalidInputError(
            f"The cell {shown_cell(rows[j])} is missing, but the column {value!r} has the number"
            f" {numbers[j]:g} there: nothing was measured in a missing cell."
        )
    return numbers


def _is_blank(item: Any) -> bool:
    return is_nothing(item) or (isinstance(item, str) and not item.strip())


def _cells(
    own: dict[str, tuple[Label, ...]], labels: list[str], numbers: np.ndarray, cells: Any
) -> Cells:
    rows = rows_of(own)
    _refuse_twice(rows, "frame")
    if cells is None:
        return Cells(own, numbers, np.arange(len(rows)))
    public = public_cells(own, cells)
    wanted = rows_of(public)
    _refuse_twice(wanted, "cells")
    place = {row: j for j, row in enumerate(rows)}
    public_rows = set(wanted)
    unknown = [row for row in rows if row not in public_rows]
    if unknown:
        raise InvalidInputError(
            f"The cell {shown_cell(unknown[0])} is in the frame, but not in cells=, which must list"
            " all public cells."
        )
    at = np.array([place.get(row, -1) for row in wanted])
    return Cells(public, np.where(at >= 0, numbers[at], math.nan), at)


def public_cells(own: dict[str, tuple[Label, ...]], cells: Any) -> dict[str, tuple[Label, ...]]:
    """The labels of all cells: those of a frame, all combinations of labels, or the cells' own.

    Args:
        own: For each dimension the labels that occur.
        cells: A frame with the dimensions as columns, "product", or None.
    """
    if cells is None:
        return own
    if isinstance(cells, str):
        if cells != PRODUCT:
            raise InvalidInputError(
                f'cells must be a data frame with the labels of all public cells, or "{PRODUCT}"'
                f" for all combinations of labels, got {cells!r}."
            )
        return _combinations(own)
    listed = _as_frame(cells, "cells")
    for name in own:
        column_of(listed, name, "cells must have the labels")
    return _labels(listed, list(own))


def _labels(frame: pd.DataFrame, labels: list[str]) -> dict[str, tuple[Label, ...]]:
    return as_labels({name: frame[name].tolist() for name in labels}, len(frame)) or {}


MAX_CELLS = 1_000_000
"""Cells that combinations of labels may make: as many as readers take."""


def _combinations(own: dict[str, tuple[Label, ...]]) -> dict[str, tuple[Label, ...]]:
    levels = [list(dict.fromkeys(values)) for values in own.values()]
    if math.prod(map(len, levels)) > MAX_CELLS:
        raise InvalidInputError(
            f'cells="{PRODUCT}" gives {math.prod(map(len, levels)):,} cells, and a table has at'
            f" most {MAX_CELLS:,}: give the public cells as a data frame."
        )
    grid = np.indices([len(level) for level in levels]).reshape(len(levels), -1)
    return {
        name: tuple(level[j] for j in places.tolist())
        for name, level, places in zip(own, levels, grid, strict=True)
    }


def _refuse_twice(rows: list[Row], where: str) -> None:
    if len(set(rows)) < len(rows):
        twice = next(row for row, times in collections.Counter(rows).items() if times > 1)
        raise InvalidInputError(
            f"The cell {shown_cell(twice)} is twice in {where}: name the columns that tell cells"
            " apart in labels=[...]."
        )


# Absence ------------------------------------------------------------------------------------------


def _check_absence(
    noise: AbstractMechanism, found: Cells, unmeasured: np.ndarray, *, absent: Any, cells: Any
) -> None:
    """Refuse numbers that the mechanism always publishes and that are not there, and a list of
    cells that may depend on the data.
    """
    if noise.width not in (None, len(found.values)):
        raise InvalidInputError(
            f"{type(noise).__name__} has numbers for {noise.width} cells, but there are"
            f" {len(found.values)}."
        )
    possible = noise.support.may_be_absent(len(found.values))
    gone = np.isnan(found.values) & ~unmeasured
    never = np.flatnonzero(gone & ~possible)
    if never.size:
        row = rows_of(found.labels)[int(never[0])]
        raise InvalidInputError(
            f"The cell {shown_cell(row)} has no number, but its mechanism always publishes one: if"
            " numbers below a threshold were left out, that is nw.mechanisms.Thresholded(mechanism,"
            " above=...); if nothing was measured, name the column that says so in missing=."
        )
    if np.any(possible & ~unmeasured) and absent is None and cells is None and not gone.any():
        raise InvalidInputError(
            "This mechanism leaves out small numbers, but no cell of the frame is absent, and a"
            " list of cells that depends on the data selects on the outcome: pass the public list,"
            ' cells=frame_of_labels or cells="product", or the mark of absent cells, absent="X".'
        )
