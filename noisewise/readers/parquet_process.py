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
    schema = pq.ParquetFile(pa.BufferReader(content)).schema_arrow
    found = schema.names
    if len(set(found)) < len(found):
        raise _RefusedError("two columns have one name")
    texts = [
        field.name
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    names, where, most = asked["names"] or found, asked["where"], asked["most"]
    for name in names:
        if name not in found:
            raise KeyError(name, *found)
    reader = pq.ParquetFile(
        pa.BufferReader(content), page_checksum_verification=True, read_dictionary=texts
    )
    columns: dict[str, list[Any]] = {name: [] for name in names}
    seen: dict[str, dict[str, None]] = {name: {} for name in where}
    num_rows = num_cells = 0
    for batch in reader.iter_batches(batch_size=_ROWS, columns=names, use_threads=False):
        num_rows += batch.num_rows
        cells = {name: _cells(batch.column(name)) for name in names}
        for name, known in seen.items():
            known.update(dict.fromkeys(map(str, cells[name])))
        for row in range(batch.num_rows):
            if any(cells[name][row] not in allowed for name, allowed in where.items()):
                continue
            for name in names:
                value = _plain(cells[name][row])
                columns[name].append(value)
                num_cells += len(value) if isinstance(value, list) else 1
            if num_cells > most:
                raise _RefusedError(f"it has more than {most:,} cells")
    if num_rows != reader.metadata.num_rows:
        raise _RefusedError("rows are missing")
    return {"columns": columns, "seen": {name: list(known) for name, known in seen.items()}}


def _cells(column: Any) -> list[Any]:
    """The cells of a column. Texts that repeat are unpacked once."""
    if not hasattr(column, "dictionary"):
        return list(column.to_pylist())
    words = column.dictionary.to_pylist()
    return [None if place is None else words[place] for place in column.indices.to_pylist()]


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
