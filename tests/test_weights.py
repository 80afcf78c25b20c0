"""Importance weights: what they are worth, and which rows they choose."""

import numpy as np
import pytest

from noisewise._core.weights import (
    effective_size,
    effective_size_of_logs,
    normalised,
    normalised_by_largest,
    rows_at,
    systematic_rows,
)

RNG = np.random.default_rng(0)


def test_weights_are_normalised_whatever_their_scale():
    log_weights = RNG.normal(size=100) - 5000.0
    expected = np.exp(log_weights + 5000.0) / np.exp(log_weights + 5000.0).sum()
    for weights in (normalised(log_weights), normalised_by_largest(log_weights)):
        np.testing.assert_allclose(weights, expected, rtol=1e-9)


def test_effective_sizes_agree():
    log_weights = np.r_[RNG.normal(size=100), -np.inf]
    size = effective_size(normalised(log_weights))
    assert effective_size_of_logs(log_weights + 700.0) == pytest.approx(size)
    assert effective_size_of_logs(np.full(3, -np.inf)) == 0.0


def test_rounding_chooses_no_row_without_weight():
    """Weights whose sum is below 1, and a place above it. Planted: places that are compared with the
    sums as they are fall beyond the last of them, and the last row is taken.
    """
    weights = np.r_[np.full(10, 0.1 - 1e-13), 0.0]
    place = 1.0 - 1e-13
    assert np.searchsorted(np.cumsum(weights), place) == 11
    assert rows_at(weights, np.array([place])).tolist() == [9]


def test_systematic_resampling_keeps_proportions():
    weights = RNG.dirichlet(np.ones(50))
    counts = np.bincount(systematic_rows(weights, 1000, 0.3), minlength=50)
    assert counts.sum() == 1000
    assert np.abs(counts - 1000 * weights).max() < 1.0 + 1e-9


def test_resampling_is_unbiased():
    """Counts of one particle are 0 or 1, with sd at most .5: a mean over 1000 starts is off by at
    most 4.5 of its standard errors.
    """
    weights = np.repeat([0.5, 0.3, 0.2], 20) / 20
    counts = np.mean(
        [
            np.bincount(systematic_rows(weights, 10, RNG.random()), minlength=60)
            for i in range(1000)
        ],
        axis=0,
    )
    assert np.abs(counts - 10 * weights).max() < 4.5 * 0.5 / np.sqrt(1000)


def test_nothing_without_weight_goes_on():
    weights = np.r_[0.0, 0.5, 0.0, 0.5, 0.0]
    assert set(systematic_rows(weights, 101, 0.5).tolist()) == {1, 3}
