"""Guarantees: conversions against independent computations, composition, group privacy, refusals."""

import dataclasses
import decimal
import json
import math
import re
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

import noisewise as nw
from noisewise import errors
from noisewise.mechanisms.guarantees import compose, guarantee_from_spec

ALL = [nw.PureDP(0.7), nw.ApproximateDP(1.2, 1e-6), nw.ZeroConcentratedDP(0.3), nw.GaussianDP(0.9)]


def gaussian_delta(mu, epsilon):
    """The hockey-stick divergence of N(mu,1) from N(0,1), by quadrature."""
    cut = epsilon / mu + mu / 2
    return quad(
        lambda y: norm.pdf(y - mu) - math.exp(epsilon) * norm.pdf(y),
        cut,
        cut + 40,
        epsabs=0,
        epsrel=1e-11,
    )[0]


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(0.1, 0.05), (1.0, 1.0), (1.0, 5.0), (3.0, 2.0), (5.0, 20.0)]
)
def test_gaussian_delta_is_the_hockey_stick(mu, epsilon):
    assert nw.GaussianDP(mu).delta(epsilon) == pytest.approx(gaussian_delta(mu, epsilon), rel=1e-8)


def precise_normal_cdf(x):
    """Phi to 50 digits, by its Taylor series."""
    pi = Decimal(
        "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899"
    )
    term = total = x
    k = 1
    while abs(term) > Decimal(10) ** -56 * max(abs(total), Decimal(10) ** -56):
        term = term * x * x / (2 * k + 1)
        total += term
        k += 1
    return Decimal("0.5") + (-(x * x) / 2).exp() / (2 * pi).sqrt() * total


@pytest.mark.parametrize("mu", [1e-10, 1e-8, 1e-4, 0.3, 0.99, 1.0, 1.5, 8.0])
def test_gaussian_delta_keeps_its_digits(mu):
    """Against 60-digit arithmetic: differences of tail probabilities cancel for small mu unless one
    is careful.
    """
    with localcontext() as context:
        context.prec = 60
        for ratio in (0.0, 0.1, 1.0, 4.0):
            epsilon = ratio * mu + (mu * mu / 2 if mu > 1 else 0.0)
            m, e = Decimal(mu), Decimal(epsilon)
            exact = precise_normal_cdf(m / 2 - e / m) - e.exp() * precise_normal_cdf(-m / 2 - e / m)
            assert float(Decimal(nw.GaussianDP(mu).delta(epsilon)) / exact) == pytest.approx(
                1.0, abs=1e-12
            )


def test_calibrations_are_within_what_they_were_calibrated_to():
    rng = np.random.default_rng(8)
    for _ in range(100):
        wanted = nw.ApproximateDP(10 ** rng.uniform(-9, 1.3), 10 ** rng.uniform(-15, -3))
        for kind in (nw.GaussianDP, nw.ZeroConcentratedDP):
            found = kind.from_approximate(wanted)
            assert found.delta(wanted.epsilon) <= wanted.delta
            assert found.within(wanted)
    assert nw.GaussianDP.from_approximate(nw.ApproximateDP(1e-3, 1e-300)).mu > 0


@pytest.mark.parametrize("epsilon", [1e-16, 1e-8, 1e-3])
def test_small_pure_guarantees_do_not_vanish_as_gaussian_ones(epsilon):
    """mu = epsilon sqrt(pi / 2) (1 + O(epsilon^2)), and never less."""
    ratio = nw.PureDP(epsilon).to(nw.GaussianDP).mu / (epsilon * math.sqrt(math.pi / 2))
    assert 1.0 - epsilon**2 <= ratio <= 1.0 + 1e-11


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_gaussian_to_approximate_never_understates_and_is_tight(mu, delta):
    epsilon = nw.GaussianDP(mu).to(nw.ApproximateDP, delta=delta).epsilon
    assert nw.GaussianDP(mu).delta(epsilon) <= delta
    if epsilon > 0:
        assert nw.GaussianDP(mu).delta(epsilon * (1 - 1e-9)) > delta


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5])
def test_calibrating_gaussian_dp_inverts_its_conversion(epsilon, delta):
    mu = nw.GaussianDP.from_approximate(nw.ApproximateDP(epsilon, delta))
    assert mu.to(nw.ApproximateDP, delta=delta).epsilon == pytest.approx(epsilon, rel=1e-9)
    assert mu.delta(epsilon) <= delta


