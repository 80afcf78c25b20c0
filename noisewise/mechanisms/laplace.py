"""Independent Laplace noise."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp

from noisewise._core.arrays import Array, number
from noisewise._core.neighbours import AbstractNeighbours, joint_relation
from noisewise.mechanisms.additive_noise import AbstractAdditiveNoise
from noisewise.mechanisms.calibration import pure_epsilon
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.relations import neighbours_field
from noisewise.mechanisms.supports import AbstractSupport, Real


class Laplace(AbstractAdditiveNoise):
    r"""s_dp = s + Z, Z_j ~ Laplace(scale): density exp(-|z|/b) / (2b).

    Guarantee: epsilon = Delta_1 / b, because |z_1| + ... + |z_k| changes by at most |s - s'|_1 <=
    Delta_1 between neighbours (Dwork, McSherry, Nissim and Smith 2006). Tight: the ratio is reached
    for s_dp beyond s.

    Attributes:
        scale: b = Delta_1 / epsilon, in the units of s; the standard deviation is sqrt(2) b.
        sensitivity: Delta_1, the largest change of s between neighbours; None if unknown, and then
            there is no guarantee.

    >>> import noisewise as nw
    >>> mechanism = nw.mechanisms.Laplace(scale=0.013, sensitivity=0.13)
    >>> mechanism.guarantee
    PureDP(epsilon=10.0)
    >>> nw.mechanisms.Laplace.calibrate(sensitivity=0.5, guarantee=nw.PureDP(10.0))
    Laplace(scale=0.05, sensitivity=0.5)
    >>> float(mechanism.log_prob([0.0, 0.0], [0.0, 0.013]).round(6))
    6.299317
    """

    norm: ClassVar[float] = 1.0

    scale: float = eqx.field(converter=number("scale", above=0.0))
    sensitivity: float | None = eqx.field(
        default=None, converter=number("sensitivity", above=0.0, optional=True)
    )
    neighbours: AbstractNeighbours = neighbours_field()

    @classmethod
    def calibrate(
        cls,
        *,
        sensitivity: float,
        guarantee: AbstractGuarantee,
        neighbours: AbstractNeighbours | None = None,
    ) -> Laplace:
        """The smallest scale with the given guarantee: b = Delta_1 / epsilon.

        Args:
            sensitivity: Delta_1, in the L1 norm.
            guarantee: A PureDP.
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind, or epsilon is 0.
        """
        epsilon = pure_epsilon(guarantee, "Laplace")
        sensitivity = number("sensitivity", above=0.0)(sensitivity)
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        return cls(scale=sensitivity / epsilon, sensitivity=sensitivity, neighbours=relation)

    @property
    def guarantee(self) -> PureDP:
        return PureDP(self._stated_sensitivity() / self.scale, neighbours=self.neighbours)

    exact_counterpart: ClassVar[str | None] = "DiscreteLaplace"

    @property
    def normal_mixture(self) -> Literal["exponential"]:
        """Laplace noise of scale b is normal with variance 2 b^2 E, E standard exponential."""
        return "exponential"

    def _noise_sd(self, k: int) -> float:
        return math.sqrt(2.0) * self.scale

    def describe(self) -> str:
        return f"Laplace noise of scale {self.scale:.4g} on every number"

    @property
    def support(self) -> AbstractSupport:
        return Real()

    def _noise(self, u: Array) -> Array:
        tail = jnp.minimum(u, 1.0 - u)
        return jnp.sign(u - 0.5) * -self.scale * jnp.log(2.0 * tail)

    def _noise_log_prob(self, z: Array) -> Array:
        return -jnp.abs(z) / self.scale - jnp.log(2.0 * self.scale)

    def _noise_log_cdf(self, z: Array) -> Array:
        below = jnp.where(z <= 0.0, z, -z) / self.scale - jnp.log(2.0)
        return jnp.where(z <= 0.0, below, jnp.log1p(-jnp.exp(below)))
