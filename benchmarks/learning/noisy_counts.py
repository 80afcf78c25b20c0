"""The law of a count after lattice or Gaussian noise, summed term by term in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import interpolate, special, stats

import noisewise as nw

REACH = 12.0
"""Noise sds (for Laplace tails, scales times three) beyond which a noise counts as impossible."""
LOWEST, HIGHEST, SPACING = -14.0, 14.0, 0.01
"""Log rates of a table, and their spacing: the cubic is then off by 1e-8 nats at a rate of 100, and
a rate below the first makes a count of 0, but for 1e-6."""


def log_noise(mechanism: Any, z: np.ndarray) -> np.ndarray:
    """The log density or mass of noise z by SciPy."""
    if isinstance(mechanism, nw.mechanisms.Gaussian):
        return stats.norm.logpdf(z, 0.0, mechanism.scale)
    if isinstance(mechanism, nw.mechanisms.DiscreteLaplace):
        return stats.dlaplace.logpmf(np.rint(z), 1.0 / mechanism.scale)
    whole = np.arange(-reach(mechanism), reach(mechanism) + 1)
    total = special.logsumexp(-0.5 * (whole / mechanism.scale) ** 2)
    return -0.5 * (z / mechanism.scale) ** 2 - total


def reach(mechanism: Any) -> int:
    """The largest size of noise that is summed."""
    heavy = 3.0 if isinstance(mechanism, nw.mechanisms.DiscreteLaplace) else 1.0
    return int(np.ceil(heavy * REACH * mechanism.scale)) + 1


def counts_near(mechanism: Any, value: float) -> np.ndarray:
    """The counts that noise could have moved to this value."""
    centre, far = int(np.rint(value)), reach(mechanism)
    return np.arange(max(0, centre - far), max(centre + far, far) + 1)


class PoissonTable:
    """log sum_n Poisson(n | e^r) noise(value - n) as a function of the log rate r, per cell."""

    def __init__(self, mechanism: Any, observed: np.ndarray) -> None:
        self.nodes = np.arange(LOWEST, HIGHEST + SPACING / 2, SPACING)
        self._cells = [
            interpolate.CubicSpline(self.nodes, self._sum(mechanism, value)) for value in observed
        ]

    def _sum(self, mechanism: Any, value: float) -> np.ndarray:
        n = counts_near(mechanism, value)
        log_poisson = n * self.nodes[:, None] - np.exp(self.nodes[:, None]) - special.gammaln(n + 1)
        return special.logsumexp(log_poisson + log_noise(mechanism, value - n), axis=1)

    def __call__(self, cell: int, log_rate: np.ndarray) -> np.ndarray:
        """The log law of one cell at log rates of any shape."""
        return self._cells[cell](np.clip(log_rate, LOWEST, HIGHEST))


def log_sums(log_mass: np.ndarray, mechanism: Any, value: float, n: np.ndarray) -> np.ndarray:
    """log sum_n exp(log_mass[:, n]) noise(value - n), (rows,)."""
    return special.logsumexp(log_mass + log_noise(mechanism, value - n), axis=1)
