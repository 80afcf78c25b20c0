"""Certificates: corrected draws are exact, verdicts blame whom they should, and nothing unusable
goes uncounted.
"""

import dataclasses
import functools
import importlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import noisewise as nw
from noisewise import errors
from noisewise.assessment.judging import CERTIFYING_SIZE
from noisewise.diagnostics import certify
from noisewise.diagnostics.certificates import defensive
from noisewise.posteriors import Draws, Report
from tests.diagnostics.planted import Planted, normal, normal_fit, normal_mixture

KEY = jax.random.key(11)
certifying = importlib.import_module("noisewise.diagnostics.certificates.certify")
NUM = 20_000


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEWISE_CACHE_DIR", str(tmp_path))


@pytest.fixture
def problem():
    return nw.problems.gaussian_mean(1.0)


@functools.cache
def exact_draws(epsilon):
    return nw.problems.gaussian_mean(epsilon).reference(jax.random.key(5), 20_000)


def around(problem, epsilon=1.0, **wrong):
    return normal_fit(problem.model.names, exact_draws(epsilon), **wrong)


def run(problem, posterior, num=NUM, key=KEY, **more):
    return certify(key, posterior, problem.model, problem.observed, num, **more)


# The corrected draws ------------------------------------------------------------------------------


def test_a_fair_posterior_is_certified_and_corrected_to_the_exact_one(problem):
    """Off by half an sd and 1.5 times too wide; mean and sd within 4 standard errors of the
    effective size.
    """
    certificate = run(problem, around(problem, shift=0.5, stretch=1.5))
    exact = exact_draws(1.0)
    table, size = certificate.corrected.summary(), certificate.effective_size
    assert certificate.certified
    assert size > 2000
    assert abs(table.loc["mean", "mean"] - exact.mean()) < 4 * exact.std() * np.sqrt(
        1 / size + 1 / 20_000
    )
    assert abs(np.log(table.loc["mean", "sd"] / exact.std())) < 4 * np.sqrt(1 / size)
    shift, ratio = certificate.comparison["mean"]
    assert shift == pytest.approx(0.5, abs=0.1)
    assert ratio == pytest.approx(1.5, abs=0.15)
    assert certificate.corrected.report.exact
    assert certificate.corrected.report.warnings == ()
    assert certificate.corrected.report.num_simulations <= NUM
    assert f"worth {certificate.effective_size:,.0f} exact ones" in certificate.sentence


def test_the_correction_is_needed(problem):
    """q's own draws miss the exact mean by more than 10 of those standard errors."""
    posterior = around(problem, shift=0.5, stretch=1.5)
    exact = exact_draws(1.0)
    assert abs(posterior.theta.mean() - exact.mean()) > 10 * exact.std() / np.sqrt(
        run(problem, posterior).effective_size
    )


def test_effective_size_divides_into_what_q_and_the_simulator_answer_for():
    """Normal s (sd .1) and Gaussian noise: posterior, efficiency and 1 + rv have closed forms.

    The first two hold within 10% (their Monte Carlo errors are 3%), the posterior average over 12
    places within 40%.
    """
    problem = nw.problems.gaussian_mean(5.0, bounds=None, noise="gaussian")
    noise = problem.model.mechanism.scale
    spread = 0.1**2 + noise**2
    variance = 1 / (1 / 4 + 1 / spread)
    mean, sd = variance * problem.observed[0] / spread, np.sqrt(variance)
    certificate = run(problem, normal(problem.model.names, [mean + 0.5 * sd], [[(1.5 * sd) ** 2]]))
    theta = mean + sd * np.random.default_rng(0).normal(size=200_000)
    q = stats.norm(mean + 0.5 * sd, 1.5 * sd).pdf(theta)
    ratio = stats.norm(mean, sd).pdf(theta) / (0.9 * q + 0.1 * stats.norm(0, 2).pdf(theta))
    assert certificate.efficiency == pytest.approx(1 / ratio.mean(), rel=0.1)
    far = problem.observed[0] - theta
    second = np.exp(-(far**2) / (noise**2 + 0.02)) / (2 * np.pi * noise * np.sqrt(noise**2 + 0.02))
    relative = second / stats.norm(0, np.sqrt(spread)).pdf(far) ** 2
    assert certificate.relative_variance == pytest.approx(
        np.mean(ratio * relative) / ratio.mean(), rel=0.1
    )
    assert certificate.repeated_relative_variance == pytest.approx(relative.mean(), rel=0.4)
    assert certificate.effective_size == pytest.approx(
        certificate.num_draws / np.mean(ratio * relative), rel=0.1
    )


def evidence_of(problem):
    return stats.norm(0, np.sqrt(4 + 0.01 + problem.model.mechanism.scale**2)).logpdf(
        problem.observed[0]
    )


