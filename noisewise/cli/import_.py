"""`noisewise import`: a published table becomes a release that the other commands read.

The options are those of the readers in Python, under the same names. A reader says itself what it
takes and needs: its signature is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise._core.files import require_new
from noisewise.cli import show
from noisewise.cli.option_texts import (
    assignments,
    guarantee_from,
    neighbours_if_given,
    numbers,
    stated,
)
from noisewise.cli.options import optional
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    from noisewise.disclosure import Release

EPILOG = r"""
Examples:

  noisewise import table stays.csv --value count --label district \
      --mechanism discrete-laplace --scale 3 --threshold 10 --absent X \
      --out stays.json

  noisewise import table views.csv --value views --label page --label date \
      --by noise --mechanism old=laplace --mechanism new=discrete-gaussian \
      --scale old=30 --scale new=18.2 --threshold least --absent "" \
      --missing status=no_file --out views.json

  noisewise import opendp measurement.json --output released.json \
      --sensitivity 10 --neighbours add-remove --out sum.json

  noisewise import wikimedia 2023-10-24.tsv --cells pages.csv --out day.json

  noisewise import census-gls estimates.txt --query total --out tracts.json

  noisewise import census-nmf part.parquet --query total \
      --variance-is-sigma-squared --out counties.json

What a file does not say is asked for, never guessed. Where numbers below a
threshold are not in the file, --cells lists all cells that are public: without
it one would select on the outcome.
"""

_FILE, _NOISE, _CELLS, _PRIVACY = "The file", "The noise", "The cells", "The guarantee"
"""Panels of the help text."""
_FLAGS = {
    "labels": "--label",
    "columns": "--column",
    "invariants": "--invariant",
    "geocodes": "--geocode",
}
"""Options that are given once for each name, and so are named after one."""
_EXAMPLES = {
    "--mechanism": "old=laplace",
    "--scale": "old=30",
    "--threshold": "old=450",
    "--base": "small=3",
    "--risk": "NZ=lower",
}
"""What to write where an option is given once for each entry."""


def import_release(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="table, opendp, wikimedia, census-gls or census-nmf.",
            show_default=False,
        ),
    ],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What was published.", show_default=False)
    ],
    out: Annotated[Path, optional("The release; never overwritten.", _FILE, "--out", "-o")],
    value: Annotated[str | None, optional("The column of numbers.", _FILE)] = None,
    labels: Annotated[
        list[str] | None, optional("A column that names a cell.", _FILE, "--label", "-l")
    ] = None,
    columns: Annotated[
        list[str] | None, optional("A column of a query that is read.", _FILE, "--column", "-c")
    ] = None,
    query: Annotated[list[str] | None, optional("A query of a census file.", _FILE)] = None,
    geocodes: Annotated[
        list[str] | None, optional("An area of a census file; all by default.", _FILE, "--geocode")
    ] = None,
    output: Annotated[
        Path | None, optional("What an OpenDP measurement or query released.", _FILE)
    ] = None,
    date: Annotated[
        str | None,
        optional("The day, if the file is not named after it.", _FILE, metavar="YYYY-MM-DD"),
    ] = None,
    separator: Annotated[str | None, optional("Between cells; a comma by default.", _FILE)] = None,
    mechanism: Annotated[
        list[str] | None,
        optional(
            "laplace, gaussian, discrete-laplace, discrete-gaussian, exact or rounded.",
            _NOISE,
            metavar="[ENTRY=]NAME",
        ),
    ] = None,
    by: Annotated[
        str | None,
        optional("The column whose entries choose among several mechanisms.", _NOISE),
    ] = None,
    scale: Annotated[
        list[str] | None,
        optional("The scale: a number, or a column.", _NOISE, metavar="[ENTRY=]NUMBER|COLUMN"),
    ] = None,
    sd: Annotated[str | None, optional("The column of standard deviations.", _NOISE)] = None,
    variance: Annotated[str | None, optional("The column of variances.", _NOISE)] = None,
    variance_is_sigma_squared: Annotated[
        bool | None,
        optional("Confirm what it is.", _NOISE, "--variance-is-sigma-squared"),
    ] = None,
    base: Annotated[
        list[str] | None,
        optional("What counts were rounded to.", _NOISE, metavar="[ENTRY=]NUMBER"),
    ] = None,
    atom: Annotated[
        str | None, optional("The type of OpenDP's numbers, such as i64 or f64.", _NOISE)
    ] = None,
    signed: Annotated[
        bool | None,
        optional("Whether counts of a query may be negative.", _NOISE, "--signed/--unsigned"),
    ] = None,
    risk: Annotated[
        list[str] | None,
        optional("lower, medium or higher; or CODE=RISK.", _NOISE, metavar="RISK"),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        optional(
            "The least number that is published, or the column that has it.",
            _CELLS,
            metavar="[ENTRY=]NUMBER|COLUMN",
        ),
    ] = None,
    absent: Annotated[str | None, optional("What stands for suppressed cells.", _CELLS)] = None,
    missing: Annotated[
        str | None,
        optional(
            "The column that says where nothing was measured: true and false, or the text that"
            " says so.",
            _CELLS,
            metavar="COLUMN[=TEXT]",
        ),
    ] = None,
    cells: Annotated[Path | None, optional("A file that lists all public cells.", _CELLS)] = None,
    constraints: Annotated[
        Path | None, optional("The file of a census's constraints.", _CELLS)
    ] = None,
    invariants: Annotated[
        list[str] | None,
        optional("A constraint that is read as cells without noise.", _CELLS, "--invariant"),
    ] = None,
    sensitivity: Annotated[
        list[str] | None,
        optional("The largest change between neighbours.", _PRIVACY, metavar="[ENTRY=]NUMBER"),
    ] = None,
    neighbours: Annotated[str | None, optional("replace-one or add-remove.", _PRIVACY)] = None,
    unit: Annotated[str | None, optional("Whose records they are; a person's.", _PRIVACY)] = None,
    max_contributions: Annotated[
        int | None, optional("With add-remove: the most records of one unit.", _PRIVACY)
    ] = None,
    max_per_cell: Annotated[
        int | None, optional("The most of these in one cell; all by default.", _PRIVACY)
    ] = None,
    epsilon: Annotated[float | None, optional("Stated: pure privacy.", _PRIVACY)] = None,
    delta: Annotated[float | None, optional("Stated, with --epsilon.", _PRIVACY)] = None,
    rho: Annotated[float | None, optional("Stated: zero-concentrated.", _PRIVACY)] = None,
    name: Annotated[str | None, optional("What the table is called.", _FILE)] = None,
    description: Annotated[str | None, optional("A public line about it.", _FILE)] = None,
    as_json: show.Json = False,
) -> None:
    """Read a published table into a release: CSV, Parquet, OpenDP, Wikimedia, US Census.

    What is stated, such as --epsilon, stays marked as the publisher's word.
    """
    from noisewise.readers.reading import reader_of

    reader = reader_of(source)
    relation = neighbours_if_given(neighbours, unit, max_contributions, max_per_cell)
    given = {
        "value": value,
        "labels": labels,
        "columns": columns,
        "query": query[0] if query and len(query) == 1 else query,
        "geocodes": geocodes,
        "output": output,
        "date": date,
        "separator": separator,
        "mechanism": _by_name("--mechanism", mechanism),
        "by": by,
        "scale": _each("--scale", scale, _number_or_column),
        "sd": sd,
        "variance": variance,
        "variance_is_sigma_squared": variance_is_sigma_squared,
        "base": _each("--base", base, _whole),
        "atom": atom,
        "signed": signed,
        "risk": _by_name("--risk", risk),
        "threshold": _each("--threshold", threshold, _number_or_column),
        "absent": absent,
        "missing": _missing(missing),
        "cells": cells,
        "constraints": constraints,
        "invariants": invariants,
        "sensitivity": _each("--sensitivity", sensitivity, _one),
        "neighbours": relation,
        "guarantee": _guarantee(relation, epsilon=epsilon, delta=delta, rho=rho),
        "name": name,
        "description": description,
    }
    arguments = {option: text for option, text in given.items() if text is not None}
    _check(source, inspect.signature(reader.describe), arguments)
    require_new(out)
    published = reader(file, **arguments)
    published.save(out)
    _present(published, out, as_json)


def _check(source: str, signature: inspect.Signature, arguments: dict[str, Any]) -> None:
    """Refuse options that a reader does not take, and name those that it needs."""
    known = [each for each in signature.parameters.values() if each.kind is each.KEYWORD_ONLY]
    for option in arguments:
        if option not in [each.name for each in known]:
            raise InvalidInputError(
                f"noisewise import {source} takes no {_flag(option)}. See noisewise import --help."
            )
    for each in known:
        if each.default is each.empty and each.name not in arguments:
            raise InvalidInputError(
                f"noisewise import {source} needs {_flag(each.name)}: the file does not say it."
            )


def _flag(option: str) -> str:
    """The option of an argument, as it is typed."""
    if option == "guarantee":
        return "--epsilon, --delta or --rho"
    return _FLAGS.get(option, "--" + option.replace("_", "-"))


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


def _present(published: Release, out: Path, as_json: bool) -> None:
    """Show the release, for people or as JSON."""
    if as_json:
        guarantee = None if published.guarantee is None else published.guarantee.to_spec()
        shown = {"out": str(out), "values": list(published.values), "guarantee": guarantee}
        show.print_json(shown | {"guarantee_is_stated": published.guarantee_is_stated})
        return
    show.console().print(repr(published), soft_wrap=True)
    show.say(f"\nSaved to {out}.")
