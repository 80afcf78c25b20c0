"""Posteriors that were saved before findings had kinds are read, and say what they said."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from noisewise import errors
from noisewise.posteriors import Kind, Report, StopKind, load_posterior
from noisewise.runs import read_run

OLD = Path(__file__).parent / "fixtures" / "old"
EXPECTED = json.loads((OLD / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_they_say_what_they_said(name, tmp_path):
    posterior = load_posterior(OLD / name)
    for again in (posterior, saved_again(posterior, tmp_path)):
        told, report = EXPECTED[name], again.report
        assert np.array_equal(again.theta, told["theta"])
        assert list(report.warnings) == told["warnings"]
        assert (report.stopped, report.exact) == (told["stopped"], told["exact"])
        assert report.diagnostics == told["diagnostics"]
        assert str(report) == told["shown"]
        assert {finding.kind for finding in report.findings} == {Kind.STATED}


def saved_again(posterior, folder):
    """The posterior after a file of this version."""
    posterior.save(folder / "again")
    return load_posterior(folder / "again")


@pytest.mark.parametrize("name", ["draws", "weighted", "learned"])
def test_one_that_is_replaced_leaves_no_old_arrays(name, tmp_path):
    """Its arrays were in a zip file, those of today are beside it until the manifest is written."""
    shutil.copytree(OLD / name, tmp_path / "p")
    posterior = load_posterior(tmp_path / "p")
    posterior.save(tmp_path / "p", overwrite=True)
    assert {path.name for path in (tmp_path / "p").iterdir()} == {
        "manifest.json",
        "arrays.safetensors",
    }
    again = load_posterior(tmp_path / "p")
    assert np.array_equal(again.theta, posterior.theta)
    assert again.report == posterior.report
    assert again.theta.flags.writeable
    assert again.theta.flags.aligned


def test_arrays_of_another_archive_are_refused(tmp_path):
    posterior = load_posterior(OLD / "draws")
    posterior.save(tmp_path / "one")
    posterior.theta[0, 0] += 1.0
    posterior.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "arrays.safetensors", tmp_path / "one")
    with pytest.raises(errors.FileFormatError, match="does not match its sha256"):
        load_posterior(tmp_path / "one")


def test_the_learnt_one_keeps_its_density():
    posterior = load_posterior(OLD / "learned")
    assert np.isfinite(posterior.log_prob(posterior.theta)).all()


def test_why_they_ended_and_the_power_have_their_types():
    reports = {name: load_posterior(OLD / name).report for name in EXPECTED}
    assert reports["draws"].stop.numbers == {"budget": 1200}
    assert 0.0 < reports["draws"].power < 0.01
    assert reports["draws"].partial
    assert "power" not in reports["draws"].numbers
    assert reports["learned"].stop.finished
    assert reports["learned"].power is None
    assert reports["run"].stop.kind is StopKind.BUDGET_SPENT


def test_a_run_directory_is_read(tmp_path):
    shutil.copytree(OLD / "run", tmp_path / "run")
    assert np.array_equal(load_posterior(tmp_path / "run").theta, EXPECTED["run"]["theta"])
    assert read_run(tmp_path / "run") is not None


OLD_SPEC = json.loads((OLD / "draws" / "manifest.json").read_text())["content"]["report"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"warnings": [1]},
        {"warnings": "a"},
        {"stopped": 3},
        {"diagnostics": {"power": "all"}},
        {"rounds": [1]},
        {"x": 1},
    ],
    ids=str,
)
def test_altered_ones_are_refused(wrong):
    with pytest.raises(errors.FileFormatError):
        Report.from_spec({**OLD_SPEC, **wrong})
