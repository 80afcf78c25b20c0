"""The contest: its clock, its store, and its cells in processes of their own."""

import dataclasses
import json
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks import contenders, contest
from benchmarks.contest import Cell, Clock, chosen, identity, run_cell, stored
from tests.cli.conftest import ROOT


def fast(made, seed, *, threads, num):
    """Exact draws at the second stage, the prior at the first."""
    import jax

    yield num, made.model.prior.sample(jax.random.key(seed), 1000)
    time.sleep(0.2)
    yield 2 * num, made.reference(jax.random.key(seed), 1000)
    yield 3 * num, np.full((1000, 1), np.nan)


FEW = "tests.benchmarks.test_contest:few"


def few(made, seed, *, threads, num):
    import jax

    yield num, made.reference(jax.random.key(seed), 400)


def endless(made, seed, *, threads, num):
    yield num, made.model.prior.sample(__import__("jax").random.key(seed), 1000)
    while True:
        time.sleep(0.01)


@pytest.fixture
def entered(monkeypatch):
    for name, neural in (("fast", False), ("learning", True)):
        path = f"tests.benchmarks.test_contest:{'fast'}"
        made = contenders.Contender(path, name, neural, ("jax",), ("gaussian_mean",))
        monkeypatch.setitem(contenders.CONTENDERS, name, made)


def test_a_cell_is_timed_and_scored(entered):
    record = run_cell(Cell("fast", "gaussian_mean", 1))
    first, second, third = record["stages"]
    assert [stage["simulations"] for stage in record["stages"]] == [1000, 2000, 3000]
    # exact draws score .5 +- .011, the prior far from it, and draws that are not numbers are as
    # wrong as can be
    assert first["c2st"] > 0.6
    assert abs(second["c2st"] - 0.5) < 0.045
    assert third["c2st"] == 1.0
    # the contender slept .2 s; each time is kept to .01 s, so that their difference may lose as
    # much
    assert second["seconds"] - first["seconds"] > 0.2 - 0.01 - 1e-9
    assert (record["ended"], record["large"], record["peak MiB"] > 100) == ("finished", False, True)
    assert {"yardstick ms", "versions", "noisewise", "processor"} <= set(record)
    json.dumps(record)


def test_a_method_that_learns_ends_with_the_budget(entered, monkeypatch):
    monkeypatch.setattr(contest, "MOST", 2000)
    record = run_cell(Cell("learning", "gaussian_mean", 1))
    assert (record["ended"], len(record["stages"])) == ("budget", 2)


def test_scoring_is_off_the_clock():
    clock = Clock(60.0, None)
    clock.timed(lambda: time.sleep(0.05))
    time.sleep(0.2)
    clock.timed(lambda: time.sleep(0.05))
    # .1 s of work; with the .2 s between it would be .3
    assert 0.0999 < clock.seconds < 0.3


@pytest.mark.slow
def test_the_limit_ends_the_process_and_keeps_what_it_had():
    """Planted: without the watchdog the child sleeps forever."""
    script = (
        "import tests.benchmarks.test_contest as t\nfrom benchmarks import contenders,"
        " contest\ncontenders.CONTENDERS['endless'] ="
        " contenders.Contender('tests.benchmarks.test_contest:endless', '', False,"
        " ('jax',))\ncontest.run_cell(contest.Cell('endless', 'gaussian_mean', 1), limit=1.0)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    record = json.loads(ended.stdout.splitlines()[-1])
    assert (record["ended"], record["seconds"], len(record["stages"])) == ("limit", 1.0, 1)


def test_the_latest_of_a_cell_counts(tmp_path):
    path = tmp_path / "cells.jsonl"
    cell = dataclasses.asdict(Cell("sppe", "sir", 1))
    path.write_text(
        "\n".join(json.dumps({**cell, "ended": "budget", "seconds": s}) for s in (1.0, 2.0)) + "\n"
    )
    (found,) = stored(path)
    assert found["seconds"] == 2.0
    assert identity(found) == identity(Cell("sppe", "sir", 1))


def test_ours_are_missing_once_the_sources_change(tmp_path):
    path = tmp_path / "cells.jsonl"
    everything = contest.missing(path)
    assert {cell.threads for cell in everything} == {1, 2}
    assert ("sple", "sir") in {(cell.contender, cell.problem) for cell in everything}
    assert ("sple", "linear_regression") not in {
        (cell.contender, cell.problem) for cell in everything
    }
    assert len(everything) == 2 * 3 * (2 * 5 - 1 + 1)
    written = [
        dataclasses.asdict(cell) | {"ended": "budget", "noisewise": contest.sources()}
        for cell in everything
    ]
    path.write_text("\n".join(map(json.dumps, written)) + "\n")
    assert contest.missing(path) == []
    path.write_text("\n".join(json.dumps(cell | {"noisewise": "older"}) for cell in written) + "\n")
    assert {cell.contender for cell in contest.missing(path)} == {
        "sppe",
        "cle",
        "exact-smc",
        "sple",
    }


@pytest.mark.slow
def test_fewer_draws_are_scored_against_as_many(entered, monkeypatch):
    monkeypatch.setitem(
        contenders.CONTENDERS, "fast", dataclasses.replace(contenders.CONTENDERS["fast"], path=FEW)
    )
    (stage,) = run_cell(Cell("fast", "gaussian_mean", 1))["stages"]
    assert stage["draws"] == 400
    assert abs(stage["c2st"] - 0.5) < 0.07  # four times the sd of 800 fair coins


def test_cells_come_seed_by_seed_and_none_that_a_contender_refuses():
    cells = chosen()
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    assert ("cle", "sir") not in {(cell.contender, cell.problem) for cell in cells}
    assert len(cells) == 3 * (2 * 5 - 1)


def test_nothing_is_begun_that_could_end_too_late(tmp_path, monkeypatch):
    monkeypatch.setattr(contest, "_begun", lambda *_: pytest.fail("begun"))
    contest.run_cells(
        [Cell("sppe", "sir", 1)], path=tmp_path / "none", until=time.monotonic() + 60.0
    )
    assert not (tmp_path / "none").exists()


def test_every_contender_is_there():
    """Ours can be imported; of the others the file and the function are there."""
    import ast

    for contender in contenders.CONTENDERS.values():
        module, function = contender.path.split(":")
        tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
def test_a_cell_that_crashes_is_recorded_and_run_again(tmp_path, monkeypatch):
    """A contender that is not installed here: its process ends with 1."""
    absent = contenders.Contender(
        "benchmarks.rivals.absent:none", "", True, ("jax",), ("gaussian_mean",)
    )
    monkeypatch.setitem(contenders.CONTENDERS, "sbi-nle", absent)
    path = tmp_path / "cells.jsonl"
    contest.run_cells([Cell("sbi-nle", "nothing", 1)], path=path)
    assert json.loads(path.read_text())["ended"] == "failed"
    assert stored(path) == []
