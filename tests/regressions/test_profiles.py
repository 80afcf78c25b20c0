"""Profile intervals against closed forms and a grid, and what is said of skewed likelihoods."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import optimize, special, stats

import noisewise as nw
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.posteriors import Kind

M = nw.mechanisms
DROP = stats.chi2.isf(0.05, 1) / 2.0


def normal_rows(y):
    return nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Normal(0, 10), "sd": dist.HalfNormal(5)}),
        simulator=nw.simulators.StatisticLaw(
            lambda theta: dist.Normal(theta["mean"], theta["sd"]).expand([len(y)])
        ),
        mechanism=M.Gaussian(scale=1.0),
    )


def test_profiles_of_normal_rows_are_closed_forms():
    """With v = sd^2 + 1: of the mean, n/2 log(1 + (mean - ybar)^2 / v_hat); of v, at ybar."""
    y = np.random.default_rng(0).normal(1.0, 2.0, 30)
    n, v = len(y), y.var()
    found = nw.maximum_likelihood(normal_rows(y), y, num_starts=1, profile=True)
    ends = found.profiles[["profile low", "profile high"]]
    half = np.sqrt(v * np.expm1(2.0 * DROP / n))
    assert np.allclose(ends.loc["mean"], [y.mean() - half, y.mean() + half], atol=1e-3)

    def missing(w):
        return n / 2.0 * (np.log(w / v) + v / w - 1.0) - DROP

    variances = [optimize.brentq(missing, 1.0 + 1e-9, v), optimize.brentq(missing, v, 50.0)]
    assert np.allclose(ends.loc["sd"], np.sqrt(np.array(variances) - 1.0), atol=1e-3)
    wrong = [y.mean() - np.sqrt(DROP * v / n), y.mean() + np.sqrt(DROP * v / n)]  # planted: half
    assert not np.allclose(ends.loc["mean"], wrong, atol=1e-2)
    assert "profile high" in found.to_frame()


def survey(answers):
    return pd.DataFrame({"y": answers * 1.0})


def test_a_skewed_likelihood_is_told_and_has_an_end_at_infinity():
    """Of 200 answers 42 are yes, where 33.3 are forced: no share at all is likely enough."""
    forced = M.ForcedResponse(truth=2 / 3)
    few = nw.regression("y ~ 1", survey(np.arange(200) < 42), law="bernoulli", mechanism=forced)
    found = nw.maximum_likelihood(few, num_starts=1, profile=["Intercept"])
    low, high = found.profiles.loc["Intercept", ["profile low", "profile high"]]
    assert low == -np.inf

    def missing(eta):
        p = 1 / 6 + 2 / 3 * special.expit(np.array([eta, found.estimate["Intercept"]]))
        first, best = stats.binom.logpmf(42, 200, p)
        return best - first - DROP

    assert np.isclose(high, optimize.brentq(missing, found.estimate["Intercept"], 5.0), atol=1e-3)
    (finding,) = found.findings
    assert finding.kind is Kind.LIKELIHOOD_SKEWED
    assert finding.numbers["names"] == ["Intercept"]
    half = nw.regression("y ~ 1", survey(np.arange(200) < 100), law="bernoulli", mechanism=forced)
    assert nw.maximum_likelihood(half, num_starts=1, profile="Intercept").findings == ()


def test_mistakes():
    y = np.array([1.0, 2.0, 3.0])
    with pytest.raises(InvalidInputError, match="did you mean 'mean'"):
        nw.maximum_likelihood(normal_rows(y), y, profile=["maen"])
    shares = nw.PrivateModel(
        prior=nw.Prior({"p": dist.Dirichlet(np.ones(3))}),
        simulator=nw.simulators.StatisticLaw(lambda theta: dist.Normal(theta["p"], 1.0)),
        mechanism=M.Gaussian(scale=1.0),
    )
    with pytest.raises(MissingCapabilityError, match="add up to 1"):
        nw.maximum_likelihood(shares, y, profile=True)
