"""The laws of one or two columns that a density implies, as tables that suit a million draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from noisewise.audit.outputs import all_values
from noisewise.audit.uniforms.smooth_tests import legendre
from noisewise.mechanisms.supports import AbstractSupport, Interval, Lattice, OrAbsent

LogDensity = Callable[[np.ndarray], np.ndarray]
"""The log density, up to a constant, of values (..., columns)."""


@dataclasses.dataclass(frozen=True)
class Resolution:
    """The number of cells of a table.

    Attributes:
        line: Cells of a law on the line.
        plane: Cells along each side of a law on the plane.
    """

    line: int
    plane: int


FINE = Resolution(line=400_000, plane=1600)
"""For a million draws. Table errors fall with the square of the number of cells, sampling errors
with the root of the number of draws.
"""

COARSE = Resolution(line=100_000, plane=600)
"""For 100,000 draws: sampling errors are 3 times larger than with a million, table errors of a
plane 7 times, which still leaves p-values uniform; those of a line are negligible.
"""

_SAME_LEVEL = 1e-9
"""Log densities closer than this count as equal: more than their rounding."""

_MARGIN = 1.5
"""The half side of a plane's square, in reaches of its quantiles: little mass lies outside."""


@dataclasses.dataclass(frozen=True)
class ColumnLaw:
    """A law on the line, in atoms and cells.

    Attributes:
        points: The atoms and the lower ends of the cells, increasing.
        masses: Their probabilities, up to a common factor.
        levels: Their log densities, or log probabilities.
        discrete: Which of them are atoms.

    >>> law = column_law(Lattice(1.0, 0.0, 1.0), lambda y: -y[:, 0], np.array([0.0]), np.empty(0))
    >>> law.points.tolist(), law.discrete.all().item()
    ([0.0, 1.0], True)
    """

    points: np.ndarray
    masses: np.ndarray
    levels: np.ndarray
    discrete: np.ndarray

    def transform(
        self, values: Float[np.ndarray, " n"], rng: np.random.Generator
    ) -> Float[np.ndarray, " n"]:
        """F(v-) + V (F(v) - F(v-)) with uniform V: uniform when the values follow the law."""
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
        """An upper bound of the number of pairs of draws that float64 makes equal, from the spacing
        of outputs and of 2^52 uniforms.
        """
        highest = np.exp(self.levels[~self.discrete].max()) / self.masses.sum()
        resolution = 4.0 * np.spacing(np.abs(self.points[np.isfinite(self.points)]).max())
        return num_draws * (num_draws - 1) / 2 * (2.0**-52 + resolution * highest)


