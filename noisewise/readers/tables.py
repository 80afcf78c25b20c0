"""Published tables in CSV or Parquet files, whose noise the publisher describes elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisewise._core.arrays import describe
from noisewise._core.files import PathLike
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms import AbstractMechanism
from noisewise.readers.description import TableDescription, reader
from noisewise.readers.files import numbers_in, positive_in, read_source
from noisewise.readers.frames import flags, frame_of, label_names, public_cells, published, texts_of
from noisewise.readers.laws import ADDITIVE, Law, kind_of

if TYPE_CHECKING:
    import pandas as pd


@reader
def table(
    path: PathLike,
    *,
    value: str,
    labels: Sequence[str] | str,
    mechanism: Any,
    scale: float | str | None = None,
    sd: str | None = None,
    variance: str | None = None,
    sensitivity: float | None = None,
    threshold: float | None = None,
    base: int | None = None,
    by: str | None = None,
    absent: str | None = None,
    cells: pd.DataFrame | PathLike | None = None,
    missing: str | None = None,
    neighbours: Any = None,
    guarantee: Any = None,
    name: str | None = None,
    description: str = "",
    separator: str = ",",
) -> TableDescription:
    r"""Read a published table: a CSV or Parquet file with a row per cell.

    Suppressed cells are outcomes like others. They are marked in the file (`absent`), or not in it
    at all; then the public list of cells is needed (`cells`), because a list that depends on the
    data selects on the outcome.

    Args:
        path: A CSV file in UTF-8 whose first line names the columns, or a Parquet file.
        value: The column of published numbers.
        labels: The columns that name a cell. Labels stay texts.
        mechanism: "laplace", "gaussian", "discrete-laplace", "discrete-gaussian", "exact" or
            "rounded"; a mechanism; or a mechanism for each entry of the column `by`.
        scale: The scale of the noise, of Gaussian kinds its standard deviation; or the column that
            has it for each cell.
        sd: The column of standard deviations.
        variance: The column of variances.
        sensitivity: The largest change of the table between neighbours; without it no guarantee is
            derived.
        threshold: The least number that is published.
        base: What counts were rounded to.
        by: The column that chooses the mechanism.
        absent: What stands for a suppressed cell, such as "X"; "" where it is empty.
        cells: A frame or a file that lists all cells.
        missing: The column that says where nothing was measured.
        neighbours: The relation of neighbours.
        guarantee: What the publisher states.
        name: What the table is called.
        description: A line about it.
        separator: What stands between the cells of a text file.

    Returns:
        The release; `table.describe(...)` gives the `TableDescription`.

    Raises:
        InvalidInputError: If something is missing that the file does not say.
        FileFormatError: If the file is damaged, or lacks a column.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "stays.csv")
    >>> _ = path.write_text("district,count\nNorth,12\nSouth,X\n")
    >>> found = table.describe(path, value="count", labels="district", scale=3.0,
    ...                        mechanism="discrete-laplace", threshold=10.0, absent="X")
    >>> found.frame["count"].tolist(), found.mechanism.mechanism
    ([12.0, 'X'], DiscreteLaplace(scale=3.0))
    """
    asked = _Asked(mechanism, scale, sd, variance, sensitivity, threshold, base, by, neighbours)
    asked.check()
    source, names = read_source(path), label_names(labels)
    columns = [each for each in (value, sd, variance, by, missing, _column(scale)) if each]
    texts = texts_of(source, list(dict.fromkeys((*names, *columns))), separator=separator)
    content: dict[str, Any] = dict(texts)
    for column in (sd, variance, _column(scale)):
        if column is not None:
            content[column] = numbers_in(source, texts, column, positive=True)
    if missing is not None:
        content[missing] = flags(source.name, texts[missing], missing)
    content[value] = published(
        source, texts[value], value, absent, content[missing] if missing else None
    )
    if threshold is not None and absent is None and cells is None:
        raise InvalidInputError(_NEEDS_CELLS)
    return TableDescription(
        frame_of(content),
        value=value,
        labels=names,
        **asked.noise(content, listed=cells is None),
        by=by,
        absent=absent,
        cells=_listed(cells, names, (by, missing), (sd, variance, _column(scale)), separator),
        missing=missing,
        neighbours=neighbours,
        guarantee=guarantee,
        name=name,
        description=description,
        source=source.origin("table", value=value, scale=scale, sd=sd, variance=variance, by=by),
    )


_NEEDS_CELLS = (
    "Numbers below the threshold are not published: say what stands for them by --absent (absent=),"
    " or where they are not in the file, list all cells by --cells FILE (cells=). Without it one"
    " would select on the outcome."
)


def _listed(
    cells: Any,
    labels: Sequence[str],
    words: Sequence[str | None],
    sizes: Sequence[str | None],
    separator: str,
) -> pd.DataFrame | None:
    """The public list of cells, with what it says of noise and measurement."""
    besides = [name for name in (*words, *sizes) if name is not None]
    found = public_cells(cells, labels, besides=besides, separator=separator)
    if found is None:
        return None
    where = "the list of cells"
    content: dict[str, Any] = {name: found[name].tolist() for name in found.columns}
    for size in sizes:
        if size in content:
            content[size] = [positive_in(text, f"{size} in {where}") for text in content[size]]
    if words[1] in content:
        content[words[1]] = flags(where, content[words[1]], words[1])
    return frame_of(content)


@dataclasses.dataclass(frozen=True)
class _Asked:
    """The noise as it was asked for."""

    mechanism: Any
    scale: float | str | None
    sd: str | None
    variance: str | None
    sensitivity: float | None
    threshold: float | None
    base: int | None
    by: str | None
    neighbours: Any

    def check(self) -> None:
        """Refuse what needs no file to be seen: a word that is not known, noise without a scale."""
        given = (self.scale, self.sd, self.variance)
        if self.by is None and isinstance(self.mechanism, str):
            kind = kind_of(self.mechanism)
            if kind not in ADDITIVE or all(part is None for part in given):
                self._law(kind, _number(self.scale)).mechanism()

    def noise(self, content: Mapping[str, Any], *, listed: bool) -> dict[str, Any]:
        """The mechanism, and the column of its scales, as `TableDescription` has them.

        Args:
            content: The columns of the frame.
            listed: Whether all cells are in the file.
        """
        given = sum(part is not None for part in (self.scale, self.sd, self.variance))
        if given > 1:
            raise InvalidInputError(
                "Give one of --scale, --sd and --variance (scale=, sd=, variance=)."
            )
        if self.by is not None or not isinstance(self.mechanism, str):
            return self._made(given)
        kind = kind_of(self.mechanism)
        column = self.sd or self.variance
        if column is None and _column(self.scale) is None:
            return {"mechanism": self._law(kind, self.scale).mechanism()}
        if kind not in ADDITIVE:
            raise InvalidInputError(f"{kind} has no scale: leave out --scale, --sd and --variance.")
        if self.threshold is None and self.sensitivity is None and self.base is None:
            columns = {"scale": self.scale, "sd": self.sd, "variance": self.variance}
            return {"mechanism": ADDITIVE[kind], **columns}
        if column is not None or not listed:
            raise InvalidInputError(
                "A threshold or a sensitivity goes with one scale, or with a column of scales"
                " (--scale, scale=) in a file that lists all cells, suppressed ones too."
            )
        return {"mechanism": self._law(kind, content[str(self.scale)]).mechanism()}

    def _law(self, kind: str, scale: Any) -> Law:
        return Law(
            kind,
            scale,
            sensitivity=self.sensitivity,
            threshold=self.threshold,
            base=self.base,
            neighbours=self.neighbours,
        )

    def _made(self, given: int) -> dict[str, Any]:
        """A mechanism that was made already, or one for each entry of a column."""
        if given or any(x is not None for x in (self.sensitivity, self.threshold, self.base)):
            raise InvalidInputError(
                "A scale, sensitivity, threshold or base goes with the word for a mechanism, such"
                " as mechanism='laplace': a mechanism that was made already has its own."
            )
        made = self.mechanism.values() if isinstance(self.mechanism, Mapping) else [self.mechanism]
        if isinstance(self.mechanism, Mapping) != (self.by is not None):
            raise InvalidInputError(
                "Give a mechanism for each entry of a column together with that column:"
                " mechanism={...}, by=..."
            )
        if wrong := [each for each in made if not isinstance(each, AbstractMechanism)]:
            raise InvalidTypeError(
                "mechanism must be a word such as 'laplace', or a mechanism, got"
                f" {describe(wrong[0])}."
            )
        return {"mechanism": self.mechanism}


def _column(scale: Any) -> str | None:
    """The column of scales, if it is one."""
    return scale if isinstance(scale, str) else None


def _number(scale: Any) -> Any:
    """The scale, or 1 in place of a column of scales."""
    return 1.0 if isinstance(scale, str) else scale
