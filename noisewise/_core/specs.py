"""JSON descriptions of mechanisms, queries and guarantees: the name of a class, and its fields."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
)

T = TypeVar("T")

MAX_OBJECTS = 4_000
"""Objects in one description: four for each of the 1,000 mechanisms that there may be in one, which
are read in a second. Two seconds is what reading a file of a stranger may take.
"""
_LEFT_OUT = "left_out"
LEFT_OUT = {_LEFT_OUT: True}
"""Metadata of a field with a `to_spec` of its own, left out of descriptions where it has its
default.
"""


def to_spec(described: Any, base: type, noun: str) -> dict[str, Any]:
    """The class and the fields of a dataclass; fields that extend `base` are described in turn."""
    fields = dataclasses.fields(described)
    values = {field: getattr(described, field.name) for field in fields}
    return {
        "type": type(described).__name__,
        **{
            field.name: _encoded(value, base, noun)
            for field, value in values.items()
            if not _may_be_left_out(field)
        },
        **{
            field.name: value.to_spec()
            for field, value in values.items()
            if _may_be_left_out(field) and value != field.default
        },
    }


def _may_be_left_out(field: dataclasses.Field[Any]) -> bool:
    return field.metadata.get(_LEFT_OUT, False)


def named_class(spec: Any, kinds: Mapping[str, type[T]], noun: str) -> type[T]:
    """The class that a description names, if it gives every field of it and nothing else."""
    known = isinstance(spec, dict) and isinstance(spec.get("type"), str) and spec["type"] in kinds
    if not known:
        raise FileFormatError(
            f"{noun} must be an object whose 'type' is one of {', '.join(kinds)}."
        )
    kind = kinds[spec["type"]]
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    expected = {field.name for field in fields}
    optional = {field.name for field in fields if _may_be_left_out(field)}
    given = set(spec) - {"type"}
    if not expected - optional <= given <= expected:
        raise FileFormatError(
            f"{kind.__name__} has the fields {sorted(expected - (optional - given))}, got"
            f" {sorted(given)}."
        )
    return kind


def require_few(spec: Any, noun: str) -> None:
    """Refuse a description of more objects than there may be, before any of them is made.

    Raises:
        FileFormatError: If there are more than `MAX_OBJECTS`.
    """
    number = 0
    waiting: list[Any] = [[spec]]
    while waiting:
        item = waiting.pop()
        number += isinstance(item, dict)
        inside = item.values() if isinstance(item, dict) else item
        waiting += [part for part in inside if isinstance(part, (dict, list))]
    if number > MAX_OBJECTS:
        raise FileFormatError(
            f"{noun} is described by {number:,} objects, more than the {MAX_OBJECTS:,} there may"
            " be: cells of one kind need one object, with a list of numbers where these differ."
        )


def fields_of(spec: Mapping[str, Any], nested: Callable[[Any], Any]) -> dict[str, Any]:
    """The fields of a description as arguments; `nested` reads a description inside it."""
    return {name: _decoded(value, nested) for name, value in spec.items() if name != "type"}


def built(kind: type[T], fields: Mapping[str, Any]) -> T:
    """The object of these fields; fields that it refuses are a `FileFormatError`."""
    try:
        return kind(**fields)
    except (InvalidInputError, InvalidTypeError) as error:
        raise FileFormatError(f"The fields of {kind.__name__} do not fit: {error}") from None


def _encoded(value: Any, base: type, noun: str) -> Any:
    if isinstance(value, base):
        return value.to_spec()  # type: ignore[attr-defined]
    if isinstance(value, np.ndarray):
        return _encoded(tuple(value.tolist()), base, noun)
    if isinstance(value, (tuple, list)):
        return [_encoded(item, base, noun) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise MissingCapabilityError(
        f"{noun} has a field of type {type(value).__name__}, which cannot be written as JSON: use"
        " numbers, strings, None, or a registered class."
    )


def _decoded(value: Any, nested: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return nested(value)
    if isinstance(value, list):
        return tuple(_decoded(item, nested) for item in value)
    return float(value) if value in ("inf", "-inf") else value


# The classes that files may name ------------------------------------------------------------------


def concrete(names: Mapping[str, Any], base: type, *, but: tuple[type, ...] = ()) -> dict[str, Any]:
    """The classes among some names that extend a base and are not abstract.

    Args:
        names: Objects by name, such as the contents of a package.
        base: The base class.
        but: Classes that are left out.

    Returns:
        The classes by name.
    """
    return {
        name: kind
        for name, kind in names.items()
        if isinstance(kind, type)
        and issubclass(kind, base)
        and not inspect.isabstract(kind)
        and kind not in but
    }


def registered(kind: Any, base: type, kinds: dict[str, Any]) -> Any:
    """Add a class to those that files may name.

    Args:
        kind: The class of a user.
        base: The class that it must extend.
        kinds: The known classes by name, to which it is added.

    Returns:
        The class itself, so that this may be used as a decorator.

    Raises:
        InvalidTypeError: If it is not such a class.
        InvalidInputError: If it takes the name of another.
    """
    if not isinstance(kind, type) or not issubclass(kind, base):
        given = kind.__name__ if isinstance(kind, type) else type(kind).__name__
        raise InvalidTypeError(f"register takes a class that extends {base.__name__}, got {given}.")
    if kinds.setdefault(kind.__name__, kind) is not kind:
        raise InvalidInputError(f"Another class is registered as {kind.__name__}: rename yours.")
    return kind


def described(part: Any) -> Any:
    """A part's own description, else its type and those fields that are plain numbers or texts."""
    with contextlib.suppress(MissingCapabilityError, AttributeError):
        return part.to_spec()
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    plain = {field.name: getattr(part, field.name, None) for field in fields}
    kept = {
        name: value
        for name, value in plain.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }
    return {"type": type(part).__name__, **kept}
