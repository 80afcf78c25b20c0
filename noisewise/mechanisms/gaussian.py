"""Independent Gaussian noise."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtri

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AbstractNeighbours, joint_relation
from noisewise.mechanisms.additive_noise import AbstractAdditiveNoise
from noisewise.mechanisms.calibration import require_guarantee
from noisewise.mechanisms.columns import PerColumn, in_words, length, loss, per_column
from noisewise.mechanisms.guarantees import (
    AbstractGuarantee,
    ApproximateDP,
    GaussianDP,
    ZeroConcentratedDP,
)
from noisewise.mechanisms.relations import neighbours_field
from noisewise.mechanisms.supports import AbstractSupport, Real

_TAIL_TERMS = 8
"""Terms of the asymptotic series of log Phi below -20; the default of 3 is off by 4e-9 there."""


class Gaussian(AbstractAdditiveNoise):
    r"""s_dp = s + Z, Z_j ~ N(0, scale^2).

    Guarantee: mu-GDP with mu = Delta_2 / sigma, because testing N(s, sigma^2 I) against N(s',
    sigma^2 I) is testing N(0, 1) against N(|s - s'|_2 / sigma, 1) (Dong, Roth and Su 2022). Exact:
    every other guarantee of Gaussian noise follows.

    With a scale per column, dividing each column by its own sigma_j shows that mu is the maximum
    over neighbours of sqrt(sum_j (D_j / sigma_j)^2), D = s - s'. If the sensitivity is given per
    column this is at most sqrt(sum_j (d_j / sigma_j)^2), and reached if some neighbours change all
    columns by as much at once. If it is one Delta_2, it is at most Delta_2 / min sigma: a bound,
    reached if all of the change may fall into the column with the least noise.

    Attributes:
        scale: sigma, the standard deviation, in the units of s. A list has one sigma_j per column.
        sensitivity: Delta_2, the largest change of s between neighbours; None if unknown, and then
            there is no guarantee. A list has d_j, the largest change of each column.

    >>> import noisewise as nw
    >>> mechanism = nw.mechanisms.Gaussian(scale=2.0, sensitivity=1.0)
    >>> mechanism.guarantee
    GaussianDP(mu=0.5)
    >>> wanted = nw.ApproximateDP(epsilon=1.0, delta=1e-6)
    >>> mechanism = nw.mechanisms.Gaussian.calibrate(sensitivity=1.0, guarantee=wanted)
    >>> round(mechanism.scale, 6), mechanism.guarantee.within(wanted)
    (4.224679, True)
    >>> nw.mechanisms.Gaussian(scale=[1.0, 0.75], sensitivity=[3.0, 3.0]).guarantee
    GaussianDP(mu=5.0)
    """

    norm: ClassVar[float] = 2.0

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
    ) -> Gaussian:
        """The smallest scale with the given guarantee: sigma = Delta_2 / mu.

        Args:
            sensitivity: Delta_2, in the L2 norm, or the largest change of each column, of which the
                root of the sum of squares is taken.
            guarantee: GaussianDP; ZeroConcentratedDP, with mu = sqrt(2 rho); or ApproximateDP, with
                the largest mu whose exact delta(epsilon) curve stays below the point asked for
                (Balle and Wang 2018).
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind.
            ConversionError: If delta is 0, which Gaussian noise cannot give.
        """
        require_guarantee(guarantee, (GaussianDP, ZeroConcentratedDP, ApproximateDP), "Gaussian")
        sensitivity = per_column("sensitivity", above=0.0)(sensitivity)
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        scale = length(sensitivity, cls.norm) / guarantee.to_gaussian().mu
        return cls(scale=scale, sensitivity=sensitivity, neighbours=relation)

    @property
    def guarantee(self) -> GaussianDP:
        mu = loss(self._stated_sensitivity(), self.scale, self.norm)
        return GaussianDP(mu, neighbours=self.neighbours)

    exact_counterpart: ClassVar[str | None] = "DiscreteGaussian"

    @property
    def normal_mixture(self) -> Literal["fixed"]:
        return "fixed"

    @property
    def needs_delta(self) -> bool:
        return True

    def _noise_sd(self, k: int) -> PerColumn:
        return self.scale

    @property
    def is_smooth(self) -> bool:
        return True

    def describe(self) -> str:
        return f"Gaussian noise with {in_words('standard deviation', self.scale)} on every number"

    @property
    def support(self) -> AbstractSupport:
        return Real()

    def _noise(self, u: Array) -> Array:
        return jnp.sign(0.5 - u) * self.scale * ndtri(jnp.minimum(u, 1.0 - u))

    def _noise_log_prob(self, z: Array) -> Array:
        return -0.5 * (z / self.scale) ** 2 - jnp.log(self.scale) - 0.5 * math.log(2.0 * math.pi)

    def _noise_log_cdf(self, z: Array) -> Array:
        return log_ndtr(z / self.scale, series_order=_TAIL_TERMS)
