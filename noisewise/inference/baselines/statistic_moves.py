"""One sweep over theta, the statistics of a regression and the variances of their noise, for
many chains.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array
from noisewise.queries.base import AbstractMomentQuery
from noisewise.simulators import LinearRegression

_JITTER = 1e-11
"""Share of the variances added to a covariance, so that it has a Cholesky root in float64 where
columns of s depend on each other.
"""


class StatisticTarget(NamedTuple):
    """What the chains condition on.

    Attributes:
        observed: The private statistic, shape (k,).
        scale: The scale of its noise, shape (k,).
    """

    observed: Array
    scale: Array


class StatisticState(NamedTuple):
    """Where C chains are.

    Attributes:
        theta: Parameters, shape (c, d).
        s: Statistics, shape (c, k).
        variances: Variances of the noise, shape (c, k).
    """

    theta: Array
    s: Array
    variances: Array


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The three draws of a sweep, each a function of standard normals (c, .), so that one call of
    the generator serves them all.

    Attributes:
        simulator: The regression.
        query: Its moments.
        laplace: Whether the noise is Laplace, else it is Gaussian.
    """

    simulator: LinearRegression
    query: AbstractMomentQuery
    laplace: bool

    def start(self, target: StatisticTarget, theta: Array) -> StatisticState:
        """Chains at theta (C, d) with the mean variances of the noise; s is the first thing that a
        sweep draws.
        """
        shape = (len(theta), len(target.observed))
        variance = (2.0 if self.laplace else 1.0) * target.scale**2
        return StatisticState(theta, jnp.zeros(shape), jnp.full(shape, variance))

    def sweep(
        self, key: Array, target: StatisticTarget, state: StatisticState
    ) -> tuple[StatisticState, Array]:
        """One sweep.

        Returns:
            The next state, and two counts: chains in which X'X was clipped, and chains that
            overflowed and stay where they are.
        """
        k, d = state.s.shape[1], state.theta.shape[1]
        normals = jax.random.normal(key, (len(state.s), 4 * k + d))
        *e, last = jnp.split(normals, [k, 2 * k, 3 * k, 4 * k], axis=1)
        s = draw_statistic(e[0], e[1], *self.moments(state.theta), state.variances, target.observed)
        theta, clipped = self.draw_parameters(last, s)
        variances = (
            draw_variances(e[2], e[3], target.observed - s, target.scale)
            if self.laplace
            else state.variances
        )
        moved = StatisticState(theta, s, variances)
        fine = functools.reduce(jnp.logical_and, (jnp.isfinite(part).all(1) for part in moved))
        state = StatisticState(
            *(jnp.where(fine[:, None], new, old) for new, old in zip(moved, state, strict=True))
        )
        return state, jnp.stack([clipped, (~fine).sum()])

    def moments(self, theta: Array) -> tuple[Array, Array]:
        """Mean (c, k) and covariance (c, k, k) of s given theta (c, d), for unclamped records."""
        mean, covariance = jax.vmap(
            lambda beta: self.query.normal_moments(*self.simulator.record_moments(beta))
        )(theta)
        return mean, covariance / self.simulator.num_records

    def draw_parameters(self, e: Array, s: Array) -> tuple[Array, Array]:
        """beta (c, d) given s (c, k), from normals e (c, d), and how many X'X had to be clipped."""
        gram, cross, _ = self.query.sums_of(s)
        good = jnp.isfinite(jnp.linalg.cholesky(gram)).all((1, 2))
        gram = jax.lax.cond(good.all(), lambda matrix: matrix, _without_negative_part, gram)
        precision = (
            gram / self.simulator.noise_variance
            + jnp.eye(e.shape[1]) / self.simulator.prior_variance
        )
        root = jnp.linalg.cholesky(precision)
        whitened = solve_triangular(
            root, cross[..., None] / self.simulator.noise_variance, lower=True
        )
        return (
            solve_triangular(root, whitened + e[..., None], lower=True, trans=1)[..., 0],
            (~good).sum(),
        )


def draw_statistic(
    e: Array, f: Array, mean: Array, covariance: Array, variances: Array, observed: Array
) -> Array:
    """s (c, k) given N(mean, covariance) a priori and s_dp = s + N(0, variances): a draw of both,
    shifted by the difference from s_dp. e and f are standard normals (c, k).
    """
    identity = jnp.eye(mean.shape[1])
    scales = jnp.diagonal(covariance, axis1=1, axis2=2)[..., None] * identity
    root = jnp.linalg.cholesky(covariance + _JITTER * scales)
    s = mean + (root @ e[..., None])[..., 0]
    total = jnp.linalg.cholesky(covariance + variances[..., None] * identity)
    residual = (observed - s - jnp.sqrt(variances) * f)[..., None]
    solved = solve_triangular(
        total, solve_triangular(total, residual, lower=True), lower=True, trans=1
    )
    return s + (covariance @ solved)[..., 0]


def draw_variances(e: Array, f: Array, errors: Array, scale: Array) -> Array:
    r"""w (C, k) given the errors s_dp - s: 1/w is inverse Gaussian with mean 1/(b|error|) and shape
    1/b^2.

    The roots of Michael, Schucany and Haas (1976) for w are q and (b error)^2/q, with y = e^2 and q
    = b|error| + b^2 y/2 + sqrt(b^4 y^2/4 + b^3 y |error|), taken with odds q : b|error|. Nothing is
    divided by the error, which may be 0.
    """
    a, c = scale * jnp.abs(errors), (scale * e) ** 2
    q = a + c / 2 + jnp.sqrt(c**2 / 4 + a * c)
    return jnp.where(jax.scipy.special.ndtr(f) * (q + a) < q, q, a * (a / q))


def _without_negative_part(matrix: Array) -> Array:
    values, vectors = jnp.linalg.eigh(matrix)
    return (vectors * jnp.maximum(values, 0.0)[..., None, :]) @ jnp.swapaxes(vectors, -1, -2)


@jit_fast_compile(static_argnums=0)
def sweeps(
    kernel: Kernel,
    key: Array,
    target: StatisticTarget,
    carry: Any,
    first: int,
    last: int,
    num_warmup: int,
    thin: int,
) -> Any:
    """Sweeps number first to last - 1, each with a key of its own. Rows of what is kept are
    overwritten until they are complete.
    """

    def one(i: Array, carry: Any) -> Any:
        state, kept, counts = carry
        state, more = kernel.sweep(jax.random.fold_in(key, i), target, state)
        row = jnp.maximum(i - num_warmup, 0) // thin
        kept = tuple(
            part.at[row].set(now) for part, now in zip(kept, (state.theta, state.s), strict=True)
        )
        return state, kept, counts + more

    return jax.lax.fori_loop(first, last, one, carry)
