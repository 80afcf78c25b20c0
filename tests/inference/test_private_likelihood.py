"""Private likelihood estimation: closed forms, lattices, its density on its own, and what it
refuses.
"""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import betabinom, multivariate_normal, norm

import noisewise as nw
from noisewise import errors
from noisewise.estimators import Training, mixture_density_network, neural_spline_flow
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learning import fit_report
from noisewise.inference.learned.common.populations import Populations
from noisewise.inference.learned.likelihood.learned_likelihood import (
    LearnedLikelihood,
    posterior_of,
)
from noisewise.inference.learned.likelihood.private_likelihood_estimation import (
    PrivateLikelihoodEstimation,
)
from noisewise.posteriors import Draws, Finding, Kind, Report, StopKind
from tests.inference.fit_files import a_model, check_refuses, check_survives

KEY = jax.random.key(4)
SMALL = functools.partial(neural_spline_flow, num_layers=2, num_units=8, num_hidden=1, num_bins=4)
TINY = {
    "num_simulations": 400,
    "num_chains": 20,
    "num_warmup": 30,
    "target_ess": 400,
    "training": Training(max_epochs=5, batch_size=50),
    "estimator": SMALL,
}
PLE = functools.partial(PrivateLikelihoodEstimation, num_rounds=1, **TINY)


def linear_gaussian(num=3, noise=0.5):
    """theta ~ N(0, I_2), s = A theta + N(0, .3^2 I), s_dp = s + N(0, .5^2 I): the likelihood and
    the posterior are normal.
    """
    matrix = np.array([[1.0, 0.5], [-0.5, 1.0], [0.3, 0.8]])[:num]
    simulate = lambda key, theta: jnp.asarray(matrix) @ theta + 0.3 * jax.random.normal(key, (num,))
    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0).expand([2])}),
        simulator=nw.simulators.JaxSimulator(simulate),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=noise),
    )
    return model, matrix, 0.3**2 + noise**2


OBSERVED = np.array([0.8, -0.4, 0.5])


def shifted_proposal(mean, covariance):
    """Draws whose means are one posterior sd away from the posterior's."""
    rng = np.random.default_rng(0)
    shift = np.sqrt(np.diag(covariance))
    return Draws(
        rng.multivariate_normal(mean + shift, covariance, 20_000),
        ("a[0]", "a[1]"),
        Report("shifted"),
    )


# One fit for many observations --------------------------------------------------------------------


@pytest.fixture(scope="module")
def rate_fit():
    network = functools.partial(
        mixture_density_network, num_components=2, num_units=16, num_hidden=1
    )
    return PLE(estimator=network, num_simulations=200, target_ess=100).fit(
        KEY, a_model(), progress=False
    )


def test_a_fit_tells_what_it_is(rate_fit):
    text = repr(rate_fit)
    assert "LearnedLikelihood: q(s_dp | theta), theta = (rate), s_dp = (total)" in text
    assert "200 simulations, 5 epochs, validation loss" in text
    assert "posterior(key, observed), maximum_likelihood(observed)" in text
    assert rate_fit.report.settings["num_chains"] == 20


def test_a_report_of_a_fit_leaves_the_observation_out():
    inference_run = InferenceRun("sple", {}, a_model(), np.zeros(1))
    inference_run.warn(Kind.SURPRISING_OBSERVATION, p=0.001)
    inference_run.diagnostics["prior predictive p-value"] = 0.001
    inference_run.num_simulations, inference_run.num_failed = 10, 3
    inference_run.end(StopKind.TIME_SPENT)
    report = fit_report(inference_run, Finding.stated("A note."))
    assert report.diagnostics == {}
    assert len(report.warnings) == 3
    for text, part in zip(
        report.warnings, ("A note.", "3 of 10", "the time budget is spent"), strict=True
    ):
        assert part in text


def test_a_fit_survives_a_file(rate_fit, tmp_path):
    theta, observed = np.linspace(0.1, 4.0, 30)[:, None], np.linspace(-1.0, 5.0, 30)[:, None]
    again = check_survives(rate_fit, tmp_path / "a", lambda fit: fit.log_prob(observed, theta))
    assert np.array_equal(again.sample(KEY, theta), rate_fit.sample(KEY, theta))
    assert np.array_equal(again.maximum_likelihood([1.2]), rate_fit.maximum_likelihood([1.2]))


