r"""Chains on parameters and confidential statistics together, given a private statistic.

    p(z, s | s_dp) ∝ pi(z) q(s | z) eta(s_dp | s)

    s = S (V^-1 m(z) + P c) + C u,   S = (V^-1 + P)^-1 = C C'

The chains move in (z, u). With q(s | z) replaced by N(m(z), V), as the whitening has it, and eta by
a normal density in s of mean c and precision P, u would be standard normal given z, whatever the
scale of the noise: where eta is wide, u is the noise of the simulator, where it is narrow, that of
the mechanism. For a given z the map is linear, so that densities need no Jacobian.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile, jit_fast_compile
from noisewise._core.arrays import Array
from noisewise._core.keys import fold_in, generator
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.effects import blocks_of
from noisewise.inference.learned.common.sampling import Sampling
from noisewise.inference.learned.common.statistic_space import StatisticSpace
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.priors.prior import Prior
from noisewise.samplers.densities import as_pytree

_LENGTH = 5
"""Draws of each particle in one run: a thousand of them then make 5,000."""
_ROWS = 1024
"""Rows for which s is drawn at a time."""
_GRID = 201
"""Points per column for the width of the noise: spacing 1/200 of the range, refined by zooming."""
_ZOOMS = 8
"""Times that the grid narrows around noise it cannot resolve, each time by up to 50: enough for any
scale in float64.
"""
_MOST_LATTICES = 8
"""Columns on lattices up to which all corners of a cell are summed: 2^8 = 256 densities per step.
"""
_RAMP = 0.35
"""Width of the ramp between two points of a lattice, in standard deviations of a column given theta
and the others: it adds at most .35^2 / 12, 1%, to the variance.
"""
_MAX_EXPONENT = 700.0
"""Largest exponent whose exponential is finite in float64, with room for a sum."""


class JointTarget(eqx.Module):
    r"""(z, u) -> log of pi(z) q(t | z) eta(s_dp | t).

    On lattices eta(s_dp | t) is the sum of w_j eta(s_dp | s_j) over the points s_j around t. Their
    weights w_j change over a ramp so steep that what it adds to the variance of s is at most 1% of
    its variance given theta and the other columns, for a q that is smooth across cells. Beyond 8
    lattices, 256 points, log eta is taken to be linear on the points around t, and the sum is a
    product over lattices.
    """

    density: ConditionalDensity
    space: StatisticSpace
    mechanism: AbstractMechanism
    observed: Float[Array, " kp"]
    ramp: Float[Array, " r"]
    """Widths of the ramps between points of a lattice, in steps."""
    weight: Float[Array, "r r"]
    shift: Float[Array, " r"]
    root: Float[Array, "r r"]
    """S V^-1, S P c and C of the change of variables."""
    coarse: bool = eqx.field(static=True)
    """Whether the noise is narrower than a step of some lattice."""
    prior: Prior = eqx.field(static=True)

    @staticmethod
    def at(
        prior: Prior,
        density: ConditionalDensity,
        space: StatisticSpace,
        mechanism: AbstractMechanism,
        observed: Float[np.ndarray, " kp"],
        bounds: Float[np.ndarray, "2 k"],
    ) -> JointTarget:
        """The target for one observation.

        Args:
            prior: The prior of theta.
            density: q(t | z).
            space: The map of s to the free columns t.
            mechanism: What made the observation.
            observed: The observation.
            bounds: The smallest and largest simulated statistics, shape (2, k).

        Returns:
            The log density of (z, u), a pytree that can be called.
        """
        centre, sd = noise_profile(mechanism, observed, *bounds)
        pulled = space.matrix / np.maximum(sd, 1e-100) ** 2
        middle = np.clip(centre, *bounds)
        place = np.asarray(space.targets(middle, 0.5))
        middle = middle[list(space.free)]
        slope = np.exp(np.asarray(space.bend.log_slope(np.asarray(space.bend.inverse(place)))))
        there = pulled @ space.matrix.T
        precision = there / slope / slope[:, None]
        off = pulled @ (centre - space.offset) - there @ middle
        within = np.linalg.inv(density.whitening.root @ density.whitening.root.T)
        covariance = np.linalg.inv(within + precision)
        shift = covariance @ (precision @ place + off / slope)
        root = np.linalg.cholesky((covariance + covariance.T) / 2.0)
        own = 1.0 / np.sqrt(np.diag(within)) / slope
        ramp = np.clip(_RAMP * own / np.maximum(space.step, 1e-300), 1e-3, 1.0)
        coarse = bool((sd[list(space.free)] < np.asarray(space.step)).any())
        parts = (density, space, mechanism, observed, ramp, covariance @ within, shift, root)
        with jax.enable_x64(True):
            return as_pytree(JointTarget(*parts, coarse, prior))

    def __call__(self, y: Array) -> Array:
        z, t = self.places(y)
        return (
            self.prior.log_prob_unconstrained(z) + self.density.log_density(t, z) + self._log_eta(t)
        )

    def draw(self, key: Array, y: Array) -> Array:
        """A draw of s given y: one of the points around t."""
        _, t = self.places(y)
        if not self.space.lattices:
            return self.space.statistics(t)
        if self._sums:
            s, weights = self.space.corners(t, self.ramp)
            return s[
                jax.random.categorical(
                    key, jnp.log(weights) + self.mechanism.log_prob(self.observed, s)
                )
            ]
        s, _, odds = self._around(t)
        moved = jax.random.uniform(key, odds.shape) * (1.0 + odds) < odds
        return s[0] + moved @ (s[1:] - s[0])

    def _log_eta(self, t: Array) -> Array:
        """log eta(s_dp | t), summed or factorised over the points around t."""
        if not self.space.lattices:
            return self.mechanism.log_prob(self.observed, self.space.statistics(t))
        if self._sums:
            s, weights = self.space.corners(t, self.ramp)
            log_eta = self.mechanism.log_prob(self.observed, s)
            top = jax.lax.stop_gradient(jnp.max(jnp.where(weights > 0.0, log_eta, -jnp.inf)))
            return top + jnp.log(
                jnp.sum(weights * jnp.exp(jnp.minimum(log_eta - top, _MAX_EXPONENT)))
            )
        _, log_nearest, odds = self._around(t)
        return log_nearest + jnp.sum(jnp.log1p(odds))

    def _around(self, t: Array) -> tuple[Array, Array, Array]:
        """The points around t, log eta of the nearest with its weight, and the odds (L,) of the
        next one along each lattice.
        """
        s, share = self.space.neighbours(t, self.ramp)
        log_eta = self.mechanism.log_prob(self.observed, s)
        odds = share / (1.0 - share) * jnp.exp(jnp.minimum(log_eta[1:] - log_eta[0], _MAX_EXPONENT))
        return s, log_eta[0] + jnp.sum(jnp.log1p(-share)), odds

    @property
    def dim(self) -> int:
        """The number of columns of y."""
        return self.prior.unconstrained_dim + self.space.dim

    @property
    def _sums(self) -> bool:
        """Whether all corners are summed."""
        return len(self.space.lattices) <= _MOST_LATTICES

    def places(self, y: Array) -> tuple[Array, Array]:
        """z (p,) and t (r,) of y (p + r,)."""
        z, u = jnp.split(y, [self.prior.unconstrained_dim])
        mean = self.density.whitening.inverse(jnp.zeros_like(u), self.density.condition_scale(z))
        return z, self.weight @ mean + self.shift + self.root @ u


def noise_profile(
    mechanism: AbstractMechanism,
    observed: Float[np.ndarray, " kp"],
    low: Float[np.ndarray, " k"],
    high: Float[np.ndarray, " k"],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The mean and the sd of eta(observed | s) as a density in each column of s within its bounds,
    the others at their means.

    On a grid over the bounds, narrowed where the noise is about as wide as a cell.

    Args:
        mechanism: What made the observation.
        observed: The observation.
        low: The lower bound of each column.
        high: The upper bounds.

    Returns:
        Means and standard deviations, each of shape (k,).
    """
    margin = 0.1 * (high - low) + 1e-9 * np.maximum(np.abs(high), 1e-300)
    low, high = low - margin, high + margin
    centre, sd = (low + high) / 2.0, (high - low) / 4.0
    ends = np.stack([low, high], axis=1)
    for _ in range(_ZOOMS):
        grid = np.linspace(ends[:, 0], ends[:, 1], _GRID, axis=1)
        s = np.repeat(np.broadcast_to(centre, (len(centre), len(centre)))[:, None], _GRID, axis=1)
        s[np.arange(len(centre)), :, np.arange(len(centre))] = grid
        with jax.enable_x64(True):
            values = np.asarray(_log_eta(mechanism, observed, s))
        values = np.where(np.isfinite(values).any(axis=1, keepdims=True), values, 0.0)
        weights = np.exp(values - values.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        centre = np.sum(weights * grid, axis=1)
        spacing = grid[:, 1] - grid[:, 0]
        sd = np.sqrt(np.sum(weights * (grid - centre[:, None]) ** 2, axis=1) + spacing**2 / 12.0)
        half = np.where(sd > 2.0 * spacing, (ends[:, 1] - ends[:, 0]) / 2.0, 8.0 * sd)
        best = grid[np.arange(len(centre)), np.argmax(values, axis=1)]
        narrow = np.stack([np.maximum(low, best - half), np.minimum(high, best + half)], axis=1)
        ends = np.where((sd > 2.0 * spacing)[:, None], ends, narrow)
    return centre, sd


class JointReference(eqx.Module):
    """(z, u) -> log of pi(z) N(u; 0, I): the law that particles start from."""

    prior: Prior = eqx.field(static=True)

    def __call__(self, y: Array) -> Array:
        z, u = jnp.split(y, [self.prior.unconstrained_dim])
        return self.prior.log_prob_unconstrained(z) - 0.5 * jnp.sum(u**2)


def joint_sampling(target: JointTarget, settings: dict[str, Any]) -> Sampling:
    """Particles (z, u) from prior and noise to the posterior.

    Args:
        target: Their density in the end.
        settings: num_chains, num_warmup and target_ess.

    Returns:
        What `Populations` needs.
    """
    prior = target.prior

    def draw(key: Array, num: int) -> Float[np.ndarray, "n y"]:
        u = generator(key).standard_normal((num, target.space.dim))
        return np.concatenate([prior.unconstrain(prior.sample(key, num)), u], axis=1)

    densities = target, JointReference(prior)
    return Sampling(*densities, draw, length=_LENGTH, blocks=blocks_of(prior), **settings)


def statistics_at(
    key: Array, target: JointTarget, y: Float[np.ndarray, "n y"]
) -> Float[np.ndarray, "n k"]:
    """A draw of s for each draw of (z, u); in blocks, so that one program serves every number."""
    parts = []
    with jax.enable_x64(True):
        for start in range(0, len(y), _ROWS):
            block = y[start : start + _ROWS]
            full = np.concatenate([block, np.repeat(block[:1], _ROWS - len(block), axis=0)])
            drawn = _statistics(fold_in(key, start), target, full)
            parts.append(np.asarray(drawn)[: len(block)])
    return np.concatenate(parts)


@jit_fast_compile
def _log_eta(mechanism: AbstractMechanism, observed: Array, s: Array) -> Array:
    return mechanism.log_prob(observed, s)


@filter_jit_fast_compile
def _statistics(key: Array, target: JointTarget, y: Array) -> Array:
    return jax.vmap(target.draw)(jax.random.split(key, len(y)), y)
