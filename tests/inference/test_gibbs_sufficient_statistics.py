"""Gibbs-SS against exact posteriors, and what it tells of clamping, of impossible observations and
of budgets.
"""

import dataclasses

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.inference.baselines import gibbs_sufficient_statistics as gibbs
from noisewise.inference.baselines.gibbs_sufficient_statistics import GibbsSufficientStatistics
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.importance_sampling import ImportanceSampling
from noisewise.posteriors import Finding, Kind
from noisewise.queries import RegressionMoments
from noisewise.samplers.augmented_regression import AugmentedRegression
from noisewise.simulators import LinearRegression
from tests.inference.regressions import KEY, SHORT, infer, infer_problem

pytestmark = pytest.mark.usefixtures("own_cache")

EXACT = {
    10.0: ((-0.634, -2.643, 0.598), (0.878, 0.700, 0.924)),
    1.0: ((-0.971, -0.960, 1.248), (0.957, 0.940, 0.898)),
    0.1: ((-0.084, -0.085, 0.097), (1.006, 1.013, 1.014)),
}
"""Means and standard deviations of the exact posterior, known to about .01."""


def regression(simulator, query, mechanism, variance=None):
    sd = np.sqrt(simulator.prior_variance if variance is None else variance)
    prior = nw.Prior(
        {"beta": dist.Normal(0.0, sd).expand([simulator.num_predictors + 1]).to_event(1)}
    )
    return nw.PrivateModel(prior=prior, simulator=simulator, query=query, mechanism=mechanism)


def check_agreement(posterior, means, sds, num_exact=np.inf):
    """Means within 4 standard errors plus .12 sd and sds within 4 plus 6%: what normal statistics
    and no clamping may cost.
    """
    table, size = posterior.summary(), posterior.effective_size
    error = 4 * np.sqrt(1 / size + 1 / num_exact)
    assert (np.abs(table["mean"] - means) < (error + 0.12) * np.asarray(sds)).all()
    assert (np.abs(np.log(table["sd"] / sds)) < error / np.sqrt(2) + 0.06).all()


@pytest.mark.parametrize("epsilon", [10.0, pytest.param(1.0, marks=pytest.mark.slow)])
def test_agrees_with_the_exact_posterior_in_short(epsilon):
    problem = nw.problems.linear_regression(epsilon)
    posterior = infer_problem(SHORT, problem)
    assert posterior.effective_size > 300
    check_agreement(posterior, *EXACT[epsilon])
    assert not posterior.report.exact
    assert posterior.report.stopped == "finished"
    assert posterior.report.num_simulations == 400
    assert posterior.report.diagnostics["records clamped"] < 0.05
    if epsilon == 10.0:
        spread = np.sqrt(2) * problem.model.mechanism.scale
        assert np.abs(posterior.statistics.mean(0) - problem.observed).max() < 4 * spread


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [10.0, 1.0, 0.1])
def test_agrees_with_the_exact_posterior(epsilon):
    problem = nw.problems.linear_regression(epsilon)
    posterior, exact = (
        infer_problem(GibbsSufficientStatistics(), problem),
        problem.reference(KEY, 4000),
    )
    assert posterior.effective_size > 1000
    assert posterior.report.warnings == ()
    check_agreement(posterior, exact.mean(0), exact.std(0), 4000)
    check_agreement(posterior, *EXACT[epsilon])


