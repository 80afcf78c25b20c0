"""Laws of one or two columns as a density implies them, tabulated finely enough to judge a million
draws.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from noisewise.audit.outputs import all_values
from noisewise.audit.smooth_tests import legendre
from noisewise.mechanisms.supports import AbstractSupport, Interval, Lattice

LogDensity = Callable[[np.ndarray], np.ndarray]
"""The log density, up to a constant, of values (..., columns)."""


@dataclasses.dataclass(frozen=True)
class Resolution:
    """How many cells a law on the line has, and one on the plane along each side."""

    line: int
    plane: int


FINE = Resolution(line=400_000, plane=1600)
"""For a million draws. Errors fall with the square of the number of cells, those of draws with the
root of theirs.
"""

COARSE = Resolution(line=100_000, plane=600)
"""For 100,000 draws: their errors grow 3 times, those of a plane 7 times, which leaves p-values
uniform; those of a line vanish.
"""


@dataclasses.dataclass(frozen=True)
class ColumnLaw:
    """A law on the line: atoms, and cells that start at `points`, with their masses and log
    densities (`levels`).
    """

    points: np.ndarray
    masses: np.ndarray
    levels: np.ndarray
    discrete: np.ndarray

    def transform(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """F(v-) + V (F(v) - F(v-)): uniform when `values` follow the law."""
        total = np.concatenate([[0.0], np.cumsum(self.masses)])
        total /= total[-1]
        index = np.clip(
            np.searchsorted(self.points, values, side="right") - 1, 0, self.points.size - 1
        )
        exact = self.discrete[index]
        width = np.append(np.diff(self.points), 0.0)[index]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(width > 0, (values - self.points[index]) / width, 1.0)
        share = np.where(exact, rng.random(values.size), np.clip(share, 0.0, 1.0))
        return np.where(
            values < self.points[0], 0.0, total[index] + share * (total[index + 1] - total[index])
        )

    def expected_ties(self, num_draws: int) -> float:
        """At most how many pairs of draws float64 makes equal: by the spacing of outputs, and of
        2^52 uniforms.
        """
        highest = np.exp(self.levels[~self.discrete].max()) / self.masses.sum()
        resolution = 4.0 * np.spacing(np.abs(self.points).max())
        return num_draws * (num_draws - 1) / 2 * (2.0**-52 + resolution * highest)


@dataclasses.dataclass(frozen=True)
class PlaneLaw:
    """A law on the plane: square cells between `edges` (2, m+1), with their masses and log
    densities (m, m).
    """

    edges: np.ndarray
    masses: np.ndarray
    levels: np.ndarray

    def margin(self, j: int) -> ColumnLaw:
        """The law of column j."""
        masses = self.masses.sum(1 - j)
        with np.errstate(divide="ignore"):
            levels = np.log(masses / np.diff(self.edges[j]))
        return ColumnLaw(
            self.edges[j],
            np.append(masses, 0.0),
            np.append(levels, -np.inf),
            np.zeros(masses.size + 1, dtype=bool),
        )

    def cross_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (2, 2) and second moments (2, 2, 2, 2) of phi_i(U_0) phi_j(U_1), i, j <= 2, U the
        transformed columns.
        """
        masses = self.masses / self.masses.sum()
        shares = [masses.sum(1 - j) for j in range(2)]
        first, second = (legendre(np.cumsum(share) - share / 2.0, 2) for share in shares)
        mean = first.T @ masses @ second
        return mean, np.einsum(
            "ai,ak,ab,bj,bl->ijkl", first, first, masses, second, second, optimize=True
        )


def column_law(
    support: AbstractSupport,
    log_density: LogDensity,
    ladder: np.ndarray,
    center: np.ndarray,
    resolution: Resolution = FINE,
) -> ColumnLaw:
    """The law of one column between the ends of its `ladder` of quantiles, with cell edges at
    `center`.
    """
    values = all_values(support)
    low, high = ladder.min(), ladder.max()
    if values is None and isinstance(support, Lattice):
        first, last = (
            round(max(low, support.low) / support.step),
            round(min(high, support.high) / support.step),
        )
        values = support.step * np.arange(first, last + 1)
    if values is not None:
        points = np.sort(values)
        levels = log_density(points[:, None])
        return ColumnLaw(points, np.exp(levels), levels, np.ones(points.size, dtype=bool))
    ends = (support.low, support.high) if isinstance(support, Interval) else (-np.inf, np.inf)
    low, high = max(low, ends[0]), min(high, ends[1])
    edges = np.unique(
        np.concatenate(
            [np.linspace(low, high, resolution.line + 1), center[(center > low) & (center < high)]]
        )
    )
    levels = log_density((edges[1:, None] + edges[:-1, None]) / 2.0)
    masses = np.exp(levels) * np.diff(edges)
    points, discrete = edges[:-1], np.zeros(levels.size, dtype=bool)
    if np.isfinite(ends[0]):
        # the atom takes the end itself, so the first cell starts just above it
        points = np.maximum(points, np.nextafter(ends[0], np.inf))
    atoms = np.array([end for end in ends if np.isfinite(end)])
    at_atoms = log_density(atoms[:, None]) if atoms.size else atoms
    points, levels = np.concatenate([points, atoms]), np.concatenate([levels, at_atoms])
    masses, discrete = (
        np.concatenate([masses, np.exp(at_atoms)]),
        np.concatenate([discrete, atoms == atoms]),
    )
    if not np.isfinite(ends[1]):
        points, levels = np.append(points, high), np.append(levels, -np.inf)
        masses, discrete = np.append(masses, 0.0), np.append(discrete, False)
    order = np.argsort(points)
    return ColumnLaw(points[order], masses[order], levels[order], discrete[order])


def plane_law(
    log_density: LogDensity, ladder: np.ndarray, resolution: Resolution = FINE
) -> PlaneLaw:
    """The law of two columns without atoms, on a square half as large again as their `ladder`
    (rows, 2).
    """
    center = (ladder.min(0) + ladder.max(0)) / 2.0
    reach, size = 1.5 * np.abs(ladder - center).max(), resolution.plane
    edges = center[:, None] + np.linspace(-reach, reach, size + 1)
    middle = (edges[:, 1:] + edges[:, :-1]) / 2.0
    levels = log_density(np.stack(np.meshgrid(*middle, indexing="ij"), axis=-1).reshape(-1, 2))
    return PlaneLaw(
        edges,
        (np.exp(levels) * (2.0 * reach / size) ** 2).reshape(size, -1),
        levels.reshape(size, -1),
    )


def ranked(law: ColumnLaw | PlaneLaw, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """P(T < t) + V P(T = t), with T the log density at an output of the law; ties share their mass
    at random.
    """
    levels, masses = law.levels.ravel(), law.masses.ravel()
    order = np.argsort(levels)
    total = np.concatenate([[0.0], np.cumsum(masses[order])]) / masses.sum()
    slack = 1e-9
    below = total[np.searchsorted(levels[order], values - slack, side="left")]
    upto = total[np.searchsorted(levels[order], values + slack, side="right")]
    return below + rng.random(values.size) * (upto - below)
