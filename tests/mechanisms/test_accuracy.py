"""Quantiles, tails and normalisers against exact or extended-precision arithmetic."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammainccinv, gammaincinv, log_ndtr, ndtri
from scipy.stats import binom

from noisewise.mechanisms import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PaddedBinomial,
)
from noisewise.mechanisms.euclidean_laplace import gamma_quantile
from noisewise.mechanisms.lattice_noise import longest_vector


def uniforms(num, seed=0):
    """Plain ones, and as many in each tail down to 2^-53."""
    rng = np.random.default_rng(seed)
    tails = 2.0 ** -rng.uniform(1, 53, size=num)
    return np.concatenate(
        [rng.uniform(2.0**-53, 1 - 2.0**-53, size=num), tails, 1 - tails, [2.0**-53, 1 - 2.0**-53]]
    )


U = uniforms(1000)


@pytest.mark.parametrize("sigma", [0.1, 0.35, 0.8, 2.0, 5.9, 6.1, 40.0, 1e3, 1e5])
def test_discrete_gaussian_inverts_its_cdf_exactly(sigma):
    """Brute-force sums in extended precision. A quantile may differ where F is within 1e-13 of u,
    relatively.
    """
    n = np.arange(0, int(12 * sigma) + 40, dtype=np.longdouble)
    weights = np.exp(-((n / np.longdouble(sigma)) ** 2) / 2)
    tails = np.cumsum(weights[::-1])[::-1]
    normaliser = 2 * tails[0] - 1
    tails = tails / normaliser  # P(N >= n)
    mechanism = DiscreteGaussian(scale=sigma)
    zero = np.zeros(1)
    assert mechanism.log_prob(zero, zero) == pytest.approx(
        -float(np.log(normaliser)), rel=1e-14, abs=1e-15
    )

    size = np.abs(mechanism.transport(U[:, None], zero)[:, 0]).astype(int)
    smaller = np.minimum(U, 1 - U)
    assert np.all(tails[size] >= smaller * (1 - 1e-13))
    assert np.all(tails[size + 1] <= smaller * (1 + 1e-13))
    assert np.all(
        np.sign(mechanism.transport(U[:, None], zero)[:, 0])
        == np.where(size > 0, np.sign(U - 0.5), 0)
    )

    counts = np.round(np.linspace(0, 9 * sigma, U.size)).astype(int)
    below = mechanism.log_cdf(-counts[:, None].astype(float), zero)[:, 0]
    np.testing.assert_allclose(below, np.log(tails[counts]).astype(float), rtol=1e-14, atol=3e-14)
    upto = mechanism.log_cdf(counts[:, None].astype(float), zero)[:, 0]
    np.testing.assert_allclose(upto, np.log1p(-tails[counts + 1]).astype(float), rtol=0, atol=3e-14)


@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0, 1e6])
def test_discrete_laplace_inverts_its_cdf(scale):
    """F(n-1) < u <= F(n) with F from its closed form, up to a relative error of 1e-13 in the
    smaller tail.
    """
    n = DiscreteLaplace(scale=scale).transport(U[:, None], np.zeros(1))[:, 0]
    q = math.exp(-1 / scale)
    tail = lambda m: np.exp(-m / scale) / (1 + q)  # P(N >= m), m >= 1
    lower, upper = n < 0, n > 0
    assert np.all(tail(-n[lower]) >= U[lower] * (1 - 1e-13))
    assert np.all(tail(1 - n[lower]) <= U[lower] * (1 + 1e-13))
    assert np.all(tail(n[upper]) >= (1 - U[upper]) * (1 - 1e-13))
    assert np.all(tail(n[upper] + 1) <= (1 - U[upper]) * (1 + 1e-13))
    middle = n == 0
    assert np.all(np.minimum(U, 1 - U)[middle] >= tail(1) * (1 - 1e-13))


def test_binomial_quantiles_are_scipys():
    """n = 1000 away from the extreme tails, where scipy's own answers are right; both ways of
    sharing probabilities.
    """
    mechanism = PaddedBinomial(trials=1000, padding=1000.0, population=1_000_000, num_times=10)
    rng = np.random.default_rng(1)
    s = np.floor(1_000_001 * rng.uniform(size=(50, 1, 10)) ** 4)
    u = rng.uniform(1e-6, 1 - 1e-6, size=(50, 32, 10))
    expected = binom.ppf(u, 1000, (s + 1000) / 1_002_000)
    assert np.array_equal(mechanism.transport(u, s), expected)
    assert np.array_equal(mechanism.transport(u, np.broadcast_to(s, u.shape)), expected)


@pytest.mark.parametrize(
    ("trials", "padding", "population"), [(40, 0.5, 1000), (7, 2.0**-10, 10**9)]
)
def test_binomial_quantiles_are_exact_in_the_tails(trials, padding, population):
    """Exact rational arithmetic; no quantile may differ."""
    mechanism = PaddedBinomial(trials=trials, padding=padding, population=population, num_times=1)
    for count in (0, 1, population // 3, population):
        p = (count + Fraction(padding)) / (population + 2 * Fraction(padding))
        masses = [math.comb(trials, j) * p**j * (1 - p) ** (trials - j) for j in range(trials + 1)]
        cdf = np.cumsum(np.array(masses, dtype=object))
        u = np.resize(U[::20], 151)
        exact = [next(j for j in range(trials + 1) if cdf[j] >= Fraction(level)) for level in u]
        assert np.array_equal(
            mechanism.transport(u[:, None], np.full((151, 1), float(count)))[:, 0], exact
        )
        counts = np.arange(trials + 1.0)[:, None]
        logs = [math.log(value) if value > 0 else -math.inf for value in map(float, cdf)]
        np.testing.assert_allclose(
            mechanism.log_cdf(counts, [count])[:, 0], logs, rtol=1e-13, atol=1e-13
        )


@pytest.mark.parametrize("k", [1, 2, 9, 50])
def test_gamma_quantile(k):
    u = np.sort(np.concatenate([U, [1e-12, 1 - 1e-12, 0.5, np.nextafter(0.5, 1)]]))
    with jax.enable_x64(True):
        x = np.asarray(jax.jit(gamma_quantile, static_argnums=0)(k, jnp.asarray(u)))
    expected = np.where(u <= 0.5, gammaincinv(k, u), gammainccinv(k, 1 - u))
    np.testing.assert_allclose(x, expected, rtol=1e-12)
    assert np.all(np.diff(x)[np.diff(u) > 1e-12 * np.minimum(u, 1 - u)[1:]] > 0)


def test_gaussian_tails():
    mechanism = Gaussian(scale=1.0)
    zero = np.zeros(1)
    smaller = np.minimum(U, 1 - U)
    np.testing.assert_allclose(
        mechanism.transport(U[:, None], zero)[:, 0], np.sign(0.5 - U) * ndtri(smaller), rtol=1e-14
    )
    z = np.linspace(-60, 8, U.size)
    np.testing.assert_allclose(
        mechanism.log_cdf(z[:, None], zero)[:, 0], log_ndtr(z), rtol=1e-13, atol=1e-13
    )


def test_rounded_cells_keep_their_digits_in_both_tails():
    """A cell of Laplace noise beyond s has mass exp(-|y - s|/b) sinh(step / 2b)."""
    mechanism = Clamped(Laplace(scale=2.0), step=0.5)
    y = 0.5 * np.concatenate([np.arange(-3000, -10), np.arange(11, 3000)])
    expected = -np.abs(y - 1.0) / 2.0 + math.log(math.sinh(0.125))
    np.testing.assert_allclose(mechanism.log_prob(y[:, None], [1.0]), expected, rtol=1e-12)


def test_longest_vector_is_the_longest():
    for k in (1, 2, 3):
        squares = np.arange(8) ** 2
        sums = np.unique(
            np.add.outer(
                np.add.outer(squares, squares if k > 1 else [0]), squares if k > 2 else [0]
            )
        )
        for budget in range(1, 49):
            vector = longest_vector(budget, k)
            assert len(vector) <= k
            assert sum(n**2 for n in vector) == sums[sums <= budget].max()
    assert sum(n**2 for n in longest_vector(10**9 + 7, 2)) > 0.999 * 10**9
