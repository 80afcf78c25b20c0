"""Independent discrete Laplace noise on a lattice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from noisewise._core.arrays import Array, number
from noisewise._core.neighbours import AbstractNeighbours, joint_relation
from noisewise.mechanisms.calibration import pure_epsilon
from noisewise.mechanisms.columns import (
    PerColumn,
    column_samplers,
    each,
    in_words,
    length,
    loss,
    per_column,
)
from noisewise.mechanisms.exact import ExactNoise, IntegerSampler
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.lattice_noise import AbstractLatticeNoise
from noisewise.mechanisms.relations import neighbours_field


class DiscreteLaplace(AbstractLatticeNoise):
    r"""s_dp = s + step * N with P(N_j = n) = (1-q)/(1+q) q^|n|, q = exp(-step/scale).

    Also called the geometric mechanism. Guarantee: epsilon = Delta_1 / scale, because P(N = n) is a
    constant times exp(-|step n| / scale) and |step n|_1 changes by at most Delta_1 (Ghosh,
    Roughgarden and Sundararajan 2009). Tight: the ratio is reached for s_dp beyond s.
    `log_prob_bound` is attained at s = s_dp.

    With a scale per column the exponent is sum_j |step n_j| / t_j, so that epsilon is the maximum
    over neighbours of sum_j |D_j| / t_j, D = s - s'. If the sensitivity is given per column this is
    at most sum_j d_j / t_j; if it is one Delta_1, it is at most Delta_1 / min t, which is a bound.

    Attributes:
        scale: t = Delta_1 / epsilon, in the units of s. A list has one t_j per column.
        sensitivity: Delta_1, the largest change of s between neighbours; None if unknown, and then
            there is no guarantee. A list has d_j, the largest change of each column.
        step: The spacing of the lattice on which s and s_dp lie; 1 for counts.

    >>> import noisewise as nw
    >>> DiscreteLaplace = nw.mechanisms.DiscreteLaplace
    >>> mechanism = DiscreteLaplace.calibrate(sensitivity=2.0, guarantee=nw.PureDP(0.5))
    >>> mechanism
    DiscreteLaplace(scale=4.0, sensitivity=2.0)
    >>> mechanism.transport([0.01, 0.5, 0.99], [7.0, 7.0, 7.0]).tolist()
    [-9.0, 7.0, 23.0]
    """

    norm: ClassVar[float] = 1.0

    scale: PerColumn = eqx.field(converter=per_column("scale", above=0.0))
    sensitivity: PerColumn | None = eqx.field(
        default=None, converter=per_column("sensitivity", above=0.0, optional=True)
    )
    step: float = eqx.field(default=1.0, converter=number("step", above=0.0))
    neighbours: AbstractNeighbours = neighbours_field()

    @classmethod
    def calibrate(
        cls,
        *,
        sensitivity: PerColumn,
        guarantee: AbstractGuarantee,
        step: float = 1.0,
        neighbours: AbstractNeighbours | None = None,
    ) -> DiscreteLaplace:
        """The smallest scale with the given guarantee: Delta_1 / epsilon, whatever the step.

        Args:
            sensitivity: Delta_1, in the L1 norm, or the largest change of each column, of which the
                sum is taken.
            guarantee: A PureDP.
            step: The spacing of the lattice.
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind, or epsilon is 0.
        """
        epsilon = pure_epsilon(guarantee, "DiscreteLaplace")
        sensitivity = per_column("sensitivity", above=0.0)(sensitivity)
        scale = length(sensitivity, cls.norm) / epsilon
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        return cls(scale=scale, sensitivity=sensitivity, step=step, neighbours=relation)

    @property
    def guarantee(self) -> PureDP:
        epsilon = loss(self._stated_sensitivity(), self.scale, self.norm)
        return PureDP(epsilon, neighbours=self.neighbours)

    def _noise_sd(self, k: int) -> PerColumn:
        """step sqrt(2 q) / (1 - q)."""

        def of(scale: float) -> float:
            rate = self.step / scale
            return self.step * math.sqrt(2.0) * math.exp(-rate / 2.0) / -math.expm1(-rate)

        return each(of, self.scale)

    def describe(self) -> str:
        scale = in_words("scale", self.scale)
        return f"discrete Laplace noise of {scale}, in steps of {self.step:.4g}"

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        def sampler(scale: float, sensitivity: float) -> IntegerSampler:
            reach, steps = noise.whole_steps(sensitivity, step), noise.in_steps(scale, step)
            epsilon = loss(sensitivity, scale, self.norm)
            return noise.discrete_laplace(steps, sensitivity=reach, epsilon=epsilon)

        draw = column_samplers(sampler, self.scale, self._stated_sensitivity())
        return lambda integers: [step * number for number in draw(integers)]

    def _quantile(self, u: Array) -> Array:
        t = self.scale / self.step
        q = jnp.exp(-1.0 / t)
        below = jnp.minimum(jnp.ceil(t * jnp.log(u * (1.0 + q))), -1.0)
        above = jnp.maximum(jnp.ceil(-t * jnp.log((1.0 - u) * (1.0 + q)) - 1.0), 0.0)
        return jnp.where(u <= q / (1.0 + q), below, above)

    def _log_mass(self, n: Array) -> Array:
        rate = self.step / self.scale
        return -rate * jnp.abs(n) + jnp.log(-jnp.expm1(-rate)) - jnp.log1p(jnp.exp(-rate))

    def _log_tail(self, n: Array) -> Array:
        rate = self.step / self.scale
        above = -rate * n - jnp.log1p(jnp.exp(-rate))
        return jnp.where(n > 0.0, above, -jnp.log1p(jnp.exp(-rate)))