@pytest.mark.slow
def test_evidence_is_unbiased_and_its_error_is_known():
    """The mean of 20 evidences within 4 standard errors of the closed form, and their spread as
    each certificate says, to 60%.
    """
    problem = nw.problems.gaussian_mean(5.0, bounds=None, noise="gaussian")
    posterior = around(problem, shift=0.5, stretch=1.5)
    found = [run(problem, posterior, 2000, jax.random.key(k)) for k in range(20)]
    ratios = np.exp(np.array([each.log_evidence for each in found]) - evidence_of(problem))
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(20)
    assert ratios.std() < 0.1
    assert np.mean([each.log_evidence_se for each in found]) == pytest.approx(ratios.std(), rel=0.6)


# Coordinates --------------------------------------------------------------------------------------


def quadrature(density, observed, high):
    """Integral and mean of density(x) Laplace(x; observed, .2) on (0, high)."""
    x = np.linspace(1e-6, high, 200_001)
    values = density(x) * stats.laplace(observed, 0.2).pdf(x)
    total = np.trapezoid(values, x)
    return total, np.trapezoid(x * values, x) / total


SHARES = {
    "interval": (dist.Uniform(0.0, 1.0), ("p",), lambda x: 1.0 + 0.0 * x, stats.beta(3.0, 4.0)),
    "simplex": (
        dist.Dirichlet(np.ones(3)),
        ("p[0]", "p[1]", "p[2]"),
        stats.beta(1, 2).pdf,
        stats.dirichlet([3.0, 2.0, 2.0]),
    ),
}


@pytest.fixture(
    scope="module", params=["interval", pytest.param("simplex", marks=pytest.mark.slow)]
)
def constrained(request):
    """s = (rate, first share) without randomness, so that the likelihood is eta itself: evidence
    and means by quadrature.
    """
    law, names, density, q_share = SHARES[request.param]
    model = nw.PrivateModel(
        prior=nw.Prior({"rate": dist.LogNormal(0.0, 1.0), "p": law}),
        simulator=nw.simulators.JaxSimulator(lambda key, theta: theta[:2], deterministic=True),
        query=nw.queries.FunctionQuery(lambda x: x, names=("rate", "share")),
        mechanism=nw.mechanisms.Laplace(scale=0.2),
        derived={"log_rate": lambda theta: np.log(theta[..., 0])},
    )
    q_rate = stats.lognorm(0.5, scale=0.6)

    def draw(rng, num):
        return np.column_stack([q_rate.rvs(num, rng), q_share.rvs(num, rng)])

    def log_density(theta):
        share = theta[:, 1:].T
        return q_rate.logpdf(theta[:, 0]) + q_share.logpdf(
            share / share.sum(axis=0) if len(share) > 1 else share[0]
        )

    observed = np.array([0.6, 0.5])
    exact = [quadrature(stats.lognorm(1.0).pdf, 0.6, 20.0), quadrature(density, 0.5, 1.0)]
    return Planted(("rate", *names), draw, log_density), model, observed, exact


def errors_in_se(posterior, model, observed, exact):
    certificate = certify(KEY, posterior, model, observed, NUM)
    assert "log_rate" in certificate.corrected.derived
    assert model.prior.support_contains(certificate.corrected.theta).all()
    table = certificate.corrected.summary()
    se = table["sd"].to_numpy()[:2] / np.sqrt(certificate.effective_size)
    found = (table["mean"].to_numpy()[:2] - [mean for _, mean in exact]) / se
    log_evidence = sum(np.log(total) for total, _ in exact)
    return np.abs(
        [*found, (certificate.log_evidence - log_evidence) / certificate.log_evidence_se]
    ).max()


def test_densities_are_carried_to_unconstrained_coordinates(constrained):
    """Means and log evidence within 4 standard errors of quadrature, on positive numbers with an
    interval or a simplex.
    """
    assert errors_in_se(*constrained) < 4


def test_a_forgotten_jacobian_is_caught(constrained, monkeypatch):
    right = defensive.proposal_from

    def wrong(posterior, prior, share):
        proposal = right(posterior, prior, share)
        return dataclasses.replace(
            proposal, log_density=lambda z: posterior.log_prob(prior.constrain(z))
        )

    monkeypatch.setattr(
        certifying,
        "proposal_from",
        wrong,
    )
    assert errors_in_se(*constrained) > 10


