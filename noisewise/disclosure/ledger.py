"""What a curator has spent on one dataset, in a file that refuses to pass a stated limit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from noisewise._core.files import PathLike, as_path, write_atomically
from noisewise._core.json_files import (
    dump_json,
    read_json,
    require_text,
)
from noisewise._core.neighbours import DEFAULT_UNIT, REPLACE_ONE, ReplaceOne
from noisewise._core.regular_files import opened_lock
from noisewise.disclosure import accounting, seal
from noisewise.disclosure.fields import about
from noisewise.disclosure.ledger_file import Entry, LedgerContent, costs_of, read_content
from noisewise.errors import (
    BudgetError,
    ConversionError,
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    ReleaseError,
)
from noisewise.mechanisms.guarantees import AbstractGuarantee

_LOCK_SECONDS = 10.0
"""Seconds to wait for another process: writing an entry takes milliseconds."""
_PAUSE = 0.005
"""Seconds between two tries."""


class Ledger:
    """A file that adds up the guarantees spent on one dataset.

    The limit, with its neighbours, and the privacy unit are fixed when the file is made; later
    `Ledger(path)` is enough, and a different limit is refused. `spend` reads, checks and writes
    under a lock, so two processes never spend the last budget twice. An entry is never taken back:
    a release that fails afterwards stays paid for. A file from which entries were removed, that was
    put back to an earlier state, or that is a copy, is refused (`disclosure.seal`).

    How guarantees add up is explained, and proved, in `disclosure.accounting`. Under an (epsilon,
    delta) limit the best of several totals counts: a release asked for as (epsilon, delta) is added
    as that, or as the zero-concentrated guarantee of its noise, whichever leaves more. If results
    decide how much you ask for next, take a limit in PureDP or ZeroConcentratedDP.

    Args:
        path: The file, made where there is none.
        limit: What may be spent in all; needed for a new file.
        privacy_unit: Whose privacy is counted, by default the unit of the limit's neighbours.

    Raises:
        InvalidInputError: If there is no such file, and no limit to start one.
        BudgetError: If its limit or unit is another one, or it is a copy of another ledger.
        FileFormatError: If it was altered.

    >>> import tempfile, noisewise as nw
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(folder.name + "/ledger.json", limit=nw.PureDP(1.0))
    >>> ledger.spend(nw.PureDP(0.75), "mean income")
    >>> ledger.remaining
    PureDP(epsilon=0.25)
    >>> ledger.spend(nw.PureDP(0.5), "histogram of ages")
    Traceback (most recent call last):
    ...
    noisewise.errors.BudgetError: ledger.json would pass its limit: spent ...
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: PathLike,
        limit: AbstractGuarantee | None = None,
        *,
        privacy_unit: str | None = None,
    ) -> None:
        # one ledger, one file, one lock: a symbolic link must not fork it
        self._path = as_path(path).resolve()
        if limit is not None and not isinstance(limit, AbstractGuarantee):
            raise InvalidTypeError(
                f"limit must be a guarantee such as PureDP(1.0), got {type(limit).__name__}."
            )
        if limit is not None and not limit.promises:
            raise InvalidInputError("limit must promise something, such as PureDP(1.0).")
        unit = None if privacy_unit is None else require_text(privacy_unit, "privacy_unit")
        if not self._path.exists():
            first = unit or (DEFAULT_UNIT if limit is None else limit.neighbours.unit)
            self._begin(None if limit is None else _counted(limit, first), first)
        self._path, content = self._opened()
        self._limit, self._privacy_unit = content.limit, content.privacy_unit
        if unit is not None and unit != self._privacy_unit:
            raise BudgetError(
                f"{self._path.name} counts per {self._privacy_unit!r}, not per {unit!r}: use"
                " another."
            )
        if limit is not None and _counted(limit, self._privacy_unit) != self._limit:
            raise BudgetError(
                f"{self._path.name} has the limit {self._limit!r}, not {limit!r}: it cannot be"
                " changed."
            )

    def _begin(self, limit: AbstractGuarantee | None, unit: str) -> None:
        if limit is None:
            raise InvalidInputError(
                f"There is no ledger {self._path}: to begin one, pass limit=PureDP(1.0), say."
            )
        with _exclusive(self._path) as lock:
            for kept in (seal.kept_beside(self._path), seal.kept_here(self._path)):
                if kept is not None and kept.count > 0 and not self._path.exists():
                    raise BudgetError(
                        f"{self._path} is gone, but had {kept.count} entries: put it back. If its"
                        " data are no longer used, choose another name."
                    )
            if not self._path.exists():
                self._write(
                    LedgerContent(secrets.token_hex(16), limit, unit, ()), lock, overwrite=False
                )

    def _opened(self) -> tuple[Path, LedgerContent]:
        """Where the ledger is, and what is in it. One that this machine has not seen before is
        recorded, and sealed.
        """
        content = self._read()
        path = self._path if content.id is None else seal.original(self._path, content.id)
        kept = None if content.id is None else seal.kept_at_home(content.id)
        if path != self._path or (kept is not None and kept.path == str(path)):
            return path, content
        if content.id is not None and kept is None and content.entries:
            warnings.warn(
                f"This machine knows nothing of {path.name}, which holds what was spent before: if"
                " it is a copy, what is spent here is not counted there.",
                stacklevel=3,
            )
        with (
            contextlib.suppress(InvalidInputError),
            _exclusive(path) as lock,
        ):  # a ledger that is only readable can be shown
            content = self._read()
            if content.id is None:
                content = dataclasses.replace(content, id=secrets.token_hex(16))
                self._write(content, lock, overwrite=True)
            else:
                seal.keep(lock, content.kept(path))
        return path, content

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
        return self._read().entries

    @property
    def spent(self) -> AbstractGuarantee:
        """What all entries together cost, in the limit's kind."""
        return accounting.spent(costs_of(self.entries), self._limit)

    @property
    def remaining(self) -> AbstractGuarantee:
        """A guarantee that can still be spent, in the limit's kind.

        Under an (epsilon, delta) limit it is in the kind in which the entries add up
        (ZeroConcentratedDP, say), where that leaves more than adding epsilons and deltas does.
        """
        return accounting.remaining(costs_of(self.entries), self._limit)

    def spend(
        self,
        guarantee: AbstractGuarantee,
        description: str = "",
        *,
        requested: AbstractGuarantee | None = None,
        query: str | None = None,
    ) -> None:
        """Write down a release.

        Args:
            guarantee: What its mechanism implies.
            description: A public line about it.
            requested: What was asked for, if that is something else: an ApproximateDP that follows.
            query: The name of the query's type.

        Raises:
            BudgetError: If the limit would be passed; nothing is changed then.
        """
        entry = self._entry(guarantee, requested, description, query)
        with _exclusive(self._path) as lock:
            content = self._read()
            self._check(content.limit, content.entries, entry)
            more = dataclasses.replace(
                content, id=content.id or secrets.token_hex(16), entries=(*content.entries, entry)
            )
            self._write(more, lock, overwrite=True)

    def require(
        self, guarantee: AbstractGuarantee, *, requested: AbstractGuarantee | None = None
    ) -> None:
        """Check that a release could be written down; nothing is spent.

        Args:
            guarantee: What its mechanism implies.
            requested: What was asked for.

        Raises:
            BudgetError: Where `spend` would raise it.
        """
        content = self._read()
        self._check(content.limit, content.entries, self._entry(guarantee, requested))

    def __repr__(self) -> str:
        return (
            f"Ledger({str(self._path)!r}, limit={self._limit!r},"
            f" privacy_unit={self._privacy_unit!r})"
        )

    def _entry(
        self,
        guarantee: AbstractGuarantee,
        requested: AbstractGuarantee | None,
        description: str = "",
        query: str | None = None,
    ) -> Entry:
        """The entry of a release about the ledger's unit."""
        return Entry(
            description,
            _counted(guarantee, self._privacy_unit),
            None if requested is None else _counted(requested, self._privacy_unit),
            query,
        )

    def _check(self, limit: AbstractGuarantee, entries: tuple[Entry, ...], entry: Entry) -> None:
        asked = entry.requested or entry.guarantee
        try:
            fits = accounting.fits(costs_of((*entries, entry)), limit)
        except ConversionError as error:
            raise BudgetError(
                f"{self._path.name} cannot compare {asked!r} with its limit {limit!r}: {error}"
                " Nothing was spent."
            ) from None
        if not fits:
            spent = accounting.spent(costs_of(entries), limit)
            raise BudgetError(
                f"{self._path.name} would pass its limit: spent {rounded(spent)!r}, asked for"
                f" {asked!r}, limit {limit!r}. Nothing was spent."
            )

    def _read(self) -> LedgerContent:
        what = f"The ledger {self._path.name}"
        # What is kept apart is read before the file, which is written first: another process may be
        # at work.
        name = read_json(self._path, "The ledger").get("id")
        beside, here = seal.kept_beside(self._path), seal.kept_here(self._path)
        home = seal.kept_at_home(name) if isinstance(name, str) else None
        content, sealed = read_content(read_json(self._path, "The ledger"), what)
        if content.id is None:
            if any(kept is not None and kept.count > 0 for kept in (beside, here)):
                raise FileFormatError(
                    f"{what} was altered: its seal is gone. Put back the latest copy."
                )
            return content
        if sealed != content.links[-1]:
            raise FileFormatError(
                f"{what} was altered: its entries do not fit its seal. Put back the latest copy."
            )
        seal.original(self._path, content.id)  # refuses a copy
        seal.check(self._path, content.links, content.id, (beside, here, home))
        return content

    def _write(self, content: LedgerContent, lock: int, *, overwrite: bool) -> None:
        _check_lock(self._path, lock)
        write_atomically(self._path, dump_json(content.to_spec()), overwrite=overwrite)
        seal.keep(lock, content.kept(self._path))


