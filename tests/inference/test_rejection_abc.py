"""Rejection ABC: right against the exact posterior, and against quadrature at its tolerance."""

import types

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.inference.abc import rejection_abc
from noisewise.inference.abc.rejection_abc import RejectionABC
from noisewise.inference.abc.smc_abc import SMCABC
from noisewise.metrics import kolmogorov_smirnov
from tests.inference.known_abc import (
    KEY,
    continuous,
    continuous_abc,
    infer,
    norm_log_prob,
    z_scores,
)

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("epsilon", [1.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_exact_rejection_agrees_with_the_exact_posterior(epsilon):
    """Mean and variance within 4 standard errors, KS of 1000 against 20,000 draws below 2 (1%
    exceed 1.63) times its scale.
    """
    problem = nw.problems.gaussian_mean(epsilon)
    posterior = infer(RejectionABC(), problem)
    exact = problem.reference(KEY, 20_000)
    assert len(posterior.theta) == 1000
    assert posterior.report.exact
    assert posterior.report.stopped == "finished"
    assert posterior.report.warnings == ()
    assert np.all(np.abs(z_scores(posterior, exact.mean(), exact.std())) < 4)
    assert kolmogorov_smirnov(exact, posterior.theta)[0] < 2.0 * np.sqrt(1 / 1000 + 1 / 20_000)


def test_exact_rejection_keeps_draws_of_the_statistic():
    """Everything is normal, so s given s_dp is too: precision 1/(4 + .01) + 1/scale^2."""
    problem = continuous()
    posterior = infer(RejectionABC(), problem)
    noise = problem.model.mechanism.scale**2
    variance = 1 / (1 / 4.01 + 1 / noise)
    statistics = types.SimpleNamespace(theta=posterior.statistics, weights=posterior.weights)
    assert np.all(
        np.abs(z_scores(statistics, variance * problem.observed[0] / noise, np.sqrt(variance))) < 4
    )


@pytest.mark.parametrize(
    ("settings", "tolerance"), [({"tolerance": 0.6}, 0.6), ({"quantile": 0.1}, None)]
)
def test_rejection_by_distance_agrees_with_quadrature(settings, tolerance):
    """A quantile keeps what lies within its own largest distance, which the report tells."""
    problem = continuous()
    posterior = infer(RejectionABC(num_draws=2000, **settings), problem)
    reached = posterior.report.diagnostics["tolerance"]
    assert len(posterior.theta) == 2000
    assert not posterior.report.exact
    assert tolerance is None or 0.95 * tolerance < reached <= tolerance
    assert np.all(np.abs(z_scores(posterior, *continuous_abc(problem, tolerance or reached))) < 4)


def test_a_wrong_acceptance_probability_is_caught(monkeypatch):
    right = rejection_abc._ByDensity.judge

    def planted(rule, key, s):
        _, scores = right(rule, key, s)
        return jax.random.exponential(key, scores.shape) >= 0.5 * scores, scores

    monkeypatch.setattr(rejection_abc._ByDensity, "judge", planted)
    problem = nw.problems.gaussian_mean(0.1)
    exact = problem.reference(KEY, 20_000)
    posterior = infer(RejectionABC(num_draws=1000), problem)
    assert np.abs(z_scores(posterior, exact.mean(), exact.std())).max() > 4


def test_a_mechanism_with_samples_alone_gets_the_nearest_share():
    problem = nw.problems.gaussian_mean(1.0)
    sampled = nw.mechanisms.SampledMechanism(
        lambda key, s: s + 0.04 * jax.random.laplace(key, s.shape)
    )
    model = types.SimpleNamespace(
        model=problem.model.with_mechanism(sampled), observed=problem.observed
    )
    posterior = infer(RejectionABC(num_draws=100), model)
    assert posterior.report.num_simulations == 10_000
    assert not posterior.report.exact
    assert any("nearest 1%" in text for text in posterior.report.warnings)
    sequential = infer(SMCABC(num_particles=200, num_rounds=5), model)
    assert sequential.report.stopped == "finished"
    assert abs(sequential.summary().loc["mean", "mean"] - problem.observed[0]) < 0.2


def test_a_bound_that_is_none_is_refused():
    log_prob = lambda s_dp, s: norm_log_prob(s_dp - s)
    wrong = nw.mechanisms.DensityMechanism(
        log_prob, log_prob_bound=lambda s_dp: norm_log_prob(s_dp * 0.0) - 1.0
    )
    problem = nw.problems.gaussian_mean(1.0)
    with pytest.raises(errors.InvalidInputError, match="log_prob_bound"):
        RejectionABC().infer(KEY, problem.model.with_mechanism(wrong), [0.1], progress=False)
