"""What a ledger's file holds: its limit, its unit, its entries, and the seal over them."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import re
from pathlib import Path
from typing import Any

from noisewise._core.arrays import describe
from noisewise._core.json_files import reading, require_keys, require_schema, require_text
from noisewise._core.neighbours import REPLACE_ONE
from noisewise.disclosure import accounting, seal
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms.guarantees import AbstractGuarantee, guarantee_from_spec

_SCHEMA = "noisewise.ledger"
_SCHEMA_VERSION = 2  # of the layout of files
_UNSEALED = 1
"""The version of files without id and seal, which are still read, and sealed when something is
spent.
"""
_FACTS = ("schema", "schema_version", "limit", "privacy_unit", "entries")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One release: what it was about and what it cost.

    Args:
        description: A public line.
        guarantee: What the mechanism implies.
        requested: What was asked for, if that is known: it must follow from the guarantee.
        query: The name of the query's type.
        time: When the entry was written, in UTC.

    Raises:
        InvalidInputError: If a field is not a line of text, or the guarantee does not imply the
            request.
    """

    description: str
    guarantee: AbstractGuarantee
    requested: AbstractGuarantee | None = None
    query: str | None = None
    time: str = dataclasses.field(default_factory=lambda: _now())

    def __post_init__(self) -> None:
        require_text(self.description, "description", empty=True)
        for guarantee in (self.guarantee, self.requested or self.guarantee):
            if not isinstance(guarantee, AbstractGuarantee):
                raise InvalidTypeError(
                    f"A ledger takes guarantees such as PureDP(1.0), got {describe(guarantee)}."
                )
        if self.requested is not None and not accounting.implies(self.guarantee, self.requested):
            raise InvalidInputError(
                f"{self.requested!r} does not follow from {self.guarantee!r}: leave requested out,"
                " or correct it."
            )
        if self.query is not None:
            require_text(self.query, "query")
        _require_utc(self.time)

    @property
    def cost(self) -> accounting.Cost:
        """What `accounting` adds up."""
        return self.guarantee, self.requested

    def to_spec(self) -> dict[str, Any]:
        """The JSON-ready entry."""
        return {
            "time": self.time,
            "description": self.description,
            "query": self.query,
            "guarantee": self.guarantee.to_spec(),
            "requested": None if self.requested is None else self.requested.to_spec(),
        }


@dataclasses.dataclass(frozen=True)
class LedgerContent:
    """What a ledger's file holds.

    Attributes:
        id: Its random name, None in files of the first version.
        limit: What may be spent in all.
        privacy_unit: Whose privacy is counted.
        entries: All releases so far.
    """

    id: str | None
    limit: AbstractGuarantee
    privacy_unit: str
    entries: tuple[Entry, ...]

    @functools.cached_property
    def links(self) -> list[str]:
        """The chain over the entries."""
        facts = {"limit": self.limit.to_spec(), "privacy_unit": self.privacy_unit}
        return seal.chain(str(self.id), facts, [entry.to_spec() for entry in self.entries])

    def kept(self, path: Path) -> seal.Kept:
        """What is kept apart from the file."""
        return seal.Kept(str(self.id), len(self.entries), self.links[-1], str(path))

    def to_spec(self) -> dict[str, Any]:
        """The JSON-ready file."""
        return {
            "schema": _SCHEMA,
            "schema_version": _SCHEMA_VERSION,
            "id": self.id,
            "limit": self.limit.to_spec(),
            "privacy_unit": self.privacy_unit,
            "entries": [entry.to_spec() for entry in self.entries],
            "seal": self.links[-1],
        }


def read_content(value: dict[str, Any], what: str) -> tuple[LedgerContent, str | None]:
    """What a file holds, and the seal that it carries.

    Args:
        value: The object in the file.
        what: The file, as messages name it.

    Returns:
        The content, and the last link of its chain, None in files of the first version.

    Raises:
        FileFormatError: If it is altered or foreign.
    """
    unsealed = value.get("schema_version") == _UNSEALED
    require_schema(value, _SCHEMA, _UNSEALED if unsealed else _SCHEMA_VERSION, what)
    require_keys(value, _FACTS if unsealed else (*_FACTS, "id", "seal"), what)
    with reading(what):
        if not isinstance(value["entries"], list):
            raise FileFormatError("entries must be a list.")
        if not unsealed and not (
            isinstance(value["id"], str) and re.fullmatch("[0-9a-f]{32}", value["id"])
        ):
            raise FileFormatError("id must be 32 hexadecimal digits.")
        limit = guarantee_from_spec(value["limit"])
        entries = tuple(_entry(item) for item in value["entries"])
        accounting.spent(costs_of(entries), limit)  # raises where the kinds cannot be compared
        unit = require_text(value["privacy_unit"], "privacy_unit")
        if not limit.promises:
            raise FileFormatError("its limit promises nothing.")
        if limit.neighbours not in (REPLACE_ONE, limit.neighbours.of_unit(unit)):
            raise FileFormatError("the unit of its limit is not its privacy_unit.")
        return LedgerContent(value.get("id"), limit, unit, entries), value.get("seal")


def _entry(item: Any) -> Entry:
    require_keys(item, ("time", "description", "query", "guarantee", "requested"), "An entry")
    requested = None if item["requested"] is None else guarantee_from_spec(item["requested"])
    return Entry(
        **item | {"guarantee": guarantee_from_spec(item["guarantee"]), "requested": requested}
    )


def costs_of(entries: tuple[Entry, ...]) -> list[accounting.Cost]:
    """What `accounting` adds up."""
    return [entry.cost for entry in entries]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _require_utc(text: Any) -> None:
    """Refuse what is not a date and time in UTC."""
    with contextlib.suppress(TypeError, ValueError):
        if datetime.datetime.fromisoformat(text).utcoffset() == datetime.timedelta(0):
            return
    raise InvalidInputError(
        "time must be a date and time in UTC, such as 2026-01-31T12:00:00+00:00."
    )