def test_pure_to_approximate_never_understates():
    """Against 120 digits: the delta at the epsilon that comes back is no more than the one asked
    for, and nearly it.
    """
    rng = np.random.default_rng(0)
    with decimal.localcontext(decimal.Context(prec=120)):
        for _ in range(3000):
            epsilon = float(10 ** rng.uniform(-14, 2.5))
            small = float(10 ** rng.uniform(-15, -1))
            delta = (small, 1.0 - small, float(rng.random()))[rng.integers(3)]
            found = Decimal(nw.PureDP(epsilon).to(nw.ApproximateDP, delta=delta).epsilon)
            whole = 1 + Decimal(epsilon).exp()
            assert (Decimal(epsilon).exp() - found.exp()) / whole <= Decimal(delta)
            lower = found * (1 - Decimal(2) ** -51)
            assert found == 0 or (Decimal(epsilon).exp() - lower.exp()) / whole > Decimal(delta)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pure_conversions_against_randomised_response(epsilon):
    """Every epsilon-DP mechanism is a post-processing of binary randomised response: check on its
    two-point law.
    """
    p = np.array([math.exp(epsilon), 1.0]) / (1.0 + math.exp(epsilon))
    q = p[::-1]
    for delta in (1e-3, 0.05):
        smaller = nw.PureDP(epsilon).to(nw.ApproximateDP, delta=delta).epsilon
        if smaller > 0:
            assert np.maximum(0, p - math.exp(smaller) * q).sum() == pytest.approx(delta, rel=1e-9)
    rho = nw.PureDP(epsilon).to(nw.ZeroConcentratedDP).rho
    for alpha in (1.01, 2.0, 10.0, 100.0):
        divergence = math.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1)
        assert divergence <= rho * alpha
    mu = nw.PureDP(epsilon).to(nw.GaussianDP).mu
    for level in np.linspace(
        0.01, 0.99, 50
    ):  # trade-off curve of the Gaussian pair lies below that of the pair (p, q)
        gaussian = norm.cdf(norm.ppf(1 - level) - mu)
        pure = max(0.0, 1 - math.exp(epsilon) * level, math.exp(-epsilon) * (1 - level))
        assert gaussian <= pure + 1e-12
    corner = 1 / (1 + math.exp(epsilon))
    assert norm.cdf(norm.ppf(1 - corner) - mu) == pytest.approx(corner, rel=1e-9)


