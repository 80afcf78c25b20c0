"""`noisewise release`: publish a statistic of confidential data, with exact noise and a ledger.

Nothing that it prints depends on the data: options are checked first, then the file's public shape;
only `PlannedRelease.draw` reads cells.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from noisewise._core.files import require_new
from noisewise.cli import show
from noisewise.cli.catalogue import RELEASED
from noisewise.cli.exits import tell
from noisewise.cli.option_texts import (
    assignments,
    bounds_apart,
    guarantee_from,
    labels_of,
    limit_of,
    neighbours_from,
    numbers,
    pair,
    stated,
)
from noisewise.cli.options import optional
from noisewise.cli.show_release import show_release
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    from noisewise.cli.prepared_queries import Prepared
    from noisewise.cli.released_queries import Asked
    from noisewise.disclosure import Ledger, Release

EPILOG = r"""
Examples:

  noisewise release --data stays.csv --query mean --bounds 0 30 \
      --epsilon 1 --out mean.json

  noisewise release --data people.csv --query histogram --column age \
      --edges 0,18,65,120 --epsilon 0.5 --out ages.json \
      --ledger ledger.json --budget 2

  noisewise release --data people.csv --query contingency-table \
      --column sex --levels sex=f,m --column smoker --levels smoker=no,yes \
      --epsilon 1 --out table.json

  noisewise release --data people.csv --query regression-moments \
      --outcome income --predictors age,size --bounds-of age=0,100 \
      --bounds-of size=1,8 --bounds-of income=0,200 --rho 0.1 \
      --out moments.json

  noisewise release --data visits.csv --query sum --column minutes \
      --bounds 0 60 --neighbours add-remove --max-contributions 5 \
      --epsilon 1 --out minutes.json

  noisewise release --data views.csv --query histogram --column hour \
      --edges 0,6,12,18,24 --label hour=night,morning,afternoon,evening \
      --threshold 90 --neighbours add-remove \
      --epsilon 1 --out hours.json

  noisewise release --data town.csv --query infection-curve --trials 1000 \
      --epsilon 10 --out curve.json

The data are a CSV file: names of columns first, then one line per person.
Bounds, edges and levels are public: choose them without looking at the data.
Neighbours differ in one line of the data; the number of lines is public.
With --neighbours add-remove one of them lacks the lines of one unit, and the
number of lines is confidential.
Clean the data first: cells that are missing or cannot be read are refused
without a word about them, and after the budget is spent.
"""

_LONGEST = 1000
"""Characters of a description in a ledger, as many as it takes."""
_WHAT, _QUERY, _PRIVACY, _LEDGER = "What", "The query", "The guarantee", "The ledger"
"""Panels of the help text."""


class ReleaseCommand(TyperCommand):
    """The command, which reads `--bounds 0,100` and `--bounds=0,100` as `--bounds 0 100`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return TyperCommand.parse_args(self, ctx, list(bounds_apart(args)))


def _complete_query(incomplete: str) -> list[str]:
    """Queries that start with what is typed, for the shell."""
    return [name for name in RELEASED.values() if name.startswith(incomplete)]


