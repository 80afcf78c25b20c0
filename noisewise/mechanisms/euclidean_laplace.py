"""Noise whose density falls with the Euclidean length: Laplace noise for L2 sensitivity."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Float

from noisewise._core.arrays import Array, number
from noisewise._core.neighbours import AbstractNeighbours, joint_relation
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.calibration import pure_epsilon
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.law import ALL_CAPABILITIES, Capability
from noisewise.mechanisms.relations import neighbours_field
from noisewise.mechanisms.supports import AbstractSupport, Real

_NEWTON_STEPS = 10  # one to reach the concave side, the others double the correct digits
_LEAST_CUBE_ROOT = 1e-3  # a positive start, where Wilson and Hilferty's may be negative


class EuclideanLaplace(AbstractMechanism):
    r"""s_dp = s + Z with density of Z ~ exp(-|z|_2 / b) on R^k, b = `scale`.

    |Z|_2 ~ Gamma(k, b) and the direction is uniform on the sphere, so the normaliser is b^k
    Gamma(k) 2 pi^(k/2) / Gamma(k/2). The transport takes k+1 uniforms: the first gives the length,
    the others a normal vector that gives the direction.

    Use it instead of `Laplace` where the L2 sensitivity is much smaller than the L1 sensitivity and
    the guarantee must be pure.

    Guarantee: epsilon = Delta_2 / b, because the length changes by at most |s - s'|_2 (Chaudhuri,
    Monteleoni and Sarwate 2011; the K-norm mechanism of Hardt and Talwar 2010 for the L2 ball).
    Tight: reached for s_dp on the line beyond s. Columns depend on each other, so there is no
    `log_cdf`. `log_prob_bound` is attained at s = s_dp.

    Attributes:
        scale: b = Delta_2 / epsilon, in the units of s.
        sensitivity: Delta_2, the largest change of s between neighbours; None if unknown, and then
            there is no guarantee.
        neighbours: Which databases these are; `nw.ReplaceOne()` by default.

    >>> import noisewise as nw
    >>> EuclideanLaplace = nw.mechanisms.EuclideanLaplace
    >>> mechanism = EuclideanLaplace.calibrate(sensitivity=2.0, guarantee=nw.PureDP(4.0))
    >>> mechanism
    EuclideanLaplace(scale=0.5, sensitivity=2.0)
    >>> mechanism.num_uniforms(3)
    4
    >>> mechanism.log_prob([0.0, 0.0, 0.0], [0.0, 0.3, 0.4]).round(6).item()
    -2.14473
    """

    norm: ClassVar[float] = 2.0

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
    ) -> EuclideanLaplace:
        """The smallest scale with the given guarantee: b = Delta_2 / epsilon.

        Args:
            sensitivity: Delta_2, in the L2 norm.
            guarantee: A PureDP.
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind, or epsilon is 0.
        """
        epsilon = pure_epsilon(guarantee, "EuclideanLaplace")
        sensitivity = number("sensitivity", above=0.0)(sensitivity)
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        return cls(scale=sensitivity / epsilon, sensitivity=sensitivity, neighbours=relation)

    @property
    def guarantee(self) -> PureDP:
        return PureDP(self._stated_sensitivity() / self.scale, neighbours=self.neighbours)

    exact_counterpart: ClassVar[str | None] = "DiscreteLaplace"

    def _noise_sd(self, k: int) -> float:
        """b sqrt(k+1), since E|Z|^2 = k (k+1) b^2."""
        return self.scale * math.sqrt(k + 1.0)

    def describe(self) -> str:
        return f"Laplace noise of scale {self.scale:.4g} in a random direction"

    @property
    def support(self) -> AbstractSupport:
        return Real()

    @property
    def capabilities(self) -> frozenset[Capability]:
        return ALL_CAPABILITIES - {Capability.CDF}

    def num_uniforms(self, k: int) -> int:
        return k + 1

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        other = np.zeros((1, k))
        other[0, 0] = self._stated_sensitivity()
        return np.zeros((1, k)), other

    def _transport(self, u: Array, s: Array) -> Array:
        normal = ndtri(u[..., 1:])
        length = jnp.linalg.norm(normal, axis=-1, keepdims=True)
        direction = jnp.where(
            length > 0.0, normal / jnp.where(length > 0.0, length, 1.0), s.shape[-1] ** -0.5
        )
        return s + self.scale * gamma_quantile(s.shape[-1], u[..., :1]) * direction

    def _log_prob(self, s_dp: Array, s: Array) -> Array:
        squared = jnp.sum((s_dp - s) ** 2, axis=-1)
        # The length has no gradient at 0; take 0 there, the centre of its subgradients, as for |z|.
        length = jnp.where(squared > 0.0, jnp.sqrt(jnp.where(squared > 0.0, squared, 1.0)), 0.0)
        return -length / self.scale - self._log_normaliser(s_dp.shape[-1])

    def _log_prob_bound(self, s_dp: Array) -> Array:
        return jnp.full(s_dp.shape[:-1], -self._log_normaliser(s_dp.shape[-1]))

    def _log_normaliser(self, k: int) -> Array:
        log_sphere = math.log(2.0) + 0.5 * k * math.log(math.pi) - math.lgamma(0.5 * k)
        return k * jnp.log(self.scale) + math.lgamma(k) + log_sphere


def gamma_quantile(k: int, u: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    r"""The x with P(Gamma(k) <= x) = u, for whole k >= 1, to a relative error of some 1e-14.

    Newton's method in the tail that holds u, in y = log x for the lower one and in x for the upper
    one:

        log P(Gamma(k) <= x) = k y - x - log k! + log S,
            S = 1 + x/(k+1) (1 + x/(k+2) (1 + ...)),
        log P(Gamma(k) >= x) = (k-1) y - x - log (k-1)! + log R,
            R = 1 + (k-1)/x (1 + (k-2)/x (1 + ... 1/x)).

    Their slopes are k/S and -1/R. Both are concave, so after its first step Newton's method
    approaches the root from one side.

    Args:
        k: The shape of the gamma law, whose scale is 1.
        u: Probabilities inside (0, 1), float64.

    Returns:
        Quantiles, with the shape of `u`.

    >>> with jax.enable_x64(True):
    ...     round(gamma_quantile(1, jnp.asarray(0.5)).item(), 6)
    0.693147
    """
    lower = u <= 0.5
    tail = jnp.where(lower, u, 1.0 - u)
    low = _lower_quantile(k, jnp.where(lower, tail, 0.5), ndtri(tail))
    high = _upper_quantile(k, jnp.where(lower, 0.5, tail), -ndtri(tail))
    return jnp.where(lower, low, high)


def _lower_quantile(k: int, u: Array, z: Array) -> Array:
    terms = 20 + math.isqrt(80 * k)  # for x up to the median, below k: the rest is below 2^-53

    def newton(_: int, y: Array) -> Array:
        x = jnp.exp(y)
        series = jax.lax.fori_loop(
            0, terms, lambda i, acc: 1.0 + x / (k + terms - i) * acc, jnp.ones_like(x)
        )
        excess = k * y - x - math.lgamma(k + 1) + jnp.log(series) - jnp.log(u)
        return y - excess * series / k

    # x^k / k! bounds the probability from above, so this starts below the root; the cube is Wilson
    # and Hilferty's.
    floor = (jnp.log(u) + math.lgamma(k + 1)) / k
    return jnp.exp(
        jax.lax.fori_loop(
            0, _NEWTON_STEPS, newton, jnp.maximum(floor, jnp.log(_wilson_hilferty(k, z)))
        )
    )


def _upper_quantile(k: int, v: Array, z: Array) -> Array:
    def newton(_: int, x: Array) -> Array:
        series = jax.lax.fori_loop(1, k, lambda i, acc: 1.0 + i / x * acc, jnp.ones_like(x))
        excess = (k - 1) * jnp.log(x) - x - math.lgamma(k) + jnp.log(series) - jnp.log(v)
        return x + excess * series

    return jax.lax.fori_loop(0, _NEWTON_STEPS, newton, _wilson_hilferty(k, z))


def _wilson_hilferty(k: int, z: Array) -> Array:
    root = 1.0 - 1.0 / (9.0 * k) + z / (3.0 * math.sqrt(k))
    return k * jnp.maximum(root, _LEAST_CUBE_ROOT) ** 3
