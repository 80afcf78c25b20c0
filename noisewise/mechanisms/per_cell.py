"""Cells of one table, each with one of a few mechanisms."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from noisewise._core.arrays import Array, describe, integer
from noisewise._core.neighbours import AbstractNeighbours
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.mechanisms.product import Product, in_words, require_few
from noisewise.mechanisms.supports import AbstractSupport, side_by_side


class PerCell(AbstractMechanism):
    r"""Column j of s goes through `mechanisms[which[j]]`, independently of the others.

    Use it for a table whose noise, threshold or rounding changes from row to row, and for rows of
    which nothing was measured (`Unmeasured`). It is a `Product` whose blocks are taken apart: the
    columns of one mechanism need not be neighbours. A mechanism with numbers per column (scales,
    thresholds) has them for its own columns, in their order.

    Guarantee: the composition of the guarantees of the mechanisms, each for the sensitivity of all
    its columns together, because one person may change cells of every kind at once.

    Args:
        mechanisms: The mechanisms, of independent columns: any with a `log_cdf` will do.
        which: For each column the place of its mechanism in `mechanisms`, from 0. A `PerCell`
            among them gives way to its own mechanisms.

    Raises:
        InvalidInputError: If `which` names none of the mechanisms, or one serves no column, or
            there are more than a thousand.
        MissingCapabilityError: If columns of a mechanism depend on each other.

    >>> import noisewise as nw
    >>> noise = nw.mechanisms.DiscreteLaplace(scale=30.0, sensitivity=1.0)
    >>> days = nw.mechanisms.PerCell(
    ...     [nw.mechanisms.Thresholded(noise, above=450.0), nw.mechanisms.Unmeasured()], [0, 1, 0]
    ... )
    >>> days.transport([0.5, 0.5, 0.5], [500.0, 500.0, 100.0]).tolist()
    [500.0, nan, nan]
    >>> days.log_prob([500.0, np.nan, 500.0], [500.0, 0.0, 500.0]) == days.log_prob(
    ...     [500.0, np.nan, 500.0], [500.0, 1e6, 500.0]
    ... )
    np.True_
    """

    norm: ClassVar[float] = 1.0

    mechanisms: tuple[AbstractMechanism, ...]
    which: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, mechanisms: Iterable[AbstractMechanism], which: Sequence[int]) -> None:
        parts = _mechanisms(mechanisms)
        require_few("PerCell", parts)
        self.mechanisms, self.which = _flattened(parts, _which(which, len(parts)))
        require_few("PerCell", self.mechanisms)
        for mechanism, count in zip(self.mechanisms, self._counts, strict=True):
            _check_fits(mechanism, count)

    # Columns ----------------------------------------------------------------------------------

    @property
    def _counts(self) -> tuple[int, ...]:
        return tuple(np.bincount(self.which, minlength=len(self.mechanisms)).tolist())

    @property
    def _order(self) -> np.ndarray:
        """The columns, those of the first mechanism first."""
        return np.argsort(np.asarray(self.which), kind="stable")

    @property
    def _back(self) -> np.ndarray:
        """Where each column is in that order."""
        return np.argsort(self._order, kind="stable")

    @property
    def sorted(self) -> Product:
        """The mechanism of the same columns in another order, those of one mechanism together."""
        return Product(self.mechanisms, widths=self._counts)

    @property
    def width(self) -> int:
        return len(self.which)

    @property
    def blocks(self) -> tuple[AbstractMechanism, ...]:
        """The mechanisms of the runs of columns that share one."""
        return tuple(mechanism for mechanism, _ in self._runs)

    @property
    def is_composed(self) -> bool:
        return True

    def block_widths(self, k: int) -> tuple[int, ...]:
        return tuple(width for _, width in self._runs)

    @property
    def _runs(self) -> list[tuple[AbstractMechanism, int]]:
        return list(_runs(self))

    def calibrated_blocks(self, k: int) -> list[tuple[AbstractMechanism, int]]:
        return list(zip(self.mechanisms, self._counts, strict=True))

    def of_columns(self, columns: Sequence[int]) -> AbstractMechanism:
        chosen = np.asarray(self.which)[np.asarray(columns)]
        places = self._back[np.asarray(columns)] - np.cumsum([0, *self._counts])[chosen]
        used = sorted(set(chosen.tolist()))
        kept = [
            self.mechanisms[number].of_columns(places[chosen == number].tolist()) for number in used
        ]
        if len(kept) == 1:
            return kept[0]
        return PerCell(kept, [used.index(number) for number in chosen.tolist()])

    def measured(self, k: int) -> np.ndarray:
        return self.sorted.measured(k)[self._back]

    def column_kinds(self, k: int) -> np.ndarray:
        return self.sorted.column_kinds(k)[self._back]

    # Privacy and description ------------------------------------------------------------------

    @property
    def sensitivity(self) -> None:
        """None: each mechanism states its own."""
        return None

    @property
    def derives_guarantee(self) -> bool:
        return self.sorted.derives_guarantee

    @property
    def neighbours(self) -> AbstractNeighbours:
        return self.sorted.neighbours

    def for_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        return PerCell([part.for_neighbours(neighbours) for part in self.mechanisms], self.which)

    @property
    def guarantee(self) -> AbstractGuarantee:
        return self.sorted.guarantee

    @property
    def needs_delta(self) -> bool:
        return self.sorted.needs_delta

    def recalibrated(self, guarantee: AbstractGuarantee) -> AbstractMechanism:
        """The mechanisms keep their shares of the budget, as the blocks of a `Product` do."""
        return PerCell(self.sorted.recalibrated(guarantee).blocks, self.which)

    @property
    def spends(self) -> bool:
        return self.sorted.spends

    @property
    def is_exact(self) -> bool:
        return self.sorted.is_exact

    @property
    def has_noiseless_columns(self) -> bool:
        return self.sorted.has_noiseless_columns

    def noise_sd(self, k: int) -> list[float | None]:
        deviations = self.sorted.noise_sd(k)
        return [deviations[place] for place in self._back.tolist()]

    def describe(self) -> str:
        return in_words(self, "cells")

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        return self.sorted.estimate(s_dp[..., self._order])[..., self._back]

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        first, second = self.sorted.adjacent_pairs(k)
        return first[:, self._back], second[:, self._back]

    # The law ----------------------------------------------------------------------------------

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.sorted.capabilities

    @property
    def is_smooth(self) -> bool:
        return self.sorted.is_smooth

    @property
    def support(self) -> AbstractSupport:
        parts = zip(self.mechanisms, self._counts, strict=True)
        columns = [each for mechanism, count in parts for each in mechanism.support.columns(count)]
        return side_by_side([columns[place] for place in self._back.tolist()])

    @property
    def distance_unit(self) -> np.ndarray:
        return self.sorted.distance_unit[self._back]

    def _transport(self, u: Array, s: Array) -> Array:
        return self.sorted._transport(u[..., self._order], s[..., self._order])[..., self._back]

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self.sorted._log_prob_each(*self._sorted(s_dp, s))[..., self._back]

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return self.sorted._log_cdf(*self._sorted(s_dp, s))[..., self._back]

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return self.sorted._log_sf(*self._sorted(s_dp, s))[..., self._back]

    def _possible(self, s_dp: Array) -> Array:
        return self.sorted._possible(s_dp[..., self._order])[..., self._back]

    @property
    def reach(self) -> float:
        return self.sorted.reach

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        return self.sorted._kinks(s_dp[..., self._order], xp)[..., self._back, :]

    @property
    def input_bounds(self) -> tuple[Any, Any]:
        low, high = self.sorted.input_bounds
        return low[self._back], high[self._back]

    def _log_prob_bound(self, s_dp: Array) -> Array:
        return self.sorted._log_prob_bound(s_dp[..., self._order])

    def _sorted(self, s_dp: Array, s: Array) -> tuple[Array, Array]:
        return s_dp[..., self._order], s[..., self._order]

    def _check_statistic(self, s: np.ndarray) -> None:
        self.sorted._check_statistic(s[..., self._order])


def _runs(whole: PerCell) -> Iterable[tuple[AbstractMechanism, int]]:
    """The runs of columns that share a mechanism: that of their columns, and how many these are."""
    runs = [(number, len(list(group))) for number, group in itertools.groupby(whole.which)]
    done = [0] * len(whole.mechanisms)
    once = len(runs) == len(whole.mechanisms)
    for number, width in runs:
        mechanism = whole.mechanisms[number]
        columns = range(done[number], done[number] + width)
        same = once or mechanism.width is None
        yield mechanism if same else mechanism.of_columns(columns), width
        done[number] += width


def _mechanisms(mechanisms: Any) -> tuple[AbstractMechanism, ...]:
    listed = not isinstance(mechanisms, AbstractMechanism) and isinstance(mechanisms, Iterable)
    parts = tuple(mechanisms) if listed else ()
    if not parts or not all(isinstance(part, AbstractMechanism) for part in parts):
        raise InvalidTypeError(
            f"PerCell takes a list of one or more mechanisms, got {describe(mechanisms)}."
        )
    return parts


def _which(which: Any, count: int) -> tuple[int, ...]:
    if isinstance(which, (str, bytes)) or not isinstance(which, Iterable):
        raise InvalidTypeError(
            "which must be a list with the place of each column's mechanism, got"
            f" {describe(which)}."
        )
    place = functools.cache(integer("Each of which", at_least=0))
    given = tuple(map(place, which.tolist() if isinstance(which, np.ndarray) else which))
    if set(given) != set(range(count)):
        raise InvalidInputError(
            f"which must name each of the {count} mechanisms at least once, by the numbers from 0"
            f" to {count - 1}, and no others."
        )
    return given


def _flattened(
    parts: tuple[AbstractMechanism, ...], which: tuple[int, ...]
) -> tuple[tuple[AbstractMechanism, ...], tuple[int, ...]]:
    """The same with the mechanisms of a `PerCell` among them in its place."""
    if not any(isinstance(part, PerCell) for part in parts):
        return parts, which
    made: list[AbstractMechanism] = []
    places = np.array(which)
    for number, part in enumerate(parts):
        columns = np.flatnonzero(np.array(which) == number)
        inner = part if isinstance(part, PerCell) and part.width == len(columns) else None
        places[columns] = len(made) + (np.array(inner.which) if inner else 0)
        made += inner.mechanisms if inner else [part]
    return tuple(made), tuple(places.tolist())


def _check_fits(mechanism: AbstractMechanism, count: int) -> None:
    name = type(mechanism).__name__
    own = (mechanism.output_width(count), mechanism.num_uniforms(count)) == (count, count)
    if Capability.CDF not in mechanism.capabilities or mechanism.is_composed or not own:
        raise MissingCapabilityError(
            f"PerCell needs mechanisms of independent columns; {name} is none. A block of columns"
            " that depend on each other has a place in a Product."
        )
    if mechanism.width not in (None, count):
        raise InvalidInputError(
            f"{name} has numbers for {mechanism.width} columns, but which gives it {count}."
        )
