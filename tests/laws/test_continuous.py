"""Continuous laws through noise, against double-exponential quadrature in long double.

The reference cuts at the same numbers as a person would, uses 4,001 points per piece, and takes
densities near the ends of their support as functions of the distance from them: it is right to
1e-13, as powers down to -.9 at an end leave exp(-855 * .1).
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.laws import continuous
from noisewise.mechanisms import Clamped, Gaussian, Laplace, Thresholded
from tests.laws import reference
from tests.laws.catalogue import NAN, array

LONG = np.longdouble
ABSCISSAE = np.linspace(LONG(-6.3), LONG(6.3), 4001)


def integral(log_integrand, cuts):
    """log of the integral of exp(log_integrand(s, distance from the first cut, from the last))."""
    u = np.pi / 2 * np.sinh(ABSCISSAE)
    left, right = 1 / (1 + np.exp(-2 * u)), 1 / (1 + np.exp(2 * u))
    weights = (ABSCISSAE[1] - ABSCISSAE[0]) * np.pi * np.cosh(ABSCISSAE) * left * right
    parts = []
    for a, b in itertools.pairwise(cuts):
        s = np.where(ABSCISSAE < 0, a + (b - a) * left, b - (b - a) * right)
        below = (b - a) * left if a == cuts[0] else s - cuts[0]
        above = (b - a) * right if b == cuts[-1] else cuts[-1] - s
        with np.errstate(divide="ignore"):
            parts.append(log_integrand(s, below, above) + np.log(weights * (b - a)))
    return float(reference.log_sum(np.concatenate(parts)))


def gamma(a, rate):
    constant = a * math.log(rate) - math.lgamma(a)
    return lambda s, below, above: constant + (a - 1) * np.log(below) - rate * s


def log_normal(mean, sd):
    constant = -math.log(sd) - 0.5 * math.log(2 * math.pi)
    return lambda s, below, above: (
        constant - np.log(below) - 0.5 * ((np.log(below) - mean) / sd) ** 2
    )


def beta(a, b):
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return lambda s, below, above: constant + (a - 1) * np.log(below) + (b - 1) * np.log(above)


def student(df):
    constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    return lambda s, below, above: constant - (df + 1) / 2 * np.log1p(s * s / df)


def uniform(low, high):
    return lambda s, below, above: np.full(s.shape, -math.log(high - low), LONG)


def exponential(rate):
    return gamma(1.0, rate)


DECADES = [10.0**k for k in range(-3, 7)]
LAWS = {
    "gamma": (
        dist.Gamma,
        gamma,
        (array(0.3, 2.0, 50.0, 0.1), array(1.0, 0.5, 1.0, 0.01)),
        [0.0, *DECADES],
        array(1.0, 3.0, 40.0, 2.0),
    ),
    "exponential": (
        lambda rate: dist.Exponential(rate),
        exponential,
        (array(1.0, 0.01),),
        [0.0, *DECADES],
        array(2.0, 40.0),
    ),
    "log-normal": (
        dist.LogNormal,
        log_normal,
        (array(0.0, 1.0, -2.0), array(0.5, 2.0, 1.0)),
        [0.0, *DECADES],
        array(2.0, 5.0, -1.0),
    ),
    "beta": (
        dist.Beta,
        beta,
        (array(0.5, 2.0, 0.1), array(0.5, 30.0, 3.0)),
        [0.0, 0.01, 0.1, 0.5, 0.9, 1.0],
        array(0.3, 0.2, -0.1),
    ),
    "Student": (
        dist.StudentT,
        student,
        (array(3.0, 1.0, 10.0),),
        [*(-x for x in DECADES[::-1]), *DECADES],
        array(0.5, 20.0, -6.0),
    ),
    "uniform": (
        dist.Uniform,
        uniform,
        (array(0.0, 0.0), array(1.0, 1.0)),
        [0.0, 0.1, 0.9, 1.0],
        array(0.4, 3.0),
    ),
}
NOISES = {"Laplace": (Laplace, reference.laplace), "Gaussian": (Gaussian, reference.gaussian)}


def exactly(name, j, log_eta, y, near=()):
    """log p(y) of one cell; `near` are more places to cut at."""
    _, log_density, parameters, cuts, _ = LAWS[name]
    low, high = cuts[0], cuts[-1]
    inner = sorted({*cuts, *(float(x) for x in near if low < x < high)})
    law = log_density(*(part[j] for part in parameters))
    return integral(lambda s, *ends: law(s, *ends) + log_eta(LONG(y), s), inner)


def around(y, scale):
    return [y + k * scale for k in (-30, -8, -2, 0, 2, 8, 30)]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "name", ["gamma", *(pytest.param(name, marks=pytest.mark.slow) for name in list(LAWS)[1:])]
)
def test_log_probabilities_and_their_estimated_errors(name, noise):
    """Estimates bound errors, up to the rounding of both."""
    make, _, parameters, _, y = LAWS[name]
    make_noise, log_eta = NOISES[noise]
    for scale in (0.1, 3.0, 100.0):
        shifted = y + (scale if scale > 50.0 else 0.0)
        with jax.enable_x64(True):
            law = nw.Privatized(make(*parameters), make_noise(scale=scale))
            found, estimate = law.log_prob(shifted), law.log_prob_error(shifted)
        for j in range(y.size):
            exact = exactly(name, j, log_eta(scale), shifted[j], around(shifted[j], scale))
            error = abs(float(found[j]) - exact)
            assert error <= 1e-10 * max(1.0, abs(exact))
            assert error <= float(estimate[j]) + 1e-12 * max(1.0, abs(exact))


def test_too_few_points_are_caught():
    """Planted: 4 points per panel."""
    make, _, parameters, _, y = LAWS["gamma"]
    with jax.enable_x64(True):
        law = make(*map(jnp.asarray, parameters))
        integral_of = continuous.Integral(law, Laplace(scale=3.0), jnp.asarray(y))
        coarse = np.asarray(integral_of.log_prob(4))
    exact = [exactly("gamma", j, reference.laplace(3.0), y[j], around(y[j], 3.0)) for j in range(4)]
    assert np.abs(coarse - exact).max() > 1e-6


def absent_below(threshold, scale, kind):
    """log P(noisy < threshold | s)."""
    at_most = {
        "Gaussian": reference.gaussian_at_most(scale),
        "Laplace": lambda end, s: np.where(
            end < s,
            -np.abs(end - s) / scale - math.log(2),
            np.log1p(-np.exp(-np.abs(end - s) / scale) / 2),
        ),
    }[kind]
    return lambda y, s: at_most(LONG(threshold), s)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_cut_and_thresholded_noise(noise):
    make, _, parameters, _, _ = LAWS["gamma"]
    make_noise, log_eta = NOISES[noise]
    inner, scale = make_noise(scale=0.5), 0.5
    for mechanism, y, etas in (
        (
            Thresholded(inner, above=2.0),
            array(NAN, 3.0, NAN, NAN),
            [absent_below(2.0, scale, noise)] * 4,
        ),
        (
            Clamped(inner, low=2.0),
            array(2.0, 3.0, 2.0, 2.0),
            [absent_below(2.0, scale, noise)] * 4,
        ),
    ):
        etas[1] = log_eta(scale)
        with jax.enable_x64(True):
            found = nw.Privatized(make(*parameters), mechanism).log_prob(y)
        for j in range(4):
            place = 3.0 if j == 1 else 2.0
            exact = exactly("gamma", j, etas[j], y[j], around(place, scale))
            assert abs(float(found[j]) - exact) <= 1e-10 * max(1.0, abs(exact))


@pytest.mark.slow
def test_derivatives():
    """Of shapes and rates, and of the ends of a uniform law, with the flag off as well."""
    y, step = 1.3, 1e-4
    for make, log_density, parameters, ends in (
        (dist.Gamma, gamma, (0.3, 0.7), None),
        (dist.Uniform, uniform, (0.2, 1.5), (0, 1)),
    ):

        def exact(*parameters, log_density=log_density, ends=ends):
            cuts = [0.0, *DECADES] if ends is None else [parameters[0], 0.5, 1.0, parameters[1]]
            cuts = sorted({*cuts, *(x for x in around(y, 0.5) if cuts[0] < x < cuts[-1])})
            law, eta = log_density(*parameters), reference.laplace(0.5)
            return integral(lambda s, *d: law(s, *d) + eta(LONG(y), s), cuts)

        def log_prob(*parameters, make=make):
            return nw.Privatized(make(*parameters), Laplace(scale=0.5)).log_prob(y)

        with jax.enable_x64(True):
            slopes = jax.grad(log_prob, argnums=(0, 1))(*parameters)
        rough = jax.jit(jax.grad(log_prob, argnums=(0, 1)))(*parameters)
        for place in (0, 1):
            moved = [
                exact(*(x + k * step * (i == place) for i, x in enumerate(parameters)))
                for k in (1, -1)
            ]
            slope = (moved[0] - moved[1]) / (2.0 * step)
            assert abs(float(slopes[place]) - slope) < 1e-6 * max(1.0, abs(slope))
            assert abs(float(rough[place]) - slope) < 1e-4 * max(1.0, abs(slope))


NUM_DRAWS = 4000
LEVEL = 2.3
"""sqrt(n) times the distance of distribution functions: exceeded with probability 5e-5 (Massart)."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gamma", "beta", "Student"])
def test_draws_have_their_law(name):
    make, log_density, parameters, cuts, y = LAWS[name]
    with jax.enable_x64(True):
        law = nw.Privatized(make(*parameters), Laplace(scale=0.5))
        keys = jax.random.split(jax.random.key(1), NUM_DRAWS)
        drawn = np.asarray(jax.jit(jax.vmap(lambda key: law.confidential(key, y)))(keys))
    for j in range(y.size):
        near = around(y[j], 0.5)
        whole = exactly(name, j, reference.laplace(0.5), y[j], near)
        at = np.quantile(drawn[:, j], [0.1, 0.3, 0.5, 0.7, 0.9])
        for place in at:
            density = log_density(*(part[j] for part in parameters))

            def below(s, *ends, density=density, j=j, place=place):
                eta = reference.laplace(0.5)(LONG(y[j]), s)
                return np.where(s <= place, density(s, *ends) + eta, -np.inf)

            inner = sorted({*cuts, *(x for x in [*near, float(place)] if cuts[0] < x < cuts[-1])})
            share = math.exp(integral(below, inner) - whole)
            assert math.sqrt(NUM_DRAWS) * abs((drawn[:, j] <= place).mean() - share) < LEVEL
