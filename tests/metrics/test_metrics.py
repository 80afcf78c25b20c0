"""Metrics: against independent implementations, theory, and their floors."""

import warnings

import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

from noisewise import errors
from noisewise.metrics import c2st, kolmogorov_smirnov, mmd

RNG = np.random.default_rng(3)


def gaussian_pair(n, d, shift=0.0, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), shift + scale * rng.normal(size=(n, d))


def test_mmd_is_the_double_sum():
    x, y = gaussian_pair(60, 3, shift=0.4, scale=1.3)
    distance = lambda a, b: np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))
    width = np.median(distance(x, x)[np.triu_indices(60, 1)])
    kernel = lambda a, b: np.exp(-(distance(a, b) ** 2) / (2 * width**2))
    off = ~np.eye(60, dtype=bool)
    expected = kernel(x, x)[off].mean() + kernel(y, y)[off].mean() - 2 * kernel(x, y).mean()
    assert mmd(x, y) == pytest.approx(expected, rel=1e-12)
    assert mmd(x, y) != pytest.approx(
        mmd(y, x), rel=1e-3
    )  # the width comes from the reference alone


def test_mmd_is_unbiased():
    """Mean over 200 null pairs within 4 standard errors of 0; the biased version would sit at about
    2/n.
    """
    values = [mmd(*gaussian_pair(100, 2, seed=i)) for i in range(200)]
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values)) < 4 * error
    assert abs(np.mean(values) + 2 / 100 * (1 - 0.5)) > 4 * error


def test_ks_matches_scipy():
    x, y = RNG.normal(size=(300, 4)), np.round(RNG.normal(0.2, 1.0, size=(170, 4)), 1)
    expected = [ks_2samp(x[:, j], y[:, j]).statistic for j in range(4)]
    np.testing.assert_allclose(kolmogorov_smirnov(x, y), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("num", "most"), [(400, 0.048), pytest.param(1000, 0.03, marks=pytest.mark.slow)]
)
def test_c2st_floor_and_theory(num, most):
    """Exact against exact is .5, a mean shift h gives Phi(h/2) for the best classifier: within .03
    at n = 1000, and within .03 sqrt(2.5) at n = 400.
    """
    assert c2st(*gaussian_pair(num, 2, seed=1)) == pytest.approx(0.5, abs=most)
    x, y = gaussian_pair(num, 2, seed=2)
    y[:, 0] += 1.0
    assert c2st(x, y) == pytest.approx(norm.cdf(0.5), abs=most)


def test_c2st_does_not_depend_on_units_or_flags(x64_flag):
    x, y = gaussian_pair(300, 2, shift=0.3, seed=3)
    found = c2st(x, y, num_folds=2)
    assert found == pytest.approx(c2st(1e6 * x - 5.0, 1e6 * y - 5.0, num_folds=2), abs=0.02)
    assert found == c2st(x, y, num_folds=2)


def scikit_learn(x, y):
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.neural_network import MLPClassifier

    center, scale = x.mean(0), x.std(0)
    data = np.concatenate([(x - center) / scale, (y - center) / scale])
    network = MLPClassifier((10 * x.shape[1],) * 2, max_iter=10_000, random_state=1)
    folds = KFold(5, shuffle=True, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cross_val_score(network, data, np.repeat([0, 1], len(x)), cv=folds).mean()


PAIRS = [(2, 0.0, 1.0), (2, 0.2, 1.0), (2, 0.5, 1.0), (2, 0.0, 1.3), (3, 0.0, 1.0)]
PAIRS += [(3, 0.3, 1.0), (3, 0.0, 1.5), (3, 1.0, 0.7), (1, 0.5, 1.0), (1, 0.0, 2.0)]


@pytest.mark.slow
def test_c2st_agrees_with_scikit_learn_on_ten_pairs():
    """Same folds, same network, other initial weights and batches: mean difference within .01, none
    above .02.
    """
    gaps = []
    for i, (d, shift, scale) in enumerate(PAIRS):
        x, y = gaussian_pair(2000, d, shift=shift, scale=scale, seed=100 + i)
        gaps.append(c2st(x, y) - scikit_learn(x, y))
    assert np.mean(np.abs(gaps)) < 0.01
    assert np.max(np.abs(gaps)) < 0.02


GOOD = RNG.normal(size=(50, 2))
BAD = [
    (
        lambda f: f(GOOD, GOOD[:, :1]),
        errors.InvalidInputError,
        "same number of columns, got 2 and 1",
    ),
    (lambda f: f(GOOD[:5], GOOD), errors.InvalidInputError, "at least 10 draws, got 5"),
    (
        lambda f: f(GOOD, np.where(GOOD > 2, np.nan, GOOD) * [1, np.inf]),
        errors.InvalidInputError,
        "finite",
    ),
    (lambda f: f(GOOD, "draws"), errors.InvalidTypeError, "draws must be a rectangular array"),
    (lambda f: f(GOOD[None], GOOD), errors.InvalidInputError, "shape"),
]


@pytest.mark.parametrize("metric", [c2st, mmd, kolmogorov_smirnov])
@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_input(metric, call, kind, message):
    with pytest.raises(kind, match=message):
        call(metric)


def test_bad_input_of_c2st():
    with pytest.raises(errors.InvalidInputError, match="as many draws"):
        c2st(GOOD, GOOD[:40])
    with pytest.raises(errors.InvalidInputError, match="constant"):
        c2st(GOOD * [1.0, 0.0], GOOD)
    with pytest.raises(errors.InvalidInputError, match="num_folds"):
        c2st(GOOD, GOOD, num_folds=1)
    with pytest.raises(errors.InvalidInputError, match="median distance"):
        mmd(np.zeros((20, 2)), GOOD)
