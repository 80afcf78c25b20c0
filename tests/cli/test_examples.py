"""The commands of the READMEs of examples/, run as a reader would."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import noisewise as nw
from tests.cli.conftest import ROOT, start

EXAMPLE = ROOT / "examples" / "seir"
KNOWN_LAWS = {
    "contingency": ("odds_ratio", 2.5),
    "small_area": ("mean", -4.6),
    "randomized_response": ("slope", 1.2),
}
"""A parameter of each example, and its truth."""


def lines(name, start):
    """The commands of an example's README that start so."""
    text = (ROOT / "examples" / name / "README.md").read_text()
    return [shlex.split(line)[1:] for line in re.findall(rf"^{start} .*$", text, re.MULTILINE)]


COMMANDS = lines("seir", "noisewise")


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


@pytest.fixture(params=KNOWN_LAWS)
def known_law(request, tmp_path, monkeypatch):
    for file in (ROOT / "examples" / request.param).iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return request.param


def released(name):
    """Make the data and the release of an example, in this folder."""
    ((script,),) = lines(name, "python")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, script], check=True, env=environment)
    for command in lines(name, "noisewise"):
        if command[0] == "release":
            code, _, err = finished(*command)
            assert code == 0, err


def test_examples_of_known_laws_make_releases_that_fit_their_models(known_law):
    kinds = [command[0] for command in lines(known_law, "noisewise")]
    assert kinds[-2:] == ["infer", "report"]
    released(known_law)
    spec = importlib.util.spec_from_file_location(f"{known_law}_model", "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    release = nw.Release.load("release.json")
    model = module.model(release)
    assert model.observation(release).shape == (model.private_width,)
    assert nw.inference.MarginalNUTS().supports(model)


@pytest.mark.slow
def test_examples_of_known_laws_from_release_to_report(known_law):
    """Noise is fresh in every run, so only gross errors show."""
    released(known_law)
    for command in lines(known_law, "noisewise"):
        if command[0] != "release":
            code, out, err = finished(*command)
            assert code == 0, err
    page = Path(out.strip())
    name, truth = KNOWN_LAWS[known_law]
    summary = nw.load_posterior(page.parent).summary()
    assert abs(summary.loc[name, "mean"] - truth) < 4.5 * summary.loc[name, "sd"]
    shown = "What the noise hides" in page.read_text()
    assert shown == (known_law != "randomized_response"), "counts are shown, single answers are not"
