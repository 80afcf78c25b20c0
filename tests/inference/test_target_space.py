"""The space in which private statistics are learnt: values of every support spread, found again,
weighed, and filed.
"""

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.stats import norm

from noisewise import errors
from noisewise.inference.learned.common.space_files import (
    read_target_space,
    target_space_arrays,
    target_space_spec,
)
from noisewise.inference.learned.likelihood.target_space import TargetSpace
from noisewise.mechanisms.supports import Blocks, Finite, Interval, Lattice, Real


@eqx.filter_jit
def spread(space, s_dp, u):
    return space(s_dp, u)


@eqx.filter_jit
def found_again(space, t, others):
    return space.inverse(t, others)


SPREADS = {
    "counts of a total": (Lattice(step=1.0, low=0.0, high=5.0), np.arange(6.0)),
    "counts": (Lattice(step=0.5, low=1.0), 1.0 + 0.5 * np.arange(6)),
    "counts downwards": (Lattice(step=2.0, high=4.0), 4.0 - 2.0 * np.arange(6)),
    "a lattice without ends": (Lattice(step=0.1), 0.1 * np.arange(-3, 3)),
    "choices": (Finite((0.0, 1.0, 5.0)), np.array([0.0, 1.0, 5.0])),
    "an interval": (Interval(-1.0, 2.0), np.array([-1.0, -0.9, 0.0, 1.9, 2.0])),
    "real numbers": (Real(), np.array([-3.0, 0.0, 10.0])),
}


@pytest.mark.parametrize("name", SPREADS)
def test_a_spread_value_is_found_again(name):
    support, values = SPREADS[name]
    space = TargetSpace.of(support, values[:, None], np.array([0]))
    u = np.tile([[1e-6], [0.3], [1.0 - 1e-6]], space.num_uniforms)
    with jax.enable_x64(True):
        t, _ = spread(space, values[:, None, None], u)
        found = np.asarray(found_again(space, t, np.zeros(t.shape)))
    np.testing.assert_allclose(
        found[..., 0], np.repeat(values[:, None], 3, axis=1)[:, : found.shape[1]], atol=1e-9
    )


@pytest.mark.parametrize(
    "name", [name for name in SPREADS if name not in ("real numbers", "an interval")]
)
def test_weights_turn_densities_into_probabilities(name):
    """E_u[q(t) w] is the integral of q over the cell, for any q: here a normal one, by 4096
    midpoints.

    Where w has an inverse square root at the edge, midpoints are off by up to 1 / sqrt(4096) = 1.6%
    of it.
    """
    support, values = SPREADS[name]
    space = TargetSpace.of(support, values[:, None], np.array([0]))
    u = np.concatenate([[1e-13, 1.0 - 1e-13], (np.arange(4096) + 0.5) / 4096])
    with jax.enable_x64(True):
        t, log_w = map(np.asarray, spread(space, values[:, None, None], u[:, None]))
    found = np.mean(norm.pdf(t[:, 2:, 0], 0.5, 0.7) * np.exp(log_w[:, 2:]), axis=1)
    exact = np.abs(np.diff(norm.cdf(t[:, :2, 0], 0.5, 0.7), axis=1))[:, 0]
    np.testing.assert_allclose(found, exact, rtol=0.016)


def test_the_mass_of_an_end_is_the_integral_beyond_it():
    space = TargetSpace.of(Interval(-1.0, 2.0), np.linspace(-1, 2, 9)[:, None], np.array([0]))
    u = (np.arange(4096) + 0.5) / 4096
    with jax.enable_x64(True):
        t, log_w = map(np.asarray, spread(space, np.array([[[-1.0]], [[2.0]]]), u[:, None]))
    found = np.mean(norm.pdf(t[..., 0], 0.5, 1.5) * np.exp(log_w), axis=1)
    np.testing.assert_allclose(found, [norm.cdf(-1.0, 0.5, 1.5), norm.sf(2.0, 0.5, 1.5)], rtol=1e-3)


def test_columns_that_are_left_out_come_from_elsewhere():
    support = Blocks((Real(), Lattice(step=1.0, low=0.0, high=9.0)), (2, 1))
    s_dp = np.array([[0.1, 7.0, 3.0], [0.2, 7.0, 4.0]])
    space = TargetSpace.of(support, s_dp, np.array([0, 2]))
    with jax.enable_x64(True):
        t, log_w = spread(space, s_dp, np.full((2, 3), 0.25))
        assert t.shape == (2, 2)
        assert log_w.shape == (2,)
        np.testing.assert_allclose(found_again(space, t, np.full((2, 3), 7.0)), s_dp)


@pytest.mark.parametrize("name", SPREADS)
def test_a_space_survives_a_file(name):
    support, values = SPREADS[name]
    blocks = Blocks((support, Real()), (1, 2))
    s_dp = np.concatenate(
        [values[:, None], np.random.default_rng(0).normal(size=(len(values), 2))], axis=1
    )
    space = TargetSpace.of(blocks, s_dp, np.array([0, 2]))
    again = read_target_space(target_space_spec(space), target_space_arrays(space), 3)
    u = np.full((len(values), space.num_uniforms), 0.3)
    with jax.enable_x64(True):
        for one, other in zip(spread(space, s_dp, u), spread(again, s_dp, u), strict=True):
            assert np.array_equal(one, other)
    assert (again.widths, again.kept) == (space.widths, space.kept)


@pytest.mark.parametrize(
    "change",
    [
        {"spreads": ["Steps"]},
        {"spreads": ["Other"]},
        {"widths": [4]},
        {"kept": [7]},
        {"kept": []},
        {"kept": [1, 0]},
    ],
)
def test_a_space_that_does_not_fit_is_refused(change):
    space = TargetSpace.of(Real(), np.ones((5, 3)), np.array([0, 1]))
    spec = target_space_spec(space)
    assert read_target_space(spec, target_space_arrays(space), 3).kept == (0, 1)
    with pytest.raises((errors.FileFormatError, KeyError)):
        read_target_space({**spec, **change}, target_space_arrays(space), 3)