@dataclasses.dataclass(frozen=True)
class PlaneLaw:
    """A law on the plane, in square cells.

    Attributes:
        edges: The edges of the cells in each column, shape (2, m+1).
        masses: Their probabilities, up to a common factor, shape (m, m).
        levels: Their log densities, shape (m, m).
    """

    edges: np.ndarray
    masses: np.ndarray
    levels: np.ndarray

    def margin(self, j: int) -> ColumnLaw:
        """The law of column j, 0 or 1, by itself."""
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
    """The law of one column, between the ends of its ladder of quantiles.

    Args:
        support: The support of the column.
        log_density: Its log density, up to a constant, of values (n, 1).
        ladder: Its quantiles at many levels.
        center: Points where the density may have a kink, which become edges of cells.
        resolution: The number of cells.
    """
    if isinstance(support, OrAbsent):
        filled = support.filled(ladder[:, None])[:, 0]
        published = column_law(support.present, log_density, filled, center, resolution)
        return _with_absent(published, float(log_density(np.array([[np.nan]]))[0]))
    values = all_values(support)
    low, high = ladder.min(), ladder.max()
    if values is None and low == high:
        values = np.array([low])  # what has no noise
    if values is None and isinstance(support, Lattice):
        first = round(max(low, support.low) / support.step)
        last = round(min(high, support.high) / support.step)
        values = support.step * np.arange(first, last + 1)
    if values is not None:
        points = np.sort(values)
        levels = log_density(points[:, None])
        return ColumnLaw(points, np.exp(levels), levels, np.ones(points.size, dtype=bool))
    ends = (support.low, support.high) if isinstance(support, Interval) else (-np.inf, np.inf)
    low, high = max(low, ends[0]), min(high, ends[1])
    inner = center[(center > low) & (center < high)]
    edges = np.unique(np.concatenate([np.linspace(low, high, resolution.line + 1), inner]))
    levels = log_density((edges[1:, None] + edges[:-1, None]) / 2.0)
    masses = np.exp(levels) * np.diff(edges)
    points, discrete = edges[:-1], np.zeros(levels.size, dtype=bool)
    if np.isfinite(ends[0]):
        # the atom takes the end itself, so the first cell starts just above it
        points = np.maximum(points, np.nextafter(ends[0], np.inf))
    atoms = np.array([end for end in ends if np.isfinite(end)])
    at_atoms = log_density(atoms[:, None]) if atoms.size else atoms
    points, levels = np.concatenate([points, atoms]), np.concatenate([levels, at_atoms])
    masses = np.concatenate([masses, np.exp(at_atoms)])
    discrete = np.concatenate([discrete, np.ones(atoms.size, dtype=bool)])
    if not np.isfinite(ends[1]):
        points, levels = np.append(points, high), np.append(levels, -np.inf)
        masses, discrete = np.append(masses, 0.0), np.append(discrete, False)
    order = np.argsort(points)
    return ColumnLaw(points[order], masses[order], levels[order], discrete[order])


def _with_absent(published: ColumnLaw, level: float) -> ColumnLaw:
    """A law with a further atom, absent, which is below every number: -inf."""
    return ColumnLaw(
        np.append(-np.inf, published.points),
        np.append(np.exp(level), published.masses),
        np.append(level, published.levels),
        np.append(True, published.discrete),
    )


def plane_law(
    log_density: LogDensity, ladder: np.ndarray, resolution: Resolution = FINE
) -> PlaneLaw:
    """The law of two columns without atoms, on a square half as large again as their quantiles.

    Args:
        log_density: Their log density, up to a constant, of values (n, 2).
        ladder: Their quantiles at many levels, shape (rows, 2).
        resolution: The number of cells.
    """
    center = (ladder.min(0) + ladder.max(0)) / 2.0
    reach, size = _MARGIN * np.abs(ladder - center).max(), resolution.plane
    edges = center[:, None] + np.linspace(-reach, reach, size + 1)
    middle = (edges[:, 1:] + edges[:, :-1]) / 2.0
    levels = log_density(np.stack(np.meshgrid(*middle, indexing="ij"), axis=-1).reshape(-1, 2))
    masses = np.exp(levels) * (2.0 * reach / size) ** 2
    return PlaneLaw(edges, masses.reshape(size, -1), levels.reshape(size, -1))


def ranked(
    law: ColumnLaw | PlaneLaw, values: Float[np.ndarray, " n"], rng: np.random.Generator
) -> Float[np.ndarray, " n"]:
    """P(T < t) + V P(T = t), with T the log density at an output of the law and V uniform.

    Args:
        law: The law of outputs.
        values: Log densities t at draws.
        rng: Where V comes from, which shares the mass of ties at random.

    Returns:
        Numbers that are uniform when the draws follow the law.
    """
    levels, masses = law.levels.ravel(), law.masses.ravel()
    order = np.argsort(levels)
    total = np.concatenate([[0.0], np.cumsum(masses[order])]) / masses.sum()
    below = total[np.searchsorted(levels[order], values - _SAME_LEVEL, side="left")]
    upto = total[np.searchsorted(levels[order], values + _SAME_LEVEL, side="right")]
    return below + rng.random(values.size) * (upto - below)
