r"""How a ledger notices that entries were taken out of it, or that it is a copy.

The entries of a ledger are a chain: with h_0 the sha256 of its id, limit and unit, h_i is that of
h_{i-1} and entry i. The file carries the last of them. The id, the number of entries and the last h
are kept in three other places as well:

- the lock beside the ledger shows that entries were removed, or that the ledger was put back to an
  earlier state, deleted, or exchanged for another;
- the user's state folder, by id and with the path, shows the same after the whole folder was put
  back, and a copy in another place;
- the user's state folder, by path, shows that a ledger was deleted together with its lock, and
  started again in the same folder.

This is not a lock against the owner of the machine, who can edit all of them: `SECURITY.md` says
what that means.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from noisewise._core import local_records
from noisewise._core.json_files import json_digest, json_line, parse_json, read_json
from noisewise._core.regular_files import read_regular
from noisewise.errors import BudgetError, NoisewiseError

_KIND, _PLACES = "ledgers", "ledger-places"  # folders of records, by id and by path
_MAX_LOCK = 4096
"""Bytes of a lock: what is kept in one has some 150."""
_ID, _HASH = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class Kept:
    """What is known of a ledger apart from its file.

    Attributes:
        id: Its random name.
        count: How many entries it had.
        head: The last link of its chain.
        path: Where it was.
    """

    id: str
    count: int
    head: str
    path: str = ""


def chain(ledger: str, facts: dict[str, Any], entries: Iterable[dict[str, Any]]) -> list[str]:
    """The links h_0, h_1, ... of a ledger, one more than there are entries.

    Args:
        ledger: Its id.
        facts: Its limit and unit, JSON-ready.
        entries: Its entries, JSON-ready.
    """
    links = [json_digest({"id": ledger, **facts})]
    for entry in entries:
        links.append(json_digest({"before": links[-1], **entry}))
    return links


def lock_path(path: Path) -> Path:
    """The file beside a ledger that is locked while it is written, and keeps its count."""
    return path.with_name(path.name + ".lock")


def kept_beside(path: Path) -> Kept | None:
    """What the lock of a ledger says, None if nothing that can be read.

    Args:
        path: The ledger.
    """
    with contextlib.suppress(NoisewiseError):
        return _kept(
            parse_json(
                read_regular(lock_path(path), limit=_MAX_LOCK, follow_links=False), "The lock"
            )
        )
    return None


def kept_at_home(ledger: str) -> Kept | None:
    """What the user's state folder says of a ledger, None if nothing.

    Args:
        ledger: Its id.
    """
    return _kept(local_records.read_record(_KIND, ledger)) if _ID.fullmatch(ledger) else None


def kept_here(path: Path) -> Kept | None:
    """What the user's state folder says of the ledger at this path.

    A folder that was made again is another place.

    Args:
        path: The ledger.

    Returns:
        None if there was none here, or it was moved away since.
    """
    record = local_records.read_record(_PLACES, _place(path))
    if record is None or record.get("folder") != _folder(path):
        return None
    kept = _kept(record)
    now = None if kept is None else kept_at_home(kept.id)
    return kept if now is not None and now.path == str(path) else None


def _place(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _folder(path: Path) -> list[int]:
    """Which folder a path lies in, whatever it is called."""
    with contextlib.suppress(OSError):
        found = path.parent.stat()
        return [found.st_dev, found.st_ino]
    return []


def keep(lock: int, kept: Kept) -> None:
    """Record a ledger in its lock and in the user's state folder; where that is impossible, the
    ledger does without.

    Args:
        lock: The descriptor of the open lock.
        kept: What is recorded.
    """
    text = json_line({"id": kept.id, "count": kept.count, "head": kept.head}).encode()
    with contextlib.suppress(OSError):
        os.pwrite(lock, text.ljust(os.fstat(lock).st_size), 0)  # never empty in between
        os.ftruncate(lock, len(text))
    record = dataclasses.asdict(kept)
    local_records.write_record(_KIND, kept.id, record)
    path = Path(kept.path)
    local_records.write_record(_PLACES, _place(path), {**record, "folder": _folder(path)})


def check(path: Path, links: list[str], ledger: str, places: Iterable[Kept | None]) -> None:
    """Refuse a ledger that lacks entries it had, or that stands in the place of another.

    Args:
        path: The ledger.
        links: Its chain.
        ledger: Its id.
        places: What is known of it, from each place.

    Raises:
        BudgetError: If one of them does not fit.
    """
    for kept in places:
        if kept is None:
            continue
        if kept.id != ledger and kept.count > 0:
            raise BudgetError(
                f"{path.name} is not the ledger that was here, which had {kept.count} entries:"
                " restore that one, or rename this one."
            )
        if kept.id == ledger and (len(links) <= kept.count or links[kept.count] != kept.head):
            raise BudgetError(
                f"{path.name} was put back to an earlier state, or entries were removed: it has had"
                f" {kept.count} of them. Put back the latest copy; what was spent stays spent."
            )


def original(path: Path, ledger: str) -> Path:
    """The ledger that a file is: itself, or the one that it is another name of.

    A ledger that was moved, so that nothing is where it stood, is itself.

    Args:
        path: The file.
        ledger: The id in it.

    Raises:
        BudgetError: If it is a copy of a ledger that is still there.
    """
    kept = kept_at_home(ledger)
    if kept is None or not kept.path or Path(kept.path) == path:
        return path
    there = Path(kept.path)
    with contextlib.suppress(OSError):
        if there.samefile(path):
            return there
    if _id_of(there) == ledger:
        raise BudgetError(
            f"{path} is a copy of {there}: a budget that is spent in two places is overspent. Use"
            " that one; to use this copy instead, move the other away."
        )
    return path


def _id_of(path: Path) -> Any:
    with contextlib.suppress(NoisewiseError):
        return read_json(path, "The ledger").get("id")
    return None


def _kept(value: dict[str, Any] | None) -> Kept | None:
    if value is None:
        return None
    ledger, count, head, path = (value.get(name) for name in ("id", "count", "head", "path"))
    texts = (
        isinstance(ledger, str)
        and _ID.fullmatch(ledger)
        and isinstance(head, str)
        and _HASH.fullmatch(head)
    )
    if not texts or type(count) is not int or count < 0:
        return None
    return Kept(ledger, count, head, path if isinstance(path, str) else "")  # type: ignore[arg-type]
