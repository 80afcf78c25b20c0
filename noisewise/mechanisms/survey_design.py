"""Survey designs: yes-or-no answers that a randomising device protects."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, integer, is_traced
from noisewise._core.neighbours import AbstractNeighbours
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.calibration import pure_epsilon
from noisewise.mechanisms.columns import PerColumn, kinds_of, num_columns, per_column, taken
from noisewise.mechanisms.guarantees import AbstractGuarantee, NoGuarantee, PureDP
from noisewise.mechanisms.relations import neighbours_field
from noisewise.mechanisms.supports import LATTICE_TOLERANCE, AbstractSupport, Lattice

_ROUNDING = 1e-12
"""How far outside [0, 1] a probability may lie: that much the author of truth=2/3 may have rounded.
"""
_CERTAIN = 1e-15
"""Probabilities this near to 0 or 1 are 0 or 1: the rounding of sums such as 1 - 2/3 - 1/3."""
_MOST_LOSS = 30.0
"""The largest loss that is calibrated for: probabilities are then 1e-13, and much smaller ones are
lost beside 1.
"""
_FIRST_STEP = 2.0**-53
"""Relative: by how much a calibrated loss is lowered first where rounding leaves it too large."""
_OF_ALL = ("sensitivity", "neighbours")
"""The fields that every design has."""


def probability(name: str) -> Any:
    """The field of a parameter that is a probability: one for all columns, or one for each."""
    return eqx.field(converter=per_column(name, at_least=0.0, at_most=1.0))


class AbstractSurveyDesign(AbstractMechanism):
    r"""Entry j of s is 1 if respondent j has the sensitive attribute, else 0; the answer is 1 with

        P(S_dp,j = 1 | s_j) = c_j + d_j s_j,

    independently. Respondents are the columns of s: each parameter is one number for all of them or
    one for each. A concrete class says what c and c + d are.

    Guarantee: the probability of an answer changes by a factor of at most exp(l_j),

        l_j = max(|log (c_j + d_j)/c_j|, |log (1 - c_j)/(1 - c_j - d_j)|),

    in column j (local differential privacy, Kasiviswanathan et al. 2011). Epsilon is the sum of the
    `sensitivity` largest l_j. Tight. Where an answer is possible for one value of s only, it tells
    that value, and there is no guarantee. `log_prob_bound` is attained.

    Attributes:
        sensitivity: The number of entries of s that one person can change; 1 unless given.
        neighbours: Which databases differ by them; `nw.ReplaceOne()` by default.
    """

    norm: ClassVar[float] = 0.0

    sensitivity: int = eqx.field(
        default=1, kw_only=True, converter=integer("sensitivity", at_least=1)
    )
    neighbours: AbstractNeighbours = neighbours_field()

    @abc.abstractmethod
    def _yes(self) -> tuple[PerColumn, PerColumn]:
        """P(answer = 1 | s = 0) and P(answer = 1 | s = 1), which are c and c + d."""

    def _ends(self, xp: Any) -> tuple[Any, Any]:
        """The same without what rounding leaves near 0 and 1."""
        no, yes = (xp.asarray(part, dtype=np.float64) for part in self._yes())
        return tuple(
            xp.where(part < _CERTAIN, 0.0, xp.where(part > 1.0 - _CERTAIN, 1.0, part))
            for part in (no, yes)
        )

    def _at_loss(self, loss: float) -> AbstractSurveyDesign | None:
        """The same kind of design with l_j = loss in every column; None where none is known."""
        return None

    def __check_init__(self) -> None:
        num_columns(**self._parameters())
        if is_traced(self):
            return
        low, high = (float(end([end(part) for part in self._yes()])) for end in (np.min, np.max))
        if low < -_ROUNDING or high > 1.0 + _ROUNDING:
            raise InvalidInputError(
                f"The parameters of this {type(self).__name__} give answers probabilities from"
                f" {low:.6g} to {high:.6g}, but these lie in [0, 1]."
            )

    # Columns and privacy ----------------------------------------------------------------------

    def _parameters(self) -> dict[str, PerColumn]:
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name not in _OF_ALL}

    @property
    def width(self) -> int | None:
        return num_columns(**self._parameters())

    def of_columns(self, columns: Sequence[int]) -> AbstractMechanism:
        changes: dict[str, Any] = {
            name: taken(value, columns) for name, value in self._parameters().items()
        }
        return self if self.width is None else dataclasses.replace(self, **changes)

    def column_kinds(self, k: int) -> np.ndarray:
        found: np.ndarray = kinds_of(k, *self._parameters().values())
        return found

    def _log_ratios(self) -> Float[np.ndarray, "answers columns"]:
        """log P(answer | 1) / P(answer | 0) of the answers 0 and 1; infinite where one is 0, and 0
        where both are.
        """
        of_no, of_yes = np.broadcast_arrays(*np.atleast_1d(*self._ends(np)))
        pairs = np.stack([[1.0 - of_no, 1.0 - of_yes], [of_no, of_yes]])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.log(pairs[:, 1]) - np.log(pairs[:, 0])
        return np.where(np.isnan(ratios), 0.0, ratios)

    def _losses(self) -> Float[np.ndarray, " columns"]:
        """l_j of each column, or of all of them."""
        return np.abs(self._log_ratios()).max(axis=0)

    @property
    def _protects(self) -> bool:
        return bool(np.isfinite(self._losses()).all())

    @property
    def guarantee(self) -> AbstractGuarantee:
        losses = np.sort(self._losses())[::-1]
        if not self._protects:
            return NoGuarantee(neighbours=self.neighbours)
        if self.width is None:
            return PureDP(self.sensitivity * float(losses[0]), neighbours=self.neighbours)
        return PureDP(math.fsum(losses[: self.sensitivity]), neighbours=self.neighbours)

    @property
    def total_sensitivity(self) -> float | None:
        return self.sensitivity if self._protects else None

    @property
    def spends(self) -> bool:
        return self._protects

    def recalibrated(self, guarantee: AbstractGuarantee) -> AbstractMechanism:
        """The same kind of design, with the same loss in every column.

        >>> import noisewise as nw
        >>> survey = nw.mechanisms.ForcedResponse(truth=2 / 3)
        >>> survey.recalibrated(nw.PureDP(1.0)).guarantee.epsilon.__round__(9)
        1.0
        """
        share = pure_epsilon(guarantee, type(self).__name__) / self.sensitivity
        share = min(share, _MOST_LOSS)
        made, step = self._at_loss(share), _FIRST_STEP
        if made is None:
            return super().recalibrated(guarantee)
        while made._losses().max() > share:
            made, step = self._at_loss(share * (1.0 - step)), 2.0 * step
            assert made is not None
        return made

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The entries that lose most, each changed so that one set of answers has all losses."""
        if not self._protects:
            raise MissingCapabilityError(
                f"This {type(self).__name__} claims no privacy, as an answer may tell s: there is"
                " no loss to audit."
            )
        ratios = np.broadcast_to(self._log_ratios(), (2, k))
        changed = np.argsort(-np.abs(ratios).max(axis=0), kind="stable")[: self.sensitivity]
        worst = ratios[np.abs(ratios).argmax(axis=0), np.arange(k)]
        s, other = np.zeros((2, k))
        s[changed], other[changed] = worst[changed] >= 0.0, worst[changed] < 0.0
        return np.stack([s, other]), np.stack([other, s])

    # Description ------------------------------------------------------------------------------

    def _noise_sd(self, k: int) -> PerColumn:
        no, yes = self._ends(np)
        return np.where((no == 0.0) & (yes == 1.0), 0.0, np.nan)  # else it is no noise around s

    @property
    def has_noiseless_columns(self) -> bool:
        no, yes = self._ends(np)
        return bool(np.any(np.isin(no, (0.0, 1.0)) & np.isin(yes, (0.0, 1.0))))

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        no, yes = self._yes()
        if np.any(np.equal(no, yes)):
            raise MissingCapabilityError(
                f"Answers through this {type(self).__name__} say nothing about s: it has no"
                " estimate."
            )
        return (s_dp - no) / np.subtract(yes, no)

    # The law ----------------------------------------------------------------------------------

    @property
    def support(self) -> AbstractSupport:
        return Lattice(step=1.0, low=0.0, high=1.0)

    @property
    def input_bounds(self) -> tuple[Any, Any]:
        return 0.0, 1.0

    @property
    def reach(self) -> float:
        return 0.0

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        places = xp.asarray([0.0, 1.0, 1.5])
        return xp.broadcast_to(places, (*s_dp.shape, 3))

    def _probability(self, s: Array) -> Array:
        """P(answer = 1 | s); NaN where s is neither 0 nor 1."""
        no, yes = self._ends(jnp)
        found = jnp.where(s.round() == 1.0, yes, no)
        return jnp.where(self.support.contains(s), found, jnp.nan)

    def _transport(self, u: Array, s: Array) -> Array:
        p = self._probability(s)
        return jnp.where(jnp.isnan(p), jnp.nan, jnp.where(u >= 1.0 - p, 1.0, 0.0))

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        p = self._probability(s)
        value = _log(jnp.where(s_dp.round() == 1.0, p, 1.0 - p))
        return jnp.where(jnp.isnan(p), -jnp.inf, value)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        answers = jnp.floor(s_dp + LATTICE_TOLERANCE)
        p = self._probability(s)
        return _log(jnp.where(answers < 0.0, 0.0, jnp.where(answers < 1.0, 1.0 - p, 1.0 + 0.0 * p)))

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        answers = jnp.ceil(s_dp - LATTICE_TOLERANCE)
        p = self._probability(s)
        return _log(jnp.where(answers > 1.0, 0.0, jnp.where(answers > 0.0, p, 1.0 + 0.0 * p)))

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        no, yes = self._ends(jnp)
        most = jnp.where(s_dp.round() == 1.0, jnp.maximum(no, yes), 1.0 - jnp.minimum(no, yes))
        return _log(most)

    def _check_statistic(self, s: np.ndarray) -> None:
        if not np.all(self.support.contains(s) | np.isnan(s)):
            raise InvalidInputError(
                f"{type(self).__name__} takes 1 (has the attribute) or 0 (has not); at least one"
                " entry of s is something else."
            )


def _log(p: Array) -> Array:
    """log p, with a derivative of 0 where p is 0."""
    return jnp.where(p == 0.0, -jnp.inf, jnp.log(jnp.where(p == 0.0, 1.0, p)))


def shown(value: PerColumn) -> str:
    """A probability, or the range of several, in words.

    >>> shown(2 / 3), shown(np.array([0.25, 0.5]))
    ('0.667', '0.25 to 0.5')
    """
    if np.ndim(value) == 0:
        return f"{value:.3g}"
    return f"{np.min(value):.3g} to {np.max(value):.3g}"
