"""Published tables in CSV or Parquet files, whose noise the publisher describes elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisewise._core.arrays import describe
from noisewise._core.files import PathLike
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms import AbstractMechanism
from noisewise.readers.description import TableDescription, reader
from noisewise.readers.files import (
    cells_named,
    noise_in,
    noise_or_none_in,
    number_in,
    numbers_in,
    read_source,
    shown,
)
from noisewise.readers.frames import (
    flags,
    frame_of,
    label_names,
    public_cells,
    published,
    texts_of,
)
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
    scale: float | str | Mapping[str, float | str] | None = None,
    sd: str | None = None,
    variance: str | None = None,
    sensitivity: float | Mapping[str, float] | None = None,
    threshold: float | str | Mapping[str, float | str] | None = None,
    base: int | Mapping[str, int] | None = None,
    by: str | None = None,
    absent: str | None = None,
    cells: pd.DataFrame | PathLike | None = None,
    missing: str | Mapping[str, str] | None = None,
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
            "rounded"; a mechanism; or one of these for each entry of the column `by`.
        scale: The scale of the noise, of Gaussian kinds its standard deviation; the column that has
            it for each cell; or one of these for each entry of `by`.
        sd: The column of standard deviations, 0 where there is no noise.
        variance: The column of variances.
        sensitivity: The largest change of the table between neighbours; without it no guarantee is
            derived. With `by` it may be one for each entry.
        threshold: The least number that is published; the column that has it for each cell; or one
            of these for each entry of `by`.
        base: What counts were rounded to, or one for each entry of `by`.
        by: The column that chooses the mechanism.
        absent: What stands for a suppressed cell, such as "X"; "" where it is empty.
        cells: A frame or a file that lists all cells.
        missing: The column that says where nothing was measured, by true and false or 1 and 0; or,
            for a column of texts, the one that says so, as in {"status": "no file"}.
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
    noise = TableNoise(mechanism, scale, sd, variance, sensitivity, threshold, base, by, neighbours)
    noise.check()
    source, names = read_source(path), label_names(labels)
    lost, mark = _missing(missing)
    columns = [value, *noise.sizes, *noise.thresholds, *(each for each in (by, lost) if each)]
    texts = texts_of(source, list(dict.fromkeys((*names, *columns))), separator=separator)
    cell = cells_named(source.name, texts, names)
    content = _content(texts, cell, noise, lost, mark)
    besides = [*noise.sizes, *noise.thresholds, *(each for each in (by, lost) if each)]
    found = public_cells(cells, names, besides=besides, separator=separator)
    listed = content
    if found is not None:
        given = {name: found[name].tolist() for name in found.columns}
        listed = _content(given, cells_named("the list of cells", given, names), noise, lost, mark)
    if mark is not None and not any(content[lost]) and not any(listed.get(lost, ())):
        raise FileFormatError(
            f"The column {lost} says nowhere {mark!r}, which stands for cells of which nothing was"
            f" measured; {cell(0)} it says {shown(texts[lost][0])}."
        )
    content[value] = published(texts[value], value, absent, content[lost] if lost else None, cell)
    if threshold is not None and absent is None and cells is None:
        raise InvalidInputError(_NEEDS_CELLS)
    return TableDescription(
        frame_of(content),
        value=value,
        labels=names,
        **noise.arguments(listed, lost),
        by=by,
        absent=absent,
        cells=None if found is None else frame_of(listed),
        missing=lost or None,
        neighbours=neighbours,
        guarantee=guarantee,
        name=name,
        description=description,
        source=source.origin(
            "table", value=value, scale=scale, sd=sd, variance=variance, threshold=threshold, by=by
        ),
    )


def _missing(given: Any) -> tuple[str, str | None]:
    """The column that says where nothing was measured, "" for none, and its text for that; None
    where it holds true and false.
    """
    if given is None or isinstance(given, str):
        return given or "", None
    pairs = list(given.items()) if isinstance(given, Mapping) else []
    if len(pairs) != 1 or not all(isinstance(part, str) for part in pairs[0]):
        raise InvalidTypeError(
            "missing must be the name of a column, or a column and its text for a cell of which"
            f' nothing was measured, as in missing={{"status": "no file"}}, got {describe(given)}.'
        )
    return pairs[0]


def _content(
    texts: Mapping[str, Sequence[str]],
    cell: Callable[[int], str],
    noise: TableNoise,
    missing: str,
    mark: str | None,
) -> dict[str, Any]:
    """The columns of a file or of a list of cells, as far as it has them, with numbers and truth
    values in place of texts.
    """
    content: dict[str, Any] = dict(texts)
    size_in = noise_or_none_in if noise.zero_is_exact else noise_in
    for names, read in ((noise.sizes, size_in), (noise.thresholds, number_in)):
        for name in names:
            if name in texts:
                content[name] = numbers_in(texts[name], name, cell, read)
    if missing in texts:
        content[missing] = flags(texts[missing], missing, mark, cell)
    return content


_NEEDS_CELLS = (
    "Numbers below the threshold are not published: say what stands for them by --absent (absent=),"
    " or where they are not in the file, list all cells by --cells FILE (cells=). Without it one"
    " would select on the outcome."
)


# The noise ----------------------------------------------------------------------------------------


_FLAGS = ("scale", "sensitivity", "threshold", "base")
"""What goes with the word for a mechanism; one for all, or one for each entry of a column."""


@dataclasses.dataclass(frozen=True)
class TableNoise:
    """The noise as it was asked for.

    Attributes:
        mechanism: A word, a mechanism, or one of them for each entry of the column `by`.
        scale: A number, or the column that has one for each cell; or these for each entry.
        sd: The column of standard deviations.
        variance: The column of variances.
        sensitivity: The largest change between neighbours, or one for each entry.
        threshold: The least number that is published, given like a scale.
        base: What counts were rounded to, or one for each entry.
        by: The column that chooses the mechanism.
        neighbours: The relation of neighbours that a sensitivity is for.
    """

    mechanism: Any
    scale: Any
    sd: str | None
    variance: str | None
    sensitivity: Any
    threshold: Any
    base: Any
    by: str | None
    neighbours: Any

    @property
    def sizes(self) -> list[str]:
        """The columns of positive numbers: scales, standard deviations and variances."""
        return [*_columns(self.scale), *(name for name in (self.sd, self.variance) if name)]

    @property
    def zero_is_exact(self) -> bool:
        """Whether a size of 0 says that there is no noise: where nothing else is said of noise."""
        others = (self.sensitivity, self.threshold, self.base, self.by)
        return all(value is None for value in others)

    @property
    def thresholds(self) -> list[str]:
        """The columns of thresholds."""
        return _columns(self.threshold)

    def check(self) -> None:
        """Refuse what needs no file to be seen: a word that is not known, noise without a scale."""
        if sum(part is not None for part in (self.scale, self.sd, self.variance)) > 1:
            raise InvalidInputError(
                "Give one of --scale, --sd and --variance (scale=, sd=, variance=)."
            )
        several = isinstance(self.mechanism, Mapping)
        if several != (self.by is not None):
            raise InvalidInputError(
                "Several mechanisms go with the column that chooses among them: --by COLUMN"
                " --mechanism ENTRY=MECHANISM (by=..., mechanism={...}), once for each entry."
            )
        made = list(self.mechanism.values()) if several else [self.mechanism]
        if not made or not all(isinstance(part, (str, AbstractMechanism)) for part in made):
            raise InvalidTypeError(
                "mechanism must be a word such as 'laplace', or a mechanism, got"
                f" {describe(next((p for p in made if not isinstance(p, str)), made))}."
            )
        for flag in _FLAGS:
            self._check_entries(flag, getattr(self, flag))
        if all(isinstance(part, str) for part in made):
            for entry in self.mechanism if several else [None]:
                self._check_word(entry)
        elif any(value is not None for value in (self.sd, self.variance, *self._of(None).values())):
            raise InvalidInputError(
                "A scale, sensitivity, threshold or base goes with the word for a mechanism, such"
                " as mechanism='laplace': a mechanism that was made already has its own."
            )

    def _check_entries(self, flag: str, given: Any) -> None:
        """Refuse numbers for entries that have no mechanism."""
        if not isinstance(given, Mapping):
            return
        if self.by is None:
            raise InvalidInputError(
                f"--{flag} ENTRY=... ({flag}={{...}}) goes with --by COLUMN (by=), the column of"
                " these entries."
            )
        for entry in given:
            if entry not in self.mechanism:
                known = ", ".join(map(repr, self.mechanism))
                raise InvalidInputError(
                    f"--{flag} ({flag}=) is given for {entry!r}, but there are mechanisms for"
                    f" {known}."
                )

    def _check_word(self, entry: str | None) -> None:
        """Make the mechanism of an entry with 1 in place of columns, to see whether it can be."""
        kind = kind_of(self.mechanism if entry is None else self.mechanism[entry])
        given = self._of(entry)
        if self.sd or self.variance:
            if kind not in ADDITIVE:
                raise InvalidInputError(f"{kind} has no scale: leave out --sd and --variance.")
            if entry is not None or any(value is not None for value in given.values()):
                raise InvalidInputError(
                    "A threshold or a sensitivity, and --by, go with --scale (scale=), a number or"
                    " a column, and not with --sd or --variance."
                )
            return
        self._law(entry, kind, {name: _one(value) for name, value in given.items()})

    def _of(self, entry: str | None) -> dict[str, Any]:
        """What is given for an entry, by name; None where nothing is."""
        given = {flag: getattr(self, flag) for flag in _FLAGS}
        return {
            flag: value.get(entry) if isinstance(value, Mapping) else value
            for flag, value in given.items()
        }

    def _law(self, entry: str | None, kind: str, given: Mapping[str, Any]) -> AbstractMechanism:
        try:
            return Law(kind, neighbours=self.neighbours, **given).mechanism()
        except InvalidInputError as error:
            if entry is None:
                raise
            raise InvalidInputError(f"Where {self.by} is {entry!r}: {error}") from None

    def arguments(self, cells: Mapping[str, Sequence[Any]], missing: str) -> dict[str, Any]:
        """The mechanism, and the column of its scales, as `TableDescription` has them.

        Args:
            cells: The columns of the public list of cells, which is the file where there is none.
            missing: The column that says where nothing was measured; "" for none.

        Raises:
            InvalidInputError: If the list of cells lacks a column of numbers.
        """
        if self.sd or self.variance:
            kind = ADDITIVE[kind_of(self.mechanism)]
            return {"mechanism": kind, "sd": self.sd, "variance": self.variance}
        if isinstance(self.mechanism, AbstractMechanism):
            return {"mechanism": self.mechanism}
        if isinstance(self.mechanism, Mapping):
            return {"mechanism": self._by_entry(cells, missing)}
        word, given = kind_of(self.mechanism), self._of(None)
        alone = all(value is None for name, value in given.items() if name != "scale")
        if alone and isinstance(self.scale, str):
            return {"mechanism": ADDITIVE[word], "scale": self.scale}
        return {"mechanism": self._law(None, word, _numbers(given, cells, None))}

    def _by_entry(
        self, cells: Mapping[str, Sequence[Any]], missing: str
    ) -> dict[str, AbstractMechanism]:
        """The mechanism of each entry that occurs, with numbers for its own cells."""
        found: dict[str, AbstractMechanism] = {}
        entries = _column_of(cells, str(self.by))
        apart = missing and (self.sizes or self.thresholds)
        unmeasured = _column_of(cells, missing) if apart else [False] * len(entries)
        for entry, word in self.mechanism.items():
            if isinstance(word, AbstractMechanism):
                found[entry] = word
                continue
            places = [
                place
                for place, other in enumerate(entries)
                if other == entry and not unmeasured[place]
            ]
            given = self._of(entry)
            numbers = _numbers(given, cells, places) if places else None
            plain = {name: _one(value) for name, value in given.items()}
            found[entry] = self._law(entry, kind_of(word), numbers or plain)
        return found


def _columns(given: Any) -> list[str]:
    """The names of columns among numbers."""
    values = given.values() if isinstance(given, Mapping) else [given]
    return list(dict.fromkeys(value for value in values if isinstance(value, str)))


def _one(given: Any) -> Any:
    """The number, or 1 in place of a column of numbers."""
    return 1.0 if isinstance(given, str) else given


def _numbers(
    given: Mapping[str, Any], cells: Mapping[str, Sequence[Any]], places: Sequence[int] | None
) -> dict[str, Any]:
    """Numbers by name, with those of the cells at some places for each column: one where they are
    all the same.
    """
    found = dict(given)
    for name, value in given.items():
        if isinstance(value, str):
            column = _column_of(cells, value)
            numbers = list(column) if places is None else [column[place] for place in places]
            found[name] = numbers[0] if len(set(numbers)) == 1 else numbers
    return found


def _column_of(cells: Mapping[str, Sequence[Any]], name: str) -> Sequence[Any]:
    if name not in cells:
        raise InvalidInputError(
            f"The list of cells (--cells, cells=) needs a column {name!r}: it says how cells were"
            " made that are not in the file."
        )
    return cells[name]
