"""Simulation-based calibration: right posteriors pass, planted faults are caught, blind spots are
known.
"""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import noisewise as nw
from noisewise import errors
from noisewise._core.keys import generator
from noisewise.diagnostics import calibrate
from noisewise.diagnostics.uniformity import ecdf_band, p_values
from noisewise.posteriors import Draws, Report

KEY = jax.random.key(4)


@pytest.fixture(scope="module")
def model():
    """Records of mean theta ~ N(0, 2^2), their mean released with Gaussian noise: the posterior is
    normal.
    """
    return nw.problems.gaussian_mean(1.0, bounds=None, noise="gaussian").model


def spread_of(model):
    return np.sqrt(0.01 + model.mechanism.scale**2)


class Exact:
    """The closed-form posterior, moved by `bias` of its sds and stretched, for many observations at
    once.
    """

    def __init__(self, model, bias=0.0, stretch=1.0):
        variance = 1 / (1 / 4 + 1 / spread_of(model) ** 2)
        self.factor, self.sd = variance / spread_of(model) ** 2, np.sqrt(variance)
        self.bias, self.stretch = bias, stretch

    def sample_many(self, key, observed, num):
        noise = generator(key).normal(size=(len(observed), num, 1))
        return self.factor * observed[:, None] + self.sd * (self.bias + self.stretch * noise)


def test_exact_posteriors_pass(model):
    calibration = calibrate(KEY, Exact(model), model, 2000)
    assert calibration.passed
    assert calibration.ranks.shape == (2000, 1)
    assert calibration.ranks.min() >= 0
    assert calibration.ranks.max() <= 100
    assert str(calibration).startswith("passed. Nothing speaks against")


@pytest.mark.parametrize(
    "wrong", [{"stretch": 0.9}, {"stretch": 1.1}, {"bias": 0.2}, {"bias": -0.2}], ids=str
)
def test_planted_faults_are_caught(model, wrong):
    """At N = 2000 all are caught with power above .99: five in a row here."""
    found = [calibrate(jax.random.key(k), Exact(model, **wrong), model, 2000) for k in range(5)]
    assert not any(each.passed for each in found)
    word = {0.9: "narrow", 1.1: "wide"}.get(
        wrong.get("stretch"), "low" if wrong.get("bias", 0) < 0 else "high"
    )
    assert word in found[0].sentence


def uniforms(rng, num, bias=0.0, stretch=1.0):
    draws = bias + stretch * rng.normal(size=(num, 100))
    return ((draws < rng.normal(size=(num, 1))).sum(axis=1) + rng.random(num)) / 101


def share_caught(num, repeats, **wrong):
    rng = np.random.default_rng(8)
    return np.mean(
        [3 * min(p_values(uniforms(rng, num, **wrong)).values()) <= 0.05 for _ in range(repeats)]
    )


def test_false_alarms_are_as_rare_as_stated():
    """Of 600 right calibrations at most 5% + 4 se fail, and not far fewer than 5%: the tests are
    exact, Bonferroni costs little.
    """
    assert 0.015 < share_caught(500, 600) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 600)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num", "wrong", "power"),
    [
        (2000, {"stretch": 0.9}, 0.99),
        (2000, {"bias": 0.2}, 0.99),
        (500, {"bias": 0.2}, 0.95),
        (500, {"stretch": 0.8}, 0.99),
    ],
    ids=str,
)
def test_power(num, wrong, power):
    assert share_caught(num, 1000, **wrong) >= power


def test_the_band_holds_the_stated_share_of_ecdfs():
    """1000 ECDFs of 300 uniforms: 5% leave the band, within 4 standard errors."""
    points, low, high = ecdf_band(300, 0.05)
    u = np.sort(np.random.default_rng(1).random((1000, 300)), axis=1)
    ecdf = np.stack([np.searchsorted(row, points, side="right") for row in u]) / 300
    left = np.mean(((ecdf < low - 1e-12) | (ecdf > high + 1e-12)).any(axis=1))
    assert abs(left - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 1000)
    assert (low < points).all()
    assert (high > points).all()


