"""The options of `noisewise import`: those of the readers in Python, under the same names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from noisewise.cli.option_texts import (
    assignments,
    guarantee_from,
    neighbours_if_given,
    numbers,
    stated,
)
from noisewise.cli.options import optional
from noisewise.errors import InvalidInputError

_FILE, _NOISE, _CELLS, _PRIVACY = "The file", "The noise", "The cells", "The guarantee"
"""Panels of the help text."""
_EXAMPLES = {
    "--mechanism": "old=laplace",
    "--scale": "old=30",
    "--threshold": "old=450",
    "--base": "small=3",
    "--risk": "NZ=lower",
}
"""What to write where an option is given once for each entry."""

_TOGETHER = ("unit", "max_contributions", "max_per_cell", "epsilon", "delta", "rho")
"""Options that are parts of the neighbours and of the guarantee."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What a file does not say, as it is typed; each has the name of its option."""

    value: Annotated[str | None, optional("The column of numbers.", _FILE)] = None
    labels: Annotated[
        list[str] | None, optional("A column that names a cell.", _FILE, "--label", "-l")
    ] = None
    columns: Annotated[
        list[str] | None, optional("A column of a query that is read.", _FILE, "--column", "-c")
    ] = None
    query: Annotated[list[str] | None, optional("A query of a census file.", _FILE)] = None
    geocodes: Annotated[
        list[str] | None, optional("An area of a census file; all by default.", _FILE, "--geocode")
    ] = None
    output: Annotated[
        Path | None, optional("What an OpenDP measurement or query released.", _FILE)
    ] = None
    date: Annotated[
        str | None,
        optional("The day, if the file is not named after it.", _FILE, metavar="YYYY-MM-DD"),
    ] = None
    separator: Annotated[str | None, optional("Between cells; a comma by default.", _FILE)] = None
    mechanism: Annotated[
        list[str] | None,
        optional(
            "laplace, gaussian, discrete-laplace, discrete-gaussian, exact or rounded.",
            _NOISE,
            metavar="[ENTRY=]NAME",
        ),
    ] = None
    by: Annotated[
        str | None,
        optional("The column whose entries choose among several mechanisms.", _NOISE),
    ] = None
    scale: Annotated[
        list[str] | None,
        optional("The scale: a number, or a column.", _NOISE, metavar="[ENTRY=]NUMBER|COLUMN"),
    ] = None
    sd: Annotated[str | None, optional("The column of standard deviations.", _NOISE)] = None
    variance: Annotated[str | None, optional("The column of variances.", _NOISE)] = None
    variance_is_sigma_squared: Annotated[
        bool | None,
        optional("Confirm what it is.", _NOISE, "--variance-is-sigma-squared"),
    ] = None
    base: Annotated[
        list[str] | None,
        optional("What counts were rounded to.", _NOISE, metavar="[ENTRY=]NUMBER"),
    ] = None
    atom: Annotated[
        str | None, optional("The type of OpenDP's numbers, such as i64 or f64.", _NOISE)
    ] = None
    signed: Annotated[
        bool | None,
        optional("Whether counts of a query may be negative.", _NOISE, "--signed/--unsigned"),
    ] = None
    risk: Annotated[
        list[str] | None,
        optional("lower, medium or higher; or CODE=RISK.", _NOISE, metavar="RISK"),
    ] = None
    threshold: Annotated[
        list[str] | None,
        optional(
            "The least number that is published, or the column that has it.",
            _CELLS,
            metavar="[ENTRY=]NUMBER|COLUMN",
        ),
    ] = None
    absent: Annotated[str | None, optional("What stands for suppressed cells.", _CELLS)] = None
    missing: Annotated[
        str | None,
        optional(
            "The column that says where nothing was measured: true and false, or the text that"
            " says so.",
            _CELLS,
            metavar="COLUMN[=TEXT]",
        ),
    ] = None
    cells: Annotated[Path | None, optional("A file that lists all public cells.", _CELLS)] = None
    constraints: Annotated[Path | None, optional("The file of a census's constraints.", _CELLS)] = (
        None
    )
    invariants: Annotated[
        list[str] | None,
        optional("A constraint that is read as cells without noise.", _CELLS, "--invariant"),
    ] = None
    sensitivity: Annotated[
        list[str] | None,
        optional("The largest change between neighbours.", _PRIVACY, metavar="[ENTRY=]NUMBER"),
    ] = None
    neighbours: Annotated[str | None, optional("replace-one or add-remove.", _PRIVACY)] = None
    unit: Annotated[str | None, optional("Whose records they are; a person's.", _PRIVACY)] = None
    max_contributions: Annotated[
        int | None, optional("With add-remove: the most records of one unit.", _PRIVACY)
    ] = None
    max_per_cell: Annotated[
        int | None, optional("The most of these in one cell; all by default.", _PRIVACY)
    ] = None
    epsilon: Annotated[float | None, optional("Stated: pure privacy.", _PRIVACY)] = None
    delta: Annotated[float | None, optional("Stated, with --epsilon.", _PRIVACY)] = None
    rho: Annotated[float | None, optional("Stated: zero-concentrated.", _PRIVACY)] = None
    name: Annotated[str | None, optional("What the table is called.", _FILE)] = None
    description: Annotated[str | None, optional("A public line about it.", _FILE)] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of a reader that are given, by name.

        Raises:
            InvalidInputError: If a text does not mean what it should.
        """
        relation = neighbours_if_given(
            self.neighbours, self.unit, self.max_contributions, self.max_per_cell
        )
        names = [field.name for field in dataclasses.fields(self) if field.name not in _TOGETHER]
        given = {name: getattr(self, name) for name in names} | {
            "query": self.query[0] if self.query and len(self.query) == 1 else self.query,
            "mechanism": _by_name("--mechanism", self.mechanism),
            "scale": _each("--scale", self.scale, _number_or_column),
            "base": _each("--base", self.base, _whole),
            "risk": _by_name("--risk", self.risk),
            "threshold": _each("--threshold", self.threshold, _number_or_column),
            "missing": _missing(self.missing),
            "sensitivity": _each("--sensitivity", self.sensitivity, _one),
            "neighbours": relation,
            "guarantee": _guarantee(relation, epsilon=self.epsilon, delta=self.delta, rho=self.rho),
        }
        return {option: value for option, value in given.items() if value is not None}


def _by_name(flag: str, texts: list[str] | None) -> Any:
    """One text for all, or one for each name."""
    if texts is None or (len(texts) == 1 and "=" not in texts[0]):
        return None if texts is None else texts[0]
    return assignments(flag, texts, example=_EXAMPLES.get(flag, "total=2"))


def _each(flag: str, texts: list[str] | None, read: Callable[[str, str], Any]) -> Any:
    """What one text means, or each of several."""
    found = _by_name(flag, texts)
    if isinstance(found, dict):
        return {name: read(flag, text) for name, text in found.items()}
    return None if found is None else read(flag, found)


def _number_or_column(flag: str, text: str) -> float | str:
    """A number, or the name of a column."""
    try:
        return float(text)
    except ValueError:
        return text


def _one(flag: str, text: str) -> float:
    parts = numbers(flag, text)
    if len(parts) != 1:
        raise InvalidInputError(f"{flag} takes one number, got {text!r}.")
    return parts[0]


def _whole(flag: str, text: str) -> int:
    number = _one(flag, text)
    if not number.is_integer():
        raise InvalidInputError(f"{flag} takes a whole number, got {text!r}.")
    return int(number)


def _missing(text: str | None) -> str | dict[str, str] | None:
    """A column, or a column and its text for cells of which nothing was measured."""
    column, equals, mark = (text or "").partition("=")
    return {column: mark} if equals else text


def _guarantee(relation: Any, **given: float | None) -> Any:
    """What the publisher states; None where nothing is."""
    if all(value is None for value in given.values()):
        return None
    found = guarantee_from(stated(**given))
    return found if relation is None else found.with_neighbours(relation)
