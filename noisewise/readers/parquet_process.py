"""The process that unpacks one Parquet file: run as a script, with the file on its standard input.

pyarrow ends the process that reads certain damaged files, and a small file may unpack to terabytes.
So a process of its own reads it, with limits on its memory and its time, and writes JSON: columns
of texts, numbers, lists and nulls, or what is wrong. It imports nothing of noisewise.
"""

import contextlib
import datetime
import decimal
import json
import math
import sys
from typing import Any

_MEMORY = 256 * 2**20
"""Bytes above what pyarrow takes itself: a million cells take half."""
_SECONDS = 60
"""Of computing: a million cells take one."""
_ROWS = 256
"""Rows that are unpacked at once: of lists of 2,000 numbers they take a few MiB."""


class _RefusedError(Exception):
    """What is wrong with a file, in words."""


def main() -> None:
    """Read a file from standard input, and write its columns to standard output.

    The first argument is JSON: the columns ("names", null for all), the most cells ("most"), and
    which rows are kept ("where": allowed texts by column). Besides the columns that are kept, all
    texts of the columns in "where" are written once.
    """
    asked = json.loads(sys.argv[1])
    content = sys.stdin.buffer.read()
    import pyarrow as pa
    import pyarrow.parquet as pq

    _limit()
    try:
        answer = _columns(pa, pq, content, asked)
    except _RefusedError as error:
        answer = {"refused": str(error)}
    except KeyError as error:
        answer = {"lacks": str(error.args[0]), "found": error.args[1:]}
    except Exception as error:
        answer = {"damaged": type(error).__name__}
    json.dump(answer, sys.stdout, allow_nan=False)


def _limit() -> None:
    """Bound what may be taken from now on, where the system can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource
        from pathlib import Path

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))


def _columns(pa: Any, pq: Any, content: bytes, asked: dict[str, Any]) -> dict[str, Any]:
    names, texts = _names(pa, pq.ParquetFile(pa.BufferReader(content)).schema_arrow, asked["names"])
    reader = pq.ParquetFile(
        pa.BufferReader(content), page_checksum_verification=True, read_dictionary=texts
    )
    kept = _Kept(names, asked["where"], asked["most"])
    for batch in reader.iter_batches(batch_size=_ROWS, columns=names, use_threads=False):
        kept.add(batch)
    if kept.num_rows != reader.metadata.num_rows:
        raise _RefusedError("rows are missing")
    return {
        "columns": kept.columns,
        "seen": {name: list(known) for name, known in kept.seen.items()},
    }


def _names(pa: Any, schema: Any, asked: list[str] | None) -> tuple[list[str], list[str]]:
    """The columns that are read, and all that hold texts."""
    found = schema.names
    if len(set(found)) < len(found):
        raise _RefusedError("two columns have one name")
    for name in asked or ():
        if name not in found:
            raise KeyError(name, *found)
    kinds = (pa.types.is_string, pa.types.is_large_string)
    texts = [field.name for field in schema if any(kind(field.type) for kind in kinds)]
    return asked or found, texts


class _Kept:
    """The cells that are kept of a file, by column, and all texts of the columns in `where`."""

    def __init__(self, names: list[str], where: dict[str, list[str]], most: int) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in names}
        self.seen: dict[str, dict[str, None]] = {name: {} for name in where}
        self.num_rows = self._num_cells = 0
        self._where, self._most = where, most

    def add(self, batch: Any) -> None:
        """Keep what is asked for of some rows."""
        self.num_rows += batch.num_rows
        cells = {name: _cells(batch.column(name)) for name in self.columns}
        for name, known in self.seen.items():
            known.update(dict.fromkeys(map(str, cells[name])))
        for row in range(batch.num_rows):
            if all(cells[name][row] in allowed for name, allowed in self._where.items()):
                self._add_row({name: _plain(cells[name][row]) for name in self.columns})

    def _add_row(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            self.columns[name].append(value)
            self._num_cells += len(value) if isinstance(value, list) else 1
        if self._num_cells > self._most:
            raise _RefusedError(f"it has more than {self._most:,} cells")


def _cells(column: Any) -> list[Any]:
    """The cells of a column. Texts that repeat are unpacked once, and none that these rows lack: a
    dictionary may have one for each row of the file.
    """
    if not hasattr(column, "dictionary"):
        return list(column.to_pylist())
    used = column.indices.unique().drop_null()
    words = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [words.get(place) for place in column.indices.to_pylist()]


def _plain(value: Any) -> Any:
    """A cell as JSON knows it; what is neither text, number, date nor list becomes its type."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (decimal.Decimal, datetime.date, datetime.datetime)):
        return str(value)
    return {"type": type(value).__name__}


if __name__ == "__main__":
    main()
