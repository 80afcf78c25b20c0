"""Rates of twelve districts from noisy counts: districts share a mean and a spread."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import noisewise as nw

# people of each district, which are public
PEOPLE = np.array([2100, 2600, 3300, 4000, 4900, 6000, 7400, 9100, 11200, 13800, 16900, 20800])

prior = nw.Prior(
    {
        "mean": dist.Normal(-5.0, 1.0),
        "spread": dist.HalfNormal(0.5),
        "log_rate": lambda mean, spread: dist.Normal(mean, spread).expand([12]),
    },
    labels={"log_rate": [f"d{j}" for j in range(1, 13)]},
)


def cases(theta):
    return dist.Poisson(PEOPLE * jnp.exp(theta["log_rate"]))


def model(release):
    law = nw.simulators.StatisticLaw(cases)
    return nw.PrivateModel.from_release(release, prior=prior, simulator=law)
