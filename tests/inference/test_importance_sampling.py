"""Importance sampling: exact on known answers, honest about its weights and budgets."""

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.inference import ImportanceSampling
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.importance_sampling import relative_variance_at
from noisewise.metrics import kolmogorov_smirnov

pytestmark = pytest.mark.usefixtures("own_cache")

KEY = jax.random.key(2)


def infer(method, problem, observed=None):
    return method.infer(
        KEY, problem.model, problem.observed if observed is None else observed, progress=False
    )


@pytest.mark.parametrize(
    "epsilon", [*(pytest.param(e, marks=pytest.mark.slow) for e in (10.0, 0.1)), 1.0]
)
def test_agrees_with_the_exact_posterior(epsilon):
    """Means within 4 standard errors of the effective size, sds within 4 of theirs; KS of 2000
    draws below 4 times its scale.
    """
    problem = nw.problems.gaussian_mean(epsilon)
    posterior = infer(ImportanceSampling(), problem)
    exact = problem.reference(KEY, 20_000)
    table = posterior.summary()
    size = posterior.effective_size
    assert size > 80
    assert abs(table.loc["mean", "mean"] - exact.mean()) < 4 * exact.std() * np.sqrt(
        1 / size + 1 / 20_000
    )
    assert abs(np.log(table.loc["mean", "sd"] / exact.std())) < 4 * np.sqrt(
        0.5 / size + 0.5 / 20_000
    )
    assert kolmogorov_smirnov(exact[:2000], posterior.sample(KEY, 2000))[0] < 2.0 * np.sqrt(
        1 / 2000 + 1 / min(size, 2000)
    )
    assert posterior.report.exact


def test_statistics_follow_their_own_posterior():
    """Draws of s given s_dp lie nearer the observation than draws of s under the prior, and share
    the weights.
    """
    problem = nw.problems.gaussian_mean(10.0)
    posterior = infer(ImportanceSampling(), problem)
    mean = posterior.weights @ posterior.statistics[:, 0]
    assert abs(mean - problem.observed[0]) < 5 * problem.model.mechanism.scale


@pytest.mark.slow
def test_relative_variance_of_a_known_case():
    """Normal s with sd tau and Gaussian noise with sd sigma: 1 + rv has a closed form at every
    theta.
    """
    problem = nw.problems.gaussian_mean(10.0, bounds=None, noise="gaussian")
    tau, sigma = 0.1, problem.model.mechanism.scale
    z = 0.1 * (np.arange(16) % 4)
    theta = (problem.observed[0] - z)[:, None]
    places = nw.posteriors.Draws(theta, problem.model.names, nw.posteriors.Report("given"))
    run = InferenceRun("given", {}, problem.model, problem.observed)
    total = tau**2 + sigma**2
    second = np.exp(-(z**2) / (sigma**2 + 2 * tau**2)) / (
        2 * np.pi * sigma * np.sqrt(sigma**2 + 2 * tau**2)
    )
    first = np.exp(-(z**2) / (2 * total)) / np.sqrt(2 * np.pi * total)
    found = [relative_variance_at(jax.random.key(i), run, places, 160) for i in range(4)]
    assert np.mean(found) == pytest.approx(np.mean(second / first**2), rel=0.15)


class Lognormal:
    """Work whose log eta is normal with variance v at every theta, so that 1 + rv = exp(v)."""

    def __init__(self, variance):
        self.sd, self.rng = np.sqrt(variance), np.random.default_rng(0)

    def statistics(self, key, theta):
        return self.sd * self.rng.normal(size=(len(theta), 1))

    def log_eta(self, s):
        return s[:, 0] - 1000.0


@pytest.mark.parametrize(("truth", "relative"), [(2.0, 0.2), (13.0, 0.6)])
def test_relative_variance_of_lognormal_densities(truth, relative):
    """256 draws at 16 places, 40 times over: within 20% of 2, and of the right size at 13, where
    single draws rule the sum.
    """
    posterior = infer(
        ImportanceSampling(num_stages=0, num_final=100), nw.problems.gaussian_mean(1.0)
    )
    found = [
        relative_variance_at(KEY, run, posterior)
        for run in [Lognormal(np.log(truth))]
        for _ in range(40)
    ]
    assert np.median(found) == pytest.approx(truth, rel=relative)


