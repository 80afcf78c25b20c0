"""A ledger from which something was taken, that was put back, exchanged, copied or moved."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import noisewise as nw
from noisewise.disclosure import seal
from noisewise.errors import BudgetError, FileFormatError, NoisewiseError

Pure = nw.PureDP
LIMIT, MOST = Pure(1.0), Pure(0.75)


@pytest.fixture
def path(tmp_path):
    """A ledger with two entries of which a quarter is left."""
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=LIMIT)
    ledger.spend(Pure(0.25), "first")
    ledger.spend(Pure(0.5), "second")
    return ledger.path


@pytest.fixture(params=["both records", "none at home", "none beside"])
def records(request, path, monkeypatch, tmp_path):
    """Where the count is kept apart: in two places, or in one of them."""
    if request.param == "none at home":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "nowhere"))
    elif request.param == "none beside":
        seal.lock_path(path).write_text("")
    return request.param


def changed(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


CHANGES = {
    "emptied": lambda value: value["entries"].clear(),
    "last entry removed": lambda value: value["entries"].pop(),
    "first entry removed": lambda value: value["entries"].pop(0),
    "a smaller cost": lambda value: value["entries"][0]["guarantee"].update(epsilon=0.01),
    "another order": lambda value: value["entries"].reverse(),
    "a larger limit": lambda value: value["limit"].update(epsilon=5.0),
    "another unit": lambda value: value.update(privacy_unit="household"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_entries_that_do_not_fit_the_seal_are_noticed(path, name):
    changed(path, CHANGES[name])
    with pytest.raises(FileFormatError, match="altered"):
        nw.Ledger(path)


def resealed(value):
    facts = {"limit": value["limit"], "privacy_unit": value["privacy_unit"]}
    value["seal"] = seal.chain(value["id"], facts, value["entries"])[-1]


@pytest.mark.parametrize(
    "name", ["emptied", "last entry removed", "a smaller cost", "another order"]
)
def test_a_seal_that_was_made_again_does_not_fit_what_is_kept_apart(path, name, records):
    def change(value):
        CHANGES[name](value)
        resealed(value)

    changed(path, change)
    with pytest.raises(BudgetError, match="earlier state, or entries were removed"):
        nw.Ledger(path)


def test_a_ledger_put_back_to_an_earlier_state_is_noticed(tmp_path, monkeypatch):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=LIMIT)
    before = ledger.path.read_bytes()
    ledger.spend(MOST)
    ledger.path.write_bytes(before)
    for call in (
        lambda: nw.Ledger(ledger.path),
        lambda: ledger.spend(MOST),
        lambda: ledger.remaining,
    ):
        with pytest.raises(BudgetError, match="earlier state"):
            call()


def test_a_whole_folder_put_back_is_noticed_at_home(path):
    shutil.copytree(path.parent, path.parent.with_name("backup"))
    nw.Ledger(path).spend(Pure(0.2))
    shutil.rmtree(path.parent)
    shutil.copytree(path.parent.with_name("backup"), path.parent)
    with pytest.raises(BudgetError, match="earlier state"):
        nw.Ledger(path)


def test_a_ledger_that_is_gone_or_exchanged_is_noticed_beside(path, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "nowhere"))
    other = nw.Ledger(tmp_path / "other.json", limit=LIMIT).path
    path.unlink()
    with pytest.raises(BudgetError, match="is gone, but had 2 entries"):
        nw.Ledger(path, limit=LIMIT)
    other.rename(path)
    with pytest.raises(BudgetError, match="is not the ledger that was here"):
        nw.Ledger(path)
    path.write_text(json.dumps({**json.loads(OLD), "entries": []}))
    with pytest.raises(FileFormatError, match="seal is gone"):
        nw.Ledger(path)


def without_lock(path):
    path.unlink()
    seal.lock_path(path).unlink()


def test_a_ledger_deleted_with_its_lock_and_begun_again_is_noticed_at_home(path):
    without_lock(path)
    with pytest.raises(BudgetError, match="is gone, but had 2 entries"):
        nw.Ledger(path, limit=LIMIT)


def test_a_fresh_ledger_in_its_place_is_noticed_at_home(path):
    other = nw.Ledger(path.with_name("other.json"), limit=LIMIT).path
    without_lock(path)
    other.rename(path)
    with pytest.raises(BudgetError, match="is not the ledger that was here"):
        nw.Ledger(path)


def test_a_file_of_the_first_version_in_its_place_is_noticed_at_home(path):
    without_lock(path)
    path.write_text(json.dumps({**json.loads(OLD), "entries": []}))
    with pytest.raises(FileFormatError, match="seal is gone"):
        nw.Ledger(path)


def test_another_ledger_may_stand_where_one_was_moved_away(path):
    new = path.with_name("moved.json")
    path.rename(new)
    seal.lock_path(path).rename(seal.lock_path(new))
    assert nw.Ledger(new).spent == MOST
    assert nw.Ledger(path, limit=LIMIT).spent == Pure(0.0)


def test_a_folder_that_is_made_again_is_another_place(tmp_path):
    for _ in range(2):
        folder = tmp_path / f"data{_}"
        folder.mkdir()
        nw.Ledger(folder / "ledger.json", limit=LIMIT).spend(MOST)
        folder.rename(tmp_path / f"archive{_}")


def test_a_copied_folder_of_another_user_is_said_to_be_unknown(path, tmp_path, monkeypatch):
    shutil.copytree(path.parent, path.parent.with_name("copied"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.with_name("elsewhere")))
    with pytest.warns(UserWarning, match="knows nothing"):
        nw.Ledger(path.parent.with_name("copied") / "ledger.json")


def test_a_relative_state_folder_does_not_count(monkeypatch, tmp_path):
    from noisewise._core import local_records

    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local_records.state_folder() == tmp_path / ".local" / "state" / "noisewise"


def test_a_copy_is_refused_with_or_without_its_lock(path):
    bare, whole = path.with_name("bare.json"), path.with_name("whole.json")
    shutil.copy(path, bare)
    shutil.copy(path, whole)
    shutil.copy(seal.lock_path(path), seal.lock_path(whole))
    for copy in (bare, whole):
        with pytest.raises(BudgetError, match=r"is a copy of .*ledger\.json"):
            nw.Ledger(copy)
    assert nw.Ledger(path).spent == MOST


def test_a_hard_link_is_the_same_ledger_and_a_copy_after_it_comes_apart(path):
    link = path.with_name("link.json")
    os.link(path, link)
    assert nw.Ledger(link).path == path
    nw.Ledger(link).spend(Pure(0.125))
    assert nw.Ledger(path).spent == Pure(0.875)
    with pytest.raises(BudgetError, match="copy"):
        nw.Ledger(link)


def test_a_moved_ledger_goes_on_and_the_old_place_is_then_a_copy(path):
    new, kept = path.with_name("moved.json"), path.read_bytes()
    path.rename(new)
    seal.lock_path(path).rename(seal.lock_path(new))
    nw.Ledger(new).spend(Pure(0.125))
    assert nw.Ledger(new).spent == Pure(0.875)
    path.write_bytes(kept)
    with pytest.raises(BudgetError, match=r"copy of .*moved\.json"):
        nw.Ledger(path)


def test_a_ledger_of_another_machine_is_believed_and_said_so(path, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    seal.lock_path(path).unlink()
    with pytest.warns(UserWarning, match="This machine knows nothing"):
        nw.Ledger(path)
    nw.Ledger(path).spend(Pure(0.2))
    with pytest.raises(BudgetError):
        nw.Ledger(path).spend(Pure(0.2))


OLD = """{"schema": "noisewise.ledger", "schema_version": 1, "limit": {"type": "PureDP", "epsilon": 1.0},
"privacy_unit": "person", "entries": [{"time": "2026-11-01T10:00:00+00:00", "description": "first", "query": null,
"guarantee": {"type": "PureDP", "epsilon": 0.4}, "requested": null}]}"""


def test_a_ledger_of_the_first_version_is_read_and_sealed(tmp_path):
    path = tmp_path / "ledger.json"
    path.write_text(OLD)
    ledger = nw.Ledger(path, limit=LIMIT)
    assert ledger.spent == Pure(0.4)
    assert json.loads(path.read_text())["schema_version"] == 2, (
        "it is sealed when it is opened, so that a copy is known"
    )
    ledger.spend(Pure(0.5))
    value = json.loads(path.read_text())
    assert (value["schema_version"], len(value["entries"]), len(value["seal"])) == (2, 2, 64)
    path.write_text(OLD)
    with pytest.raises(FileFormatError, match="seal is gone"):
        nw.Ledger(path)


CRASH = """
import os, sys, noisewise as nw
from noisewise.disclosure import seal
ledger = nw.Ledger(sys.argv[1])
seal.keep = lambda *_: os._exit(9)
ledger.spend(nw.PureDP(0.125))
"""


def test_a_crash_between_the_ledger_and_what_is_kept_apart_is_no_alarm(path):
    done = subprocess.run(
        [sys.executable, "-c", CRASH, path], cwd=Path(nw.__file__).parent.parent, check=False
    )
    assert done.returncode == 9
    assert nw.Ledger(path).spent == Pure(0.875)
    nw.Ledger(path).spend(Pure(0.125))


def test_a_home_that_cannot_be_written_costs_the_second_record_alone(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=LIMIT)
    ledger.spend(MOST)
    with pytest.warns(UserWarning, match="knows nothing"), pytest.raises(BudgetError):
        nw.Ledger(ledger.path).spend(MOST)
    changed(ledger.path, lambda value: (value["entries"].clear(), resealed(value)))
    with pytest.raises(BudgetError, match="earlier state"):
        nw.Ledger(ledger.path)


def test_records_that_others_could_have_written_are_not_believed(path, tmp_path, monkeypatch):
    state = tmp_path / "open" / "noisewise" / "ledgers"
    state.mkdir(parents=True)
    state.parent.chmod(0o777)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "open"))
    name = json.loads(path.read_text())["id"]
    (state / f"{name}.json").write_text(
        json.dumps({"id": name, "count": 9, "head": "0" * 64, "path": "/elsewhere"})
    )
    assert seal.kept_at_home(name) is None
    with pytest.warns(UserWarning, match="knows nothing"):
        assert nw.Ledger(path).spent == MOST


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"id": 3}', '{"id": "x", "count": -1, "head": ""}', "\0" * 5000]
)
def test_a_damaged_lock_is_no_alarm(path, content):
    seal.lock_path(path).write_text(content)
    nw.Ledger(path).spend(Pure(0.125))
    assert json.loads(seal.lock_path(path).read_text())["count"] == 3


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused(path, kind):
    lock = seal.lock_path(path)
    lock.unlink()
    make = {
        "link": lambda: lock.symlink_to("/dev/zero"),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
    }
    make[kind]()
    with pytest.raises(NoisewiseError):
        nw.Ledger(path).spend(Pure(0.125))
    lock.rmdir() if kind == "folder" else lock.unlink()
    assert nw.Ledger(path).spent == MOST
