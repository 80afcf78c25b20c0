r"""Confidential statistics as targets of a density: columns that add nothing are left out,
lattices are spread over their cells.

    s = offset + round(r) matrix,        r = s_free + step (u - 1/2),        t = bend(r)

Constant columns and linear combinations of others have no density of their own: they are computed
from the free ones. A column on a lattice of width `step` (0 where there is none) is spread with
uniforms u, and so is an atom of another column, over an interval; the integral of a density of r is
then the probability of the point. Columns with heavy tails are bent.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from noisewise._core.arrays import Array
from noisewise.errors import MissingCapabilityError
from noisewise.estimators.whitening import Affine, Whitening
from noisewise.inference.learned.common.atoms import Atoms
from noisewise.inference.learned.common.bends import Bend
from noisewise.inference.learned.common.simulations import nothing_varies

_DEPENDENT = 1e-5
"""Residual sd of a column given the other columns, in its own sds, above which it counts as free:
above the rounding of simulators in float32, below anything that a network could use.
"""
_ROWS_PER_COLUMN = 4
"""Simulations per column below which linear relations are not looked for: with fewer rows chance
alone makes some.
"""
_MAX_DISTINCT = 0.9
"""Largest share of distinct values on a lattice: continuous values hardly ever repeat."""
_MAX_DIVISOR = 12
"""The smallest gap may be this multiple of the step, where neighbours are missing by chance."""
_ROUNDING = 1e-3
"""Steps: how far values may be off a lattice by rounding."""
_NUM_POINTS = 2000
"""Simulations among which neighbours are looked for: the estimate hardly changes with more."""
_MIN_POINTS = 100
"""Simulations below which the dimension cannot be estimated, and is not checked."""
_MIN_AT_END = 5
"""Simulations at an end of the range for it to be an end of the lattice, not just the largest seen.
"""
_INSTEAD = (
    "Use PrivateLikelihoodEstimation or PrivatePosteriorEstimation, which learn from statistics"
    " that noise has spread."
)


class StatisticSpace(eqx.Module):
    """The map between statistics s (..., k) and targets t (..., r) of the r free columns.

    `of` finds it from simulations. For a density q of t, the probability of a point on a lattice is
    the integral of q over its cell.
    """

    offset: Float[Array, " k"]
    matrix: Float[Array, "r k"]
    """With `offset`, all columns as linear functions of the free ones."""
    origin: Float[Array, " r"]
    """A point of each lattice."""
    step: Float[Array, " r"]
    """Its width; 0 for columns on no lattice."""
    low: Float[Array, " r"]
    high: Float[Array, " r"]
    """Where columns end, on a lattice or in an atom; infinite where they do not."""
    atoms: Atoms
    bend: Bend
    free: tuple[int, ...] = eqx.field(static=True)
    lattices: tuple[int, ...] = eqx.field(static=True)
    """Which of the free columns lie on lattices."""

    @staticmethod
    def of(s: Float[np.ndarray, "n k"]) -> StatisticSpace:
        """The space of statistics like simulated ones.

        Args:
            s: Simulated statistics, shape (n, k).

        Returns:
            The space of their free columns.

        Raises:
            InvalidInputError: If nothing varies.
        """
        free, offset, matrix = linear_relations(s)
        if not len(free):
            raise nothing_varies(len(s), ("the parameters",))
        steps = np.array([lattice_step(s[:, j]) for j in free])
        atoms = Atoms.of(s[:, free], steps)
        low, high = _ends(s[:, free], atoms)
        lattices = tuple(int(j) for j in np.flatnonzero(steps))
        numbers = offset, matrix, s[0, free], steps, low, high
        bend = Bend.of(np.asarray(atoms.spread(s[:, free], 0.5)))
        return StatisticSpace(*numbers, atoms, bend, tuple(int(j) for j in free), lattices)

    @property
    def dim(self) -> int:
        """The number of free columns."""
        return len(self.free)

    def targets(self, s: Float[Array, "*n k"], u: Float[Array, "*n r"]) -> Float[Array, "*n r"]:
        """t of statistics s and uniforms u, which spread columns over their cells."""
        return self.bend(self._spread(s, u))

    def log_slopes(self, s: Float[Array, "*n k"], u: Float[Array, "*n r"]) -> Float[Array, "*n"]:
        """log |dt / dr| there, or log of an atom's width: what turns a density of t into one of the
        columns themselves.
        """
        widths = self.atoms.log_width(s[..., np.array(self.free)])
        return (self.bend.log_slope(self._spread(s, u)) + widths).sum(axis=-1)

    def _spread(self, s: Array, u: Array) -> Array:
        """The free columns, spread over their cells and atoms."""
        return self.atoms.spread(s[..., np.array(self.free)], u)

    def _straight(self, t: Array) -> Array:
        """The free columns of targets, not rounded."""
        return self.atoms.joined(self.bend.inverse(t))

    @property
    def spreads(self) -> bool:
        """Whether columns are spread over cells or atoms."""
        return bool(self.lattices) or self.atoms.any

    def statistics(self, t: Float[Array, "*n r"]) -> Float[Array, "*n k"]:
        """s of targets t, rounded to the lattices and within their ends."""
        return self._within(self._rounded(self._straight(t), jnp.round))

    def corners(
        self, t: Float[Array, " r"], ramp: Float[Array, " r"]
    ) -> tuple[Float[Array, "j k"], Float[Array, " j"]]:
        r"""The points around t, and weights that sum to 1: the product over lattices of a ramp
        between two points,

            clip((f - 1/2) / ramp + 1/2, 0, 1)

        at a share f of the way from the lower to the upper one.

        A ramp of 0 would be rounding. One of 1 spreads s by another step^2 / 12 where q is smooth,
        but leaves everything continuous in t. All beyond an end of a lattice belongs to that end.
        """
        t = self._straight(t)
        below = self._rounded(t, jnp.floor)
        share = (t - below) / jnp.where(self.step > 0.0, self.step, 1.0)
        upper = jnp.clip((share - 0.5) / ramp + 0.5, 0.0, 1.0)[np.array(self.lattices, dtype=int)]
        up = np.array(list(itertools.product((False, True), repeat=len(self.lattices))))
        weights = jnp.prod(jnp.where(up, upper, 1.0 - upper), axis=1)
        steps = jnp.asarray(self.step)[np.array(self.lattices, dtype=int)] * up
        values = (
            jnp.repeat(below[None], len(up), axis=0)
            .at[:, np.array(self.lattices, dtype=int)]
            .add(steps)
        )
        return self._within(values), weights

    def neighbours(
        self, t: Float[Array, " r"], ramp: Float[Array, " r"]
    ) -> tuple[Float[Array, "1+l k"], Float[Array, " l"]]:
        """The points around t along each lattice alone.

        Args:
            t: A target.
            ramp: Widths of the ramps, in steps.

        Returns:
            The nearest point and, for each lattice, the next one towards t, within its ends; the
            weights of the latter, each along its own column.
        """
        chosen = np.array(self.lattices, dtype=int)
        t = self._straight(t)
        nearest = self._rounded(t, jnp.round)
        away, step = (t - nearest)[chosen], jnp.asarray(self.step)[chosen]
        moves = (
            jnp.zeros((len(chosen), self.dim))
            .at[np.arange(len(chosen)), chosen]
            .set(jnp.where(away < 0.0, -step, step))
        )
        values = jnp.concatenate([nearest[None], nearest + moves])
        share = jnp.clip((jnp.abs(away) / step - 0.5) / jnp.asarray(ramp)[chosen] + 0.5, 0.0, 0.5)
        return self._within(values), share

    def _within(self, values: Array) -> Array:
        """The statistics of free columns, which stay within the ends of their lattices."""
        return self.offset + jnp.clip(values, self.low, self.high) @ self.matrix

    def _rounded(self, t: Array, function: Callable[[Array], Array]) -> Array:
        """t with the columns on lattices rounded by a function."""
        rounded = self.origin + self.step * function(
            (t - self.origin) / jnp.where(self.step > 0.0, self.step, 1.0)
        )
        return jnp.where(self.step > 0.0, rounded, t)

    @property
    def log_cell(self) -> float:
        """The log volume of a cell, in the columns that have one."""
        return float(np.sum(np.log(np.asarray(self.step)[list(self.lattices)])))

    def contains(self, s: Float[np.ndarray, "n k"]) -> Bool[np.ndarray, " n"]:
        """Which rows of s are possible: on the lattices, and in line with the columns left
        out.
        """
        scale = np.maximum(np.abs(s).max(axis=0, initial=0.0), 1.0)
        with jax.enable_x64(True):
            again = np.asarray(self.statistics(self.targets(jnp.asarray(s), 0.5)))
        return (np.abs(again - s) <= _DEPENDENT * scale).all(axis=1)


def check_spread(
    z: Float[np.ndarray, "n p"], t: Float[np.ndarray, "n r"], lattices: Sequence[int] = ()
) -> None:
    r"""Refuse statistics that lie on a thin set given theta, such as a curve: there is no density
    to learn. Columns on lattices have cells, and so a density whatever their law; rows with atoms
    are to be left out, since what spreads them would count as a dimension.

    The dimension of the points (z, t), by the ratios m_i of the distances to the second and to the
    first neighbour, n / sum log m_i, must pass that of z by a third of the columns of t. Reference:
    Facco et al. (2017), Scientific Reports 7, 12140.
    """
    from scipy.spatial import cKDTree

    z, t = z[:_NUM_POINTS], np.delete(t[:_NUM_POINTS], list(lattices), axis=1)
    if len(z) < _MIN_POINTS or not t.shape[1]:
        return
    condition = Affine.fit(z)(z)
    points = np.concatenate(
        [condition, Whitening.fit(t, condition, degree=2).forward(t, condition)], axis=1
    )
    distances, _ = cKDTree(points).query(points, k=3)
    near = distances[:, 1] > 0.0
    ratios = np.log(distances[near, 2] / distances[near, 1])
    dimension = len(ratios) / max(ratios.sum(), 1e-300)
    if dimension < z.shape[1] + t.shape[1] / 3.0:
        raise MissingCapabilityError(
            "ConfidentialLikelihoodEstimation needs statistics with a density given theta. These"
            f" {t.shape[1]} have about {max(dimension - z.shape[1], 0.0):.1f} dimensions given"
            f" theta: the rest follows from them, or from theta. {_INSTEAD}"
        )


def linear_relations(
    s: Float[np.ndarray, "n k"],
) -> tuple[Int[np.ndarray, " r"], Float[np.ndarray, " k"], Float[np.ndarray, "r k"]]:
    """Which columns of simulated statistics are free: neither constant nor linear combinations of
    the others.

    Returns:
        The numbers of the free columns, and offset and matrix that give all columns from them.
    """
    from scipy.linalg import qr

    mean, spread = s.mean(axis=0), s.std(axis=0)
    varies = spread > 1e-12 * np.maximum(np.abs(mean), 1e-300)
    columns = np.flatnonzero(varies)
    if len(columns) and len(s) >= _ROWS_PER_COLUMN * len(columns):
        standard = (s[:, columns] - mean[columns]) / spread[columns]
        _, triangle, order = qr(standard, mode="economic", pivoting=True)
        rest = np.abs(np.diag(triangle)) / np.sqrt(len(s))
        columns = np.sort(columns[order[: np.sum(rest > _DEPENDENT)]])
        centred = s - mean
        matrix = (
            np.linalg.lstsq(centred[:, columns] / spread[columns], centred, rcond=None)[0]
            / spread[columns, None]
        )
        matrix[:, ~varies] = 0.0
    else:
        matrix = np.zeros((len(columns), s.shape[1]))
    matrix[:, columns] = np.eye(len(columns))
    return columns, mean - mean[columns] @ matrix, matrix


def lattice_step(values: Float[np.ndarray, " n"]) -> float:
    """The width of the lattice that all values lie on, or 0: on a lattice values repeat."""
    distinct = np.unique(values)
    gaps = np.diff(distinct)
    gaps = gaps[gaps > 1e-9 * np.abs(distinct).max()]
    if len(distinct) > _MAX_DISTINCT * len(values) or not len(gaps):
        return 0.0
    reach = distinct[-1] - distinct[0]
    for divisor in range(1, _MAX_DIVISOR + 1):
        step = reach / max(1.0, np.round(reach * divisor / gaps.min()))
        index = (distinct - distinct[0]) / step
        if np.abs(index - np.round(index)).max() < _ROUNDING:
            return float(step)
    return 0.0


def _ends(values: Float[np.ndarray, "n r"], atoms: Atoms) -> Float[np.ndarray, "2 r"]:
    """Where columns end: at values that are reached several times on a lattice, or at atoms, and
    never passed.
    """
    found = np.array([[-np.inf], [np.inf]]) * np.ones(values.shape[1])
    extremes = np.stack([values.min(axis=0), values.max(axis=0)])
    for row, end in enumerate(extremes):
        reached = (np.abs(values - end) < 0.5 * atoms.step).sum(axis=0) >= _MIN_AT_END
        is_atom = np.asarray(atoms.here(end)).any(axis=0)
        found[row] = np.where(reached | is_atom, end, found[row])
    return found
