"""Chains take what is in a table of sums for the sums, and look afterwards whether that was right."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.inference.marginal.marginal_nuts import MarginalDensity, _starts

MODEL = nw.PrivateModel(
    prior=nw.Prior({"rate": dist.LogNormal(3.0, 1.0).expand([2])}),
    simulator=nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta["rate"])),
    mechanism=nw.mechanisms.DiscreteLaplace(scale=2.0),
)
OBSERVED = np.array([12.0, 40.0])
NEAR, FAR = np.array([[12.0, 38.0]]), np.array([[12.0, 4000.0]])


def value(density, theta):
    with jax.enable_x64(True):
        return float(density.log_likelihood(jax.numpy.asarray(theta[0])))


def test_tables_alone_hold_near_the_data_and_are_refused_far_from_them():
    full = MarginalDensity.of(MODEL, OBSERVED)
    alone = full.by_tables_alone(True)
    assert alone.plan.by_table_alone
    assert alone.holds(NEAR)
    assert not alone.holds(np.concatenate([NEAR, FAR]))
    exact = [MODEL.log_likelihood(theta, OBSERVED).sum() for theta in (NEAR, FAR)]
    assert value(alone, NEAR) == pytest.approx(exact[0], rel=1e-12)
    assert value(full, FAR) == pytest.approx(exact[1], rel=1e-9)
    assert value(alone, FAR) != pytest.approx(exact[1], rel=1e-3)  # what is looked for


def test_other_laws_do_without_tables():
    model = nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.StatisticLaw(lambda theta: dist.Normal(theta["mean"], 1.0)),
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )
    density = MarginalDensity.of(model, np.array([0.5])).by_tables_alone(True)
    assert not density.plan.by_table_alone
    assert density.holds(np.zeros((1, 1)))


HIGH = nw.PrivateModel(
    prior=nw.Prior({"rate": dist.LogNormal(16.0, 1.0)}),
    simulator=nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta["rate"]).expand([2])),
    mechanism=nw.mechanisms.DiscreteGaussian(scale=20.0),
)
"""Tables say of every draw of the prior that the data are impossible."""


def test_starts_that_tables_do_not_reach_are_told():
    full = MarginalDensity.of(HIGH, np.array([300.0, 320.0]))
    key = jax.random.key(0)
    assert not _starts(key, full.by_tables_alone(True), 4)[1]
    starts, possible = _starts(key, full, 4)
    assert possible
    assert np.exp(starts).max() < 1e7  # the least unlikely
