"""The cells of a published table: their labels, their names, and the table itself."""

from __future__ import annotations

import collections
import datetime
import math
import numbers
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import describe
from noisewise._core.json_files import require_text
from noisewise.disclosure.fields import implied_by
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism, Capability

if TYPE_CHECKING:
    import pandas as pd

    from noisewise.disclosure.publication import Release

Label = str | int | float | bool | None
"""What a cell may be labelled with; None where a dimension does not apply, as for a total."""

RESERVED = ("value", "absent", "missing", "noise_sd")
"""Columns of `Release.table` besides the labels."""

_LARGEST = 2**63
"""Whole numbers beyond this are kept as text: files hold those of 64 bits."""


def is_nothing(value: Any) -> bool:
    """Whether a cell of a frame is empty: None, NaN, NaT, or pandas' NA, of which comparisons have
    no truth value.
    """
    import pandas as pd

    return value is None or value is pd.NA or bool(value != value)


def as_label(value: Any) -> Label:
    """A label as files keep it: a text, a number or None; dates become texts.

    >>> as_label(np.int64(2020)), as_label(datetime.date(2020, 1, 31)), as_label(math.nan)
    (2020, '2020-01-31', None)
    """
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value) is bool or (type(value) is int and abs(value) < _LARGEST):
        return value
    if type(value) is not str and is_nothing(value):
        return None
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, numbers.Integral) and abs(int(value)) < _LARGEST:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Collection) and not isinstance(value, str):
        raise InvalidTypeError(f"A label must be a text, a number or None, got {describe(value)}.")
    return require_text(str(value), "A label")


def as_labels(labels: Any, width: int) -> dict[str, tuple[Label, ...]] | None:
    """The labels of the cells of a release.

    Args:
        labels: For each dimension the label of each cell, or None where cells have none.
        width: The number of cells.

    Raises:
        InvalidTypeError: If they are no mapping of lists.
        InvalidInputError: If there are more or fewer than cells, or a dimension has the name of a
            column of `Release.table`.
    """
    if labels is None:
        return None
    if not isinstance(labels, Mapping) or not labels:
        raise InvalidTypeError(
            'labels must map each dimension to the labels of all cells, as in labels={"district":'
            f' ["North", "South"]}}, got {describe(labels)}.'
        )
    checked: dict[str, tuple[Label, ...]] = {}
    for name, values in labels.items():
        dimension = require_text(name, "A dimension")
        if dimension in RESERVED:
            raise InvalidInputError(
                f"A dimension is called {dimension!r}, which is a column of release.table: rename"
                " it."
            )
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise InvalidTypeError(
                f"The labels of {dimension!r} must be a list, one per cell, got {describe(values)}."
            )
        checked[dimension] = tuple(map(as_label, values))
        if len(checked[dimension]) != width:
            raise InvalidInputError(
                f"There are {width} cells, but {len(checked[dimension])} labels of {dimension!r}."
            )
    return checked


def rows_of(labels: Mapping[str, tuple[Label, ...]]) -> list[tuple[Label, ...]]:
    """The labels of each cell, one row per cell."""
    return list(zip(*labels.values(), strict=True))


def names_of(labels: Mapping[str, tuple[Label, ...]]) -> tuple[str, ...]:
    """A different name for each cell, made of its labels.

    >>> names_of({"district": ("North", None), "year": (2020, 2020)})
    ('North, 2020', '2020')
    >>> names_of({"a": ("x", "x"), "b": (1, 1)})
    ('x, 1 [0]', 'x, 1 [1]')
    """
    plain = [
        ", ".join(str(label) for label in row if label is not None) or "all"
        for row in rows_of(labels)
    ]
    if len(set(plain)) == len(plain):
        return tuple(plain)
    seen = collections.Counter(plain)
    names = [name if seen[name] == 1 else f"{name} [{number}]" for number, name in enumerate(plain)]
    if len(set(names)) == len(names):
        return tuple(names)
    return tuple(f"{name} [{number}]" for number, name in enumerate(plain))


