"""Learnt posteriors at the paper's budget against exact ones: the committed grid, and some of its
cells again.

C2ST of 2000 draws against 2000: its standard deviation under equality is about .008, its value for
a shift of one coordinate by delta sd is Phi(delta / 2), so that .60 is half a standard deviation,
and .54 a fifth.
"""

import json

import jax
import numpy as np
import pytest

import noisewise as nw
from benchmarks.neural_accuracy import METHODS, RESULT, SETTINGS, cell, one_training, problem, score
from noisewise.posteriors import Draws, Report

LIMITS = {("cle", 10.0): 0.55, ("cle", 1.0): 0.52, ("cle", 0.1): 0.52}
KEY = jax.random.key(0)


def limit(method, epsilon):
    return LIMITS.get((method, epsilon), 0.60)


def committed():
    """(method, problem, epsilon) -> cells of 5 or more seeds."""
    groups = {}
    for record in json.loads(RESULT.read_text())["cells"]:
        groups.setdefault((record["method"], record["problem"], record["epsilon"]), []).append(
            record
        )
    return groups


def test_the_committed_grid_is_whole_and_within_its_limits():
    groups = committed()
    wanted = {
        (method, name, epsilon)
        for method in METHODS
        for name, epsilons in SETTINGS.items()
        for epsilon in epsilons
        if method != "cle" or name == "linear_regression"
    }
    assert set(groups) == wanted
    for (method, _, epsilon), cells in groups.items():
        assert len({record["seed"] for record in cells}) >= 5
        assert len({record["noisewise"] for record in cells}) == 1  # one version of the code
        assert all(record["simulations"] <= 10_000 for record in cells)
        assert np.median([record["c2st"] for record in cells]) <= limit(method, epsilon)


@pytest.mark.slow
def test_the_limits_see_a_shift_of_half_a_standard_deviation():
    """Exact draws pass with room to spare; moved by .6 sd in one coordinate (Phi(.3) = .618) they
    fail, by .3 sd (.56) they fail .54.
    """
    made = problem("linear_regression", 1.0)
    exact = made.reference(jax.random.key(5), 2000)
    values = []
    for shift in (0.0, 0.3, 0.6):
        moved = exact.copy()
        moved[:, made.free_columns[0]] += shift * exact[:, made.free_columns[0]].std()
        values.append(score(made, Draws(moved, made.model.names, Report("planted"))))
    assert values[0] < 0.525
    assert values[1] > 0.54
    assert values[2] > 0.60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "name", "epsilon"),
    [
        ("sppe-truncated", "sir", 10.0),
        ("sppe-atomic", "linear_regression", 1.0),
        ("sple", "log_linear", 10.0),
    ],
)
def test_a_cell_of_the_grid_comes_out_again(method, name, epsilon):
    """Within .05 of the committed median, some 4 standard deviations of a cell, and within the
    limit.
    """
    value = cell(method, name, epsilon, 1)["c2st"]
    median = np.median([record["c2st"] for record in committed()[method, name, epsilon]])
    assert value <= min(limit(method, epsilon), median + 0.05)


@pytest.mark.slow
def test_one_training_of_the_confidential_likelihood_serves_every_epsilon():
    for record in one_training("linear_regression", 1, "numba"):
        assert record["c2st"] <= limit("cle", record["epsilon"])
        assert record["simulations"] == 10_000


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [10.0, 1.0, 0.1])
@pytest.mark.parametrize("name", ["linear_regression", "sir"])
def test_50000_simulations_certify_and_correct_a_learnt_posterior(name, epsilon):
    made = problem(name, epsilon)
    method = nw.inference.PrivatePosteriorEstimation(num_rounds=4, num_noise=1)
    learnt = method.infer(KEY, made.model, made.observed, progress=False)
    certificate = nw.diagnostics.certify(
        jax.random.key(1), learnt, made.model, made.observed, 50_000, progress=False
    )
    assert certificate.verdict == "certified"
    assert score(made, certificate.corrected) <= 0.54
