"""Draws of the confidential number in programs of one's own, JAX's flag off and on."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw

M = nw.mechanisms
CASES = {
    "counts": (dist.Poisson, M.Rounded(base=3), [12.0, 3.0]),
    "answers": (
        lambda rate: dist.BernoulliProbs(0.01 * rate),
        M.RandomizedResponse(num_categories=2, truth_probability=0.7),
        [1.0, 0.0],
    ),
    "normal": (lambda rate: dist.Normal(rate, 2.0), M.Laplace(scale=1.0), [12.0, 3.0]),
    "several normal": (
        lambda rate: dist.MultivariateNormal(rate, jnp.eye(2)),
        M.Gaussian(scale=1.0),
        [12.0, 3.0],
    ),
    "extra zeros": (
        lambda rate: dist.ZeroInflatedPoisson(0.2, rate),
        M.DiscreteLaplace(scale=1.0),
        [12.0, 0.0],
    ),
    "gamma": (lambda rate: dist.Gamma(rate, 1.0), M.Laplace(scale=1.0), [12.0, 3.0]),
    "known total": (
        lambda rate: dist.MultinomialProbs(rate / rate.sum(), total_count=15),
        M.DiscreteLaplace(scale=1.0),
        [12.0, 3.0],
    ),
}
FAST = ("counts", "normal")


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_draws_for_many_parameters_at_once(name, x64_flag):
    make, mechanism, y = CASES[name]
    y = np.array(y)

    @jax.jit
    @jax.vmap
    def draws(key, rate):
        return nw.Privatized(make(rate), mechanism).confidential(key, y)

    keys = jax.random.split(jax.random.key(0), 50)
    found = np.asarray(draws(keys, jnp.tile(jnp.array([10.0, 3.0]), (50, 1))))
    assert found.shape == (50, 2)
    assert np.isfinite(found).all()
    assert np.unique(found, axis=0).shape[0] > 1
