"""Independent draws from a density in few dimensions, in NumPy: cells of a grid, or a fitted t
law, and then rejection, so that the draws are exact up to what lies outside the box.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize, stats

LogDensity = Callable[[np.ndarray], np.ndarray]
NEGLIGIBLE = 25.0
"""Nats below the largest log mass of a cell (1e-11) at which a cell is left out of the next box."""
PASSES = 4
"""Grids, each on the box of the one before: a box shrinks to its final size in two or three."""
QUANTILE = 1e-4
"""Share of the proposals whose ratio may exceed the bound of rejection: their excess is cut, which
moves as little as 1e-4 of the mass."""


def grid_draws(
    log_density: LogDensity,
    low: np.ndarray,
    high: np.ndarray,
    cells: int,
    rng: np.random.Generator,
    num: int,
) -> np.ndarray:
    """Draws (num, d) by piecewise constant proposals on `cells`^d cells, then rejection."""
    dim, low, high = len(low), np.array(low, dtype=float), np.array(high, dtype=float)
    for _ in range(PASSES):
        width = (high - low) / cells
        index = np.indices((cells,) * dim).reshape(dim, -1).T
        heights = in_blocks(log_density, low + (index + 0.5) * width)
        kept = index[heights > heights.max() - NEGLIGIBLE - dim * np.log(cells)]
        before = high - low
        low, high = (
            np.maximum(low + (kept.min(0) - 1) * width, low),
            np.minimum(low + (kept.max(0) + 2) * width, high),
        )
        if np.all(high - low > 0.7 * before):
            break
    width = (high - low) / cells
    heights = in_blocks(log_density, low + (index + 0.5) * width)
    # neighbours may hold more than a cell's centre says: a proposal with a floor has no empty cell
    mass = np.exp(heights - heights.max())
    mass = 0.98 * mass / mass.sum() + 0.02 / len(mass)

    def propose(count: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = rng.choice(len(index), size=count, p=mass)
        theta = low + (index[chosen] + rng.random((count, dim))) * width
        return theta, np.log(mass[chosen])

    return rejection(log_density, propose, rng, num)


def fitted_draws(
    log_density: LogDensity, start: np.ndarray, rng: np.random.Generator, num: int
) -> np.ndarray:
    """Draws (num, d) of a density with one mode: a t law at the mode, then rejection."""
    dim = len(start)
    found = optimize.minimize(lambda t: -float(log_density(t[None])[0]), start, method="BFGS")
    center, spread = found.x, 1.2 * _inverse_curvature(log_density, found.x)
    for _ in range(2):
        law = stats.multivariate_t(center, spread, df=5.0, seed=rng)
        theta = law.rvs(20_000)
        weights = in_blocks(log_density, theta) - law.logpdf(theta)
        weights = np.exp(weights - weights.max())
        center = np.average(theta, axis=0, weights=weights)
        spread = np.cov(theta.T, aweights=weights).reshape(dim, dim)
    law = stats.multivariate_t(center, spread, df=5.0, seed=rng)

    def propose(count: int) -> tuple[np.ndarray, np.ndarray]:
        theta = law.rvs(count).reshape(count, dim)
        return theta, law.logpdf(theta)

    return rejection(log_density, propose, rng, num)


def rejection(
    log_density: LogDensity,
    propose: Callable[[int], tuple[np.ndarray, np.ndarray]],
    rng: np.random.Generator,
    num: int,
) -> np.ndarray:
    """Accept each proposal with the ratio of the densities over its 1 - 1e-4 quantile."""
    theta, log_ratio = _proposals(log_density, propose, 2 * num)
    bound = np.quantile(log_ratio, 1.0 - QUANTILE)
    accepted: list[np.ndarray] = []
    while True:
        accepted.append(theta[np.log(rng.random(len(theta))) < log_ratio - bound])
        have = sum(map(len, accepted))
        if have >= num:
            return np.concatenate(accepted)[:num]
        theta, log_ratio = _proposals(log_density, propose, 2 * num)


def in_blocks(log_density: LogDensity, theta: np.ndarray, rows: int = 20_000) -> np.ndarray:
    """The log density of many rows, some at a time."""
    return np.concatenate([log_density(theta[i : i + rows]) for i in range(0, len(theta), rows)])


def from_table(rng: np.random.Generator, nodes: np.ndarray, log_mass: np.ndarray) -> np.ndarray:
    """One draw per row of `log_mass` (n, nodes), uniform within the chosen cell of equal nodes."""
    mass = np.exp(log_mass - log_mass.max(1, keepdims=True))
    total = np.cumsum(mass, axis=1)
    chosen = (total < rng.random((len(mass), 1)) * total[:, -1:]).sum(1)
    return nodes[chosen] + (rng.random(len(mass)) - 0.5) * (nodes[1] - nodes[0])


def _proposals(
    log_density: LogDensity,
    propose: Callable[[int], tuple[np.ndarray, np.ndarray]],
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    theta, log_proposal = propose(count)
    return theta, in_blocks(log_density, theta) - log_proposal


def _inverse_curvature(log_density: LogDensity, at: np.ndarray, step: float = 1e-3) -> np.ndarray:
    dim, moves = len(at), step * np.eye(len(at))
    value = lambda i, j, a, b: float(log_density((at + a * moves[i] + b * moves[j])[None])[0])  # noqa: E731
    curvature = [
        [
            (value(i, j, 1, 1) - value(i, j, 1, -1) - value(i, j, -1, 1) + value(i, j, -1, -1))
            / (-4.0 * step * step)
            for j in range(dim)
        ]
        for i in range(dim)
    ]
    return np.linalg.inv(np.array(curvature))
