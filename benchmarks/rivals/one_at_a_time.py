"""The ready problems one data set at a time, for tools that do not simulate in batches: as directly
as can be, in NumPy and Numba.

JAX takes longer over a single call than the simulation itself, and must not run in processes that
fork. Numbers come from NumPy's global generator, which pyABC seeds anew in each process.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

from noisewise.mechanisms import Laplace
from noisewise.problems.base import Problem
from noisewise.simulators import LinearRegression
from noisewise.simulators.epidemic import epidemics

Simulate = Callable[[np.ndarray], np.ndarray]


def statistics(made: Problem) -> Simulate:
    """theta (d,) -> confidential statistics (k,), of the law of `made.model.statistics`."""
    return (
        regression(made) if isinstance(made.model.simulator, LinearRegression) else epidemic(made)
    )


def regression(made: Problem) -> Simulate:
    """Means of products of clamped and rescaled columns: records stand in columns here, which is
    quicker.
    """
    simulator: Any = made.model.simulator
    query: Any = made.model.query
    records, p = simulator.num_records, simulator.num_predictors
    mean, root = (
        np.array(simulator.predictor_mean)[:, None],
        np.linalg.cholesky(simulator.predictor_covariance),
    )
    noise_sd = math.sqrt(simulator.noise_variance)
    low, high = np.array(query.domain.low)[:, None], np.array(query.domain.high)[:, None]
    centre, half = (low + high) / 2, (high - low) / 2
    pairs = [(j, p + 1) for j in range(p + 2)] + list(
        itertools.combinations_with_replacement(range(p + 1), 2)
    )[1:]
    places = np.array([row * (p + 2) + column for row, column in pairs])

    def simulate(theta: np.ndarray) -> np.ndarray:
        z = np.random.standard_normal((p + 1, records))
        columns = np.ones((p + 2, records))
        columns[1:-1] = mean + root @ z[:-1]
        columns[-1] = theta @ columns[:-1] + noise_sd * z[-1]
        columns[1:] = np.minimum(np.maximum((columns[1:] - centre) / half, -1.0), 1.0)
        return (columns @ columns.T).ravel()[places] / records

    return simulate


def epidemic(made: Problem) -> Simulate:
    """One call of the compiled kernel, seeded by two random words."""
    simulator: Any = made.model.simulator
    people = (float(simulator.population), float(simulator.initial_infected))
    times, switch, leap = np.array(simulator.times), float(simulator.switch), simulator.leap
    index = np.zeros(1, dtype=np.uint32)

    def simulate(theta: np.ndarray) -> np.ndarray:
        infected = np.empty((1, len(times)))
        words = np.random.randint(0, 2**32, (1, 2), dtype=np.uint64)
        epidemics(words, index, np.exp(theta)[None], *people, times, switch, leap, infected)
        return infected[0]

    return simulate


def noise(made: Problem) -> Simulate:
    """Confidential statistics (k,) -> private statistics (k,)."""
    mechanism: Any = made.model.mechanism
    if isinstance(mechanism, Laplace):
        return lambda s: s + np.random.laplace(0.0, mechanism.scale, s.shape)
    total = mechanism.population + 2.0 * mechanism.padding
    return lambda s: np.random.binomial(mechanism.trials, (s + mechanism.padding) / total).astype(
        float
    )


def log_mass(made: Problem) -> Callable[[np.ndarray], float]:
    """Confidential statistics (k,) -> the log probability that a padded binomial mechanism makes
    the observation of them.
    """
    mechanism: Any = made.model.mechanism
    observed, n = np.asarray(made.observed), mechanism.trials
    total = mechanism.population + 2.0 * mechanism.padding
    constant = float((gammaln(n + 1) - gammaln(observed + 1) - gammaln(n - observed + 1)).sum())

    def log_probability(s: np.ndarray) -> float:
        p = (s + mechanism.padding) / total
        return constant + float(observed @ np.log(p) + (n - observed) @ np.log1p(-p))

    return log_probability


def systematic(rng: np.random.Generator, weights: np.ndarray, num: int) -> np.ndarray:
    """`num` places in proportion to the weights, with as few repeats as can be."""
    cumulative = np.cumsum(weights / weights.sum())
    places = np.searchsorted(cumulative, (np.arange(num) + rng.random()) / num, side="right")
    return np.minimum(places, len(weights) - 1)


def worth(weights: np.ndarray, num: int) -> int:
    """How many draws weighted particles are worth, (sum w)^2 / sum w^2, 200 at least and `num` at
    most: more of them would be copies, by which a classifier knows any population from exact draws.

    >>> worth(np.ones(1000), 1000), worth(np.r_[np.ones(400), np.zeros(600)], 1000), worth(np.eye(1000)[0], 1000)
    (1000, 400, 200)
    """
    return int(np.clip(round(weights.sum() ** 2 / np.square(weights).sum()), 200, num))
