"""The items that show draws on the epidemic."""

import dataclasses

import numpy as np
import pytest

from experiments import clouds, items, sir_marginals, sir_posteriors_by_round, sir_scatter
from experiments.tests import fakes

SCALE = dataclasses.replace(items.STANDARD, trials=2, num_draws=300)


@pytest.fixture
def result(monkeypatch):
    fakes.replace(monkeypatch)
    return sir_scatter.run(SCALE, items.silent)


def made(sppe, sple):
    """Means of log beta after each round, of two trials that lie to both sides; exact sds are .1
    and .2.
    """
    methods = {
        slug: {
            "mean": [[[m + 0.01, 0.0], [m - 0.01, 0.0]] for m in means],
            "sd": [[[0.2, 0.3]] * 2] * len(means),
            "outside": [[0.5, 0.0]] * len(means),
        }
        for slug, means in (("sppe", sppe), ("sple", sple))
    }
    exact = {"mean": [0.0, 0.0], "sd": [0.1, 0.2], "num_simulations": 0}
    abc = {"mean": [0.0, 0.0], "sd": [0.3, 0.4], "num_simulations": 282_682}
    return {
        "rounds": list(range(1, len(sppe) + 1)),
        "methods": methods,
        "exact": exact,
        "smc-abc": abc,
    }


def test_distances_are_in_exact_sds():
    """Trials at .31 and .29 are 3.1 and 2.9 exact sds off."""
    assert clouds.distance(made([0.3], [0.0]), "sppe", 0) == pytest.approx(3.0)
    assert clouds.distance(made([0.3], [0.0]), "sple", 0) == pytest.approx(0.1)


def test_draws_beyond_the_panels_are_counted():
    exact = {"mean": [0.0, 0.0], "sd": [1.0, 0.1]}
    draws = np.array([[6.9, 0.0], [7.1, 0.0], [0.0, 0.71], [0.0, -0.69]])
    assert clouds._outside(draws, exact) == 0.5


def test_tables_average_trials():
    assert "| SPPE, round 1 | 0.300 | 0.000 | 0.200 | 0.300 | 25% |" in clouds.table(
        made([0.3], [0.0])
    )


def test_rounds_until_near():
    text = sir_scatter.paragraph(made([0.3, 0.01, 0.0], [0.0, 0.3, 0.0]))
    assert (
        "SPPE has its mean within half an exact standard deviation of the exact one from round 2 on"
        in text
    )
    assert (
        "SPLE has its mean within half an exact standard deviation of the exact one first in"
        " round 1" in text
    )
    assert "in no round" in sir_scatter.paragraph(made([0.3], [0.0]))


def test_simulations_of_the_last_tolerance_are_told(result):
    """The round that was given up came to no tolerance: its simulations do not count."""
    assert result["smc-abc"]["num_simulations"] == fakes.ABC_COUNTS[-1]
    assert (
        "after 282,682 simulations, has standard deviations (0.300, 0.400)"
        in sir_posteriors_by_round.paragraph(made([0.3, 0.0], [0.3, 0.0]))
    )


def test_what_is_collected(result):
    assert result["rounds"] == list(range(1, 11))
    trial = fakes.get("sir", 10.0, "sple", 2, SCALE)
    np.testing.assert_allclose(result["methods"]["sple"]["mean"][4][1], trial.rounds[4]["mean"])
    np.testing.assert_allclose(
        result["methods"]["sppe"]["draws"]["3"],
        fakes.get("sir", 10.0, "sppe", 1, SCALE).draws[2][:250],
    )


def test_some_rounds_are_shown(monkeypatch):
    fakes.replace(monkeypatch)
    assert sir_posteriors_by_round.run(SCALE, items.silent)["rounds"] == [1, 2, 5, 10]


def test_marginals_are_of_rates_and_their_ratio(monkeypatch):
    fakes.replace(monkeypatch)
    found = sir_marginals.run(SCALE, items.silent)
    theta = fakes.get("sir", 10.0, "sppe", 2, SCALE).final.astype(float)
    rates = np.column_stack([np.exp(theta), np.exp(theta[:, 0]) / np.exp(theta[:, 1])])
    np.testing.assert_allclose(found["moments"]["sppe"][1]["mean"], rates.mean(axis=0))
    np.testing.assert_allclose(
        found["moments"]["sppe"][1]["high"], np.quantile(rates, 0.975, axis=0)
    )
    np.testing.assert_allclose(found["truth"], [np.exp(-0.5), np.exp(-3.0), np.exp(2.5)], rtol=1e-6)


def test_ratios_of_sds():
    moments = {
        slug: [{"mean": [1.0] * 3, "sd": [sd, sd, 2 * sd], "low": [0.0] * 3, "high": [2.0] * 3}]
        for slug, sd in (("exact", 1.0), ("smc-abc", 1.5), ("sppe", 0.9), ("sple", 1.0))
    }
    text = sir_marginals.paragraph({"moments": moments})
    assert "SMC-ABC 1.50, 1.50 and 1.50; SPPE 0.90, 0.90 and 0.90; SPLE 1.00, 1.00 and 1.00" in text
    assert "slightly more concentrated than SMC-ABC and SPLE" in text
    assert "over-concentrated" not in text
