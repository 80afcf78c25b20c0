"""Point sets: uniform, strictly inside, nets kept, sets uncorrelated, the rate of convergence."""

import functools

import jax
import numpy as np
import pytest
from scipy.stats import chi2, kstest

import noisewise as nw
from noisewise import errors
from noisewise.mechanisms import IndependentUniforms, ScrambledSobol
from noisewise.mechanisms.point_sets import _scrambled, _sobol_words

BOTH = [IndependentUniforms(), ScrambledSobol()]
KEY = jax.random.key(20)


def rmse_slopes(points, functions, sizes, repetitions=200, dim=10):
    """Slopes of log2 RMSE against log2 M of the means of `functions`, whose integrals are 1."""
    rmse = np.empty((len(sizes), len(functions)))
    for i, size in enumerate(sizes):
        u = np.moveaxis(
            points.uniforms(jax.random.fold_in(KEY, i), repetitions, size, dim), -1, 0
        ).copy()
        for j, function in enumerate(functions):
            rmse[i, j] = np.sqrt(np.mean((function(u).mean(-1) - 1.0) ** 2))
    return np.polyfit(np.log2(sizes), np.log2(rmse), 1)[0]


def product(u):
    """prod_j (1 + u_j - 1/2) over the first axis."""
    return functools.reduce(np.multiply, (1.0 + (column - 0.5) for column in u))


def decaying_product(u):
    return functools.reduce(
        np.multiply, (1.0 + (column - 0.5) / j**2 for j, column in enumerate(u, start=1))
    )


def set_means(u):
    return product(np.moveaxis(u, -1, 0)).mean(-1)


@pytest.mark.parametrize("points", BOTH, ids=lambda p: type(p).__name__)
def test_shape_precision_and_open_interval(points, x64_flag):
    u = points.uniforms(KEY, 500, 32, 10)
    assert isinstance(u, np.ndarray)
    assert u.dtype == np.float64
    assert u.shape == (500, 32, 10)
    assert u.min() > 0.0
    assert u.max() < 1.0


def test_extreme_bits_stay_inside():
    """All-zero and all-one words map to 2^-33 and 1 - 2^-33, never to the ends."""
    words = np.array([0, 2**32 - 1], dtype=np.uint32)
    u = (words.astype(np.float64) + 0.5) * 2.0**-32
    assert u[0] > 0.0
    assert u[1] < 1.0


@pytest.mark.parametrize("points", BOTH, ids=lambda p: type(p).__name__)
def test_marginals_are_uniform(points):
    """One point of each set, so that draws are independent: KS at alpha 1e-6 over 10 columns."""
    u = points.uniforms(KEY, 20_000, 8, 10)[:, 3, :]
    p_values = [kstest(u[:, j], "uniform").pvalue for j in range(10)]
    assert min(p_values) * 10 > 1e-6


def test_every_elementary_interval_holds_its_count():
    """For 32 points: every dyadic box of volume 1/32 in the first two dimensions (a (0,2)-sequence)
    holds exactly one.
    """
    u = ScrambledSobol().uniforms(KEY, 50, 32, 2)
    for split in range(6):
        cells = np.floor(u[..., 0] * 2**split) * 2 ** (5 - split) + np.floor(
            u[..., 1] * 2 ** (5 - split)
        )
        assert all(np.array_equal(np.sort(row), np.arange(32)) for row in cells)


def test_independent_points_are_not_a_net():
    u = IndependentUniforms().uniforms(KEY, 50, 32, 1)
    assert not any(np.array_equal(np.sort(np.floor(row[:, 0] * 32)), np.arange(32)) for row in u)


def test_sets_are_unbiased_and_uncorrelated():
    """Variance of the mean over 2000 sets equals variance / 2000: a shared randomisation would
    inflate it.
    """
    repeated = [
        set_means(ScrambledSobol().uniforms(jax.random.fold_in(KEY, i), 2000, 8, 5))
        for i in range(60)
    ]
    within = np.mean([r.var(ddof=1) for r in repeated]) / 2000
    means = np.array([r.mean() for r in repeated])
    statistic = (
        (means - 1.0) ** 2
    ).sum() / within  # chi^2_60 if sets are unbiased and uncorrelated
    assert chi2.sf(statistic, 60) > 1e-6
    assert chi2.cdf(statistic, 60) > 1e-6