# Verdicts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [{"shift": 5.0}, {"shift": -3.0}, {"stretch": 0.3}, {"shift": 2.5, "stretch": 0.5}],
    ids=["5 sd off", "3 sd off", "sd x .3", "off and narrow"],
)
@pytest.mark.parametrize("epsilon", [1.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_a_bad_q_is_poor(epsilon, wrong):
    problem = nw.problems.gaussian_mean(epsilon)
    certificate = run(problem, around(problem, epsilon, **wrong))
    assert certificate.verdict == "the approximation is poor"
    assert certificate.perfect_size > 3 * CERTIFYING_SIZE
    assert "Train further" in certificate.sentence
    assert certificate.finding in certificate.corrected.report.warnings


@pytest.fixture
def two_modes():
    """theta enters as |theta|: modes near -1 and 1, of equal mass."""
    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 2.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: jnp.abs(theta) + 0.1 * jax.random.normal(key, (1,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Laplace(scale=0.05),
    )
    return model, np.array([1.0])


def test_a_missing_mode_is_found(two_modes):
    certificate = certify(KEY, normal(("a",), [1.0], [[0.15**2]]), *two_modes, NUM)
    assert certificate.verdict == "the approximation is poor"
    assert certificate.missed_share == pytest.approx(0.5, abs=0.15)
    assert abs(certificate.corrected.summary().loc["a", "mean"]) < 0.3


def test_both_modes_are_certified(two_modes):
    posterior = normal_mixture(("a",), [([1.0], [[0.15**2]]), ([-1.0], [[0.15**2]])])
    certificate = certify(KEY, posterior, *two_modes, NUM)
    assert certificate.certified
    assert certificate.missed_share < 0.02
    assert certificate.unseen_share < 0.1


def test_a_noisy_likelihood_is_not_blamed_on_q():
    """A perfect q for a model whose eta is lognormal at every theta: 1 + rv = exp(16)."""
    model = nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: 4.0 * jax.random.normal(key, (1,)) + 0.0 * theta
        ),
        query=nw.queries.FunctionQuery(lambda x: x, names=("s",)),
        mechanism=nw.mechanisms.DensityMechanism(lambda s_dp, s: jnp.sum(s, axis=-1)),
    )
    certificate = certify(KEY, normal(("mean",), [0.0], [[1.0]]), model, [0.0], NUM)
    assert certificate.verdict == "not certifiable by simulation"
    assert certificate.saturated
    assert "DataAugmentationMCMC" in certificate.sentence


def test_a_small_budget_is_told_what_would_do(problem):
    """A perfect q at 1 + rv of about 3 makes 1600 draws worth some 500; ten times as many are
    enough.
    """
    certificate = run(problem, around(problem), 2000)
    assert certificate.verdict == "not certifiable by simulation"
    assert not certificate.saturated
    assert 2000 < int(certificate.sentence.split("num_simulations=")[1].split()[0]) <= 20_000
    assert run(problem, around(problem)).certified


def test_a_fair_approximation_is_weighed_longer_before_it_is_trained_further(problem):
    certificate = dataclasses.replace(
        run(problem, around(problem), 4000),
        verdict="the approximation is poor",
        effective_size=600.0,
        efficiency=0.8,
    )
    assert certificate.advice[-1] == ("more", 6400)  # 1.2 * 800 / 600 of 4000
    assert dataclasses.replace(certificate, efficiency=0.3).advice[-1] == ("refine", None)


# Draws without a density, what is counted, what is refused ----------------------------------------


def test_draws_serve_through_a_fit(problem):
    draws = Draws(exact_draws(1.0)[:2000], problem.model.names, Report("exact"))
    certificate = run(problem, draws)
    assert certificate.certified
    assert certificate.proposal == defensive.FITTED
    assert certificate.efficiency > 0.7


def test_the_same_key_gives_the_same_certificate(problem):
    first, second = (run(problem, around(problem), 2000) for _ in range(2))
    assert first.to_spec() == second.to_spec()
    np.testing.assert_array_equal(first.corrected.log_weights, second.corrected.log_weights)
    assert first.to_spec() != run(problem, around(problem), 2000, jax.random.key(1)).to_spec()


def test_it_prints_and_goes_into_reports(problem):
    certificate = run(problem, around(problem, shift=5.0), 2000)
    assert json.loads(json.dumps(certificate.to_spec()))["verdict"] == certificate.verdict
    text = str(certificate)
    assert all(
        word in text
        for word in (
            certificate.verdict,
            certificate.sentence,
            "Pareto k",
            "1 + rv",
            "log evidence",
        )
    )
    assert "would have been seen" in str(run(problem, around(problem)))


def test_draws_off_the_support_and_contradictions_are_counted(monkeypatch):
    """A normal q of a positive rate: 2.3% of its draws are negative. The evidence is right all the
    same. NaN of q is counted.
    """
    model = nw.PrivateModel(
        prior=nw.Prior({"rate": dist.LogNormal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(lambda key, theta: theta, deterministic=True),
        query=nw.queries.FunctionQuery(lambda x: x, names=("rate",)),
        mechanism=nw.mechanisms.Laplace(scale=0.2),
    )
    law = stats.norm(0.6, 0.3)

    def draw(rng, num):
        return law.rvs((num, 1), rng)

    def log_density(theta):
        return law.logpdf(theta[:, 0])

    monkeypatch.setattr(certifying, "_SHARES_OF_LAW", (0.5,))
    certificate = certify(KEY, Planted(("rate",), draw, log_density), model, [0.6], NUM)
    # of the draws a tenth is from p, and the others by half; three fifths of them are reported
    own = 0.9 * (0.1 + 0.9 / 2) / 0.6 * certificate.num_draws
    expected = own * law.cdf(0.0)
    assert abs(certificate.num_unusable - expected) < 4 * np.sqrt(expected)
    evidence, _ = quadrature(stats.lognorm(1.0).pdf, 0.6, 20.0)
    assert abs(certificate.log_evidence - np.log(evidence)) < 4 * certificate.log_evidence_se
    assert np.isfinite(certificate.corrected.theta).all()

    silent = Planted(
        ("rate",), draw, lambda theta: np.where(theta[:, 0] > 0.9, np.nan, log_density(theta))
    )
    found = certify(KEY, silent, model, [0.6], NUM)
    assert found.num_unusable == pytest.approx(own * (law.cdf(0.0) + law.sf(0.9)), rel=0.1)


def test_failed_simulations_are_counted(problem):
    failing = nw.simulators.JaxSimulator(
        lambda key, theta: jnp.where(theta > 0.7, jnp.nan, theta), deterministic=True
    )
    model = dataclasses.replace(problem.model, simulator=failing, query=lambda x: x)
    certificate = certify(KEY, around(problem), model, problem.observed, 2000)
    assert certificate.num_failed > 100
    assert certificate.corrected.theta[certificate.corrected.weights > 0].max() <= 0.7


def test_an_impossible_observation_is_said_to_be_one(problem):
    never = dataclasses.replace(
        problem.model,
        mechanism=nw.mechanisms.DensityMechanism(lambda s_dp, s: jnp.sum(s, axis=-1) - jnp.inf),
    )
    certificate = certify(KEY, around(problem), never, [0.0], 2000)
    assert certificate.verdict == "not certifiable by simulation"
    assert "can have led to this observation" in certificate.sentence
    assert not certificate.corrected.report.exact
    assert json.dumps(certificate.to_spec())


def test_bad_input_is_refused(problem):
    good = around(problem)
    with pytest.raises(errors.InvalidTypeError, match="PrivateModel"):
        certify(KEY, problem.model, good, problem.observed)
    with pytest.raises(errors.InvalidInputError, match="num_simulations"):
        run(problem, good, 999)
    with pytest.raises(errors.InvalidInputError, match="prior_share"):
        run(problem, good, prior_share=0.0)
    with pytest.raises(errors.InvalidInputError, match="must be of mean"):
        run(problem, normal(("b",), [0.0], [[1.0]]))
    with pytest.raises(errors.InvalidInputError, match="at least 10 draws"):
        run(problem, Draws(np.zeros((3, 1)), ("mean",), Report("few")))
    sampled = nw.mechanisms.SampledMechanism(lambda key, s: s)
    with pytest.raises(errors.MissingCapabilityError, match="calibrate"):
        certify(KEY, good, problem.model.with_mechanism(sampled), [0.0])


# Ready problems -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [10.0, 1.0, 0.1])
@pytest.mark.parametrize("name", ["linear_regression", "sir"])
def test_exact_draws_are_certified(name, epsilon):
    """With at least two of three keys: separate draws decide, and where eta is noisy in the tails
    chance makes some of them say no. SIR at .1 takes 100,000: with 50,000 one in three is certified,
    as two effective draws or fewer lie in its tails.
    """
    num = 100_000 if (name, epsilon) == ("sir", 0.1) else 50_000
    problem, found = getattr(nw.problems, name)(epsilon), []
    for key in jax.random.split(KEY, 3):
        draws = problem.reference(key, 2000)
        posterior = Draws(draws, problem.model.names, Report("exact"))
        found.append(run(problem, posterior, num, key))
    good = [certificate for certificate in found if certificate.certified]
    assert len(good) >= 2
    for certificate in good:
        error = np.sqrt(1 / certificate.effective_size + 1 / 2000)
        assert max(abs(shift) for shift, _ in certificate.comparison.values()) < 4 * error
    bad = normal_fit(problem.model.names, draws, stretch=0.3)
    assert not run(problem, bad, 50_000).comparison[problem.model.names[0]][1] > 0.5


@pytest.mark.slow
def test_log_linear_cannot_be_certified_however_good_q_is():
    problem = nw.problems.log_linear(10.0)
    certificate = run(
        problem, Draws(problem.reference(KEY, 2000), problem.model.names, Report("exact")), 50_000
    )
    assert certificate.verdict == "not certifiable by simulation"
    assert certificate.saturated
    assert not certificate.corrected.report.exact
