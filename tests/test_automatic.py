"""nw.infer: which route it takes, that budgets are kept, and that its answers are right."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.automatic import routes
from noisewise.automatic.ranking import Candidate, rank
from noisewise.automatic.routes import ROUTES, adapted_importance
from noisewise.automatic.routes.route import Route
from noisewise.posteriors import Draws, Report, WeightedSamples
from tests.inference import linear_gaussian

KEY = jax.random.key(0)


def one_number(mechanism, spread=1.0):
    """theta ~ N(0, 1), s ~ N(theta, spread^2), through a mechanism."""
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + spread * jax.random.normal(key, (1,))
        ),
        query=lambda x: x,
        mechanism=mechanism,
    )


def test_where_noise_hides_the_data_draws_from_the_prior_do():
    """Gaussian noise of sd 2: the posterior is N(y / 6, 5/6), here within 4 standard errors of its
    own effective size.
    """
    model = one_number(nw.mechanisms.Gaussian(scale=2.0))
    posterior = nw.infer(KEY, model, [1.5], progress=False)
    assert posterior.report.diagnostics["route"] == "importance"
    assert posterior.report.exact
    assert posterior.effective_size >= 1000
    error = np.sqrt(5 / 6 / posterior.effective_size)
    assert abs(posterior.weights @ posterior.theta[:, 0] - 0.25) < 4 * error


def test_records_go_by_data_augmentation():
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    posterior = nw.infer(KEY, problem.model, problem.observed, target_ess=200, progress=False)
    assert posterior.report.diagnostics["route"] == "da-mcmc"
    assert posterior.report.exact
    assert posterior.report.num_simulations <= 100_000


@pytest.fixture
def many_parameters(monkeypatch):
    """Routes as for more parameters than importance sampling adapts to."""
    monkeypatch.setattr(adapted_importance, "MAX_PARAMETERS", 0)


@pytest.mark.usefixtures("many_parameters")
def test_an_observation_far_from_the_prior_is_reached_by_tempering():
    """y = 6 with noise of variance .02 in all: N(y / 1.02, .02 / 1.02), where no draw of the prior
    comes near.
    """
    model = one_number(nw.mechanisms.Gaussian(scale=0.1), spread=0.1)
    posterior = nw.infer(KEY, model, [6.0], target_ess=300, progress=False)
    assert posterior.report.diagnostics["route"] == "exact-smc"
    assert posterior.report.exact
    assert any("outside what the prior predicts" in text for text in posterior.report.warnings)
    draws = posterior.sample(jax.random.key(1), 2000)[:, 0]
    sd = np.sqrt(0.02 / 1.02)
    assert abs(posterior.weights @ posterior.theta[:, 0] - 6.0 / 1.02) < 4 * sd / np.sqrt(
        posterior.effective_size
    )
    assert abs(draws.std() / sd - 1.0) < 4 / np.sqrt(2 * 300)


@pytest.mark.parametrize("budget", [1, 500, pytest.param(9000, marks=pytest.mark.slow)])
def test_a_budget_of_simulations_is_kept_and_told(budget):
    model = one_number(nw.mechanisms.Gaussian(scale=0.01), spread=0.01)
    posterior = nw.infer(KEY, model, [1.5], max_simulations=budget, progress=False)
    assert posterior.report.num_simulations <= budget
    assert not posterior.report.stop.finished
    assert any("was not reached" in text for text in posterior.report.warnings)


def test_bad_input_is_refused_before_any_work(tmp_path):
    model = one_number(nw.mechanisms.Gaussian(scale=2.0))
    with pytest.raises(nw.errors.InvalidTypeError, match="PrivateModel"):
        nw.infer(KEY, "model", [1.0])
    with pytest.raises(nw.errors.NoisewiseError):
        nw.infer(KEY, model, [np.nan])
    for bad in ({"target_ess": 0}, {"max_simulations": 0}, {"max_minutes": -1.0}):
        with pytest.raises(nw.errors.NoisewiseError):
            nw.infer(KEY, model, [1.0], **bad)
    nw.infer(KEY, model, [1.0], target_ess=100, progress=False).save(tmp_path / "run")
    with pytest.raises(nw.errors.InvalidInputError, match="holds an archive"):
        nw.infer(KEY, model, [1.0], run_dir=tmp_path / "run")


def test_exact_draws_rank_before_learnt_ones_and_these_before_poor_weights():
    rng = np.random.default_rng(1)
    poor = WeightedSamples(
        rng.normal(size=(100, 1)),
        ("a",),
        Report("importance"),
        log_weights=rng.normal(size=100) * 9,
    )
    fair = WeightedSamples(
        rng.normal(size=(100, 1)), ("a",), Report("certify"), log_weights=np.zeros(100)
    )
    learnt = Draws(rng.normal(size=(4000, 1)), ("a",), Report("sppe"))
    exact = WeightedSamples(
        rng.normal(size=(150, 1)),
        ("a",),
        Report("importance", exact=True),
        log_weights=np.zeros(150),
    )
    ranks = [rank(posterior) for posterior in (poor, learnt, fair, exact)]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == 4


def planted(offered, monkeypatch):
    """The draws that nw.infer returns where its one route offers these candidates."""
    route = Route(
        name="planted",
        when="always",
        methods="nothing",
        evidence="none",
        applies=lambda search: True,
        candidates=lambda search: iter(offered),
    )
    monkeypatch.setattr(routes, "ROUTES", (route,))
    model = one_number(nw.mechanisms.Gaussian(scale=1.0))
    return nw.infer(KEY, model, [0.0], progress=False).theta


def test_draws_of_the_prior_never_replace_an_answer(monkeypatch):
    rng = np.random.default_rng(2)
    learnt = Draws(rng.normal(size=(100, 1)), ("a",), Report("sppe"))
    later = Draws(rng.normal(size=(100, 1)), ("a",), Report("sppe"))
    tempered = Draws(rng.normal(size=(100, 1)), ("a",), Report("exact-smc", power=0.3))
    prior = Draws(rng.normal(size=(100, 1)), ("a",), Report("sppe", power=0.0))
    for order in ((learnt, tempered, prior), (prior, tempered, learnt, later)):
        assert planted(map(Candidate, order), monkeypatch) is learnt.theta
    assert planted(map(Candidate, (tempered, prior)), monkeypatch) is tempered.theta


def test_a_pool_replaces_the_luckier_part_of_it(monkeypatch):
    """A part that calls itself exact, a pool whose tail is heavy, and something else: the pool
    stands for both, unless beaten.
    """
    rng = np.random.default_rng(3)
    part = WeightedSamples(
        rng.normal(size=(500, 1)), ("a",), Report("certify", exact=True), log_weights=np.zeros(500)
    )
    pool = WeightedSamples(
        rng.normal(size=(900, 1)), ("a",), Report("certify"), log_weights=np.zeros(900)
    )
    learnt = Draws(rng.normal(size=(100, 1)), ("a",), Report("sppe"))
    offered = (Candidate(part), Candidate(pool, replaces=part), Candidate(learnt))
    assert planted(offered, monkeypatch) is pool.theta
    apart = (Candidate(part), Candidate(pool), Candidate(learnt))
    assert planted(apart, monkeypatch) is part.theta


def test_the_documentation_lists_the_routes_as_they_are():
    """In their order, word for word, and no other."""
    words = " ".join(nw.infer.__doc__.split())
    listed = " ".join(f"{number}. {route.line}" for number, route in enumerate(ROUTES, start=1))
    assert listed in words
    assert f"{len(ROUTES) + 1}. " not in words


def test_the_report_of_the_search_leaves_the_posterior_of_its_method_alone(monkeypatch):
    learnt = Draws(np.random.default_rng(4).normal(size=(100, 1)), ("a",), Report("sppe"))
    planted([Candidate(learnt)], monkeypatch)
    assert learnt.report == Report("sppe")


def test_a_small_budget_is_not_spent_on_a_warm_up():
    """Regression at epsilon 10 with 9999 simulations: the chains would end in their warm-up,
    weighted draws have an answer. Their effective size, 66 when this was written, leaves an error
    of .12 sd: four of those.
    """
    problem = nw.problems.linear_regression(epsilon=10.0)
    posterior = nw.infer(KEY, problem.model, problem.observed, max_simulations=9999, progress=False)
    assert posterior.report.diagnostics["route"] == "importance"
    exact = np.array([-0.633, -2.636, 0.603]), np.array([0.87, 0.68, 0.90])
    assert (np.abs(posterior.summary()["mean"].to_numpy() - exact[0]) < 0.5 * exact[1]).all()


@pytest.mark.slow
def test_a_surprising_observation_is_not_starved():
    """Two parameters, four statistics, noise .1 and .02, an observation outside the prior's: within
    half an sd of the closed form.
    """
    matrix = np.array([[1.0, 0.3], [0.2, 1.0], [0.5, -0.4], [-0.3, 0.8]])
    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: jnp.asarray(matrix) @ theta + 0.1 * jax.random.normal(key, (4,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=0.02),
    )
    noise = 0.1**2 + 0.02**2
    covariance = np.linalg.inv(np.eye(2) + matrix.T @ matrix / noise)
    observed = matrix @ np.array([3.3, 3.3])
    mean, sd = covariance @ matrix.T @ observed / noise, np.sqrt(np.diag(covariance))
    posterior = nw.infer(KEY, model, observed, progress=False)
    assert any("outside what the prior predicts" in text for text in posterior.report.warnings)
    assert (np.abs(posterior.weights @ posterior.theta - mean) < 0.5 * sd).all()


SHARP = 0.03


def sharp():
    """Two parameters, three statistics, small noise, with mean and covariance of the posterior:
    model, observed, mean, covariance.
    """
    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: (
                jnp.asarray(linear_gaussian.A) @ theta + SHARP * jax.random.normal(key, (3,))
            )
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=SHARP),
    )
    covariance = np.linalg.inv(np.eye(2) + linear_gaussian.A.T @ linear_gaussian.A / (2 * SHARP**2))
    observed = (
        linear_gaussian.A
        @ covariance
        @ linear_gaussian.A.T
        @ linear_gaussian.OBSERVED
        / (2 * SHARP**2)
    )
    return model, observed, covariance @ linear_gaussian.A.T @ observed / (2 * SHARP**2), covariance


def check_sharp(route):
    """Exact, within the budget, and means within 4 standard errors of the closed form."""
    model, observed, mean, covariance = sharp()
    posterior = nw.infer(KEY, model, observed, progress=False)
    assert posterior.report.diagnostics["route"] == route
    assert posterior.report.exact
    assert posterior.report.num_simulations <= 100_000
    error = np.sqrt(np.diag(covariance) / posterior.effective_size)
    assert (np.abs(posterior.weights @ posterior.theta - mean) < 4 * error).all()


def test_few_parameters_go_by_adapted_importance_sampling():
    check_sharp("importance")


@pytest.mark.slow
@pytest.mark.usefixtures("many_parameters")
def test_a_narrow_posterior_is_learnt_and_corrected():
    check_sharp("sppe, corrected")