def refuse_value(
    values: Float[np.ndarray, " kp"], place: int, mechanism: AbstractMechanism, labels: Any
) -> NoReturn:
    """Say which released value cannot be of its noise; the noise of its cell alone, where cells
    have different ones.
    """
    if mechanism.width == len(values) and Capability.CDF in mechanism.capabilities:
        mechanism = mechanism.of_columns([place])
    known = as_labels(labels, len(values))
    where = f"values[{place}]" if known is None else f"the value of {names_of(known)[place]!r}"
    value = "absent" if np.isnan(values[place]) else repr(float(values[place]))
    raise InvalidInputError(
        f"{type(mechanism).__name__} releases {mechanism.support.describe()}, but {where} is"
        f" {value}: give each number as it was published, and the noise that made it."
    )


def as_source(source: Any) -> str | dict[str, Any] | None:
    """Where a release comes from: a line of text, or facts by name.

    Raises:
        InvalidTypeError: If it is something else, or a fact is none that a file can hold.
    """
    if source is None or isinstance(source, str):
        return None if source is None else require_text(source, "source")
    if not isinstance(source, Mapping):
        raise InvalidTypeError(
            "source must be a line of text, or facts by name such as {'file': ..., 'sha256':"
            f" ...}}, got {describe(source)}."
        )
    return {require_text(name, "A fact of source"): _fact(fact) for name, fact in source.items()}


def _fact(fact: Any) -> Any:
    if isinstance(fact, Mapping):
        return {require_text(name, "A fact of source"): _fact(part) for name, part in fact.items()}
    if isinstance(fact, (list, tuple)):
        return [_fact(part) for part in fact]
    if isinstance(fact, str):
        return require_text(fact, "A fact of source", empty=True)
    return as_label(fact)


def table_of(release: Release) -> pd.DataFrame:
    """The cells of a release as a data frame: `Release.table`."""
    import pandas as pd

    observed, k = release.observed, release.mechanism.width or len(release.values)
    labels = release.labels or {"name": release.names or ()}
    columns: dict[str, Any] = {name: list(values) for name, values in labels.items()}
    missing = release.missing
    columns["value"] = observed
    columns["absent"] = np.isnan(observed) & ~missing
    columns["missing"] = missing
    columns["noise_sd"] = np.array(release.mechanism.noise_sd(k), dtype=np.float64)
    return pd.DataFrame(columns)


def selected(release: Release, chosen: Mapping[str, Any]) -> list[int]:
    """The places of the cells with certain labels.

    Args:
        release: The release.
        chosen: For dimensions a label, or a collection of labels.

    Raises:
        InvalidInputError: If cells have no such dimension, or none has these labels.
    """
    labels = release.labels
    if labels is None:
        raise InvalidInputError(
            "This release has no labels to select by: make it by nw.Release.from_table(...,"
            ' labels=["district"]).'
        )
    if not chosen:
        raise InvalidInputError(
            f"select takes labels, as in release.select({next(iter(labels))}=...), got none."
        )
    kept = np.ones(len(release.values), dtype=bool)
    for dimension, wanted in chosen.items():
        if dimension not in labels:
            raise InvalidInputError(
                f"The cells have no dimension {dimension!r}; they have {', '.join(labels)}."
            )
        several = isinstance(wanted, Collection) and not isinstance(wanted, (str, bytes, Mapping))
        listed = {as_label(label) for label in (wanted if several else [wanted])}
        unknown = listed - set(labels[dimension])
        if unknown:
            raise InvalidInputError(
                f"No cell has the {dimension} {sorted(map(str, unknown))[0]!r}: labels are kept as"
                " release.table shows them."
            )
        kept &= np.array([label in listed for label in labels[dimension]])
    if not kept.any():
        raise InvalidInputError("No cell has all of these labels.")
    return np.flatnonzero(kept).tolist()


def part_of(release: Release, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that change where only the cells with certain labels are kept."""
    columns = selected(release, chosen)
    labels, names = release.labels or {}, release.names or ()
    places = range(len(release.values)) if release.part is None else release.part
    alike = len(release.ids) == 1 and release.mechanism.width is None  # cells of the release
    mechanism = release.mechanism.of_columns(columns)
    stated = release.guarantee_is_stated and implied_by(mechanism) is None
    return {
        "values": tuple(release.values[j] for j in columns),
        "mechanism": mechanism,
        "names": tuple(names[j] for j in columns),
        "guarantee": release.guarantee if stated else None,
        "requested": None,
        "query": None,
        "labels": {name: tuple(given[j] for j in columns) for name, given in labels.items()},
        "part": tuple(places[j] for j in columns) if alike else None,
    }
