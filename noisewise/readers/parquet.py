"""Columns of Parquet files, by pyarrow: sizes are checked before anything is unpacked."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from noisewise.errors import FileFormatError, MissingDependencyError
from noisewise.readers.files import MAX_CELLS, SourceFile, check_size, require_columns

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
"""The first and last bytes of every Parquet file."""
_MAX_UNPACKED = 128 * 2**20
"""Bytes of the columns that are read, unpacked: a million cells have a tenth."""
_MAX_VALUES = 20_000_000
"""Values of the columns that are read, in lists too: a state of the largest census query."""
_ROWS = 256
"""Rows that are unpacked at once: of lists of 2,000 numbers they take a few MiB."""


def is_parquet(source: SourceFile) -> bool:
    """Whether a file says that it is Parquet."""
    return source.content[:4] == MAGIC or source.path.suffix.lower() in (".parquet", ".pq")


def parquet_columns(source: SourceFile, names: Sequence[str] | None = None) -> dict[str, list[str]]:
    """The texts of the columns of a Parquet file, as a CSV file would have them.

    Args:
        source: The file.
        names: The columns that are read; None for all.

    Returns:
        The cells by column: numbers are written so that they read back to the last bit, a null is
        an empty text.

    Raises:
        MissingDependencyError: If pyarrow is not installed.
        FileFormatError: If the file is damaged or too large, lacks a column, or one of them holds
            lists or records.
    """
    columns: dict[str, list[str]] = {}
    for row in parquet_rows(source, names):
        for name, value in row.items():
            columns.setdefault(name, []).append(_text(value, name, source))
    if not columns:
        raise FileFormatError(f"{source.name} has no rows.")
    return columns


def parquet_rows(
    source: SourceFile, names: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, one after the other.

    Args:
        source: The file.
        names: The columns that are read; None for all.

    Raises:
        MissingDependencyError: If pyarrow is not installed.
        FileFormatError: If the file is damaged or too large, or lacks a column.
    """
    pa, pq = _pyarrow()
    if source.content[:4] != MAGIC or source.content[-4:] != MAGIC:
        raise FileFormatError(
            f"{source.name} is not a Parquet file, or is truncated: get an unaltered copy."
        )
    damaged = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError)
    try:
        content = pa.BufferReader(source.content)
        file = pq.ParquetFile(content, page_checksum_verification=True)
        texts = [
            field.name
            for field in file.schema_arrow
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        file = pq.ParquetFile(content, page_checksum_verification=True, read_dictionary=texts)
        yield from _rows(file, source, names)
    except FileFormatError:
        raise
    except (*damaged, MemoryError) as error:
        raise FileFormatError(
            f"{source.name} is damaged ({type(error).__name__}): get an unaltered copy."
        ) from None


def _rows(
    file: pq.ParquetFile, source: SourceFile, names: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    found = file.schema_arrow.names
    if len(set(found)) < len(found):
        raise FileFormatError(f"{source.name} names two columns alike.")
    kept = require_columns(source, found, found if names is None else names)
    check_size(source, file.metadata.num_rows * max(len(kept), 1))
    _check_unpacked(file, source, kept)
    num_rows = 0
    for batch in file.iter_batches(batch_size=_ROWS, columns=list(kept), use_threads=False):
        num_rows += batch.num_rows
        check_size(source, num_rows * max(len(kept), 1))
        cells = [_cells(batch.column(name)) for name in kept]
        yield from (dict(zip(kept, row, strict=True)) for row in zip(*cells, strict=True))
    if num_rows != file.metadata.num_rows:
        raise FileFormatError(f"{source.name} is damaged: rows are missing.")


def _cells(column: Any) -> list[Any]:
    """The cells of a column. Texts that repeat are unpacked once."""
    if not hasattr(column, "dictionary"):
        return column.to_pylist()
    words = column.dictionary.to_pylist()
    return [None if place is None else words[place] for place in column.indices.to_pylist()]


def _check_unpacked(file: pq.ParquetFile, source: SourceFile, kept: Sequence[str]) -> None:
    """Refuse columns that say that they are huge once they are unpacked."""
    total = num_values = 0
    for group in range(file.metadata.num_row_groups):
        part = file.metadata.row_group(group)
        for place in range(part.num_columns):
            column = part.column(place)
            if column.path_in_schema.split(".", 1)[0] in kept:
                total += max(column.total_uncompressed_size, 0)
                num_values += max(column.num_values, 0)
    if total > _MAX_UNPACKED or num_values > _MAX_VALUES:
        raise FileFormatError(
            f"{source.name} unpacks to more than {_MAX_UNPACKED // 2**20} MiB, or to"
            f" {_MAX_VALUES:,} values: select the part that you need, and save it in a file of its"
            " own."
        )


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingDependencyError(
            "Parquet files are read by pyarrow: pip install 'noisewise[parquet]', or save the table"
            " as CSV."
        ) from None
    return pa, pq


def _text(value: Any, name: str, source: SourceFile) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    if isinstance(value, (int, decimal.Decimal, datetime.date, datetime.datetime)):
        return str(value)
    raise FileFormatError(
        f"The column {name} of {source.name} holds {type(value).__name__} values: expected texts,"
        " numbers or dates."
    )


def check_list(value: Any, name: str, source: SourceFile) -> list[Any]:
    """A list inside a cell.

    Args:
        value: The cell.
        name: Its column.
        source: The file.

    Raises:
        FileFormatError: If it is not a list, or longer than a file may have cells.
    """
    if not isinstance(value, list) or len(value) > MAX_CELLS:
        raise FileFormatError(f"The column {name} of {source.name} must hold lists.")
    return value
