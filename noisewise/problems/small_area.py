"""Rates of small areas from noisy counts: twelve districts that share a mean and a spread."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from noisewise._core.arrays import Array, number
from noisewise._core.keys import generator
from noisewise._core.neighbours import AddRemoveOne
from noisewise.laws import Privatized
from noisewise.mechanisms import DiscreteLaplace
from noisewise.mechanisms.guarantees import PureDP
from noisewise.model.private_model import PrivateModel
from noisewise.priors.prior import Prior
from noisewise.problems._seeds import OBSERVATION_SEED
from noisewise.problems.base import Problem
from noisewise.samplers.grid import grid_density
from noisewise.simulators import StatisticLaw
from noisewise.simulators.named import NamedTheta

POPULATIONS = np.array(
    [2_100, 2_600, 3_300, 4_000, 4_900, 6_000, 7_400, 9_100, 11_200, 13_800, 16_900, 20_800]
)
"""People in each district: from some twenty expected cases to two hundred."""
TRUTH = np.array(
    [-4.6, 0.4, -4.9, -4.2, -4.7, -5.1, -4.4, -4.6, -3.9, -4.8, -4.6, -4.3, -5.0, -4.5]
)
"""Mean and spread of the log rates, and those of the districts."""
_CENTRE, _SPREAD, _MOST_SPREAD = -5.0, 1.0, 0.5
"""The prior: log rates around .7%, give or take a factor of three, and districts that differ by a
factor of e^.5 or so.
"""
_RATES = np.linspace(-11.0, 0.0, 1501)
"""Log rates at which the effect of a district is integrated out: steps of .007, a third of the
narrowest spread on the grid.
"""
_BLOCK = 1024
"""Pairs of mean and spread at a time: 12 MB of laws of an effect."""


def small_area(epsilon: float = 1.0) -> Problem:
    """Twelve districts with a rate each: cases of a disease, counted and released with noise.

        rate_j = exp(effect_j),  effect_j ~ N(mean, spread^2),  cases_j ~ Poisson(people_j rate_j)

    The counts get discrete Laplace noise of epsilon-DP where one person is added or removed. The
    posterior of 14 parameters is exact by quadrature: effects are independent given mean and
    spread, and are integrated out one by one.

    Args:
        epsilon: Privacy budget.

    Returns:
        The problem, with the route "quadrature".

    Example:
        >>> import jax
        >>> problem = small_area(epsilon=1.0)
        >>> problem.reference(jax.random.key(0), 100).shape
        (100, 14)
    """
    epsilon = number("epsilon", above=0.0)(epsilon)
    names = [f"district {j + 1}" for j in range(len(POPULATIONS))]
    prior = Prior(
        {
            "mean": dist.Normal(_CENTRE, _SPREAD),
            "spread": dist.HalfNormal(_MOST_SPREAD),
            "effect": _effects,
        },
        labels={"effect": names},
    )
    mechanism = DiscreteLaplace.calibrate(
        sensitivity=1.0, guarantee=PureDP(epsilon, neighbours=AddRemoveOne())
    )
    model = PrivateModel(prior=prior, simulator=StatisticLaw(_cases), mechanism=mechanism)
    confidential = model.statistics(jax.random.key(OBSERVATION_SEED), TRUTH[None])[0]
    observed = mechanism.sample(jax.random.key(OBSERVATION_SEED + 1), confidential)
    return Problem(
        name="small_area",
        model=model,
        observed=observed,
        truth=TRUTH,
        confidential=confidential,
        settings={"epsilon": epsilon},
        references={"quadrature": functools.partial(_reference, model, observed)},
        at_epsilon=small_area,
    )


def _effects(mean: Array, spread: Array) -> dist.Distribution:
    return dist.Normal(mean, spread).expand([len(POPULATIONS)])


def _cases(theta: NamedTheta) -> dist.Distribution:
    return dist.Poisson(jnp.asarray(POPULATIONS) * jnp.exp(theta["effect"]))


def _reference(
    model: PrivateModel, observed: np.ndarray, key: Array, num: int
) -> Float[np.ndarray, "num 14"]:
    """Draws of mean and spread from a grid, then of each effect given these."""
    rates = np.exp(_RATES)[:, None] * POPULATIONS
    log_likelihood = np.asarray(Privatized(dist.Poisson(rates), model.mechanism).log_prob(observed))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))

    def effects_given(mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """The law of an effect on the grid of rates for each (mean, spread), (n, rates)."""
        log_law = -0.5 * ((_RATES - mean[:, None]) / spread[:, None]) ** 2
        law = np.exp(log_law - log_law.max(axis=1, keepdims=True))
        return law / law.sum(axis=1, keepdims=True)

    def log_posterior(z: np.ndarray) -> np.ndarray:
        mean, spread = z[:, 0], np.exp(z[:, 1])
        prior = -0.5 * ((mean - _CENTRE) / _SPREAD) ** 2 - 0.5 * (spread / _MOST_SPREAD) ** 2
        rows = [slice(start, start + _BLOCK) for start in range(0, len(z), _BLOCK)]
        with np.errstate(divide="ignore"):
            parts = [np.log(effects_given(mean[r], spread[r]) @ likelihood).sum(1) for r in rows]
        total = np.concatenate(parts)
        return prior + z[:, 1] + total

    rng = generator(key)
    centre = np.log(observed.clip(1.0).sum() / POPULATIONS.sum())
    low, high = [centre - 2.0, np.log(0.02)], [centre + 2.0, np.log(3.0)]
    z = grid_density(log_posterior, low, high, resolution=128).sample(rng, num)
    spread = np.exp(z[:, 1])
    laws = effects_given(z[:, 0], spread)
    step = _RATES[1] - _RATES[0]
    effects = []
    for column in likelihood.T:
        cumulative = np.cumsum(laws * column, axis=1)
        wanted = rng.random(num) * cumulative[:, -1]
        places = (cumulative < wanted[:, None]).sum(axis=1)
        effects.append(_RATES[places] + step * (rng.random(num) - 0.5))
    return np.column_stack([z[:, 0], spread, *effects])
