"""`noisewise release` on neighbouring files: the same exit and the same words; what is wrong with
cells is never said.
"""

import functools
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import noisewise as nw
from tests.cli.conftest import ROOT, start

pytest.importorskip("opendp")

NUMBERS = (
    "0",
    "100",
    "-5",
    "1e300",
    "50.0244140625",
    "5e-324",
    "99.99999999999999",
    "-1e308",
    "+7.",
    ".5",
)
WAYS = {
    "mean": "--query mean --column age --bounds 0 100",
    "means": "--query mean --column age --column size --bounds 0 100",
    "median": "--query median --column age --candidates 0,50,100",
    "histogram": "--query histogram --column age --edges 0,50,100",
    "bins": "--query histogram --column age --bounds 0 100 --bins 3",
    "table": "--query contingency-table --column sex --levels sex=f,m",
    "proportions": (
        "--query category-proportions --outcome sex --predictors smoker --levels sex=f,m --levels"
        " smoker=no,yes"
    ),
    "regression": "--query regression-moments --outcome size --predictors age --bounds 0 100",
    "unknown column": "--query mean --column wage --bounds 0 100",
    "a level too few": "--query contingency-table --column sex --levels sex=f",
    "no bounds": "--query mean --column age",
}
PRIVACY = (
    "--epsilon 1",
    "--epsilon 1e-13",
    "--epsilon 1e9",
    "--rho 0.5",
    "--epsilon 1 --delta 1e-6",
    "--epsilon 1e-20",
)


@pytest.fixture(scope="module", autouse=True)
def _conversions_computed_once():
    """One of the budgets has a delta: its zCDP is searched for once, which takes longer than a
    command.
    """
    with pytest.MonkeyPatch.context() as patch:
        search = functools.cache(nw.ZeroConcentratedDP.from_approximate)
        patch.setattr(nw.ZeroConcentratedDP, "from_approximate", staticmethod(search))
        yield


def row(rng):
    return f"{rng.choice(NUMBERS)},{rng.choice(NUMBERS)},{rng.choice(['f', 'm'])},{rng.choice(['no', ' yes'])}"


def pairs(rng, count):
    """Texts of two files that differ in one line, and a command for both."""
    ways = list(WAYS.values())
    for number in range(count):
        rows = [row(rng) for _ in range(rng.integers(1, 6))]
        other = list(rows)
        other[rng.integers(len(rows))] = row(rng)
        head = "age,size,sex,smoker"
        yield [head, *rows], [head, *other], f"{ways[number % len(ways)]} {rng.choice(PRIVACY)}"


def outcome(run, lines, command):
    """All that is seen of a release but the values."""
    Path("data.csv").write_text("\n".join(lines) + "\n")
    Path("out.json").unlink(missing_ok=True)
    result = run(
        "release", "--data", "data.csv", *shlex.split(command), "--out", "out.json", "--json"
    )
    shown = (
        {**json.loads(result.stdout), "values": None} if result.exit_code == 0 else result.stdout
    )
    return result.exit_code, shown, result.stderr, Path("out.json").exists()


def check(run, rng, count):
    codes = set()
    for first, second, command in pairs(rng, count):
        found = outcome(run, first, command)
        assert found == outcome(run, second, command), command
        codes.add(found[0])
    assert codes == {0, 1}


def test_neighbouring_files_come_to_the_same(run):
    check(run, np.random.default_rng(0), 40)


@pytest.mark.slow
def test_many_neighbouring_files_come_to_the_same(run):
    check(run, np.random.default_rng(1), 5000)


# Cells that cannot be read ------------------------------------------------------------------------

BAD_LINES = {
    "a missing number": ",1,f,no",
    "a missing text": "34,1,,no",
    "a blank line": "",
    "spaces": "   ",
    "an underscore": "1_0,1,f,no",
    "digits of another alphabet": "\u0663\u0664,1,f,no",
    "fullwidth digits": "\uff13,1,f,no",
    "not a number": "nan,1,f,no",
    "infinite": "inf,1,f,no",
    "hexadecimal": "0x10,1,f,no",
    "a text": "XSECRETX,1,f,no",
    "an unknown level": "34,1,XSECRETX,no",
    "a cell too many": "34,1,f,no,XSECRETX",
    "a cell too few": "34,1,f",
    "an open quotation": '"34,1,f,no',
    "two lines in one cell": '34,1,f,"no\nyes"',
    "a zero byte": "34\x00,1,f,no",
    "a carriage return": "34,1\r,f,no",
    "a huge text": "x" * 200_000 + ",1,f,no",
}
BOTH = "--query mean --column age --column size --bounds 0 100 --epsilon 1"
LEVELS = (
    "--query contingency-table --column sex --column smoker --levels sex=f,m --levels smoker=no,yes"
    " --epsilon 1"
)


