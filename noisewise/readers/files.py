"""The bytes of a file, and the texts between its separators: bounded, and read strictly."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from noisewise._core.files import PathLike, as_path
from noisewise._core.regular_files import read_regular
from noisewise.errors import FileFormatError, InvalidInputError

_MAX_BYTES = 64 * 2**20
"""Bytes of one file: a day of page views of all countries has half."""
_LONGEST_LINE = 2**20
"""Bytes of a line: a table of 1,000 columns has a tenth."""
MAX_CELLS = 1_000_000
"""Numbers and labels that are kept of one file, so that their texts stay below 256 MiB. A release
of so many cells is larger than any method can use.
"""
_MAX_COLUMNS = 1_000
"""Columns of one file: published tables have tens, and a line that never ends has more."""
_PART = "select the part that you need, and save it in a file of its own."
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
"""A plain decimal number: no 'nan', no '1_000', no digits of other alphabets."""
_LONGEST_NUMBER = 400
"""Characters of a number: the largest float64 written out has 309 digits."""
_SHOWN = 60
"""Characters of a cell that a message shows: enough to find it in the file."""
_BLANK = " \t"


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file as it was read, once.

    Attributes:
        path: Where it lies.
        content: Its bytes.
    """

    path: Path
    content: bytes = dataclasses.field(repr=False)

    @property
    def name(self) -> str:
        """Its name, as messages show it."""
        return self.path.name

    def origin(self, reader: str, **told: Any) -> dict[str, Any]:
        """What a release remembers of it.

        Args:
            reader: The name of the reader.
            told: What the reader was told because the file does not say it; None is left out.
        """
        known = {"reader": reader, "file": self.name}
        digest = hashlib.sha256(self.content).hexdigest()
        given = {name: value for name, value in told.items() if value is not None}
        return {**known, "sha256": digest, **given}

    def lines(self) -> io.TextIOBase:
        """Its lines of text, decoded as they are read, so that no second copy is made.

        Raises:
            FileFormatError: If it is not text, or a line is too long.
        """
        if b"\0" in self.content:
            raise FileFormatError(f"{self.name} is not a text file: get an unaltered copy.")
        if re.search(rb"[^\r\n]{%d}" % _LONGEST_LINE, self.content):
            raise FileFormatError(f"{self.name} has a line of more than {_LONGEST_LINE:,} bytes.")
        return io.TextIOWrapper(io.BytesIO(self.content), encoding="utf-8-sig", newline="")


def read_source(path: PathLike) -> SourceFile:
    """Read a regular file of at most 64 MiB.

    Raises:
        InvalidInputError: If there is no such file, or it cannot be read.
        FileFormatError: If it is too large.
    """
    path = as_path(path)
    return SourceFile(path, read_regular(path, limit=_MAX_BYTES, too_large=_PART))