def test_a_fit_refuses_other_models_and_damaged_files(rate_fit, tmp_path):
    others = {
        r"parameters \(rate\), but this one has \(speed\)": a_model(parameter="speed"),
        "another prior": a_model(sd=0.6),
        r"statistics \(total\), but this one has \(mean\)": a_model(statistic="mean"),
        "mechanism it was trained with": a_model(scale=0.2),
    }
    check_refuses(rate_fit, tmp_path / "a", others)


@pytest.mark.parametrize("last", [True, False])
def test_mass_beyond_the_simulated_parameters_is_in_the_report(rate_fit, last):
    """Particles of which 3 draws in 10 lie beyond the largest simulated rate; only of the last ones
    does the report warn.
    """
    z = np.repeat([[0.0], rate_fit.bounds[1] + 0.1], [7, 3], axis=0)
    told = {"effective_size": 1e4, "r_hat": 1.0, "settled": True, "num_divergent": 0}
    found = types.SimpleNamespace(**told, look=lambda: None, chosen=lambda: z)
    inference_run = InferenceRun("sple", {}, rate_fit.model, np.ones(1))
    report = posterior_of(inference_run, rate_fit, found, last=last).report
    assert report.diagnostics["mass where nothing was simulated"] == 0.3
    assert [text[:20] for text in report.warnings] == ["30% of the posterior"] * last


@pytest.mark.slow
def test_a_posterior_says_where_nothing_was_simulated(rate_fit):
    """s_dp = rate + noise: at 1.2 the posterior lies among 200 simulated rates, of which the
    largest is about 4, and at 60 beyond.
    """
    near, far = rate_fit.posterior(KEY, [1.2]), rate_fit.posterior(KEY, [60.0])
    for posterior in (near, far):
        z = np.log(posterior.theta[:, 0])
        share = np.mean((z < rate_fit.bounds[0, 0]) | (z > rate_fit.bounds[1, 0]))
        assert abs(posterior.report.diagnostics["mass where nothing was simulated"] - share) < 1e-3
        assert any("where nothing was simulated" in text for text in posterior.report.warnings) == (
            posterior is far
        )


def test_particles_that_disagree_end_with_the_time(rate_fit, monkeypatch):
    """Without the look at the clock they would go on 24 times."""
    monkeypatch.setattr(
        "noisewise.inference.learned.common.populations.Populations.look", lambda self: None
    )
    posterior = rate_fit.posterior(KEY, [0.5], max_minutes=1e-4)
    assert posterior.report.stopped == "the time budget is spent"
    assert len(posterior.theta) == 10 * 20  # 200 simulations of a round by 20 particles
    assert not any("several modes" in text for text in posterior.report.warnings)
    with pytest.raises(
        nw.errors.InvalidInputError, match="max_minutes must be a finite number > 0, got -1"
    ):
        rate_fit.posterior(KEY, [0.5], max_minutes=-1)


def test_a_maximum_at_the_edge_of_what_was_simulated_is_told(rate_fit):
    assert 0.6 < rate_fit.maximum_likelihood([1.2])[0] < 1.8
    with pytest.warns(UserWarning, match="edge of the simulated parameters"):
        best = rate_fit.maximum_likelihood([60.0])
    np.testing.assert_allclose(best, np.exp(rate_fit.bounds[1]), rtol=1e-4)


def test_a_fit_is_no_posterior_and_says_what_to_write(rate_fit):
    with pytest.raises(
        errors.InvalidInputError,
        match=r"for k, row in zip\(jax\.random\.split\(key, len\(observed\)\), observed\)",
    ):
        rate_fit.posterior(KEY, np.ones((3, 1)))
    with pytest.raises(
        errors.InvalidTypeError,
        match=r"certify\(key, fit\.posterior\(key, observed\), model, observed\)",
    ):
        nw.diagnostics.certify(KEY, rate_fit, rate_fit.model, [1.2])


