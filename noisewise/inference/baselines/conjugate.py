"""Models whose posterior is known given the confidential statistic or the records."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise.model.private_model import PrivateModel
from noisewise.queries import CategoryProportions, ClampedMean, RegressionMoments
from noisewise.simulators import LinearRegression, LogLinear, NormalRecords

_PAIRS: dict[Any, Any] = {
    LinearRegression: RegressionMoments,
    LogLinear: CategoryProportions,
    NormalRecords: ClampedMean,
}
_SAME: dict[Any, tuple[str, ...]] = {
    LinearRegression: ("num_predictors",),
    LogLinear: ("num_classes", "num_values"),
    NormalRecords: (),
}
"""What simulator and query must have in common."""

_NUM_POINTS = 64
"""Points at which two priors are compared: more than any prior here has parameters."""

_TOLERANCE = 1e-4
"""Relative difference of log densities that rounding explains; other priors differ by far more at
some point.
"""


def conjugate_refusal(model: PrivateModel, method: str) -> str | None:
    """Why a method that needs a conjugate posterior cannot serve a model; None if it can."""
    simulator, query = type(model.simulator), type(model.query)
    if _PAIRS.get(simulator) is not query or not _fit(model.simulator, model.query):
        known = ", ".join(
            f"{left.__name__} with {right.__name__}" for left, right in _PAIRS.items()
        )
        return (
            f"{method} needs a conjugate posterior: {known} of the same size and columns, not"
            f" {simulator.__name__} with {query.__name__}. Use ImportanceSampling, which serves"
            " every simulator."
        )
    return conjugate_prior_refusal(model, method)


def conjugate_prior_refusal(model: PrivateModel, method: str) -> str | None:
    """Why a method that needs the conjugate prior cannot serve a model; None if it can.

    Two priors are the same if their log densities differ by a constant at 64 fixed points.
    """
    simulator: Any = model.simulator
    if not simulator.can_sample_parameters:
        return (
            f"{method} needs a {type(simulator).__name__} in which nothing but beta is unknown, but"
            f" {', '.join(simulator.unknown)} is. Fix it, or use DataAugmentationMCMC."
        )
    theta = _points(simulator)
    fits = model.prior.dim == theta.shape[1]
    if fits:
        with jax.enable_x64(True):
            conjugate = np.asarray(jax.vmap(simulator.log_prob_conjugate_prior)(theta))
        difference = model.prior.log_prob(theta) - conjugate
        fits = bool(
            np.all(np.abs(difference - difference[0]) <= _TOLERANCE * (1.0 + np.abs(conjugate)))
        )
    if fits:
        return None
    return (
        f"{method} needs the conjugate prior of its simulator, {_prior_text(simulator)}, and the"
        " prior of the model is another. State it in the simulator too, or use"
        " DataAugmentationMCMC, which takes any prior."
    )


def conjugate_draws(
    key: Array, model: PrivateModel, s: Float[np.ndarray, " k"], num: int
) -> Float[np.ndarray, "num d"]:
    r"""Independent draws of theta given the confidential statistic, as if no record had been
    clamped.

    - Regression: beta is normal, from the sums that s stands for.
    - A normal mean: normal, from n s.
    - Tables: with the counts N_ikj = max(0, n s_ikj), each row p^k_i. is Dirichlet(concentration +
      N_ik.), and p is Dirichlet(concentration + N_i) with N_i the mean over features k of
      sum_j N_ikj. For a statistic without noise nothing is cut off, and all features agree.

    Args:
        key: A PRNG key.
        model: A model that `conjugate_refusal` does not refuse.
        s: The statistic, shape (k,).
        num: How many draws.

    Returns:
        theta, shape (num, d).
    """
    simulator, query, rng = model.simulator, model.query, generator(key)
    if isinstance(simulator, LinearRegression):
        gram, cross, _ = query.sums_of(np.asarray(s))  # type: ignore[attr-defined]
        return _coefficients(rng, simulator, gram, cross, num)
    if isinstance(simulator, LogLinear):
        return _tables(rng, simulator, np.maximum(simulator.num_records * s, 0.0), num)
    return _mean(rng, simulator, float(s[0]), num)


def record_draws(
    key: Array, model: PrivateModel, records: Float[np.ndarray, "n columns"], num: int
) -> Float[np.ndarray, "num d"]:
    """Independent draws of theta given the records as they are, not clamped.

    Args:
        key: A PRNG key.
        model: A model that `conjugate_refusal` does not refuse.
        records: The records, shape (n, columns).
        num: How many draws.

    Returns:
        theta, shape (num, d).
    """
    simulator = model.simulator
    if isinstance(simulator, LinearRegression):
        return _coefficients(generator(key), simulator, *simulator.sums(records), num)
    if isinstance(simulator, NormalRecords):
        return _mean(generator(key), simulator, float(records.mean()), num)
    return conjugate_draws(key, model, model.query(records), num)


def _coefficients(
    rng: np.random.Generator,
    simulator: LinearRegression,
    gram: np.ndarray,
    cross: np.ndarray,
    num: int,
) -> np.ndarray:
    mean, covariance = simulator.conjugate_posterior(gram, cross)
    return mean + rng.standard_normal((num, len(mean))) @ np.linalg.cholesky(covariance).T


def _tables(
    rng: np.random.Generator, simulator: LogLinear, counts: np.ndarray, num: int
) -> np.ndarray:
    rows = counts.reshape(simulator.num_classes, -1)
    ends = np.cumsum(simulator.num_values)[:-1]
    vectors = [part for row in rows for part in np.split(row, ends)]
    vectors.append(rows.sum(1) / len(simulator.num_values))
    return np.concatenate(
        [rng.dirichlet(simulator.concentration + part, num) for part in vectors], axis=1
    )


def _mean(rng: np.random.Generator, simulator: Any, mean: float, num: int) -> np.ndarray:
    weight = simulator.num_records / simulator.sd**2
    precision = weight + 1.0 / simulator.prior_variance
    return weight * mean / precision + rng.standard_normal((num, 1)) / np.sqrt(precision)


def _fit(simulator: Any, query: Any) -> bool:
    same = all(getattr(simulator, name) == getattr(query, name) for name in _SAME[type(simulator)])
    return same and (not isinstance(simulator, NormalRecords) or query.width == 1)


def _points(simulator: Any) -> np.ndarray:
    """Parameters (64, d) spread widely, some far out in the tails of the conjugate prior."""
    rng = np.random.default_rng(0)
    if isinstance(simulator, LogLinear):
        sizes = (*(simulator.num_values * simulator.num_classes), simulator.num_classes)
        return np.concatenate([rng.dirichlet(np.ones(size), _NUM_POINTS) for size in sizes], axis=1)
    width = 1 if isinstance(simulator, NormalRecords) else simulator.num_predictors + 1
    return 2.0 * np.sqrt(simulator.prior_variance) * rng.standard_normal((_NUM_POINTS, width))


def _prior_text(simulator: Any) -> str:
    if isinstance(simulator, LogLinear):
        return (
            f"Dirichlet with every parameter {simulator.concentration:g}, in the order of its"
            " parameter_names"
        )
    return f"normal with mean 0 and variance {simulator.prior_variance:g} in every coordinate"
