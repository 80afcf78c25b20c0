"""`noisewise ledger`: what was spent on one data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise.cli import exits, show

if TYPE_CHECKING:
    from noisewise.disclosure import Entry

EPILOG = """
Example:

  noisewise ledger ledger.json
"""


def ledger(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file that release --ledger named.", show_default=False
        ),
    ],
    as_json: show.Json = False,
) -> None:
    """Show the limit of a ledger, what is spent and left, and each release."""
    import warnings

    from noisewise.disclosure import Ledger
    from noisewise.disclosure.ledger import rounded

    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        found = Ledger(file)
    for warning in noticed:
        exits.tell(f"Warning: {warning.message}")
    account = {name: rounded(getattr(found, name)) for name in ("limit", "spent", "remaining")}
    if as_json:
        specs = {name: guarantee.to_spec() for name, guarantee in account.items()}
        entries = [entry.to_spec() for entry in found.entries]
        show.print_json({**specs, "privacy_unit": found.privacy_unit, "entries": entries})
        return
    show.say(
        f"{account['spent']!r} of {account['limit']!r} is spent, per {found.privacy_unit}; "
        f"{account['remaining']!r} is left."
    )
    if found.entries:
        show.table(
            ["when", "what", "cost"], [_row(entry) for entry in found.entries], numbers=False
        )


def _row(entry: Entry) -> list[Any]:
    """When, what and at which cost: one row of the table."""
    return [
        entry.time.replace("T", " ").removesuffix("+00:00"),
        entry.description,
        repr(entry.requested or entry.guarantee),
    ]
