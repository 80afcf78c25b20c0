"""The fields of a release: what each may hold, and what it holds when left out. All of them are
public.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from noisewise import queries
from noisewise._core.arrays import describe, integer
from noisewise._core.json_files import require_text
from noisewise._core.neighbours import (
    DEFAULT_UNIT,
    REPLACE_ONE,
    AbstractNeighbours,
    ReplaceOne,
    as_neighbours,
    joint_relation,
    neighbours_from_spec,
)
from noisewise.disclosure import accounting
from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
)
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee, NoGuarantee
from noisewise.queries import AbstractQuery

_ID = re.compile("[0-9a-f]{16}")


def as_described(query: Any) -> AbstractQuery | None:
    """A query, given itself or as its public description.

    Args:
        query: A query, the object that its `to_spec` made, or None where it is not known.

    Raises:
        FileFormatError: If the description is of no known query.
    """
    if query is None or isinstance(query, AbstractQuery):
        return query
    return queries.from_spec(dict(query) if isinstance(query, Mapping) else query)


def as_values(values: Any, mechanism: AbstractMechanism, labels: Any = None) -> tuple[float, ...]:
    """The values of a release as floats.

    Args:
        values: Numbers, shape (k',); None or NaN for an absent one, where the mechanism has such.
        mechanism: The noise, which says how many there are and where they can lie.
        labels: Of their cells, for messages.

    Raises:
        InvalidInputError: If there are others than the mechanism releases.
    """
    if isinstance(values, (list, tuple)):
        values = [math.nan if value is None else value for value in values]
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        array = np.asarray(None)
    booleans = isinstance(values, (list, tuple)) and any(
        isinstance(value, bool) for value in values
    )
    if array.ndim != 1 or array.dtype.kind not in "fiu" or array.size == 0 or booleans:
        raise InvalidInputError(
            f"values must be a list of one or more numbers, got {describe(values)}."
        )
    expected = mechanism.output_width(mechanism.width or array.size)
    if array.size != expected:
        raise InvalidInputError(
            f"values must be the {expected} of the {type(mechanism).__name__}, got {array.size}."
        )
    array = array.astype(np.float64)
    if (outside := np.flatnonzero(~mechanism.support.contains(array))).size:
        from noisewise.disclosure.tables.cells import refuse_value

        refuse_value(array, int(outside[0]), mechanism, labels)
    return tuple(math.nan if math.isnan(value) else value for value in array.tolist())


def or_none(value: float) -> float | None:
    """A value, None where it is absent or missing: NaN is not equal to itself."""
    return None if math.isnan(value) else value


def as_names(names: Any, query: AbstractQuery | None, width: int) -> tuple[str, ...]:
    """The names of the values of a release.

    Args:
        names: Different texts, one per value; None for those of the query.
        query: The query, None if not known.
        width: The number of values.

    Raises:
        InvalidTypeError: If they are not texts.
        InvalidInputError: If there are more or fewer than values, or two are the same.
    """
    if names is None:
        return _default_names(query, width)
    expected = (
        'names must be 1 text, as in names=["mean"]'
        if width == 1
        else f"names must be {width} different texts"
    )
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidTypeError(f"{expected}, got {describe(names)}.")
    names = tuple(require_text(name, "Each of names") for name in names)
    if len(names) != width:
        raise InvalidInputError(f"{expected}, one per value, got {len(names)}.")
    if len(set(names)) != width:
        raise InvalidInputError(f"{expected}, but one of them occurs twice.")
    return names


def _default_names(query: AbstractQuery | None, width: int) -> tuple[str, ...]:
    for known in () if query is None else (query.private_names, query.names):
        if known is not None and len(known) == width:
            return known
    return tuple(f"s_dp[{j}]" for j in range(width))


def relation_of(
    neighbours: Any, privacy_unit: str, **carriers: AbstractGuarantee | AbstractMechanism | None
) -> AbstractNeighbours:
    """The neighbours of a release: those that are given, else those that a part of it carries.

    Args:
        neighbours: A relation, or None.
        privacy_unit: What one record stands for; the default yields to that of the relation.
        carriers: Guarantees and a mechanism by name, or None. None may contradict.

    Raises:
        InvalidInputError: If two contradict each other.

    >>> from noisewise.mechanisms.guarantees import PureDP
    >>> relation_of(None, "household", guarantee=PureDP(1.0))
    ReplaceOne(unit='household')
    """
    unit = require_text(privacy_unit, "privacy_unit")
    parts = {name: part for name, part in carriers.items() if part is not None}
    carried = (part.neighbours for part in parts.values() if part.neighbours != REPLACE_ONE)
    relation = as_neighbours(next(carried, REPLACE_ONE) if neighbours is None else neighbours)
    if unit != DEFAULT_UNIT and relation.unit not in (unit, DEFAULT_UNIT):
        raise InvalidInputError(
            f"privacy_unit is {unit!r}, but neighbours are by {relation.unit!r}: state one unit."
        )
    relation = relation if unit == DEFAULT_UNIT else as_neighbours(relation.of_unit(unit))
    for name, part in parts.items():
        joint_relation(part.neighbours, relation, name)
    return relation


def relation_in_file(neighbours: AbstractNeighbours) -> Any:
    """How a file names neighbours: by their label if one record is replaced, since the privacy unit
    has a field of its own, else in full.
    """
    return neighbours.label if isinstance(neighbours, ReplaceOne) else neighbours.to_spec()


def relation_from(said: Any, unit: Any) -> AbstractNeighbours:
    """The neighbours that a file names.

    Args:
        said: What `relation_in_file` wrote.
        unit: The privacy unit.

    Raises:
        FileFormatError: If it names none.
    """
    if isinstance(said, dict):
        relation = neighbours_from_spec(said)
        if relation.unit != unit:
            raise FileFormatError("the unit of its neighbours is not its privacy_unit.")
        return relation
    if said != REPLACE_ONE.label:
        raise FileFormatError(
            f'neighbours must be "{REPLACE_ONE.label}" or the description of others.'
        )
    return ReplaceOne(require_text(unit, "privacy_unit"))


def about(guarantee: AbstractGuarantee, neighbours: AbstractNeighbours) -> AbstractGuarantee:
    """A guarantee with the neighbours of the release that it belongs to, which names the unit."""
    return guarantee.with_neighbours(neighbours) if guarantee.promises else guarantee


def shown(guarantee: AbstractGuarantee) -> str:
    """A guarantee in a line that names the unit besides: neighbours only where they are others than
    those that replace a record.
    """
    plain = isinstance(guarantee.neighbours, ReplaceOne)
    return repr(guarantee.with_neighbours(REPLACE_ONE) if plain else guarantee)


def as_guarantee(
    stated: Any, mechanism: AbstractMechanism, neighbours: AbstractNeighbours
) -> AbstractGuarantee | None:
    """The guarantee of a release: what the mechanism implies, or where that is unknown, what is
    stated.

    Args:
        stated: A guarantee or None.
        mechanism: The noise.
        neighbours: Those of the release.

    Raises:
        InvalidInputError: If what is stated differs from what the mechanism implies.
    """
    implied = implied_by(mechanism)
    if implied is None:
        return None if stated is None else about(stated, neighbours)
    if stated is not None and not _alike(stated, implied):
        raise InvalidInputError(
            f"The guarantee is stated as {stated!r}, but the mechanism implies {implied!r}:"
            " leave it out, or correct the mechanism's scale or sensitivity."
        )
    return about(implied, neighbours)


def _alike(stated: AbstractGuarantee, implied: AbstractGuarantee) -> bool:
    """Whether two guarantees are of one kind, with the same numbers up to rounding."""
    pairs = zip(stated.parameters.values(), implied.parameters.values(), strict=False)
    return type(stated) is type(implied) and all(math.isclose(a, b, rel_tol=1e-9) for a, b in pairs)


def implied_by(mechanism: AbstractMechanism) -> AbstractGuarantee | None:
    """The guarantee that a mechanism gives: none where a block promises nothing; None if it does
    not know its sensitivity.
    """
    if mechanism.is_composed:
        parts = (implied_by(part) for part, _ in mechanism.calibrated_blocks(mechanism.width or 1))
        if any(part is not None and not part.promises for part in parts):
            return NoGuarantee()
    try:
        return mechanism.guarantee
    except MissingCapabilityError:
        return None


def promises_something(mechanism: AbstractMechanism, guarantee: AbstractGuarantee | None) -> bool:
    """Whether neighbours mean anything here: for the guarantee, or for that of some cells beside
    others of which nothing is promised.

    Args:
        mechanism: The noise.
        guarantee: That of all cells, None if it is not known.

    >>> from noisewise.mechanisms import Exact, Laplace, Product
    >>> promises_something(Exact(), NoGuarantee())
    False
    >>> promises_something(Product([Exact(), Laplace(1.0, sensitivity=1.0)]), NoGuarantee())
    True
    """
    if guarantee is not None and guarantee.promises:
        return True
    parts = [part for part, _ in mechanism.uncomposed(mechanism.width or 1) if part.spends]
    implied = map(implied_by, parts)
    return any(each is not None and each.promises for each in implied)


def require_guarantee(stated: Any) -> None:
    """Refuse what is neither a guarantee nor None.

    Raises:
        InvalidTypeError: If it is something else.
    """
    if stated is not None and not isinstance(stated, AbstractGuarantee):
        raise InvalidTypeError(
            f"guarantee must be one such as PureDP(1.0), got {describe(stated)}."
        )


def as_requested(
    requested: Any, guarantee: AbstractGuarantee | None, neighbours: AbstractNeighbours
) -> AbstractGuarantee | None:
    """What was asked for, checked.

    Args:
        requested: A guarantee or None.
        guarantee: That of the release, which must imply it.
        neighbours: Those of the release.

    Raises:
        InvalidInputError: If it does not follow from the guarantee.
    """
    if requested is None:
        return None
    if not isinstance(requested, AbstractGuarantee):
        raise InvalidTypeError(
            f"requested must be a guarantee such as PureDP(1.0), got {describe(requested)}."
        )
    requested = about(requested, neighbours)
    if guarantee is None or not accounting.implies(guarantee, requested):
        raise InvalidInputError(
            f"requested is {requested!r}, which does not follow from the guarantee, {guarantee!r}."
        )
    return requested


def as_num_records(num_records: Any, query: AbstractQuery | None) -> int | None:
    """The number of records: what the query states, else what is given, else None.

    Args:
        num_records: A positive whole number, or None if it is not public.
        query: The query, None if not known.

    Raises:
        InvalidInputError: If the query states another number.
    """
    num_records = integer("num_records", at_least=1, optional=True)(num_records)
    known = None if query is None else query.num_records
    if num_records is not None and known is not None and num_records != known:
        raise InvalidInputError(
            f"num_records is {num_records}, but the query is about {known} records."
        )
    return num_records if known is None else known


def as_ids(ids: Any) -> tuple[str, ...]:
    """The names by which `combine` recognises a release.

    Args:
        ids: Different texts of 16 hexadecimal digits.

    Raises:
        InvalidInputError: If they are anything else.
    """
    given = tuple(ids) if isinstance(ids, (list, tuple)) else None
    texts = given is not None and all(
        isinstance(name, str) and _ID.fullmatch(name) for name in given
    )
    if not texts or len(set(given)) < len(given):  # type: ignore[arg-type]
        raise InvalidInputError(
            "ids must be different names of 16 hexadecimal digits, as `release` makes them: leave"
            " them out."
        )
    return given  # type: ignore[return-value]


def as_part(part: Any, ids: tuple[str, ...], width: int) -> tuple[int, ...] | None:
    """The places of values in the release of which they are a part.

    Args:
        part: Different whole numbers from 0, one per value; None for a release that is no part.
        ids: The names of the release, of which a part has one.
        width: The number of values.

    Raises:
        InvalidInputError: If they are anything else.
    """
    if part is None:
        return None
    given = tuple(part) if isinstance(part, (list, tuple)) else ()
    places = all(type(place) is int and place >= 0 for place in given)
    if not places or not len(set(given)) == len(given) == width or len(ids) != 1:
        raise InvalidInputError(
            "part must be the different places, from 0, that the values have in the one release"
            " that ids names, as `select` makes them: leave it out."
        )
    return given


def as_versions(versions: Any) -> dict[str, str]:
    """Versions of packages by name.

    Args:
        versions: Texts by text.

    Raises:
        InvalidTypeError: If they are not a mapping.
    """
    if not isinstance(versions, Mapping):
        raise InvalidTypeError(
            f"versions must map package names to versions, got {describe(versions)}."
        )
    return {
        require_text(name, "A package"): require_text(version, "A version")
        for name, version in versions.items()
    }
