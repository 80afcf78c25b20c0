"""Values as JSON knows them: what becomes of arrays, tuples, dataclasses and infinities."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any


def as_null(value: float) -> None:
    """A number that is not finite, where a reader needs to know no more than that."""


def as_text(value: float) -> str:
    """'nan', 'inf' or '-inf': in the identity of runs and in mechanisms."""
    return str(float(value))


def as_word(value: float) -> str:
    """'NaN', 'Infinity' or '-Infinity': in reports; `WORDS` reads it back."""
    return next(word for word, number in WORDS.items() if as_text(number) == as_text(value))


def as_object(value: float) -> dict[str, str]:
    """{'not finite': 'inf'}: in findings, whose texts may be any word."""
    return {NOT_FINITE: as_text(value)}


def unchanged(value: float) -> float:
    """A non-finite number, unchanged, for a later writer."""
    return value


WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""What `as_word` writes, and what it means."""
NOT_FINITE = "not finite"
"""The key of what `as_object` writes."""


def _refused(value: Any) -> Any:
    raise TypeError(f"A value of type {type(value).__name__} cannot be written as JSON.")


def jsonable(
    value: Any,
    not_finite: Callable[[float], Any] = as_null,
    other: Callable[[Any], Any] = _refused,
) -> Any:
    """A value as JSON knows it: objects, lists, texts, numbers, booleans and null.

    NumPy and JAX numbers and arrays become numbers and lists, tuples become lists, members of an
    enum their values. A dataclass becomes its fields and its "type", `functools.partial` likewise
    its keywords, and a function or class its name.

    Args:
        value: What is to be written.
        not_finite: How NaN and infinities are spelt, for which JSON has no number. Kinds of files
            differ in this, and keep their spelling so that earlier files are read alike.
        other: What becomes of a value of any other type; by default it is refused.

    Raises:
        TypeError: If the value, or a part of it, is of another type.

    >>> import numpy as np
    >>> jsonable({"a": (1, np.float32(0.5)), "b": np.array([np.inf, 2.0])})
    {'a': [1, 0.5], 'b': [None, 2.0]}
    >>> jsonable(functools.partial(max, default=math.inf), as_word)
    {'type': 'max', 'default': 'Infinity'}
    """
    inner = functools.partial(jsonable, not_finite=not_finite, other=other)
    if isinstance(value, enum.Enum):
        return inner(value.value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "tolist"):
        return inner(value.tolist())
    if isinstance(value, numbers.Real):
        return _number(float(value), not_finite)
    if isinstance(value, Mapping):
        return {str(name): inner(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [inner(item) for item in value]
    return _described(value, inner, other)


def _number(value: float, not_finite: Callable[[float], Any]) -> Any:
    return value if math.isfinite(value) else not_finite(value)


def _described(value: Any, inner: Callable[[Any], Any], other: Callable[[Any], Any]) -> Any:
    """Dataclasses, functions and classes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {name: inner(item) for name, item in vars(value).items()}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, functools.partial):
        return {"type": _name(value.func), **inner(value.keywords)}
    return _name(value) if callable(value) else other(value)


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))
