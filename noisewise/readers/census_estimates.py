"""Estimates of the 2020 US Census with standard deviations, by generalised least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisewise import mechanisms
from noisewise._core.files import PathLike
from noisewise.errors import InvalidInputError
from noisewise.readers.description import TableDescription, reader
from noisewise.readers.files import columns_of, numbers_in, one_of, read_source
from noisewise.readers.frames import frame_of

_COLUMNS = ("geocode", "query", "estimate", "std_dev", "query_description")


@reader
def census_gls(
    path: PathLike,
    *,
    query: Sequence[str] | str | None = None,
    guarantee: Any = None,
    neighbours: Any = None,
    name: str | None = None,
    description: str = "",
) -> TableDescription:
    r"""Read estimates by generalised least squares: text separated by "|", with the columns
    geocode, query, estimate, std_dev and query_description.

    Each estimate combines noisy measurements and is normal around the count, with the standard
    deviation that is given. Estimates of one area depend on each other, which the file does not
    say: take queries that do not overlap (`query`), or a posterior is too sure of itself.

    Args:
        path: The file.
        query: The queries that are read; by default all.
        guarantee: What the publisher states.
        neighbours: The relation of neighbours.
        name: What the table is called.
        description: A line about it.

    Returns:
        The release; `census_gls.describe(...)` gives the `TableDescription`.

    Raises:
        InvalidInputError: If a query is not in the file.
        FileFormatError: If the file is damaged.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "estimates.txt")
    >>> names = "geocode|query|estimate|std_dev|query_description"
    >>> _ = path.write_text(names + "\n0500000US25001|total|3192.4|12.5|Total population\n")
    >>> census_gls(path).table[["geocode", "value", "noise_sd"]]
              geocode   value  noise_sd
    0  0500000US25001  3192.4      12.5
    """
    source = read_source(path)
    texts = columns_of(source, "|", _COLUMNS)
    if query is not None:
        wanted = (query,) if isinstance(query, str) else tuple(query)
        known = tuple(dict.fromkeys(texts["query"]))
        for each in wanted:
            one_of(each, known, f"In {source.name}, the query")
        if not wanted:
            raise InvalidInputError("Name at least one query by --query (query=).")
        kept = [each in wanted for each in texts["query"]]
        texts = {
            column: [cell for cell, keep in zip(cells, kept, strict=True) if keep]
            for column, cells in texts.items()
        }
    frame = frame_of(
        {
            "geocode": texts["geocode"],
            "query": texts["query"],
            "estimate": numbers_in(source, texts, "estimate", positive=False),
            "std_dev": numbers_in(source, texts, "std_dev", positive=True),
        }
    )
    return TableDescription(
        frame,
        value="estimate",
        labels=("geocode", "query"),
        mechanism=mechanisms.Gaussian,
        sd="std_dev",
        guarantee=guarantee,
        neighbours=neighbours,
        name=name,
        description=description,
        source=source.origin("census_gls"),
    )
