"""What `noisewise release` shows of the release that it made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noisewise.cli import show

if TYPE_CHECKING:
    from noisewise.disclosure import Ledger, Release


def show_release(published: Release, ledger: Ledger | None, out: Path, as_json: bool) -> None:
    """Show the release and what is left in the ledger: for people, or as JSON.

    Args:
        published: The release.
        ledger: Where its cost was written, if anywhere.
        out: Its file.
        as_json: Whether to print JSON.
    """
    from noisewise._core.neighbours import ReplaceOne
    from noisewise.disclosure.fields import or_none, shown
    from noisewise.disclosure.ledger import rounded

    spent = published.requested or published.guarantee
    if as_json:
        account = None
        if ledger is not None:
            account = {
                name: getattr(ledger, name).to_spec() for name in ("limit", "spent", "remaining")
            }
        values = {
            "names": list(published.names or ()),
            "values": list(map(or_none, published.values)),
        }
        beside = ReplaceOne(published.privacy_unit)
        guarantee = published.guarantee.to_spec(beside=beside)  # type: ignore[union-attr]
        show.print_json({"out": str(out), **values, "guarantee": guarantee, "ledger": account})
        return
    show.console().print(repr(published), soft_wrap=True)
    show.say(f"\nSpent {shown(spent)}; saved to {out}.")  # type: ignore[arg-type]
    if ledger is None:
        show.say(
            "No ledger is kept: --ledger ledger.json --budget 2 adds up what several releases of"
            " these data cost."
        )
    else:
        show.say(
            f"{ledger.path.name}: {rounded(ledger.spent)!r} of {ledger.limit!r} is spent,"
            f" {rounded(ledger.remaining)!r} is left."
        )
