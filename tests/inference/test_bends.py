"""Columns with heavy tails, bent; their atoms, whose lengths are those of bent values."""

import numpy as np
import pytest

from noisewise.inference.learned.common.atoms import Atoms
from noisewise.inference.learned.common.bends import Bend
from noisewise.inference.learned.common.statistic_space import StatisticSpace

RNG = np.random.default_rng(5)


def test_only_heavy_tails_are_bent_and_back():
    """Normal and uniform columns stay; a lognormal column of sd 1.5 loses its tail."""
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=5000), rng.random(5000), np.exp(1.5 * rng.normal(size=5000))]
    t = np.stack(columns, axis=1)
    bend = Bend.of(t)
    assert (bend.scale > 0.0).tolist() == [False, False, True]
    bent = bend(t)
    np.testing.assert_array_equal(bent[:, :2], t[:, :2])
    assert np.ptp(bent[:, 2]) / bent[:, 2].std() < np.ptp(t[:, 2]) / t[:, 2].std() / 3.0
    np.testing.assert_allclose(bend.inverse(bent), t, rtol=1e-9)
    step = 1e-6
    slopes = (bend(t + step) - bend(t - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(bend.log_slope(t)), slopes, rtol=1e-4)
    np.testing.assert_array_equal(Bend.none(3)(t), t)


def test_one_tail_is_bent_from_the_other_end():
    """Slopes of a count with one heavy tail only fall; those of a Cauchy column peak at its
    middle.
    """
    rng = np.random.default_rng(0)
    t = np.stack([np.exp(1.5 * rng.normal(size=5000)), rng.standard_cauchy(5000)], axis=1)
    t = np.sort(np.concatenate([t, -t[:, :1]], axis=1), axis=0)
    slopes = Bend.of(t).log_slope(t)
    assert (np.diff(slopes[50:, 0]) <= 0.0).all()
    assert 0.45 < np.argmax(slopes[:, 1]) / 5000 < 0.55
    assert (np.diff(slopes[:-50, 2]) >= 0.0).all()


def test_bent_columns_of_one_value_are_left_alone():
    t = np.append(np.zeros(990), np.arange(10.0))[:, None]
    np.testing.assert_array_equal(Bend.of(t)(t), t)


@pytest.mark.parametrize("scale", [0.02, 5.0])
def test_the_scale_is_the_one_that_makes_a_column_normal(scale):
    """a sinh of a normal column of sd 3: a comes back within a factor of 1.5, the grid of a third
    and an error of 5% from 2,000 values; half the quartiles, as a scale, would be 3.7 a.
    """
    normal = 3.0 * RNG.normal(size=5000)
    column = (7.0 + scale * np.sinh(normal))[:, None]
    bend = Bend.of(column)
    assert 1 / 1.5 < bend.scale[0] / scale < 1.5
    assert abs(bend.centre[0] - 7.0) < scale
    bent = bend(column)[:, 0]
    assert abs(np.mean((bent - bent.mean()) ** 4) / bent.var() ** 2 - 3.0) < 0.6


def epidemics(num):
    """Counts over six powers of ten, none in a third of the rows, as the cases of an early week."""
    counts = np.floor(10.0 ** (6.0 * RNG.random(num)))
    return np.where(RNG.random(num) < 0.35, 0.0, counts)


def test_small_counts_are_told_from_none_where_large_ones_decide_the_spread():
    """0 and 10 lie a tenth of a standard deviation apart and more, as do 1,000 and 2,000; with a
    scale of half the upper quartile, 10,000 and more, all of them would lie within .05.
    """
    s = epidemics(5000)[:, None]
    space = StatisticSpace.of(s)
    assert not space.atoms.any
    assert space.bend.centre[0] == 0.0
    sd = space.targets(s, 0.5).std()
    few, more = (
        np.ptp(space.targets(np.array(pair)[:, None], 0.5)) for pair in ([0.0, 10.0], [1e3, 2e3])
    )
    assert min(few, more) > 0.1 * sd


def test_an_atom_beside_a_heavy_tail_is_as_long_as_its_share_of_bent_values():
    """Zeros among real values over six powers of ten: the interval takes 2.5 x its share of the
    usual sd of the others, bent; they come back, and zeros as zeros.
    """
    s = np.where(RNG.random(4000) < 0.35, 0.0, 10.0 ** (6.0 * RNG.random(4000)))[:, None]
    space = StatisticSpace.of(s)
    u = RNG.random(s.shape)
    t = space.targets(s, u)
    length, zero = np.ptp(t[s == 0.0]), s[:, 0] == 0.0
    others = Bend.of(s)(s)[~zero]
    low, high = np.quantile(others, [0.25, 0.75])
    assert abs(length / (2.5 * 0.35 * (high - low) / 1.349) - 1.0) < 0.1
    assert length < 2.0 * t.std()
    again = np.asarray(space.statistics(t))
    np.testing.assert_allclose(again, s, rtol=1e-6)
    assert (again[zero] == 0.0).all()


def test_atoms_of_columns_that_are_not_bent_are_what_they_were():
    values = np.where(RNG.random(2000) < 0.3, 0.1, RNG.normal(size=2000))[:, None]
    plain, beside = Atoms.of(values, np.zeros(1)), Atoms.of(values, np.zeros(1), Bend.none(1))
    np.testing.assert_array_equal(plain.width, beside.width)
