"""Published analyses: what is committed agrees, and the scripts run on the files where they are."""

import importlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from experiments.published import comparison, nigeria

FILES = {"nigeria": "nigeria_rr.csv", "new_zealand": "nz_injuries_rr3.csv"}


@pytest.mark.parametrize("name", FILES)
def test_committed_results_agree_with_what_was_published(name):
    script = importlib.import_module(f"experiments.published.{name}")
    result = json.loads((comparison.RESULTS / f"{name}.json").read_text())
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


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_scripts_run_on_the_files(name):
    folder = os.environ.get("NOISEWISE_REAL_FILES")
    path = Path(folder or "") / FILES[name]
    if not folder or not path.is_file():
        pytest.skip(f"{FILES[name]} is not here: set NOISEWISE_REAL_FILES to its folder")
    found = importlib.import_module(f"experiments.published.{name}").run(path, seed=1)
    assert found["agrees"], found["posterior"]
    assert name != "nigeria" or is_as_published(found["maximum likelihood"])
