"""ABC posteriors known by quadrature, and how far from them draws are."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

import noisewise as nw

KEY = jax.random.key(5)


def infer(method, problem, observed=None, key=KEY):
    return method.infer(
        key, problem.model, problem.observed if observed is None else observed, progress=False
    )


def continuous():
    """s normal given theta, normal noise: the ABC likelihood is a difference of two normal
    distribution functions.
    """
    return nw.problems.gaussian_mean(1.0, bounds=None, noise="gaussian")


def continuous_abc(problem, tolerance):
    """Mean and sd of theta given |s_dp' - s_dp| <= tolerance."""
    sd = np.hypot(0.1, problem.model.mechanism.scale)
    theta = np.linspace(-6.0, 6.0, 20_001)
    ends = (problem.observed[0] + np.array([[tolerance], [-tolerance]]) - theta) / sd
    return moments(theta, norm.pdf(theta, 0.0, 2.0) * (norm.cdf(ends[0]) - norm.cdf(ends[1])))


def moments(theta, density):
    weights = density / density.sum()
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)


def z_scores(posterior, mean, sd):
    """How many standard errors the posterior's mean and variance are off.

    The error of a self-normalised average of h is sqrt(sum_i W_i^2 (h_i - h)^2): unlike the
    effective size it knows that weights are larger in the tails.
    """
    weights, theta = posterior.weights, posterior.theta[:, 0]
    centred = theta - weights @ theta
    squares = centred**2 - weights @ centred**2
    return np.array(
        [
            (weights @ theta - mean) / np.sqrt(np.sum((weights * centred) ** 2)),
            (weights @ centred**2 - sd**2) / np.sqrt(np.sum((weights * squares) ** 2)),
        ]
    )


def norm_log_prob(z):
    return jnp.sum(-0.5 * z**2 - 0.5 * jnp.log(2 * jnp.pi))
