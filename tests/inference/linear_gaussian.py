"""A model with every posterior in closed form: theta ~ N(0, I), s = A theta + e, s_dp = s + noise,
all Gaussian.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import noisewise as nw

A = np.array([[1.0, 0.3], [-0.4, 0.8], [0.5, 0.5]])
SIGMA, NOISE = 0.5, 0.4
OBSERVED = np.array([0.8, -0.6, 0.3])


def model():
    """The model; its three statistics tell of two parameters."""
    simulator = nw.simulators.JaxSimulator(
        lambda key, theta: jnp.asarray(A) @ theta + SIGMA * jax.random.normal(key, (3,))
    )
    prior = nw.Prior({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)})
    return nw.PrivateModel(
        prior=prior,
        simulator=simulator,
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=NOISE),
    )


def exact(observed=OBSERVED):
    """The mean (2,) and covariance (2, 2) of the posterior."""
    precision = np.eye(2) + A.T @ A / (SIGMA**2 + NOISE**2)
    covariance = np.linalg.inv(precision)
    return covariance @ A.T @ observed / (SIGMA**2 + NOISE**2), covariance


def shifted(num=40_000):
    """A posterior object to propose from: as wide as the prior, one standard deviation off in both
    coordinates.
    """
    theta = np.random.default_rng(0).normal(size=(num, 2)) + 1.0
    return nw.posteriors.Draws(theta, ("a", "b"), nw.posteriors.Report("shifted"))
