"""The paper's naive Bayes log-linear model, released as noisy proportions."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from noisewise._core.arrays import Array, number
from noisewise.mechanisms import Laplace
from noisewise.model.private_model import PrivateModel
from noisewise.priors.prior import Prior
from noisewise.problems._seeds import OBSERVATION_SEED
from noisewise.problems.base import Problem
from noisewise.queries import CategoryProportions
from noisewise.samplers.collapsed_tables import absolute_error_weights, collapsed_tables
from noisewise.simulators import LogLinear

PUBLISHED_COUNTS = (32.7540, 45.2008, 58.6172, 18.2683, 12.9260, 8.5805, 12.8789, 9.5372)
"""What the paper reports at epsilon 10, out of 100 records, by class, feature and value."""

TRUTH = (0.3887, 0.6113, 0.7537, 0.2463, 0.6534, 0.3466, 0.5834, 0.4166, 0.8489, 0.1511)
"""The probabilities behind the paper's data, in the order of the columns of theta."""

_CLASSES, _VALUES, _RECORDS = 2, (2, 2), 100  # the paper's sizes


def log_linear(
    epsilon: float = 10.0,
    *,
    num_classes: int = _CLASSES,
    num_values: tuple[int, ...] = _VALUES,
    num_records: int = _RECORDS,
    concentration: float = 2.0,
) -> Problem:
    """The paper's naive Bayes: K features that are independent given the class, released as
    proportions.

    All probability vectors have Dirichlet(2) priors. s are the proportions of (class, value) for
    each feature, s_dp = s + Laplace(2K / (n epsilon)), which is tight. theta holds the vectors by
    class and feature, then the class probabilities.

    The paper's setting is the default, observed as published at epsilon 10. Anything else is
    observed from a fixed seed, at the paper's truth or at the prior mean. Exact posterior:
    independent draws from the collapsed model.

    Args:
        epsilon: Privacy budget.
        num_classes: Number I of classes.
        num_values: Numbers J_k of values of each feature.
        num_records: Number n of records.
        concentration: Parameter of the Dirichlet priors.

    Returns:
        The problem, with the route "collapsed".

    Example:
        >>> problem = log_linear(epsilon=10.0)
        >>> problem.model.prior.dim, problem.free_columns
        (10, (0, 2, 4, 6, 8))
    """
    epsilon = number("epsilon", above=0.0)(epsilon)
    simulator = LogLinear(
        num_records=num_records,
        num_classes=num_classes,
        num_values=num_values,
        concentration=concentration,
    )
    query = CategoryProportions(
        num_classes=simulator.num_classes,
        num_values=simulator.num_values,
        num_records=simulator.num_records,
    )
    sensitivity = query.sensitivity(norm=1)
    mechanism = Laplace(scale=sensitivity / epsilon, sensitivity=sensitivity)
    model = PrivateModel(
        prior=_prior(simulator), simulator=simulator, query=query, mechanism=mechanism
    )
    sizes = (num_classes, tuple(num_values), num_records, concentration)
    paper = sizes == (_CLASSES, _VALUES, _RECORDS, 2.0)
    truth = np.array(TRUTH) if paper else _prior_mean(simulator)
    if paper and epsilon == 10.0:
        confidential, observed = None, np.array(PUBLISHED_COUNTS) / num_records
    else:
        confidential = model.statistics(jax.random.key(OBSERVATION_SEED), truth[None])[0]
        observed = mechanism.sample(jax.random.key(OBSERVATION_SEED + 1), confidential)
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "num_classes": num_classes,
        "num_values": list(num_values),
        "num_records": num_records,
        "concentration": concentration,
    }
    return Problem(
        name="log_linear",
        model=model,
        observed=observed,
        truth=truth,
        confidential=confidential,
        settings=settings,
        references={"collapsed": lambda key, num: _reference(model, observed, key, num)},
        at_epsilon=lambda e: log_linear(**{**settings, "epsilon": e}),
        free=_free_columns(simulator),
    )


def _vectors(simulator: LogLinear) -> list[tuple[str, int]]:
    """The name and length of each probability vector, in the order of the columns of theta."""
    rows = [
        (f"p{k + 1}_{i + 1}", size)
        for i in range(simulator.num_classes)
        for k, size in enumerate(simulator.num_values)
    ]
    return [*rows, ("p", simulator.num_classes)]


def _prior(simulator: LogLinear) -> Prior:
    same = simulator.concentration
    return Prior({name: dist.Dirichlet(np.full(k, same)) for name, k in _vectors(simulator)})


def _prior_mean(simulator: LogLinear) -> np.ndarray:
    return np.concatenate([np.full(size, 1.0 / size) for _, size in _vectors(simulator)])


def _free_columns(simulator: LogLinear) -> tuple[int, ...]:
    """All columns but the last of each vector."""
    sizes = np.array([size for _, size in _vectors(simulator)])
    return tuple(sorted(set(range(sizes.sum())) - set((np.cumsum(sizes) - 1).tolist())))


def _reference(model: PrivateModel, observed: np.ndarray, key: Array, num: int) -> np.ndarray:
    simulator: Any = model.simulator
    mechanism: Any = model.mechanism
    n = simulator.num_records
    draws = collapsed_tables(
        key,
        num,
        absolute_error_weights(observed * n, mechanism.scale * n, n),
        num_classes=simulator.num_classes,
        num_values=simulator.num_values,
        concentration=simulator.concentration,
    )
    return draws.theta
