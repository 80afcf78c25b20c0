"""NumPy arrays that a law in float64 shares with a user's own model in float32."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw


def value(people):
    with jax.enable_x64(False):
        return jax.jit(lambda x: jnp.sum(people * jnp.exp(x)))(jnp.zeros(3))


def law(people):
    return nw.simulators.StatisticLaw(lambda theta: dist.Poisson(people * theta["rate"]))


def simulated(people):
    noise = nw.mechanisms.DiscreteLaplace(scale=2.0)
    prior = nw.Prior({"rate": dist.Gamma(2.0, 2.0).expand([3])})
    model = nw.PrivateModel(prior=prior, simulator=law(people), mechanism=noise)
    return model.statistics(jax.random.key(0), np.ones((1, 3)))


@pytest.mark.parametrize("first", ["user's model", "law"])
def test_both_precisions_use_one_array_in_any_order(first):
    people = np.array([2100.0, 4900.0, 11200.0])
    calls = [value, simulated] if first == "user's model" else [simulated, value]
    found = {call: call(people) for call in (*calls, *calls)}
    assert found[value].dtype == np.float32
    np.testing.assert_allclose(found[value], people.sum(), rtol=1e-6)
    # Poisson: within 6 sds of the rates
    assert (abs(found[simulated][0] - people) < 6 * np.sqrt(people)).all()
