"""The ledger: adding up, refusing, surviving other processes, crashes and damaged files."""

import contextlib
import json
import math
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import noisewise as nw
from noisewise._core import files, regular_files
from noisewise.disclosure import ledger as ledger_module
from noisewise.errors import (
    BudgetError,
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    ReleaseError,
    StorageError,
)
from tests.hostile import damaged

Pure, Approximate, Concentrated, Gaussian = (
    nw.PureDP,
    nw.ApproximateDP,
    nw.ZeroConcentratedDP,
    nw.GaussianDP,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.json"


def test_adds_up_and_refuses_to_pass_the_limit(path):
    ledger = nw.Ledger(path, limit=Pure(1.0))
    assert ledger.spent == Pure(0.0)
    for _ in range(10):  # ten times 0.1 is the limit, whatever float64 makes of the sum
        ledger.spend(Pure(0.1), "a tenth")
    before = path.read_bytes()
    with pytest.raises(
        BudgetError, match=r"spent PureDP.*asked for PureDP\(epsilon=0.001\), limit PureDP"
    ):
        ledger.spend(Pure(0.001), "too much")
    assert path.read_bytes() == before
    assert ledger.spent.epsilon == pytest.approx(1.0)
    assert ledger.remaining.epsilon == pytest.approx(0.0, abs=1e-12)
    assert [entry.description for entry in nw.Ledger(path).entries] == ["a tenth"] * 10


MIXED = {
    "pure": (Pure(1.0), [Pure(0.25), Pure(0.5)]),
    "concentrated": (Concentrated(1.0), [Concentrated(0.25), Pure(0.5)]),
    "gaussian": (Gaussian(2.0), [Gaussian(1.0), Pure(0.5)]),
    "gaussian in concentrated": (Concentrated(2.0), [Gaussian(1.0), Concentrated(0.5)]),
    "approximate": (Approximate(1.0, 1e-6), [Approximate(0.5, 1e-7), Pure(0.25)]),
    "concentrated in approximate": (
        Approximate(3.0, 1e-6),
        [Concentrated(0.01), Concentrated(0.05)],
    ),
    "gaussian in approximate": (Approximate(3.0, 1e-6), [Gaussian(0.1), Gaussian(0.3)]),
    "pure in approximate": (Approximate(1.0, 1e-6), [Pure(0.25), Pure(0.5)]),
}


@pytest.mark.parametrize("name", MIXED)
def test_what_remains_can_be_spent_and_no_more(name, path):
    limit, spending = MIXED[name]
    ledger = nw.Ledger(path, limit=limit)
    for guarantee in spending:
        ledger.spend(guarantee)
    remaining = ledger.remaining
    assert type(ledger.spent) is type(limit)
    assert ledger.spent.within(limit)
    first, *rest = remaining.parameters.values()
    with pytest.raises(BudgetError):
        ledger.spend(type(remaining)(1.001 * first, *rest))
    ledger.spend(remaining)
    assert ledger.spent.within(limit)
    assert not nw.mechanisms.compose([*spending, type(remaining)(1.001 * first, *rest)]).within(
        limit
    )


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        (Pure(1.0), Concentrated(0.01)),
        (Pure(1.0), Approximate(0.1, 1e-6)),
        (Concentrated(1.0), Approximate(0.1, 1e-6)),
        (Gaussian(1.0), Concentrated(0.01)),
        (Approximate(1.0, 0.0), Gaussian(0.1)),
    ],
)
def test_kinds_that_cannot_be_compared_are_refused(limit, asked, path):
    ledger = nw.Ledger(path, limit=limit)
    with pytest.raises(BudgetError, match="cannot compare"):
        ledger.spend(asked)
    assert ledger.entries == ()


