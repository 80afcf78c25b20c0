"""An odds ratio from a noisy 4 x 2 x 2 table of a known number of people."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from noisewise._core.arrays import Array, integer, number
from noisewise._core.keys import generator
from noisewise.mechanisms import DiscreteLaplace
from noisewise.mechanisms.guarantees import PureDP
from noisewise.model.private_model import PrivateModel
from noisewise.priors.prior import Prior
from noisewise.problems._known_totals import KnownTotal, rejection
from noisewise.problems._seeds import OBSERVATION_SEED
from noisewise.problems.base import Problem
from noisewise.queries import ContingencyTable
from noisewise.simulators import StatisticLaw
from noisewise.simulators.named import NamedTheta

AGE_SHARES = np.array([0.3, 0.3, 0.25, 0.15])
"""Shares of the four age groups, which a census tells."""
TRUTH = np.array([0.3, -2.5, 0.5, 2.5])
"""Share of the exposed, log odds of a case in the youngest who are not, their change from one age
group to the next, and the odds ratio.
"""
_AGES, _EXPOSED, _CASE = np.indices((4, 2, 2)).reshape(3, -1)
"""Of each cell, the last index fastest."""


def contingency(epsilon: float = 1.0, *, num_people: int = 2_000) -> Problem:
    """A case-control question asked of a table: ages (4) by exposed (2) by case (2).

        P(age a, exposed x, case) = share_a P(x) sigmoid(baseline + age a + log(odds_ratio) x)

    The number of people is known, and the sixteen counts get discrete Laplace noise of epsilon-DP
    where one person's answers change. The posterior is exact by convolving the terms of the cells.

    Args:
        epsilon: Privacy budget.
        num_people: People in the table.

    Returns:
        The problem, with the route "convolution".

    Example:
        >>> import jax
        >>> problem = contingency(epsilon=1.0)
        >>> problem.reference(jax.random.key(0), 100).shape
        (100, 4)
        >>> problem.model.names
        ('exposed', 'baseline', 'age', 'odds_ratio')
    """
    epsilon = number("epsilon", above=0.0)(epsilon)
    num_people = integer("num_people", at_least=1)(num_people)
    prior = Prior(
        {
            "exposed": dist.Uniform(0.0, 1.0),
            "baseline": dist.Normal(-2.0, 1.5),
            "age": dist.Normal(0.0, 1.0),
            "odds_ratio": dist.LogNormal(0.0, 1.0),
        }
    )
    query = ContingencyTable(levels=(4, 2, 2), num_records=num_people)
    mechanism = DiscreteLaplace.calibrate(
        sensitivity=query.sensitivity(norm=1), guarantee=PureDP(epsilon)
    )
    law = StatisticLaw(functools.partial(_counts, num_people=num_people))
    model = PrivateModel(prior=prior, simulator=law, query=query, mechanism=mechanism)
    confidential = model.statistics(jax.random.key(OBSERVATION_SEED), TRUTH[None])[0]
    observed = mechanism.sample(jax.random.key(OBSERVATION_SEED + 1), confidential)
    return Problem(
        name="contingency",
        model=model,
        observed=observed,
        truth=TRUTH,
        confidential=confidential,
        settings={"epsilon": epsilon, "num_people": num_people},
        references={"convolution": functools.partial(_reference, model, observed, num_people)},
        at_epsilon=functools.partial(contingency, num_people=num_people),
    )


def _counts(theta: NamedTheta, num_people: int) -> dist.Distribution:
    exposed = jnp.where(_EXPOSED, theta["exposed"], 1.0 - theta["exposed"])
    log_odds = theta["baseline"] + theta["age"] * _AGES + jnp.log(theta["odds_ratio"]) * _EXPOSED
    case = jax.nn.sigmoid(jnp.where(_CASE, log_odds, -log_odds))
    return dist.Multinomial(num_people, AGE_SHARES[_AGES] * exposed * case)


def _shares(theta: Float[np.ndarray, "m 4"]) -> Float[np.ndarray, "m 16"]:
    """Cell probabilities, in the words of a table of ages by exposure by case."""
    exposed, baseline, age, odds_ratio = theta.T
    odds = np.exp(baseline[:, None] + age[:, None] * np.arange(4))
    odds = np.stack([odds, odds_ratio[:, None] * odds], axis=-1)
    cases = odds / (1.0 + odds)
    share = AGE_SHARES[:, None] * np.stack([1.0 - exposed, exposed], axis=-1)[:, None]
    return np.stack([share * (1.0 - cases), share * cases], axis=-1).reshape(len(theta), -1)


def _reference(
    model: PrivateModel, observed: np.ndarray, num_people: int, key: Array, num: int
) -> Float[np.ndarray, "num 4"]:
    """Independent draws of all four."""
    scale = float(model.mechanism.scale)  # type: ignore[attr-defined]
    density, prior = KnownTotal(num_people, scale, observed), model.prior

    def log_posterior(z: np.ndarray) -> np.ndarray:
        return prior.log_prob_unconstrained(z) + density.log_prob(_shares(prior.constrain(z)))

    z = rejection(log_posterior, prior.unconstrain(TRUTH), generator(key), num)
    return prior.constrain(z)
