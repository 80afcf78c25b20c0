"""Confidential tables: CSV files whose column names and number of lines are public, and nothing
else.

A file is opened in two steps. Its first line and its number of lines are read before a budget is
spent; its cells are parsed after that. No message says what is wrong with cells, as that would
reveal something about the people in them. Of the column names a message shows only one that was
nearly typed, since a first line of data may have been mistaken for names.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from noisewise.errors import InvalidInputError

_MIN_SIMILARITY = 0.75
"""How similar a name must be to what was typed to be shown: one of 4 letters may be missing, two of
8 changed.
"""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""A plain decimal number: no 'nan', no '1_000', no digits of other alphabets."""

_OTHER_MARKS = ";\t|"
"""What separates cells in files that are not separated by commas."""
_BLANK = " \t"


@dataclasses.dataclass(frozen=True)
class Table:
    """A CSV file whose cells have not been parsed yet.

    Attributes:
        path: Where it lies.
        names: Names of its columns.
        num_records: Number of lines below the first, confidential where lines may be added or
            removed.
        content: Its bytes.
    """

    path: Path
    names: tuple[str, ...]
    num_records: int
    content: bytes = dataclasses.field(repr=False)

    def require(self, columns: Sequence[str]) -> None:
        """Refuse names of columns that the file does not have.

        Args:
            columns: Names that a command needs.

        Raises:
            InvalidInputError: If one is missing.
        """
        for name in columns:
            if name not in self.names:
                near = get_close_matches(name, self.names, n=1, cutoff=_MIN_SIMILARITY)
                hint = (
                    f"did you mean {near[0]!r}?"
                    if near
                    else "its first line must name the columns, separated by commas."
                )
                raise InvalidInputError(f"{self.path.name} has no column {name!r}: {hint}")

    def numbers(self, columns: Sequence[str]) -> list[list[float]]:
        """Read columns of numbers.

        Its errors may reveal something about the data: the caller must not show them.

        Args:
            columns: Names of columns.

        Returns:
            One row per record, one number per name; huge ones are cut to the range of floats.

        Raises:
            InvalidInputError: If a cell is not a plain number, or a record is not one line.
        """
        return [[_number(row[name]) for name in columns] for row in self._rows()]

    def codes(self, columns: Sequence[str], labels: Sequence[Sequence[str]]) -> list[list[int]]:
        """Read columns of categories as their numbers in public lists of labels.

        Its errors may reveal something about the data: the caller must not show them.

        Args:
            columns: Names of columns.
            labels: For each of them the public list of labels.

        Returns:
            One row per record, one number per name, counted from 0.

        Raises:
            KeyError: If a cell is not in its list.
        """
        numbers = [{label: number for number, label in enumerate(part)} for part in labels]
        pairs = list(zip(columns, numbers, strict=True))
        return [[known[row[name].strip(_BLANK)] for name, known in pairs] for row in self._rows()]

    def _rows(self) -> list[dict[str, str]]:
        text = self.content.decode("utf-8-sig")
        before = csv.field_size_limit(max(csv.field_size_limit(), len(text)))
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
        finally:
            csv.field_size_limit(before)
        if len(rows) != self.num_records:
            raise InvalidInputError("A record must be one line.")
        return [dict(zip(self.names, row, strict=True)) for row in rows]


def open_table(path: Path, *, number_is_public: bool = True) -> Table:
    """Read the first line and the number of lines of a CSV file.

    Args:
        path: A file in UTF-8 with commas, whose first line names the columns.
        number_is_public: Whether a file without records may be refused for that.

    Returns:
        The table; its cells are parsed by `numbers` and `codes`.

    Raises:
        InvalidInputError: If it cannot be read, has no records, or its first line names no columns.
    """
    try:
        if path.is_dir():
            raise InvalidInputError(f"{path} is a folder: --data takes a CSV file.")
        if path.exists() and not path.is_file():
            raise InvalidInputError(f"{path} is a device, not a file: --data takes a CSV file.")
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
    first, _, rest = content.partition(b"\n")
    num_records = rest.count(b"\n") + bool(rest and not rest.endswith(b"\n"))
    if num_records == 0 and number_is_public:
        raise InvalidInputError(
            f"{path.name} must have a line with the names of the columns, then one line per record."
        )
    return Table(path, _header(first, path), num_records, content)


def _header(line: bytes, path: Path) -> tuple[str, ...]:
    try:
        rows = list(csv.reader([line.decode("utf-8-sig").rstrip("\r")], strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInputError(
            f"{path.name} is not a CSV file in UTF-8: save it as one."
        ) from None
    names = tuple(name.strip() for name in rows[0]) if rows else ()
    if len(names) == 1 and any(mark in names[0] for mark in _OTHER_MARKS):
        raise InvalidInputError(
            f"The first line of {path.name} is not separated by commas: save the file with commas."
        )
    if (
        len(set(names)) < len(names)
        or not names
        or not all(names)
        or any(map(_NUMBER.fullmatch, names))
    ):
        raise InvalidInputError(
            f"The first line of {path.name} must name the columns, each differently; names are not"
            " numbers."
        )
    return names


def _number(cell: str) -> float:
    if not _NUMBER.fullmatch(cell.strip(_BLANK)):
        raise InvalidInputError("A cell must be a plain number.")
    return min(max(float(cell), -sys.float_info.max), sys.float_info.max)
