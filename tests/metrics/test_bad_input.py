"""Every metric on what an analyst may pass by mistake: a typed error that says what to do, or the
right degenerate answer; never NaN.
"""

import jax
import numpy as np
import pytest

from noisewise import errors, metrics
from noisewise.posteriors import Draws, Report

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 60, 2))
POSTERIOR = Draws(X, ("a", "b"), Report("exact"))

OF_TWO_SETS = ("c2st", "cdf_error", "kolmogorov_smirnov", "mmd", "sliced_wasserstein")
OF_A_POINT = {"negative_log_density": "truth", "log_median_distance": "observed"}


def changed(row, value):
    array = X.copy()
    array[row, 1] = value
    return array


NOT_DRAWS = {
    "none": (None, errors.InvalidTypeError, "rectangular array of numbers"),
    "text": ("draws.npy", errors.InvalidTypeError, "rectangular array of numbers, got str"),
    "texts": ([["1.0", "2.0"]] * 20, errors.InvalidTypeError, "rectangular array of numbers"),
    "ragged": ([[1.0, 2.0], [1.0]] * 10, errors.InvalidTypeError, "rectangular array of numbers"),
    "objects": (
        changed(3, 0.0).astype(object),
        errors.InvalidTypeError,
        "rectangular array of numbers",
    ),
    "complex": (X + 1j, errors.InvalidTypeError, "rectangular array of numbers"),
    "a key": (jax.random.key(0), errors.InvalidTypeError, "rectangular array of numbers"),
    "a posterior": (POSTERIOR, errors.InvalidTypeError, r"posterior\.sample\(key, n\)"),
    "a number": (3.0, errors.InvalidInputError, "shape"),
    "three axes": (X[None], errors.InvalidInputError, "shape"),
    "empty": ([], errors.InvalidInputError, "at least 10 draws, got 0"),
    "no rows": (X[:0], errors.InvalidInputError, "at least 10 draws, got 0"),
    "no columns": (X[:, :0], errors.InvalidInputError, "shape"),
    "nine draws": (X[:9], errors.InvalidInputError, "at least 10 draws, got 9"),
    "infinity": (
        changed(5, -np.inf),
        errors.InvalidInputError,
        "1 of 60 rows hold NaN or infinity",
    ),
    "overflow": (1e200 * X, errors.InvalidInputError, "overflow: change units"),
}
NAN = {"nan": (changed(5, np.nan), errors.InvalidInputError, "1 of 60 rows hold NaN or infinity")}


def cases(table):
    return [pytest.param(*row, id=name) for name, row in table.items()]


def test_all_metrics_are_in_these_tables():
    assert {*OF_TWO_SETS, *OF_A_POINT} == set(metrics.__all__)


@pytest.mark.parametrize(("bad", "kind", "message"), cases({**NOT_DRAWS, **NAN}))
@pytest.mark.parametrize("name", OF_TWO_SETS)
def test_two_sets(name, bad, kind, message):
    metric = getattr(metrics, name)
    with pytest.raises(kind, match=message):
        metric(X, bad)
    with pytest.raises(kind, match=message):
        metric(bad, X)


@pytest.mark.parametrize("name", OF_TWO_SETS)
def test_two_sets_of_different_widths(name):
    with pytest.raises(errors.InvalidInputError, match="same number of columns, got 2 and 1"):
        getattr(metrics, name)(X, Y[:, :1])


@pytest.mark.parametrize(("bad", "kind", "message"), cases(NOT_DRAWS))
@pytest.mark.parametrize("name", OF_A_POINT)
def test_draws_beside_a_point(name, bad, kind, message):
    with pytest.raises(kind, match=message if "posterior" not in message else "posterior.sample"):
        getattr(metrics, name)([0.0, 0.0], bad)


@pytest.mark.parametrize(("name", "point"), OF_A_POINT.items())
def test_points(name, point):
    metric = getattr(metrics, name)
    for bad in ([0.0], [0.0, np.nan], [0.0, np.inf], [[0.0, 0.0]], 1.0, []):
        with pytest.raises(errors.InvalidInputError, match=f"{point} must be 2 finite numbers"):
            metric(bad, X)
    for bad in (None, "truth", [None, 0.0], ["0.0", "0.0"]):
        with pytest.raises(
            errors.InvalidTypeError, match=f"{point} must be a rectangular array of numbers"
        ):
            metric(bad, X)


