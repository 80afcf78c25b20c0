"""Several releases of one dataset as one."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any

from noisewise import mechanisms
from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours
from noisewise.disclosure.fields import as_described, implied_by, promises_something
from noisewise.disclosure.publication import Release
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.guarantees import AbstractGuarantee, compose
from noisewise.queries import Joint

_MAX_DESCRIPTION = 1000
"""Characters of a description: as many as any text of a file may have."""
_ALL = None
"""The place of cells of which it is not known which ones they are: all that a release may have."""


def combined(releases: tuple[Any, ...]) -> Release:
    """The release of all values of several releases: `Release.combine`.

    Args:
        releases: Releases, or lists of them.

    Raises:
        InvalidInputError: If a release, or a cell of one, is given twice, or they are not of one
            dataset.
    """
    parts = _rejoined(_parts(releases))
    if len(parts) == 1:
        return parts[0]
    return Release(
        values=tuple(value for part in parts for value in part.values),
        mechanism=_joined_mechanism(parts),
        names=_joined_names(parts),
        guarantee=_composed(parts),
        neighbours=_joined_neighbours(parts),
        query=_joined_query(parts),
        num_records=next(
            (part.num_records for part in parts if part.num_records is not None), None
        ),
        description=_joined_descriptions(parts),
        versions=_joined_versions(parts),
        ids=tuple(dict.fromkeys(name for part in parts for name in part.ids)),
        labels=_joined_labels(parts),
        source=_joined_source(parts),
    )


def _parts(releases: tuple[Any, ...]) -> list[Release]:
    if len(releases) == 1 and isinstance(releases[0], Release):
        raise InvalidInputError(
            "combine needs at least two releases, as in Release.combine(a, b), got one."
        )
    parts = [part for item in releases for part in _listed(item)]
    if not parts or not all(isinstance(part, Release) for part in parts):
        raise InvalidTypeError("combine takes releases, or a list of them: Release.combine(a, b).")
    if _one_is_given_twice(parts):
        raise InvalidInputError(
            "The same release, or a cell of it, is given twice: it counts once. Take different"
            " cells of one release by one select. If these are two releases that agree in"
            " everything by chance, give them different descriptions."
        )
    _check_one_dataset(parts)
    return parts


def _listed(item: Any) -> Iterable[Any]:
    return [item] if isinstance(item, Release) or not isinstance(item, Iterable) else item


def _check_one_dataset(parts: list[Release]) -> None:
    relations = _stated_neighbours(parts)
    units = sorted({relation.unit for relation in relations})
    if len(units) > 1:
        raise InvalidInputError(
            f"The releases protect different units, {', '.join(units)}: they do not add up."
        )
    if len(relations) > 1:
        raise InvalidInputError(
            f"The releases are about different neighbours, {' and '.join(map(repr, relations))}:"
            " their guarantees do not add up."
        )
    sizes = {part.num_records for part in parts if part.num_records is not None}
    if len(sizes) > 1:
        raise InvalidInputError(
            f"The releases are about {sorted(sizes)} records: they are not of one dataset."
        )


def _stated_neighbours(parts: list[Release]) -> list[AbstractNeighbours]:
    """The different relations that the parts are about, without those of parts that promise nothing
    about any, and without the default of parts whose guarantee is unknown.
    """
    stated = (
        part.neighbours
        for part in parts
        if promises_something(part.mechanism, part.guarantee)
        or (part.guarantee is None and part.neighbours != REPLACE_ONE)
    )
    return list(dict.fromkeys(stated))


def _joined_neighbours(parts: list[Release]) -> AbstractNeighbours:
    """The one relation that parts are about; where they are about none, what they all name."""
    named = {part.neighbours for part in parts} - {REPLACE_ONE}
    return next(iter(_stated_neighbours(parts) or (named if len(named) == 1 else ())), REPLACE_ONE)


def _one_is_given_twice(parts: list[Release]) -> bool:
    """Whether some release, or some cell of one, is in two of these: by their ids, or by all that
    they say where one has no ids.
    """
    cells = [(name, place) for part in parts for name in part.ids for place in part.part or (_ALL,)]
    whole = {name for name, place in cells if place is _ALL}
    alike: dict[str, list[bool]] = {}
    for part in parts:
        said = dataclasses.replace(part, ids=(), part=None).to_json()
        alike.setdefault(said, []).append(bool(part.ids))
    return (
        len(set(cells)) < len(cells)
        or any(name in whole for name, place in cells if place is not _ALL)
        or any(len(named) > 1 and not all(named) for named in alike.values())
        or _one_cell_is_in_two([part for part in parts if not part.ids])
    )


def _one_cell_is_in_two(parts: list[Release]) -> bool:
    """Whether parts without ids share a cell: equal labels, value and noise."""
    seen: dict[tuple[Any, ...], tuple[Release, int]] = {}
    for part in parts:
        if part.labels is None:
            continue
        names = sorted(part.labels)
        rows = zip(*(part.labels[name] for name in names), strict=True)
        for column, (row, value) in enumerate(zip(rows, part.values, strict=True)):
            said = (tuple(names), row, None if math.isnan(value) else value)
            other, place = seen.setdefault(said, (part, column))
            if other is not part and _noise_in(other, place) == _noise_in(part, column):
                return True
    return False


def _noise_in(part: Release, column: int) -> str:
    return repr(part.mechanism.of_columns([column]))


def _rejoined(parts: list[Release]) -> list[Release]:
    """The parts of one and the same release, which `select` took apart, as one part again, in the
    place of the first.

    All its cells together have its guarantee, and so have any of them, as what is left of a release
    is a function of it. `select` marks parts where the noise has no number of its own for each
    cell, so that the mechanism of some cells is that of all. The release is known by its random id
    alone: two that merely say the same may be two.
    """
    groups: dict[Any, list[Release]] = {}
    for number, part in enumerate(parts):
        same = (part.ids, part.guarantee, repr(part.mechanism.to_spec()))
        groups.setdefault(number if part.part is None else same, []).append(part)
    return [_of_one(group) if len(group) > 1 else group[0] for group in groups.values()]


def _of_one(parts: list[Release]) -> Release:
    """Different cells of one release, which all have the noise of the first."""
    return dataclasses.replace(
        parts[0],
        values=tuple(value for part in parts for value in part.values),
        names=_joined_names(parts),
        labels=_joined_labels(parts),
        part=tuple(place for part in parts for place in part.part or ()),
    )


def _joined_mechanism(parts: list[Release]) -> mechanisms.Product:
    """One block for each part, and one for parts in a row that have the same noise in independent
    cells and claim no privacy, of which a year may have 365: programs grow with their blocks.
    """
    blocks = [
        (group[0].mechanism, sum(part.mechanism.width or len(part.values) for part in group))
        for group in (list(alike) for _, alike in itertools.groupby(parts, _noise_of))
    ]
    return mechanisms.Product([block for block, _ in blocks], [width for _, width in blocks])


def _noise_of(part: Release) -> Any:
    """What is equal for parts that one block serves; for others, their address."""
    noise = part.mechanism
    apart = noise.width is not None or Capability.CDF not in noise.capabilities
    implied = implied_by(noise)
    claims = implied is not None and implied.promises
    return id(part) if apart or claims else repr(noise.to_spec())


def _composed(parts: list[Release]) -> AbstractGuarantee | None:
    """The guarantee of all parts together, None where that of one is unknown."""
    guarantees = [part.guarantee for part in parts if part.guarantee is not None]
    return compose(guarantees) if len(guarantees) == len(parts) else None


def _joined_query(parts: list[Release]) -> dict[str, Any] | None:
    """The description of all queries together, None where one is unknown."""
    queries = [as_described(part.query) for part in parts if part.query is not None]
    return Joint(queries).to_spec() if len(queries) == len(parts) else None  # type: ignore[arg-type]


def _joined_names(parts: list[Release]) -> tuple[str, ...]:
    plain = tuple(name for part in parts for name in part.names or ())
    if len(set(plain)) == len(plain):
        return plain
    return tuple(
        f"{number}:{name}" for number, part in enumerate(parts) for name in part.names or ()
    )


def _joined_labels(parts: list[Release]) -> dict[str, tuple[Any, ...]] | None:
    """The labels of all cells, None in a dimension that a part does not have; None unless all parts
    are tables.
    """
    tables = [part.labels for part in parts if part.labels is not None]
    if len(tables) < len(parts):
        return None
    dimensions = dict.fromkeys(name for labels in tables for name in labels)
    return {
        name: tuple(
            label
            for part, labels in zip(parts, tables, strict=True)
            for label in labels.get(name, (None,) * len(part.values))
        )
        for name in dimensions
    }


def _joined_source(parts: list[Release]) -> Any:
    """The sources of all parts by number, or the one that all share."""
    sources = [part.source for part in parts]
    if all(source == sources[0] for source in sources):
        return sources[0]
    return {str(number): source for number, source in enumerate(sources)}


def _joined_descriptions(parts: list[Release]) -> str:
    text = "; ".join(part.description for part in parts if part.description)
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 3] + "..."


def _joined_versions(parts: list[Release]) -> dict[str, str]:
    packages = sorted({package for part in parts for package in part.versions})
    found = {
        package: {part.versions[package] for part in parts if package in part.versions}
        for package in packages
    }
    return {package: ", ".join(sorted(versions)) for package, versions in found.items()}