def lines_of(
    source: SourceFile, separator: str, *, quotes: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """The cells of one line after the other, with its number.

    Args:
        source: A text file.
        separator: What stands between cells.
        quotes: Whether cells may stand in quotation marks, which are then no part of them.

    Raises:
        FileFormatError: If a line cannot be read.
    """
    kind: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    rows = csv.reader(source.lines(), delimiter=separator, strict=True, quoting=kind)
    try:
        for cells in rows:
            if len(cells) > _MAX_COLUMNS:
                raise FileFormatError(
                    f"Line {rows.line_num} of {source.name} has {len(cells):,} cells, more than"
                    f" {_MAX_COLUMNS:,}: this is another kind of file."
                )
            yield rows.line_num, cells
    except UnicodeDecodeError:
        raise FileFormatError(f"{source.name} is not text in UTF-8: save it as such.") from None
    except csv.Error as error:
        raise FileFormatError(
            f"Line {rows.line_num} of {source.name} cannot be read ({error}): the file may be"
            " truncated."
        ) from None


def columns_of(
    source: SourceFile, separator: str, names: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """The texts of a table whose first line names its columns.

    Args:
        source: A text file.
        separator: What stands between cells.
        names: The columns that are kept; None for all.

    Returns:
        The cells below the first line, by column; blanks around them are removed.

    Raises:
        FileFormatError: If lines differ in length, columns have no or equal names, or one of
            `names` is not there.
    """
    rows = lines_of(source, separator)
    header = [name.strip(_BLANK) for name in next(rows, (1, []))[1]]
    if not header or not all(header) or len(set(header)) < len(header):
        raise FileFormatError(
            f"The first line of {source.name} must name the columns, each differently, separated by"
            f" {separator!r}."
        )
    kept = require_columns(source, header, names if names is not None else header)
    columns: dict[str, list[str]] = {name: [] for name in kept}
    places = [(header.index(name), columns[name]) for name in kept]
    num_cells = 0
    for number, cells in rows:
        if not cells:
            continue
        if len(cells) != len(header):
            raise FileFormatError(
                f"Line {number} of {source.name} has {len(cells)} cells, but the first line names"
                f" {len(header)} columns: the file may be truncated."
            )
        num_cells += len(places)
        check_size(source, num_cells)
        for place, column in places:
            column.append(cells[place].strip(_BLANK))
    if not any(columns.values()):
        raise FileFormatError(f"{source.name} has no cells below its first line.")
    return columns


def check_size(source: SourceFile, num_cells: int) -> None:
    """Refuse a file of more cells than are kept."""
    if num_cells > MAX_CELLS:
        raise FileFormatError(f"{source.name} has more than {MAX_CELLS:,} cells: {_PART}")


def require_columns(
    source: SourceFile, found: Sequence[str], needed: Sequence[str]
) -> tuple[str, ...]:
    """The needed columns, if a file has them.

    Args:
        source: The file.
        found: The names of its columns.
        needed: Names of columns.

    Raises:
        FileFormatError: If it lacks one; the message names it, and what there is.
    """
    for name in needed:
        if name not in found:
            near = get_close_matches(name, found, n=1)
            there = f"did you mean {near[0]!r}?" if near else f"it has {_listed(found)}."
            raise FileFormatError(f"{source.name} has no column {name!r}: {there}")
    return tuple(needed)


def number_in(text: str, where: str) -> float:
    """A plain decimal number, finite.

    Args:
        text: What is in the file.
        where: The cell, as messages name it.

    Raises:
        FileFormatError: If it is something else.

    >>> number_in("-1.5e3", "x")
    -1500.0
    """
    if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text):
        value = float(text)
        if abs(value) < float("inf"):
            return value
    raise FileFormatError(f"{where} must be a number, got {shown(text)}.")


def cells_named(
    file: str, texts: Mapping[str, Sequence[str]], labels: Sequence[str]
) -> Callable[[int], str]:
    """How messages name the cell in a row: by the file, the row and its labels.

    Args:
        file: The name of the file.
        texts: Its columns.
        labels: Those that name a cell.

    >>> cells_named("stays.csv", {"district": ["North"]}, ["district"])(0)
    "in row 1 of stays.csv (district 'North')"
    """

    def named(row: int) -> str:
        shown_labels = ", ".join(f"{name} {shown(texts[name][row])}" for name in labels)
        return f"in row {row + 1} of {file}" + (f" ({shown_labels})" if labels else "")

    return named


def numbers_in(
    texts: Sequence[str],
    name: str,
    cell: Callable[[int], str],
    read: Callable[[str, str], float] | None = None,
) -> list[float]:
    """A column of numbers.

    Args:
        texts: The column.
        name: Its name.
        cell: How messages name the cell in a row.
        read: `number_in`, the default, or `positive_in`.

    Raises:
        FileFormatError: If one is not a number, or out of range.
    """
    read = number_in if read is None else read
    values: list[float] = []
    try:
        for text in texts:
            values.append(read(text, name))
    except FileFormatError:  # cells are named where one is wrong: there may be a million
        row = len(values)
        read(texts[row], f"{name} {cell(row)}")
    return values


def positive_in(text: str, where: str) -> float:
    """A number above 0; see `number_in`."""
    value = number_in(text, where)
    if value > 0.0:
        return value
    raise FileFormatError(f"{where} must be above 0, got {shown(text)}.")


def noise_in(text: str, where: str) -> float:
    """The size of noise, above 0; see `number_in`."""
    if number_in(text, where) == 0.0:
        raise FileFormatError(
            f"{where} must be above 0, got {shown(text)}: numbers without noise are named by a"
            " column, --by COLUMN --mechanism ENTRY=exact (by=..., mechanism={...})."
        )
    return positive_in(text, where)


def noise_or_none_in(text: str, where: str) -> float:
    """The size of noise, or 0 for a number without noise; see `number_in`."""
    return 0.0 if number_in(text, where) == 0.0 else positive_in(text, where)


def shown(text: str) -> str:
    """A cell as messages show it.

    >>> shown("x"), shown("")
    ("'x'", 'an empty cell')
    """
    return repr(text[:_SHOWN]) if text else "an empty cell"


def one_of(given: Any, known: Sequence[str], what: str) -> str:
    """A word that is known.

    Args:
        given: The word.
        known: All words.
        what: What it names, as messages say.

    Raises:
        InvalidInputError: If it is not known; the message has a similar one, or all.
    """
    if isinstance(given, str) and given in known:
        return given
    near = get_close_matches(str(given), known, n=1, cutoff=0.5)
    there = f"did you mean {near[0]!r}?" if near else f"there are {_listed(known)}."
    raise InvalidInputError(f"{what} {shown(str(given))} is not known: {there}")


def _listed(names: Sequence[str]) -> str:
    rest = "" if len(names) <= 20 else f" and {len(names) - 20} more"
    return ", ".join(map(repr, names[:20])) + rest
