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
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.lattice_noise import AbstractLatticeNoise
from noisewise.mechanisms.relations import neighbours_field


class DiscreteLaplace(AbstractLatticeNoise):
    r"""s_dp = s + step * N with P(N_j = n) = (1-q)/(1+q) q^|n|, q = exp(-step/scale).

    Also called the geometric mechanism. Guarantee: epsilon = Delta_1 / scale, because P(N = n) is a
    constant times exp(-|step n| / scale) and |step n|_1 changes by at most Delta_1 (Ghosh,
    Roughgarden and Sundararajan 2009). Tight: the ratio is reached for s_dp beyond s.
    `log_prob_bound` is attained at s = s_dp.

    Attributes:
        scale: t = Delta_1 / epsilon, in the units of s.
        sensitivity: Delta_1, the largest change of s between neighbours; None if unknown, and then
            there is no guarantee.
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

    scale: float = eqx.field(converter=number("scale", above=0.0))
    sensitivity: float | None = eqx.field(
        default=None, converter=number("sensitivity", above=0.0, optional=True)
    )
    step: float = eqx.field(default=1.0, converter=number("step", above=0.0))
    neighbours: AbstractNeighbours = neighbours_field()

    @classmethod
    def calibrate(
        cls,
        *,
        sensitivity: float,
        guarantee: AbstractGuarantee,
        step: float = 1.0,
        neighbours: AbstractNeighbours | None = None,
    ) -> DiscreteLaplace:
        """The smallest scale with the given guarantee: Delta_1 / epsilon, whatever the step.

        Args:
            sensitivity: Delta_1, in the L1 norm.
            guarantee: A PureDP.
            step: The spacing of the lattice.
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind, or epsilon is 0.
        """
        epsilon = pure_epsilon(guarantee, "DiscreteLaplace")
        sensitivity = number("sensitivity", above=0.0)(sensitivity)
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        scale = sensitivity / epsilon
        return cls(scale=scale, sensitivity=sensitivity, step=step, neighbours=relation)

    @property
    def guarantee(self) -> PureDP:
        return PureDP(self._stated_sensitivity() / self.scale, neighbours=self.neighbours)

    def _noise_sd(self, k: int) -> float:
        """step sqrt(2 q) / (1 - q)."""
        rate = self.step / self.scale
        return self.step * math.sqrt(2.0) * math.exp(-rate / 2.0) / -math.expm1(-rate)

    def describe(self) -> str:
        return f"discrete Laplace noise of scale {self.scale:.4g}, in steps of {self.step:.4g}"

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        reach = noise.whole_steps(self._stated_sensitivity(), step)
        scale, epsilon = noise.in_steps(self.scale, step), self.guarantee.epsilon
        draw = noise.discrete_laplace(scale, sensitivity=reach, epsilon=epsilon)
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
