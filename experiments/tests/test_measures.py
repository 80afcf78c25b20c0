import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import noisewise as nw
from experiments import measures

PROBLEM = nw.problems.gaussian_mean(epsilon=1.0)
KEY = jax.random.key(0)


def draws(shift=0.0, seed=0, num=400):
    return np.asarray(PROBLEM.truth) + shift + np.random.default_rng(seed).normal(size=(num, 1))


def test_draws_of_one_law_and_of_another():
    """400 draws of N(0, 1) against as many: MMD^2 has sd .5 / 400, KS is below 1.95 sqrt(2 / 400) =
    .138 in 99.9% of cases, C2ST .5 with an sd of .025 or so: four sds each. Shifted by two sds KS
    is 2 Phi(1) - 1 = .683 and the best classifier has Phi(1) = .841.
    """
    same = measures.measured(PROBLEM, draws(), draws(seed=1), KEY)
    assert abs(same["mmd"]) < 4 * 0.5 / 400
    assert same["ks"][0] < 0.138
    assert abs(same["c2st"] - 0.5) < 0.1
    other = measures.measured(PROBLEM, draws(), draws(2.0, seed=1), KEY)
    assert other["ks"][0] == pytest.approx(0.683, abs=0.1)
    assert other["c2st"] == pytest.approx(0.841, abs=0.06)
    assert other["mmd"] > 0.1


def test_the_density_of_the_truth(monkeypatch):
    """At the centre of N(0, 1), -log of it is log(2 pi) / 2 = .919; two sds off 2.919. A kernel
    estimate of 2000 draws smooths: .15.
    """
    monkeypatch.setattr(measures, "c2st", lambda first, second: 0.5)
    for shift in (0.0, 2.0):
        found = measures.measured(PROBLEM, draws(num=2000), draws(shift, 1, 2000), KEY)["nlog"]
        assert found == pytest.approx(-multivariate_normal(0.0, 1.0).logpdf(shift), abs=0.15)


def test_predictions_are_in_units_of_the_noise(monkeypatch):
    """Infection curves are counts out of 1000, which the paper measures as shares."""
    monkeypatch.setattr(measures, "c2st", lambda first, second: 0.5)
    problem = nw.problems.sir(epsilon=10.0)
    theta = np.asarray(problem.truth) + 0.05 * np.random.default_rng(0).normal(size=(40, 2))
    found = measures.measured(problem, theta, theta, KEY)["lmd"]
    away = np.linalg.norm((problem.observed - problem.model.simulate(KEY, theta)) / 1000.0, axis=1)
    assert found == pytest.approx(np.log(np.quantile(away, 0.5, method="lower")), rel=1e-5)


def test_distances_are_of_free_columns(monkeypatch):
    """Columns that are functions of others must not count: filled with anything, they change no
    distance.
    """
    monkeypatch.setattr(measures, "c2st", lambda first, second: float(first.sum() + second.sum()))
    problem = nw.problems.log_linear(epsilon=10.0)
    first, second = (problem.model.prior.sample(jax.random.key(i), 100) for i in (1, 2))
    found = measures.measured(problem, first, second, KEY)
    assert len(found["ks"]) == len(problem.free_columns) == 5
    bound = [i for i in range(first.shape[1]) if i not in problem.free_columns]
    wild = np.array(first)
    wild[:, bound] = np.random.default_rng(0).random((100, len(bound)))
    again = measures.measured(problem, wild, second, KEY)
    assert (again["mmd"], again["c2st"]) == (found["mmd"], found["c2st"])


def test_copies_are_left_out_as_far_as_possible():
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(200, 2))
    copied = np.repeat(exact, 2, axis=0)[rng.permutation(400)]
    assert len(np.unique(measures.spaced(copied, 200), axis=0)) == 200
    assert len(np.unique(copied[:200], axis=0)) < 170