@pytest.mark.slow
def test_tight_bounds_bias_it_and_the_report_says_so():
    """Bounds of +-3 clamp a third of the responses: the exact posterior lies more than half a
    standard deviation away.
    """
    query = RegressionMoments(100, 2, bounds=(-3.0, 3.0))
    simulator = LinearRegression(predictor_mean=(0.9, -1.17))
    model = regression(simulator, query, nw.mechanisms.Laplace(scale=0.013))
    observed = model.simulate(jax.random.key(8), [[-1.0, -1.5, 0.5]])[0]
    posterior = infer(GibbsSufficientStatistics(num_draws=500), model, observed)
    target = AugmentedRegression(
        tuple(100 * observed), 1.3, 100, simulator.predictor_mean, bounds=(-3.0, 3.0)
    )
    exact = target.near_independent(KEY, 2000).pooled(2000)
    distance = np.abs(posterior.theta.mean(0) - exact.mean(0)) / exact.std(0)
    assert distance.max() > 0.5
    assert posterior.report.diagnostics["records clamped"] > 0.05
    assert any("outside the bounds" in text for text in posterior.report.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("num_predictors", [1, 3])
def test_gaussian_noise_and_any_number_of_predictors(num_predictors):
    """Against importance sampling, which is exact. Correlated predictors, bounds off centre, other
    variances.
    """
    covariance = 0.3 * np.ones((num_predictors, num_predictors)) + 0.7 * np.eye(num_predictors)
    simulator = LinearRegression(
        num_records=200,
        num_predictors=num_predictors,
        predictor_mean=tuple(np.linspace(0.5, 1.0, num_predictors)),
        predictor_covariance=tuple(map(tuple, covariance)),
        noise_variance=1.5,
        prior_variance=0.8,
    )
    query = RegressionMoments(
        200, num_predictors, bounds=(*((-6.0, 8.0),) * num_predictors, (-14.0, 10.0))
    )
    model = regression(simulator, query, nw.mechanisms.Gaussian(scale=0.08))
    observed = model.simulate(jax.random.key(3), [[0.5, *[-0.6] * num_predictors]])[0]
    exact = infer(ImportanceSampling(num_final=100_000), model, observed)
    assert exact.effective_size > 1000
    table = exact.summary()
    check_agreement(
        infer(GibbsSufficientStatistics(), model, observed),
        table["mean"],
        table["sd"],
        exact.effective_size,
    )


def test_the_share_of_clamped_records_is_told():
    """Against 100,000 simulated responses at one theta, within 4 standard errors; predictors are
    hardly ever clamped.
    """
    query = RegressionMoments(100, 2, bounds=((-9.0, 9.0), (-9.0, 9.0), (-4.0, 3.0)))
    model = regression(
        LinearRegression(predictor_mean=(0.9, -1.17)), query, nw.mechanisms.Laplace(scale=0.02)
    )
    run = InferenceRun("gibbs-ss", {}, model, np.zeros(9))
    gibbs._look_at_clamping(run, np.array([[-1.0, -1.5, 0.5]]))
    share, rng = run.diagnostics["records clamped"], np.random.default_rng(0)
    y = (
        -1.0
        - 1.5 * rng.normal(0.9, 1, 100_000)
        + 0.5 * rng.normal(-1.17, 1, 100_000)
        + rng.normal(0, np.sqrt(2), 100_000)
    )
    assert abs(np.mean((y < -4.0) | (y > 3.0)) - share) < 4 * np.sqrt(share / 100_000)
    assert run.findings == (Finding(Kind.RECORDS_CLAMPED, {"share": share}),)
    quiet = InferenceRun("gibbs-ss", {}, nw.problems.linear_regression(10.0).model, np.zeros(9))
    gibbs._look_at_clamping(quiet, np.array(EXACT[10.0][:1]))
    assert quiet.diagnostics["records clamped"] == pytest.approx(0.02, abs=0.002)
    assert quiet.findings == ()


def test_impossible_observations_are_told_not_hidden():
    problem = nw.problems.linear_regression(1.0)
    for observed, stuck in ((40.0, False), (1e100, True)):
        posterior = infer(
            dataclasses.replace(SHORT, num_warmup=10, thin=1), problem.model, np.full(9, observed)
        )
        text = " ".join(posterior.report.warnings)
        for part in (
            "outside what the prior predicts",
            "outside the bounds",
            "have not mixed",
            "not positive semidefinite",
        ):
            assert part in text
        assert ("overflowed" in text) == stuck
        assert np.isfinite(posterior.theta).all()


def test_the_same_key_gives_the_same_draws_however_the_work_is_cut(monkeypatch):
    problem = nw.problems.linear_regression(1.0)
    method = dataclasses.replace(SHORT, num_warmup=100, thin=5, max_simulations=1)
    whole = infer_problem(method, problem)
    monkeypatch.setattr(gibbs, "_SEGMENT_SECONDS", 1e-9)
    monkeypatch.setattr(gibbs, "_FIRST_SEGMENT", 170)
    cut = infer_problem(method, problem)
    np.testing.assert_array_equal(cut.theta, whole.theta)
    np.testing.assert_array_equal(cut.statistics, whole.statistics)
    assert not np.array_equal(
        infer(method, problem.model, problem.observed, jax.random.key(6)).theta, whole.theta
    )


def test_budgets_end_the_work_with_what_there_is():
    problem = nw.problems.linear_regression(1.0)
    short = infer_problem(dataclasses.replace(SHORT, max_minutes=1e-6), problem)
    assert "time budget" in short.report.stopped
    assert short.theta.shape == (16, 3)
    assert np.isfinite(short.theta).all()
    assert any("warm-up" in text for text in short.report.warnings)
    few = infer_problem(dataclasses.replace(SHORT, max_simulations=10, thin=1), problem)
    assert few.report.num_simulations <= 10
    assert few.theta.shape == (3200, 3)
