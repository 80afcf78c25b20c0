"""Independent discrete Gaussian noise on a lattice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtri

from noisewise._core.arrays import Array, number
from noisewise._core.neighbours import AbstractNeighbours, joint_relation
from noisewise.mechanisms.calibration import require_guarantee
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
from noisewise.mechanisms.guarantees import AbstractGuarantee, ApproximateDP, ZeroConcentratedDP
from noisewise.mechanisms.lattice_noise import AbstractLatticeNoise
from noisewise.mechanisms.relations import neighbours_field

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_DIRECT_TERMS = 64  # terms of a tail that is summed; the next two lines say when they suffice
_DIRECT_BELOW_SIGMA = 6.0  # 64 terms of the tail reach beyond 10 sigma
_DIRECT_RATE = 0.6  # n / sigma^2: 64 terms fall by exp(-38)
_INTEGRAL_ABOVE_SIGMA = 3.0  # a lattice sum is then the integral, to exp(-2 (3 pi)^2) = 1e-77
_SD_TERMS = 128  # of the variance below that sigma: what is left out is beyond 42 sigma
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""The Bernoulli numbers B_2, B_4, ..., B_16."""
_MIDPOINT_WEIGHTS = tuple(
    (2.0 ** (1 - 2 * m) - 1.0) * b / math.factorial(2 * m)
    for m, b in enumerate(_BERNOULLI, start=1)
)
"""B_2m(1/2) / (2m)!, the weights of the Euler-Maclaurin formula from midpoint to midpoint."""


class DiscreteGaussian(AbstractLatticeNoise):
    r"""s_dp = s + step * N with P(N_j = n) ~ exp(-n^2 / (2 sigma^2)), sigma = scale/step, n whole.

    Guarantee: rho-zCDP with rho = Delta_2^2 / (2 scale^2), for vectors s whose L2 sensitivity is
    Delta_2 (Canonne, Kamath and Steinke 2020). With h = (s - s')/step and Z(c) = sum over whole n
    of exp(-|n - c|^2 / (2 sigma^2)),

        D_alpha = alpha |h|^2 / (2 sigma^2) + [log Z(alpha h) - log Z(0)] / (alpha - 1),

    and the bracket is never positive: a lattice sum is largest unshifted. It vanishes where alpha h
    is whole, so the bound is attained. `log_prob_bound` is attained at s = s_dp.

    The normaliser is the sum itself or its Poisson transform, whichever converges faster; tails are
    64 terms or the Euler-Maclaurin formula; quantiles correct the normal quantile by exact tails.
    All of them take sigma as a traced number, or one per column.

    With a scale per column the divergences of independent columns add up, so that rho is the
    maximum over neighbours of sum_j (D_j / scale_j)^2 / 2, D = s - s'. If the sensitivity is given
    per column this is at most sum_j (d_j / scale_j)^2 / 2; if it is one Delta_2, it is at most
    (Delta_2 / min scale)^2 / 2, which is a bound.

    Attributes:
        scale: The parameter sigma * step, in the units of s; nearly the standard deviation. A list
            has one per column.
        sensitivity: Delta_2, the largest change of s between neighbours; None if unknown, and then
            there is no guarantee. A list has d_j, the largest change of each column.
        step: The spacing of the lattice on which s and s_dp lie; 1 for counts.

    >>> import noisewise as nw
    >>> mechanism = nw.mechanisms.DiscreteGaussian(scale=2.0, sensitivity=1.0)
    >>> mechanism.guarantee
    ZeroConcentratedDP(rho=0.125)
    >>> mechanism.transport([0.01, 0.5, 0.99], [7.0, 7.0, 7.0]).tolist()
    [2.0, 7.0, 12.0]
    """

    norm: ClassVar[float] = 2.0

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
    ) -> DiscreteGaussian:
        """The smallest scale with the given zCDP guarantee, Delta_2 / sqrt(2 rho).

        Args:
            sensitivity: Delta_2, in the L2 norm, or the largest change of each column, of which the
                root of the sum of squares is taken.
            guarantee: ZeroConcentratedDP, or ApproximateDP, for which the largest rho that implies
                it is taken, `ZeroConcentratedDP.from_approximate`.
            step: The spacing of the lattice.
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind.
        """
        require_guarantee(guarantee, (ZeroConcentratedDP, ApproximateDP), "DiscreteGaussian")
        sensitivity = per_column("sensitivity", above=0.0)(sensitivity)
        if isinstance(guarantee, ApproximateDP):
            guarantee = ZeroConcentratedDP.from_approximate(guarantee)
        reach = length(sensitivity, cls.norm)
        scale = reach / math.sqrt(2.0 * guarantee.rho)  # type: ignore[attr-defined]
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        return cls(scale=scale, sensitivity=sensitivity, step=step, neighbours=relation)

    @property
    def guarantee(self) -> ZeroConcentratedDP:
        rho = self._rho(self.scale, self._stated_sensitivity())
        return ZeroConcentratedDP(rho, neighbours=self.neighbours)

    @property
    def needs_delta(self) -> bool:
        return True

    def _rho(self, scale: PerColumn, sensitivity: PerColumn) -> float:
        mu = loss(sensitivity, scale, self.norm)
        return mu * mu / 2  # where ** would raise, this is infinite, and refused

    def _noise_sd(self, k: int) -> PerColumn:
        return each(self._sd_of, self.scale)

    def _sd_of(self, scale: float) -> float:
        """step sqrt(sum_n n^2 w_n / sum_n w_n) with w_n = exp(-n^2 step^2 / (2 scale^2))."""
        if scale > _INTEGRAL_ABOVE_SIGMA * self.step:
            return scale
        sizes = range(1, _SD_TERMS)
        weights = [(n, math.exp(-0.5 * (n * self.step / scale) ** 2)) for n in sizes]
        total = 1.0 + 2.0 * math.fsum(weight for _, weight in weights)
        squares = 2.0 * math.fsum(n * n * weight for n, weight in weights)
        return self.step * math.sqrt(squares / total)

    @property
    def is_smooth(self) -> bool:
        return True

    def describe(self) -> str:
        scale = in_words("scale", self.scale)
        return f"discrete Gaussian noise of {scale}, in steps of {self.step:.4g}"

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        def sampler(scale: float, sensitivity: float) -> IntegerSampler:
            reach, steps = noise.in_steps(sensitivity, step), noise.in_steps(scale, step)
            rho = self._rho(scale, sensitivity)
            return noise.discrete_gaussian(steps, sensitivity=reach, rho=rho)

        draw = column_samplers(sampler, self.scale, self._stated_sensitivity())
        return lambda integers: [step * number for number in draw(integers)]

    def _quantile(self, u: Array) -> Array:
        """-n or n with the largest n >= 0 such that P(N >= n) reaches the smaller of u and 1-u."""
        tail = jnp.minimum(u, 1.0 - u)
        guess = jnp.floor(0.5 - self.scale / self.step * ndtri(tail))
        beyond = jnp.exp(self._log_tail(guess + 1.0))
        here = beyond + jnp.exp(self._log_mass(guess))
        before = here + jnp.exp(self._log_mass(guess - 1.0))
        reached = [
            jnp.where(u <= 0.5, mass >= tail, mass > tail) for mass in (before, here, beyond)
        ]
        size = jnp.maximum(guess - 2.0 + sum(reached), 0.0)
        return jnp.where(u <= 0.5, -size, size)

    def _log_mass(self, n: Array) -> Array:
        sigma = self.scale / self.step
        return -0.5 * (n / sigma) ** 2 - _log_normaliser(sigma)

    def _log_tail(self, n: Array) -> Array:
        sigma = self.scale / self.step
        direct = (sigma < _DIRECT_BELOW_SIGMA) | (n > _DIRECT_RATE * sigma**2)
        return jnp.where(
            direct, _log_tail_direct(n, sigma), _log_tail_smooth(n, jnp.maximum(sigma, 1.0))
        )


