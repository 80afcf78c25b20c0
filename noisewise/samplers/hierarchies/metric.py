r"""The metric of no-U-turn chains: scales of all coordinates, correlations of some.

Chains move in u, of which w = scale * (R u_1, u_2): u_1 are the coordinates whose correlations are
learnt, R R' their correlation matrix. With the unit metric in u this is the metric in w whose
inverse is the covariance of w (Stan manual, Hamiltonian Monte Carlo, dense and diagonal metrics).
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.samplers.densities import LogDensity
from noisewise.samplers.hierarchies.centring import hessian_diagonal, hessian_products

_PRIOR_DRAWS = 5.0
"""Draws that the metric before a window counts for, as in Stan."""
_MOST_CORRELATED = 50
"""Coordinates whose correlations are learnt, at most: a window has some hundred draws."""


class Metric(eqx.Module):
    """Scales of d coordinates, and the correlations of those in `columns`.

    Attributes:
        scales: Standard deviations.
        root: The lower root of the correlation matrix of `columns`.
        columns: The coordinates whose correlations are learnt.
    """

    scales: Float[Array, " d"]
    root: Float[Array, "m m"]
    columns: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def of_scales(scales: Array, columns: tuple[int, ...]) -> Metric:
        """Without correlations.

        >>> metric = Metric.of_scales(np.array([1.0, 2.0, 3.0]), (0, 2))
        >>> metric.to_w(jnp.ones(3)).tolist()
        [1.0, 2.0, 3.0]
        """
        return Metric(scales, jnp.eye(len(columns)), columns)

    def to_w(self, u: Float[Array, " d"]) -> Float[Array, " d"]:
        """Where u lies in w."""
        m = len(self.columns)
        return self.scales * jnp.concatenate([self.root @ u[:m], u[m:]])[self._places]

    def from_w(self, w: Float[Array, " d"]) -> Float[Array, " d"]:
        """The u whose w this is."""
        m, u = len(self.columns), (w / self.scales)[self._order]
        return jnp.concatenate([_solved(self.root, u[:m]), u[m:]])

    def slope_in_u(self, slope: Float[Array, " d"]) -> Float[Array, " d"]:
        """The slope in u of what has this slope in w."""
        m, x = len(self.columns), (slope * self.scales)[self._order]
        return jnp.concatenate([self.root.T @ x[:m], x[m:]])

    def slope_in_w(self, slope: Float[Array, " d"]) -> Float[Array, " d"]:
        """The slope in w of what has this slope in u."""
        m = len(self.columns)
        x = jnp.concatenate([_solved(self.root, slope[:m], transposed=True), slope[m:]])
        return x[self._places] / self.scales

    @property
    def _order(self) -> np.ndarray:
        """The coordinates of w in the order of u."""
        rest = [i for i in range(self.scales.shape[0]) if i not in set(self.columns)]
        return np.array([*self.columns, *rest], dtype=int)

    @property
    def _places(self) -> np.ndarray:
        return np.argsort(self._order)


class Moments(eqx.Module):
    """Of the draws in a window: how many, their mean, sums of squares, and of products of
    `columns`.
    """

    num: Float[Array, ""]
    mean: Float[Array, " d"]
    squares: Float[Array, " d"]
    products: Float[Array, "m m"]

    @staticmethod
    def none(metric: Metric) -> Moments:
        """Of no draws."""
        zeros = jnp.zeros_like(metric.scales)
        return Moments(jnp.zeros(()), zeros, zeros, jnp.zeros_like(metric.root))

    def with_draws(self, cloud: Float[Array, "c d"], metric: Metric) -> Moments:
        """With some draws more."""
        num, new = self.num, len(cloud)
        mean = cloud.mean(axis=0)
        gap, off = mean - self.mean, cloud - mean
        both = num * new / (num + new)
        columns = np.array(metric.columns, dtype=int)
        some, aside = off[:, columns], gap[columns]
        return Moments(
            num + new,
            self.mean + gap * new / (num + new),
            self.squares + jnp.sum(off**2, axis=0) + gap**2 * both,
            self.products + some.T @ some + jnp.outer(aside, aside) * both,
        )

    def emptied(self, is_emptied: Any) -> Moments:
        """Of no draws where that is so."""
        return jax.tree.map(lambda part: jnp.where(is_emptied, 0.0, part), self)

    def metric(self, before: Metric) -> Metric:
        """The metric of these draws, shrunk towards the one before: by as many draws as Stan takes,
        and one more for each coordinate whose correlations are learnt.
        """
        degrees = jnp.maximum(self.num - 1.0, 1.0)
        mixed = _mixed(self.num, self.squares / degrees, before.scales**2, _PRIOR_DRAWS)
        fine = (mixed > 0.0) & jnp.isfinite(mixed)
        scales = jnp.where(fine, jnp.sqrt(mixed), before.scales)
        some = before.scales[np.array(before.columns, dtype=int)]
        old = before.root @ before.root.T * jnp.outer(some, some)
        prior_draws = _PRIOR_DRAWS + len(before.columns)
        covariance = _mixed(self.num, self.products / degrees, old, prior_draws)
        return Metric(scales, _root_or(before.root, covariance), before.columns)


def metric_of_curvature(
    density: LogDensity, at: Float[Array, " d"], usual: Float[Array, " d"], columns: tuple[int, ...]
) -> Metric:
    """The metric of the normal law that has the density's curvature at a point, where there is one;
    without correlations unless those of all coordinates are learnt.

    Args:
        density: w (d,) -> unnormalised log density.
        at: The point.
        usual: Scales of coordinates along which the density is not curved downwards.
        columns: The coordinates whose correlations are learnt.
    """
    if len(columns) < len(at):
        scales = jnp.sqrt(-1.0 / hessian_diagonal(density, at))
        return Metric.of_scales(jnp.where(jnp.isfinite(scales), scales, usual), columns)
    rows = hessian_products(density, at, jnp.eye(len(at)))
    scales = jnp.sqrt(-1.0 / jnp.diag(rows))
    alone = Metric.of_scales(jnp.where(jnp.isfinite(scales), scales, usual), columns)
    covariance = jnp.linalg.inv(-0.5 * (rows + rows.T))
    root = _root_or(jnp.full_like(covariance, jnp.nan), covariance)
    joint = Metric(jnp.sqrt(jnp.diag(covariance)), root, columns)
    exists = jnp.isfinite(root).all() & jnp.isfinite(joint.scales).all()
    return jax.tree.map(lambda one, other: jnp.where(exists, one, other), joint, alone)


def correlated_columns(dim: int, effects: set[int]) -> tuple[int, ...]:
    """The coordinates whose correlations are learnt: those that are no effects, unless they are
    many. Effects hardly depend on each other once they are centred by their shares.
    """
    found = tuple(column for column in range(dim) if column not in effects)
    return found if 1 < len(found) <= _MOST_CORRELATED else ()


def _mixed(num: Array, found: Array, before: Array, prior_draws: float) -> Array:
    return (num * found + prior_draws * before) / (num + prior_draws)


def _root_or(before: Array, covariance: Array) -> Array:
    """The lower root of the correlation matrix; the one before where there is none."""
    if not before.size:
        return before
    sds = jnp.sqrt(jnp.diag(covariance))
    root = jnp.linalg.cholesky(covariance / jnp.outer(sds, sds))
    return jnp.where(jnp.isfinite(root).all(), root, before)


def _solved(root: Array, x: Array, *, transposed: bool = False) -> Array:
    if not root.size:
        return x
    return jax.scipy.linalg.solve_triangular(root, x, lower=True, trans=int(transposed))
