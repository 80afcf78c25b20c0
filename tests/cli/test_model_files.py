"""Whose code is run: no file of a directory decides it.

Planted, and caught: the path and the sha256 of command.json believed; a record of another request;
a file that is not compared with its sha256; records that others could have written.
"""

import hashlib
import importlib.util
import json
import marshal
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noisewise.cli import requests, targets
from noisewise.cli.app import app
from noisewise.cli.requests import remembered
from tests.cli.conftest import MODEL, fill

QUICK = ("--method", "importance", "--set", "num_final=300", "--set", "num_stages=0")
MARKER = Path("code was run")
EVIL = f"from pathlib import Path\nPath({str(MARKER)!r}).touch()\n{MODEL}"
OTHER = (
    MODEL + "\n\ndef clean_up(release):\n    from pathlib import Path\n   "
    f" Path({str(MARKER)!r}).touch()\n    return model(release)\n"
)


@pytest.fixture(scope="module")
def infer_once(tmp_path_factory):
    """A working directory and records of this machine in which one run was made; and copies of both."""
    places = {name: tmp_path_factory.mktemp(name) for name in ("work", "state", "before")}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(places["work"])
        patch.setenv("XDG_STATE_HOME", str(places["state"]))
        fill()
        shutil.copytree(places["work"], places["before"] / "empty")
        words = ("infer", "model.py:model", "--release", "release.json", *QUICK, "--out", "runs/a")
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (0, 3), result.stderr
    for name in ("work", "state"):
        shutil.copytree(places[name], places["before"] / name)
    return places


@pytest.fixture
def folder(infer_once, monkeypatch):
    """The working directory of a test, always the same, with the files of `conftest.folder`, and
    without records.
    """
    put_back(infer_once, work="empty", state=None)
    monkeypatch.chdir(infer_once["work"])
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_STATE_HOME", str(infer_once["state"]))
    return infer_once["work"]


@pytest.fixture
def mine(infer_once, folder):
    """A run of the user's own: made once, in this very place."""
    put_back(infer_once, work="work", state="state")
    return Path("runs/a")


def put_back(places, **copies):
    for name, copy in copies.items():
        for path in places[name].iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if copy is not None:
            shutil.copytree(places["before"] / copy, places[name], dirs_exist_ok=True)


@pytest.fixture
def theirs(mine):
    """A run that came from elsewhere, with a model beside it; the file, its sha256 and the rest
    fit.
    """
    shutil.copytree(mine, "downloads/b")
    Path("downloads/model.py").write_text(EVIL)
    _tell(
        Path("downloads/b"),
        path="../model.py",
        name="model",
        sha256=hashlib.sha256(EVIL.encode()).hexdigest(),
    )
    return Path("downloads/b")


def _tell(folder, **file):
    path = folder / "command.json"
    record = json.loads(path.read_text())
    record["file"] |= file
    path.write_text(json.dumps(record))


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("path", ["../model.py", "{absolute}", "../../downloads/model.py"])
def test_a_directory_from_elsewhere_runs_no_code(run, theirs, finished, path):
    _tell(theirs, path=path.format(absolute=Path("downloads/model.py").resolve()))
    if not finished:
        (theirs / "certificate.json").unlink()
        shutil.rmtree(theirs / "posterior")
    resumed = run("resume", theirs)
    assert resumed.exit_code == 1
    assert len(resumed.stderr.strip().splitlines()) == 1
    assert resumed.stderr.strip().endswith(
        "write noisewise resume downloads/b --model downloads/model.py"
    )
    reported = run("report", theirs)
    assert reported.exit_code == (0 if finished else 1)
    if finished:
        assert "write noisewise report downloads/b --model downloads/model.py" in reported.stderr
    assert run("compare", theirs, "runs/a").exit_code == (0 if finished else 1)
    assert (theirs / "report.html").exists()
    assert not MARKER.exists()


@pytest.mark.parametrize(
    "problem", ["downloads/evil.py", "evil.py", "downloads/evil.py:model", "EVIL.py", "evil_py"]
)
def test_no_ready_problem_is_a_file(run, theirs, problem):
    """Where the name of a ready problem stands, the name of a file is none."""
    for path in (Path("downloads/evil.py"), Path("evil.py")):
        path.write_text(EVIL)
    command = theirs / "command.json"
    command.write_text(
        json.dumps({**json.loads(command.read_text()), "problem": problem, "file": None})
    )
    for words in (("resume", theirs), ("resume", theirs, "--model", "evil.py"), ("report", theirs)):
        result = run(*words)
        assert result.exit_code == 1 or (words[0] == "report" and problem == "evil_py")
        assert len(result.stderr.strip().splitlines()) == 1
    with pytest.raises(requests.InvalidInputError):
        targets.load(requests.Request(target="evil.py", out=theirs, described=True))
    assert not MARKER.exists()


def test_who_names_the_file_runs_it(run, theirs):
    Path("read.py").write_text(EVIL)
    result = run("report", theirs, "--model", "read.py")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert MARKER.exists()
    assert run("resume", theirs).exit_code == 1
    assert run("resume", theirs, "--model", "read.py").exit_code == 0
    again = run("resume", theirs)
    assert again.exit_code == 0, again.stderr
    assert remembered(theirs).target == "read.py:model"


