"""What was found while a posterior was made: a kind and numbers, put into words last."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from noisewise._core.json_values import NOT_FINITE, as_object, jsonable
from noisewise.errors import FileFormatError
from noisewise.posteriors import sentences
from noisewise.posteriors.kinds import Kind

Value = float | int | str | list[Any]


@dataclasses.dataclass(frozen=True)
class Said:
    """A kind with numbers, which has a sentence for people.

    Args:
        kind: A `Kind` or `StopKind`.
        numbers: bool, int, float, str, or lists of these, by name.
    """

    kind: Any
    numbers: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        plain = {name: _plain(value) for name, value in self.numbers.items()}
        object.__setattr__(self, "numbers", plain)

    def __hash__(self) -> int:
        return hash((self.kind, tuple(sorted(self.numbers))))

    @property
    def sentence(self) -> str:
        """The sentence for people. No behaviour may depend on it."""
        return sentences.rendered(self.kind, self.numbers)

    def __str__(self) -> str:
        return self.sentence

    def to_spec(self) -> dict[str, Any]:
        """JSON-ready: {"kind": ..., "numbers": {...}}."""
        return {"kind": str(self.kind), "numbers": jsonable(self.numbers, as_object)}

    @classmethod
    def _from_spec(cls, spec: Any, kinds: Any) -> Self:
        """What `to_spec` wrote; refused where it cannot be put into words."""
        try:
            if set(spec) != {"kind", "numbers"}:
                raise ValueError
            numbers = {name: _read(value) for name, value in spec["numbers"].items()}
            made = cls(kinds(spec["kind"]), numbers)
            sentences.rendered(made.kind, made.numbers)
        except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError):
            raise FileFormatError(
                f"A report holds a {cls.__name__.lower()} that this version does not know."
            ) from None
        return made


@dataclasses.dataclass(frozen=True, eq=True)
class Finding(Said):
    """Something that a reader of a posterior must know.

    Programs use the kind and the numbers. The `sentence` is for people, and another version may
    word it differently.

    Args:
        kind: What was found.
        numbers: Numbers, texts such as names of parameters, or lists of these, by name.

    >>> finding = Finding(Kind.CHAINS_NOT_MIXED, {"r_hat": 1.2, "effective_size": 31.0})
    >>> finding.sentence
    'The chains have not mixed (R-hat 1.200, effective size 31): raise num_draws or thin.'
    """

    kind: Kind
    __hash__ = Said.__hash__

    @classmethod
    def stated(cls, text: str) -> Finding:
        """A text without a kind of its own."""
        return cls(Kind.STATED, {"text": text})

    @classmethod
    def from_spec(cls, spec: Any) -> Finding:
        """Read what `to_spec` wrote."""
        return cls._from_spec(spec, Kind)


def with_finding(findings: Iterable[Finding], new: Finding) -> tuple[Finding, ...]:
    """The findings and a new one. It replaces one of its kind, unless there may be several."""
    found = tuple(findings)
    if new in found:
        return found
    return (*(found if new.kind.repeats else without(found, new.kind)), new)


def without(findings: Iterable[Finding], *kinds: Kind) -> tuple[Finding, ...]:
    """The findings of other kinds."""
    return tuple(finding for finding in findings if finding.kind not in kinds)


def _plain(value: Any) -> Value:
    """A number, a text or a list as JSON has them, but for numbers that are not finite."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    raise TypeError(
        f"A finding holds numbers, strings and lists of them, got {type(value).__name__}."
    )


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(item) for item in value]
    if isinstance(value, dict):
        return float({"inf": "inf", "-inf": "-inf", "nan": "nan"}[value[NOT_FINITE]])
    return value
