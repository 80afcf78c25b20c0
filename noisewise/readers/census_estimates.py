"""Estimates of the 2020 US Census with standard deviations, by generalised least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisewise import mechanisms
from noisewise._core.files import PathLike
from noisewise.errors import InvalidInputError
from noisewise.readers.description import TableDescription, reader
from noisewise.readers.files import (
    cells_named,
    columns_of,
    number_in,
    one_of,
    positive_in,
    read_source,
)
from noisewise.readers.frames import frame_of

_KEYS = ("geocode", "query")
_COLUMNS = (*_KEYS, "estimate", "std_dev", "query_description")


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
    wanted = (query,) if isinstance(query, str) else query and tuple(query)
    if wanted is not None and not wanted:
        raise InvalidInputError("Name at least one query by --query (query=).")
    for each in wanted or ():
        one_of(each, tuple(dict.fromkeys(texts["query"])), f"In {source.name}, the query")
    rows = [row for row, each in enumerate(texts["query"]) if wanted is None or each in wanted]
    cell = cells_named(source.name, texts, _KEYS)
    content: dict[str, list[Any]] = {key: [texts[key][row] for row in rows] for key in _KEYS}
    for size, read in (("estimate", number_in), ("std_dev", positive_in)):
        content[size] = [read(texts[size][row], f"{size} {cell(row)}") for row in rows]
    frame = frame_of(content)
    return TableDescription(
        frame,
        value="estimate",
        labels=_KEYS,
        mechanism=mechanisms.Gaussian,
        sd="std_dev",
        guarantee=guarantee,
        neighbours=neighbours,
        name=name,
        description=description,
        source=source.origin("census_gls"),
    )