def test_a_posterior_serves_as_proposal():
    """Posterior draws serve at once: of 4000 some 140 are effective, as of the last stage of a full
    run (1 in 30 to 50).
    """
    problem = nw.problems.gaussian_mean(10.0)
    rough = infer(ImportanceSampling(), problem)
    posterior = infer(ImportanceSampling(num_stages=0, num_final=4000, proposal=rough), problem)
    exact = problem.reference(KEY, 20_000)
    size = posterior.effective_size
    assert size > 80
    assert abs(posterior.summary().iloc[0]["mean"] - exact.mean()) < 4 * exact.std() * np.sqrt(
        1 / size
    )
    assert "prior predictive p-value" in posterior.report.diagnostics
    assert "proposal" not in posterior.report.settings


def test_poor_weights_are_told_not_hidden():
    posterior = infer(
        ImportanceSampling(num_adapt=500, num_final=2000), nw.problems.log_linear(10.0)
    )
    assert posterior.effective_size < 100
    assert any("weights are poor" in text for text in posterior.report.warnings)


def test_budgets_end_the_work_with_what_there_is():
    problem = nw.problems.gaussian_mean(1.0)
    tiny = infer(ImportanceSampling(max_simulations=10), problem)
    assert tiny.report.num_simulations == 10
    assert "budget of 10 simulations" in tiny.report.stopped
    short = infer(ImportanceSampling(max_minutes=1e-3, num_final=10_000_000), problem)
    assert "time budget" in short.report.stopped
    assert short.report.seconds < 30


def test_a_surprising_observation_is_flagged_and_an_ordinary_one_is_not():
    problem = nw.problems.gaussian_mean(1.0)
    assert infer(ImportanceSampling(num_stages=0), problem).report.warnings == ()
    flagged = infer(ImportanceSampling(num_stages=0), problem, observed=[9.0])
    assert any("outside what the prior predicts" in text for text in flagged.report.warnings)


def test_the_same_key_gives_the_same_posterior_and_is_saved(tmp_path):
    problem = nw.problems.gaussian_mean(1.0)
    method = ImportanceSampling(num_stages=1, num_adapt=200, num_final=300)
    first = method.infer(
        KEY, problem.model, problem.observed, progress=False, run_dir=tmp_path / "run"
    )
    np.testing.assert_array_equal(first.theta, infer(method, problem).theta)
    np.testing.assert_array_equal(first.theta, nw.load_posterior(tmp_path / "run").theta)


BAD = [
    (lambda p: ImportanceSampling(num_final=0), errors.InvalidInputError, "num_final"),
    (lambda p: ImportanceSampling(prior_share=1.0), errors.InvalidInputError, "prior_share"),
    (lambda p: ImportanceSampling(max_minutes=-1), errors.InvalidInputError, "max_minutes"),
    (
        lambda p: ImportanceSampling().infer(True, p.model, p.observed),
        errors.InvalidTypeError,
        "PRNG key",
    ),
    (
        lambda p: ImportanceSampling().infer(KEY, p.observed, p.model),
        errors.InvalidTypeError,
        "PrivateModel second",
    ),
    (lambda p: ImportanceSampling().infer(KEY, p.model, [1.0, 2.0]), errors.InvalidInputError, ""),
    (lambda p: ImportanceSampling().infer(KEY, p.model, [np.nan]), errors.InvalidInputError, ""),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input(number):
    call, kind, message = BAD[number]
    with pytest.raises(kind) as caught:
        call(nw.problems.gaussian_mean(1.0))
    assert message in str(caught.value)


def test_a_mechanism_without_density_is_refused_with_what_would_work():
    problem = nw.problems.gaussian_mean(1.0)
    sampled = nw.mechanisms.SampledMechanism(lambda key, s: s + jax.random.laplace(key, s.shape))
    with pytest.raises(errors.MissingCapabilityError, match="Use SMCABC"):
        ImportanceSampling().infer(KEY, problem.model.with_mechanism(sampled), [0.1])
