"""Draws of the confidential number given what was released, against its law."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.mechanisms import Gaussian, Laplace
from tests.laws.catalogue import GROUPS, array

NUM_DRAWS = 4000
LEVEL = 2.3
"""sqrt(n) times the largest difference of distribution functions: exceeded with probability 2 exp(-2
2.3^2) = 5e-5 (Massart), less where the law has atoms.
"""
CASES = [
    "Poisson, discrete Laplace",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "Poisson, discrete Gaussian",
            "large Poisson, discrete Laplace",
            "large Poisson, Gaussian",
            "negative binomial, discrete Laplace",
            "binomial of logits, discrete Laplace",
            "zero-inflated Poisson, discrete Laplace",
            "categories, randomised response",
            "Poisson, thresholded discrete Gaussian",
            "Poisson, clamped discrete Laplace",
            "Poisson, many kinds",
            "Poisson, rounded to the nearest",
        )
    ),
]


@functools.cache
def draws_of(name):
    group = GROUPS[name]
    return draws(nw.Privatized(group.law(*group.parameters), group.mechanism), group.y)


def draws(law, y):
    """Of each cell, shape (n, cells)."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(11), NUM_DRAWS)
        some = jax.jit(jax.vmap(lambda key: law.confidential(key, y)))
        return np.concatenate([some(part) for part in jnp.split(keys, 20)])


def distance(found, s, masses):
    """sqrt(n) times the distance of the draws from a law on the numbers s, in order."""
    places = np.searchsorted(s, found)
    assert np.array_equal(s[np.minimum(places, s.size - 1)], found)
    shares = np.bincount(places, minlength=s.size) / found.size
    return np.sqrt(found.size) * np.abs(np.cumsum(shares - masses)).max()


def law_of(group, j):
    total = group.sum_of(j)
    s, logs = total.terms()
    masses = np.exp((logs - logs.max()).astype(float))
    masses /= masses.sum()
    if total.atom:
        with_atom = total.log_prob()
        at_zero = group.log_eta(j)(np.longdouble(total.y), np.zeros(1, np.longdouble))[0]
        extra = float(np.exp(at_zero + np.log(total.atom) - with_atom))
        masses *= 1.0 - extra
        if s[0] == 0:
            masses[0] += extra
        else:
            s, masses = np.append(0.0, s), np.append(extra, masses)
    return s.astype(float), masses


@pytest.mark.parametrize("name", CASES)
def test_draws_have_their_law(name):
    group = GROUPS[name]
    found = draws_of(name)
    for j in range(group.num_cells):
        assert distance(found[:, j], *law_of(group, j)) < LEVEL


def test_draws_that_are_off_by_one_are_caught():
    """Planted, in a cell whose law has an sd of 5."""
    name = "Poisson, discrete Laplace"
    assert distance(draws_of(name)[:, 2] + 1.0, *law_of(GROUPS[name], 2)) > LEVEL


def posterior_of_normal(mean, sd, log_eta, y):
    """A distribution function on a grid of 2e5 numbers around both."""
    s = np.linspace(mean - 12.0 * sd, mean + 12.0 * sd, 200_001)
    logs = -0.5 * ((s - mean) / sd) ** 2 + log_eta(y, s)
    masses = np.exp(logs - logs.max())
    return s, np.cumsum(masses) / masses.sum()


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_normal_laws(kind):
    means, sds, scales = array(0.0, 5.0, -3.0), array(1.0, 2.0, 1.0), array(2.0, 0.5, 1.0)
    y = array(1.0, 5.1, 6.0)
    found = draws(nw.Privatized(dist.Normal(means, sds), kind(scale=scales)), y)
    power = 1 if kind is Laplace else 2
    for j in range(3):
        scale = scales[j]
        log_eta = lambda y, s, scale=scale: -(np.abs((y - s) / scale) ** power) / power
        s, cdf = posterior_of_normal(means[j], sds[j], log_eta, y[j])
        ordered = np.sort(found[:, j])
        at = np.interp(ordered, s, cdf)
        ranks = np.arange(NUM_DRAWS + 1) / NUM_DRAWS
        distance = max(np.abs(at - ranks[1:]).max(), np.abs(at - ranks[:-1]).max())
        assert np.sqrt(NUM_DRAWS) * distance < LEVEL


def test_multivariate_normal_laws():
    """Precisions add: the posterior's mean and covariance in closed form."""
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    law = dist.MultivariateNormal(jnp.zeros(2), covariance_matrix=jnp.asarray(covariance))
    y = np.array([3.0, -1.0])
    found = draws(nw.Privatized(law, Gaussian(scale=1.5)), y)
    exact = np.linalg.inv(np.linalg.inv(covariance) + np.eye(2) / 1.5**2)
    mean = exact @ y / 1.5**2
    error = np.sqrt(np.diag(exact) / NUM_DRAWS)
    assert (np.abs(found.mean(0) - mean) < 4.0 * error).all()
    # the sd of a sample covariance is below sqrt(2 / n) times the product of the sds
    spread = np.sqrt(2.0 / NUM_DRAWS * np.outer(np.diag(exact), np.diag(exact)))
    assert (np.abs(np.cov(found.T) - exact) < 4.0 * spread).all()
