"""`noisewise release --neighbours add-remove`: files of which one lacks the lines of a unit come to
the same exit and the same words, and no output holds the number of lines.
"""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import noisewise as nw
from tests.cli.test_release_refusals import outcome, row

pytest.importorskip("opendp")

WAYS = {
    "sum": "--query sum --column age --bounds 0 100",
    "sums": "--query sum --column age --column size --bounds 0 100",
    "count": "--query count",
    "median": "--query median --column age --candidates 0,50,100",
    "histogram": "--query histogram --column age --edges 0,50,100",
    "table": "--query contingency-table --column sex --levels sex=f,m",
    "unknown column": "--query sum --column wage --bounds 0 100",
    "a mean": "--query mean --column age --bounds 0 100",
    "a curve": "--query infection-curve --column age",
}
PRIVACY = ("--epsilon 1", "--epsilon 1e9", "--rho 0.5", "--epsilon 1e-20")
HEAD = "age,size,sex,smoker"


def pairs(rng, count):
    """Texts of two files, one with up to two more lines, and a command for both."""
    ways = list(WAYS.values())
    for number in range(count):
        rows = [row(rng) for _ in range(rng.integers(0, 4))]
        most = int(rng.integers(1, 3))
        more = [*rows, *(row(rng) for _ in range(most))]
        order = rng.permutation(len(more))
        relation = f"--neighbours add-remove --max-contributions {most}"
        command = f"{ways[number % len(ways)]} {rng.choice(PRIVACY)} {relation}"
        yield [HEAD, *rows], [HEAD, *(more[index] for index in order)], command


@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.slow)])
def test_files_with_more_lines_come_to_the_same(run, count):
    codes = set()
    for first, second, command in pairs(np.random.default_rng(0), count):
        found = outcome(run, first, command)
        assert found == outcome(run, second, command), command
        codes.add(found[0])
    assert codes == {0, 1}


def test_a_file_that_must_have_lines_would_be_found(run, monkeypatch):
    """The check of before: a file without lines is refused, whatever the neighbours."""
    from noisewise.cli import tables

    opened = tables.open_table
    monkeypatch.setattr(tables, "open_table", lambda path, **_: opened(path))
    pair = [HEAD], [HEAD, "34,1,f,no"]
    command = f"{WAYS['sum']} --epsilon 1 --neighbours add-remove"
    assert outcome(run, pair[0], command) != outcome(run, pair[1], command)


def test_the_number_of_lines_is_in_no_output(run):
    lines = [HEAD, *["34,1,f,no"] * 3137]
    for name in ("sum", "histogram", "table"):
        command = f"{WAYS[name]} --epsilon 1 --neighbours add-remove --ledger l.json --budget 9"
        found = outcome(run, lines, command)
        assert found[0] == 0
        file = json.loads(Path("out.json").read_text()) | {"values": None, "ids": None}
        assert "3137" not in f"{found} {file} {Path('l.json').read_text()}"
        assert "3,137" not in f"{found}"


def release(run, options):
    return run("release", "--data", "people.csv", *shlex.split(options), "--out", "out.json")


def test_the_relation_goes_into_the_file_and_the_ledger(run):
    options = (
        f"{WAYS['histogram']} --epsilon 1 --neighbours add_remove --unit household"
        " --max-contributions 3 --ledger ledger.json --budget 2"
    )
    result = release(run, options)
    assert result.exit_code == 0, result.stderr
    relation = nw.AddRemoveOne(unit="household", max_contributions=3)
    published = nw.Release.load("out.json")
    assert published.neighbours == published.guarantee.neighbours == relation
    assert published.mechanism.sensitivity == 3.0
    assert published.num_records is None
    assert "add-remove, one household of at most 3 records" in result.stdout
    ledger = nw.Ledger("ledger.json")
    assert ledger.limit == nw.PureDP(2.0, neighbours=relation)
    assert ledger.remaining == nw.PureDP(1.0, neighbours=relation)
    shown = run("ledger", "ledger.json")
    assert "AddRemoveOne" in shown.stdout
    other = release(run, f"{WAYS['histogram']} --epsilon 1 --ledger ledger.json")
    assert other.exit_code == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--query sum --column age --bounds 0 1 --neighbours add-removal", "did you mean"),
        ("--query count --max-contributions 3", "--neighbours add-remove too"),
        ("--query histogram --column age --edges 0,1 --max-per-cell 1", "--neighbours add-remove too"),
        ("--query count --max-per-cell 1 --neighbours add-remove", "--max-contributions"),
        ("--query count --max-per-cell 2 --max-contributions 1 --neighbours add-remove", "at most"),
        ("--query histogram --column age --edges 0,1,2 --label age=young", "1 labels, but 2 numbers"),
        ("--query histogram --column age --edges 0,1,2 --label age", "--label takes NAME=VALUE"),
        ("--query histogram --column age --edges 0,1,2 --label value=a,b", "rename it"),
        ("--query count", "is public and needs no noise"),
        ("--query mean --column age --bounds 0 1 --neighbours add-remove", "--query sum and"),
        ("--query regression-moments --outcome age --predictors size --bounds 0 1 --neighbours"
         " add-remove", "--query count"),
        ("--query count --column age --neighbours add-remove", "takes no --column"),
    ],
)  # fmt: skip
def test_mistakes_are_named(run, options, words):
    result = release(run, f"{options} --epsilon 1")
    assert result.exit_code != 0
    assert words in " ".join(result.stderr.split())
    assert not Path("out.json").exists()


def test_cells_are_labelled(run):
    """By columns and their levels, or as the publisher says; --max-per-cell is kept."""
    Path("people.csv").write_text(f"{HEAD}\n34,1,f,0\n40,2,m,1\n")
    table = (
        "--query contingency-table --column sex --levels sex=f,m --column smoker --levels smoker=2"
    )
    assert release(run, f"{table} --epsilon 1").exit_code == 0
    made = nw.Release.load("out.json")
    assert made.labels == {"sex": ("f", "f", "m", "m"), "smoker": ("0", "1", "0", "1")}
    assert made.names[1] == "sex=f, smoker=1"
    assert made.select(sex="f").names == made.names[:2]
    Path("out.json").unlink()
    relation = "--neighbours add-remove --max-contributions 3 --max-per-cell 1"
    query = "--query histogram --column age --edges 0,18,65"
    labels = "--label age=child,adult --label year=a,a"
    assert release(run, f"{query} {labels} {relation} --epsilon 1").exit_code == 0
    made = nw.Release.load("out.json")
    assert made.labels == {"age": ("child", "adult"), "year": ("a", "a")}
    assert made.neighbours == nw.AddRemoveOne(max_contributions=3, max_per_cell=1)
    assert made.mechanism.sensitivity == 2.0, "one record in each of two bins"