def test_reports_never_go_by_the_record(run, mine):
    """This machine knows the run and its model."""
    assert run("resume", mine).exit_code == 0
    Path("model.py").write_text(EVIL)
    result = run("report", mine)
    assert result.exit_code == 0
    assert "The report goes without what needs the model." in result.stderr
    assert not MARKER.exists()


def test_a_file_that_is_not_that_of_the_run_is_refused(run, theirs):
    result = run("resume", theirs, "--model", "model.py")
    assert result.exit_code == 1
    assert "model.py was changed since the run started" in result.stderr
    assert "takes a Python file" in run("resume", theirs, "--model", "release.json").stderr
    assert "no file none.py" in run("resume", theirs, "--model", "none.py").stderr


def test_no_file_decides_which_function_is_called(run, mine):
    """The user's own file has functions that are no models of this run."""
    Path("model.py").write_text(OTHER)
    _tell(mine, name="clean_up", sha256=hashlib.sha256(OTHER.encode()).hexdigest())
    for words in (
        ("resume", mine),
        ("resume", mine, "--model", "model.py"),
        ("report", mine, "--model", "model.py"),
    ):
        result = run(*words)
        assert "model.py:clean_up" in result.stderr
        assert not MARKER.exists()
    assert run("resume", mine, "--model", "model.py:clean_up").exit_code in (0, 3)
    assert MARKER.exists()


def test_a_record_is_of_one_run_one_request_and_one_file(run, mine):
    assert run("resume", mine).exit_code == 0
    shutil.copytree(mine, "runs/copy")
    assert "--model" in run("resume", "runs/copy").stderr
    mine.rename("runs/moved")
    assert "--model" in run("resume", "runs/moved").stderr
    Path("runs/moved").rename(mine)
    assert run("resume", mine).exit_code == 0
    command = mine / "command.json"
    record = json.loads(command.read_text())
    command.write_text(json.dumps({**record, "seed": 2}))
    assert "--model model.py" in run("resume", mine).stderr
    command.write_text(json.dumps(record))
    Path("model.py").write_text(EVIL)
    assert "model.py was changed" in run("resume", mine).stderr
    _tell(mine, sha256=hashlib.sha256(EVIL.encode()).hexdigest())
    assert "--model model.py" in run("resume", mine).stderr
    assert not MARKER.exists()


def test_the_place_that_a_directory_names_is_not_looked_at(run, mine):
    """The file is that of the record, wherever the directory says that it is."""
    Path("evil.py").write_text(EVIL)
    _tell(mine, path="../../evil.py")
    assert run("resume", mine).exit_code == 0
    assert remembered(mine).target == "model.py:model"
    assert not MARKER.exists()


def test_a_record_that_others_may_write_is_not_believed(run, mine):
    folder = Path(os.environ["XDG_STATE_HOME"]) / "noisewise" / "runs"
    assert len(list(folder.iterdir())) == 1
    folder.chmod(0o777)
    assert "--model model.py" in run("resume", mine).stderr


def test_without_records_the_way_to_go_on_is_told(run, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    result = run("infer", "model.py:model", "--release", "release.json", *QUICK, "--out", "runs/a")
    assert "noisewise resume runs/a --model model.py" in result.stderr
    assert run("resume", "runs/a").exit_code == 1
    assert run("resume", "runs/a", "--model", "model.py").exit_code == 0


def test_the_same_command_goes_on_with_a_run_of_before(run, mine):
    """A run of an earlier version, of which there is no record, or one that was moved: the user
    names the file.
    """
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]) / "noisewise")
    assert run("resume", mine).exit_code == 1
    assert (
        run("infer", "model.py", "--release", "release.json", *QUICK, "--out", mine).exit_code == 0
    )
    assert run("resume", mine).exit_code == 0


def test_what_was_checked_is_what_is_run(run, mine):
    """The file is replaced between the two."""
    request = remembered(mine)
    Path("model.py").write_text(EVIL)
    assert targets.load(request).model.names == ("mean",)
    assert not MARKER.exists()


def test_compiled_code_beside_a_model_is_not_run(run, mine):
    """Python's own loader takes what lies in __pycache__, whatever the source says."""
    planted = Path(importlib.util.cache_from_source("model.py"))
    planted.parent.mkdir(exist_ok=True)
    unchecked = (1).to_bytes(4, "little") + bytes(8)
    planted.write_bytes(
        importlib.util.MAGIC_NUMBER + unchecked + marshal.dumps(compile(EVIL, "model.py", "exec"))
    )
    assert run("resume", mine).exit_code == 0
    quick = ("--simulations", 1000, "--releases", 20, "--epsilon", 1)
    assert run("plan", "model.py", "--release", "release.json", *quick).exit_code == 0
    assert not MARKER.exists()


def test_what_a_directory_describes_cannot_be_run(mine):
    """A caller that forgets to ask gets an error, not code."""
    request = requests.described(mine)
    with pytest.raises(requests.InvalidInputError, match="no file in it decides what code runs"):
        targets.load(request)


def test_a_ready_problem_takes_no_model(run):
    assert run("infer", "gaussian-mean", *QUICK, "--out", "runs/a").exit_code == 0
    assert "leave out --model" in run("resume", "runs/a", "--model", "model.py").stderr
    assert run("resume", "runs/a").exit_code == 0
