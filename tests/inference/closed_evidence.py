"""Problems whose evidence is known without sampling, in closed form or as a sum."""

import jax
import numpy as np
import numpyro.distributions as dist
from scipy.special import logsumexp
from scipy.stats import betabinom, norm

import noisewise as nw

OBSERVED = np.array([0.5, -1.0, 0.8, 1.2])
SD, NOISE = 0.3, 0.1


def normal(dim):
    """theta ~ N(0, I), s = theta + .3 N(0, I), Gaussian noise of sd .1: s_dp is normal."""
    model = nw.PrivateModel(
        prior=nw.Prior({"theta": dist.Normal(0.0, 1.0).expand([dim]).to_event(1)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + SD * jax.random.normal(key, theta.shape)
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=NOISE),
    )
    observed = OBSERVED[:dim]
    return model, observed, norm.logpdf(observed, 0.0, np.sqrt(1 + SD**2 + NOISE**2)).sum()


def counts():
    """theta ~ Beta(2, 3), s ~ Binomial(30, theta), discrete Laplace noise: a sum over s."""
    model = nw.PrivateModel(
        prior=nw.Prior({"theta": dist.Beta(2.0, 3.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: (jax.random.uniform(key, (30,)) < theta[0]).sum(dtype=float)[None]
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.DiscreteLaplace(scale=1.5),
    )
    observed, s = np.array([27.0]), np.arange(31.0)
    log_eta = model.mechanism.log_prob(observed, s[:, None])
    return model, observed, float(logsumexp(betabinom.logpmf(s, 30, 2, 3) + log_eta))


def records():
    """The mean of 100 clamped normal records, Laplace noise of epsilon 1: an integral over
    theta.
    """
    from noisewise.problems.gaussian_mean import log_likelihood

    problem = nw.problems.gaussian_mean(1.0)
    grid = np.linspace(-16.0, 16.0, 6401)
    terms = log_likelihood(problem.model, problem.observed, grid) + problem.model.prior.log_prob(
        grid[:, None]
    )
    return problem.model, problem.observed, float(logsumexp(terms) + np.log(grid[1] - grid[0]))


PROBLEMS = {
    "normal, 1": lambda: normal(1),
    "normal, 2": lambda: normal(2),
    "normal, 4": lambda: normal(4),
    "counts": counts,
    "records": records,
}
"""Name -> the model, the observation and the log evidence."""
