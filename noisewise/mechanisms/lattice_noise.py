"""What discrete Laplace and discrete Gaussian noise share: whole numbers of steps added to whole
numbers of steps.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError
from noisewise.mechanisms.columnwise_noise import AbstractColumnwiseNoise
from noisewise.mechanisms.law import AbstractNoiseLaw
from noisewise.mechanisms.supports import LATTICE_TOLERANCE, AbstractSupport, Lattice, lattice_index

_WHOLE = 1 + 1e-9
"""A quotient may fall short of a whole number by its rounding, which is far smaller than this."""
_SEARCHED_BELOW = 10_000
"""Squared lengths searched through. Above it, the largest first number falls short by under 2%."""


class AbstractLatticeNoise(AbstractColumnwiseNoise):
    r"""s_dp = s + step * N with independent whole N_j of one symmetric law, for s on the lattice
    step * Z.

    A concrete class writes three scalar formulas: `_quantile(u)`, `_log_mass(n)` = log P(N = n) and
    `_log_tail(n)` = log P(N >= n) for n >= 0. Eagerly, s off the lattice is refused; under a
    transformation its log_prob is -inf.
    """

    if TYPE_CHECKING:

        @property
        def step(self) -> float:
            """The distance between lattice points."""

    @abc.abstractmethod
    def _quantile(self, u: Array) -> Array:
        """The smallest n with P(N <= n) >= u."""

    @abc.abstractmethod
    def _log_mass(self, n: Array) -> Array:
        """The log of P(N = n)."""

    @abc.abstractmethod
    def _log_tail(self, n: Array) -> Array:
        """The log of P(N >= n), for n >= 0."""

    @property
    def exact_step(self) -> float:
        return self.step

    @property
    def support(self) -> AbstractSupport:
        return Lattice(step=self.step)

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The pair with the longest lattice vector between them that the sensitivity allows, in the
        columns with the least noise.
        """
        reach, change = self._stated_sensitivity() / self.step, np.zeros((1, k))
        if np.ndim(reach) == 1:
            change[0] = self.step * np.floor(reach * _WHOLE)
            return np.zeros((1, k)), change
        columns = self._quietest(k)
        one = self.norm == 1
        steps = [math.floor(reach * _WHOLE)] if one else longest_vector(reach**2, columns.size)
        change[0, columns[: len(steps)]] = self.step * np.array(steps)
        return np.zeros((1, k)), change

    def _continued(self) -> AbstractNoiseLaw:
        return ContinuedNoise(self)

    def _transport(self, u: Array, s: Array) -> Array:
        return self.step * ((s / self.step).round() + self._quantile(u))

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        origin, on_lattice = lattice_index(s, self.step)
        return jnp.where(on_lattice, self._log_mass((s_dp / self.step).round() - origin), -jnp.inf)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        n = jnp.floor(s_dp / self.step + LATTICE_TOLERANCE) - (s / self.step).round()
        return self._log_at_most(n)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        n = jnp.ceil(s_dp / self.step - LATTICE_TOLERANCE) - (s / self.step).round()
        return self._log_at_most(-n)

    def _log_at_most(self, n: Array) -> Array:
        """The log of P(N <= n) from the tail that is below one half."""
        tail = self._log_tail(jnp.where(n < 0.0, -n, n + 1.0))
        return jnp.where(n < 0.0, tail, jnp.log1p(-jnp.exp(tail)))

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return self._log_mass(jnp.zeros_like(s_dp))

    def _check_statistic(self, s: np.ndarray) -> None:
        finite = np.isfinite(s)
        if not np.all(
            lattice_index(np.where(finite, s, 0.0), self.step)[1] & (finite | np.isnan(s))
        ):
            raise InvalidInputError(
                f"{type(self).__name__} needs s in whole multiples of step={self.step:g}; at least"
                " one entry is not. A release rounds records to a grid: take the query of the"
                " release, whose statistics lie on the lattice (nw.PrivateModel.from_release"
                " does), or give your own query that grid=."
            )


class ContinuedNoise(AbstractNoiseLaw):
    """Noise on a lattice as a function of every real s: the formulas of its masses and tails, which
    are smooth but for a kink at s = s_dp.

    Attributes:
        noise: The noise, which refuses s off the lattice itself.
    """

    noise: AbstractLatticeNoise

    @property
    def support(self) -> AbstractSupport:
        return self.noise.support

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self.noise._log_mass((s_dp - s) / self.noise.step)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        step = self.noise.step
        return self.noise._log_at_most(jnp.floor(s_dp / step + LATTICE_TOLERANCE) - s / step)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        step = self.noise.step
        return self.noise._log_at_most(s / step - jnp.ceil(s_dp / step - LATTICE_TOLERANCE))


def longest_vector(budget: float, k: int) -> list[int]:
    """Whole numbers, at most k and at most 4 of them, with the largest sum of squares <= budget.

    Four are enough: every whole number is a sum of four squares (Lagrange).

    Args:
        budget: The largest squared length, a positive number.
        k: The number of columns.

    Returns:
        The entries of the vector, largest first.

    >>> longest_vector(18.0, 1), longest_vector(18.0, 2), longest_vector(7.0, 9)
    ([4], [3, 3], [2, 1, 1, 1])
    """
    left = math.floor(budget * _WHOLE)
    largest = math.isqrt(left)
    if k == 1 or left == 0:
        return [largest]
    firsts: Iterable[int] = [largest]
    if left < _SEARCHED_BELOW:
        firsts = range(largest, max(0, math.isqrt(left // min(k, 4)) - 1), -1)
    best: list[int] = []
    for first in firsts:
        vector = [first, *longest_vector(left - first**2, min(k, 4) - 1)]
        if sum(n**2 for n in vector) > sum(n**2 for n in best):
            best = vector
        if sum(n**2 for n in best) == left:
            break
    return best
