"""pyABC: exact likelihood-free inference by a stochastic acceptor, and SMC-ABC with an adaptive
distance. Needs pyabc.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyabc

from benchmarks.rivals.one_at_a_time import Simulate, log_mass, noise, statistics, systematic, worth
from noisewise.mechanisms import Laplace
from noisewise.problems.base import Problem

logging.getLogger("ABC").setLevel(logging.WARNING)

NUM_DRAWS = 1000
LOWEST_ACCEPTANCE = 1e-3

Stages = Iterator[tuple[int, np.ndarray]]


def exact(made: Problem, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """Populations at falling temperatures, the mechanism being the kernel: the last one, at
    temperature 1, is exact.

    Temperatures and the normalisation of the kernel are pyABC's defaults.
    """
    np.random.seed(seed)
    tools = {
        "distance_function": kernel(made),
        "eps": pyabc.Temperature(),
        "acceptor": pyabc.StochasticAcceptor(),
    }
    yield from stages(made, seed, statistics(made), threads, num, 0.0, tools)


def abc(made: Problem, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """Populations at falling tolerances on private statistics, until fewer than one proposal in a
    thousand is accepted.
    """
    np.random.seed(seed)
    confidential, private = statistics(made), noise(made)
    tools = {"distance_function": pyabc.AdaptivePNormDistance(p=2), "eps": pyabc.MedianEpsilon()}
    yield from stages(
        made,
        seed,
        lambda theta: private(confidential(theta)),
        threads,
        num,
        LOWEST_ACCEPTANCE,
        tools,
    )


class Stepwise(pyabc.ABCSMC):
    """ABC-SMC that leaves the preparation of a population for when it is asked for, which after the
    last is never.
    """

    prepare: Callable[[], Any]

    def _prepare_next_iteration(self, **arguments: Any) -> dict[str, float]:
        self.prepare = functools.partial(super()._prepare_next_iteration, **arguments)
        return {"population_size": 0.0, "distance": 0.0}


def stages(
    made: Problem,
    seed: int,
    simulate: Simulate,
    threads: int,
    num: int,
    lowest: float,
    tools: dict[str, Any],
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
    limits = {
        "max_nr_populations": np.inf,
        "max_total_nr_simulations": np.inf,
        "max_walltime": None,
    }
    start = smc.initialize_components_before_run(
        minimum_epsilon=None, min_acceptance_rate=lowest, min_eps_diff=0.0, **limits
    )
    for t in itertools.count(start):
        rate = smc.run_generation(t)["acceptance_rate"]
        particles, weights = history.get_distribution(m=0, t=t)
        weights = np.asarray(weights)
        rows = systematic(rng, weights, worth(weights, NUM_DRAWS))
        yield int(history.total_nr_simulations), particles[names].to_numpy()[rows]
        if smc.check_terminate(t, rate):
            return
        smc.prepare()


def sampler(threads: int) -> pyabc.sampler.Sampler:
    """One process, or as many as threads; those seed themselves, so that only one process repeats
    its results.
    """
    return (
        pyabc.SingleCoreSampler()
        if threads == 1
        else pyabc.MulticoreEvalParallelSampler(n_procs=threads)
    )


def prior(made: Problem) -> tuple[pyabc.Distribution, np.ndarray]:
    """The independent normals of the prior, by column, and their means."""
    laws = made.model.prior.distributions.values()
    mean = np.concatenate([np.ravel(law.mean) for law in laws]).astype(float)
    sd = np.sqrt(np.concatenate([np.ravel(law.variance) for law in laws]).astype(float))
    columns = zip(made.model.names, mean.tolist(), sd.tolist(), strict=True)
    return (
        pyabc.Distribution(**{name: pyabc.RV("norm", loc, scale) for name, loc, scale in columns}),
        mean,
    )


def kernel(made: Problem) -> pyabc.StochasticKernel:
    """The mechanism's density of the observation given confidential statistics."""
    mechanism: Any = made.model.mechanism
    if isinstance(mechanism, Laplace):
        return pyabc.IndependentLaplaceKernel(scale=mechanism.scale)
    log_probability = log_mass(made)
    return pyabc.FunctionKernel(
        lambda x, **_: log_probability(x["s"]), ret_scale=pyabc.distance.SCALE_LOG
    )
