"""The mean of normal records, released with noise: small enough for quadrature and for every
method.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from scipy.special import erfcx, log_ndtr, logsumexp
from scipy.stats import norm

from noisewise._core.arrays import Array, integer, number
from noisewise._core.keys import generator
from noisewise.errors import InvalidInputError
from noisewise.mechanisms import Gaussian, Laplace
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import ApproximateDP, PureDP
from noisewise.model.private_model import PrivateModel
from noisewise.priors.prior import Prior
from noisewise.problems._seeds import OBSERVATION_SEED
from noisewise.problems.base import Problem
from noisewise.queries import ClampedMean
from noisewise.samplers.grid import grid_density
from noisewise.simulators import NormalRecords

TRUTH = 0.7
"""The mean behind the observation: off the centre of the prior, inside the default bounds."""

PRIOR_SD = 2.0
"""Standard deviation of the prior, twice that of a record."""

_NOMINAL_RANGE = 10.0
"""Range of a record for which noise is scaled where records are not clamped."""

_UNCLAMPED = 1e6
"""Bounds that no record reaches: a million standard deviations."""

_MIN_CELLS = 64
"""Steps between the bounds, at least: of 1/16 sd for the default bounds, far below the noise."""

_MAX_CELLS = 16 * _MIN_CELLS
"""Steps between the bounds, at most: n times this many values of s are convolved for each theta.
The factor 16 is a round number: it only decides which bounds are refused as not round enough."""


def gaussian_mean(
    epsilon: float = 1.0,
    *,
    num_records: int = 100,
    bounds: tuple[float, float] | None = (-2.0, 2.0),
    noise: str = "laplace",
    delta: float = 1e-6,
) -> Problem:
    """The mean of normal records: the smallest problem, for first steps and tests.

        x_i ~ N(theta, 1),    s = mean of the clamped x_i,    s_dp = s + noise,    theta ~ N(0,
        2^2).

    With `bounds` the records are rounded to a grid of 64 to 127 steps between them (more where the
    bounds need it), so that the law of s is an n-fold convolution of a finite law and the posterior
    is exact by fast Fourier transform and a grid in theta. The observation comes from theta = .7
    and a fixed seed.

    Args:
        epsilon: Privacy budget.
        num_records: Number n of records.
        bounds: Ends to which records are clamped, or None: then s is normal, and the noise, scaled
            as for a range of 10, carries no guarantee.
        noise: "laplace" (epsilon-DP) or "gaussian" ((epsilon, delta)-DP).
        delta: Used with Gaussian noise only.

    Returns:
        The problem, with the route "quadrature".

    Raises:
        InvalidInputError: If an argument is out of range, or the bounds are not multiples of a
            common step.

    Example:
        >>> import jax
        >>> problem = gaussian_mean(epsilon=1.0)
        >>> problem.reference(jax.random.key(0), 500).shape
        (500, 1)
    """
    epsilon = number("epsilon", above=0.0)(epsilon)
    num_records = integer("num_records", at_least=1)(num_records)
    if noise not in ("laplace", "gaussian"):
        raise InvalidInputError(f"noise must be 'laplace' or 'gaussian', got {noise!r}.")
    query = _query(bounds, num_records)
    mechanism = _mechanism(query, epsilon, noise, delta, guaranteed=bounds is not None)
    model = PrivateModel(
        prior=Prior({"mean": dist.Normal(0.0, PRIOR_SD)}),
        simulator=NormalRecords(num_records=num_records, prior_variance=PRIOR_SD**2),
        query=query,
        mechanism=mechanism,
    )
    confidential = model.statistics(jax.random.key(OBSERVATION_SEED), [[TRUTH]])[0]
    observed = mechanism.sample(jax.random.key(OBSERVATION_SEED + 1), confidential)
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "num_records": num_records,
        "bounds": None if bounds is None else list(bounds),
        "noise": noise,
        "delta": delta,
    }
    return Problem(
        name="gaussian_mean",
        model=model,
        observed=observed,
        truth=np.array([TRUTH]),
        confidential=confidential,
        settings=settings,
        references={"quadrature": lambda key, num: _reference(model, observed, key, num)},
        at_epsilon=lambda e: gaussian_mean(**{**settings, "epsilon": e}),
    )


def _query(bounds: tuple[float, float] | None, num_records: int) -> ClampedMean:
    if bounds is None:
        return ClampedMean(bounds=(-_UNCLAMPED, _UNCLAMPED), num_records=num_records)
    low, high = (number("bounds", above=-_UNCLAMPED, below=_UNCLAMPED)(end) for end in bounds)
    if not low < high:
        raise InvalidInputError(
            f"bounds must be a pair (low, high) with low < high, got ({low:g}, {high:g})."
        )
    ends = Fraction(repr(low)), Fraction(repr(high))
    shared = math.lcm(*(end.denominator for end in ends))
    grid = Fraction(math.gcd(*(int(end * shared) for end in ends)), shared)
    while (ends[1] - ends[0]) / grid < _MIN_CELLS:
        grid /= 2
    if (ends[1] - ends[0]) / grid > _MAX_CELLS:
        raise InvalidInputError(
            f"bounds must be rounder numbers than ({low:g}, {high:g}), multiples of a common step."
        )
    return ClampedMean(bounds=(low, high), num_records=num_records, grid=float(grid))


def _mechanism(
    query: ClampedMean, epsilon: float, noise: str, delta: float, *, guaranteed: bool
) -> AbstractMechanism:
    kind: Any = Laplace if noise == "laplace" else Gaussian
    guarantee = PureDP(epsilon) if noise == "laplace" else ApproximateDP(epsilon, delta)
    sensitivity = query.sensitivity(norm=1) if guaranteed else _NOMINAL_RANGE / query.num_records
    mechanism = kind.calibrate(sensitivity=sensitivity, guarantee=guarantee)
    return mechanism if guaranteed else kind(scale=mechanism.scale)


def _reference(model: PrivateModel, observed: np.ndarray, key: Array, num: int) -> np.ndarray:
    def log_posterior(theta: np.ndarray) -> np.ndarray:
        mean = theta[:, 0]
        return norm.logpdf(mean, 0.0, PRIOR_SD) + log_likelihood(model, observed, mean)

    table = grid_density(log_posterior, [-8.0 * PRIOR_SD], [8.0 * PRIOR_SD], resolution=512)
    return table.sample(generator(key), num)


def log_likelihood(
    model: PrivateModel, observed: Float[np.ndarray, " kp"], theta: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """log f(s_dp | theta): a sum over all values of s, or a closed form where s is normal.

    Args:
        model: The model of `gaussian_mean`.
        observed: The private mean, shape (1,).
        theta: Means, shape (n,).

    Returns:
        Log likelihoods, shape (n,).
    """
    query: Any = model.query
    if query.grid is None:
        return _normal_log_likelihood(model.mechanism, query.num_records, observed, theta)
    statistics, law = _law_of_mean(query, theta)
    log_noise = model.mechanism.log_prob(observed, statistics[:, None])
    with np.errstate(divide="ignore"):
        return log_noise.max() + np.log(law @ np.exp(log_noise - log_noise.max()))


def _law_of_mean(query: Any, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of s and their probabilities (N, values) under each theta."""
    (low,), (high,) = query.domain.low, query.domain.high
    cells = round((high - low) / query.grid)
    edges = low + query.grid * (np.arange(cells) + 0.5)
    record = np.diff(norm.cdf(edges[None] - theta[:, None]), axis=1, prepend=0.0, append=1.0)
    size = cells * query.num_records + 1
    law = np.fft.irfft(np.fft.rfft(record, n=size, axis=1) ** query.num_records, n=size, axis=1)
    return low + query.step * np.arange(size), np.maximum(law, 0.0)


def _normal_log_likelihood(
    mechanism: Any, n: int, observed: np.ndarray, theta: np.ndarray
) -> np.ndarray:
    r"""In closed form. Normal plus normal is normal. N(0, v) plus Laplace(b) has, at z, the density

        exp(-z^2/(2v)) [erfcx(x_-) + erfcx(x_+)] / (4b),    x_+- = (v/b +- z) / sqrt(2v),

    where log erfcx(x) = x^2 + log(2 Phi(-x sqrt 2)) serves for x below -5.
    """
    z, variance = observed[0] - theta, 1.0 / n
    if mechanism.normal_mixture == "fixed":
        return norm.logpdf(z, 0.0, math.sqrt(variance + mechanism.scale**2))
    x = np.stack([variance / mechanism.scale - z, variance / mechanism.scale + z]) / math.sqrt(
        2.0 * variance
    )
    tails = x**2 + math.log(2.0) + log_ndtr(-math.sqrt(2.0) * x)
    parts = np.where(x < -5.0, tails, np.log(erfcx(np.maximum(x, -5.0))))
    return logsumexp(parts, axis=0) - z**2 / (2.0 * variance) - math.log(4.0 * mechanism.scale)
