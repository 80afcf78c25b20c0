"""Columns of Parquet files, which a process of its own unpacks by pyarrow."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisewise.errors import FileFormatError, MissingDependencyError
from noisewise.readers.files import MAX_CELLS, SourceFile, check_size, require_columns

MAGIC = b"PAR1"
"""The first and last bytes of every Parquet file."""
_PROGRAM = Path(__file__).with_name("parquet_process.py")
_SECONDS = 120
"""Until the process is given up: twice what it may compute."""


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
    found, _ = parquet_cells(source, names)
    columns = {name: [_text(cell, name, source) for cell in cells] for name, cells in found.items()}
    if not any(columns.values()):
        raise FileFormatError(f"{source.name} has no rows.")
    return columns


def parquet_cells(
    source: SourceFile,
    names: Sequence[str] | None = None,
    *,
    where: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, list[Any]], dict[str, list[str]]]:
    """The cells of a Parquet file, as JSON knows them.

    Args:
        source: The file.
        names: The columns that are read; None for all.
        where: Rows are kept whose texts in these columns are among the given ones.

    Returns:
        The cells by column, and all texts of the columns in `where`.

    Raises:
        MissingDependencyError: If pyarrow is not installed.
        FileFormatError: If the file is damaged or too large, or lacks a column.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingDependencyError(
            "Parquet files are read by pyarrow: pip install 'noisewise[parquet]', or save the table"
            " as CSV."
        )
    if source.content[:4] != MAGIC or source.content[-4:] != MAGIC:
        raise FileFormatError(
            f"{source.name} is not a Parquet file, or is truncated: get an unaltered copy."
        )
    asked = {
        "names": None if names is None else list(dict.fromkeys(names)),
        "where": {name: list(texts) for name, texts in (where or {}).items()},
        "most": MAX_CELLS,
    }
    answer = _unpacked(source, json.dumps(asked))
    if "lacks" in answer:
        require_columns(source, answer["found"], [answer["lacks"]])
    if "refused" in answer:
        check_size(source, MAX_CELLS + ("more than" in answer["refused"]))
        raise FileFormatError(f"{source.name} is damaged: {answer['refused']}.")
    if "columns" not in answer:
        raise FileFormatError(
            f"{source.name} is damaged ({answer.get('damaged')}): get an unaltered copy."
        )
    return answer["columns"], answer["seen"]


def _unpacked(source: SourceFile, asked: str) -> dict[str, Any]:
    """What the process says of the file; that it ended is said of the file too."""
    settings = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    try:
        ended = subprocess.run(
            [sys.executable, str(_PROGRAM), asked],
            input=source.content,
            capture_output=True,
            timeout=_SECONDS,
            env={**os.environ, **settings},
            check=False,
        )
        answer = json.loads(ended.stdout)
    except (subprocess.TimeoutExpired, ValueError, RecursionError):
        return {"damaged": "the process that read it did not end well"}
    return answer if isinstance(answer, dict) else {}


def _text(value: Any, name: str, source: SourceFile) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    what = "lists" if isinstance(value, list) else value["type"]
    raise FileFormatError(
        f"The column {name} of {source.name} holds {what}: expected texts, numbers or dates."
    )


def check_list(value: Any, name: str, source: SourceFile) -> list[Any]:
    """A list inside a cell.

    Args:
        value: The cell.
        name: Its column.
        source: The file.

    Raises:
        FileFormatError: If it is not a list.
    """
    if not isinstance(value, list):
        raise FileFormatError(f"The column {name} of {source.name} must hold lists.")
    return value