# The whole method ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_shifted_proposal_still_gives_the_closed_form_posterior():
    """Appendix A: simulations from a law one posterior sd away; means within .05 sd, sds within 5%,
    and the maximum in closed form.

    Chains of an effective size of 20,000 add errors of .007 and .5%. The planted bug, the proposal
    in the prior's place, misses by far.
    """
    model, matrix, variance = linear_gaussian()
    precision = np.eye(2) + matrix.T @ matrix / variance
    covariance = np.linalg.inv(precision)
    mean, sd = covariance @ matrix.T @ OBSERVED / variance, np.sqrt(np.diag(covariance))
    proposal = shifted_proposal(mean, covariance)
    method = PrivateLikelihoodEstimation(
        num_rounds=1, num_simulations=10_000, proposal=proposal, target_ess=20_000
    )
    posterior = method.infer(KEY, model, OBSERVED, progress=False)
    table = posterior.summary()
    assert np.all(abs(table["mean"] - mean) < 0.05 * sd)
    assert np.all(abs(table["sd"] / sd - 1.0) < 0.05)
    assert posterior.report.diagnostics["R-hat"] < 1.02
    biased = multivariate_normal(mean + sd, covariance).logpdf(posterior.theta) - norm.logpdf(
        posterior.theta
    ).sum(1)
    biased = np.exp(biased - biased.max())
    assert np.all(abs(biased @ posterior.theta / biased.sum() - mean) > 0.2 * sd)
    best = np.linalg.lstsq(matrix, OBSERVED, rcond=None)[0]
    best_sd = np.sqrt(np.diag(np.linalg.inv(matrix.T @ matrix / variance)))
    assert np.all(abs(posterior.maximum_likelihood() - best) < 0.15 * best_sd)


@pytest.mark.slow
def test_the_maximum_of_a_known_likelihood():
    """Without training the density is the fitted quadratic Gaussian; for a linear Gaussian model
    that is the truth up to sampling error.

    20,000 draws of s_dp fix the coefficients to .5%, hence the maximum, A^+ s_dp, to about .01.
    """
    model, matrix, variance = linear_gaussian()
    method = PLE(num_simulations=5000, training=Training(max_epochs=1, learning_rate=1e-9))
    likelihood = method.fit(KEY, model, progress=False)
    best = np.linalg.lstsq(matrix, OBSERVED, rcond=None)[0]
    np.testing.assert_allclose(likelihood.maximum_likelihood(OBSERVED), best, atol=0.04)
    theta = np.array([[0.1, 0.2], [-1.0, 0.5]])
    exact = norm.logpdf(OBSERVED, theta @ matrix.T, np.sqrt(variance)).sum(axis=1)
    np.testing.assert_allclose(likelihood.log_prob(OBSERVED, theta), exact, atol=0.2)
    draws = likelihood.sample(KEY, np.repeat(theta[:1], 4000, axis=0))
    np.testing.assert_allclose(
        draws.mean(axis=0), matrix @ theta[0], atol=4 * np.sqrt(variance / 4000) + 0.02
    )
    posterior = likelihood.posterior(KEY, OBSERVED)
    precision = np.eye(2) + matrix.T @ matrix / variance
    mean = np.linalg.solve(precision, matrix.T @ OBSERVED / variance)
    assert np.all(
        abs(posterior.theta.mean(axis=0) - mean) < 0.25 * np.sqrt(np.diag(np.linalg.inv(precision)))
    )
    assert posterior.report.num_simulations == 0


def betabinomial_model(trials=6, padding=1.0, population=40):
    """I ~ Binomial(40, Beta(a, b)) has a beta-binomial law; s_dp resamples 6 of them, padded."""
    simulate = lambda rng, theta: rng.binomial(population, rng.beta(np.exp(theta[0]), 2.0))
    return nw.PrivateModel(
        prior=nw.Prior({"log_a": dist.Normal(0.5, 0.7)}),
        simulator=nw.simulators.PythonSimulator(simulate),
        query=lambda x: np.array([x], dtype=float),
        mechanism=nw.mechanisms.PaddedBinomial(
            trials=trials, padding=padding, population=population, num_times=1
        ),
    )


