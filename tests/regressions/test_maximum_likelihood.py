"""Maximum likelihood: against plain Newton steps in NumPy, and optima at infinity."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import special

import noisewise as nw
from noisewise.errors import InvalidInputError, MissingCapabilityError

M = nw.mechanisms


def survey(num=400, truth=0.7):
    rng = np.random.default_rng(3)
    x = rng.normal(size=num)
    s = rng.random(num) < special.expit(-0.5 + x)
    y = np.where(rng.random(num) < truth, s, rng.random(num) < 0.5)
    return pd.DataFrame({"y": y * 1.0, "x": x})


def by_scoring(frame, truth):
    """Estimate, errors of both kinds and log likelihood by Fisher scoring, written out."""
    x = np.column_stack([np.ones(len(frame)), frame["x"]])
    y, beta = frame["y"].to_numpy(), np.zeros(2)

    def at(beta):
        q = special.expit(x @ beta)
        p, slope = (1 - truth) / 2 + truth * q, truth * q * (1 - q)
        return p, slope, (slope * (y - p) / (p * (1 - p)))[:, None] * x

    for _ in range(50):
        p, slope, rows = at(beta)
        expected = (x * (slope**2 / (p * (1 - p)))[:, None]).T @ x
        beta = beta + np.linalg.solve(expected, rows.sum(axis=0))
    steps = 1e-5 * np.eye(2)
    bent = [at(beta - step)[2].sum(axis=0) - at(beta + step)[2].sum(axis=0) for step in steps]
    value = np.where(y == 1, np.log(p), np.log1p(-p)).sum()
    errors = [np.sqrt(np.diag(np.linalg.inv(h))) for h in (np.stack(bent) / 2e-5, rows.T @ rows)]
    return beta, errors, value


def test_the_estimate_is_that_of_fisher_scoring():
    frame = survey()
    analysis = nw.regression("y ~ x", frame, law="bernoulli", mechanism=M.ForcedResponse(truth=0.7))
    found = nw.maximum_likelihood(analysis, num_starts=2)
    beta, errors, value = by_scoring(frame, 0.7)
    assert np.allclose(found.estimate, beta, atol=1e-6)
    assert np.allclose(found.standard_errors, errors[0], rtol=1e-4)
    assert np.allclose(found.score_standard_errors, errors[1], rtol=1e-4)
    assert np.isclose(found.log_likelihood, value, atol=1e-8)
    assert "from scores" in repr(found)
    assert "reached from 2 of 2 starts" in repr(found)
    wrong, *_ = by_scoring(frame, 0.9)  # planted: another design
    assert not np.allclose(found.estimate, wrong, atol=1e-2)


@pytest.mark.parametrize("column", ["separates", "repeats"])
def test_an_optimum_at_infinity_is_refused(column):
    frame = survey(40)
    frame["z"] = frame["y"] if column == "separates" else 2.0 * frame["x"]
    analysis = nw.regression("y ~ x + z", frame, law="bernoulli", mechanism=M.Exact())
    with pytest.raises(InvalidInputError, match=r"no single highest point.*z"):
        nw.maximum_likelihood(analysis, num_starts=1)


def test_effects_need_a_prior():
    frame = survey(40).assign(g=np.resize(["a", "b"], 40))
    analysis = nw.regression("y ~ 1 + (1 | g)", frame, law="bernoulli", mechanism=M.Exact())
    with pytest.raises(MissingCapabilityError, match="'g' has a law that depends on other"):
        nw.maximum_likelihood(analysis)


def test_constrained_parameters_have_errors_on_their_own_scale():
    """Normal rows with noise of sd 1: v = sd^2 + 1 has the error v sqrt(2 / n), sd that / (2 sd)."""
    y = np.random.default_rng(0).normal(1.0, 2.0, 200)
    model = nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Normal(0, 10), "sd": dist.HalfNormal(5)}),
        simulator=nw.simulators.StatisticLaw(
            lambda theta: dist.Normal(theta["mean"], theta["sd"]).expand([200])
        ),
        mechanism=M.Gaussian(scale=1.0),
    )
    found = nw.maximum_likelihood(model, y, num_starts=1)
    sd = np.sqrt(y.var() - 1.0)
    assert np.allclose(found.estimate, [y.mean(), sd], atol=1e-6)
    errors = [y.std() / np.sqrt(200), y.var() * np.sqrt(2 / 200) / (2 * sd)]
    assert np.allclose(found.standard_errors, errors, rtol=1e-4)
