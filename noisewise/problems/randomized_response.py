"""A logistic regression on answers that were randomised by those who gave them."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from noisewise._core.arrays import Array, number
from noisewise._core.keys import generator
from noisewise.mechanisms import RandomizedResponse
from noisewise.model.private_model import PrivateModel
from noisewise.priors.prior import Prior
from noisewise.problems._seeds import OBSERVATION_SEED
from noisewise.problems.base import Problem
from noisewise.samplers.grid import grid_density
from noisewise.simulators import StatisticLaw
from noisewise.simulators.named import NamedTheta

NUM_PEOPLE = 1000
"""People who were asked: as many as usual polls."""
TRUTH = np.array([-0.8, 1.2])
"""Intercept and slope: three in ten say yes, and more of those with a larger x."""
_PRIOR_SD = 2.5
"""Sd of both coefficients: what Gelman and others (2008) recommend for logistic regressions."""
_REACH = 12.0
"""Half the width of the grid of both coefficients: five sds of the prior."""


def randomized_response(epsilon: float = 1.0) -> Problem:
    """Who says yes? A thousand people with a covariate x, each of whom flips the answer with
    probability 1 / (1 + e^epsilon).

        answer_i ~ Bernoulli(sigmoid(intercept + slope x_i)),   released: the answer or its opposite

    No curator is trusted: each answer by itself is epsilon-DP. The posterior is exact by summing
    over the true answer of each person, on a grid of both coefficients.

    Args:
        epsilon: Privacy budget of each answer.

    Returns:
        The problem, with the route "quadrature".

    Example:
        >>> import jax
        >>> problem = randomized_response(epsilon=1.0)
        >>> problem.reference(jax.random.key(0), 100).shape
        (100, 2)
    """
    epsilon = number("epsilon", above=0.0)(epsilon)
    x = np.random.Generator(np.random.Philox(OBSERVATION_SEED)).normal(size=NUM_PEOPLE)
    normal = dist.Normal(0.0, _PRIOR_SD)
    model = PrivateModel(
        prior=Prior({"intercept": normal, "slope": normal}),
        simulator=StatisticLaw(functools.partial(_answers, x=tuple(x.tolist()))),
        mechanism=RandomizedResponse(truth_probability=1.0 / (1.0 + math.exp(-epsilon))),
    )
    confidential = model.statistics(jax.random.key(OBSERVATION_SEED), TRUTH[None])[0]
    observed = model.mechanism.sample(jax.random.key(OBSERVATION_SEED + 1), confidential)
    return Problem(
        name="randomized_response",
        model=model,
        observed=observed,
        truth=TRUTH,
        confidential=confidential,
        settings={"epsilon": epsilon},
        references={"quadrature": functools.partial(_reference, model, x, observed)},
        at_epsilon=randomized_response,
    )


def _answers(theta: NamedTheta, x: tuple[float, ...]) -> dist.Distribution:
    logits = theta["intercept"] + theta["slope"] * jnp.asarray(x)
    return dist.Bernoulli(logits=logits)


def _reference(
    model: PrivateModel, x: np.ndarray, observed: np.ndarray, key: Array, num: int
) -> Float[np.ndarray, "num 2"]:
    """Draws from a grid of both coefficients."""
    truth = float(model.mechanism.truth_probability)  # type: ignore[attr-defined]
    says_yes = observed == 1.0

    def log_posterior(theta: np.ndarray) -> np.ndarray:
        found = np.empty(len(theta))
        for start in range(0, len(theta), _BLOCK):
            rows = theta[start : start + _BLOCK]
            yes = 1.0 / (1.0 + np.exp(-(rows[:, :1] + rows[:, 1:] * x)))
            released = (1.0 - truth) + (2.0 * truth - 1.0) * yes
            each = np.log(np.where(says_yes, released, 1.0 - released))
            found[start : start + _BLOCK] = each.sum(axis=1)
        return found - 0.5 * (theta**2).sum(axis=1) / _PRIOR_SD**2

    table = grid_density(log_posterior, [-_REACH, -_REACH], [_REACH, _REACH], resolution=256)
    return table.sample(generator(key), num)


_BLOCK = 4096
"""Points of the grid at a time: 33 MB of answers."""
