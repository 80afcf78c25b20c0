"""The paper's Bayesian linear regression, released as noisy sufficient statistics."""

from __future__ import annotations

from collections.abc import Mapping
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
from noisewise.queries import RegressionMoments
from noisewise.samplers.augmented_regression import AugmentedRegression
from noisewise.simulators import LinearRegression

NUM_RECORDS = 100  # the paper's
PREDICTOR_MEAN = (0.9, -1.17)  # the paper's
TRUTH = (-1.79, -2.89, -0.66)  # the coefficients behind the paper's data
CONFIDENTIAL_SUMS = (-37.4211, -6.2943, 2.9950, 24.9949, 9.3791, -12.6974, 1.7999, -0.9352, 2.8001)
"""Of the clamped, rescaled records: y, x1*y, x2*y, y*y, x1, x2, x1*x1, x1*x2, x2*x2."""

UNCLAMPED_CROSS = (-375.2591, -631.6069, 299.4140)
"""X'y of the records as they are, which the paper's confidential posterior uses."""

UNCLAMPED_GRAM = (
    (100.0, 93.7906, -126.9742),
    (93.7906, 179.9853, -93.5167),
    (-126.9742, -93.5167, 280.0132),
)
"""X'X of the records as they are."""

PUBLISHED_SUMS: Mapping[float, tuple[float, ...]] = {
    10.0: (-38.2440, -6.6783, 3.1997, 27.1985, 9.8835, -13.8503, 2.1882, -2.2884, 3.4092),
    1.0: (-55.14, -6.00, 15.04, 23.78, 41.30, -16.21, -9.46, -11.33, 35.95),
    0.1: (-333.84, -106.51, -1.31, 399.93, 229.98, 19.67, 84.59, -55.41, 88.90),
}
"""Private sums that the paper reports, by epsilon."""


def linear_regression(epsilon: float = 10.0) -> Problem:
    """The paper's regression: nine noisy sufficient statistics of 100 clamped records.

        theta = beta ~ N(0, I_3),    x ~ N((.9, -1.17), I),    y | x ~ N((1, x) beta, 2),

    clamped to [-10, 10] and rescaled. s are the nine means of `RegressionMoments`, s_dp = s +
    Laplace(.13 / epsilon) as in the paper, whose sensitivity (p^2+3p+3)/n = .13 is larger than the
    exact 9.375/n: the true loss is .721 epsilon. At epsilon 10, 1 and .1 the published observations
    are used, at any other the stored confidential statistic with noise from a fixed seed.

    Exact posterior: data augmentation that alternates between two parametrisations, in which
    records either stay fixed or move with theta, thinned to near-independence.

    Args:
        epsilon: Privacy budget that the paper states.

    Returns:
        The problem, with the route "data-augmentation".

    Example:
        >>> problem = linear_regression(epsilon=10.0)
        >>> problem.model.names, problem.observed.round(3)[:3].tolist()
        (('beta[0]', 'beta[1]', 'beta[2]'), [-0.382, -0.067, 0.032])
    """
    epsilon = number("epsilon", above=0.0)(epsilon)
    query = RegressionMoments(num_records=NUM_RECORDS, num_predictors=2, sensitivity_bound="paper")
    sensitivity = query.sensitivity(norm=1)
    mechanism = Laplace(scale=sensitivity / epsilon, sensitivity=sensitivity)
    model = PrivateModel(
        prior=Prior({"beta": dist.Normal(0.0, 1.0).expand([3]).to_event(1)}),
        simulator=LinearRegression(
            num_records=NUM_RECORDS, num_predictors=2, predictor_mean=PREDICTOR_MEAN
        ),
        query=query,
        mechanism=mechanism,
    )
    confidential = np.array(CONFIDENTIAL_SUMS) / NUM_RECORDS
    if epsilon in PUBLISHED_SUMS:
        observed = np.array(PUBLISHED_SUMS[epsilon]) / NUM_RECORDS
    else:
        observed = mechanism.sample(jax.random.key(OBSERVATION_SEED), confidential)
    exact = (
        RegressionMoments(num_records=NUM_RECORDS, num_predictors=2).sensitivity(norm=1)
        / mechanism.scale
    )
    return Problem(
        name="linear_regression",
        model=model,
        observed=observed,
        truth=np.array(TRUTH),
        confidential=confidential,
        settings={"epsilon": epsilon},
        references={"data-augmentation": lambda key, num: _reference(model, observed, key, num)},
        at_epsilon=linear_regression,
        notes=(
            f"Stated loss {epsilon:g}; the loss that the exact sensitivity implies is {exact:.4g}.",
        ),
    )


def _reference(model: PrivateModel, observed: np.ndarray, key: Array, num: int) -> np.ndarray:
    simulator: Any = model.simulator
    mechanism: Any = model.mechanism
    query: Any = model.query
    target = AugmentedRegression(
        observed=tuple((observed * query.num_records).tolist()),
        scale=mechanism.scale * query.num_records,
        num_records=query.num_records,
        predictor_mean=simulator.predictor_mean,
        predictor_covariance=simulator.predictor_covariance,
        noise_variance=simulator.noise_variance,
        prior_variance=simulator.prior_variance,
        bounds=query.bounds,
    )
    return target.near_independent(key, num).pooled(num)
