"""numpyro distributions to and from JSON, without pickle: classes by name, parameters as numbers.

    {"law": "Normal", "fields": {"loc": {"array": [0.0], "shape": []}, ...}}

Only classes of numpyro.distributions are known, and reading one sets fields and runs nothing but
numpyro's own assembly of a pytree.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints, transforms

from noisewise.errors import FileFormatError, MissingCapabilityError

_DEEPEST = 32
_LARGEST = 10_000_000
_MOST_PARTS = 10_000
"""Of a tuple or a list; numbers that are many are an array."""
_MOST_ENTRIES = 100_000
"""Of one law: what is learnt from simulations has at most 4096 parameters."""


def to_spec(node: Any) -> Any:
    """A JSON-ready description of a distribution, or of a part of one."""
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    if type(node) in (tuple, list):
        return {type(node).__name__: [to_spec(part) for part in node]}
    if isinstance(node, dict):
        return {"pairs": [[to_spec(name), to_spec(part)] for name, part in node.items()]}
    if isinstance(node, dist.Distribution):
        return {
            "law": _known(node, dist),
            "fields": {name: to_spec(part) for name, part in _fields(node).items()},
        }
    for key, module, kind in _PARTS:
        if isinstance(node, kind):
            children, (names, static) = node.tree_flatten()
            parts = {name: to_spec(child) for name, child in zip(names, children, strict=True)}
            return {
                key: _known(node, module),
                "parts": parts,
                "static": {n: to_spec(v) for n, v in static.items()},
            }
    try:
        array = np.asarray(node)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise MissingCapabilityError(
            f"A prior with a part of type {type(node).__name__} cannot be written as JSON."
        )
    return {"array": array.astype(np.float64).ravel().tolist(), "shape": list(array.shape)}


def from_spec(spec: Any, depth: int = 0) -> Any:
    """What `to_spec` described; anything else is a `FileFormatError`."""
    if depth > _DEEPEST:
        raise FileFormatError("A prior in a file has too many layers.")
    if spec is None or isinstance(spec, (bool, int, float, str)):
        return spec
    if not isinstance(spec, dict):
        raise FileFormatError("A part of a prior must be a number, a text or an object.")
    read = lambda part: from_spec(part, depth + 1)  # noqa: E731
    for key, kind in (("tuple", tuple), ("list", list)):
        if set(spec) == {key} and isinstance(spec[key], list) and len(spec[key]) <= _MOST_PARTS:
            return kind(read(part) for part in spec[key])
    if set(spec) == {"pairs"} and isinstance(spec["pairs"], list):
        return OrderedDict((read(name), read(part)) for name, part in spec["pairs"])
    if set(spec) == {"array", "shape"}:
        return _array(spec)
    if set(spec) == {"law", "fields"}:
        return _law(spec, read)
    for key, module, base in _PARTS:
        if set(spec) == {key, "parts", "static"}:
            cls = _class(spec[key], module, base)
            parts = {name: read(part) for name, part in _object(spec["parts"]).items()}
            static = {name: read(part) for name, part in _object(spec["static"]).items()}
            return cls.tree_unflatten((tuple(parts), static), tuple(parts.values()))
    raise FileFormatError("A part of a prior is of no known kind.")


def _law(spec: dict[str, Any], read: Any) -> dist.Distribution:
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
    """Refuse a shape that takes a few bytes in a file, and all memory as the names of its entries."""
    whole = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not whole or math.prod(shape) > _MOST_ENTRIES:
        raise FileFormatError(
            f"A law of a prior in a file has a shape of whole numbers, with at most {_MOST_ENTRIES}"
            " entries."
        )


def _fields(law: dist.Distribution) -> dict[str, Any]:
    names = {*type(law).gather_pytree_data_fields(), *type(law).gather_pytree_aux_fields()} - {
        "_validate_args"
    }
    return {name: vars(law).get(name) for name in sorted(names)}


def _known(node: Any, module: Any) -> str:
    name = type(node).__name__
    if getattr(module, name, None) is not type(node):
        raise MissingCapabilityError(
            f"A prior that uses {name}, which is not one of numpyro's, cannot be written to a file."
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


def _array(spec: dict[str, Any]) -> np.ndarray:
    values, shape = spec["array"], spec["shape"]
    whole = isinstance(shape, list) and all(
        type(size) is int and 0 <= size <= _LARGEST for size in shape
    )
    if not isinstance(values, list) or not whole or len(values) != int(np.prod(shape)):
        raise FileFormatError("An array of a prior in a file has another size than it says.")
    if not all(type(value) in (int, float) for value in values):
        raise FileFormatError("An array of a prior in a file must hold numbers.")
    return np.asarray(values, dtype=np.float64).reshape(shape)


_PARTS = (
    ("transform", transforms, transforms.Transform),
    ("constraint", constraints, constraints.Constraint),
)
