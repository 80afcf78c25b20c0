import dataclasses

import numpy as np
import pytest

from experiments import items
from experiments import ks_heatmaps as item
from experiments.tests import fakes
from noisewise.metrics import kolmogorov_smirnov


@pytest.fixture
def result(monkeypatch):
    fakes.replace(monkeypatch)
    return item.run(dataclasses.replace(items.QUICK, trials=3, num_draws=400), items.silent)


def test_distances_are_kept_by_trial(result):
    rng = np.random.default_rng(0)
    sets = [[rng.normal(size=(50, 3)) for _ in range(num)] for num in (1, 3, 3)]
    made = item.distances(sets)
    assert [[len(each) for each in row] for row in made] == [[], [3], [3, 3]]
    np.testing.assert_allclose(made[2][1][2], kolmogorov_smirnov(sets[2][2], sets[1][2]))
    np.testing.assert_allclose(made[1][0][1], kolmogorov_smirnov(sets[1][1], sets[0][0]))
    assert item.between(result, "1", "sple", "sppe").shape == (3, 3)
    np.testing.assert_array_equal(
        item.between(result, "1", "sple", "sppe"), item.between(result, "1", "sppe", "sple")
    )
    assert result["draws"] == 200


def test_the_table_shows_means_over_trials_of_the_largest():
    """Largest .3 and .5: .4; the largest of the means over trials would be .35."""
    distances = [[[[0.0] * 3] * 2 for _ in range(a)] for a in range(len(item.METHODS))]
    distances[1][0] = [[0.3, 0.1, 0.2], [0.1, 0.5, 0.5]]
    distances[2][0] = [[0.08, 0.0, 0.0]] * 2
    floors = {
        "floor": {"10": {"mean": 0.05, "high": 0.0625}},
        "weighted": {"10": {"worth": 200, "mean": 0.07, "high": 0.09}},
    }
    made = {"distances": {"10": distances}, **floors, "draws": 800}
    assert item.to(made, "10", "exact", "da-mcmc") == pytest.approx(0.4)
    assert "| DA-MCMC | 0.40 | 0.00 |" in item.table(made)
    text = item.paragraph(made)
    assert "DA-MCMC 0.400," in text
    assert "exact draws would have 0.050 (less than 0.062 in 95% of cases; 200 of them," in text
    assert "less than 0.090), which DA-MCMC exceeds;" in text  # and SMC-ABC, at .080, does not
    assert "two sets of 800 draws" in text


def test_the_floor_is_what_exact_draws_have():
    """One coefficient, one trial: sqrt(n m / (n + m)) D has mean .8687 and 95% quantile 1.358 in
    the limit of many draws.

    With 500 draws sqrt(2 / 500) = .0632 of these, .0549 and .0859; D is a multiple of 1 / 500, and
    of 200 simulated ones the mean has an error of .0012 and the quantile one of about .004.
    """
    alone = item.floor(np.eye(1), 500, 1)
    assert alone["mean"] == pytest.approx(0.0549, abs=0.005)
    assert alone["high"] == pytest.approx(0.0859, abs=0.012)


def test_the_floor_knows_coefficients_trials_and_draws():
    """The largest of three has a larger mean; over five trials it varies less; of four times as
    many draws it is half as large.
    """
    one, three = item.floor(np.eye(1), 200, 5), item.floor(np.eye(3), 200, 5)
    assert three["mean"] > 1.2 * one["mean"]
    same = item.floor(np.full((3, 3), 0.999999) + 1e-6 * np.eye(3), 200, 5)
    assert same["mean"] == pytest.approx(one["mean"], rel=0.06)
    single = item.floor(np.eye(3), 200, 1)
    assert three["high"] - three["mean"] < 0.8 * (single["high"] - single["mean"])
    assert three["mean"] == pytest.approx(single["mean"], rel=0.06)
    assert item.floor(np.eye(3), 800, 5)["mean"] == pytest.approx(three["mean"] / 2, rel=0.08)


def test_exact_draws_lie_at_the_floor(result):
    """Draws of fakes have one law but for .02 sd: tables of all methods lie at the floor, and a
    shift of one sd does not.
    """
    found = [item.to(result, "10", slug, "exact") for slug in item.METHODS[1:]]
    floor = result["floor"]["10"]
    assert floor["mean"] * 0.75 < np.mean(found) < floor["high"] * 1.1
    rng = np.random.default_rng(0)
    shift = np.array([1.0, 0.0, 0.0])
    sets = [[rng.normal(size=(200, 3))], [shift + rng.normal(size=(200, 3)) for _ in range(3)]]
    assert np.mean(np.max(item.distances(sets)[1][0], axis=1)) > 2 * floor["high"]


def test_fewer_draws_have_a_larger_floor():
    """K of 500 draws: sqrt(1 / 500 + 1 / 100) = .1095 times .8687 for the mean of one, with an
    error of .26 .1095 / sqrt(200) = .002.
    """
    found = item.floor(np.eye(1), 500, 1, 100)
    assert (
        abs(found["mean"] - 0.0952) < 0.012
    )  # D is a multiple of 1 / 500 and smaller than its limit by about half of 1 / 100
    assert found["high"] > item.floor(np.eye(1), 500, 1)["high"]
