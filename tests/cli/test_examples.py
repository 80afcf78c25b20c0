"""The commands of examples/seir/README.md, run as a reader would."""

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

import noisewise as nw
from tests.cli.conftest import ROOT, start

EXAMPLE = ROOT / "examples" / "seir"
COMMANDS = [
    shlex.split(line)[1:]
    for line in re.findall(r"^noisewise .*$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
]


@pytest.fixture
def example(tmp_path, monkeypatch):
    for name in ("model.py", "data.csv"):
        shutil.copy(EXAMPLE / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finished(*words):
    process = start(*words)
    out, err = process.communicate(timeout=1800)
    return process.returncode, out, err


def test_the_readme_has_three_commands_and_the_model_is_short():
    assert [command[0] for command in COMMANDS] == ["release", "infer", "report"]
    assert sum(1 for line in (EXAMPLE / "model.py").read_text().splitlines() if line.strip()) <= 30


def test_the_release_of_the_example(example):
    code, _, err = finished(*COMMANDS[0])
    assert code == 0, err
    published = nw.Release.load("release.json")
    assert published.guarantee == nw.PureDP(0.1)
    assert published.mechanism.sensitivity == 2.0
    assert len(published.values) == 11
    assert nw.Ledger("ledger.json").spent == nw.PureDP(0.1)


@pytest.mark.slow
def test_release_infer_report(example):
    for command in COMMANDS:
        code, out, err = finished(*command)
        assert code == 0, err
    assert out.strip() == os.path.join("runs", "seir", "report.html")
    assert "R0" in Path("runs/seir/report.html").read_text()
    summary = nw.load_posterior("runs/seir").summary()
    # noise is fresh in every run, so only gross errors show: the truth is (2.2, 8, .6), the
    # posterior sd about (.3, 5, .06)
    for name, truth in (("R0", 2.2), ("initial", 8.0), ("reporting", 0.6)):
        assert abs(summary.loc[name, "mean"] - truth) < 4.5 * summary.loc[name, "sd"]
