"""The privacy that densities imply: 20 settings of every mechanism, and planted overspending."""

import math

import jax.numpy as jnp
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
CANDIDATES = ((0.0, 1.0), tuple(np.arange(9.0)))
"""Widths, trials and candidates take two values each: they are part of compiled programs."""

PURE = {
    "Laplace": lambda i: m.Laplace.calibrate(
        sensitivity=SENSITIVITIES[i], guarantee=nw.PureDP(EPSILONS[i])
    ),
    "EuclideanLaplace": lambda i: m.EuclideanLaplace.calibrate(
        sensitivity=SENSITIVITIES[i], guarantee=nw.PureDP(EPSILONS[i])
    ),
    "DiscreteLaplace": lambda i: m.DiscreteLaplace.calibrate(
        sensitivity=0.5 * COUNTS[i], guarantee=nw.PureDP(EPSILONS[i]), step=0.5
    ),
    "PaddedBinomial": lambda i: m.PaddedBinomial.calibrate(
        trials=(4, 30)[COUNTS[i] % 2],
        population=int(20 * COUNTS[i]),
        num_times=WIDTHS[i],
        guarantee=nw.PureDP(EPSILONS[i]),
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
        sensitivity=float(COUNTS[i]),
        guarantee=nw.ZeroConcentratedDP(min(EPSILONS[i], 4.0)),
        step=1.0,
    ),
}


@pytest.mark.parametrize("name", PURE)
def test_pure_claims_hold_and_are_attained(name):
    for i in range(SETTINGS):
        loss = privacy_loss(PURE[name](i), width=WIDTHS[i])
        assert loss.passed, (i, loss)
        assert loss.ratio >= 0.99, (i, loss)
        assert loss.attained <= loss.claimed.epsilon * (1 + 1e-12) + loss.rounding


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
        orders = [1.0, 1.05, 2.0, 8.0, 64.0]
        np.testing.assert_allclose(
            renyi_divergence(gaussian, *pair, orders), np.array(orders) * mu**2 / 2, rtol=1e-9
        )


def test_discrete_gaussian_delta_is_at_most_what_its_zcdp_claim_converts_to():
    for i in range(SETTINGS):
        noise = CONCENTRATED["DiscreteGaussian"](i)
        epsilons = np.array([0.5, 1.0, 3.0]) * math.sqrt(noise.guarantee.rho)
        exact = hockey_stick(noise, [0.0], [noise.sensitivity], epsilons)
        claimed = np.array([noise.guarantee.delta(e) for e in epsilons])
        assert np.all(exact <= claimed * (1 + 1e-9))


