"""x -> release: what a curator publishes, how it is made safely, and what it has cost.

`exact_noise` draws (integers, no floating point), `exact_mechanisms` says how each mechanism uses
it, `preparation` prepares the data, `curator` makes the `Release` of `publication`, which `display`
shows. `ledger` keeps what was spent, which `accounting` adds up and `seal` guards.
"""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.disclosure.curator import release
    from noisewise.disclosure.ledger import Ledger
    from noisewise.disclosure.ledger_file import Entry
    from noisewise.disclosure.publication import Release

__all__ = ["Entry", "Ledger", "Release", "release"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Entry": "noisewise.disclosure.ledger_file",
        "Ledger": "noisewise.disclosure.ledger",
        "Release": "noisewise.disclosure.publication",
        "release": "noisewise.disclosure.curator",
    },
)
