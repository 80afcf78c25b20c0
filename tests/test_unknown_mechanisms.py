"""Mechanisms that depend on parameters of the model: normal numbers and Gaussian noise whose scale
is not known, of which the posterior is a double integral.

    mu ~ N(0, 9), log sigma ~ N(.5, .5^2), s_j ~ N(mu, 1), s_dp,j ~ N(s_j, sigma^2), j = 1..4
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import inference
from noisewise.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
    ResumeError,
)
from noisewise.inference import registry
from noisewise.mechanisms.unknown_parameters import UnknownParameters
from noisewise.reports.page import write_report

K = 4
OBSERVED = np.array([1.281, 0.705, 2.432, 1.235])
PRIOR = nw.Prior({"mu": dist.Normal(0, 3), "sigma": dist.LogNormal(0.5, 0.5)})
KEY = jax.random.key(3)


def gaussian(theta):
    return nw.mechanisms.Gaussian(scale=theta["sigma"])


def draw(key, theta):
    return theta[0] + jax.random.normal(key, (K,))


def black_box(mechanism=gaussian, prior=PRIOR):
    simulator = nw.simulators.JaxSimulator(draw)
    return nw.PrivateModel(prior=prior, simulator=simulator, query=lambda x: x, mechanism=mechanism)


def known_law(mechanism=gaussian):
    law = nw.simulators.StatisticLaw(lambda theta: dist.Normal(theta["mu"], 1.0).expand([K]))
    return nw.PrivateModel(prior=PRIOR, simulator=law, mechanism=mechanism)


def exact_moments():
    """Means and sds of mu and log sigma, by the trapezoidal rule on a grid."""
    mu, t = np.linspace(-12.0, 14.0, 1041)[:, None], np.linspace(-3.5, 4.5, 641)[None]
    variance = 1.0 + np.exp(2.0 * t)
    squares = ((OBSERVED[:, None, None] - mu) ** 2).sum(0)
    log_density = (
        -(mu**2) / 18 - 2.0 * (t - 0.5) ** 2 - K / 2 * np.log(variance) - squares / variance / 2
    )
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    means = np.array([(weights * mu).sum(), (weights * t).sum()])
    squares = np.array([(weights * mu**2).sum(), (weights * t**2).sum()])
    return means, np.sqrt(squares - means**2)


def errors_in_sds(posterior, num=20_000):
    """How far the means of mu and log sigma are from the exact ones, in sds."""
    theta = np.asarray(posterior.sample(KEY, num))
    means, sds = exact_moments()
    return np.abs([theta[:, 0].mean(), np.log(theta[:, 1]).mean()] - means) / sds


def allowed(posterior):
    """Three Monte Carlo errors, and .05 sd."""
    return 0.05 + 3.0 / np.sqrt(posterior.report.diagnostics["effective size"])


# The model ----------------------------------------------------------------------------------------


def test_statistics_carry_what_the_mechanism_reads():
    model = black_box()
    theta = np.array([[0.0, 2.0], [5.0, 0.1]])
    s = model.statistics(KEY, theta)
    assert (model.statistic_width, model.private_width) == (K + 1, K)
    assert model.statistic_names == ("s[0]", "s[1]", "s[2]", "s[3]", "sigma")
    assert model.private_names == model.statistic_names[:K]
    np.testing.assert_array_equal(s[:, -1], theta[:, 1])
    by_row = [
        nw.mechanisms.Gaussian(scale=sigma).log_prob(OBSERVED, row[:K])
        for row, (_, sigma) in zip(s, theta, strict=True)
    ]
    np.testing.assert_allclose(model.log_prob_observed(OBSERVED, s), by_row, rtol=1e-12)
    np.testing.assert_allclose(
        model.mechanism.log_prob_each(OBSERVED, s).sum(axis=1), by_row, rtol=1e-12
    )
    assert model.mechanism_at(theta[0]).scale == 2.0


def test_noise_is_drawn_at_each_rows_own_parameters():
    theta = np.repeat([[0.0, 0.01], [0.0, 10.0]], 2000, axis=0)
    model = black_box()
    s = model.statistics(KEY, theta)
    noise = model.mechanism.sample(KEY, s) - s[:, :K]
    sds = noise[:2000].std(), noise[2000:].std()
    np.testing.assert_allclose(sds, [0.01, 10.0], rtol=4 / np.sqrt(2 * 2000 * K))  # 4 errors


def test_likelihoods_of_known_laws_are_at_theta():
    theta = np.array([[0.3, 2.0], [1.0, 0.5]])
    found = known_law().log_likelihood(theta, OBSERVED)
    for row, (mu, sigma) in zip(found, theta, strict=True):
        law = dist.Normal(mu, np.sqrt(1.0 + sigma**2))
        np.testing.assert_allclose(row, law.log_prob(OBSERVED), rtol=1e-5)


def test_no_guarantee_is_derived_and_it_is_said():
    model = black_box()
    with pytest.raises(MissingCapabilityError, match=r"not known \(sigma\).*no guarantee"):
        assert model.mechanism.guarantee
    assert "no guarantee can be derived" in model.mechanism.describe()
    for ask in (lambda: model.mechanism.adjacent_pairs(K), model.mechanism.to_spec):
        with pytest.raises(MissingCapabilityError, match="sigma"):
            ask()
    with pytest.raises(MissingCapabilityError, match="noise that is known"):
        nw.plan(KEY, model, mechanisms={"quiet": nw.mechanisms.Gaussian(scale=0.1)})


def test_a_part_of_the_parameters():
    assert black_box().focus("sigma").statistics(KEY, np.ones((3, 1))).shape == (3, K + 1)
    with pytest.raises(InvalidInputError, match="'sigma', which the prior of this model lacks"):
        black_box().focus("mu")


@pytest.mark.parametrize(
    ("mechanism", "error", "problem"),
    [
        (lambda theta: nw.mechanisms.Gaussian(scale=theta["sgima"]), InvalidInputError, "sigma"),
        (lambda theta: nw.mechanisms.Gaussian(scale=1.0), InvalidInputError, "reads no parameter"),
        (lambda theta: theta["sigma"], InvalidTypeError, "must be a mechanism, or a function"),
        (
            lambda theta: nw.mechanisms.Gaussian(scale=theta["mu"]),
            InvalidInputError,
            "prior's support",
        ),
        (
            lambda theta: nw.mechanisms.Thresholded(gaussian(theta), above=theta["mu"]),
            InvalidInputError,
            "must not depend on unknown",
        ),
        (
            lambda theta: nw.mechanisms.Gaussian(scale=max(theta["sigma"], 0.1)),
            InvalidInputError,
            "cannot be traced",
        ),
    ],
)
def test_functions_that_are_no_mechanism_are_refused(mechanism, error, problem):
    with pytest.raises(error, match=problem):
        black_box(mechanism)


def test_a_release_of_known_noise_is_another_model():
    release = nw.Release(OBSERVED, nw.mechanisms.Gaussian(scale=1.0))
    with pytest.raises(InvalidInputError, match=r"pass release\.observed"):
        black_box().observation(release)
    known = black_box().with_mechanism(release.mechanism)
    assert known.statistic_width == K
    assert known.observation(release).shape == (K,)


# Methods ------------------------------------------------------------------------------------------

SERVING = {
    "exact-smc", "importance", "nuts", "pseudo-marginal", "rejection-abc", "smc-abc", "sple", "sppe"
}  # fmt: skip


@pytest.mark.parametrize("row", registry.METHODS, ids=lambda row: row.slug)
def test_other_methods_say_what_would_serve(row):
    kind = getattr(inference, row.name)
    assert kind.serves_unknown_parameters == (row.slug in SERVING)
    if row.slug in SERVING:
        return
    settings = {"data": np.zeros(K)} if row.slug == "confidential" else {}
    with pytest.raises(MissingCapabilityError, match=r"depends on sigma\. Use MarginalNUTS"):
        kind(**settings).check(black_box())


class AtTheExample(UnknownParameters):
    """Planted: every row's noise is that of one value."""

    def _each(self, fn, out, y, s):
        make = lambda values: self.example
        return dataclasses.replace(UnknownParameters(*self._fields()), make=make)._each(
            fn, out, y, s
        )

    def _fields(self):
        return [getattr(self, field.name) for field in dataclasses.fields(self)]


