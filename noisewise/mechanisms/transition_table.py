"""Finitely many values in, finitely many out, with any probabilities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, describe, number
from noisewise._core.neighbours import AbstractNeighbours
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee, NoGuarantee, PureDP
from noisewise.mechanisms.supports import AbstractSupport, Finite

_SUM = 1e-9
"""How far from 1 the sum of a row may be: probabilities written with ten digits."""
_SAME = 1e-9
"""Relative to the largest input: entries of s this near to one count as that input."""


class TransitionTable(AbstractMechanism):
    r"""P(S_dp,j = outputs[b] | s_j = inputs[a]) = table[a, b], independently for every column j.

    Any published rule with finitely many values: cell perturbation by a table, category swaps,
    answers given under a survey design.

    Guarantee: none, unless `local=True` says that s is about one record, whose owner may have any
    of the inputs. Then every pair of inputs are neighbours, and epsilon = max over b, a, a' of
    log(table[a, b] / table[a', b]), which needs positive probabilities in every column that is not
    0 throughout (local differential privacy, Kasiviswanathan et al. 2011). Of several entries one
    may change.

    `log_prob_bound` is the log of the largest entry in a column of the table, and attained.
    Eagerly, s that is no input is refused; under a transformation its log_prob is -inf.

    Args:
        table: Probabilities, shape (inputs, outputs); rows sum to 1.
        inputs: The values of s, increasing; 0, 1, ... by default.
        outputs: The values of s_dp, increasing; 0, 1, ... by default.
        local: Whether every pair of inputs are neighbours.

    Raises:
        InvalidInputError: If rows do not sum to 1, or values do not fit the shape of the table.

    >>> import noisewise as nw
    >>> table = nw.mechanisms.TransitionTable([[0.75, 0.25], [0.25, 0.75]], local=True)
    >>> round(table.guarantee.epsilon, 6)
    1.098612
    >>> nw.mechanisms.TransitionTable([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]).guarantee
    NoGuarantee()
    >>> table.transport([0.7, 0.8], [0, 0]).tolist()
    [0.0, 1.0]
    """

    norm: ClassVar[float] = 0.0

    table: Float[np.ndarray, "inputs outputs"]
    inputs: tuple[float, ...] = eqx.field(static=True)
    outputs: tuple[float, ...] = eqx.field(static=True)
    local: bool = eqx.field(static=True)

    def __init__(
        self,
        table: Float[np.ndarray, "inputs outputs"],
        inputs: Iterable[float] | None = None,
        outputs: Iterable[float] | None = None,
        *,
        local: bool = False,
    ) -> None:
        self.table = _probabilities(table)
        self.inputs = _values("inputs", inputs, self.table.shape[0])
        self.outputs = _values("outputs", outputs, self.table.shape[1])
        if not isinstance(local, bool):
            raise InvalidTypeError(f"local must be True or False, got {type(local).__name__}.")
        self.local = local
        if local:
            _check_positive(self.table)

    @property
    def sensitivity(self) -> int | None:
        """1, the number of entries that one person can change, if neighbours are known."""
        return 1 if self.local else None

    @property
    def guarantee(self) -> AbstractGuarantee:
        if not self.local:
            return NoGuarantee()
        return PureDP(float(self._ratios().max()))

    def _ratios(self) -> Float[np.ndarray, " outputs"]:
        """The log of the largest entry over the smallest, for each output that occurs."""
        used = self.table[:, self.table.any(axis=0)]
        return np.log(used.max(axis=0)) - np.log(used.min(axis=0))

    def describe(self) -> str:
        return (
            f"a table of probabilities from {len(self.inputs)} values to {len(self.outputs)} values"
        )

    @property
    def has_noiseless_columns(self) -> bool:
        return bool(np.isin(self.table, (0.0, 1.0)).all())

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        raise MissingCapabilityError(
            "TransitionTable chooses among values, whose mean need not be that of s."
        )

    @property
    def support(self) -> AbstractSupport:
        return Finite(self.outputs)

    @property
    def spends(self) -> bool:
        return self.local

    def for_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        return super().for_neighbours(neighbours) if self.local else self

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The two inputs with the largest ratio, in the first column."""
        if not self.local:
            raise MissingCapabilityError(
                "This TransitionTable claims no privacy, so that there is no loss to audit; with"
                " local=True all inputs are neighbours."
            )
        used = self.table[:, self.table.any(axis=0)]
        worst = used[:, int(np.argmax(self._ratios()))]
        s = np.full((1, k), self.inputs[int(worst.argmin())])
        other = s.copy()
        other[0, 0] = self.inputs[int(worst.argmax())]
        if np.ptp(worst) == 0.0:  # all rows alike: any other input
            others = [value for value in self.inputs if value != s[0, 0]]
            other[0, 0] = others[0] if others else s[0, 0]
        return s, other

    def _row(self, s: Array) -> tuple[Array, Array]:
        """The row of each entry of s, and whether it is an input."""
        inputs = jnp.asarray(self.inputs)
        slack = _SAME * max(map(abs, self.inputs), default=0.0)
        row = jnp.clip(jnp.searchsorted(inputs, s - slack), 0, len(self.inputs) - 1)
        return row, jnp.abs(inputs[row] - s) <= slack

    def _cumulated(self) -> Array:
        """P(S_dp < outputs[b]) for b = 0, ..., n, by rows; the last is 1."""
        total = jnp.cumsum(jnp.asarray(self.table), axis=1)
        return jnp.pad(total / total[:, -1:], ((0, 0), (1, 0)))

    def _transport(self, u: Array, s: Array) -> Array:
        row, known = self._row(s)
        place = (self._cumulated()[row][..., 1:] <= u[..., None]).sum(-1)
        return jnp.where(known, jnp.asarray(self.outputs)[place], jnp.nan)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        row, known = self._row(s)
        column = jnp.clip(jnp.searchsorted(jnp.asarray(self.outputs), s_dp), 0, self._last)
        return jnp.where(known, jnp.log(jnp.asarray(self.table)[row, column]), -jnp.inf)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return self._log_below(s_dp, s, side="right")

    def _log_before(self, s_dp: Array, s: Array) -> Array:
        return self._log_below(s_dp, s, side="left")

    def _log_below(self, s_dp: Array, s: Array, side: str) -> Array:
        row, known = self._row(s)
        end = jnp.searchsorted(jnp.asarray(self.outputs), s_dp, side=side)
        return jnp.where(known, jnp.log(self._cumulated()[row, end]), jnp.nan)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        row, known = self._row(s)
        start = jnp.searchsorted(jnp.asarray(self.outputs), s_dp, side="left")
        above = jnp.cumsum(jnp.asarray(self.table)[:, ::-1], axis=1)[:, ::-1]
        above = jnp.pad(above / above[:, :1], ((0, 0), (0, 1)))
        return jnp.where(known, jnp.log(above[row, start]), jnp.nan)

    @property
    def reach(self) -> float:
        return 0.0

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        places = xp.asarray([*self.inputs, self.inputs[-1] + 0.5])
        return xp.broadcast_to(places, (*s_dp.shape, places.size))

    @property
    def input_bounds(self) -> tuple[Any, Any]:
        return self.inputs[0], self.inputs[-1]

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        column = jnp.clip(jnp.searchsorted(jnp.asarray(self.outputs), s_dp), 0, self._last)
        return jnp.log(jnp.asarray(self.table).max(axis=0))[column]

    @property
    def _last(self) -> int:
        return len(self.outputs) - 1

    def _check_statistic(self, s: np.ndarray) -> None:
        inputs = np.asarray(self.inputs)
        slack = _SAME * np.abs(inputs).max()
        row = np.clip(np.searchsorted(inputs, s - slack), 0, inputs.size - 1)
        if not np.all((np.abs(inputs[row] - s) <= slack) | np.isnan(s)):
            raise InvalidInputError(
                f"This TransitionTable takes {Finite(self.inputs).describe()}; at least one entry"
                " of s is something else."
            )


def _probabilities(table: Any) -> Float[np.ndarray, "inputs outputs"]:
    try:
        values = np.array(table, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidTypeError(
            f"table must be rows of probabilities, one row per input, got {describe(table)}."
        )
    good = np.isfinite(values).all() and (values >= 0.0).all()
    if not good or np.abs(values.sum(axis=1) - 1.0).max() > _SUM:
        raise InvalidInputError(
            "Each row of table must be probabilities that sum to 1: P(output | input) by rows."
        )
    values.setflags(write=False)
    return values


def _values(name: str, values: Any, count: int) -> tuple[float, ...]:
    if values is None:
        return tuple(float(value) for value in range(count))
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"{name} must be a list of numbers, got {describe(values)}.")
    given = tuple(number(f"Each of {name}")(value) for value in values)
    increasing = all(a < b for a, b in itertools.pairwise(given))
    if len(given) != count or not increasing:
        axis = "rows" if name == "inputs" else "columns"
        raise InvalidInputError(
            f"{name} must be {count} increasing numbers, one for each of the {axis} of table, got"
            f" {len(given)}{'' if increasing else ' that do not increase'}."
        )
    return given


def _check_positive(table: np.ndarray) -> None:
    used = table[:, table.any(axis=0)]
    if not (used > 0.0).all() or math.isinf(float(-np.log(used.min()))):
        raise InvalidInputError(
            "local=True promises local privacy, which needs every output to be possible from every"
            " input: table has a 0."
        )
