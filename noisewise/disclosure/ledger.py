"""What a curator has spent on one dataset, in a file that refuses to pass a stated limit."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noisewise._files import (
    as_path,
    dump_json,
    read_json,
    reading,
    require_keys,
    require_schema,
    require_text,
    write_atomically,
)
from noisewise.errors import (
    BudgetError,
    ConversionError,
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    ReleaseError,
)
from noisewise.mechanisms.guarantees import (
    AbstractGuarantee,
    ApproximateDP,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
    compose,
    guarantee_from_spec,
)

_SCHEMA = "noisewise.ledger"
_SCHEMA_VERSION = 1
_LOCK_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class Entry:
    """One release: what it was about and what it cost."""

    description: str
    guarantee: AbstractGuarantee


class Ledger:
    """A file that adds up the guarantees spent on one dataset.

    The limit and the privacy unit are fixed when the file is made; later `Ledger(path)` is enough, and a different
    limit is refused. `spend` reads, checks and writes under a lock, so that two processes never spend the last budget
    twice. An entry once written is never taken back: a release that fails afterwards stays paid for.

    Guarantees add up by `compose`; the sum must imply the limit. Zero-concentrated spending under an (epsilon, delta)
    limit is converted once, as a whole.

    >>> import tempfile, noisewise as nw
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(folder.name + "/ledger.json", limit=nw.PureDP(1.0))
    >>> ledger.spend(nw.PureDP(0.75), "mean income")
    >>> ledger.remaining()
    PureDP(epsilon=0.25)
    >>> ledger.spend(nw.PureDP(0.5), "histogram of ages")
    Traceback (most recent call last):
    ...
    noisewise.errors.BudgetError: ledger.json would pass its limit: spent PureDP(epsilon=0.75), asked for \
PureDP(epsilon=0.5), limit PureDP(epsilon=1.0). Nothing was spent.
    >>> folder.cleanup()
    """

    def __init__(self, path: Any, limit: AbstractGuarantee | None = None, *, privacy_unit: str | None = None) -> None:
        self._path = as_path(path)
        if limit is not None and not isinstance(limit, AbstractGuarantee):
            raise InvalidTypeError(f"limit must be a guarantee such as PureDP(1.0), got {type(limit).__name__}.")
        unit = None if privacy_unit is None else require_text(privacy_unit, "privacy_unit")
        if not self._path.exists():
            if limit is None:
                raise InvalidInputError(f"There is no ledger {self._path}: to begin one, pass limit=PureDP(1.0), say.")
            with _exclusive(self._path):
                if not self._path.exists():
                    self._write(limit, unit or "person", (), overwrite=False)
        self._limit, self._privacy_unit, _ = self._read()
        if limit is not None and limit != self._limit:
            raise BudgetError(f"{self._path.name} has the limit {self._limit!r}, not {limit!r}: it cannot be changed.")
        if unit is not None and unit != self._privacy_unit:
            raise BudgetError(f"{self._path.name} counts per {self._privacy_unit!r}, not per {unit!r}: use another.")

    @property
    def path(self) -> Path:
        """Where the ledger is."""
        return self._path

    @property
    def limit(self) -> AbstractGuarantee:
        """What may be spent in all."""
        return self._limit

    @property
    def privacy_unit(self) -> str:
        """Whose privacy is counted."""
        return self._privacy_unit

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All releases so far, as the file has them now."""
        return self._read()[2]

    @property
    def spent(self) -> AbstractGuarantee:
        """The composed guarantee of all entries; zero, in the limit's kind, if there are none."""
        return _total(self.entries, self._limit)

    def remaining(self) -> AbstractGuarantee:
        """A guarantee that can still be spent, in the kind of what was spent (of the limit, if nothing was)."""
        return _difference(self._limit, self.spent)

    def spend(self, guarantee: AbstractGuarantee, description: str = "") -> None:
        """Write down a release, or raise `BudgetError` and change nothing."""
        if not isinstance(guarantee, AbstractGuarantee):
            raise InvalidTypeError(f"spend(...) takes a guarantee such as PureDP(1.0), got {type(guarantee).__name__}.")
        entry = Entry(require_text(description, "description", empty=True), guarantee)
        with _exclusive(self._path):
            limit, unit, entries = self._read()
            self._check(limit, entries, entry)
            self._write(limit, unit, (*entries, entry), overwrite=True)

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r}, limit={self._limit!r}, privacy_unit={self._privacy_unit!r})"

    def _check(self, limit: AbstractGuarantee, entries: tuple[Entry, ...], entry: Entry) -> None:
        try:
            fits = compose([e.guarantee for e in (*entries, entry)]).within(limit)
        except ConversionError as error:
            raise BudgetError(
                f"{self._path.name} cannot compare {entry.guarantee!r} with its limit {limit!r}: {error} "
                "Nothing was spent."
            ) from None
        if not fits:
            raise BudgetError(
                f"{self._path.name} would pass its limit: spent {_total(entries, limit)!r}, asked for "
                f"{entry.guarantee!r}, limit {limit!r}. Nothing was spent."
            )

    def _read(self) -> tuple[AbstractGuarantee, str, tuple[Entry, ...]]:
        what = f"The ledger {self._path.name}"
        content = read_json(self._path, "The ledger")
        require_schema(content, _SCHEMA, _SCHEMA_VERSION, what)
        require_keys(content, ("schema", "schema_version", "limit", "privacy_unit", "entries"), what)
        with reading(what):
            if not isinstance(content["entries"], list):
                raise FileFormatError("entries must be a list.")
            limit = guarantee_from_spec(content["limit"])
            entries = tuple(_entry(item) for item in content["entries"])
            _total(entries, limit).within(limit)  # raises where the kinds cannot be compared
            return limit, require_text(content["privacy_unit"], "privacy_unit"), entries

    def _write(self, limit: AbstractGuarantee, unit: str, entries: tuple[Entry, ...], *, overwrite: bool) -> None:
        content = {
            "schema": _SCHEMA,
            "schema_version": _SCHEMA_VERSION,
            "limit": limit.to_spec(),
            "privacy_unit": unit,
            "entries": [{"description": e.description, "guarantee": e.guarantee.to_spec()} for e in entries],
        }
        write_atomically(self._path, dump_json(content), overwrite=overwrite)


