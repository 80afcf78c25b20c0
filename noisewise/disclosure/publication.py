"""What a curator publishes, and how it is made safely."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

import numpy as np

from noisewise import __version__, mechanisms
from noisewise._arrays import describe
from noisewise._files import (
    as_path,
    dump_json,
    parse_json,
    read_json,
    reading,
    require_keys,
    require_schema,
    require_text,
    write_atomically,
)
from noisewise.disclosure.exact_mechanisms import exact_draw
from noisewise.disclosure.fields import as_described, as_guarantee, as_names, as_num_records, as_values, as_versions
from noisewise.disclosure.ledger import Ledger
from noisewise.disclosure.path import check_fit, choose_mechanism, confidential_integers, on_grid
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError, ReleaseError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee, compose, guarantee_from_spec
from noisewise.queries import AbstractQuery, FunctionQuery, Joint

_SCHEMA = "noisewise.release"
_SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Release:
    """Published numbers and everything public about how they came to be.

    `values` is s_dp, `mechanism` made it. `guarantee` is what the mechanism implies; state it only where that is
    unknown. `query` is the public description of the query (a query is turned into it), `num_records` the number of
    records, None if that is not public. The confidential statistic is not in here, nor is any seed.

    Analysts build one from published numbers; curators get one from `release`.

    >>> import noisewise as nw
    >>> published = Release([0.52, -0.1], nw.mechanisms.Laplace(scale=0.1, sensitivity=0.05), names=("mean", "slope"))
    >>> published.guarantee, published.observed
    (PureDP(epsilon=0.5), array([ 0.52, -0.1 ]))
    >>> Release.from_json(published.to_json()) == published
    True
    """

    values: tuple[float, ...]
    mechanism: AbstractMechanism
    _: dataclasses.KW_ONLY
    names: tuple[str, ...] | None = None
    guarantee: AbstractGuarantee | None = None
    neighbours: str = "replace-one"
    privacy_unit: str = "person"
    query: Mapping[str, Any] | None = dataclasses.field(default=None, hash=False)
    num_records: int | None = None
    versions: Mapping[str, str] = dataclasses.field(default_factory=lambda: {"noisewise": __version__}, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, AbstractMechanism):
            raise InvalidTypeError(f"mechanism must be one such as Laplace(scale=0.1), got {describe(self.mechanism)}.")
        if self.neighbours != "replace-one":
            raise InvalidInputError('neighbours must be "replace-one": noisewise knows no other relation.')
        query, values = as_described(self.query), as_values(self.values, self.mechanism)
        checked = {
            "values": values,
            "names": as_names(self.names, query, len(values)),
            "guarantee": as_guarantee(self.guarantee, self.mechanism),
            "privacy_unit": require_text(self.privacy_unit, "privacy_unit"),
            "query": None if query is None else query.to_spec(),
            "num_records": as_num_records(self.num_records, query),
            "versions": as_versions(self.versions),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def observed(self) -> np.ndarray:
        """The values as an array (k,): what inference conditions on."""
        return np.array(self.values, dtype=np.float64)

    def save(self, path: Any, *, overwrite: bool = False) -> None:
        """Write the JSON file, whole or not at all; an existing file is kept unless `overwrite`."""
        write_atomically(as_path(path), self.to_json(), overwrite=overwrite)

    @classmethod
    def load(cls, path: Any) -> Release:
        """Read a file that `save` wrote; anything else is refused, saying why."""
        path = as_path(path)
        return cls._from_content(read_json(path, "The release"), f"The release {path.name}")

    def to_json(self) -> str:
        """The text that `save` writes."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["mechanism"] = self.mechanism.to_spec()
        fields["guarantee"] = None if self.guarantee is None else self.guarantee.to_spec()
        return dump_json({"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION, **fields})

    @classmethod
    def from_json(cls, text: str | bytes) -> Release:
        """Read the text that `to_json` wrote."""
        if not isinstance(text, (str, bytes)):
            raise InvalidTypeError(f"from_json takes a text, got {describe(text)}.")
        return cls._from_content(parse_json(text, "The release"), "The release")

    @classmethod
    def _from_content(cls, content: dict[str, Any], what: str) -> Release:
        names = [field.name for field in dataclasses.fields(cls)]
        require_schema(content, _SCHEMA, _SCHEMA_VERSION, what)
        require_keys(content, ["schema", "schema_version", *names], what)
        with reading(what):
            fields = {name: content[name] for name in names}
            if not isinstance(fields["values"], list) or not isinstance(fields["names"], list):
                raise FileFormatError("values and names must be lists.")
            fields["mechanism"] = mechanisms.from_spec(fields["mechanism"])
            fields["guarantee"] = None if fields["guarantee"] is None else guarantee_from_spec(fields["guarantee"])
            return cls(**fields)

    @staticmethod
    def combine(releases: Iterable[Release]) -> Release:
        """Several releases of ONE dataset as one observation: a Product of mechanisms, the composed guarantee.

        Names that occur twice are preceded by the release's number.

        >>> import noisewise as nw
        >>> mean = Release([0.52], nw.mechanisms.Laplace(scale=0.1, sensitivity=0.05), names=("mean",))
        >>> count = Release([17], nw.mechanisms.DiscreteLaplace(scale=2.0, sensitivity=1.0), names=("count",))
        >>> both = Release.combine([mean, count])
        >>> both.names, both.guarantee
        (('mean', 'count'), PureDP(epsilon=1.0))
        """
        parts = _parts(releases)
        described = [as_described(part.query) for part in parts if part.query is not None]
        guarantees = [part.guarantee for part in parts if part.guarantee is not None]
        widths = [part.mechanism.width or len(part.values) for part in parts]
        return Release(
            values=tuple(value for part in parts for value in part.values),
            mechanism=mechanisms.Product([part.mechanism for part in parts], widths=widths),
            names=_joined_names(parts),
            guarantee=compose(guarantees) if len(guarantees) == len(parts) else None,
            privacy_unit=parts[0].privacy_unit,
            query=Joint(described).to_spec() if len(described) == len(parts) else None,  # type: ignore[arg-type]
            num_records=next((part.num_records for part in parts if part.num_records is not None), None),
            versions=_joined_versions(parts),
        )


def release(
    data: Any,
    query: AbstractQuery,
    guarantee: AbstractGuarantee | None = None,
    *,
    mechanism: AbstractMechanism | None = None,
    names: Iterable[str] | None = None,
    privacy_unit: str = "person",
    ledger: Ledger | None = None,
    description: str = "",
) -> Release:
    """Release a statistic of confidential data with exact integer noise.

    Give either a `guarantee`, to which noise is then calibrated (discrete Laplace for PureDP, discrete Gaussian for
    ZeroConcentratedDP and ApproximateDP, the exponential mechanism for a Median), or a `mechanism`. A real-valued query
    without a grid gets one from its bounds, and the result records it. Values outside the bounds are clamped, that
    being the query; missing, infinite, misshapen and unknown values are refused.

    With a `ledger` what the mechanism implies is written to disk before noise is drawn; where the limit would be
    passed, nothing happens. Errors never contain data. How long a draw takes depends on the noise: do not publish it.

    >>> import noisewise as nw
    >>> query = nw.queries.Histogram(edges=(0.0, 30.0, 60.0, 120.0), num_records=5)
    >>> published = release([21.0, 34.0, 35.0, 62.0, 80.0], query, nw.PureDP(1.0))
    >>> published.names, published.mechanism
    (('[0.0, 30.0)', '[30.0, 60.0)', '[60.0, 120.0]'), DiscreteLaplace(scale=2.0, sensitivity=2.0, step=1.0))
    """
    if not isinstance(query, AbstractQuery):
        raise InvalidTypeError(f"query must be one such as nw.queries.ClampedMean(...), got {type(query).__name__}.")
    query = query if isinstance(query, FunctionQuery) else on_grid(query)
    mechanism = _mechanism(query, guarantee, mechanism)
    check_fit(mechanism, query)
    _check_ledger(ledger, require_text(privacy_unit, "privacy_unit"))
    description = require_text(description, "description", empty=True)
    integers, steps = confidential_integers(data, query, mechanism)
    draw = exact_draw(mechanism, integers, steps)
    names = as_names(names, query, mechanism.output_width(len(integers)))
    if ledger is not None:
        ledger.spend(mechanism.guarantee, description or f"{type(query).__name__} by {type(mechanism).__name__}")
    return Release(
        values=tuple(draw()),
        mechanism=mechanism,
        names=names,
        privacy_unit=privacy_unit,
        query=None if isinstance(query, FunctionQuery) else query.to_spec(),
        versions=_used_versions(),
    )


def _mechanism(query: AbstractQuery, guarantee: Any, mechanism: Any) -> AbstractMechanism:
    if (guarantee is None) == (mechanism is None):
        raise ReleaseError("Pass either a guarantee, such as PureDP(1.0), or mechanism=..., and not both.")
    if mechanism is not None and not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(f"mechanism must be one such as DiscreteLaplace(...), got {type(mechanism).__name__}.")
    if guarantee is not None and not isinstance(guarantee, AbstractGuarantee):
        raise InvalidTypeError(f"guarantee must be one such as PureDP(1.0), got {type(guarantee).__name__}.")
    return choose_mechanism(query, guarantee) if mechanism is None else mechanism  # type: ignore[arg-type]


def _check_ledger(ledger: Any, privacy_unit: str) -> None:
    if ledger is None:
        return
    if not isinstance(ledger, Ledger):
        raise InvalidTypeError(f"ledger must be a nw.Ledger(path), got {type(ledger).__name__}.")
    if ledger.privacy_unit != privacy_unit:
        raise ReleaseError(f"The ledger counts per {ledger.privacy_unit!r}, the release is per {privacy_unit!r}.")


def _parts(releases: Any) -> list[Release]:
    parts = [releases] if isinstance(releases, Release) or not isinstance(releases, Iterable) else list(releases)
    if not parts or not all(isinstance(part, Release) for part in parts):
        raise InvalidTypeError("combine takes a list of one or more releases.")
    if len({id(part) for part in parts}) < len(parts):
        raise InvalidInputError("The same release is given twice: it counts once.")
    units = sorted({part.privacy_unit for part in parts})
    if len(units) > 1:
        raise InvalidInputError(f"The releases protect different units, {', '.join(units)}: they do not add up.")
    sizes = {part.num_records for part in parts if part.num_records is not None}
    if len(sizes) > 1:
        raise InvalidInputError(f"The releases are about {sorted(sizes)} records: they are not of one dataset.")
    return parts


def _joined_names(parts: list[Release]) -> tuple[str, ...]:
    plain = tuple(name for part in parts for name in part.names or ())
    if len(set(plain)) == len(plain):
        return plain
    return tuple(f"{number}:{name}" for number, part in enumerate(parts) for name in part.names or ())


def _joined_versions(parts: list[Release]) -> dict[str, str]:
    packages = sorted({package for part in parts for package in part.versions})
    found = {package: {part.versions[package] for part in parts if package in part.versions} for package in packages}
    return {package: ", ".join(sorted(versions)) for package, versions in found.items()}


@functools.cache
def _used_versions() -> dict[str, str]:
    versions = {"noisewise": __version__, "python": platform.python_version()}
    with contextlib.suppress(metadata.PackageNotFoundError):
        versions["opendp"] = metadata.version("opendp")
    return versions