@pytest.mark.parametrize(
    "place", [1, *(pytest.param(place, marks=pytest.mark.slow) for place in (2, 3))]
)
def test_one_sentence_whatever_is_wrong_with_a_cell(run, place):
    ledger = nw.Ledger("ledger.json", limit=nw.PureDP(100.0))
    for command, looked_at in ((BOTH, ("age", "size")), (LEVELS, ("sex", "smoker"))):
        found, refused = set(), 0
        for line in BAD_LINES.values():
            lines = ["age,size,sex,smoker", "34,1,f,no", "35,2,m,yes"]
            lines.insert(place, line)
            code, _, stderr, written = outcome(run, lines, f"{command} --ledger ledger.json")
            if code == 1:
                found.add(stderr)
                refused += 1
                assert not written
        assert len(found) == 1, looked_at
        assert refused >= 9
        assert "SECRET" not in found.pop()
    assert len(ledger.entries) == 2 * len(BAD_LINES)  # whatever became of them


@pytest.mark.parametrize(
    "number",
    ["1e999", "-1e999", "9" * 400, "0." + "0" * 140_000 + "1"],
    ids=["e999", "-e999", "nines", "zeros"],
)
def test_any_plain_number_is_read(run, number):
    lines = ["age,size,sex,smoker", "34,1,f,no", f"{number},2,m,yes"]
    assert outcome(run, lines, BOTH)[0] == 0


def test_bytes_that_are_no_text_say_the_same(run):
    Path("data.csv").write_bytes(b"age,size,sex,smoker\n34,1,f,no\n34,\xff\xfe,f,no\n")
    words = ["release", "--data", "data.csv", *shlex.split(BOTH), "--out", "out.json"]
    broken = run(*words).stderr
    Path("data.csv").write_text("age,size,sex,smoker\n34,1,f,no\n34,,f,no\n")
    assert run(*words).stderr == broken


def test_a_file_of_one_column_does_not_drop_its_blank_lines(run):
    """The published number of records would tell how many were blank."""
    Path("one.csv").write_text("age\n34\n\n35\n")
    result = run(
        "release",
        "--data",
        "one.csv",
        *shlex.split("--query mean --bounds 0 100 --epsilon 1 --out o.json"),
    )
    assert result.exit_code == 1
    assert "must have one cell" in result.stderr
    assert not Path("o.json").exists()


@pytest.mark.parametrize(
    "ends", [b"\n35", b"\r\n35\r\n", b"\n35\n"], ids=["no end", "windows", "unix"]
)
def test_ends_of_lines(run, ends):
    first = b"\r\n" if b"\r" in ends else b"\n"
    Path("one.csv").write_bytes(b"\xef\xbb\xbfage" + first + b"34" + ends)
    result = run(
        "release",
        "--data",
        "one.csv",
        *shlex.split("--query mean --bounds 0 100 --epsilon 1 --out o.json"),
    )
    assert result.exit_code == 0, result.stderr
    assert nw.Release.load("o.json").num_records == 2


def test_public_mistakes_come_before_the_charge(run):
    Path("data.csv").write_text("age,size,sex,smoker\n34,1,f,no\n")
    ledger = nw.Ledger("ledger.json", limit=nw.PureDP(1.0))
    mistakes = [
        "--query mean --column wage --bounds 0 100 --epsilon 1",
        "--query mean --column age --epsilon 1",
        "--query mean --column age --bounds 0 100 --epsilon 1e-20",
        "--query contingency-table --column sex --levels smoker=a,b --epsilon 1",
        "--query mean --column age --bounds 0 100 --epsilon 2",
    ]
    for command in mistakes:
        code, _, _, written = outcome(
            run, Path("data.csv").read_text().splitlines(), f"{command} --ledger ledger.json"
        )
        assert (code, written) == (1, False)
    assert ledger.entries == ()


def test_an_exhausted_ledger_refuses_before_cells_are_read(run, monkeypatch):
    nw.Ledger("ledger.json", limit=nw.PureDP(1e-9))

    def read(*_):
        raise AssertionError("cells were read")

    monkeypatch.setattr("noisewise.cli.tables.Table._rows", read)
    for name in ("mean", "median", "histogram", "table", "proportions", "regression"):
        code, _, stderr, _ = outcome(
            run,
            ["age,size,sex,smoker", "34,1,f,no"],
            f"{WAYS[name]} --epsilon 1 --ledger ledger.json",
        )
        assert code == 1
        assert "would pass its limit" in stderr


# The name of the file -----------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_pay_for_one_file_once(folder):
    nw.Ledger("ledger.json", limit=nw.PureDP(100.0))
    words = shlex.split(
        "release --data people.csv --query mean --column age --bounds 0 100 --epsilon 1 --out"
        " a.json --ledger ledger.json"
    )
    processes = [start(*words) for _ in range(2)]
    ends = [(process.communicate()[1], process.returncode) for process in processes]
    assert sorted(code for _, code in ends) == [0, 1]
    assert all("exists and is kept" in stderr for stderr, code in ends if code)
    assert len(nw.Ledger("ledger.json").entries) == 1
    assert nw.Release.load("a.json").names == ("mean",)


KILLED = """
import os, sys
from noisewise.disclosure import curator
from noisewise.cli.app import app
curator.PlannedRelease.draw = lambda plan, read: os._exit(9)
app(sys.argv[1:])
"""


def test_a_kill_between_the_charge_and_the_file_leaves_a_word(folder, run):
    words = shlex.split(
        "release --data people.csv --query mean --column age --bounds 0 100 --epsilon 1 --out"
        " a.json"
    )
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *words],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 9
    assert "did not end" in Path("a.json").read_text()
    again = run(*words)
    assert again.exit_code == 1
    assert "exists and is kept" in again.stderr
