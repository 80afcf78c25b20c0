"""The space of statistics, found in simulations: lattices and where they end, corners, and how many
dimensions there are.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise import errors
from noisewise.inference.learned.common.statistic_space import (
    StatisticSpace,
    check_spread,
    lattice_step,
)

RNG = np.random.default_rng(0)
COLUMNS = {
    "counts": (RNG.poisson(30.0, 500).astype(float), 1.0),
    "proportions": (RNG.binomial(100, 0.3, 500) / 100, 0.01),
    "multiples of 3, shifted": (0.5 + 3.0 * RNG.poisson(5.0, 500), 3.0),
    "gaps of 2 and 3": (np.array([0.0, 2.0, 5.0] * 200), 1.0),
    "real numbers": (RNG.normal(size=500), 0.0),
    "real numbers with an atom": (np.maximum(RNG.normal(size=500), 0.0), 0.0),
    "far from zero": (1e6 + RNG.poisson(4.0, 500) / 8, 0.125),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_lattice_shows_in_its_values(name):
    values, step = COLUMNS[name]
    assert lattice_step(values) == pytest.approx(step, rel=1e-9)


def test_a_lattice_ends_where_values_pile_up():
    """0 is reached again and again; the largest of 500 values is not."""
    s = np.stack([RNG.geometric(0.3, 500) - 1.0, RNG.normal(size=500)], axis=1)
    space = StatisticSpace.of(s)
    assert space.low.tolist() == [0.0, -np.inf]
    assert space.high.tolist() == [np.inf, np.inf]
    with jax.enable_x64(True):
        points, weights = space.corners(jnp.array([-0.25, 0.5]), jnp.ones(2))
        np.testing.assert_allclose(weights, [0.25, 0.75])
        np.testing.assert_allclose(points[:, 0], [0.0, 0.0])  # all beyond an end belongs to it
        np.testing.assert_allclose(points[1], [0.0, 0.5])
        np.testing.assert_allclose(space.statistics(jnp.array([-3.0, 0.5])), [0.0, 0.5])
    assert space.contains(np.array([[-1.0, 0.5], [1.0, 0.5]])).tolist() == [False, True]


def test_corners_average_to_the_point_between():
    """With ramps of 1 the mean of the points around t is t itself; with short ramps, the nearest
    point.
    """
    s = np.stack(
        [np.tile(np.arange(10.0), 50), np.repeat(np.arange(5.0), 100), RNG.normal(size=500)], axis=1
    )
    space = StatisticSpace.of(s)
    assert space.lattices == (0, 1)
    t = np.array([3.3, 1.75, 0.123])
    with jax.enable_x64(True):
        points, weights = space.corners(jnp.asarray(t), jnp.ones(3))
        np.testing.assert_allclose(weights @ points, t)
        assert points.shape == (4, 3)
        points, weights = space.corners(jnp.asarray(t), jnp.full(3, 0.01))
        np.testing.assert_allclose(points[np.argmax(weights)], [3.0, 2.0, 0.123])
        assert weights.max() == 1.0
        np.testing.assert_allclose(space.statistics(jnp.asarray(t)), [3.0, 2.0, 0.123])


def test_full_statistics_pass_the_check_of_dimension():
    """Normal statistics of as many dimensions as there are columns, however narrow, and few
    simulations, which tell nothing.
    """
    z, noise = RNG.normal(size=(1000, 2)), RNG.normal(size=(1000, 5))
    check_spread(z, z[:, :1] + 1e-3 * noise, ())
    check_spread(z[:50], np.repeat(z[:50, :1], 5, axis=1), ())
    with pytest.raises(errors.MissingCapabilityError):
        check_spread(z, np.cos(z[:, :1] * np.arange(1, 6)) + 1e-9 * noise, ())
