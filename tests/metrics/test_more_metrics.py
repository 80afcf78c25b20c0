"""NLOG, LMD, sliced Wasserstein and CDF error: against independent implementations, theory, and
their floors.
"""

import numpy as np
import pytest
from scipy.stats import norm, wasserstein_distance

from noisewise import errors
from noisewise.metrics import (
    cdf_error,
    log_median_distance,
    negative_log_density,
    sliced_wasserstein,
)


def null_pair(seed, num=2000, dim=2):
    return np.random.default_rng(seed).normal(size=(2, num, dim))


@pytest.mark.parametrize("dim", [1, 3])
def test_nlog_is_that_of_scikit_learn(dim):
    from sklearn.neighbors import KernelDensity

    rng = np.random.default_rng(0)
    draws, truth = 0.3 * rng.normal(size=(400, dim)), 0.1 * rng.normal(size=dim)
    expected = -KernelDensity(bandwidth="scott").fit(draws).score_samples(truth[None])[0]
    assert negative_log_density(truth, draws) == pytest.approx(expected, rel=1e-9)


def test_nlog_has_the_floors_it_states():
    """The kernel alone at a narrow posterior; the entropy plus .015 for unit normals in two
    dimensions, 60 truths, 4 standard errors.
    """
    assert negative_log_density(np.zeros(2), 1e-6 * null_pair(0)[0]) == pytest.approx(
        -0.696, abs=1e-3
    )
    assert negative_log_density(np.zeros(3), 1e-6 * null_pair(0, dim=3)[0]) == pytest.approx(
        -0.50, abs=2e-3
    )
    gaps = []
    for seed in range(60):
        draws, other = null_pair(seed)
        gaps.append(negative_log_density(other[0], draws) + norm.logpdf(other[0]).sum())
    assert abs(np.mean(gaps) - 0.015) < 4 * np.std(gaps) / np.sqrt(60)


def test_whitened_nlog_follows_the_scale_and_sees_what_the_papers_does_not():
    draws = null_pair(1)[0]
    narrow = 0.01 * draws
    assert negative_log_density(0.01 * np.ones(2), narrow, whiten=True) == pytest.approx(
        negative_log_density(np.ones(2), draws, whiten=True) + 2 * np.log(0.01), rel=1e-9
    )
    shifts = [
        negative_log_density(shift * np.ones(2), narrow, whiten=True)
        - negative_log_density(np.zeros(2), narrow, whiten=True)
        for shift in (0.02,)
    ]
    assert shifts[0] > 2.0  # two standard deviations in both columns: 4 nats without smoothing
    assert (
        abs(
            negative_log_density(0.02 * np.ones(2), narrow)
            - negative_log_density(np.zeros(2), narrow)
        )
        < 0.01
    )


def test_lmd_takes_the_lower_median_and_leaves_failures_out():
    simulated = np.concatenate([np.arange(1.0, 13.0)[:, None], [[np.nan]]])
    assert log_median_distance([0.0], simulated, log=False) == 6.0
    assert log_median_distance([0.0], simulated) == pytest.approx(np.log(6.0))


def test_sliced_wasserstein_in_one_dimension_is_the_distance_in_sd():
    x, y = null_pair(2, dim=1)
    assert sliced_wasserstein(7 * x, 7 * y) == pytest.approx(
        wasserstein_distance(x[:, 0], y[:, 0]) / x.std(), rel=1e-9
    )


def test_sliced_wasserstein_has_its_floor_and_sees_a_shift():
    """Null .041 with sd .010; a shift of .5 sd gives about .5 * 2 / pi = .32 in two dimensions."""
    values = [sliced_wasserstein(*null_pair(seed)) for seed in range(20)]
    assert abs(np.mean(values) - 0.041) < 4 * 0.010 / np.sqrt(20)
    x, y = null_pair(3)
    assert sliced_wasserstein(x, y + np.array([0.5, 0.0])) == pytest.approx(
        0.5 * 2 / np.pi, abs=0.05
    )


def test_cdf_error_is_an_integral_and_has_its_floor():
    """A shift delta of a normal: E|Phi(Z - delta) - Phi(Z)|, by quadrature; 20 null pairs within 4
    standard errors of .0100.
    """
    x, y = null_pair(4, num=20_000)
    z = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    expected = np.abs(norm.cdf(z - 0.5) - norm.cdf(z)).mean()
    assert cdf_error(x, y + np.array([0.5, 0.0]))[0] == pytest.approx(expected, abs=0.01)
    values = np.array([cdf_error(*null_pair(seed)) for seed in range(20)])
    assert abs(values.mean() - 0.0100) < 4 * 0.0040 / np.sqrt(40)


def test_cdf_error_of_equal_draws_is_zero_also_with_ties():
    x = np.random.default_rng(0).integers(0, 3, size=(500, 2)).astype(float)
    assert (cdf_error(x, x) == 0.0).all()
    assert (cdf_error(x, np.concatenate([x, x])) < 1e-12).all()


@pytest.mark.parametrize("metric", [sliced_wasserstein, cdf_error])
def test_bad_samples_are_refused(metric):
    x = null_pair(5)[0]
    for bad in (x[:, :1], x[:5], np.where(x > 3, np.nan, x)):
        with pytest.raises(errors.InvalidInputError):
            metric(x, bad)


def test_bad_points_are_refused():
    x = null_pair(6)[0]
    for metric in (negative_log_density, log_median_distance):
        for bad in ([0.0], [0.0, np.nan], [[0.0, 0.0]]):
            with pytest.raises(errors.InvalidInputError, match="2 finite numbers"):
                metric(bad, x)
    with pytest.raises(errors.InvalidInputError, match="constant"):
        negative_log_density([0.0, 0.0], np.c_[x[:, 0], np.ones(len(x))], whiten=True)
    with pytest.raises(errors.InvalidInputError, match="constant"):
        sliced_wasserstein(np.c_[x[:, 0], np.ones(len(x))], x)
