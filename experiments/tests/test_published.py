"""Published analyses: what is committed agrees, and the scripts run on the files where they are."""

import importlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from experiments.published import comparison, mechanical_turk, minarets, nigeria

FILES = {
    "nigeria": "nigeria_rr.csv",
    "new_zealand": "nz_injuries_rr3.csv",
    "minarets": "minarets_sld.csv",
    "mechanical_turk": "mturk_dice_rr.csv",
    "wikimedia": "wikimedia_au_pages.csv",
}


def result_of(name):
    return json.loads((comparison.RESULTS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["nigeria", "new_zealand"])
def test_committed_results_agree_with_what_was_published(name):
    script = importlib.import_module(f"experiments.published.{name}")
    result = result_of(name)
    assert comparison.agrees(result["posterior"])
    for row, (mean, sd) in script.PUBLISHED.items():
        found = result["posterior"][row]
        assert (found["published mean"], found["published sd"]) == (mean, sd)
        # means have Monte Carlo errors of 1 / sqrt(size) sds
        assert abs(found["mean"] - mean) <= (comparison.LARGEST + 1e-9) * sd


def test_a_mean_that_is_off_is_caught():
    """Planted: .2 sd off, and chains that have not settled."""
    good = np.random.default_rng(0).normal(size=(4, 2000))
    rows = comparison.compared({"a": good}, {"a": (0.0, 1.0)})
    assert comparison.agrees(rows)
    assert not comparison.agrees(comparison.compared({"a": good + 0.2}, {"a": (0.0, 1.0)}))
    apart = good + np.arange(4)[:, None] - 1.5
    assert not comparison.agrees(comparison.compared({"a": apart}, {"a": (0.0, 1.0)}))


def is_as_published(found):
    """The estimates to 5e-5, both kinds of errors to 1%, the log likelihood to its last digit."""
    return (
        np.allclose(found["estimate"], nigeria.ESTIMATES, rtol=0.0, atol=5e-5)
        and np.allclose(found["standard errors"], nigeria.FROM_INFORMATION, rtol=0.01)
        and np.allclose(found["from scores"], nigeria.FROM_SCORES, rtol=0.01)
        and abs(found["log likelihood"] - nigeria.LOG_LIKELIHOOD) < 5e-4
    )


def test_the_committed_maximum_likelihood_is_the_published_one():
    result = json.loads((comparison.RESULTS / "nigeria.json").read_text())["maximum likelihood"]
    assert is_as_published(result)
    swapped = result | {"from scores": result["standard errors"]}  # planted
    assert not is_as_published(swapped)


@pytest.mark.parametrize("name", ["minarets", "mechanical_turk", "wikimedia"])
def test_committed_results_of_other_files_agree(name):
    """What each script asks of itself."""
    assert result_of(name)["agrees"]


def test_committed_numbers_of_surveys_are_the_published_ones():
    found = result_of("wikimedia")
    assert (found["days"], found["published days"]) == (366, 100)
    kept, dropped = found["working days by month"], found["where suppressed days are dropped"]
    assert np.subtract(dropped, kept).min() > 10.0  # who drops them is far off in every month
    found = result_of("minarets")
    estimates = np.array([found["maximum likelihood"][key] for key in minarets.NAMES])
    assert np.allclose(estimates, minarets.ESTIMATES, rtol=0.0, atol=1e-3)
    assert abs(found["log likelihood"][0] - minarets.LOG_LIKELIHOOD) <= 0.01
    means = np.array([found["posterior"][key]["mean"] for key in minarets.NAMES])
    assert not np.allclose(means, minarets.ESTIMATES, rtol=0.0, atol=1e-3)  # planted: skewed
    for name, ends in mechanical_turk.PUBLISHED.items():
        row = result_of("mechanical_turk")["posterior"][name]
        assert np.allclose([row["2.5%"], row["97.5%"]], ends, rtol=0.0, atol=0.002)
        assert row["effective size"] >= mechanical_turk.LEAST_SIZE


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_scripts_run_on_the_files(name):
    folder = os.environ.get("NOISEWISE_REAL_FILES")
    path = Path(folder or "") / FILES[name]
    if not folder or not path.is_file():
        pytest.skip(f"{FILES[name]} is not here: set NOISEWISE_REAL_FILES to its folder")
    found = importlib.import_module(f"experiments.published.{name}").run(path, seed=1)
    assert found["agrees"], found.get("posterior", found)
    assert name != "nigeria" or is_as_published(found["maximum likelihood"])