def test_one_limit_and_one_unit_per_file(path):
    nw.Ledger(path, limit=Pure(1.0), privacy_unit="household")
    assert nw.Ledger(path).limit == Pure(1.0)
    assert nw.Ledger(path, limit=Pure(1.0), privacy_unit="household").privacy_unit == "household"
    for different in (
        {"limit": Pure(2.0)},
        {"limit": Concentrated(1.0)},
        {"privacy_unit": "person"},
    ):
        with pytest.raises(BudgetError):
            nw.Ledger(path, **different)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (InvalidTypeError, lambda path: nw.Ledger(3, limit=Pure(1.0))),
        (InvalidTypeError, lambda path: nw.Ledger(None)),
        (InvalidTypeError, lambda path: nw.Ledger(path, limit=1.0)),
        (InvalidInputError, lambda path: nw.Ledger(path)),
        (InvalidInputError, lambda path: nw.Ledger(path.parent, limit=Pure(1.0))),
        (InvalidInputError, lambda path: nw.Ledger(path / "no" / "folder.json", limit=Pure(1.0))),
        (InvalidInputError, lambda path: nw.Ledger(path, limit=Pure(1.0), privacy_unit="")),
        (InvalidTypeError, lambda path: nw.Ledger(path, limit=Pure(1.0)).spend(0.5)),
        (InvalidTypeError, lambda path: nw.Ledger(path, limit=Pure(1.0)).spend(Pure(0.5), 7)),
        (
            InvalidInputError,
            lambda path: nw.Ledger(path, limit=Pure(1.0)).spend(Pure(0.5), "two\nlines"),
        ),
    ],
)
def test_bad_arguments(error, call, path):
    with pytest.raises(error):
        call(path)


SPENDER = """
import sys, noisewise as nw
from noisewise.errors import BudgetError
ledger, spent = nw.Ledger(sys.argv[1]), 0
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40):
    try:
        ledger.spend(nw.PureDP(0.02), sys.argv[2])
        spent += 1
    except BudgetError:
        pass
print(spent)
"""


def test_two_processes_never_spend_the_last_budget_twice(path):
    nw.Ledger(path, limit=Pure(1.0))
    root = Path(nw.__file__).parent.parent
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": root}
    processes = [
        subprocess.Popen([sys.executable, "-c", SPENDER, path, name], **pipes) for name in "ab"
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    counts = [int(process.communicate("go\n")[0]) for process in processes]
    assert sum(counts) == 50
    assert [entry.guarantee for entry in nw.Ledger(path).entries] == [Pure(0.02)] * 50


READER = """
import sys, noisewise as nw
ledger = nw.Ledger(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(300):
    ledger.spent
print("read")
"""


def test_who_reads_while_another_spends_sees_no_alarm(path):
    """What is kept apart is written after the file, so it must be read before it."""
    ledger = nw.Ledger(path, limit=Pure(100.0))
    root = Path(nw.__file__).parent.parent
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "cwd": root,
    }
    with subprocess.Popen([sys.executable, "-c", READER, path], **pipes) as reader:
        assert reader.stdout.readline() == "ready\n"
        reader.stdin.write("go\n")
        reader.stdin.flush()
        while reader.poll() is None:
            ledger.spend(Pure(0.01))
        assert reader.stdout.read() == "read\n"


@pytest.mark.parametrize("exchanged", [False, True])
def test_a_lock_that_is_removed_meanwhile_keeps_nobody_apart_and_is_refused(
    exchanged, path, monkeypatch
):
    ledger = nw.Ledger(path, limit=Pure(1.0))
    check = ledger_module.Ledger._check

    def removed(self, *arguments):
        check(self, *arguments)
        lock = path.with_name("ledger.json.lock")
        lock.rename(path.with_name("old.lock"))  # its number is not given to another file
        if exchanged:
            lock.write_text("")

    monkeypatch.setattr(ledger_module.Ledger, "_check", removed)
    with pytest.raises(ReleaseError, match="removed or replaced during this call"):
        ledger.spend(Pure(0.6))
    monkeypatch.undo()
    assert nw.Ledger(path).spent == Pure(0.0)


