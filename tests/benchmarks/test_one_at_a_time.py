"""What pyABC is given is the same model: laws of statistics and of noise, and the density of the
mechanism.
"""

import jax
import numpy as np
import pytest

import noisewise as nw
from benchmarks.rivals.one_at_a_time import log_mass, noise, statistics, systematic, worth

NUM = 3000


def moments(draws):
    return draws.mean(axis=0), draws.std(axis=0)


@pytest.mark.parametrize("name", ["linear_regression", "sir"])
@pytest.mark.parametrize("private", [False, True])
def test_statistics_have_the_same_law(name, private):
    """Means within 5 standard errors of the difference, sds within 15% (7 of theirs, and more for
    heavy tails).
    """
    made = getattr(nw.problems, name)(epsilon=10.0)
    np.random.seed(1)  # noqa: NPY002, the generator that pyABC uses
    one, noisy = statistics(made), noise(made)
    theirs = np.stack([noisy(one(made.truth)) if private else one(made.truth) for _ in range(NUM)])
    theta = np.tile(made.truth, (NUM, 1))
    ours = (
        made.model.simulate(jax.random.key(1), theta)
        if private
        else made.model.statistics(jax.random.key(1), theta)
    )
    (a, sd_a), (b, sd_b) = moments(theirs), moments(np.asarray(ours))
    assert (np.abs(a - b) <= 5.0 * np.sqrt((sd_a**2 + sd_b**2) / NUM) + 1e-12).all()
    assert np.allclose(sd_a, sd_b, rtol=0.15, atol=1e-12)


def test_the_density_is_that_of_the_mechanism():
    made = nw.problems.sir(epsilon=10.0)
    s = made.model.statistics(jax.random.key(2), np.tile(made.truth, (5, 1)))
    ours = np.asarray(made.model.mechanism.log_prob(made.observed, s))
    assert np.allclose([log_mass(made)(row) for row in np.asarray(s)], ours, rtol=1e-9)


def test_equal_weights_repeat_nothing():
    assert len(set(systematic(np.random.default_rng(0), np.ones(1000), 1000).tolist())) == 1000


def test_weighted_particles_are_worth_fewer():
    """100 weights of 3 beside 900 of 1: 1200^2 / 1800; from 200 up to as many as are asked for."""
    weights = np.r_[np.full(100, 3.0), np.ones(900)]
    assert (worth(weights, 1000), worth(weights / weights.sum(), 1000), worth(weights, 500)) == (
        800,
        800,
        500,
    )
    assert worth(np.eye(1000)[0], 1000) == 200
