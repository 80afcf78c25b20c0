"""Problems whose statistic has a known law: their references, and `nw.infer` against them."""

import jax
import numpy as np
import pytest

import noisewise as nw

KEY = jax.random.key(0)
NUM = 2000


def test_the_reference_of_the_survey_is_the_mode_and_curvature_at_large_samples():
    """At epsilon 10 hardly an answer is flipped: the mean lies within 4 standard errors of the
    maximum likelihood estimate from the true answers, which Newton's method finds.
    """
    problem = nw.problems.randomized_response(10.0)
    draws = problem.reference(KEY, NUM)
    x = np.array(problem.model.simulator.fn.keywords["x"])
    design, b = np.column_stack([np.ones_like(x), x]), np.zeros(2)
    for _ in range(20):
        p = 1.0 / (1.0 + np.exp(-design @ b))
        information = (design * (p * (1 - p))[:, None]).T @ design
        b = b + np.linalg.solve(information, design.T @ (problem.confidential - p))
    sd = np.sqrt(np.diag(np.linalg.inv(information)))
    # the prior and the skewness move the mean by up to a tenth of an sd
    assert (np.abs(draws.mean(0) - b) < (0.1 + 4 / np.sqrt(NUM)) * sd).all()
    assert (np.abs(np.log(draws.std(0) / sd)) < 0.05 + 4 / np.sqrt(2 * NUM)).all()


def test_rates_of_districts_shrink_more_where_there_are_fewer_cases():
    problem = nw.problems.small_area(1.0)
    draws = problem.reference(KEY, NUM)
    assert draws.shape == (NUM, 14)
    mean, sd = draws.mean(0), draws.std(0)
    assert (np.abs(mean - problem.truth) < 4 * sd).all()
    assert sd[2] > 1.5 * sd[-1], "2,100 people say less than 20,800"
    loose = problem.model.prior.sample(KEY, NUM)
    assert (sd[2:] < 0.6 * loose.std(0)[2:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [10.0, 1.0, 0.1])
@pytest.mark.parametrize("make", [nw.problems.small_area, nw.problems.randomized_response])
def test_infer_finds_the_route_and_the_posterior(make, epsilon):
    """C2ST of equal laws of 2,000 draws is .5 with a standard error of .011, where draws are hardly
    repeated; means agree to .05 sd plus three standard errors of both.
    """
    problem = make(epsilon)
    reference = problem.reference(KEY, NUM)
    posterior = nw.infer(KEY, problem.model, problem.observed, target_ess=4000, progress=False)
    assert posterior.report.diagnostics["route"] == "nuts"
    assert posterior.report.exact
    z = problem.model.prior.unconstrain
    draws = posterior.sample(jax.random.key(1), NUM)
    assert nw.metrics.c2st(z(draws), z(reference)) < 0.53
    error = np.sqrt(1 / NUM + 1 / posterior.effective_size)
    shift = np.abs(posterior.theta.mean(0) - reference.mean(0)) / reference.std(0)
    assert shift.max() < 0.05 + 3 * error