def _log_normaliser(sigma: Array) -> Array:
    """The log of the sum over n of exp(-n^2 / (2 sigma^2)), to 1e-16."""
    n, sigma = jnp.arange(1.0, 9.0), jnp.asarray(sigma)
    small, large = jnp.minimum(sigma, 1.0), jnp.maximum(sigma, 0.5)
    summed = jnp.log1p(2.0 * jnp.exp(-0.5 * (n / small[..., None]) ** 2).sum(-1))
    transformed = (
        jnp.log(large)
        + _LOG_SQRT_2PI
        + jnp.log1p(2.0 * jnp.exp(-2.0 * (math.pi * large[..., None] * n) ** 2).sum(-1))
    )
    return jnp.where(sigma < 0.8, summed, transformed)


def _log_tail_direct(n: Array, sigma: Array) -> Array:
    """The log of P(N >= n) as P(N = n) times a sum of ratios."""
    terms = jnp.arange(float(_DIRECT_TERMS))
    wide = jnp.asarray(sigma)[..., None]
    ratios = jnp.exp(-terms / wide * ((n[..., None] + 0.5 * terms) / wide))
    return -0.5 * (n / sigma) ** 2 + jnp.log(ratios.sum(-1)) - _log_normaliser(sigma)


def _log_tail_smooth(n: Array, sigma: Array) -> Array:
    r"""The log of P(N >= n) by the Euler-Maclaurin formula, with t = (n - 1/2)/sigma and the hazard
    h = phi(t)/Phi(-t):

        P(N >= n) = Phi(-t) [1 + h/sigma sum_m w_m He_(2m-1)(t) / sigma^(2m-1)].

    The Hermite polynomials carry their powers of sigma along, so that nothing overflows.
    """
    t = (n - 0.5) / sigma
    log_tail = log_ndtr(-t, series_order=8)
    hazard = jnp.exp(-0.5 * t**2 - _LOG_SQRT_2PI - log_tail) / sigma
    before, hermite, total = jnp.ones_like(t), t / sigma, jnp.zeros_like(t)
    for m, weight in enumerate(_MIDPOINT_WEIGHTS, start=1):
        total += weight * hermite
        before, hermite = hermite, t / sigma * hermite - (2 * m - 1) / sigma**2 * before
        before, hermite = hermite, t / sigma * hermite - 2 * m / sigma**2 * before
    return log_tail + jnp.log1p(hazard * total)
