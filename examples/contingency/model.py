"""Does the exposure go with the illness? The odds ratio from a noisy table of 2,000 people."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import noisewise as nw

PEOPLE, AGE_SHARES = 2_000, np.array([0.3, 0.3, 0.25, 0.15])  # both are public
AGE, EXPOSED, ILL = np.indices((4, 2, 2)).reshape(3, -1)  # of each cell, the last index fastest

prior = nw.Prior(
    {
        "exposed": dist.Uniform(0.0, 1.0),
        "baseline": dist.Normal(-2.0, 1.5),
        "age": dist.Normal(0.0, 1.0),
        "log_odds_ratio": dist.Normal(0.0, 1.0),
    }
)


def counts(theta):
    """The sixteen counts: one law for all, because the number of people is known."""
    exposed = jnp.where(EXPOSED, theta["exposed"], 1.0 - theta["exposed"])
    log_odds = theta["baseline"] + theta["age"] * AGE + theta["log_odds_ratio"] * EXPOSED
    ill = jax.nn.sigmoid(jnp.where(ILL, log_odds, -log_odds))
    return dist.Multinomial(PEOPLE, AGE_SHARES[AGE] * exposed * ill)


def model(release):
    law = nw.simulators.StatisticLaw(counts)
    derived = {"odds_ratio": lambda theta: jnp.exp(theta[..., 3])}  # what the report is about
    return nw.PrivateModel.from_release(release, prior=prior, simulator=law, derived=derived)