def test_a_shared_shift_is_caught():
    """Planted bug: one digital shift for all sets of a call."""
    means, within = [], []
    for i in range(60):
        u = np.asarray(ScrambledSobol().uniforms(jax.random.fold_in(KEY, i), 1, 8, 5))
        values = set_means(np.repeat(u, 2000, axis=0))
        means.append(values.mean())
        within.append(
            set_means(ScrambledSobol().uniforms(jax.random.fold_in(KEY, i), 2000, 8, 5)).var(ddof=1)
        )
    statistic = ((np.array(means) - 1.0) ** 2).sum() / (np.mean(within) / 2000)
    assert chi2.sf(statistic, 60) < 1e-6


def test_scramble_is_renewed_by_the_key_and_fixed_by_it():
    a, b = (ScrambledSobol().uniforms(KEY, 2, 16, 3) for _ in range(2))
    c = ScrambledSobol().uniforms(jax.random.fold_in(KEY, 1), 2, 16, 3)
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    # differences between points of one set are free of the shift but not of the matrix
    words_a, words_c = (np.asarray(u * 2.0**32).astype(np.uint64) for u in (a, c))
    assert not np.array_equal(words_a[0] ^ words_a[0, :1], words_c[0] ^ words_c[0, :1])


def test_works_under_jit():
    jitted = jax.jit(lambda key: ScrambledSobol().uniforms(key, 4, 16, 3))
    assert np.array_equal(np.asarray(jitted(KEY)), ScrambledSobol().uniforms(KEY, 4, 16, 3))


@pytest.mark.slow
def test_rates_of_convergence():
    """RMSE over M = 8..4096, 200 randomisations, d = 10. The standard error of these slopes is
    about .02.
    """
    sizes = 2 ** np.arange(3, 13)
    smooth, hard = rmse_slopes(ScrambledSobol(), (decaying_product, product), sizes)
    assert smooth <= -1.2
    assert hard <= -0.8
    for slope in rmse_slopes(IndependentUniforms(), (decaying_product, product), sizes[::3]):
        assert slope == pytest.approx(-0.5, abs=0.08)


@pytest.mark.slow
def test_a_broken_scramble_loses_the_rate():
    """Planted bug: shifting every point by its own word keeps uniformity and loses the net."""

    class Broken(ScrambledSobol):
        def _uniforms(self, key, num_sets, num_points, dim):
            words = np.broadcast_to(_sobol_words(num_points, dim)[0], (num_points, dim))
            keys = jax.random.split(key, num_points)
            return np.concatenate(
                [np.asarray(_scrambled(k, words[:1], num_sets)) for k in keys[:num_points]], axis=1
            )

    assert rmse_slopes(Broken(), (product,), 2 ** np.arange(3, 8))[0] > -0.65


BAD = [
    (
        lambda: ScrambledSobol().uniforms(KEY, 10, 30, 2),
        errors.InvalidInputError,
        "power of two .* got 30: use 32",
    ),
    (
        lambda: ScrambledSobol().uniforms(KEY, 10, 32, 30_000),
        errors.InvalidInputError,
        "at most 21201",
    ),
    (
        lambda: ScrambledSobol().uniforms(True, 10, 32, 2),
        errors.InvalidTypeError,
        r"jax.random.key\(0\)",
    ),
    (lambda: ScrambledSobol().uniforms(KEY, 0, 32, 2), errors.InvalidInputError, "num_sets"),
    (lambda: IndependentUniforms().uniforms(KEY, 2, 2.5, 2), errors.InvalidTypeError, "num_points"),
    (lambda: IndependentUniforms().uniforms(KEY, 2, 2, -1), errors.InvalidInputError, "dim"),
    (
        lambda: nw.mechanisms.Laplace(1.0).transport([0.0], [1.0]),
        errors.InvalidInputError,
        "strictly inside",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
