"""Calibration of `MarginalNUTS` on effects of a hierarchy, counted, with noise and a threshold.

mu ~ N(2, .5), tau ~ half N(.5), three effects ~ N(mu, tau), s_j ~ Poisson(exp(effect_j)), discrete
Laplace noise of scale 2, absent below 4. The parameters and the log likelihood, by enumeration, are
ranked. One test at alpha = .05; planted: noise of half the scale, absent cells taken for zeros, and
a forgotten Jacobian. 500 trials take some three minutes on one core, planted ones a third of that
each.
"""

import functools

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import noisewise as nw
from noisewise.diagnostics import calibrate, draw_trials
from noisewise.inference.marginal.marginal_nuts import MarginalDensity

KEY = jax.random.key(23)
NUM_DRAWS, NUM_EFFECTS, ALPHA = 100, 3, 0.05
SCALE, ABOVE = 2.0, 4.0
METHOD = nw.inference.MarginalNUTS(num_chains=2, num_warmup=150, target_ess=100, max_draws=1000)
S = np.arange(700.0)


def model(scale=SCALE, absent=True):
    prior = nw.Prior(
        {
            "mu": dist.Normal(2.0, 0.5),
            "tau": dist.HalfNormal(0.5),
            "effect": lambda mu, tau: dist.Normal(mu, tau).expand([NUM_EFFECTS]),
        }
    )
    law = nw.simulators.StatisticLaw(lambda theta: dist.Poisson(jax.numpy.exp(theta["effect"])))
    noise = nw.mechanisms.DiscreteLaplace(scale=scale)
    noise = nw.mechanisms.Thresholded(noise, above=ABOVE) if absent else noise
    return nw.PrivateModel(prior=prior, simulator=law, mechanism=noise)


def log_likelihood(theta, observed):
    """Sums over all counts, cell by cell."""
    q = np.exp(-1.0 / SCALE)
    total = 0.0
    for j in range(NUM_EFFECTS):
        y = np.asarray(observed)[..., j, None]
        n = np.nan_to_num(y) - S
        seen = (1.0 - q) / (1.0 + q) * q ** np.abs(n)
        below = ABOVE - 1.0 - S
        at_most = np.where(below < 0, q**-below / (1 + q), 1.0 - q ** (below + 1.0) / (1 + q))
        eta = np.where(np.isnan(y), at_most, seen)
        rate = np.exp(np.asarray(theta)[..., 2 + j, None])
        total = total + np.log((scipy.stats.poisson.pmf(S, rate) * eta).sum(axis=-1))
    return total


def calibrated(posterior_of, num_trials):
    trials = draw_trials(
        KEY, posterior_of, model(), num_trials, num_draws=NUM_DRAWS, progress=False
    )
    return calibrate(KEY, trials, quantities={"log likelihood": log_likelihood}, alpha=ALPHA)


def by(other, absent=None):
    """Draws of the posterior of another model."""

    def posterior_of(key, observed):
        observed = observed if absent is None else np.where(np.isnan(observed), absent, observed)
        return METHOD.infer(key, other, observed, progress=False)

    return posterior_of


def test_likelihoods_by_enumeration_are_those_of_the_model():
    theta = np.array([[2.0, 0.5, 1.0, 2.0, 3.0], [2.0, 0.5, 0.0, 2.5, 5.0]])
    y = np.array([np.nan, 9.0, 30.0])
    exact = log_likelihood(theta, y)
    np.testing.assert_allclose(model().log_likelihood(theta, y).sum(axis=1), exact, rtol=1e-9)


@pytest.mark.slow
def test_marginal_nuts_is_calibrated(record_property):
    found = calibrated(METHOD, 500)
    record_property("calibration", found.to_spec())
    assert found.passed, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["scale", "absent", "Jacobian"])
def test_planted_faults_fail(planted, monkeypatch):
    if planted == "Jacobian":

        def forgets(self, z):
            theta = self.prior.constrain(z)
            return self.prior.log_prob(theta) + self.log_likelihood(theta)

        monkeypatch.setattr(MarginalDensity, "__call__", forgets)
    faults = {
        "scale": functools.partial(by, model(scale=SCALE / 2.0)),
        "absent": functools.partial(by, model(absent=False), 0.0),
        "Jacobian": functools.partial(by, model()),
    }
    assert not calibrated(faults[planted](), 150).passed
