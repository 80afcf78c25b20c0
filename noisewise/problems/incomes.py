"""The law of incomes from a noisy histogram of a known number of people."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr
from jaxtyping import Float
from scipy.stats import norm

from noisewise._core.arrays import Array, integer, number
from noisewise._core.keys import generator
from noisewise.mechanisms import DiscreteLaplace
from noisewise.mechanisms.guarantees import PureDP
from noisewise.model.private_model import PrivateModel
from noisewise.priors.prior import Prior
from noisewise.problems._known_totals import KnownTotal, rejection
from noisewise.problems._seeds import OBSERVATION_SEED
from noisewise.problems.base import Problem
from noisewise.queries import Histogram
from noisewise.simulators import StatisticLaw
from noisewise.simulators.named import NamedTheta

EDGES = tuple(5.0 * j for j in range(25))
"""Edges of the bins, in thousands a year; the last bin holds all who have more."""
TRUTH = np.array([32.0, 0.6])
"""Median income, in thousands a year, and sd of the log incomes."""
_LOG_ENDS = np.log(EDGES[1:-1])
"""What separates the bins, on the scale of log incomes."""


def incomes(epsilon: float = 1.0, *, num_people: int = 2_000) -> Problem:
    """Log-normal incomes of a known number of people, counted in 24 bins.

        log income_i ~ N(log(median), spread^2)

    The counts get discrete Laplace noise of epsilon-DP where one person's income changes. With a
    million people it is as fast as with two thousand: counts are drawn and summed, not people. The
    posterior is exact by convolving the terms of the bins.

    Args:
        epsilon: Privacy budget.
        num_people: People in the histogram.

    Returns:
        The problem, with the route "convolution".

    Example:
        >>> import jax
        >>> problem = incomes(epsilon=1.0)
        >>> problem.reference(jax.random.key(0), 100).shape
        (100, 2)
        >>> problem.model.statistic_names[0], problem.observed[:4].tolist()
        ('[0.0, 5.0)', [-3.0, 48.0, 189.0, 214.0])
    """
    epsilon = number("epsilon", above=0.0)(epsilon)
    num_people = integer("num_people", at_least=1)(num_people)
    prior = Prior({"median": dist.LogNormal(3.5, 1.0), "spread": dist.HalfNormal(1.0)})
    query = Histogram(edges=EDGES, num_records=num_people)
    mechanism = DiscreteLaplace.calibrate(
        sensitivity=query.sensitivity(norm=1), guarantee=PureDP(epsilon)
    )
    law = StatisticLaw(functools.partial(_counts, num_people=num_people))
    model = PrivateModel(prior=prior, simulator=law, query=query, mechanism=mechanism)
    confidential = model.statistics(jax.random.key(OBSERVATION_SEED), TRUTH[None])[0]
    observed = mechanism.sample(jax.random.key(OBSERVATION_SEED + 1), confidential)
    return Problem(
        name="incomes",
        model=model,
        observed=observed,
        truth=TRUTH,
        confidential=confidential,
        settings={"epsilon": epsilon, "num_people": num_people},
        references={"convolution": functools.partial(_reference, model, observed, num_people)},
        at_epsilon=functools.partial(incomes, num_people=num_people),
    )


def _counts(theta: NamedTheta, num_people: int) -> dist.Distribution:
    """Bins by log probabilities, which stay finite where a bin is far from all incomes."""
    z = (_LOG_ENDS - jnp.log(theta["median"])) / theta["spread"]
    low = jnp.concatenate([jnp.full(1, -jnp.inf), z])
    high = jnp.concatenate([z, jnp.full(1, jnp.inf)])
    return dist.Multinomial(num_people, logits=_log_between(low, high))


def _log_between(low: Array, high: Array) -> Array:
    """log(Phi(high) - Phi(low)), by the nearer tail."""
    upper = low > 0.0
    low, high = jnp.where(upper, -high, low), jnp.where(upper, -low, high)
    outer = jnp.where(jnp.isfinite(low), low, high - 1.0)
    ratio = log_ndtr(outer) - log_ndtr(high)
    inside = jnp.where(jnp.isfinite(low), jnp.log(-jnp.expm1(ratio)), 0.0)
    return log_ndtr(high) + inside


def _shares(theta: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 24"]:
    """Cell probabilities: differences of the distribution function, or of its complement."""
    z = (_LOG_ENDS - np.log(theta[:, :1])) / theta[:, 1:]
    ends = np.full((len(theta), 1), np.inf)
    z = np.concatenate([-ends, z, ends], axis=1)
    low, high = z[:, :-1], z[:, 1:]
    return np.where(low > 0.0, norm.sf(low) - norm.sf(high), norm.cdf(high) - norm.cdf(low))


def _reference(
    model: PrivateModel, observed: np.ndarray, num_people: int, key: Array, num: int
) -> Float[np.ndarray, "num 2"]:
    """Independent draws of both."""
    scale = float(model.mechanism.scale)  # type: ignore[attr-defined]
    density, prior = KnownTotal(num_people, scale, observed), model.prior

    def log_posterior(z: np.ndarray) -> np.ndarray:
        return prior.log_prob_unconstrained(z) + density.log_prob(_shares(prior.constrain(z)))

    z = rejection(log_posterior, prior.unconstrain(TRUTH), generator(key), num)
    return prior.constrain(z)
