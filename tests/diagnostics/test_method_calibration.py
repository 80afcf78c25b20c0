"""Calibration of every method on the private normal mean, the mean and its exact log likelihood
being ranked.

Cases, settings and the problem are those of `benchmarks/calibration.py`, whose table is
`docs/calibration.md`. Eleven methods should pass, each at alpha = .05 / 11, so that one of them
fails by chance for at most 5% of keys; the key is fixed and was not chosen. At that alpha a bias of
.3 sd, and an sd of .8 or 1.25 times the right one, are caught by 500 trials, as is shown here on
the exact posterior. Approximate Bayesian computation is reported.
"""

import json

import pytest

from benchmarks.calibration import ALPHA, CASES, PAGE, RESULT, Exact, calibrated, page, run, workers

SHOULD_PASS = [name for name, case in CASES.items() if case.passes]
SHOULD_FAIL = [name for name, case in CASES.items() if case.passes is False]
REPORTED = [name for name, case in CASES.items() if case.passes is None]


@pytest.fixture(scope="module")
def pool():
    with workers() as executor:
        yield executor


def test_the_page_is_that_of_the_results():
    """Nothing typed by hand, nothing out of date: cases that have been run are there in their
    order, and what should pass does.
    """
    result = json.loads(RESULT.read_text())
    assert page(result) == PAGE.read_text()
    run_so_far = {row["method"] for row in result["rows"]}
    assert [row["method"] for row in result["rows"]] == [
        name for name in CASES if name in run_so_far
    ]
    assert len(run_so_far) >= 8
    for row in result["rows"]:
        case = CASES[row["method"]]
        assert row["settings"] == json.loads(json.dumps(case.method.settings()))
        assert row["should pass"] == case.passes
        assert case.passes is None or row["passed"] == case.passes


def test_the_gates_as_a_family_rarely_fail_by_chance():
    assert len(SHOULD_PASS) * ALPHA <= 0.05 + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", [{"bias": 0.3}, {"bias": -0.3}, {"stretch": 0.8}, {"stretch": 1.25}], ids=str
)
def test_the_gate_catches_planted_faults(wrong):
    assert calibrated(Exact(), 500).passed
    assert not calibrated(Exact(**wrong), 500).passed


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOULD_PASS)
def test_right_methods_pass(name, pool, record_property):
    found = run(name, pool)
    record_property("calibration", found.to_spec())
    assert found.num_trials >= CASES[name].num_trials
    assert found.passed, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOULD_FAIL)
def test_methods_that_ignore_the_noise_fail(name, pool, record_property):
    found = run(name, pool)
    record_property("calibration", found.to_spec())
    assert not found.passed, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", REPORTED)
def test_approximate_bayesian_computation_is_reported(name, pool, record_property):
    """No verdict is asked for: a tolerance widens the posterior, and whether that shows depends on
    it.
    """
    found = run(name, pool)
    record_property("calibration", found.to_spec())
    assert found.num_trials == CASES[name].num_trials
    assert set(found.p_values) == {"mean", "log likelihood"}
    assert str(found).startswith(("passed. ", "failed. "))