@pytest.mark.slow
def test_a_lattice_is_learnt_as_probabilities():
    """Total variation of the learnt law of a count 0..6 from the exact one below .03 at five
    thetas; its probabilities sum to 1.

    The planted bug, the density in the middle of each cell without its weight, sums to something
    else.
    """
    model = betabinomial_model()
    method = PrivateLikelihoodEstimation(
        num_rounds=1,
        num_simulations=8000,
        estimator=functools.partial(neural_spline_flow, num_layers=4, num_units=32),
    )
    likelihood = method.fit(KEY, model, progress=False)
    counts, infected = np.arange(7.0), np.arange(41.0)
    eta = np.exp(model.mechanism.log_prob(counts[:, None, None], infected[None, :, None]))
    with jax.enable_x64(True):
        middles = np.asarray(
            likelihood.space(jnp.asarray(counts[:, None]), jnp.full((7, 1), 0.5))[0]
        )
    for log_a in (-0.5, 0.0, 0.5, 1.0, 1.5):
        exact = eta @ betabinom.pmf(infected, 40, np.exp(log_a), 2.0)
        learnt = np.exp(likelihood.log_prob(counts[:, None], [log_a]))
        assert abs(learnt.sum() - 1.0) < 0.03
        assert 0.5 * np.abs(learnt - exact).sum() < 0.03
        unweighted = np.exp(likelihood.density.log_prob(middles, [log_a]))
        assert abs(unweighted.sum() - 1.0) > 0.3
    assert likelihood.log_prob([2.5], [0.0]) == -np.inf
    draws = likelihood.sample(KEY, np.full((2000, 1), 0.5))
    assert set(np.unique(draws)) <= set(counts)


def test_particles_that_only_proposed_are_not_the_last(monkeypatch):
    """Simulations end in the second of three rounds: the particles of the first, which had 3 moves
    to settle, are replaced by ones with all that the settings ask for.
    """
    asked, start = [], Populations.start

    def noted(self, key, run, *, num_warmup=None, finds_shares=True):
        asked.append((num_warmup, finds_shares))
        start(self, key, run, num_warmup=num_warmup, finds_shares=finds_shares)

    monkeypatch.setattr(Populations, "start", noted)
    problem = nw.problems.gaussian_mean(1.0)
    PLE(num_rounds=3, max_simulations=400).infer(
        KEY, problem.model, problem.observed, progress=False
    )
    assert asked == [(3, False), (None, True)]


@pytest.mark.slow
def test_rounds_reuse_all_simulations_and_the_report_tells():
    problem = nw.problems.gaussian_mean(1.0)
    method = PLE(num_rounds=2)
    first, last = method.rounds(KEY, problem.model, problem.observed, progress=False)
    assert (first.report.num_simulations, last.report.num_simulations) == (400, 800)
    assert [record["round"] for record in last.report.rounds] == [1, 2]
    assert {"effective size", "R-hat"} <= set(last.report.diagnostics)
    assert not last.report.exact
    assert isinstance(last.likelihood, LearnedLikelihood)
    assert last.maximum_likelihood().shape == (1,)
    likelihood = last.likelihood
    values = likelihood.log_prob(problem.observed, [[0.0], [0.7]])
    assert values.shape == (2,)
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            values[1], likelihood.at(problem.observed)(jnp.asarray([0.7])), rtol=1e-5
        )
    assert likelihood.sample(KEY, np.zeros((5, 1))).shape == (5, 1)
    assert likelihood.posterior(KEY, problem.observed).report.num_simulations == 0
    with pytest.raises(errors.InvalidInputError, match="theta"):
        likelihood.log_prob(problem.observed, np.zeros((2, 3)))


@pytest.mark.slow
def test_a_statistic_that_never_varies_is_left_out_and_failures_are_told():
    problem = nw.problems.gaussian_mean(1.0)
    simulate = lambda key, theta: jnp.where(
        jax.random.uniform(key) < 0.1, jnp.nan, jnp.append(theta, 3.0)
    )
    model = nw.PrivateModel(
        prior=problem.model.prior,
        simulator=nw.simulators.JaxSimulator(simulate),
        query=lambda x: x,
        mechanism=nw.mechanisms.Laplace(scale=0.5),
    )
    posterior = PLE().infer(KEY, model, [0.8, 3.1], progress=False)
    assert any(
        "Left out, as they are the same in all simulations: s[1]" in text
        for text in posterior.report.warnings
    )
    assert posterior.likelihood.space.kept == (0,)
    assert posterior.likelihood.sample(KEY, [[0.0]]).shape == (1, 2)
    assert 15 < posterior.report.num_failed < 120
    assert any("failed" in text for text in posterior.report.warnings)