def test_importance_sampling_weighs_at_each_theta():
    method = inference.ImportanceSampling(max_simulations=40_000)
    posterior = method.infer(KEY, black_box(), OBSERVED, progress=False)
    assert np.all(errors_in_sds(posterior) < allowed(posterior))
    noise = black_box().mechanism
    wrong = AtTheExample(noise.example, noise.make, noise.names, noise.num_values)
    posterior = method.infer(KEY, black_box(wrong), OBSERVED, progress=False)
    assert np.any(errors_in_sds(posterior) > allowed(posterior))


def test_exact_chains_and_infer_take_the_known_law(tmp_path):
    method = inference.MarginalNUTS(target_ess=400, max_draws=1000)
    posterior = method.infer(KEY, known_law(), OBSERVED, run_dir=tmp_path, progress=False)
    assert posterior.report.exact
    assert np.all(errors_in_sds(posterior) < allowed(posterior))
    assert posterior.confidential_statistics.shape[1] == K + 1
    page = tmp_path / "report.html"
    write_report(page, posterior, title="Unknown noise", model=known_law(), observed=OBSERVED)
    assert "sigma is not known but inferred; no guarantee can be derived" in page.read_text()
    edited = known_law(lambda theta: nw.mechanisms.Gaussian(scale=1.01 * theta["sigma"]))
    with pytest.raises(ResumeError):
        method.infer(KEY, edited, OBSERVED, run_dir=tmp_path, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        inference.ExactSMC(num_particles=2000, target_ess=2000),
        inference.PseudoMarginalMCMC(target_ess=1000),
    ],
    ids=lambda method: method.slug,
)
def test_exact_methods_of_black_boxes(method):
    posterior = method.infer(KEY, black_box(), OBSERVED, progress=False)
    assert np.all(errors_in_sds(posterior) < allowed(posterior))


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        inference.PrivatePosteriorEstimation(num_rounds=2, num_simulations=2000),
        inference.PrivateLikelihoodEstimation(num_rounds=2, num_simulations=2000),
    ],
    ids=lambda method: method.slug,
)
def test_learning_methods_of_black_boxes(method):
    """Learnt from 4,000 simulations: .2 sd, where noise of the example's scale is .5 sd off."""
    posterior = method.infer(KEY, black_box(), OBSERVED, progress=False)
    assert np.all(errors_in_sds(posterior) < 0.2)


# Surveys in which a share of answers is not honest ------------------------------------------------


def test_the_share_of_honest_carriers_is_a_parameter():
    """Two groups with different devices: the log likelihood at theta is that of c + d pi."""
    p, answers = np.array([1 / 6, 1 / 6, 5 / 6, 5 / 6]), np.array([1.0, 0.0, 1.0, 0.0])
    model = nw.PrivateModel(
        prior=nw.Prior({"b": dist.Normal(0, 2), "t": dist.Uniform(0, 1)}),
        simulator=nw.simulators.StatisticLaw(
            lambda theta: dist.Bernoulli(logits=jnp.full(4, theta["b"]))
        ),
        mechanism=lambda theta: nw.mechanisms.StochasticLieDetector(truth=theta["t"], p=p),
    )
    theta = np.array([[0.5, 0.7], [-1.0, 0.4]])
    share = 1.0 / (1.0 + np.exp(-theta[:, :1]))
    yes = share * theta[:, 1:] + (1.0 - share) * (1.0 - p)
    expected = np.log(np.where(answers == 1.0, yes, 1.0 - yes))
    np.testing.assert_allclose(model.log_likelihood(theta, answers), expected, rtol=1e-6)
    assert inference.MarginalNUTS().supports(model)
