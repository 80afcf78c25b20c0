"""A release as a block of text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours, AddRemoveOne
from noisewise.disclosure.fields import promises_something
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee

if TYPE_CHECKING:
    from noisewise.disclosure.publication import Release

_MAX_COLUMNS = 8
"""Values, or kinds of mechanisms, that are shown: a screen has room for them and the facts."""
_MAX_NAME = 40
"""Characters of a name: half a line of a terminal."""
_LONGEST = 1e15
"""Larger numbers are shown with an exponent: float64 keeps no more digits."""
_MAX_DECIMALS = 12
"""Decimals, before or after the point, that are written out."""


def block(release: Release) -> str:
    """A release as text: name and value of each column, with the noise's standard deviation, then
    what is public about them.

    Args:
        release: The release.

    Returns:
        Lines without a newline at the end: the `repr` of the release.
    """
    deviations = release.mechanism.noise_sd(len(release.values))
    columns = list(zip(release.names or (), release.values, deviations, strict=True))
    shown = columns if len(columns) <= _MAX_COLUMNS else columns[: _MAX_COLUMNS - 2]
    lines = [
        (_short(name), "missing" if missing else _number(value, sd))
        for (name, value, sd), missing in zip(shown, release.missing.tolist(), strict=False)
    ]
    if len(columns) > len(shown):
        lines.append(("...", f"and {len(columns) - len(shown)} more"))
    lines += _facts(release)
    title = f"Release: {release.description}" if release.description else "Release"
    if any(sd is not None for _, _, sd in shown):
        title += "  (value ± standard deviation of the noise)"
    width = max(len(name) for name, _ in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {text}" for name, text in lines)])


def _facts(release: Release) -> list[tuple[str, str]]:
    """What is public about the values, by name."""
    records = "not stated" if release.num_records is None else str(release.num_records)
    facts = [
        ("mechanism", _kinds(release.mechanism, len(release.values))),
        ("guarantee", _guarantee(release)),
    ]
    if release.guarantee is None or promises_something(release.mechanism, release.guarantee):
        facts.append(("neighbours", _neighbours(release.neighbours)))
    return [*facts, ("records", records)]


def _number(value: float, sd: float | None) -> str:
    """The value to the precision at which the noise has two digits."""
    if math.isnan(value):
        return "absent"
    if sd is None:
        return f"{value:.10g}"
    decimals = 1 - math.floor(math.log10(sd)) if sd > 0.0 else 99
    if abs(decimals) > _MAX_DECIMALS or abs(value) >= _LONGEST:
        return f"{value:.10g} ± {sd:.2g}"
    decimals = max(0, decimals)
    return f"{value:.{decimals}f} ± {sd:.{decimals}f}"


def _guarantee(release: Release) -> str:
    """The guarantee, whose word it is, and what was asked for where that is of another kind."""
    if release.guarantee is None:
        return "not stated"
    if not release.guarantee.promises:
        return "no privacy claimed"
    text = _plain(release.guarantee)
    if release.guarantee_is_stated:
        text += ", stated by the publisher, not derived"
    if release.requested is None or type(release.requested) is type(release.guarantee):
        return text
    return f"{text}, requested as {_plain(release.requested)}"


def _plain(guarantee: AbstractGuarantee) -> str:
    """A guarantee without its neighbours, which have a line of their own."""
    return repr(guarantee.with_neighbours(REPLACE_ONE))


def _neighbours(relation: AbstractNeighbours) -> str:
    """The relation by its short name, its unit, and the bounds of a unit's records."""
    text = f"{relation.label}, one {relation.unit}"
    if not isinstance(relation, AddRemoveOne) or relation.max_contributions == 1:
        return text
    text += f" of at most {relation.max_contributions} records"
    if relation.max_per_cell < relation.max_contributions:
        text += f", {relation.max_per_cell} to a cell"
    return text


def _kinds(mechanism: AbstractMechanism, width: int) -> str:
    """The names of the mechanisms, of several of one kind how many, and where there is more than
    one kind, for how many numbers.
    """
    found: dict[str, list[int]] = {}
    for part, size in mechanism.uncomposed(mechanism.width or width):
        found.setdefault(type(part).__name__, []).append(part.output_width(size))
    names = [name if len(each) == 1 else f"{len(each)} x {name}" for name, each in found.items()]
    if len(names) > 1:
        sizes = map(sum, found.values())
        names = [f"{name} ({size:,})" for name, size in zip(names, sizes, strict=True)]
    return ", ".join(names[:_MAX_COLUMNS]) + (", ..." if len(names) > _MAX_COLUMNS else "")


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 3] + "..."
