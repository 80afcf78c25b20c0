"""What a reader finds in a file: a table and how it was made, before a release is built of it."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

if TYPE_CHECKING:
    import pandas as pd

    from noisewise.disclosure import Release

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True, eq=False)
class TableDescription:
    """A published table and how it was made: what `Release.from_table` is given.

    Attributes:
        frame: One row per cell.
        value: The column of published numbers.
        labels: The columns that name a cell.
        mechanism: The noise of all cells; its class, with one of `scale`, `sd` and `variance`; or a
            mechanism for each entry of the column `by`.
        scale: The column of scales.
        sd: The column of standard deviations.
        variance: The column of variances.
        by: The column that chooses the mechanism.
        absent: What stands for a suppressed cell in the column of numbers.
        cells: The public list of cells, where suppressed ones are not in the frame.
        missing: The column that says where nothing was measured.
        neighbours: The relation of neighbours; None for the one that the mechanism knows.
        guarantee: What the publisher states; None for what follows from the mechanism.
        name: What the table is called.
        description: A line about it.
        source: Where it comes from: the file's name and sha256, the reader, and what it was told.
    """

    frame: pd.DataFrame
    _: dataclasses.KW_ONLY
    value: str
    labels: Sequence[str]
    mechanism: Any
    scale: str | None = None
    sd: str | None = None
    variance: str | None = None
    by: str | None = None
    absent: str | None = None
    cells: pd.DataFrame | str | None = None
    missing: str | None = None
    neighbours: Any = None
    guarantee: Any = None
    name: str | None = None
    description: str = ""
    source: Mapping[str, Any] | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of `Release.from_table`, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def release(self) -> Release:
        """The release of this table."""
        from noisewise.disclosure import Release

        return Release.from_table(**self.arguments())


class Reader(Protocol[P]):
    """A function that reads files of one kind into releases.

    Attributes:
        describe: What it makes of a file before that: a function with the same arguments, which
            gives the `TableDescription`.
    """

    describe: Callable[P, TableDescription]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Release: ...


def reader(describe: Callable[P, TableDescription]) -> Reader[P]:
    """Make a reader of a function that describes the table in a file.

    Args:
        describe: A function of a path, and of what the file does not say.
    """

    @functools.wraps(describe)
    def read(*args: P.args, **kwargs: P.kwargs) -> Release:
        return describe(*args, **kwargs).release()

    made: Any = read
    made.describe = describe
    made.__signature__ = inspect.signature(describe).replace(return_annotation="Release")
    return made
