"""Confidential likelihoods of statistics on a lattice: against exact sums, what is learnt and the
target of the chains alike.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp
from scipy.stats import beta, binom, norm

import noisewise as nw
from noisewise.estimators import (
    Affine,
    ConditionalDensity,
    Training,
    Whitening,
    ensemble,
    neural_spline_flow,
)
from noisewise.inference.learned.common.statistic_space import StatisticSpace
from noisewise.inference.learned.confidential.confidential_chains import JointTarget, noise_profile
from noisewise.samplers.densities import log_densities
from tests.inference.confidential import AFFINE, CLE, KEY

SPLINES = functools.partial(
    neural_spline_flow, num_layers=1, num_units=16, num_hidden=1, num_bins=6
)
TRIALS = 20


@pytest.fixture(scope="module")
def proportion():
    """k ~ Binomial(20, p), p ~ Beta(2, 3), s = (k / 20, 1 - k / 20, 0): a lattice, a linear
    relation, and a constant.
    """

    def simulate(key, theta):
        share = jnp.mean(jax.random.uniform(key, (TRIALS,)) < theta[0])
        return jnp.stack([share, 1.0 - share, 0.0 * share])

    model = nw.PrivateModel(
        prior=nw.Prior({"p": dist.Beta(2.0, 3.0)}),
        simulator=nw.simulators.JaxSimulator(simulate),
        query=lambda x: x,
        mechanism=nw.mechanisms.Laplace(scale=0.02),
    )
    training = Training(learning_rate=2e-3, max_epochs=30)
    method = CLE(num_simulations=4000, estimator=SPLINES, training=training)
    return model, method.fit(KEY, model, progress=False)


def exact_proportion(mechanism, observed):
    """Mean and sd of p, and the probabilities of k: a sum over k of beta laws."""
    k = np.arange(TRIALS + 1)
    s = np.stack([k / TRIALS, 1.0 - k / TRIALS, 0.0 * k], axis=1)
    p = (np.arange(4000) + 0.5) / 4000
    joint = (
        beta.pdf(p, 2, 3)[:, None]
        * binom.pmf(k, TRIALS, p[:, None])
        * np.exp(mechanism.log_prob(observed, s))
    )
    weights = joint.sum(axis=1) / joint.sum()
    mean = weights @ p
    return mean, np.sqrt(weights @ (p - mean) ** 2), joint.sum(axis=0) / joint.sum()


@pytest.mark.slow
def test_a_lattice_a_relation_and_a_constant_are_found(proportion):
    _, likelihood = proportion
    space = likelihood.space
    assert space.dim == 1
    assert len(space.lattices) == 1
    np.testing.assert_allclose(space.step, 1 / TRIALS)
    draws = likelihood.sample(KEY, np.full((1000, 1), 0.4))
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    np.testing.assert_allclose(TRIALS * draws[:, 0], np.round(TRIALS * draws[:, 0]), atol=1e-6)


@pytest.mark.slow
def test_on_a_lattice_log_prob_is_a_probability(proportion):
    """4000 simulations tell each of 21 probabilities to some 1 / sqrt(4000 / 21) = 7% where they
    are large.
    """
    _, likelihood = proportion
    k = np.arange(TRIALS + 1)
    s = np.stack([k / TRIALS, 1.0 - k / TRIALS, 0.0 * k], axis=1)
    found = np.exp(likelihood.log_prob(s, [0.4]))
    assert abs(found.sum() - 1.0) < 0.02
    np.testing.assert_allclose(found, binom.pmf(k, TRIALS, 0.4), atol=0.03)
    assert likelihood.log_prob([0.33, 0.67, 0.0], [0.4])[0] == -np.inf
    assert likelihood.log_prob([0.35, 0.60, 0.0], [0.4])[0] == -np.inf


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.005, 0.02, 0.2])
def test_a_lattice_against_the_exact_sum(proportion, scale):
    """Noise a tenth of the step, and four times it. Four Monte Carlo sds at 2000 effective draws,
    and 7% of a probability learnt.
    """
    _, likelihood = proportion
    mechanism, observed = nw.mechanisms.Laplace(scale=scale), np.array([0.374, 0.627, 0.001])
    mean, sd, probabilities = exact_proportion(mechanism, observed)
    posterior = likelihood.posterior(KEY, observed, mechanism)
    assert abs(posterior.theta.mean() - mean) < 0.14 * sd
    assert abs(posterior.theta.std() / sd - 1.0) < 0.1
    k = np.round(TRIALS * posterior.statistics[:, 0]).astype(int)
    found = np.bincount(k, minlength=TRIALS + 1) / len(k)
    np.testing.assert_allclose(found, probabilities, atol=0.06)
    if scale == 0.005:
        assert probabilities[7] > 0.4
        assert probabilities[8] > 0.05


def binomial_target(scale, sensitivity=None):
    """The target for s = (k / 20, 1 - k / 20, 0), with a q that is not trained: q(t | z) = N(m(z),
    V).
    """
    rng = np.random.default_rng(0)
    p = rng.beta(2.0, 3.0, 2000)
    share = rng.binomial(TRIALS, p) / TRIALS
    s = np.stack([share, 1.0 - share, 0.0 * share], axis=1)
    prior = nw.Prior({"p": dist.Beta(2.0, 3.0)})
    z = prior.unconstrain(p[:, None])
    space = StatisticSpace.of(s)
    t = space.targets(s, rng.random((2000, 1)))
    condition = Affine.fit(z)
    density = ConditionalDensity(
        ensemble(KEY, AFFINE, 1, 1, 1), condition, Whitening.fit(t, condition(z), degree=2)
    )
    observed = np.array([0.374, 0.627, 0.001])
    bounds = np.stack([s.min(axis=0), s.max(axis=0)])
    return JointTarget.at(
        prior, density, space, nw.mechanisms.Laplace(scale, sensitivity), observed, bounds
    )


def integral_and_sum(target, z):
    """The integral of the target over u, and prior(z) times the sum over k of P(k | z) eta(k), in
    logs.
    """
    k = np.arange(TRIALS + 1)
    points = np.stack([k / TRIALS, 1.0 - k / TRIALS, 0.0 * k], axis=1)
    place = points[:, target.space.free[0]]
    density = target.density
    with jax.enable_x64(True):
        mean = float(
            density.whitening.inverse(jnp.zeros(1), density.condition_scale(jnp.array([z])))[0]
        )
        sd = float(density.whitening.root[0, 0])
        u = np.linspace(-12.0, 12.0, 1 << 15)
        y = np.stack([np.full(len(u), z), u], axis=1)
        found = logsumexp(log_densities(target, y)) + np.log(
            (u[1] - u[0]) * float(target.root[0, 0])
        )
        eta = np.asarray(target.mechanism.log_prob(target.observed, points))
        prior = float(target.prior.log_prob_unconstrained(np.array([[z]]))[0])
    edges = place[:, None] + np.array([-0.5, 0.5]) / TRIALS
    cells = np.diff(norm.cdf(edges, mean, sd), axis=1)[:, 0]
    return found, prior + np.log(np.sum(cells * np.exp(eta)))


@pytest.mark.parametrize("scale", [0.005, 0.02, 0.2])
@pytest.mark.parametrize("sums", [True, False])
def test_the_target_sums_over_a_lattice(scale, sums, monkeypatch):
    """Ramps add at most 1% to a variance, so that densities within 2 sds change by at most 1.5%,
    and by some 1e-3 for the grid. With one lattice, the sum over corners and the product over
    lattices are the same.
    """
    if not sums:
        monkeypatch.setattr(
            "noisewise.inference.learned.confidential.confidential_chains._MOST_LATTICES", 0
        )
    target = binomial_target(scale, sensitivity=None if sums else 0.1)
    for z in (-1.0, -0.4, 0.2):
        found, exact = integral_and_sum(target, z)
        assert abs(found - exact) < 0.025


def test_eta_between_the_points_of_a_lattice_would_be_noticed(monkeypatch):
    """Where the noise is small beside the step, eta at t itself is much larger than at the points
    of the lattice.

    A mechanism of another kind, so that no compiled target is met.
    """
    between = lambda self, t: self.mechanism.log_prob(
        self.observed, self.space.offset + t @ self.space.matrix
    )
    monkeypatch.setattr(JointTarget, "_log_eta", between)
    target = dataclasses.replace(binomial_target(0.005), mechanism=nw.mechanisms.Gaussian(0.005))
    found, exact = integral_and_sum(target, -0.4)
    assert abs(found - exact) > 0.2


@pytest.mark.parametrize("scale", [1e-5, 0.1, 100.0])
def test_the_width_of_the_noise_is_found(scale):
    """A normal density has its own mean and sd; one far wider than the bounds is flat within them."""
    bounds = np.array([[-2.0, -2.0], [2.0, 2.0]])
    centre, sd = noise_profile(nw.mechanisms.Gaussian(scale=scale), np.array([0.3, -0.7]), *bounds)
    flat = 4.8 / np.sqrt(12.0)
    np.testing.assert_allclose(sd, min(scale, flat), rtol=0.02)
    np.testing.assert_allclose(
        centre, [0.3, -0.7] if scale < 1.0 else 0.0, atol=0.02 * min(scale, 1.0) + 1e-3
    )
