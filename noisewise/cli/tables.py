"""Confidential tables: CSV files whose content no message ever shows; of the names of columns only one that was nearly typed."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from noisewise.errors import InvalidInputError

_NEARLY = 0.75
"""How alike a name must be to what was typed to be shown: of 4 letters one may be missing, changed in 8 two."""


@dataclasses.dataclass(frozen=True)
class Table:
    """The cells of a CSV file by column.

    A first line of data, mistaken for names, must not leak either: a name is shown only where the user has nearly typed it.
    """

    path: Path
    cells: dict[str, list[str]] = dataclasses.field(repr=False)

    @property
    def num_records(self) -> int:
        """One record per line after the first."""
        return len(next(iter(self.cells.values())))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; for use, not for messages."""
        return tuple(self.cells)

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        if name not in self.cells:
            near = get_close_matches(name, self.names, n=1, cutoff=_NEARLY)
            hint = (
                f"did you mean {near[0]!r}?" if near else "its first line must name the columns, separated by commas."
            )
            raise InvalidInputError(f"{self.path.name} has no column {name!r}: {hint}")
        return self.cells[name]

    def numbers(self, names: Sequence[str]) -> list[list[float]]:
        """Rows of numbers, one column per name."""
        columns = [[_number(cell, name, self.path) for cell in self.column(name)] for name in names]
        return [list(row) for row in zip(*columns, strict=True)]

    def codes(self, name: str, labels: Sequence[str]) -> list[int]:
        """A column of categories as their numbers in the public list of labels."""
        numbers = {label: number for number, label in enumerate(labels)}
        cells = [cell.strip() for cell in self.column(name)]
        if any(cell not in numbers for cell in cells):
            raise InvalidInputError(
                f"The column {name!r} of {self.path.name} holds something that is not among the levels given for it: list them all."
            )
        return [numbers[cell] for cell in cells]


def read_table(path: Path) -> Table:
    """Read a CSV file whose first line names the columns."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file, strict=True) if row]
    except FileNotFoundError:
        raise InvalidInputError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise InvalidInputError(f"{path} is a folder: --data takes a CSV file.") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInputError(f"{path.name} is not a CSV file in UTF-8: save it as one.") from None
    if len(rows) < 2:
        raise InvalidInputError(
            f"{path.name} must have a line with the names of the columns, then one line per record."
        )
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names) or not all(names) or any(_is_number(name) for name in names):
        raise InvalidInputError(
            f"The first line of {path.name} must name the columns, each differently; names are not numbers."
        )
    if any(len(row) != len(names) for row in rows):
        raise InvalidInputError(f"The lines of {path.name} must all have as many cells as the first.")
    return Table(path, dict(zip(names, (list(column) for column in zip(*rows[1:], strict=True)), strict=True)))


def _number(cell: str, name: str, path: Path) -> float:
    if not _is_number(cell):
        raise InvalidInputError(
            f"The column {name!r} of {path.name} holds something that is not a number: remove or fill what is missing first."
        )
    return float(cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
