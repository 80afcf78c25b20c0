"""Names of entries: "rate[4]", or "rate[Auckland]" where a site has labels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noisewise._core.arrays import describe
from noisewise._core.text import printable
from noisewise.errors import InvalidInputError, InvalidTypeError

Labels = tuple[tuple[str, ...], ...]
"""The labels of one name: a tuple for each of its axes."""


def entry_names(name: str, shape: tuple[int, ...], labels: Labels | None) -> Iterator[str]:
    """One name per entry.

    >>> list(entry_names("beta", (2, 1), None))
    ['beta[0,0]', 'beta[1,0]']
    >>> list(entry_names("rate", (2,), (("North", "South"),)))
    ['rate[North]', 'rate[South]']
    """
    if not shape:
        return iter((name,))
    axes = labels or tuple(tuple(map(str, range(length))) for length in shape)
    return (f"{name}[{','.join(place)}]" for place in itertools.product(*axes))


def checked_labels(labels: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Labels]:
    """Labels by name, one for each place of each axis.

    Args:
        labels: Sequences of labels by name: one for a vector, a tuple of one per axis for more
            axes. None for no labels.
        shapes: The shape of each name's entries.

    Raises:
        InvalidTypeError: If it is no mapping, or a label cannot be read as text.
        InvalidInputError: If a name is unknown, or there are too few, too many or equal labels.
    """
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise InvalidTypeError(
            'labels must map names to labels, as in labels={"rate": ["North", "South"]}, got'
            f" {describe(labels)}."
        )
    unknown = [name for name in labels if name not in shapes]
    if unknown:
        raise InvalidInputError(
            f"labels are given for {unknown[0]!r}, which is no name of the prior: its names are"
            f" {', '.join(map(repr, shapes))}."
        )
    return {name: _axes(name, given, shapes[name]) for name, given in labels.items()}


def _axes(name: str, given: Any, shape: tuple[int, ...]) -> Labels:
    if not shape:
        raise InvalidInputError(f"{name!r} is a single number: leave out its labels.")
    axes = given if len(shape) > 1 else (given,)
    if len(shape) > 1 and (not isinstance(axes, tuple) or len(axes) != len(shape)):
        raise InvalidInputError(
            f"{name!r} has shape {shape}: its labels are a tuple of {len(shape)} sequences, one"
            f" per axis, got {describe(given)}."
        )
    return tuple(_axis(name, axis, length) for axis, length in zip(axes, shape, strict=True))


def _axis(name: str, given: Any, length: int) -> tuple[str, ...]:
    listed = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise InvalidTypeError(f"The labels of {name!r} must be a sequence, got {describe(given)}.")
    labels = tuple(map(str, listed))
    if len(labels) != length:
        raise InvalidInputError(f"{name!r} needs {length} labels, got {len(labels)}.")
    bad = next((label for label in labels if not label.strip() or label != printable(label)), None)
    if bad is not None:
        raise InvalidInputError(
            f"A label of {name!r}, {bad!r}, is empty or cannot be printed: give plain text."
        )
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated is not None:
        raise InvalidInputError(
            f"The labels of {name!r} must differ, but {printable(repeated)!r} occurs twice: join"
            ' columns that tell the entries apart, as in frame["state"] + " " + frame["county"].'
        )
    return labels