def release(
    data: Annotated[
        Path,
        optional("The confidential data, a CSV file.", _WHAT),
    ],
    query: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(RELEASED.values())}.",
            autocompletion=_complete_query,
            rich_help_panel=_WHAT,
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        optional("The file to publish; never overwritten.", _WHAT, "--out", "-o"),
    ],
    columns: Annotated[
        list[str] | None,
        optional("A column that the query uses.", _QUERY, "--column", "-c"),
    ] = None,
    outcome: Annotated[
        str | None,
        optional("The response, or the class.", _QUERY),
    ] = None,
    predictors: Annotated[
        list[str] | None,
        optional("What predicts it: names, comma-separated.", _QUERY),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        optional("Values are clamped to these.", _QUERY, metavar="LOW HIGH"),
    ] = None,
    bounds_of: Annotated[
        list[str] | None,
        optional("Bounds of one column.", _QUERY, metavar="COLUMN=LOW,HIGH"),
    ] = None,
    bins: Annotated[
        int | None,
        optional("Bins of equal width between the bounds.", _QUERY, min=2),
    ] = None,
    edges: Annotated[
        str | None,
        optional("Edges of bins.", _QUERY, metavar="A,B,C,..."),
    ] = None,
    levels: Annotated[
        list[str] | None,
        optional("All values a column may have.", _QUERY, metavar="COLUMN=A,B,..."),
    ] = None,
    candidates: Annotated[
        str | None,
        optional("Values a median may take.", _QUERY, metavar="A,B,C,..."),
    ] = None,
    trials: Annotated[
        int | None,
        optional("Publish counts out of this many, by the padded binomial.", _QUERY, min=1),
    ] = None,
    cell_labels: Annotated[
        list[str] | None,
        optional(
            "A label for each published number, in their order.",
            _QUERY,
            "--label",
            "-l",
            metavar="DIMENSION=A,B,...",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        optional("Publish a noisy number only if it is at least this; others are absent.", _QUERY),
    ] = None,
    epsilon: Annotated[
        float | None,
        optional("Pure differential privacy.", _PRIVACY),
    ] = None,
    delta: Annotated[
        float | None,
        optional("With --epsilon: approximate, by Gaussian noise.", _PRIVACY),
    ] = None,
    rho: Annotated[
        float | None,
        optional("Zero-concentrated, by Gaussian noise.", _PRIVACY),
    ] = None,
    neighbours: Annotated[
        str,
        typer.Option(
            help="replace-one: the number of lines is public; add-remove: it is confidential.",
            rich_help_panel=_PRIVACY,
        ),
    ] = "replace-one",
    unit: Annotated[
        str, typer.Option(help="What a line of the data stands for.", rich_help_panel=_PRIVACY)
    ] = "person",
    max_contributions: Annotated[
        int | None,
        optional(
            "With add-remove: the most lines of one unit. Leave out what is beyond.",
            _PRIVACY,
            min=1,
        ),
    ] = None,
    max_per_cell: Annotated[
        int | None,
        optional(
            "The most of these lines that fall into one cell; all by default.", _PRIVACY, min=1
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        optional("Where to keep what was spent on these data.", _LEDGER),
    ] = None,
    budget: Annotated[
        str | None,
        optional(
            "The limit of a new ledger; it cannot be changed later.",
            _LEDGER,
            metavar="EPSILON[,DELTA] or rho=RHO",
        ),
    ] = None,
    description: Annotated[
        str,
        optional("A public line about the release.", _WHAT),
    ] = "",
    as_json: show.Json = False,
) -> None:
    """Publish a statistic of confidential data safely: exact noise, a ledger.

    The file holds the noisy values, the mechanism and public facts; never the
    statistic, never a seed. Nothing that is printed, errors included, shows the
    data.
    """
    from noisewise.cli import released_queries as queries
    from noisewise.cli.tables import open_table

    relation = neighbours_from(neighbours, unit, max_contributions, max_per_cell)
    asked = queries.Asked(
        query=query.replace("_", "-"),
        columns=tuple(columns or ()),
        outcome=outcome,
        predictors=tuple(name.strip() for text in predictors or () for name in text.split(",")),
        bounds=bounds,
        bounds_of={
            name: pair(text, name)
            for name, text in assignments("--bounds-of", bounds_of, example="age=0,100").items()
        },
        bins=bins,
        edges=numbers("--edges", edges),
        levels={name: labels_of(text) for name, text in assignments("--levels", levels).items()},
        candidates=numbers("--candidates", candidates),
        trials=trials,
        threshold=threshold,
        number_is_public=relation.has_public_number,
    )
    asked.check()
    require_new(out)
    limit = limit_of(budget, ledger)
    given = stated(epsilon=epsilon, delta=delta, rho=rho)
    table = open_table(data, number_is_public=relation.has_public_number)
    prepared = queries.prepare(asked, table)
    given_labels = assignments("--label", cell_labels, example="age=child,adult")
    prepared = prepared.with_labels({name: labels_of(text) for name, text in given_labels.items()})
    if ledger is not None and ledger.absolute() == out.absolute():
        raise InvalidInputError("--out and --ledger must be two files.")
    published, kept = _publish(prepared, asked, given, out, (ledger, limit, relation), description)
    show_release(published, kept, out, as_json)


def _publish(
    prepared: Prepared,
    asked: Asked,
    given: dict[str, float],
    out: Path,
    account: Any,
    description: str,
) -> tuple[Release, Ledger | None]:
    """Make the release and save it.

    Args:
        prepared: The query, and how to read its cells.
        asked: The options that describe the query.
        given: The parameters of the guarantee.
        out: The file of the release.
        account: The path of the ledger, its limit and the neighbours.
        description: A public line.

    Returns:
        The release, and the ledger where one is kept.

    Raises:
        InvalidInputError: If the release cannot be saved; it is printed then, since it is paid for.
    """
    from noisewise.cli.released_mechanisms import padded_binomial, thresholded
    from noisewise.disclosure import Ledger
    from noisewise.disclosure.curator import PlannedRelease

    path, limit, relation = account
    guarantee = guarantee_from(given)
    limit = limit if limit is None else limit.with_neighbours(relation)
    terms: dict[str, Any] = {"guarantee": guarantee}
    if asked.threshold is not None:
        terms = {"mechanism": thresholded(asked.threshold, guarantee, relation, prepared.query)}
    elif asked.trials is not None:
        terms = {"mechanism": padded_binomial(asked.trials, guarantee, prepared.query)}
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        ledger = None if path is None else Ledger(path, limit, privacy_unit=relation.unit)
    for warning in noticed:
        tell(f"Warning: {warning.message}")
    more = {
        "names": prepared.names,
        "labels": prepared.labels,
        "neighbours": relation,
        "description": description,
        "ledger": ledger,
    }
    with (
        PlannedRelease.of(
            prepared.query, **terms, **more, refusal=prepared.refusal, save_to=out
        ) as plan,
        warnings.catch_warnings(record=True) as noticed,
    ):
        warnings.simplefilter("always")
        plan.charge(f"{asked.query} of {', '.join(asked.looked_at)}, to {out.name}"[:_LONGEST])
        published = plan.publish(plan.draw(prepared.read))
    if not plan.saved:  # the budget is spent and the noise drawn: the values must not be lost
        print(published.to_json())
        reasons = " ".join(str(warning.message) for warning in noticed)
        raise InvalidInputError(
            f"{reasons} The release is printed above: save it, because its budget is spent."
        )
    return published, ledger