@pytest.mark.slow
def test_noise_that_can_only_be_drawn():
    """Without a transport map and without a density: theta ~ N(0, 2^2), s_dp - theta ~ Laplace(1),
    whose posterior is known by quadrature.

    800 simulations leave some .1 sd of error in a mean; an estimate that ignored the observation
    would be off by 1.
    """
    model = nw.PrivateModel(
        prior=nw.problems.gaussian_mean(1.0).model.prior,
        simulator=nw.simulators.JaxSimulator(lambda key, theta: theta, deterministic=True),
        query=lambda x: x,
        mechanism=nw.mechanisms.SampledMechanism(
            lambda key, s: s + jax.random.laplace(key, s.shape)
        ),
    )
    posterior = PrivateLikelihoodEstimation(num_rounds=2, num_simulations=400).infer(
        KEY, model, [2.5], progress=False
    )
    grid = np.linspace(-10, 10, 4001)
    weights = np.exp(-0.5 * (grid / 2) ** 2 - np.abs(2.5 - grid))
    mean = weights @ grid / weights.sum()
    sd = np.sqrt(weights @ (grid - mean) ** 2 / weights.sum())
    assert abs(posterior.theta.mean() - mean) < 0.3 * sd
    assert abs(np.log(posterior.theta.std() / sd)) < 0.25


def constant_model():
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(lambda key, theta: 0.0 * theta, deterministic=True),
        query=lambda x: x,
        mechanism=nw.mechanisms.Laplace(scale=1.0),
    )


def failing_model():
    model = constant_model()
    simulator = nw.simulators.JaxSimulator(lambda key, theta: theta * jnp.nan, deterministic=True)
    return dataclasses.replace(model, simulator=simulator)


def density_only(model):
    return model.with_mechanism(
        nw.mechanisms.DensityMechanism(lambda s_dp, s: -jnp.abs(s_dp - s).sum())
    )


def other_width(key, target_dim, condition_dim):
    return SMALL(key, target_dim + 1, condition_dim)


GAUSSIAN = functools.partial(nw.problems.gaussian_mean, 1.0)
BAD = [
    (
        lambda: PLE().infer(KEY, constant_model(), [0.0], progress=False),
        errors.InvalidInputError,
        "varies",
    ),
    (
        lambda: PLE().infer(KEY, failing_model(), [0.0], progress=False),
        errors.SimulationError,
        "failed",
    ),
    (
        lambda: PLE(num_simulations=1).infer(KEY, GAUSSIAN().model, [0.0], progress=False),
        errors.SimulationError,
        "at least 20",
    ),
    (
        lambda: PLE(estimator=other_width).infer(KEY, GAUSSIAN().model, [0.0], progress=False),
        errors.InvalidInputError,
        "estimator",
    ),
    (
        lambda: PLE().infer(KEY, density_only(GAUSSIAN().model), [0.0], progress=False),
        errors.MissingCapabilityError,
        "ImportanceSampling",
    ),
    (
        lambda: PLE(num_noise=3).infer(KEY, GAUSSIAN().model, [0.0], progress=False),
        errors.InvalidInputError,
        "multiple of num_noise",
    ),
    (lambda: PLE(num_rounds=0), errors.InvalidInputError, "num_rounds"),
    (lambda: PLE(validation_share=1.0), errors.InvalidInputError, "validation_share"),
    (lambda: PLE(estimator="flow"), errors.InvalidTypeError, "estimator"),
    (lambda: PLE(points=32), errors.InvalidTypeError, "points"),
    (lambda: PLE(proposal=[1.0]), errors.InvalidTypeError, "proposal"),
    (lambda: PLE().fit(KEY, [0.0]), errors.InvalidTypeError, "PrivateModel"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input(number):
    call, kind, message = BAD[number]
    with pytest.raises(kind, match=message):
        call()


def test_a_proposal_of_other_parameters_is_refused():
    proposal = shifted_proposal(np.zeros(2), np.eye(2))
    problem = nw.problems.gaussian_mean(1.0)
    with pytest.raises(errors.InvalidInputError, match="proposal must be a posterior of mean"):
        PLE(proposal=proposal).infer(KEY, problem.model, problem.observed, progress=False)
