"""The fields of a release: what each may hold, and what it holds when left out. All of them are
public.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from noisewise import queries
from noisewise._core.arrays import describe, integer
from noisewise._core.json_files import require_text
from noisewise.disclosure import accounting
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee
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


def as_values(values: Any, mechanism: AbstractMechanism) -> tuple[float, ...]:
    """The values of a release as floats.

    Args:
        values: Numbers, shape (k',); None or NaN for an absent one, where the mechanism has such.
        mechanism: The noise, which says how many there are and where they can lie.

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
    if not mechanism.support.contains(array).all():
        name, support = type(mechanism).__name__, mechanism.support.describe()
        raise InvalidInputError(
            f"{name} releases {support}; at least one of the values is something else."
        )
    return tuple(math.nan if math.isnan(value) else value for value in array.tolist())


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


def as_guarantee(stated: Any, mechanism: AbstractMechanism) -> AbstractGuarantee | None:
    """The guarantee of a release: what the mechanism implies, or where that is unknown, what is
    stated.

    Args:
        stated: A guarantee or None.
        mechanism: The noise.

    Raises:
        InvalidInputError: If what is stated differs from what the mechanism implies.
    """
    if stated is not None and not isinstance(stated, AbstractGuarantee):
        raise InvalidTypeError(
            f"guarantee must be one such as PureDP(1.0), got {describe(stated)}."
        )
    try:
        implied = mechanism.guarantee
    except MissingCapabilityError:
        return stated
    if stated is not None:
        pairs = zip(dataclasses.astuple(stated), dataclasses.astuple(implied), strict=False)
        if type(stated) is not type(implied) or not all(
            math.isclose(a, b, rel_tol=1e-9) for a, b in pairs
        ):
            raise InvalidInputError(
                f"The guarantee is stated as {stated!r}, but the mechanism implies {implied!r}:"
                " leave it out, or correct the mechanism's scale or sensitivity."
            )
    return implied


def as_requested(requested: Any, guarantee: AbstractGuarantee | None) -> AbstractGuarantee | None:
    """What was asked for, checked.

    Args:
        requested: A guarantee or None.
        guarantee: That of the release, which must imply it.

    Raises:
        InvalidInputError: If it does not follow from the guarantee.
    """
    if requested is None:
        return None
    if not isinstance(requested, AbstractGuarantee):
        raise InvalidTypeError(
            f"requested must be a guarantee such as PureDP(1.0), got {describe(requested)}."
        )
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