def test_post_processing_and_selection_stay_within_their_claims():
    """Clamped outputs and the exponential mechanism: at most claimed; what is attained is printed
    by the audit.
    """
    for i in range(SETTINGS):
        inner = m.Laplace.calibrate(sensitivity=1.0, guarantee=nw.PureDP(EPSILONS[i]))
        clamped = privacy_loss(m.Clamped(inner, low=0.0, high=1.0))
        assert clamped.passed
        assert 0.2 < clamped.ratio <= 1 + 1e-12
        rounded = privacy_loss(m.Clamped(inner, low=0.0, high=10.0, step=0.5))
        assert rounded.passed
        utilities = m.ExponentialMechanism.calibrate(
            candidates=CANDIDATES[i % 2], sensitivity=1.0, guarantee=nw.PureDP(EPSILONS[i])
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


# Outputs that one statistic allows and the other does not -----------------------------------------


class Holed(m.Laplace):
    def _noise_log_prob(self, z):
        return jnp.where(z > 3.0, -jnp.inf, m.Laplace._noise_log_prob(self, z))


class Truncated(m.Gaussian):
    """Noise that was cut off at 5 standard deviations: with probability 1e-5 it tells the
    neighbours apart.
    """

    def _noise_log_prob(self, z):
        return jnp.where(
            jnp.abs(z) <= 5.0 * self.scale, m.Gaussian._noise_log_prob(self, z), -jnp.inf
        )


class TruncatedConcentrated(Truncated):
    @property
    def guarantee(self):
        return nw.ZeroConcentratedDP((self.sensitivity / self.scale) ** 2 / 2)


@pytest.mark.parametrize("width", [1, 3])
def test_a_density_with_a_hole_has_infinite_loss(width):
    loss = privacy_loss(Holed(scale=1.0, sensitivity=1.0), width=width)
    assert not loss.passed
    assert loss.attained == loss.ratio == math.inf
    assert repr(loss) == "PrivacyLoss(FAILED; PureDP epsilon: claimed 1, attained inf)"


def test_given_outputs_may_be_impossible_everywhere_or_lie_in_a_hole():
    holed = Holed(scale=1.0, sensitivity=1.0)
    pair = [[0.0]], [[1.0]]
    assert privacy_loss(holed, neighbours=pair, outputs=[[3.5]]).attained == math.inf
    assert privacy_loss(holed, neighbours=pair, outputs=[[9.0], [0.0]]).attained == pytest.approx(
        1.0
    )
    with pytest.raises(errors.InvalidInputError, match="possible"):
        privacy_loss(holed, neighbours=pair, outputs=[[9.0]])


def test_truncated_gaussian_noise_is_caught():
    """delta never falls below P(4 < Z < 5) = 3e-5, where the claim allows 6e-16; every Renyi
    divergence is infinite.
    """
    pair = [0.0], [1.0]
    truncated = Truncated(scale=1.0, sensitivity=1.0)
    loss = privacy_loss(truncated)
    assert not loss.passed
    assert loss.ratio > 1.5
    assert hockey_stick(truncated, *pair, [20.0])[0] == pytest.approx(3.138e-5, rel=1e-3)
    assert np.all(renyi_divergence(truncated, *pair, [1.0, 2.0]) == math.inf)
    concentrated = privacy_loss(TruncatedConcentrated(scale=1.0, sensitivity=1.0))
    assert not concentrated.passed
    assert concentrated.attained == math.inf


def test_neighbours_with_nothing_in_common_have_infinite_mu():
    class NoNoise(m.DiscreteLaplace):
        def _log_mass(self, n):
            return jnp.where(n == 0.0, 0.0, -jnp.inf)

        @property
        def guarantee(self):
            return nw.GaussianDP(1.0)

    loss = privacy_loss(NoNoise(scale=1.0, sensitivity=1.0))
    assert not loss.passed
    assert loss.attained == math.inf


# Claims that are false at one end of the curve only -----------------------------------------------


def laplace_claiming(claim):
    return type("Claims", (m.Laplace,), {"guarantee": property(lambda self: claim)})(
        scale=1.0, sensitivity=1.0
    )


def test_laplace_noise_that_claims_too_small_a_mu_is_caught_by_total_variation():
    """The total variation of Laplace(1) at distance 1 is 1 - e^(-1/2): that of mu = 1.0301."""
    loss = privacy_loss(laplace_claiming(nw.GaussianDP(1.005)))
    assert not loss.passed
    assert nw.GaussianDP(loss.attained).delta(0.0) == pytest.approx(1 - math.exp(-0.5), rel=1e-9)
    exact = nw.PureDP(1.0).to(nw.GaussianDP)
    assert privacy_loss(laplace_claiming(exact)).passed


def test_laplace_noise_that_claims_too_small_a_rho_is_caught_by_order_1():
    """The Kullback-Leibler divergence of Laplace(1) at distance 1 is 1/e; order 1.5 sees only .340
    alpha.
    """
    loss = privacy_loss(laplace_claiming(nw.ZeroConcentratedDP(0.345)))
    assert not loss.passed
    assert loss.attained == pytest.approx(math.exp(-1), rel=1e-9)
    assert renyi_divergence(laplace_claiming(nw.PureDP(1.0)), [0.0], [1.0], [1.5])[0] / 1.5 < 0.345
    assert privacy_loss(laplace_claiming(nw.ZeroConcentratedDP(0.5))).passed


# Several columns ----------------------------------------------------------------------------------


def test_the_loss_is_largest_where_columns_go_different_ways():
    counts = m.PaddedBinomial(trials=10, padding=1.0, population=10, num_times=2)
    loss = privacy_loss(counts, neighbours=([[0.0, 10.0]], [[1.0, 9.0]]))
    assert loss.attained == pytest.approx(20 * math.log(2), rel=1e-12)
    assert loss.ratio == pytest.approx(1.0)


def test_the_loss_is_largest_where_blocks_go_different_ways():
    clamped = m.Clamped(m.Laplace(scale=1.0, sensitivity=1.0), low=-5.0, high=5.0)
    chosen = m.ExponentialMechanism(candidates=(1.0, 2.0), scale=2.0)
    blocks = [
        clamped,
        chosen,
        m.Product([chosen, m.EuclideanLaplace(scale=1.0, sensitivity=1.0)], widths=[2, 3]),
    ]
    assert privacy_loss(m.Product(blocks[:2])).attained == pytest.approx(2.0, rel=1e-6)
    assert privacy_loss(m.Product(blocks)).attained == pytest.approx(4.0, rel=1e-5)


def test_a_block_that_overspends_is_caught_among_others():
    class Greedy(m.ExponentialMechanism):
        @property
        def guarantee(self):
            return nw.PureDP(0.95 * 2.0 * self.sensitivity / self.scale)

    clamped = m.Clamped(m.Laplace(scale=1.0, sensitivity=1.0), low=-5.0, high=5.0)
    loss = privacy_loss(m.Product([clamped, Greedy(candidates=(1.0, 2.0), scale=2.0)]))
    assert not loss.passed
    assert loss.ratio == pytest.approx(2.0 / 1.95, rel=1e-6)


@pytest.mark.parametrize("width", [1, 2, 9])
def test_euclidean_noise_attains_its_claim_at_any_width(width):
    assert privacy_loss(
        m.EuclideanLaplace(scale=0.5, sensitivity=1.0), width=width
    ).ratio == pytest.approx(1.0)


def test_a_blind_guess_tells_nothing():
    blind = privacy_loss(m.RandomizedResponse(num_categories=2, truth_probability=0.5))
    assert blind.passed
    assert blind.attained == 0.0
    assert math.isnan(blind.ratio)


def test_stated_neighbours_can_be_given():
    laplace = m.Laplace(scale=1.0, sensitivity=1.0)
    loss = privacy_loss(laplace, neighbours=([[0.0, 0.0]], [[0.25, -0.25]]))
    assert loss.attained == pytest.approx(0.5)


BAD = [
    (lambda: privacy_loss(3.0), errors.InvalidTypeError, "audits a mechanism"),
    (lambda: privacy_loss(m.Laplace(1.0)), errors.MissingCapabilityError, "sensitivity"),
    (
        lambda: privacy_loss(m.Gaussian(1.0, 1.0), width=2),
        errors.MissingCapabilityError,
        "one column",
    ),
    (lambda: privacy_loss(m.Laplace(1.0, 1.0), width=0), errors.InvalidInputError, "width"),
    (
        lambda: renyi_divergence(m.Laplace(1.0), [0.0], [1.0], [0.5]),
        errors.InvalidInputError,
        "orders",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
