"""Problems whose statistic has a known law: their references, and `nw.infer` against them."""

import sys

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import gammaln, logsumexp

import noisewise as nw
from noisewise.problems._known_totals import KnownTotal
from tests.laws.known_totals import compositions

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


TABLES = {"contingency": (4, nw.problems.contingency), "incomes": (3, nw.problems.incomes)}
"""Few people, so that all their tables can be summed over: 3,876 and 2,600 of them."""


def enumerated(problem, theta, people, scale):
    """log p(y | theta) but for a constant, over all tables, and the tables' log terms."""
    shares = sys.modules[f"noisewise.problems.{problem.name}"]._shares(theta)
    tables = compositions(people, shares.shape[1])
    noise = -np.abs(problem.observed - tables).sum(axis=1) / scale
    log_shares = np.log(np.maximum(shares, 1e-300))  # those that cannot be, but for 0 * inf
    return logsumexp(log_shares @ tables.T - gammaln(tables + 1).sum(1) + noise, axis=1)


@pytest.mark.parametrize("name", TABLES)
def test_the_density_of_the_reference_is_a_sum_over_all_tables(name):
    people, make = TABLES[name]
    problem = make(1.0, num_people=people)
    theta = problem.model.prior.sample(KEY, 50)
    theta = theta[(np.abs(problem.model.prior.unconstrain(theta)) < 4.0).all(axis=1)]
    exact = enumerated(problem, theta, people, 2.0)
    shares = sys.modules[f"noisewise.problems.{name}"]._shares(theta)

    def far(total):
        found = KnownTotal(total, 2.0, problem.observed).log_prob(shares)
        return np.ptp(found - exact)

    assert far(people) < 1e-8
    assert far(people + 1) > 1e-2, "planted: a total that is one off"


@pytest.mark.parametrize("name", TABLES)
def test_the_reference_weighs_the_prior_by_that_sum(name):
    """Five standard errors of both sides, in means and second moments of unconstrained
    parameters.
    """
    people, make = TABLES[name]
    problem = make(1.0, num_people=people)
    prior = problem.model.prior
    theta = prior.sample(KEY, NUM)
    log_weights = enumerated(problem, theta, people, 2.0)
    weights = np.exp(log_weights - logsumexp(log_weights))
    draws = prior.unconstrain(problem.reference(KEY, NUM))
    z = prior.unconstrain(theta)

    def far(draws):
        apart = []
        for power in (1, 2):
            mean = weights @ z**power
            error = np.sqrt(weights**2 @ (z**power - mean) ** 2 + (draws**power).var(0) / NUM)
            apart.append(np.abs((draws**power).mean(0) - mean) / error)
        return np.max(apart)

    assert far(draws) < 5.0
    assert far(draws + 0.3 * draws.std(0)) > 5.0, "planted: .3 sd off"


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("epsilon", [10.0, 0.1])
def test_the_reference_at_full_size_is_that_of_nw_privatized(name, epsilon):
    """Differences of log densities between draws, where both are right to 1e-8 but for the noise of
    a convolution by Fourier transforms.
    """
    problem = TABLES[name][1](epsilon)
    theta = problem.reference(KEY, 50)
    shares = sys.modules[f"noisewise.problems.{name}"]._shares(theta)
    mechanism = problem.model.mechanism
    found = KnownTotal(2_000, mechanism.scale, problem.observed).log_prob(shares)
    with jax.enable_x64(True):
        law = nw.Privatized(dist.Multinomial(2_000, shares), mechanism)
        exact = np.asarray(law.log_prob(problem.observed))
    assert np.ptp(found - exact) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [10.0, 1.0, 0.1])
@pytest.mark.parametrize(
    "make",
    [
        nw.problems.small_area,
        nw.problems.randomized_response,
        nw.problems.contingency,
        nw.problems.incomes,
    ],
)
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
