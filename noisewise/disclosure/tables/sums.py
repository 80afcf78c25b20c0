"""Which cells of a table each of its released numbers adds up."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from noisewise._core.arrays import describe
from noisewise.disclosure.tables.cells import Label, as_label, rows_of
from noisewise.disclosure.tables.frames import public_cells
from noisewise.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    import pandas as pd

    from noisewise.disclosure.publication import Release

Labels = dict[str, tuple[Label, ...]]
_TOTALS = ("total", "all")
"""Labels that stand for a total in most tables that have them, in any case of letters."""
_LARGEST = 200_000_000
"""Entries of a matrix of sums, at most: 1.6 GB."""


@dataclasses.dataclass(frozen=True, eq=False)
class TableSums:
    """The cells of a table, and which of them each released number adds up.

    `nw.simulators.StatisticLaw(fn, sums=...)` takes it as it is: fn is the law of the cells, in the
    order of `cells`.

    Attributes:
        matrix: A (k, c): 1 where number i counts cell j, else 0. s = A cells.
        cells: The labels of the c cells, one row each.
    """

    matrix: Int[np.ndarray, "k c"]
    cells: pd.DataFrame

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.matrix, dtype=dtype)

    def __repr__(self) -> str:
        (k, c), listed = self.matrix.shape, ", ".join(map(str, self.cells.columns))
        return f"TableSums({k} numbers of {c} cells by {listed})"


def sums_of(release: Release, total: Any, cells: Any) -> TableSums:
    """The sums of a release: `Release.sums`.

    Raises:
        InvalidInputError: If the release has no labels, no row has all of them, a margin has no
            cell, or nothing adds up and a label says total.
    """
    if release.labels is None:
        raise InvalidInputError(
            "This release has no labels, which say what its numbers add up: make it by"
            ' nw.Release.from_table(..., labels=["state", "county"]), or write the matrix yourself:'
            " StatisticLaw(fn, sums=[[1, 0], [0, 1], [1, 1]])."
        )
    labels = _without_words(dict(release.labels), total)
    rows = rows_of(labels)
    own = {name: _column(rows, j, full=True) for j, name in enumerate(labels)}
    if cells is None and not any(own.values()):
        raise InvalidInputError(
            "Every number of this release is a margin: no row has a label in each of"
            f" {', '.join(labels)}. Give the cells, cells=frame_of_labels; or cells="
            '"product" for all combinations; or the word that stands for a total, total="All".'
        )
    levels: Labels = {
        name: tuple(label for label in column if label is not None)
        for name, column in labels.items()
    }
    found = public_cells(levels if isinstance(cells, str) else own, cells)
    found = {name: _distinct(found, j) for j, name in enumerate(found)}
    matrix = _matrix(labels, rows, found)
    if total is None and matrix.sum() == len(rows):
        _refuse_words(labels)
    return TableSums(matrix, _as_frame(found))


def _refuse_words(labels: Labels) -> None:
    """Refuse a table in which nothing adds up, though a label says total."""
    words = {
        name: label
        for name, column in labels.items()
        for label in column
        if isinstance(label, str) and label.strip().lower() in _TOTALS
    }
    if words:
        same = len(set(words.values())) == 1
        said = f'"{next(iter(words.values()))}"' if same else repr(words)
        raise InvalidInputError(
            f"No number of this release adds up others, but a label is {said}: if that is a total,"
            f" write release.sums(total={said}). If it is a cell like the others, no sums= is"
            " needed."
        )


def _without_words(labels: Labels, total: Any) -> Labels:
    """The labels, None where a column is summed over."""
    if total is None:
        return labels
    words = dict(total) if isinstance(total, Mapping) else dict.fromkeys(labels, total)
    unknown = [name for name in words if name not in labels]
    if unknown:
        raise InvalidInputError(
            f"total= names {unknown[0]!r}, but the release has {', '.join(labels)}."
        )
    if any(isinstance(word, (list, tuple, set, dict)) for word in words.values()):
        raise InvalidTypeError(
            'total must be the word that stands for a total, as in total="All", or one for each'
            f' column, total={{"sex": "Both"}}, got {describe(total)}.'
        )
    marks = {name: as_label(word) for name, word in words.items()}
    if all(mark not in labels[name] for name, mark in marks.items()):
        raise InvalidInputError(
            f"No cell has the label {next(iter(marks.values()))!r}, which total= takes for a total:"
            " release.table shows the labels."
        )
    return {
        name: tuple(None if name in marks and label == marks[name] else label for label in column)
        for name, column in labels.items()
    }


def _column(rows: list[tuple[Label, ...]], place: int, *, full: bool) -> tuple[Label, ...]:
    return tuple(row[place] for row in rows if not full or None not in row)


def _distinct(labels: Labels, place: int) -> tuple[Label, ...]:
    return _column(list(dict.fromkeys(rows_of(labels))), place, full=False)


def _matrix(labels: Labels, rows: list[tuple[Label, ...]], cells: Labels) -> np.ndarray:
    num = len(next(iter(cells.values())))
    if len(rows) * num > _LARGEST:
        raise InvalidInputError(
            f"{len(rows):,} numbers of {num:,} cells are too many for one matrix of sums."
        )
    matrix = np.ones((len(rows), num), dtype=np.int64)
    for name, column in labels.items():
        codes: dict[Label, int] = {}
        wanted = np.array([-1 if x is None else codes.setdefault(x, len(codes)) for x in column])
        there = np.array([codes.get(x, -2) for x in cells[name]])
        matrix *= (wanted[:, None] == -1) | (wanted[:, None] == there)
    empty = np.flatnonzero(~matrix.any(axis=1))
    if empty.size:
        shown = ", ".join("any" if label is None else str(label) for label in rows[empty[0]])
        raise InvalidInputError(
            f"The number of ({shown}) adds up no cell: no row has these labels and one in every"
            f" other column of {', '.join(labels)}. Give all cells by cells=frame_of_labels, or"
            ' cells="product" for all combinations of labels.'
        )
    return matrix


def _as_frame(cells: Labels) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({name: list(column) for name, column in cells.items()})
