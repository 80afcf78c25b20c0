"""Atoms of a column become intervals, and intervals atoms again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.inference.learned.common.atoms import Atoms

RNG = np.random.default_rng(0)
CLAMPED = np.clip(RNG.normal(size=2000), -1.0, 1.5)


@pytest.fixture
def atoms():
    """A column clamped at both ends, one without atoms, and a lattice, which has cells instead."""
    columns = np.stack([CLAMPED, RNG.normal(size=2000), RNG.poisson(0.2, 2000)], axis=1)
    return Atoms.of(columns, np.array([0.0, 0.0, 1.0]))


def test_values_taken_again_and_again_are_found(atoms):
    """The shares are P(z < -1) = .159 and P(z > 1.5) = .067, within 4 errors of sqrt(p / n)."""
    assert atoms.at[:, 0].tolist() == [-1.0, 1.5]
    shares = np.asarray(atoms.width[:, 0]) / (2.5 * CLAMPED.std())
    np.testing.assert_allclose(shares, [0.1587, 0.0668], atol=4 * np.sqrt(0.16 / 2000))
    assert np.isinf(atoms.at[:, 1:]).all()
    assert not atoms.width[:, 1:].any()


def test_atoms_are_spread_and_joined_again(atoms):
    with jax.enable_x64(True):
        s = jnp.asarray(np.stack([CLAMPED, np.sinh(CLAMPED), np.round(CLAMPED)], axis=1))
        u = jnp.asarray(RNG.random(s.shape))
        r = atoms.spread(s, u)
        np.testing.assert_allclose(atoms.joined(r), s, atol=1e-12)
        np.testing.assert_array_equal(r[:, 1:], s[:, 1:])
        exactly = np.asarray(atoms.joined(r))[:, 0]
    assert ((exactly == -1.0) == (CLAMPED == -1.0)).all()
    assert len(np.unique(r[:, 0])) == len(r)
    ordered = np.argsort(CLAMPED, kind="stable")
    assert (np.diff(np.asarray(r)[ordered, 0])[np.diff(CLAMPED[ordered]) > 0.0] > 0.0).all()


def test_the_density_over_an_interval_is_the_probability(atoms):
    """With r uniform on an interval of width w its density is 1 / w: with log w the probability
    is 1, and off the atoms nothing is added.
    """
    with jax.enable_x64(True):
        s = jnp.asarray([[-1.0, 0.3, 0.0], [0.2, 0.3, 0.0]])
        widths = np.asarray(atoms.log_width(s))
    np.testing.assert_allclose(widths, [[np.log(atoms.width[0, 0]), 0, 0], [0, 0, 0]])


def test_columns_without_atoms_stay_as_they_are():
    none = Atoms.of(RNG.normal(size=(500, 2)), np.zeros(2))
    assert not none.any
    s = RNG.normal(size=(3, 2))
    assert none.spread(s, 0.5) is s
    assert none.joined(s) is s
