"""What a curator publishes and an analyst reads."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from noisewise import __version__, mechanisms
from noisewise._core.arrays import describe
from noisewise._core.files import PathLike, as_path, write_atomically
from noisewise._core.json_files import (
    dump_json,
    parse_json,
    read_json,
    reading,
    require_keys,
    require_schema,
    require_text,
)
from noisewise._core.neighbours import DEFAULT_UNIT, AbstractNeighbours
from noisewise.disclosure import display
from noisewise.disclosure.fields import (
    as_described,
    as_guarantee,
    as_ids,
    as_names,
    as_num_records,
    as_requested,
    as_values,
    as_versions,
    implied_by,
    relation_from,
    relation_in_file,
    relation_of,
    require_guarantee,
)
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee, guarantee_from_spec

_SCHEMA = "noisewise.release"
_SCHEMA_VERSION = 1  # of the layout of files
_STATED = "guarantee_is_stated"


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
        query, values = as_described(self.query), as_values(self.values, self.mechanism)
        mechanism = self.mechanism.for_neighbours(neighbours)
        guarantee = as_guarantee(self.guarantee, mechanism, neighbours)
        checked = {
            "values": values,
            "mechanism": mechanism,
            "names": as_names(self.names, query, len(values)),
            "guarantee": guarantee,
            "requested": as_requested(self.requested, guarantee, neighbours),
            "neighbours": neighbours,
            "privacy_unit": neighbours.unit,
            "query": None if query is None else query.to_spec(),
            "num_records": as_num_records(self.num_records, query),
            "description": require_text(self.description, "description", empty=True),
            "versions": as_versions(self.versions),
            "ids": as_ids(self.ids),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

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
        return tuple(map(_or_none, value)) if field.name == "values" else value

    @property
    def observed(self) -> np.ndarray:
        """The values as an array, shape (k',), NaN where absent: what inference conditions on."""
        return np.array(self.values, dtype=np.float64)

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
            _require_release(path)
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
        return cls._from_content(read_json(path, "The release"), f"The release {path.name}")

    def to_json(self) -> str:
        """The text that `save` writes."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["values"] = [_or_none(value) for value in self.values]
        fields["mechanism"] = self.mechanism.to_spec()
        for name in ("guarantee", "requested"):
            said = fields[name]
            fields[name] = None if said is None else said.to_spec(beside=self.neighbours)
        fields["neighbours"] = relation_in_file(self.neighbours)
        if self.guarantee_is_stated:
            fields[_STATED] = True
        return dump_json({"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION, **fields})

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
        return cls._from_content(parse_json(text, "The release"), "The release")

    @classmethod
    def _from_content(cls, content: dict[str, Any], what: str) -> Release:
        names = [field.name for field in dataclasses.fields(cls)]
        require_schema(content, _SCHEMA, _SCHEMA_VERSION, what)
        content = {"ids": [], **content}  # older files have none
        stated = content.pop(_STATED, None)
        require_keys(content, ["schema", "schema_version", *names], what)
        with reading(what):
            fields = {name: content[name] for name in names}
            if not all(isinstance(fields[name], list) for name in ("values", "names", "ids")):
                raise FileFormatError("values, names and ids must be lists.")
            fields["mechanism"] = mechanisms.from_spec(fields["mechanism"])
            relation = relation_from(fields["neighbours"], fields["privacy_unit"])
            for name in ("guarantee", "requested"):
                spec = fields[name]
                fields[name] = None if spec is None else guarantee_from_spec(spec, beside=relation)
            found = cls(**fields | {"neighbours": relation})
            if stated not in (None, found.guarantee_is_stated):
                raise FileFormatError(
                    "it says otherwise than its mechanism whether the guarantee is stated or"
                    " derived."
                )
            return found

    def combine(*releases: Release | Iterable[Release]) -> Release:
        """Several releases of ONE dataset as one observation: a Product of mechanisms, the composed
        guarantee.

        `Release.combine(a, b)`, `Release.combine([a, b])` and `a.combine(b)` are the same. Names
        that occur twice are preceded by the release's number.

        Args:
            releases: Two or more releases of the same people.

        Returns:
            The release of all their values.

        Raises:
            InvalidInputError: If one is given twice, or they are not of one dataset.

        >>> import noisewise as nw
        >>> mean = Release([0.5], nw.mechanisms.Laplace(0.1, sensitivity=0.05), names=["mean"])
        >>> noise = nw.mechanisms.DiscreteLaplace(scale=2.0, sensitivity=1.0)
        >>> both = Release.combine(mean, Release([17], noise, names=["count"]))
        >>> both.names, both.guarantee
        (('mean', 'count'), PureDP(epsilon=1.0))
        """
        from noisewise.disclosure.combining import combined

        return combined(releases)


def _or_none(value: float) -> float | None:
    """The value, None where it is absent."""
    return None if math.isnan(value) else value


def _require_release(path: Path) -> None:
    """Refuse to overwrite a file that is something else than a release."""
    if not path.exists():
        return
    with contextlib.suppress(FileFormatError):
        if read_json(path, "The file").get("schema") == _SCHEMA:
            return
    raise InvalidInputError(f"{path} exists and is not a release: it is kept. Choose another name.")
