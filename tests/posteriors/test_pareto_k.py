"""Pareto k: that of Vehtari et al. where weights differ, and right where discrete noise ties them."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import binom

from noisewise.posteriors import Report, WeightedSamples
from noisewise.posteriors.weighted_samples import MAX_PARETO_K, max_pareto_k, pareto_k

NUM = 10_000
"""Draws: those of the quick tries of `nw.infer`."""


def pareto(rng, shape, levels=0.0):
    """Log weights with this shape of tail, rounded down to levels as far apart."""
    log_weights = shape * rng.exponential(size=NUM)
    return levels * np.floor(log_weights / levels) if levels else log_weights


def found(make, seeds=40):
    return np.array([pareto_k(make(np.random.default_rng(seed))) for seed in range(seeds)])


def shape_by_arviz(log_weights):
    """Pareto k of the arviz that is installed; 1.x takes log likelihoods, of the other sign."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        if hasattr(arviz, "psislw"):
            return float(np.asarray(arviz.psislw(log_weights.copy())[1]))
        from arviz_stats.base import array_stats

        return float(np.asarray(array_stats.psislw(-log_weights)[1]))


def test_weights_on_few_levels_have_no_heavy_tail():
    log_weights = np.resize([0.0, 0.1, 0.2], 4000)
    posterior = WeightedSamples(
        np.zeros((4000, 1)), ("a",), Report("test"), log_weights=log_weights
    )
    assert posterior.pareto_k < 0.5


@pytest.mark.parametrize("num", [30, 400, 22_500])
@pytest.mark.parametrize("shape", [0.2, 0.7, 2.0])
def test_weights_without_ties_have_the_shape_that_arviz_finds(shape, num):
    """A fifth, and three square roots, are whole numbers, which 0.x rounds up and 1.x down."""
    log_weights = shape * np.random.default_rng(num).exponential(size=num)
    expected = shape_by_arviz(log_weights)
    assert pareto_k(log_weights) == pytest.approx(expected, abs=1e-12)
    assert pareto_k(log_weights + 1000.0) == pytest.approx(expected, abs=1e-9)
    impossible = np.concatenate([log_weights, np.full(num, -np.inf)])
    assert pareto_k(impossible) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("levels", [0.0, 0.1, 0.5, 1.0, 2.0])
def test_heavy_tails_are_found_on_levels_too(levels):
    """k = 1 and k = .5 of 10,000 weights, whose estimates have an sd of .11: 98% of the first are
    above .7, and of 40 at least 36 with probability .999; nearly none of the second is.
    """
    assert (found(lambda rng: pareto(rng, 1.0, levels)) > MAX_PARETO_K).sum() >= 36
    assert (found(lambda rng: pareto(rng, 0.5, levels)) > MAX_PARETO_K).sum() <= 8


def test_a_fit_to_tied_weights_misses_heavy_tails():
    """Planted: the fit as it is for weights without ties. Ties at its cut-off leave it little."""
    shapes = [shape_by_arviz(pareto(np.random.default_rng(seed), 1.0, 1.0)) for seed in range(40)]
    assert np.sum(np.array(shapes) > MAX_PARETO_K) < 36


BOUNDED = {
    "Laplace, slope 1": lambda rng: -1.0 * np.abs(np.round(10 * rng.normal(size=NUM)) - 20),
    "Laplace, slope 2": lambda rng: -2.0 * np.abs(np.round(10 * rng.normal(size=NUM)) - 20),
    "Laplace, slope 10": lambda rng: -10.0 * np.abs(np.round(10 * rng.normal(size=NUM))),
    "Laplace, slope .1": lambda rng: -0.1 * np.abs(np.round(50 * rng.normal(size=NUM)) - 100),
    "binomial": lambda rng: binom.logpmf(500, 1000, np.round(rng.beta(3, 3, size=NUM), 3)),
    "with a prior": lambda rng: (
        -5.0 * np.abs(np.round(3 * rng.normal(size=NUM))) + np.log(rng.uniform(0.5, 2, size=NUM))
    ),
    "equal": lambda rng: np.zeros(NUM),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_weights_on_levels_have_no_heavy_tail(name):
    assert found(BOUNDED[name], seeds=20).max() < 0.5


def test_few_draws_on_the_largest_level_show_no_bound():
    """Some ten of 10,000 draws hit the release exactly, and levels are 5 nats apart."""
    shapes = found(lambda rng: -5.0 * np.abs(np.round(50 * rng.normal(size=NUM)) - 100), seeds=20)
    assert shapes.min() > MAX_PARETO_K


def test_the_threshold_depends_on_the_number_of_draws():
    """Vehtari et al. 2024: min(1 - 1 / log10(S), .7)."""
    assert max_pareto_k(100) == pytest.approx(0.5)
    assert max_pareto_k(1000) == pytest.approx(2 / 3)
    assert max_pareto_k(2154) < MAX_PARETO_K
    assert max_pareto_k(2155) == max_pareto_k(10**9) == MAX_PARETO_K
    assert max_pareto_k(1) == -math.inf


def test_few_weights_have_no_shape():
    assert math.isnan(pareto_k(np.zeros(24)))
    assert pareto_k(np.append(np.zeros(24), np.full(100, -np.inf))) == math.inf
