"""Results that arrive one by one: lines of JSON in a file, so that a benchmark that was stopped
resumes where it was.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """The records of a file; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, records: Iterable[Record]) -> None:
    """Print each record and write it as soon as it is there."""
    for record in records:
        print(record, flush=True)
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