def spend_at_once(path, monkeypatch):
    """Two threads ask for 0.6 of 1 each and meet after reading and before writing, if nothing keeps
    them apart.
    """
    ledger = nw.Ledger(path, limit=Pure(1.0))
    meeting, refused = threading.Barrier(2), []
    check = ledger_module.Ledger._check

    def slow_check(self, *arguments):
        check(self, *arguments)
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(timeout=0.5)

    def spend():
        try:
            ledger.spend(Pure(0.6))
        except BudgetError:
            refused.append(True)

    monkeypatch.setattr(ledger_module.Ledger, "_check", slow_check)
    threads = [threading.Thread(target=spend) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return len(refused)


def test_the_lock_is_what_keeps_two_spenders_apart(path, monkeypatch):
    assert spend_at_once(path, monkeypatch) == 1
    with open(path.with_name("no.lock"), "w+b") as file:
        monkeypatch.setattr(
            ledger_module, "_exclusive", lambda path: contextlib.nullcontext(file.fileno())
        )
        monkeypatch.setattr(ledger_module, "_check_lock", lambda path, lock: None)
        assert spend_at_once(path.with_name("unlocked.json"), monkeypatch) == 0


def test_a_stuck_lock_is_reported(path, monkeypatch):
    ledger = nw.Ledger(path, limit=Pure(1.0))
    monkeypatch.setattr(ledger_module, "_LOCK_SECONDS", 0.02)
    with (
        ledger_module._exclusive(path),
        pytest.raises(ReleaseError, match="locked by another process"),
    ):
        ledger.spend(Pure(0.1))
    ledger.spend(Pure(0.1))


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_failed_write_leaves_the_old_file(function, path, monkeypatch):
    ledger = nw.Ledger(path, limit=Pure(1.0))
    ledger.spend(Pure(0.1))
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, function, full)
        with pytest.raises(StorageError, match="disk is full"):
            ledger.spend(Pure(0.1))
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "ledger.json",
        "ledger.json.lock",
    ]


def test_damaged_files_are_refused_or_whole(path):
    ledger = nw.Ledger(path, limit=Concentrated(1.0))
    ledger.spend(Concentrated(0.25), "first")
    ledger.spend(Pure(0.5), "second")
    text, rng, refused = path.read_text(), np.random.default_rng(1), 0
    for content in damaged(text, rng, 400):
        path.write_bytes(content)
        try:
            reopened = nw.Ledger(path)
            assert isinstance(reopened.spent, nw.mechanisms.base.AbstractGuarantee)
            assert math.isfinite(
                reopened.remaining.rho if isinstance(reopened.limit, Concentrated) else 0.0
            )
            assert all(entry.time.endswith("+00:00") for entry in reopened.entries)
        except FileFormatError:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-5], "truncated"),
        (lambda text: "", "not JSON"),
        (lambda text: "[]", "one JSON object"),
        (
            lambda text: text.replace("noisewise.ledger", "noisewise.release"),
            "another kind of file",
        ),
        (
            lambda text: text.replace('"schema_version": 2', '"schema_version": 3'),
            "reads version 2",
        ),
        (lambda text: text.replace('"entries"', '"extra": 0, "entries"'), "does not know: 'extra'"),
        (lambda text: text.replace('"privacy_unit": "person",', ""), "lacks privacy_unit"),
        (lambda text: text.replace('"epsilon": 1.0', '"epsilon": NaN'), "NaN"),
        (lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1e999'), "too large"),
        (lambda text: text.replace('"epsilon": 1.0', '"epsilon": -1.0'), ">= 0"),
        (lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1.0, "epsilon": 2.0'), "twice"),
        (lambda text: text.replace('"person"', '"\\ud800"'), "surrogate"),
        (lambda text: text.replace('"person"', "[" * 40 + "]" * 40), "nested"),
        (lambda text: text.replace('"person"', "[" * 100_000), "nested"),
        (lambda text: text.replace('"person"', '"' + "x" * 17 * 2**20 + '"'), "larger than 16 MiB"),
        (lambda text: json.dumps(json.loads(text) | {"limit": {"type": []}}), "not valid"),
    ],
)
def test_says_what_is_wrong_with_a_file(change, message, path):
    nw.Ledger(path, limit=Pure(1.0))
    path.write_text(change(path.read_text()))
    with pytest.raises(FileFormatError, match=message):
        nw.Ledger(path)


def test_an_unreadable_file_is_reported(path, monkeypatch):
    nw.Ledger(path, limit=Pure(1.0))

    def refused(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(regular_files.os, "open", refused)
    with pytest.raises(InvalidInputError, match="cannot be read: Permission denied"):
        nw.Ledger(path)


def test_a_symbolic_link_is_the_same_ledger(tmp_path):
    """Replacing the link by a file of its own would let the budget be spent twice."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    nw.Ledger(real, limit=nw.PureDP(1.0))
    link.symlink_to(real)
    nw.Ledger(link).spend(nw.PureDP(0.9), "through the link")
    assert link.is_symlink()
    with pytest.raises(BudgetError):
        nw.Ledger(real).spend(nw.PureDP(0.9), "directly")
    assert nw.Ledger(real).spent == nw.Ledger(link).spent == nw.PureDP(0.9)
