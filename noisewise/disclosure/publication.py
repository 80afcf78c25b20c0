"""What a curator publishes and an analyst reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise import __version__
from noisewise._core.arrays import describe
from noisewise._core.files import PathLike, as_path, write_atomically
from noisewise._core.json_files import parse_json, read_json, require_text
from noisewise._core.neighbours import DEFAULT_UNIT, AbstractNeighbours
from noisewise.disclosure import display, release_files
from noisewise.disclosure.fields import (
    as_described,
    as_guarantee,
    as_ids,
    as_names,
    as_num_records,
    as_part,
    as_requested,
    as_values,
    as_versions,
    implied_by,
    or_none,
    relation_of,
    require_guarantee,
)
from noisewise.disclosure.tables.cells import as_labels, as_source, names_of, part_of, table_of
from noisewise.disclosure.tables.frames import released_table
from noisewise.disclosure.tables.sums import TableSums, sums_of
from noisewise.errors import InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.model.sensitivity_check import check_calibration

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, repr=False)
class Release:
    """Published numbers and everything public about how they were made.

    Analysts build one from published numbers; curators get one from `release`. The confidential
    statistic is not in it, nor is any seed.

    Args:
        values: s_dp, shape (k',); None or NaN where a value is absent, which the mechanism must
            allow (`Thresholded`).
        mechanism: The noise that made it.
        names: The names of the values; by default those of the query.
        guarantee: What the mechanism implies; where that is unknown, what the publisher states,
            which stays marked as that.
        requested: What the curator asked for, where that is known: it must follow from the
            guarantee.
        neighbours: Which databases are neighbours; by default those that the mechanism or the
            guarantee carries.
        privacy_unit: What one record stands for, the unit of the neighbours.
        query: The query, which is kept as its public description.
        num_records: The number of records, None if that is not public.
        description: A line by the curator.
        versions: Versions of the packages that made it.
        ids: Random names of the releases in it, by which `combine` recognises one that is given
            twice.
        labels: For each dimension of a table the label of each cell; None for numbers that are no
            table.
        source: Where the numbers come from: a line of text, or facts such as a file and its sha256.
        part: The places of the values in the release that its id names, where `select` took them
            from it, so that `combine` knows its cells.

    Raises:
        InvalidInputError: If values, names, guarantees or neighbours do not fit the mechanism.

    >>> import noisewise as nw
    >>> noise = nw.mechanisms.Laplace(scale=0.1, sensitivity=0.05)
    >>> published = Release([0.52, -0.1], noise, names=("mean", "slope"))
    >>> published.guarantee, published.observed
    (PureDP(epsilon=0.5), array([ 0.52, -0.1 ]))
    >>> published
    Release  (value ± standard deviation of the noise)
      mean        0.52 ± 0.14
      slope       -0.10 ± 0.14
      mechanism   Laplace
      guarantee   PureDP(epsilon=0.5)
      neighbours  replace-one, one person
      records     not stated
    >>> Release.from_json(published.to_json()) == published
    True
    """

    values: tuple[float, ...]
    mechanism: AbstractMechanism
    _: dataclasses.KW_ONLY
    names: tuple[str, ...] | None = None
    guarantee: AbstractGuarantee | None = None
    requested: AbstractGuarantee | None = None
    neighbours: AbstractNeighbours = None  # type: ignore[assignment]
    privacy_unit: str = DEFAULT_UNIT
    query: Mapping[str, Any] | None = dataclasses.field(default=None, hash=False)
    num_records: int | None = None
    description: str = ""
    versions: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"noisewise": __version__}, hash=False
    )
    ids: tuple[str, ...] = ()
    labels: Mapping[str, tuple[Any, ...]] | None = dataclasses.field(default=None, hash=False)
    source: str | Mapping[str, Any] | None = dataclasses.field(default=None, hash=False)
    part: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, AbstractMechanism):
            raise InvalidTypeError(
                f"mechanism must be one such as Laplace(scale=0.1), got {describe(self.mechanism)}."
            )
        require_guarantee(self.guarantee)
        neighbours = relation_of(
            self.neighbours,
            self.privacy_unit,
            guarantee=self.guarantee,
            mechanism=self.mechanism,
        )
        query = as_described(self.query)
        values = as_values(self.values, self.mechanism, self.labels)
        mechanism = self.mechanism.for_neighbours(neighbours)
        guarantee = as_guarantee(self.guarantee, mechanism, neighbours)
        labels = as_labels(self.labels, len(values))
        names = names_of(labels) if self.names is None and labels is not None else self.names
        checked = {
            "values": values,
            "mechanism": mechanism,
            "names": as_names(names, query, len(values)),
            "guarantee": guarantee,
            "requested": as_requested(self.requested, guarantee, neighbours),
            "neighbours": neighbours,
            "privacy_unit": neighbours.unit,
            "query": None if query is None else query.to_spec(),
            "num_records": as_num_records(self.num_records, query),
            "description": require_text(self.description, "description", empty=True),
            "versions": as_versions(self.versions),
            "ids": (ids := as_ids(self.ids)),
            "labels": labels,
            "source": as_source(self.source),
            "part": as_part(self.part, ids, len(values)),
        }
        check_calibration(mechanism, query)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_table(
        cls,
        frame: pd.DataFrame,
        *,
        value: str,
        labels: Sequence[str],
        mechanism: AbstractMechanism | type[AbstractMechanism] | Mapping[Any, AbstractMechanism],
        scale: str | None = None,
        sd: str | None = None,
        variance: str | None = None,
        by: str | None = None,
        absent: Any = None,
        cells: pd.DataFrame | str | None = None,
        missing: Any = None,
        neighbours: AbstractNeighbours | None = None,
        guarantee: AbstractGuarantee | None = None,
        name: str | None = None,
        description: str = "",
        source: str | Mapping[str, Any] | None = None,
    ) -> Release:
        """A published table as a release, one value per row.

        Args:
            frame: The table, one row per published cell.
            value: The column of published numbers.
            labels: The columns that tell cells apart.
            mechanism: The noise of all cells; its class, with one of `scale`, `sd` and `variance`;
                or a mechanism for each entry of the column `by`.
            scale: The column with the scale of each cell's noise; 0 where there is none (`Exact`).
            sd: The column with its standard deviation.
            variance: The column with its variance.
            by: The column that chooses among several mechanisms.
            absent: What marks a suppressed cell in the column of numbers; empty ones are
                suppressed too.
            cells: The labels of all public cells, where the rows of suppressed ones are left out:
                a frame, also with the columns of `by`, `scale` and `missing` that these cells
                need, or "product" for all combinations of the labels that occur.
            missing: The column of True and False, or the mask, that says where nothing was
                measured. Texts are compared first: missing=frame["status"] == "no file".
            neighbours: The relation of neighbours, if the publisher names one.
            guarantee: What the publisher states; it stays marked as stated unless the mechanism
                implies it.
            name: What the numbers count: a label of all cells, so that other columns of the table
                can be combined with these.
            description: A line about the release.
            source: Where it comes from.

        Raises:
            InvalidInputError: If the table and the mechanism do not fit; or if the mechanism leaves
                out small numbers, and nothing says which cells it left out.

        >>> import pandas as pd
        >>> import noisewise as nw
        >>> frame = pd.DataFrame({"district": ["North", "South"], "cases": ["17", "X"]})
        >>> noise = nw.mechanisms.Thresholded(nw.mechanisms.DiscreteLaplace(scale=2.0), above=10)
        >>> Release.from_table(
        ...     frame, value="cases", labels=["district"], mechanism=noise, absent="X"
        ... ).table
          district  value  absent  missing  noise_sd
        0    North   17.0   False    False  2.799178
        1    South    NaN    True    False  2.799178
        """
        noise = {"scale": scale, "sd": sd, "variance": variance}
        listed = {"absent": absent, "cells": cells, "missing": missing}
        return cls(
            **released_table(frame, value, labels, mechanism, noise, by, name=name, **listed),
            neighbours=neighbours,  # type: ignore[arg-type]
            guarantee=guarantee,
            description=description,
            source=source,
        )

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal; absent values are."""
        if not isinstance(other, Release):
            return NotImplemented
        return all(
            self._compared(field) == other._compared(field) for field in dataclasses.fields(self)
        )

    def __hash__(self) -> int:
        hashed = [field for field in dataclasses.fields(self) if field.hash is not False]
        return hash(tuple(map(self._compared, hashed)))

    def _compared(self, field: dataclasses.Field[Any]) -> Any:
        """A field, with None for absent values: NaN is not equal to itself."""
        value = getattr(self, field.name)
        return tuple(map(or_none, value)) if field.name == "values" else value

    @property
    def observed(self) -> np.ndarray:
        """The values as an array, shape (k',), NaN where absent or missing: what inference
        conditions on.
        """
        return np.array(self.values, dtype=np.float64)

    @property
    def missing(self) -> np.ndarray:
        """Of which cells nothing was measured, shape (k',). That is public, and says nothing."""
        return ~self.mechanism.measured(self.mechanism.width or len(self.values))

    @property
    def table(self) -> pd.DataFrame:
        """The cells as a data frame, one row each: their labels, the value (NaN where there is
        none), whether it is absent or missing, and the standard deviation of its noise.
        """
        return table_of(self)

    def select(self, **labels: Any) -> Release:
        """The cells with certain labels as a release of their own.

        Args:
            labels: For dimensions by name a label, or a list of labels.

        Raises:
            InvalidInputError: If there are none.
            MissingCapabilityError: If the numbers depend on each other, as a `Median` does.

        >>> import noisewise as nw
        >>> noise = nw.mechanisms.Laplace(2.0, sensitivity=1.0)
        >>> labels = {"district": ["North", "South"]}
        >>> Release([3.0, 5.0], noise, labels=labels).select(district="South").by_name
        {'South': 5.0}
        """
        return dataclasses.replace(self, **part_of(self, labels))

    def sums(self, *, total: Any = None, cells: pd.DataFrame | str | None = None) -> TableSums:
        """Which cells each value adds up, for `nw.simulators.StatisticLaw(fn, sums=...)`.

        A label that is empty, or the word `total`, says: summed over this column.

        Args:
            total: The word, or for columns by name their words.
            cells: The labels of all cells, or "product"; by default the rows with all labels.

        >>> import noisewise as nw
        >>> labels = {"state": ["A", "A", "A"], "county": ["a1", "a2", None]}
        >>> found = Release([3, 5, 9], nw.mechanisms.DiscreteLaplace(2.0), labels=labels).sums()
        >>> found, found.matrix.tolist()
        (TableSums(3 numbers of 2 cells by state, county), [[1, 0], [0, 1], [1, 1]])
        """
        return sums_of(self, total, cells)

    @property
    def guarantee_is_stated(self) -> bool:
        """Whether the guarantee is the publisher's word: as the sensitivity is not known, nothing
        here implies it.

        >>> import noisewise as nw
        >>> Release([3.0], nw.mechanisms.Laplace(2.0), guarantee=nw.PureDP(1.0)).guarantee_is_stated
        True
        """
        derived = self.mechanism.derives_guarantee and implied_by(self.mechanism) is not None
        return self.guarantee is not None and not derived

    @property
    def by_name(self) -> dict[str, float]:
        """The values by name."""
        return dict(zip(self.names or (), self.values, strict=True))

    def __repr__(self) -> str:
        return display.block(self)

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the JSON file, whole or not at all.

        Args:
            path: The name of the file.
            overwrite: Whether an existing release may be replaced; other files are always kept.

        Raises:
            InvalidInputError: If the file exists, or its folder cannot be written.
            StorageError: If the disk is full, or fails.
        """
        path = as_path(path)
        if overwrite:
            release_files.require_release(path)
        write_atomically(path, self.to_json(), overwrite=overwrite)

    @classmethod
    def load(cls, path: PathLike) -> Release:
        """Read a file that `save` wrote.

        Args:
            path: The name of the file.

        Raises:
            InvalidInputError: If there is no such file.
            FileFormatError: If it is anything else; the message says why.
        """
        path = as_path(path)
        return release_files.release_of(
            read_json(path, "The release"), f"The release {path.name}", cls
        )

    def to_json(self) -> str:
        """The text that `save` writes."""
        return release_files.text_of(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Release:
        """Read the text that `to_json` wrote.

        Args:
            text: The text, or its bytes.

        Raises:
            FileFormatError: If it is anything else; the message says why.
        """
        if not isinstance(text, (str, bytes)):
            raise InvalidTypeError(f"from_json takes a string, got {describe(text)}.")
        return release_files.release_of(parse_json(text, "The release"), "The release", cls)

    def combine(*releases: Release | Iterable[Release]) -> Release:
        """Several releases of ONE dataset as one observation: a Product of mechanisms, the composed
        guarantee.

        `Release.combine(a, b)`, `Release.combine([a, b])` and `a.combine(b)` are the same. Names
        that occur twice are preceded by the release's number. Parts that promise nothing, such as
        exact totals, go with any neighbours; the others must be about the same.

        Guarantees compose. Cells that `select` took from one release have its guarantee together,
        not once for each part, where its random id says that it is one (`nw.release` gives it) and
        all its cells have the same noise. Where the id is missing, as in a table by `from_table`,
        the composition is an upper bound: `release.select(district=["North", "South"])` takes all
        cells at once, which has the guarantee of the release itself.

        Args:
            releases: Two or more releases of the same people.

        Returns:
            The release of all their values.

        Raises:
            InvalidInputError: If a release, or a cell of one, is given twice, or they are not of
                one dataset.

        >>> import noisewise as nw
        >>> mean = Release([0.5], nw.mechanisms.Laplace(0.1, sensitivity=0.05), names=["mean"])
        >>> noise = nw.mechanisms.DiscreteLaplace(scale=2.0, sensitivity=1.0)
        >>> both = Release.combine(mean, Release([17], noise, names=["count"]))
        >>> both.names, both.guarantee
        (('mean', 'count'), PureDP(epsilon=1.0))
        """
        from noisewise.disclosure.combining import combined

        return combined(releases)
