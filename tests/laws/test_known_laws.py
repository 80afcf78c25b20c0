"""What sums over counts must not get silently wrong: atoms, categories, mixtures, impossible values."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.infer import Predictive

import noisewise as nw
from noisewise import errors

M = nw.mechanisms
WIDE = M.Laplace(scale=200.0)


def log_laplace(y, s, scale):
    return -np.abs(y - s) / scale - np.log(2 * scale)


def test_extra_zeros_count_inside_plates():
    s = np.arange(4000.0)
    law = 0.7 * scipy.stats.poisson.pmf(s, 1000.0)
    law[0] += 0.3
    exact = np.log((law * np.exp(log_laplace(100.0, s, 200.0))).sum())
    inflated = dist.ZeroInflatedPoisson(0.3, 1000.0)

    def program():
        with numpyro.plate("cell", 1):
            numpyro.sample("y", nw.Privatized(inflated, WIDE), obs=np.array([100.0]))

    within = numpyro.infer.util.log_density(program, (), {}, {})[0]
    for found in (
        nw.Privatized(inflated, WIDE).log_prob(100.0),
        nw.Privatized(inflated.expand([1]), WIDE).log_prob(np.array([100.0]))[0],
        within,
    ):
        assert float(found) == pytest.approx(exact, abs=1e-5)


def test_many_categories_are_summed_one_by_one():
    logits = np.random.default_rng(0).normal(size=300)
    p = np.exp(logits) / np.exp(logits).sum()
    law = nw.Privatized(dist.Categorical(logits=jnp.asarray(logits)), M.Laplace(scale=20.0))
    exact = np.log((p * np.exp(log_laplace(100.0, np.arange(300), 20.0))).sum())
    assert float(law.log_prob(100.0)) == pytest.approx(exact, abs=1e-5)
    assert abs(float(law.confidential(1, 100.0)) - 100.0) < 300.0


def test_laws_of_unknown_form_are_refused():
    mixture = dist.MixtureSameFamily(
        dist.Categorical(jnp.ones(2) / 2), dist.Poisson(jnp.array([10.0, 3000.0]))
    )
    with pytest.raises(errors.MissingCapabilityError, match="No sum or integral is known"):
        nw.Privatized(mixture, WIDE)


def test_values_that_cannot_be_released_have_no_probability():
    table = M.Thresholded(M.DiscreteLaplace(scale=3.0), above=10.0)
    values = nw.Privatized(dist.Poisson(20.0), table).log_prob(np.array([5.0, 12.0, 12.5]))
    assert np.isfinite(np.asarray(values)).tolist() == [False, True, False]


def test_draws_far_in_the_tail_are_finite():
    law = nw.Privatized(dist.Normal(jnp.zeros(50), 100.0), M.Laplace(scale=1.0))
    draws = np.asarray(law.confidential(0, np.zeros(50)))
    assert np.isfinite(draws).all()
    assert (
        0.4 < np.abs(draws).mean() < 2.0
    )  # nearly Laplace of scale 1, whose mean size is 1 +- .14


def test_predictive_works_with_the_flag_off():
    def program(y=None):
        rate = numpyro.sample("rate", dist.LogNormal(3, 1))
        numpyro.sample("y", nw.Privatized(dist.Poisson(rate), M.DiscreteLaplace(scale=2.0)), obs=y)

    found = Predictive(program, num_samples=3)(jax.random.key(0))["y"]
    assert found.shape == (3,)
    assert (np.asarray(found) == np.round(found)).all()