class IgnoresData:
    """posterior = prior."""

    def sample_many(self, key, observed, num):
        return 2.0 * generator(key).normal(size=(len(observed), num, 1))


def test_ranks_of_parameters_are_uniform_where_data_were_ignored_but_depend_on_them(model):
    quantities = {
        "log likelihood": lambda theta, y: stats.norm(theta, spread_of(model)).logpdf(y)[..., 0]
    }
    found = calibrate(KEY, IgnoresData(), model, 500)
    assert not found.passed
    assert "depend on the data" in found.sentence
    assert dataclasses.replace(found, scores=None).passed
    assert not calibrate(KEY, IgnoresData(), model, 500, quantities=quantities).passed
    assert calibrate(KEY, Exact(model), model, 500, quantities=quantities).passed


def test_functions_and_fits_serve_too(model):
    """The same posterior as a function that returns draws, one that returns a posterior, and a fit."""

    def draws(key, observed):
        return Exact(model).sample_many(key, observed[None], 300)[0]

    def posterior(key, observed):
        return Draws(draws(key, observed), model.names, Report("exact"))

    class Fit:
        def posterior(self, observed):
            return posterior(KEY, observed)

    for posterior_of in (draws, posterior, Fit()):
        first = calibrate(KEY, posterior_of, model, 40, num_draws=50)
        assert first.passed
        assert first.num_draws == 50
    np.testing.assert_array_equal(
        first.uniforms, calibrate(KEY, Fit(), model, 40, num_draws=50).uniforms
    )
    assert json.loads(json.dumps(first.to_spec()))["passed"] is True


def test_ties_are_broken_at_random():
    """theta is 0 or 1 after rounding and so are the draws: ranks would pile up, randomised ones are
    uniform.
    """
    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Uniform(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: jax.random.normal(key, (1,)) + 0.0 * theta
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )

    def prior_draws(key, observed):
        return generator(key).random((100, 1))

    quantities = {"rounded": lambda theta, y: np.round(theta[..., 0])}
    calibration = calibrate(KEY, prior_draws, model, 500, quantities=quantities)
    assert calibration.passed
    below_only = np.where(np.random.default_rng(0).random(500) < 0.5, 0.25, 0.75)
    assert min(p_values(below_only).values()) < 1e-3


def test_failed_simulations_are_left_out_and_counted(model):
    failing = nw.simulators.JaxSimulator(
        lambda key, theta: jnp.where(theta > 2.0, jnp.nan, theta + jax.random.normal(key, (1,)))
    )
    faulty = nw.PrivateModel(
        prior=model.prior,
        simulator=failing,
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )
    calibration = calibrate(KEY, Exact(model), faulty, 200)
    assert 10 < calibration.num_failed < 60
    assert calibration.num_trials + calibration.num_failed == 200


def test_bad_input_is_refused(model):
    with pytest.raises(errors.InvalidTypeError, match="PrivateModel"):
        calibrate(KEY, model, Exact(model))
    with pytest.raises(errors.InvalidTypeError, match="sample_many"):
        calibrate(KEY, 3, model)
    with pytest.raises(errors.InvalidInputError, match="num_trials"):
        calibrate(KEY, Exact(model), model, 5)
    with pytest.raises(errors.InvalidInputError, match="num_draws=100"):
        calibrate(KEY, lambda key, observed: np.zeros((5, 1)), model, 20)
    with pytest.raises(errors.InvalidInputError, match="without NaN"):
        calibrate(KEY, lambda key, observed: np.full((100, 1), np.nan), model, 20)
    with pytest.raises(errors.InvalidInputError, match="'flat'"):
        calibrate(KEY, Exact(model), model, 20, quantities={"flat": lambda theta, y: theta[0, 0]})
    density = nw.mechanisms.DensityMechanism(lambda s_dp, s: -jnp.sum((s_dp - s) ** 2, axis=-1))
    with pytest.raises(errors.MissingCapabilityError, match="certify"):
        calibrate(KEY, Exact(model), model.with_mechanism(density))
