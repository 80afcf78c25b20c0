"""Readers by the names of their sources."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from noisewise._core.files import PathLike
from noisewise.readers.files import one_of

if TYPE_CHECKING:
    from noisewise.disclosure import Release
    from noisewise.readers.description import Reader

SOURCES: dict[str, str] = {
    "census_gls": "noisewise.readers.census_estimates",
    "census_nmf": "noisewise.readers.census_measurements",
    "opendp": "noisewise.readers.opendp_outputs",
    "table": "noisewise.readers.tables",
    "wikimedia": "noisewise.readers.wikimedia_days",
}
"""The module of each reader, which has its name."""


def reader_of(source: str) -> Reader[Any]:
    """The reader of a source.

    Args:
        source: One of `SOURCES`.

    Raises:
        InvalidInputError: If there is no such source.
    """
    name = one_of(str(source).replace("-", "_"), tuple(SOURCES), "The source")
    return getattr(importlib.import_module(SOURCES[name]), name)


def read(source: str, path: PathLike, **what_the_file_does_not_say: Any) -> Release:
    """Read a release from a file.

    Args:
        source: What made the file, one of `SOURCES`.
        path: The file.
        what_the_file_does_not_say: What the reader of this source takes.

    Raises:
        InvalidInputError: If there is no such source, or something is missing.
        FileFormatError: If the file is damaged, or of another kind.
    """
    return reader_of(source)(path, **what_the_file_does_not_say)
