"""Draws by a population against laws in balls, whose moments are known."""

import jax
import numpy as np
import pytest
from scipy.stats import chi2

from noisewise.samplers.differential_evolution import differential_evolution

KEY = jax.random.key(0)
NUM = 2000


def start(dim):
    """Points in the ball, a third as wide as the law."""
    return 0.6 * np.random.default_rng(0).normal(size=(NUM, dim))


def standard_normal(z):
    return -0.5 * (z**2).sum(axis=1)


def errors(dim, square, log_density, inside):
    """How many standard errors the mean of |z|^2, and of each coordinate, are off what they are for
    N(0, I) in the ball |z|^2 < square.
    """
    z = differential_evolution(KEY, log_density, inside, start(dim)).z
    mass, second, fourth = (chi2.cdf(square, dim + more) for more in (0, 2, 4))
    mean = dim * second / mass
    sd = np.sqrt(dim * (dim + 2) * fourth / mass - mean**2)
    radial = ((z**2).sum(axis=1).mean() - mean) / sd * np.sqrt(NUM)
    return np.abs([radial, *(z.mean(axis=0) / np.sqrt(mean / dim) * np.sqrt(NUM))])


@pytest.mark.parametrize(("dim", "square"), [(1, 2.0), (3, 4.0), (12, 9.0), (20, 18.0)])
def test_a_normal_law_in_a_ball(dim, square):
    """2000 draws within 4.5 standard errors (level 2e-4 over all coordinates). Planted: a step that
    ignores the density, and one that ignores the ball.
    """
    ball = lambda z: (z**2).sum(axis=1) < square
    assert errors(dim, square, standard_normal, ball).max() < 4.5
    assert errors(dim, square, lambda z: np.zeros(len(z)), ball).max() > 4.5
    assert errors(dim, square, standard_normal, lambda z: np.ones(len(z), bool)).max() > 4.5


def test_draws_of_the_law_stay_so_and_part_from_their_copies():
    """Eight draws of N(0, I) in 2-D, 250 copies of each: all differ in the end, and are spread as
    the law; the same key gives the same draws.
    """
    copies = np.repeat(np.random.default_rng(1).normal(size=(8, 2)), 250, axis=0)
    everywhere = lambda z: np.ones(len(z), bool)
    found = differential_evolution(KEY, standard_normal, everywhere, copies)
    again = differential_evolution(KEY, standard_normal, everywhere, copies)
    assert np.array_equal(found.z, again.z)
    assert len(np.unique(found.z[:, 0])) == NUM
    assert (found.moves > 0).all()
    # sd of a mean 1 / sqrt(2000), of a variance sqrt(2 / 2000)
    assert (np.abs(found.z.mean(axis=0)) < 4.5 / np.sqrt(NUM)).all()
    assert (np.abs(found.z.var(axis=0) - 1.0) < 4.5 * np.sqrt(2.0 / NUM)).all()


def test_members_that_cannot_move_are_counted():
    point = lambda z: np.zeros(len(z), bool)
    found = differential_evolution(KEY, standard_normal, point, start(2), num_steps=5)
    assert not found.moves.any()
    assert np.array_equal(found.z, start(2))
