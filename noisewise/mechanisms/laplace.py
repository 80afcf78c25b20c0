"""Independent Laplace noise."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AbstractNeighbours, joint_relation
from noisewise.mechanisms.additive_noise import AbstractAdditiveNoise
from noisewise.mechanisms.calibration import pure_epsilon
from noisewise.mechanisms.columns import PerColumn, in_words, length, loss, per_column
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.relations import neighbours_field
from noisewise.mechanisms.supports import AbstractSupport, Real


class Laplace(AbstractAdditiveNoise):
    r"""s_dp = s + Z, Z_j ~ Laplace(scale): density exp(-|z|/b) / (2b).

    Guarantee: epsilon = Delta_1 / b, because |z_1| + ... + |z_k| changes by at most |s - s'|_1 <=
    Delta_1 between neighbours (Dwork, McSherry, Nissim and Smith 2006). Tight: the ratio is reached
    for s_dp beyond s.

    With a scale per column the exponent is sum_j |z_j| / b_j, so that epsilon is the maximum over
    neighbours of sum_j |D_j| / b_j, D = s - s'. If the sensitivity is given per column this is at
    most sum_j d_j / b_j, and reached if some neighbours change all columns by as much at once. If
    it is one Delta_1, it is at most Delta_1 / min b: a bound, reached if all of the change may fall
    into the column with the least noise.

    Attributes:
        scale: b = Delta_1 / epsilon, in the units of s; the standard deviation is sqrt(2) b. A list
            has one b_j per column.
        sensitivity: Delta_1, the largest change of s between neighbours; None if unknown, and then
            there is no guarantee. A list has d_j, the largest change of each column.

    >>> import noisewise as nw
    >>> mechanism = nw.mechanisms.Laplace(scale=0.013, sensitivity=0.13)
    >>> mechanism.guarantee
    PureDP(epsilon=10.0)
    >>> nw.mechanisms.Laplace.calibrate(sensitivity=0.5, guarantee=nw.PureDP(10.0))
    Laplace(scale=0.05, sensitivity=0.5)
    >>> float(mechanism.log_prob([0.0, 0.0], [0.0, 0.013]).round(6))
    6.299317
    >>> Laplace(scale=[2.0, 4.0], sensitivity=1.0).guarantee
    PureDP(epsilon=0.5)
    >>> Laplace(scale=[2.0, 4.0], sensitivity=[1.0, 1.0]).guarantee
    PureDP(epsilon=0.75)
    """

    norm: ClassVar[float] = 1.0

    scale: PerColumn = eqx.field(converter=per_column("scale", above=0.0))
    sensitivity: PerColumn | None = eqx.field(
        default=None, converter=per_column("sensitivity", above=0.0, optional=True)
    )
    neighbours: AbstractNeighbours = neighbours_field()

    @classmethod
    def calibrate(
        cls,
        *,
        sensitivity: PerColumn,
        guarantee: AbstractGuarantee,
        neighbours: AbstractNeighbours | None = None,
    ) -> Laplace:
        """The smallest scale with the given guarantee: b = Delta_1 / epsilon.

        Args:
            sensitivity: Delta_1, in the L1 norm, or the largest change of each column, of which the
                sum is taken.
            guarantee: A PureDP.
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind, or epsilon is 0.
        """
        epsilon = pure_epsilon(guarantee, "Laplace")
        sensitivity = per_column("sensitivity", above=0.0)(sensitivity)
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        scale = length(sensitivity, cls.norm) / epsilon
        return cls(scale=scale, sensitivity=sensitivity, neighbours=relation)

    @property
    def guarantee(self) -> PureDP:
        epsilon = loss(self._stated_sensitivity(), self.scale, self.norm)
        return PureDP(epsilon, neighbours=self.neighbours)

    exact_counterpart: ClassVar[str | None] = "DiscreteLaplace"

    @property
    def normal_mixture(self) -> Literal["exponential"]:
        """Laplace noise of scale b is normal with variance 2 b^2 E, E standard exponential."""
        return "exponential"

    def _noise_sd(self, k: int) -> PerColumn:
        return math.sqrt(2.0) * self.scale

    def describe(self) -> str:
        return f"Laplace noise of {in_words('scale', self.scale)} on every number"

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
