"""numpyro distributions to and from JSON, without pickle: classes by name, parameters as numbers.

    {"law": "Normal", "fields": {"loc": {"array": [0.0], "shape": []}, ...}}

Only classes of numpyro.distributions are known. Reading one sets fields, and runs nothing but
numpyro's own assembly of a pytree.
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints, transforms

from noisewise.errors import FileFormatError, MissingCapabilityError
from noisewise.priors.distributions import fields_of

Reader = Callable[[Any], Any]
"""Reads a description that lies within another."""

_MAX_DEPTH = 32
"""Layers of parts within parts: more than any law has, far fewer than Python's stack allows."""
_MAX_AXIS = 10_000_000
"""The longest axis of an array: 80 MB of numbers, more than any prior needs."""
_MAX_PARTS = 10_000
"""Entries of a tuple or a list; longer sequences of numbers are arrays."""
_MAX_ENTRIES = 100_000
"""Entries of one law: what is learned from simulations has at most 4096 parameters."""

_PARTS = (
    ("transform", transforms, transforms.Transform),
    ("constraint", constraints, constraints.Constraint),
)


def to_spec(node: Any) -> Any:
    """A JSON-ready description of a distribution, or of a part of one.

    Args:
        node: A distribution, transform, constraint, array, or a tuple, list, mapping or plain value
            in one.

    Returns:
        Numbers, texts, lists and dictionaries; `from_spec` reads them back to the last bit.

    Raises:
        MissingCapabilityError: If a part is not numpyro's, or cannot be written as numbers.
    """
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    if type(node) in (tuple, list):
        return {type(node).__name__: [to_spec(part) for part in node]}
    if isinstance(node, dict):
        return {"pairs": [[to_spec(name), to_spec(part)] for name, part in node.items()]}
    if isinstance(node, dist.Distribution):
        return {"law": _known(node, dist), "fields": _specs(fields_of(node))}
    for key, module, kind in _PARTS:
        if isinstance(node, kind):
            children, (names, static) = node.tree_flatten()
            parts = dict(zip(names, children, strict=True))
            return {key: _known(node, module), "parts": _specs(parts), "static": _specs(static)}
    return _array_to_spec(node)


def from_spec(spec: Any, depth: int = 0) -> Any:
    """The distribution, or part of one, that `to_spec` described.

    Args:
        spec: What a file holds.
        depth: The number of layers around it, which is limited.

    Raises:
        FileFormatError: If `spec` is anything else.

    >>> law = dist.Gamma(2.0, 1.0)
    >>> from_spec(to_spec(law)).concentration
    2.0
    """
    if depth > _MAX_DEPTH:
        raise FileFormatError("A prior in a file has too many layers.")
    if spec is None or isinstance(spec, (bool, int, float, str)):
        return spec
    if not isinstance(spec, dict):
        raise FileFormatError("A part of a prior must be a number, a string or an object.")
    reader = _READERS.get(frozenset(spec))
    if reader is None:
        raise _unknown_kind()
    return reader(spec, functools.partial(from_spec, depth=depth + 1))


def _unknown_kind() -> FileFormatError:
    return FileFormatError("A part of a prior is of no known kind.")


# Writing ------------------------------------------------------------------------------------------


def _specs(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: to_spec(part) for name, part in parts.items()}


def _array_to_spec(node: Any) -> dict[str, Any]:
    try:
        array = np.asarray(node)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise MissingCapabilityError(
            f"A prior with a part of type {type(node).__name__} cannot be written as JSON."
        )
    return {"array": array.astype(np.float64).ravel().tolist(), "shape": list(array.shape)}


# Reading ------------------------------------------------------------------------------------------


def _sequence(spec: dict[str, Any], read: Reader) -> tuple[Any, ...] | list[Any]:
    ((name, parts),) = spec.items()
    if not isinstance(parts, list) or len(parts) > _MAX_PARTS:
        raise _unknown_kind()
    return {"tuple": tuple, "list": list}[name](read(part) for part in parts)


def _pairs(spec: dict[str, Any], read: Reader) -> OrderedDict[Any, Any]:
    if not isinstance(spec["pairs"], list):
        raise _unknown_kind()
    return OrderedDict((read(name), read(part)) for name, part in spec["pairs"])


def _part(spec: dict[str, Any], read: Reader) -> Any:
    """A transform or a constraint."""
    key, module, base = next(row for row in _PARTS if row[0] in spec)
    cls = _class(spec[key], module, base)
    parts = {name: read(part) for name, part in _object(spec["parts"]).items()}
    static = {name: read(part) for name, part in _object(spec["static"]).items()}
    return cls.tree_unflatten((tuple(parts), static), tuple(parts.values()))


def _law(spec: dict[str, Any], read: Reader) -> dist.Distribution:
    cls, fields = _class(spec["law"], dist, dist.Distribution), _object(spec["fields"])
    data, aux = cls.gather_pytree_data_fields(), cls.gather_pytree_aux_fields()
    if set(fields) != {*data, *aux} - {"_validate_args"}:
        raise FileFormatError(f"A {spec['law']} in a file has other fields than numpyro's.")
    for name in ("_batch_shape", "_event_shape"):
        _check_shape(read(fields.get(name)))
    values = {**{name: read(part) for name, part in fields.items()}, "_validate_args": None}
    return cls.tree_unflatten(
        tuple(values[name] for name in aux), tuple(values[name] for name in data)
    )


def _check_shape(shape: Any) -> None:
    """Refuse a shape of a few bytes whose entries, each with a name, would fill the memory."""
    whole = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not whole or math.prod(shape) > _MAX_ENTRIES:
        raise FileFormatError(
            f"A law of a prior in a file has a shape of whole numbers, with at most {_MAX_ENTRIES}"
            " entries."
        )


def _known(node: Any, module: Any) -> str:
    name = type(node).__name__
    if getattr(module, name, None) is not type(node):
        raise MissingCapabilityError(
            f"A prior that uses {name}, which is not one of numpyro's, cannot be saved: use a"
            " numpyro distribution, or save the draws."
        )
    return name


def _class(name: Any, module: Any, kind: type) -> Any:
    found = getattr(module, name, None) if isinstance(name, str) else None
    if not isinstance(found, type) or not issubclass(found, kind):
        raise FileFormatError(
            f"A prior in a file uses a {kind.__name__} that numpyro does not have."
        )
    return found


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileFormatError("The fields of a prior in a file must be an object.")
    return value


def _array(spec: dict[str, Any], read: Reader) -> np.ndarray:
    values, shape = spec["array"], spec["shape"]
    whole = isinstance(shape, list) and all(
        type(size) is int and 0 <= size <= _MAX_AXIS for size in shape
    )
    if not isinstance(values, list) or not whole or len(values) != int(np.prod(shape)):
        raise FileFormatError("An array of a prior in a file has another size than it says.")
    if not all(type(value) in (int, float) for value in values):
        raise FileFormatError("An array of a prior in a file must hold numbers.")
    return np.asarray(values, dtype=np.float64).reshape(shape)


_READERS: dict[frozenset[str], Callable[[dict[str, Any], Reader], Any]] = {
    frozenset({"tuple"}): _sequence,
    frozenset({"list"}): _sequence,
    frozenset({"pairs"}): _pairs,
    frozenset({"array", "shape"}): _array,
    frozenset({"law", "fields"}): _law,
    **{frozenset({key, "parts", "static"}): _part for key, *_ in _PARTS},
}
"""What reads an object, by the names in it."""
