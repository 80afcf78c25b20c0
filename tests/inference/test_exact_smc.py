"""The next temperature of ExactSMC."""

import numpy as np
import pytest

from noisewise.inference.exact.exact_smc import next_increment

RNG = np.random.default_rng(0)
LOG_ETA = -RNG.exponential(30.0, size=500)


def effective_share(log_eta, increment):
    weights = np.exp(increment * (log_eta - log_eta.max()))
    return weights.sum() ** 2 / (weights**2).sum() / len(log_eta)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_so_many_particles_stay_effective(share):
    increment = next_increment(LOG_ETA, share, 1.0)
    assert 0.0 < increment < 1.0
    assert effective_share(LOG_ETA, increment) == pytest.approx(share, abs=1e-4)


def test_no_further_than_the_limit():
    assert next_increment(LOG_ETA / 1e6, 0.5, 0.25) == 0.25


def test_impossible_particles_do_not_count():
    """Planted: with them among the particles half of which shall be effective, no increment leaves
    as many.
    """
    some = np.concatenate([LOG_ETA, np.full(2000, -np.inf)])
    assert next_increment(some, 0.5, 1.0) == next_increment(LOG_ETA, 0.5, 1.0)


def test_an_increment_is_never_zero():
    """One particle far above all others: the power must rise all the same."""
    assert next_increment(np.r_[0.0, np.full(99, -1e12)], 0.5, 1.0) > 0.0
