"""Exact posteriors of private infection curves: which routes serve which epidemic, and how each draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from noisewise.errors import SimulationError
from noisewise.private_model import PrivateModel
from noisewise.problems._small_population import markov_log_likelihood
from noisewise.problems._time_shift import time_shift_log_likelihood
from noisewise.problems.base import Reference
from noisewise.samplers._seeds import generator
from noisewise.samplers.adaptive_importance import adaptive_importance
from noisewise.samplers.grid import grid_density

_LARGE = 50_000
_SMALL = 60
_BOX = 6.0
_MAX_SIMULATIONS = 2_000_000


def epidemic_references(model: PrivateModel, observed: np.ndarray) -> Mapping[str, Reference]:
    """The exact routes for a model made by `epidemic_model`, the cheapest first."""
    simulator: Any = model.simulator
    routes: dict[str, Reference] = {}
    if simulator.dynamics == "ode":
        return {"quadrature": _by_grid(model, lambda theta: _ode_log_likelihood(model, observed, theta))}
    arguments = _curve_arguments(model, observed)
    if simulator.population <= _SMALL:
        routes["markov-chain"] = _by_grid(
            model, lambda theta: markov_log_likelihood(theta, **arguments), resolution=128
        )
    if simulator.population >= _LARGE:
        routes["time-shift"] = _by_grid(model, lambda theta: time_shift_log_likelihood(theta, **arguments))
    routes["importance"] = lambda key, num: _by_importance(model, observed, key, num)
    return routes


def time_shift_reference(model: PrivateModel, observed: np.ndarray) -> Reference:
    """The time-shift posterior also where the population is small and it is an approximation."""
    arguments = _curve_arguments(model, observed)
    return _by_grid(model, lambda theta: time_shift_log_likelihood(theta, **arguments))


def _curve_arguments(model: PrivateModel, observed: np.ndarray) -> dict[str, Any]:
    mechanism: Any = model.mechanism
    simulator: Any = model.simulator
    return {
        "s_dp": observed,
        "times": np.asarray(simulator.times, dtype=float),
        "trials": mechanism.trials,
        "padding": mechanism.padding,
        "population": mechanism.population,
    }


def _by_grid(
    model: PrivateModel, log_likelihood: Callable[[np.ndarray], np.ndarray], resolution: int = 256
) -> Reference:
    def draw(key: Any, num: int) -> np.ndarray:
        centre = model.prior.constrain(np.zeros(2))
        spread = model.prior.sample(jax.random.key(0), 4096)
        mean, sd = spread.mean(0), spread.std(0)
        table = grid_density(
            lambda theta: log_likelihood(theta) + model.prior.log_prob(theta),
            np.minimum(mean - _BOX * sd, centre),
            np.maximum(mean + _BOX * sd, centre),
            resolution=resolution,
        )
        return table.sample(generator(key), num)

    return draw


def _ode_log_likelihood(model: PrivateModel, observed: np.ndarray, theta: np.ndarray) -> np.ndarray:
    s = model.statistics(jax.random.key(0), theta)
    return model.mechanism.log_prob(observed, s)


def _by_importance(model: PrivateModel, observed: np.ndarray, key: Any, num: int) -> np.ndarray:
    """Adapted importance sampling over simulated epidemics, until the effective size is twice the number of draws."""

    def log_estimate(key: Any, theta: np.ndarray) -> np.ndarray:
        return model.prior.log_prob(theta) + model.mechanism.log_prob(observed, model.statistics(key, theta))

    final = 20 * num
    for attempt in range(4):
        draws = adaptive_importance(
            jax.random.fold_in(key, attempt), log_estimate, model.prior, num_stages=6, num_adapt=20_000, num_final=final
        )
        if draws.effective_size >= 2 * num:
            return draws.resample(generator(key), num)
        final = int(min(_MAX_SIMULATIONS, 1.3 * final * 2 * num / draws.effective_size))
    raise SimulationError(
        f"Importance sampling reached an effective size of {draws.effective_size:.0f} for {num} draws: ask for fewer."
    )
