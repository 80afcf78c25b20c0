"""What metrics say of exact draws against exact draws, as their docstrings state it, and C2ST
against theory.
"""

import jax
import numpy as np
import pytest
from scipy.stats import norm

import noisewise as nw
from noisewise.metrics import c2st, kolmogorov_smirnov, log_median_distance, mmd

NUM, REPEATS = 2000, 20


def exact_sets(problem, num_sets, seed=5):
    """Disjoint sets of `NUM` exact posterior draws, in random order."""
    draws = problem.reference(jax.random.key(seed), num_sets * NUM)
    return np.random.default_rng(seed).permutation(draws).reshape(num_sets, NUM, -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [nw.problems.gaussian_mean(1.0), nw.problems.linear_regression(10.0)],
    ids=lambda problem: problem.name,
)
def test_c2st_of_exact_against_exact(problem):
    """The mean of 20 repetitions is .50 +- .02, with a standard error of .0025.

    An accuracy over 4000 held-out rows has sd .5 / sqrt(4000) = .0079 if they were independent;
    folds share training rows, which was seen to raise it to .011. The sd of 20 values has a
    relative error of 1 / sqrt(38): within 4 of them the spread lies in [.003, .019].
    """
    sets = exact_sets(problem, 2 * REPEATS)
    values = [c2st(first, second) for first, second in zip(sets[::2], sets[1::2], strict=True)]
    assert np.mean(values) == pytest.approx(0.5, abs=0.02)
    assert 0.003 < np.std(values, ddof=1) < 0.019
    assert np.abs(np.array(values) - 0.5).max() < 0.02 + 4 * 0.0079


def normal_posterior(dim):
    """Exact posteriors that are normal, of independent means, side by side in standard deviations:
    (2 * REPEATS, NUM, dim).
    """
    problem = nw.problems.gaussian_mean(1.0, bounds=None, noise="gaussian")
    sets = [exact_sets(problem, 2 * REPEATS, seed) for seed in range(dim)]
    return np.concatenate([each / each.std() for each in sets], axis=2)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 2])
def test_c2st_of_a_shift_is_what_theory_predicts(dim):
    """A shift of .2 sd in one column: the best classifier is right with probability Phi(.1) =
    .5398.

    A mean of 20 values has a standard error of .0025, so that a metric stuck at .5 is 16 of them
    away from theory and fails by 8.
    """
    sets = normal_posterior(dim)
    shift = np.array([0.2, 0.0])[:dim]
    values = [
        c2st(first, second + shift) for first, second in zip(sets[::2], sets[1::2], strict=True)
    ]
    assert np.mean(values) == pytest.approx(norm.cdf(0.1), abs=0.02)


@pytest.mark.parametrize("dim", [1, 3])
def test_floors_of_distances(dim):
    """KS .027 with sd .008, below .043 in 95% of columns; MMD 0 with sd 3e-4: within 4 standard
    errors of 40 and 6 repetitions.
    """
    pairs = np.random.default_rng(dim).normal(size=(40, 2, NUM, dim))
    distances = np.concatenate([kolmogorov_smirnov(x, y) for x, y in pairs])
    assert abs(distances.mean() - 0.0272) < 4 * 0.0083 / np.sqrt(40)
    assert (distances > 0.043).mean() < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 40)
    values = [mmd(x, y) for x, y in pairs[:6]]
    assert abs(np.mean(values)) < 4 * 3.5e-4 / np.sqrt(6)


def test_floor_of_lmd():
    """-2.28 with sd .03 over simulations at 2000 exact draws of `gaussian_mean(1.0)`."""
    problem = nw.problems.gaussian_mean(1.0)
    simulated = problem.model.simulate(jax.random.key(7), problem.reference(jax.random.key(6), NUM))
    assert log_median_distance(problem.observed, simulated) == pytest.approx(-2.28, abs=4 * 0.03)
