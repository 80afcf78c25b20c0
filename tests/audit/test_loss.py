"""The privacy that densities imply: 20 settings of every mechanism, and planted overspending."""

import math

import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise import mechanisms as m
from noisewise.audit import hockey_stick, privacy_loss, renyi_divergence

RNG = np.random.default_rng(11)
SETTINGS = 20
EPSILONS = np.exp(RNG.uniform(math.log(0.05), math.log(12.0), SETTINGS))
SENSITIVITIES = np.exp(RNG.uniform(-3, 2, SETTINGS))
COUNTS = RNG.integers(1, 12, SETTINGS)
WIDTHS = [1, 3] * (SETTINGS // 2)

PURE = {
    "Laplace": lambda i: m.Laplace.calibrate(sensitivity=SENSITIVITIES[i], guarantee=nw.PureDP(EPSILONS[i])),
    "EuclideanLaplace": lambda i: m.EuclideanLaplace.calibrate(
        sensitivity=SENSITIVITIES[i], guarantee=nw.PureDP(EPSILONS[i])
    ),
    "DiscreteLaplace": lambda i: m.DiscreteLaplace.calibrate(
        sensitivity=0.5 * COUNTS[i], guarantee=nw.PureDP(EPSILONS[i]), step=0.5
    ),
    "PaddedBinomial": lambda i: m.PaddedBinomial.calibrate(
        trials=int(5 * COUNTS[i]), population=int(20 * COUNTS[i]), num_times=WIDTHS[i], guarantee=nw.PureDP(EPSILONS[i])
    ),
    "RandomizedResponse": lambda i: m.RandomizedResponse.calibrate(
        num_categories=int(1 + COUNTS[i]) if COUNTS[i] > 1 else 2, guarantee=nw.PureDP(EPSILONS[i])
    ),
}

CONCENTRATED = {
    "Gaussian": lambda i: m.Gaussian.calibrate(
        sensitivity=SENSITIVITIES[i], guarantee=nw.GaussianDP(min(EPSILONS[i], 4.0))
    ),
    "DiscreteGaussian": lambda i: m.DiscreteGaussian.calibrate(
        sensitivity=float(COUNTS[i]), guarantee=nw.ZeroConcentratedDP(min(EPSILONS[i], 4.0)), step=1.0
    ),
}


@pytest.mark.parametrize("name", PURE)
def test_pure_claims_hold_and_are_attained(name):
    for i in range(SETTINGS):
        loss = privacy_loss(PURE[name](i), width=WIDTHS[i])
        assert loss.passed, (i, loss)
        assert loss.ratio >= 0.99, (i, loss)
        assert loss.attained.epsilon <= loss.claimed.epsilon * (1 + 1e-12) + loss.rounding


@pytest.mark.parametrize("name", CONCENTRATED)
def test_concentrated_claims_hold_and_are_attained(name):
    for i in range(SETTINGS):
        loss = privacy_loss(CONCENTRATED[name](i))
        assert loss.passed, (i, loss)
        assert loss.ratio >= 0.99, (i, loss)


def test_gaussian_curves_are_exact():
    """Hockey stick and Renyi divergence of Gaussian noise against their closed forms."""
    for i in range(SETTINGS):
        gaussian = CONCENTRATED["Gaussian"](i)
        mu = gaussian.guarantee.mu
        pair = [0.0], [gaussian.sensitivity]
        epsilons = mu * np.array([0.1, 1.0, 2.0])
        expected = [gaussian.guarantee.delta(e) for e in epsilons]
        np.testing.assert_allclose(hockey_stick(gaussian, *pair, epsilons), expected, rtol=1e-6)
        orders = [1.5, 2.0, 8.0]
        np.testing.assert_allclose(renyi_divergence(gaussian, *pair, orders), np.array(orders) * mu**2 / 2, rtol=1e-9)


def test_discrete_gaussian_delta_is_at_most_what_its_zcdp_claim_converts_to():
    for i in range(SETTINGS):
        noise = CONCENTRATED["DiscreteGaussian"](i)
        epsilons = np.array([0.5, 1.0, 3.0]) * math.sqrt(noise.guarantee.rho)
        exact = hockey_stick(noise, [0.0], [noise.sensitivity], epsilons)
        claimed = np.array([noise.guarantee.delta(e) for e in epsilons])
        assert np.all(exact <= claimed * (1 + 1e-9))


def test_post_processing_and_selection_stay_within_their_claims():
    """Clamped outputs and the exponential mechanism: at most claimed; what is attained is printed by the audit."""
    for i in range(SETTINGS):
        inner = m.Laplace.calibrate(sensitivity=1.0, guarantee=nw.PureDP(EPSILONS[i]))
        clamped = privacy_loss(m.Clamped(inner, low=0.0, high=1.0))
        assert clamped.passed
        assert 0.2 < clamped.ratio <= 1 + 1e-12
        rounded = privacy_loss(m.Clamped(inner, low=0.0, high=10.0, step=0.5))
        assert rounded.passed
        utilities = m.ExponentialMechanism.calibrate(
            candidates=tuple(range(2 + int(COUNTS[i]))), sensitivity=1.0, guarantee=nw.PureDP(EPSILONS[i])
        )
        chosen = privacy_loss(utilities)
        assert chosen.passed
        assert 0.4 < chosen.ratio <= 1 + 1e-12


def test_a_rounded_gaussian_stays_within_its_claim():
    """Beyond the last cell the loss is bounded, so delta is exactly 0 at large epsilon."""
    inner = m.Gaussian.calibrate(sensitivity=1.0, guarantee=nw.GaussianDP(0.5))
    loss = privacy_loss(m.Clamped(inner, low=0.0, high=3.0, step=1.0))
    assert loss.passed
    assert 0.3 < loss.ratio <= 1.0 + 1e-9


def test_products_add_up():
    product = m.Product(
        [
            m.Laplace.calibrate(sensitivity=1.0, guarantee=nw.PureDP(0.7)),
            m.DiscreteLaplace.calibrate(sensitivity=2.0, guarantee=nw.PureDP(0.4)),
            m.PaddedBinomial(trials=10, padding=20.0, population=50, num_times=2),
        ]
    )
    loss = privacy_loss(product)
    assert loss.claimed.epsilon == pytest.approx(0.7 + 0.4 + 20 * math.log1p(1 / 20))
    assert loss.passed
    assert loss.ratio >= 0.99


@pytest.mark.parametrize("factor", [0.98, 0.95])
def test_planted_overspending_is_caught(factor):
    """A scale that is 2% or 5% too small for its claim."""

    class Greedy(m.Laplace):
        @property
        def guarantee(self):
            return nw.PureDP(factor * self.sensitivity / self.scale)

    class GreedyGaussian(m.Gaussian):
        @property
        def guarantee(self):
            return nw.GaussianDP(factor * self.sensitivity / self.scale)

    class GreedyDiscrete(m.DiscreteGaussian):
        @property
        def guarantee(self):
            return nw.ZeroConcentratedDP(factor * (self.sensitivity / self.scale) ** 2 / 2)

    for kind in (Greedy, GreedyGaussian, GreedyDiscrete):
        loss = privacy_loss(kind(scale=2.0, sensitivity=1.0))
        assert not loss.passed
        assert loss.ratio == pytest.approx(1 / factor, rel=1e-3)


def test_a_density_with_a_hole_has_infinite_loss():
    class Holed(m.Laplace):
        def _noise_log_prob(self, z):
            return m.Laplace._noise_log_prob(self, z) - 1e9 * (z > 3.0)

    assert not privacy_loss(Holed(scale=1.0, sensitivity=1.0)).passed


def test_stated_neighbours_can_be_given():
    laplace = m.Laplace(scale=1.0, sensitivity=1.0)
    loss = privacy_loss(laplace, neighbours=([[0.0, 0.0]], [[0.25, -0.25]]))
    assert loss.attained.epsilon == pytest.approx(0.5)


BAD = [
    (lambda: privacy_loss(3.0), errors.InvalidTypeError, "audits a mechanism"),
    (lambda: privacy_loss(m.Laplace(1.0)), errors.MissingCapabilityError, "sensitivity"),
    (lambda: privacy_loss(m.Gaussian(1.0, 1.0), width=2), errors.MissingCapabilityError, "one column"),
    (lambda: privacy_loss(m.Laplace(1.0, 1.0), width=0), errors.InvalidInputError, "width"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
