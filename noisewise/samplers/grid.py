"""Independent draws from a density in one or two dimensions, by a grid that zooms in on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import integer
from noisewise.errors import InvalidInputError

LogDensity = Callable[[np.ndarray], np.ndarray]
"""theta (N, d) -> unnormalised log density (N,); NaN counts as -inf."""

_COARSE = 64
"""Cells per axis of the grids that look for the mass: 4,096 in two dimensions, a fraction of the
last grid.
"""
_MAX_ZOOMS = 30
"""A limit that is not reached: each zoom shrinks the box by at least 30%, mostly far more."""
_NEGLIGIBLE = 1e-10
"""Density over the largest below which cells are cut off: their mass is below Monte Carlo error."""


@dataclasses.dataclass(frozen=True)
class GridDensity:
    """A density tabulated on the cells of a box: `edges` per axis, cell probabilities `masses`, log
    of the integral.
    """

    edges: tuple[np.ndarray, ...]
    masses: np.ndarray
    log_integral: float

    def sample(self, rng: np.random.Generator, num: int) -> Float[np.ndarray, "num d"]:
        """Draws, each from a cell chosen by its mass and uniformly inside it: (num, d)."""
        cells = rng.choice(self.masses.size, size=num, p=self.masses.ravel())
        indices = np.unravel_index(cells, self.masses.shape)
        return np.stack(
            [
                edges[i] + rng.random(num) * (edges[i + 1] - edges[i])
                for edges, i in zip(self.edges, indices, strict=True)
            ],
            -1,
        )

    def mean(self) -> Float[np.ndarray, " d"]:
        """The mean, exact up to the width of a cell."""
        return np.array(
            [self._marginal(axis) @ self._centres(axis) for axis in range(len(self.edges))]
        )

    def covariance(self) -> Float[np.ndarray, "d d"]:
        """The covariance matrix, exact up to the width of a cell."""
        centred = [self._centres(axis) - self.mean()[axis] for axis in range(len(self.edges))]
        grids = np.meshgrid(*centred, indexing="ij")
        return np.array([[np.sum(self.masses * a * b) for a in grids] for b in grids])

    def _centres(self, axis: int) -> np.ndarray:
        """The centres of the cells along one axis."""
        return (self.edges[axis][1:] + self.edges[axis][:-1]) / 2.0

    def _marginal(self, axis: int) -> np.ndarray:
        """Cell probabilities along one axis."""
        return self.masses.sum(tuple(other for other in range(self.masses.ndim) if other != axis))


def grid_density(
    log_density: LogDensity, low: Any, high: Any, *, resolution: int = 256
) -> GridDensity:
    r"""Tabulate a density of one or two variables on the part of the box [low, high] that holds its
    mass.

    Coarse grids find the cells above 1e-10 of the largest and shrink the box to them until it no
    longer shrinks; then `resolution` cells per axis are evaluated at their centres. Every mode in
    the box is kept if the first grid sees it, so choose a box that is not thousands of times wider
    than the density.

    With the final cell width h, a draw's mean is off by O(h^2), its variance larger by h^2/12 (some
    2e-4 of a normal density's at resolution 256).

    Args:
        log_density: theta (n, d) -> unnormalised log density (n,); NaN counts as -inf.
        low: The lower ends of the box, shape (d,) with d = 1 or 2.
        high: The upper ends.
        resolution: Cells per axis of the final grid.

    Returns:
        The table, to draw from.

    Raises:
        InvalidInputError: If the box is not finite, or the density is zero on the whole grid.

    >>> normal = lambda theta: -0.5 * ((theta - 3.0) ** 2).sum(-1)
    >>> table = grid_density(normal, [-50.0, -50.0], [50.0, 50.0])
    >>> table.mean().round(6).tolist(), round(float(np.exp(table.log_integral)) / (2 * np.pi), 6)
    ([3.0, 3.0], 1.0)
    """
    box = np.stack([np.atleast_1d(np.asarray(end, dtype=float)) for end in (low, high)])
    if box.shape[1] not in (1, 2) or not np.isfinite(box).all() or np.any(box[0] >= box[1]):
        raise InvalidInputError(
            "grid_density needs finite ends low < high of one or two variables."
        )
    resolution = integer("resolution", at_least=8)(resolution)
    for _ in range(_MAX_ZOOMS):
        edges, values = _tabulate(log_density, box, _COARSE)
        smaller = _occupied(edges, values)
        shrunk = np.prod(np.diff(smaller, axis=0)) / np.prod(np.diff(box, axis=0))
        box = smaller
        if shrunk > 0.7:
            break
    edges, values = _tabulate(log_density, box, resolution)
    volume = np.prod([edge[1] - edge[0] for edge in edges])
    top = values.max()
    masses = np.exp(values - top)
    return GridDensity(edges, masses / masses.sum(), float(top + np.log(masses.sum() * volume)))


def _tabulate(
    log_density: LogDensity, box: np.ndarray, resolution: int
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The log density at the centres of the cells of a box."""
    edges = tuple(np.linspace(low, high, resolution + 1) for low, high in box.T)
    centres = np.meshgrid(*[(edge[1:] + edge[:-1]) / 2.0 for edge in edges], indexing="ij")
    values = log_density(np.stack([c.ravel() for c in centres], -1)).reshape(centres[0].shape)
    values = np.where(np.isnan(values), -np.inf, values)
    if not np.any(values > -np.inf):
        raise InvalidInputError(
            "The density is zero (or NaN) on the whole grid: choose another box."
        )
    return edges, values


def _occupied(edges: tuple[np.ndarray, ...], values: np.ndarray) -> np.ndarray:
    """The box of all cells that matter, one cell wider on each side, within the old box."""
    occupied = values > values.max() + np.log(_NEGLIGIBLE)
    ends = []
    for axis, edge in enumerate(edges):
        other = tuple(i for i in range(values.ndim) if i != axis)
        cells = np.flatnonzero(occupied.any(other))
        ends.append((edge[max(cells[0] - 1, 0)], edge[min(cells[-1] + 2, edge.size - 1)]))
    return np.array(ends).T
