"""Learnt posteriors against closed forms, as objects to keep, and what they refuse."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.estimators import Training, mixture_density_network, neural_spline_flow
from noisewise.inference import (
    AmortisedPosterior,
    AtomicProposals,
    PrivatePosteriorEstimation,
    TruncatedProposals,
)
from noisewise.inference.learned.posterior.corrections import AbstractCorrection
from noisewise.inference.learned.posterior.regions import NextRound
from noisewise.mechanisms import IndependentUniforms
from tests.inference import linear_gaussian
from tests.inference.fit_files import a_model, check_refuses, check_survives

SMALL = functools.partial(mixture_density_network, num_components=2, num_units=16, num_hidden=1)
QUICK = Training(learning_rate=2e-3, max_epochs=5)
KEY = jax.random.key(0)


@dataclasses.dataclass(frozen=True)
class Uncorrected(AbstractCorrection):
    """The plain loss, whatever the proposal: wrong unless that is the prior."""

    any_proposal = True

    def propose(self, key, estimate, num):
        return NextRound(estimate.sample(key, num))


def off_by(posterior, observed=linear_gaussian.OBSERVED):
    """The error of means in posterior sds, and the ratio of sds, at 20,000 draws (Monte Carlo error
    .007 and .005).
    """
    mean, covariance = linear_gaussian.exact(observed)
    draws, sd = posterior.sample(jax.random.key(9), 20_000), np.sqrt(np.diag(covariance))
    return np.abs(draws.mean(axis=0) - mean) / sd, draws.std(axis=0) / sd


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_atoms_undo_a_shifted_proposal_and_the_plain_loss_does_not(seed):
    """Means within .05 sd and sds within 5% of the closed form; without the correction the means
    are off by .4 sd.
    """
    model, errors = linear_gaussian.model(), {}
    for correction in (AtomicProposals(num_atoms=20), Uncorrected()):
        method = PrivatePosteriorEstimation(
            num_rounds=1,
            num_simulations=20_000,
            correction=correction,
            num_noise=4,
            estimator=functools.partial(mixture_density_network, num_components=1),
            training=Training(learning_rate=1e-3, averaging=0.999, patience=15),
            proposal=linear_gaussian.shifted(),
        )
        posterior = method.infer(
            jax.random.key(seed), model, linear_gaussian.OBSERVED, progress=False
        )
        errors[type(correction).__name__] = off_by(posterior)
    shift, ratio = errors["AtomicProposals"]
    assert (shift < 0.05).all(), errors
    assert (np.abs(ratio - 1.0) < 0.05).all(), errors
    assert errors["Uncorrected"][0].max() > 0.2, errors


@pytest.mark.slow
def test_one_fit_is_calibrated_over_the_prior_and_a_narrow_one_is_not():
    """2000 observations of gaussian_mean: ranks are uniform; with sds of .9 times their size they
    are not.
    """
    model = nw.problems.gaussian_mean(epsilon=1.0).model
    method = PrivatePosteriorEstimation(
        num_rounds=1, num_simulations=20_000, num_noise=8, num_members=2
    )
    fit = method.fit(KEY, model, progress=False)
    assert nw.diagnostics.calibrate(jax.random.key(1), fit, model, 2000).passed

    class Narrow:
        def sample_many(self, key, observed, num):
            draws = fit.sample_many(key, observed, num)
            centre = fit.sample_many(jax.random.key(2), observed, 400).mean(axis=1, keepdims=True)
            return centre + 0.9 * (draws - centre)

    assert not nw.diagnostics.calibrate(jax.random.key(1), Narrow(), model, 2000).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "correction", [TruncatedProposals(), AtomicProposals()], ids=lambda c: type(c).__name__
)
def test_four_rounds_find_the_posterior_of_an_epidemic(correction):
    """C2ST at most .62 after 4 rounds of 1000, where one round gives .75; single networks wander by
    .03.
    """
    problem = nw.problems.sir(epsilon=10.0)
    method = PrivatePosteriorEstimation(num_rounds=4, num_noise=1, correction=correction)
    posterior = method.infer(KEY, problem.model, problem.observed, progress=False)
    reference = problem.reference(jax.random.key(99), 2000)
    assert nw.metrics.c2st(reference, posterior.sample(KEY, 2000)) <= 0.62


@pytest.mark.slow
@pytest.mark.parametrize(
    "correction",
    [TruncatedProposals(), AtomicProposals(num_atoms=4)],
    ids=lambda c: type(c).__name__,
)
def test_trials_side_by_side_equal_trials_alone(correction):
    """Two epsilons, so that regions keep different numbers of rows: as alone up to rounding, which
    8 epochs of Adam amplify.
    """
    problems = [nw.problems.gaussian_mean(epsilon=e) for e in (0.1, 10.0)]
    method = PrivatePosteriorEstimation(
        num_rounds=2,
        num_simulations=600,
        estimator=SMALL,
        training=Training(learning_rate=2e-3, max_epochs=8, averaging=0.0),
        num_noise=2,
        noise_bank=8,
        correction=correction,
    )
    keys = [jax.random.key(4), jax.random.key(5)]
    *_, together = method.rounds_of_many(
        keys, [p.model for p in problems], [p.observed for p in problems]
    )
    for key, problem, posterior in zip(keys, problems, together, strict=True):
        alone = method.infer(key, problem.model, problem.observed, progress=False)
        assert np.abs(posterior.theta - alone.theta).max() < 0.02 * alone.theta.std()


@pytest.mark.slow
def test_a_posterior_with_constraints_has_a_normalised_density_and_survives_a_file(tmp_path):
    """A LogNormal parameter: log_prob is a density of theta, not of log theta, and equal to the
    last bit after saving.
    """
    prior = nw.Prior({"rate": dist.LogNormal(0.0, 0.5)})
    simulator = nw.simulators.JaxSimulator(
        lambda key, theta: theta + 0.3 * jax.random.normal(key, (1,))
    )
    model = nw.PrivateModel(
        prior=prior,
        simulator=simulator,
        query=lambda x: x,
        mechanism=nw.mechanisms.Laplace(scale=0.1),
    )
    method = PrivatePosteriorEstimation(
        num_rounds=1, num_simulations=200, estimator=SMALL, training=QUICK, num_members=2
    )
    posterior = method.infer(KEY, model, [1.2], progress=False)
    grid = np.linspace(1e-4, 12.0, 20_001)[:, None]
    assert abs(np.trapezoid(np.exp(posterior.log_prob(grid)), grid[:, 0]) - 1.0) < 0.01
    assert posterior.log_prob([[-1.0]])[0] == -np.inf
    posterior.save(tmp_path / "a")
    loaded = nw.load_posterior(tmp_path / "a")
    assert np.array_equal(loaded.log_prob(grid[::100]), posterior.log_prob(grid[::100]))
    assert np.array_equal(loaded.sample(KEY, 20), posterior.sample(KEY, 20))


@pytest.mark.slow
def test_a_posterior_of_a_users_own_architecture_is_saved_as_draws(tmp_path):
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    own = lambda key, target_dim, condition_dim: SMALL(key, target_dim, condition_dim)
    method = PrivatePosteriorEstimation(
        num_rounds=1, num_simulations=400, estimator=own, training=QUICK
    )
    posterior = method.infer(KEY, problem.model, problem.observed, progress=False)
    posterior.save(tmp_path / "a")
    loaded = nw.load_posterior(tmp_path / "a")
    assert isinstance(loaded, nw.posteriors.Draws)
    assert np.array_equal(loaded.theta, posterior.theta)
    assert any("draws but not the density" in text for text in loaded.report.warnings)


def test_a_fit_serves_many_observations_and_tells_of_strange_ones():
    model = nw.problems.gaussian_mean(epsilon=1.0).model
    method = PrivatePosteriorEstimation(
        num_rounds=1, num_simulations=400, estimator=SMALL, training=QUICK
    )
    fit = method.fit(KEY, model, progress=False)
    assert fit.sample_many(KEY, [[0.1], [0.4], [0.2]], 50).shape == (3, 50, 1)
    near, far = (
        fit.posterior([0.1]),
        fit.posterior([0.1 + 100 * model.simulate(KEY, model.prior.sample(KEY, 200)).std()]),
    )
    assert not any("outside what the prior predicts" in text for text in near.report.warnings)
    assert any("outside what the prior predicts" in text for text in far.report.warnings)
    theta = near.sample(KEY, 5)
    assert np.allclose(fit.log_prob(theta, np.full((5, 1), 0.1)), near.log_prob(theta), atol=1e-4)


@pytest.fixture(scope="module")
def rate_fit():
    return small(num_noise=2, noise_bank=8).fit(KEY, a_model(), progress=False)


def test_a_fit_tells_what_it_is(rate_fit):
    text = repr(rate_fit)
    assert "AmortisedPosterior: q(theta | s_dp), theta = (rate), s_dp = (total)" in text
    assert "200 simulations, 5 epochs, validation loss" in text
    assert "posterior(observed), sample_many(key, observed, num)" in text


def test_a_fit_survives_a_file(rate_fit, tmp_path):
    theta, observed = np.linspace(0.1, 4.0, 30)[:, None], np.linspace(-1.0, 5.0, 30)[:, None]
    again = check_survives(rate_fit, tmp_path / "a", lambda fit: fit.log_prob(theta, observed))
    one, other = rate_fit.posterior([2.2]), again.posterior([2.2])
    assert np.array_equal(one.theta, other.theta)
    assert one.report == other.report


def test_a_fit_refuses_other_models_and_damaged_files(rate_fit, tmp_path):
    others = {
        r"parameters \(rate\), but this one has \(speed\)": a_model(parameter="speed"),
        "another prior": a_model(sd=0.6),
        r"statistics \(total\), but this one has \(mean\)": a_model(statistic="mean"),
        "mechanism it was trained with": a_model(scale=0.2),
    }
    check_refuses(rate_fit, tmp_path / "a", others)


def test_a_fit_says_where_nothing_was_simulated(rate_fit):
    """Nearly none near what was simulated, nearly all far from it; with ranges that cut the
    posterior, the share beyond them.
    """
    near, far = rate_fit.posterior([1.2]).report, rate_fit.posterior([60.0]).report
    assert near.diagnostics["mass where nothing was simulated"] < 0.05
    assert not any("where nothing was simulated" in text for text in near.warnings)
    assert far.diagnostics["mass where nothing was simulated"] > 0.05
    assert any("where nothing was simulated" in text for text in far.warnings)
    halves = AmortisedPosterior(
        rate_fit.model,
        rate_fit.density,
        rate_fit.report,
        conditions=np.eye(3, 1),
        bounds=np.array([[-9.0], [0.1]]),
    )
    posterior = halves.posterior([1.2])
    share = np.mean(np.log(posterior.theta) > 0.1)
    assert 0.05 < share < 0.95
    assert abs(posterior.report.diagnostics["mass where nothing was simulated"] - share) < 1e-3


def test_a_fit_is_no_posterior_and_says_what_to_write(rate_fit):
    with pytest.raises(
        nw.errors.InvalidInputError, match=r"fit\.sample_many\(key, observed, num\)"
    ):
        rate_fit.posterior(np.ones((3, 1)))
    with pytest.raises(nw.errors.InvalidInputError, match=r"observed\[0\]"):
        rate_fit.posterior(np.ones((1, 1)))
    with pytest.raises(
        nw.errors.InvalidTypeError,
        match=r"certify\(key, fit\.posterior\(observed\), model, observed\)",
    ):
        nw.diagnostics.certify(KEY, rate_fit, rate_fit.model, [1.2])


# Bad input ----------------------------------------------------------------------------------------


def simulated_by(fn):
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(fn),
        query=lambda x: x,
        mechanism=nw.mechanisms.Laplace(scale=0.1),
    )


def mostly_failing(key, theta):
    return jnp.where(theta > 1.0, theta + 0.1 * jax.random.normal(key, (1,)), jnp.nan)


def sometimes_failing(key, theta):
    return jnp.where(theta < 1.0, theta + 0.1 * jax.random.normal(key, (1,)), jnp.nan)


def small(**settings):
    return PrivatePosteriorEstimation(
        **{
            "num_rounds": 1,
            "num_simulations": 200,
            "estimator": SMALL,
            "training": QUICK,
            **settings,
        }
    )


def test_failed_simulations_are_dropped_and_counted():
    posterior = small().infer(KEY, simulated_by(sometimes_failing), [0.2], progress=False)
    assert 10 < posterior.report.num_failed < 120
    assert any("failed" in text for text in posterior.report.warnings)


@pytest.mark.parametrize(
    ("settings", "model", "error", "text"),
    [
        ({}, simulated_by(mostly_failing), nw.errors.SimulationError, "simulations failed"),
        (
            {"num_simulations": 1},
            simulated_by(sometimes_failing),
            nw.errors.SimulationError,
            "at least 20",
        ),
        (
            {
                "estimator": lambda key, target_dim, condition_dim: SMALL(
                    key, target_dim + 1, condition_dim
                )
            },
            simulated_by(sometimes_failing),
            nw.errors.InvalidInputError,
            "must make a distribution",
        ),
    ],
    ids=["most fail", "one simulation", "wrong dimension"],
)
def test_what_cannot_be_learnt_from_is_refused(settings, model, error, text):
    with pytest.raises(error, match=text):
        small(**settings).infer(KEY, model, [0.2], progress=False)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"num_rounds": 0}, ValueError, "num_rounds"),
        ({"noise_bank": 12, "num_noise": 8}, ValueError, "multiple"),
        ({"estimator": 3}, TypeError, "factory"),
        ({"correction": "atomic"}, TypeError, "correction"),
        ({"points": IndependentUniforms}, TypeError, "points"),
        ({"training": 5}, TypeError, "training"),
        ({"correction": AtomicProposals(num_atoms=300)}, ValueError, "batch size"),
        ({"embedding": 4}, TypeError, "embedding must be an Embedding"),
        ({"proposal": linear_gaussian.shifted()}, ValueError, "AtomicProposals"),
        ({"proposal": 3, "correction": AtomicProposals()}, TypeError, "proposal"),
    ],
)
def test_bad_settings_are_refused(settings, error, text):
    with pytest.raises(error, match=text):
        PrivatePosteriorEstimation(**settings)


def test_constant_statistics_are_refused():
    model = dataclasses.replace(
        simulated_by(sometimes_failing), mechanism=nw.mechanisms.Laplace(scale=1e-300)
    )
    model = dataclasses.replace(
        model,
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: jnp.full(1, 7.0), deterministic=True
        ),
    )
    with pytest.raises(nw.errors.InvalidInputError, match="No statistic varies"):
        small().infer(KEY, model, [7.0], progress=False)


def test_a_mechanism_without_sampler_is_refused_with_what_to_use():
    mechanism = nw.mechanisms.DensityMechanism(lambda s_dp, s: -jnp.abs(s_dp - s).sum(-1))
    model = dataclasses.replace(simulated_by(sometimes_failing), mechanism=mechanism)
    with pytest.raises(nw.errors.MissingCapabilityError, match="ImportanceSampling"):
        small().infer(KEY, model, [0.2], progress=False)


def test_a_fit_in_several_rounds_is_refused():
    with pytest.raises(ValueError, match="num_simulations=6666"):
        PrivatePosteriorEstimation(num_rounds=2).fit(
            KEY, nw.problems.gaussian_mean(epsilon=1.0).model, progress=False
        )


def test_the_paper_stays_available_by_name():
    method = nw.inference.as_in_paper("sppe", num_rounds=3)
    assert (method.num_rounds, method.num_simulations, method.num_noise) == (3, 1000, 8)
    assert method.estimator is neural_spline_flow
    assert (method.embedding, method.training) == (None, Training())
    likelihood = nw.inference.as_in_paper("sple")
    assert (likelihood.num_rounds, likelihood.num_simulations) == (10, 1000)
    assert likelihood.estimator is nw.estimators.neural_spline_flow
    with pytest.raises(ValueError, match="as_in_paper knows 'sppe', 'sple', got 'abc'"):
        nw.inference.as_in_paper("abc")


def test_the_default_architecture_is_the_papers():
    """8 layers, 2 hidden layers of 50 units, splines of 10 bins (3 * 10 - 1 parameters for one
    moved coordinate) on [-5, 5].
    """
    flow = neural_spline_flow(KEY, 2, 9)
    assert [weights.shape for weights in flow.networks.weights] == [
        (8, 50, 10),
        (8, 50, 50),
        (8, 29, 50),
    ]
    assert flow.bound == 5.0