def _counted(guarantee: AbstractGuarantee, unit: str) -> AbstractGuarantee:
    """A guarantee about the ledger's unit: the default unit yields, another is refused.

    The unit is said besides, so neighbours are named where they are not those that replace a
    record.
    """
    if not isinstance(guarantee, AbstractGuarantee):
        return guarantee  # `Entry` says what is wrong with it
    relation = guarantee.neighbours
    if relation.unit not in (unit, DEFAULT_UNIT):
        raise BudgetError(
            f"The ledger counts per {unit!r}, the guarantee is per {relation.unit!r}: use another."
        )
    replaced = isinstance(relation, ReplaceOne)
    return about(guarantee, REPLACE_ONE if replaced else relation.of_unit(unit))


def rounded(guarantee: AbstractGuarantee) -> AbstractGuarantee:
    """A guarantee with 12 digits, for people to read: .8 for .7999999999999999."""
    digits = {name: float(f"{value:.12g}") for name, value in guarantee.parameters.items()}
    return guarantee.with_parameters(**digits)


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[int]:
    """Hold the lock of a ledger, open for writing; wait for another holder, but not forever."""
    try:
        import fcntl
    except ImportError:
        raise ReleaseError(
            "A ledger needs POSIX file locks, which this system does not have."
        ) from None
    try:
        file = opened_lock(seal.lock_path(path))
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be locked: {error.strerror}.") from None
    with file:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ReleaseError(f"{path} is locked by another process: try again.") from None
                time.sleep(_PAUSE)
            except OSError as error:
                raise InvalidInputError(f"{path} cannot be locked: {error.strerror}.") from None
        _check_lock(path, file.fileno())
        yield file.fileno()


def _check_lock(path: Path, lock: int) -> None:
    """Refuse a lock that is no longer beside the ledger: another process could hold the new one."""
    with contextlib.suppress(OSError):
        beside, held = seal.lock_path(path).lstat(), os.fstat(lock)
        if (beside.st_dev, beside.st_ino) == (held.st_dev, held.st_ino):
            return
    raise ReleaseError(
        f"{seal.lock_path(path)} was removed or replaced during this call: try again, and do not"
        " touch that file."
    )
