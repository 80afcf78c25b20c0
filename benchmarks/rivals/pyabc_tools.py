"""pyABC: exact likelihood-free inference by a stochastic acceptor, and SMC-ABC with an adaptive distance. Needs pyabc.

pyABC simulates one data set at a time, so the simulators are called here as directly as can be, in NumPy and Numba: JAX takes
longer over a single call than the simulation itself, and must not run in processes that pyABC forks. They draw from NumPy's
global generator, as pyABC does, which seeds it anew in each process.
"""

import functools
import itertools
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyabc
from scipy.special import gammaln

from noisewise.mechanisms import Laplace
from noisewise.problems.base import Problem
from noisewise.simulators import LinearRegression
from noisewise.simulators._epidemic import epidemics

logging.getLogger("ABC").setLevel(logging.WARNING)

NUM_DRAWS = 1000
LOWEST_ACCEPTANCE = 1e-3

Simulate = Callable[[np.ndarray], np.ndarray]
Stages = Iterator[tuple[int, np.ndarray]]


def exact(made: Problem, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """Populations at falling temperatures, the mechanism being the kernel: the last one, at temperature 1, is exact.

    Temperatures and the normalisation of the kernel are pyABC's defaults.
    """
    np.random.seed(seed)
    tools = {"distance_function": kernel(made), "eps": pyabc.Temperature(), "acceptor": pyabc.StochasticAcceptor()}
    yield from stages(made, seed, statistics(made), threads, num, 0.0, tools)


def abc(made: Problem, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """Populations at falling tolerances on private statistics, until fewer than one proposal in a thousand is accepted."""
    np.random.seed(seed)
    confidential, private = statistics(made), noise(made)
    tools = {"distance_function": pyabc.AdaptivePNormDistance(p=2), "eps": pyabc.MedianEpsilon()}
    yield from stages(made, seed, lambda theta: private(confidential(theta)), threads, num, LOWEST_ACCEPTANCE, tools)


class Stepwise(pyabc.ABCSMC):
    """ABC-SMC that leaves the preparation of a population for when it is asked for, which after the last is never."""

    prepare: Callable[[], Any]

    def _prepare_next_iteration(self, **arguments: Any) -> dict[str, float]:
        self.prepare = functools.partial(super()._prepare_next_iteration, **arguments)
        return {"population_size": 0.0, "distance": 0.0}


def stages(
    made: Problem, seed: int, simulate: Simulate, threads: int, num: int, lowest: float, tools: dict[str, Any]
) -> Stages:
    """The generations of a run, each with the simulations up to its end and draws by its weights."""
    rng, names = np.random.default_rng(seed), list(made.model.names)
    law, typical = prior(made)
    simulate(typical)  # compiled before processes fork

    def model(parameters: dict[str, float]) -> dict[str, np.ndarray]:
        return {"s": simulate(np.array([parameters[name] for name in names]))}

    smc = Stepwise(model, law, population_size=num, sampler=sampler(threads), **tools)
    history = smc.new("sqlite://", {"s": np.asarray(made.observed)})
    history.stores_sum_stats = False
    limits = {"max_nr_populations": np.inf, "max_total_nr_simulations": np.inf, "max_walltime": None}
    start = smc.initialize_components_before_run(
        minimum_epsilon=None, min_acceptance_rate=lowest, min_eps_diff=0.0, **limits
    )
    for t in itertools.count(start):
        rate = smc.run_generation(t)["acceptance_rate"]
        particles, weights = history.get_distribution(m=0, t=t)
        rows = rng.choice(len(weights), NUM_DRAWS, p=weights / weights.sum())
        yield int(history.total_nr_simulations), particles[names].to_numpy()[rows]
        if smc.check_terminate(t, rate):
            return
        smc.prepare()


def sampler(threads: int) -> pyabc.sampler.Sampler:
    """One process, or as many as threads; those seed themselves, so that only one process repeats its results."""
    return pyabc.SingleCoreSampler() if threads == 1 else pyabc.MulticoreEvalParallelSampler(n_procs=threads)


def prior(made: Problem) -> tuple[pyabc.Distribution, np.ndarray]:
    """The independent normals of the prior, by column, and their means."""
    laws = made.model.prior.distributions.values()
    mean = np.concatenate([np.ravel(law.mean) for law in laws]).astype(float)
    sd = np.sqrt(np.concatenate([np.ravel(law.variance) for law in laws]).astype(float))
    columns = zip(made.model.names, mean.tolist(), sd.tolist(), strict=True)
    return pyabc.Distribution(**{name: pyabc.RV("norm", loc, scale) for name, loc, scale in columns}), mean


# The model, one data set at a time -----------------------------------------------------------------------------------


def statistics(made: Problem) -> Simulate:
    """theta (d,) -> confidential statistics (k,), of the law of `made.model.statistics`."""
    return regression(made) if isinstance(made.model.simulator, LinearRegression) else epidemic(made)


def regression(made: Problem) -> Simulate:
    """Means of products of clamped and rescaled columns: records stand in columns here, which is quicker."""
    simulator: Any = made.model.simulator
    query: Any = made.model.query
    records, p = simulator.num_records, simulator.num_predictors
    mean, root = np.array(simulator.predictor_mean)[:, None], np.linalg.cholesky(simulator.predictor_covariance)
    noise_sd = math.sqrt(simulator.noise_variance)
    low, high = np.array(query.domain.low)[:, None], np.array(query.domain.high)[:, None]
    centre, half = (low + high) / 2, (high - low) / 2
    pairs = [(j, p + 1) for j in range(p + 2)] + list(itertools.combinations_with_replacement(range(p + 1), 2))[1:]
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
    return lambda s: np.random.binomial(mechanism.trials, (s + mechanism.padding) / total).astype(float)


def kernel(made: Problem) -> pyabc.StochasticKernel:
    """The mechanism's density of the observation given confidential statistics."""
    mechanism: Any = made.model.mechanism
    if isinstance(mechanism, Laplace):
        return pyabc.IndependentLaplaceKernel(scale=mechanism.scale)
    observed, n = np.asarray(made.observed), mechanism.trials
    total = mechanism.population + 2.0 * mechanism.padding
    constant = float((gammaln(n + 1) - gammaln(observed + 1) - gammaln(n - observed + 1)).sum())

    def log_mass(x: dict[str, np.ndarray], **_: Any) -> float:
        p = (x["s"] + mechanism.padding) / total
        return constant + float(observed @ np.log(p) + (n - observed) @ np.log1p(-p))

    return pyabc.FunctionKernel(log_mass, ret_scale=pyabc.distance.SCALE_LOG)
