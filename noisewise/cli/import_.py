"""`noisewise import`: a published table becomes a release that the other commands read.

The options are those of the readers in Python, under the same names. A reader says itself what it
takes and needs: its signature is asked.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise._core.files import require_new
from noisewise.cli import show
from noisewise.cli.import_options import ImportOptions
from noisewise.cli.options import optional, with_options
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
threshold are not in the file, --cells lists all cells that are public:
without it one would select on the outcome.
"""

_FLAGS = {
    "labels": "--label",
    "columns": "--column",
    "invariants": "--invariant",
    "geocodes": "--geocode",
}
"""Options that are given once for each name, and so are named after one."""


@with_options(ImportOptions)
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
    out: Annotated[Path, optional("The release; never overwritten.", "The file", "--out", "-o")],
    given: ImportOptions,
    as_json: show.Json = False,
) -> None:
    """Read a published table into a release: CSV, Parquet, OpenDP, Wikimedia, US Census.

    What is stated, such as --epsilon, stays marked as the publisher's word.
    """
    from noisewise.readers.reading import reader_of

    reader, arguments = reader_of(source), given.arguments()
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


def _present(published: Release, out: Path, as_json: bool) -> None:
    """Show the release, for people or as JSON."""
    if as_json:
        guarantee = None if published.guarantee is None else published.guarantee.to_spec()
        shown = {"out": str(out), "values": list(published.values), "guarantee": guarantee}
        show.print_json(shown | {"guarantee_is_stated": published.guarantee_is_stated})
        return
    show.console().print(repr(published), soft_wrap=True)
    show.say(f"\nSaved to {out}.")
