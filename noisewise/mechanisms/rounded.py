"""Counts rounded to multiples of a base, at random or to the nearest."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, integer
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.law import AbstractNoiseLaw
from noisewise.mechanisms.supports import (
    LATTICE_TOLERANCE,
    AbstractSupport,
    Lattice,
    lattice_index,
)
from noisewise.mechanisms.unprotected import AbstractUnprotected


def _flag(value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"random must be True or False, got {type(value).__name__}.")
    return bool(value)


class Rounded(AbstractUnprotected):
    r"""Each count s becomes a multiple of the base b. With r = s mod b,

        P(S_dp = s - r | s) = 1 - r/b,    P(S_dp = s - r + b | s) = r/b,

    so that a multiple stays as it is, others go to the nearer one more often, and the mean is s:
    the random rounding of tables of statistical offices. With `random=False` a count goes to the
    nearest multiple, ties up.

    Totals that were rounded on their own are columns like the others: give both the inner cells and
    the total as statistics.

    Guarantee: none. One person changes the probability of a multiple from 0 to 1/b.

    `log_prob_bound` is attained at s = s_dp. Eagerly, s that is no whole number is refused; under a
    transformation its log_prob is -inf.

    Attributes:
        base: b, a whole number of 2 or more.
        random: Whether counts are rounded at random.

    Reference:
        Statistics New Zealand, "Methodological standard for confidentiality": random rounding to
        base 3.

    >>> import noisewise as nw
    >>> rounded = nw.mechanisms.Rounded(base=3)
    >>> np.exp(rounded.log_prob([[3.0], [6.0]], [[4.0], [4.0]])).round(4).tolist()
    [0.6667, 0.3333]
    >>> nw.mechanisms.Rounded(base=10, random=False).transport([0.5, 0.5], [15.0, 14.0]).tolist()
    [20.0, 10.0]
    """

    base: int = eqx.field(default=3, converter=integer("base", at_least=2))
    random: bool = eqx.field(default=True, static=True, converter=_flag, kw_only=True)

    def describe(self) -> str:
        how = "at random to a" if self.random else "to the nearest"
        return f"counts rounded {how} multiple of {self.base}"

    @property
    def has_noiseless_columns(self) -> bool:
        return not self.random

    @property
    def support(self) -> AbstractSupport:
        return Lattice(step=self.base)

    def _parts(self, s: Array) -> tuple[Array, Array, Array]:
        """The multiple below s, in bases; the probability of the one above; where s is a count."""
        count, whole = lattice_index(s, 1.0)
        return *self._place(count), whole

    def _place(self, count: Array) -> tuple[Array, Array]:
        low = jnp.floor(count / self.base + LATTICE_TOLERANCE)
        share = jnp.clip((count - low * self.base) / self.base, 0.0, 1.0)
        return low, share if self.random else jnp.where(share >= 0.5, 1.0, 0.0)

    def _transport(self, u: Array, s: Array) -> Array:
        low, share, whole = self._parts(s)
        multiple = self.base * (low + (u >= 1.0 - share))
        return jnp.where(whole, multiple, jnp.nan)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        low, share, whole = self._parts(s)
        return jnp.where(whole, self._log_mass(s_dp, low, share), -jnp.inf)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        low, share, whole = self._parts(s)
        return jnp.where(whole, self._log_at_most(s_dp, low, share), jnp.nan)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        low, share, whole = self._parts(s)
        return jnp.where(whole, self._log_at_least(s_dp, low, share), jnp.nan)

    def _log_mass(self, s_dp: Array, low: Array, share: Array) -> Array:
        steps = (s_dp / self.base).round() - low
        up, down = _log(share), _log(1.0 - share)
        return jnp.where(steps == 0.0, down, jnp.where(steps == 1.0, up, -jnp.inf))

    def _log_at_most(self, s_dp: Array, low: Array, share: Array) -> Array:
        steps = jnp.floor(s_dp / self.base + LATTICE_TOLERANCE) - low
        down = _log(1.0 - share)
        return jnp.where(steps >= 1.0, 0.0, jnp.where(steps >= 0.0, down, -jnp.inf))

    def _log_at_least(self, s_dp: Array, low: Array, share: Array) -> Array:
        steps = jnp.ceil(s_dp / self.base - LATTICE_TOLERANCE) - low
        return jnp.where(steps <= 0.0, 0.0, jnp.where(steps <= 1.0, _log(share), -jnp.inf))

    def _continued(self) -> AbstractNoiseLaw:
        return ContinuedRounding(self)

    @property
    def reach(self) -> float:
        return 0.0

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        reach = self.base if self.random else 0.5 * self.base
        return xp.stack([s_dp - reach, s_dp, s_dp + reach], axis=-1)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return jnp.zeros_like(s_dp)

    def _check_statistic(self, s: np.ndarray) -> None:
        finite = np.isfinite(s)
        whole = lattice_index(np.where(finite, s, 0.0), 1.0)[1]
        if not np.all(whole & (finite | np.isnan(s))):
            raise InvalidInputError(
                "Rounded needs counts, whole numbers; at least one entry of s is not. Proportions"
                " must be multiplied by their total first."
            )


class ContinuedRounding(AbstractNoiseLaw):
    """Rounding as a function of every real s.

    Attributes:
        rounding: The rounding, which takes counts only.
    """

    rounding: Rounded

    @property
    def support(self) -> AbstractSupport:
        return self.rounding.support

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self.rounding._log_mass(s_dp, *self.rounding._place(s))

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return self.rounding._log_at_most(s_dp, *self.rounding._place(s))

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return self.rounding._log_at_least(s_dp, *self.rounding._place(s))


def _log(probability: Array) -> Array:
    """The log, -inf at 0, with a finite gradient."""
    positive = probability > 0.0
    return jnp.where(positive, jnp.log(jnp.where(positive, probability, 1.0)), -jnp.inf)
