"""How a curator makes a release: all that is public is checked, the ledger is charged, the data are
read, noise is drawn.

    plan = PlannedRelease.of(query, ...)    all checks that need no data; reserves the file
    plan.afford()                           the ledger allows it
    plan.charge()                           its cost is written to the ledger
    values = plan.draw(read)                the only place where confidential data are handled
    plan.publish(values)                    the release, and its file

Whether and how a release is refused before `draw` depends on public facts alone. `draw` refuses
only data that the query cannot take. That still costs the budget, and the message is the same
whatever the data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import platform
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any

import numpy as np

from noisewise import __version__
from noisewise._core.files import PathLike, Reservation, as_path
from noisewise._core.json_files import require_text
from noisewise._core.neighbours import DEFAULT_UNIT, AbstractNeighbours
from noisewise.disclosure.exact_mechanisms import Sampler, exact_sampler, require_exact
from noisewise.disclosure.fields import about, as_names, as_requested, shown
from noisewise.disclosure.invariants import protected_by, without_noise
from noisewise.disclosure.ledger import Ledger
from noisewise.disclosure.preparation import (
    check_fit,
    columns_of,
    confidential_integers,
    has_right_shape,
    require_records,
    stated_mechanism,
)
from noisewise.disclosure.publication import Release
from noisewise.disclosure.tables.cells import as_labels
from noisewise.errors import InvalidTypeError, NoisewiseError, ReleaseError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.queries import AbstractQuery


def release(
    data: Any,
    query: AbstractQuery,
    guarantee: AbstractGuarantee | None = None,
    *,
    mechanism: AbstractMechanism | None = None,
    names: Iterable[str] | None = None,
    neighbours: AbstractNeighbours | None = None,
    privacy_unit: str = DEFAULT_UNIT,
    ledger: Ledger | None = None,
    invariants: Iterable[str] = (),
    labels: Mapping[str, Iterable[Any]] | None = None,
    description: str = "",
    save_to: PathLike | None = None,
) -> Release:
    """Release a statistic of confidential data with exact integer noise.

    Give either a `guarantee`, to which noise is then calibrated (discrete Laplace for PureDP,
    discrete Gaussian for ZeroConcentratedDP and ApproximateDP, the exponential mechanism for a
    Median), or a `mechanism`. A real-valued query without a grid gets one from its bounds, and the
    result records it. Values outside the bounds are clamped, as the query says; missing, infinite,
    misshapen and unknown values are refused.

    How long a draw takes depends on the noise: do not publish it.

    Args:
        data: The records: an array, a list or a data frame, one row per record.
        query: The statistic.
        guarantee: What the release must guarantee, such as `PureDP(1.0)`.
        mechanism: The noise, in place of a guarantee.
        names: Names of the values; by default those of the query.
        neighbours: Which databases are neighbours: `nw.ReplaceOne()`, where the number of records
            is public, or `nw.AddRemoveOne()`, where it is confidential. By default those that the
            guarantee or the mechanism carries.
        privacy_unit: What one record stands for, the unit of the neighbours.
        ledger: Where the cost is written before noise is drawn; where its limit would be passed,
            nothing happens.
        invariants: The names of values that are public, and published as they are by the mechanism
            `Exact()`. The release then claims no privacy as a whole; what is charged is the
            guarantee that the others would have alone. About what the invariants tell apart it
            protects nobody: no neighbours that add or remove a record agree in an exact number of
            records.
        labels: For each dimension of a table the label of each value.
        description: A public line about the release.
        save_to: The path of a new file for the release. One that exists or cannot be written is
            refused before anything is spent, so running a script twice does not pay twice.

    Returns:
        The release. Nothing in it shows the data, nor does any error.

    Raises:
        ReleaseError: If the mechanism does not fit the query, or the query cannot take the data.
        BudgetError: If the ledger does not allow it.
        InvalidInputError: If an argument is out of range, or the file cannot be written.

    >>> import noisewise as nw
    >>> query = nw.queries.Histogram(edges=(0.0, 30.0, 60.0, 120.0), num_records=5)
    >>> published = release([21.0, 34.0, 35.0, 62.0, 80.0], query, nw.PureDP(1.0))
    >>> published.names
    ('[0.0, 30.0)', '[30.0, 60.0)', '[60.0, 120.0]')
    >>> published.mechanism
    DiscreteLaplace(scale=2.0, sensitivity=2.0, step=1.0)
    >>> query = nw.queries.Joint([nw.queries.ClampedSum(bounds=(0.0, 120.0)), nw.queries.Count()])
    >>> published = release([21.0, 34.0], query, nw.PureDP(1.0), neighbours=nw.AddRemoveOne())
    >>> published.names, published.num_records
    (('sum', 'count'), None)
    """
    require_records(data, query)
    with PlannedRelease.of(
        query,
        guarantee,
        mechanism=mechanism,
        names=names,
        neighbours=neighbours,
        privacy_unit=privacy_unit,
        ledger=ledger,
        invariants=invariants,
        labels=labels,
        description=description,
        save_to=save_to,
    ) as plan:
        plan.afford()
        if not has_right_shape(data, plan.query):
            raise ReleaseError(
                f"data must be {plan.query.expected_data}; these have another shape. Nothing was"
                " spent."
            )
        plan.charge()
        return plan.publish(plan.draw(lambda: data))


@dataclasses.dataclass(frozen=True, eq=False)
class PlannedRelease:
    """A release without its values: public facts, checked.

    Use it as a context manager, so that the name of its file is given back where it is not made.

    Attributes:
        sampler: Draws the values from exact integers.
        num_values: How many values there will be; None where only running a user's function shows
            it.
        cost: What is promised of the numbers with noise, for the neighbours and the unit.
        refusal: The one message for data that the query cannot take.
        reservation: The name of the file, reserved.
    """

    query: AbstractQuery
    mechanism: AbstractMechanism
    sampler: Sampler
    names: tuple[str, ...] | None
    num_values: int | None
    requested: AbstractGuarantee | None
    neighbours: AbstractNeighbours
    cost: AbstractGuarantee
    labels: dict[str, tuple[Any, ...]] | None
    ledger: Ledger | None
    description: str
    refusal: str
    reservation: Reservation | None

    @classmethod
    def of(
        cls,
        query: Any,
        guarantee: Any = None,
        *,
        mechanism: Any = None,
        names: Any = None,
        neighbours: Any = None,
        privacy_unit: Any = DEFAULT_UNIT,
        ledger: Any = None,
        invariants: Any = (),
        labels: Any = None,
        description: Any = "",
        refusal: str | None = None,
        save_to: PathLike | None = None,
    ) -> PlannedRelease:
        """Check all that is public.

        Args:
            query: The statistic.
            guarantee: What the release must guarantee.
            mechanism: The noise, in place of a guarantee.
            names: Names of the values.
            neighbours: Which databases are neighbours.
            privacy_unit: What one record stands for.
            ledger: Where the cost will be written.
            invariants: The names of values that are published as they are.
            labels: For each dimension of a table the label of each value.
            description: A public line about the release.
            refusal: Which data are taken, where the query's own words would not do.
            save_to: The path of a new file.

        Raises:
            ReleaseError: If the mechanism does not fit the query.
            InvalidInputError: If an argument is out of range, or the file cannot be written.
        """
        if not isinstance(query, AbstractQuery):
            raise InvalidTypeError(
                "query must be one such as nw.queries.ClampedMean(...), got"
                f" {type(query).__name__}."
            )
        path = None if save_to is None else as_path(save_to, "save_to")
        mechanism, relation = stated_mechanism(
            query, guarantee, mechanism, neighbours, privacy_unit
        )
        query = query.on_default_grid()
        require_exact(mechanism, query)
        check_fit(mechanism, query)
        names, num_values = _names(names, query, mechanism)
        cost = about(protected_by(mechanism, names, invariants), relation)
        requested = as_requested(guarantee, cost, relation)
        _check_ledger(ledger, relation.unit)
        sampler = exact_sampler(mechanism, columns_of(query))
        facts = {
            "query": query,
            "mechanism": mechanism,
            "sampler": sampler,
            "names": names,
            "num_values": num_values,
            "requested": requested,
            "neighbours": relation,
            "cost": cost,
            "labels": as_labels(labels, num_values or 0),
            "ledger": ledger,
            "description": require_text(description, "description", empty=True),
            "refusal": (
                refusal
                or f"{type(query).__name__} refuses the data: it takes {query.expected_data}."
            ),
        }
        return cls(**facts, reservation=None if path is None else Reservation(path))

    def __enter__(self) -> PlannedRelease:
        return self

    def __exit__(self, *_: object) -> None:
        if self.reservation is not None:
            self.reservation.__exit__()

    @property
    def saved(self) -> bool:
        """Whether the release is in its file."""
        return self.reservation is not None and self.reservation.filled

    def afford(self) -> None:
        """Check that the ledger allows what the release costs; nothing is spent.

        Raises:
            BudgetError: If it does not.
        """
        if self.ledger is not None:
            self.ledger.require(self.cost, requested=self.requested)

    def charge(self, subject: str = "") -> None:
        """Write to the ledger what the release costs.

        Args:
            subject: What the entry says where the release has no description.

        Raises:
            BudgetError: If the ledger does not allow it; nothing is changed then.
        """
        if self.ledger is not None:
            kind = type(self.query).__name__
            line = self.description or subject or f"{kind} by {type(self.mechanism).__name__}"
            plain = list(without_noise(self.mechanism, self.names)) if self.names else []
            line += f", beside {', '.join(plain)} as they are" if plain else ""
            self.ledger.spend(self.cost, line, requested=self.requested, query=kind)

    def draw(self, read: Callable[[], Any]) -> tuple[float, ...] | None:
        """The private values of the data.

        Whatever goes wrong ends here: no message, warning or traceback leaves this function with
        the data in it.

        Args:
            read: Returns the confidential data.

        Returns:
            The values, or None if the query cannot take the data.
        """
        interrupted = False
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return self._drawn(confidential_integers(read(), self.query))
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
        del read
        if interrupted:
            raise KeyboardInterrupt
        return None

    def _drawn(self, integers: list[int]) -> tuple[float, ...] | None:
        if self.query.width not in (None, len(integers)) or self.mechanism.width not in (
            None,
            len(integers),
        ):
            return None
        values = tuple(self.sampler(integers))
        return values if self.num_values in (None, len(values)) else None

    def publish(self, values: tuple[float, ...] | None) -> Release:
        """The release of these values, saved where that was asked for.

        Args:
            values: What `draw` returned.

        Raises:
            ReleaseError: If there are none; one sentence, whatever is wrong with the data.
        """
        if values is None:
            spent = shown(self.requested or self.cost)
            paid = (
                f"{spent} was spent"
                if self.ledger is not None
                else f"No ledger is kept: count {spent} as spent"
            )
            raise ReleaseError(
                f"{self.refusal} The message cannot say more without revealing the data: check"
                f" them with your own tools. {paid}; another attempt costs again."
            )
        published = Release(
            values=values,
            mechanism=self.mechanism,
            names=self.names,
            requested=self.requested,
            neighbours=self.neighbours,
            query=self.query.to_spec() if self.query.has_spec else None,
            description=self.description,
            labels=self.labels,
            versions=_used_versions(),
            ids=(secrets.token_hex(8),),
        )
        if self.reservation is not None:
            self._save_or_warn(published, self.reservation)
        return published

    def _save_or_warn(self, published: Release, reservation: Reservation) -> None:
        # The budget is spent and the noise is drawn: an exception here would lose the values for
        # good.
        try:
            reservation.fill(published.to_json())
        except NoisewiseError as error:
            warnings.warn(
                f"The release is made, but not saved: {error} Save what was returned, as in"
                " release.save(path): making it again would be another release, and cost as much.",
                stacklevel=4,
            )


def _names(
    names: Any, query: AbstractQuery, mechanism: AbstractMechanism
) -> tuple[tuple[str, ...] | None, int | None]:
    """The names of the values, if they are known yet, and how many there will be."""
    width = mechanism.width or query.width
    if width is not None:
        num_values = mechanism.output_width(width)
        return as_names(names, query, num_values), num_values
    if names is None:
        return None, None
    given = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else names
    num_values = len(given) if isinstance(given, tuple) and given else 1
    return as_names(given, query, num_values), num_values


def _check_ledger(ledger: Any, privacy_unit: str) -> None:
    if ledger is None:
        return
    if not isinstance(ledger, Ledger):
        raise InvalidTypeError(f"ledger must be a nw.Ledger(path), got {type(ledger).__name__}.")
    if ledger.privacy_unit != privacy_unit:
        raise ReleaseError(
            f"The ledger counts per {ledger.privacy_unit!r}, the release is per {privacy_unit!r}."
        )


@functools.cache
def _used_versions() -> dict[str, str]:
    versions = {"noisewise": __version__, "python": platform.python_version()}
    with contextlib.suppress(metadata.PackageNotFoundError):
        versions["opendp"] = metadata.version("opendp")
    return versions