def _entry(item: Any) -> Entry:
    require_keys(item, ("description", "guarantee"), "An entry")
    return Entry(require_text(item["description"], "description", empty=True), guarantee_from_spec(item["guarantee"]))


def _total(entries: tuple[Entry, ...], limit: AbstractGuarantee) -> AbstractGuarantee:
    if not entries:
        return type(limit)(*(0.0 for _ in dataclasses.fields(limit)))
    return compose([entry.guarantee for entry in entries])


def _difference(limit: AbstractGuarantee, spent: AbstractGuarantee) -> AbstractGuarantee:
    """What composes with `spent` to the limit, in the kind of `spent`; never more than that, never below zero."""
    if isinstance(limit, ApproximateDP) and isinstance(spent, (ZeroConcentratedDP, GaussianDP)):
        limit = type(spent).from_approximate(limit)
    if isinstance(limit, ZeroConcentratedDP):
        return ZeroConcentratedDP(max(0.0, limit.rho - spent.to(ZeroConcentratedDP).rho))
    if isinstance(limit, GaussianDP):
        return GaussianDP(math.sqrt(max(0.0, limit.mu**2 - spent.to(GaussianDP).mu ** 2)))
    if isinstance(limit, ApproximateDP):
        part = spent.to(ApproximateDP)
        return ApproximateDP(max(0.0, limit.epsilon - part.epsilon), max(0.0, limit.delta - part.delta))
    return PureDP(max(0.0, limit.to(PureDP).epsilon - spent.to(PureDP).epsilon))


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold `path`.lock; wait for another holder, but not for ever."""
    try:
        import fcntl
    except ImportError:
        raise ReleaseError("A ledger needs POSIX file locks, which this system does not have.") from None
    try:
        lock = path.with_name(path.name + ".lock").open("a")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be locked: {error.strerror}.") from None
    with lock:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ReleaseError(f"{path} is locked by another process: try again.") from None
                time.sleep(0.005)
            except OSError as error:
                raise InvalidInputError(f"{path} cannot be locked: {error.strerror}.") from None
        yield