@pytest.mark.parametrize("rho", [0.01, 0.5, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_zcdp_to_approximate_lies_between_the_gaussian_and_the_classical_bound(rho, delta):
    """Gaussian noise is one rho-zCDP mechanism (a lower bound); rho + 2 sqrt(rho log 1/delta) is
    the classical upper bound.
    """
    epsilon = nw.ZeroConcentratedDP(rho).to(nw.ApproximateDP, delta=delta).epsilon
    exact_for_gaussian = nw.GaussianDP(math.sqrt(2 * rho)).to(nw.ApproximateDP, delta=delta).epsilon
    assert exact_for_gaussian <= epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    alphas = 1 + np.exp(np.linspace(-12, 12, 400_001))
    log_delta = (
        (alphas - 1) * (alphas * rho - epsilon)
        - np.log(alphas - 1)
        + alphas * np.log1p(-1 / alphas)
    )
    assert math.exp(log_delta.min()) == pytest.approx(delta, rel=1e-6)


def test_pure_to_approximate_is_stable_for_large_epsilon():
    assert nw.PureDP(800.0).to(nw.ApproximateDP, delta=0.0).epsilon == 800.0
    assert nw.PureDP(800.0).to(nw.ApproximateDP, delta=0.5).epsilon == pytest.approx(
        800 + math.log(0.5)
    )


def test_composition_within_kinds():
    assert compose([nw.PureDP(0.1)] * 10) == nw.PureDP(1.0)
    assert compose([nw.GaussianDP(3.0), nw.GaussianDP(4.0)]) == nw.GaussianDP(5.0)
    assert nw.ZeroConcentratedDP(0.25).compose(nw.ZeroConcentratedDP(0.5)) == nw.ZeroConcentratedDP(
        0.75
    )
    both = compose([nw.ApproximateDP(1.0, 1e-6), nw.ApproximateDP(0.5, 2e-6)])
    assert both == nw.ApproximateDP(1.5, 3e-6)


def test_composition_across_kinds_meets_in_the_strongest_common_one():
    assert compose([nw.PureDP(1.0), nw.ZeroConcentratedDP(0.25)]) == nw.ZeroConcentratedDP(0.75)
    assert compose([nw.GaussianDP(1.0), nw.ZeroConcentratedDP(0.25)]) == nw.ZeroConcentratedDP(0.75)
    assert compose([nw.PureDP(1.0), nw.ApproximateDP(1.0, 1e-6)]) == nw.ApproximateDP(2.0, 1e-6)
    mixed = compose([nw.PureDP(1.0), nw.GaussianDP(1.0)])
    assert mixed.mu == pytest.approx(math.hypot(1.0, nw.PureDP(1.0).to(nw.GaussianDP).mu))


def test_group_privacy():
    assert nw.PureDP(0.5).group(3) == nw.PureDP(1.5)
    assert nw.GaussianDP(0.5).group(3) == nw.GaussianDP(1.5)
    assert nw.ZeroConcentratedDP(0.5).group(3) == nw.ZeroConcentratedDP(4.5)
    group = nw.ApproximateDP(1.0, 1e-6).group(3)
    assert group.epsilon == 3.0
    assert group.delta == pytest.approx(1e-6 * (1 + math.e + math.e**2))


def test_group_delta_is_what_chaining_neighbours_gives():
    """Randomised response with a leak: chain two neighbours by hand and compare with the formula."""
    first = nw.ApproximateDP(0.3, 1e-3)
    chained = first.delta + math.exp(first.epsilon) * first.delta
    assert first.group(2).delta == pytest.approx(chained)


@pytest.mark.parametrize("guarantee", ALL, ids=lambda g: type(g).__name__)
def test_within_is_reflexive_and_strict(guarantee):
    assert guarantee.within(guarantee)
    name = next(iter(guarantee.parameters))
    smaller = dataclasses.replace(guarantee, **{name: getattr(guarantee, name) * 0.999})
    assert not guarantee.within(smaller)
    assert smaller.within(guarantee)


def test_within_across_kinds():
    assert nw.PureDP(1.0).within(nw.ZeroConcentratedDP(0.5))
    assert not nw.PureDP(1.0).within(nw.ZeroConcentratedDP(0.49))
    assert not nw.ZeroConcentratedDP(0.5).within(
        nw.PureDP(100.0)
    )  # nothing is implied, whatever the number
    assert nw.ApproximateDP(1.0, 1e-6).within(nw.ApproximateDP(1.0, 1e-6))
    assert not nw.ApproximateDP(1.0, 1e-6).within(nw.ApproximateDP(0.9, 1e-6))
    limit = nw.GaussianDP(1.0).to(nw.ApproximateDP, delta=1e-6)
    assert nw.GaussianDP(1.0).within(limit)
    assert not nw.GaussianDP(1.01).within(limit)


@pytest.mark.parametrize("guarantee", ALL, ids=lambda g: type(g).__name__)
def test_spec_round_trip(guarantee):
    assert guarantee_from_spec(json.loads(json.dumps(guarantee.to_spec()))) == guarantee


CONVERSIONS_THAT_DO_NOT_EXIST = [
    (nw.ZeroConcentratedDP(0.5), nw.PureDP, {}),
    (nw.ZeroConcentratedDP(0.5), nw.GaussianDP, {}),
    (nw.ZeroConcentratedDP(0.5), nw.ApproximateDP, {}),
    (nw.GaussianDP(0.5), nw.PureDP, {}),
    (nw.GaussianDP(0.5), nw.ApproximateDP, {}),
    (nw.GaussianDP(0.5), nw.ApproximateDP, {"delta": 0.0}),
    (nw.ApproximateDP(1.0, 1e-6), nw.PureDP, {}),
    (nw.ApproximateDP(1.0, 1e-6), nw.ZeroConcentratedDP, {}),
    (nw.ApproximateDP(1.0, 1e-6), nw.GaussianDP, {}),
    (nw.ApproximateDP(1.0, 1e-6), nw.ApproximateDP, {"delta": 1e-9}),
    (nw.PureDP(800.0), nw.GaussianDP, {}),
]


@pytest.mark.parametrize(("guarantee", "kind", "options"), CONVERSIONS_THAT_DO_NOT_EXIST)
def test_conversions_that_do_not_exist_are_refused(guarantee, kind, options):
    with pytest.raises(
        errors.ConversionError,
        match=f"{type(guarantee).__name__} does not imply any {kind.__name__}",
    ):
        guarantee.to(kind, **options)


@pytest.mark.parametrize(("guarantee", "kind", "options"), CONVERSIONS_THAT_DO_NOT_EXIST)
def test_refusals_are_sentences(guarantee, kind, options):
    with pytest.raises(errors.ConversionError) as caught:
        guarantee.to(kind, **options)
    sentences = re.split(r"\. (?!to\()", str(caught.value))
    assert all(sentence[0].isupper() for sentence in sentences)
    assert str(caught.value).endswith(".")


BAD = [
    (
        lambda: nw.PureDP(-1.0),
        errors.InvalidInputError,
        "epsilon must be a finite number >= 0, got -1",
    ),
    (lambda: nw.PureDP(math.nan), errors.InvalidInputError, "epsilon"),
    (lambda: nw.PureDP(math.inf), errors.InvalidInputError, "finite"),
    (lambda: nw.PureDP("1"), errors.InvalidTypeError, "got str"),
    (lambda: nw.PureDP(True), errors.InvalidTypeError, "got bool"),
    (lambda: nw.ApproximateDP(1.0, 1.0), errors.InvalidInputError, "delta must be .* < 1"),
    (lambda: nw.ApproximateDP(1.0, -1e-9), errors.InvalidInputError, "delta"),
    (lambda: nw.GaussianDP(None), errors.InvalidTypeError, "mu"),
    (lambda: nw.PureDP(1.0).to("GaussianDP"), errors.InvalidTypeError, "one of the classes"),
    (
        lambda: nw.PureDP(1.0).to(nw.GaussianDP, delta=0.1),
        errors.InvalidInputError,
        "delta only applies",
    ),
    (lambda: nw.PureDP(1.0).group(0), errors.InvalidInputError, "size must be a whole number >= 1"),
    (lambda: nw.PureDP(1.0).group(1.5), errors.InvalidTypeError, "size"),
    (
        lambda: nw.GaussianDP(1e160).to(nw.ApproximateDP, delta=1e-6),
        errors.ConversionError,
        "float64",
    ),
    (
        lambda: nw.GaussianDP(1e7).to(nw.ApproximateDP, delta=1e-6),
        errors.ConversionError,
        "float64",
    ),
    (lambda: nw.ApproximateDP(1.0, 1e-6).group(2000), errors.ConversionError, "smaller group"),
    (lambda: nw.ApproximateDP(5.0, 1e-3).group(10), errors.ConversionError, "smaller group"),
    (lambda: compose([]), errors.InvalidInputError, "at least one"),
    (lambda: compose([nw.PureDP(1.0), 2.0]), errors.InvalidTypeError, "PureDP"),
    (
        lambda: compose([nw.GaussianDP(1.0), nw.ApproximateDP(1.0, 1e-6)]),
        errors.ConversionError,
        "Convert the others",
    ),
    (
        lambda: nw.GaussianDP.from_approximate(nw.ApproximateDP(1.0, 0.0)),
        errors.ConversionError,
        "positive delta",
    ),
    (lambda: guarantee_from_spec({"type": "Renyi"}), errors.FileFormatError, "one of PureDP"),
    (
        lambda: guarantee_from_spec({"type": "PureDP", "rho": 1.0}),
        errors.FileFormatError,
        "epsilon",
    ),
    (lambda: guarantee_from_spec([1]), errors.FileFormatError, "object"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_the_planted_bug_is_seen():
    """The tests above would notice the common slip delta = Phi(mu/2 - eps/mu) alone."""
    slip = norm.cdf(0.5 - 1.0)
    root = brentq(lambda e: gaussian_delta(1.0, e) - slip, 0.0, 1.0)
    assert abs(root - 1.0) > 0.1