@pytest.mark.parametrize("name", OF_A_POINT)
@pytest.mark.parametrize(
    ("draws", "point"),
    [(X, [0.0, 0.0]), (X[:, 0], [0.0]), (X[:, :1], 0.0)],
    ids=["2", "1", "number"],
)
def test_swapped_arguments_are_said_to_be_swapped(name, draws, point):
    with pytest.raises(errors.InvalidInputError, match="are the two swapped"):
        getattr(metrics, name)(draws, point)


def test_nan_is_an_error_for_nlog_and_a_failed_simulation_for_lmd():
    with pytest.raises(errors.InvalidInputError, match="1 of 60 rows"):
        metrics.negative_log_density([0.0, 0.0], changed(5, np.nan))
    kept = np.delete(X, 5, axis=0)
    assert metrics.log_median_distance(
        [0.0, 0.0], changed(5, np.nan)
    ) == metrics.log_median_distance([0.0, 0.0], kept)
    with pytest.raises(errors.InvalidInputError, match="at least 10 draws, got 0"):
        metrics.log_median_distance([0.0, 0.0], np.full((60, 2), np.nan))


def with_constant(values, constant):
    """A second column that does not vary, at a number whose mean over draws is not exact."""
    return np.c_[values[:, 0], np.full(len(values), constant)]


@pytest.mark.parametrize("name", ["c2st", "sliced_wasserstein"])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 / 3])
def test_constant_reference_columns_are_refused_where_they_have_no_scale(name, constant):
    """The sd of sixty copies of .1 is 1e-17, not 0: rounding must not pass for spread."""
    with pytest.raises(
        errors.InvalidInputError, match=r"Columns \[1\] of the reference are constant"
    ):
        getattr(metrics, name)(with_constant(X, constant), with_constant(Y, constant))


def test_constant_columns_have_their_degenerate_values():
    same, other = with_constant(X, 0.1), with_constant(Y, 0.2)
    assert metrics.kolmogorov_smirnov(same, same).tolist() == [0.0, 0.0]
    assert metrics.kolmogorov_smirnov(same, other)[1] == 1.0
    assert metrics.cdf_error(same, same).tolist() == [0.0, 0.0]
    assert metrics.cdf_error(same, other)[1] == 0.5
    assert metrics.mmd(same, with_constant(Y, 0.1)) == pytest.approx(
        metrics.mmd(X[:, :1], Y[:, :1]), rel=1e-9
    )
    with pytest.raises(errors.InvalidInputError, match="median distance is 0"):
        metrics.mmd(np.full((60, 2), 0.1), X)
    assert np.isfinite(metrics.negative_log_density([0.0, 0.1], same))
    with pytest.raises(errors.InvalidInputError, match="no density in all their columns"):
        metrics.negative_log_density([0.0, 0.1], same, whiten=True)
    assert metrics.log_median_distance([0.1, 0.1], np.full((20, 2), 0.1)) == -np.inf
    assert metrics.log_median_distance([0.1, 0.1], np.full((20, 2), 0.1), log=False) == 0.0


def test_columns_that_sum_to_a_constant_have_no_whitened_density():
    """The covariance is singular only up to rounding, which a Cholesky factor does not always
    notice.
    """
    for scale in (1.0, 1e-6, 1e3):
        p = RNG.dirichlet([2.0, 3.0, 4.0], size=400) * scale
        with pytest.raises(errors.InvalidInputError, match="sums to a constant"):
            metrics.negative_log_density(p.mean(axis=0), p, whiten=True)
        assert np.isfinite(metrics.negative_log_density(p.mean(axis=0)[:2], p[:, :2], whiten=True))


def test_draws_that_do_not_vary_are_told_from_a_reference_that_does():
    assert metrics.c2st(X, with_constant(X, 0.1)) > 0.6
    assert metrics.sliced_wasserstein(X, np.zeros_like(X)) > 0.3
    assert metrics.mmd(X, np.zeros_like(X)) > 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.c2st(X, Y[:50]), "as many draws"),
        (lambda: metrics.c2st(X, Y, num_folds=1), "num_folds"),
        (lambda: metrics.c2st(X, Y, seed=-1), "seed"),
        (lambda: metrics.sliced_wasserstein(X, Y, num_directions=0), "num_directions"),
        (lambda: metrics.sliced_wasserstein(X, Y, seed="one"), "seed"),
    ],
)
def test_settings(call, message):
    with pytest.raises(errors.NoisewiseError, match=message):
        call()
