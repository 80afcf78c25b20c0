"""`noisewise reproduce`: in a checkout it runs items, elsewhere it says what it needs."""

from pathlib import Path

import pytest

from experiments import items
from tests.cli.conftest import ROOT


@pytest.fixture
def checkout(folder, monkeypatch):
    """The working directory as a checkout with one item."""
    (folder / "experiments").mkdir()
    (folder / "experiments" / "items.py").write_text(
        (ROOT / "experiments" / "items.py").read_text()
    )
    monkeypatch.setattr(items, "ITEMS", {"toy_item": "tests.experiments.toy_item"})
    monkeypatch.syspath_prepend(str(ROOT))
    return folder


def test_elsewhere_it_asks_for_a_checkout(run):
    result = run("reproduce", "all")
    assert result.exit_code == 1
    assert "checkout of the repository" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_quick_runs_go_elsewhere_than_results(run, checkout):
    result = run("reproduce", "all", "--quick")
    assert result.exit_code == 0, result.stderr
    assert "runs/reproduce-quick/toy_item.md" in result.stdout
    assert Path("runs/reproduce-quick/toy_item.json").exists()
    assert not Path("experiments/results").exists()


def test_results_go_to_experiments_or_where_told(run, checkout):
    assert run("reproduce", "toy-item", "--seed", 3).exit_code == 0
    assert '"seed": 3' in Path("experiments/results/toy_item.json").read_text()
    assert run("reproduce", "TOY_ITEM", "--full", "--out", "there").exit_code == 0
    assert '"name": "full"' in Path("there/toy_item.json").read_text()


def test_the_list_names_items(run, checkout):
    shown = run("reproduce", "--list").stdout
    assert "toy-item" in shown
    assert "Table 0" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "needs an item"),
        (("toy-itme",), "did you mean 'toy-item'"),
        (("all", "--quick", "--full"), "choose one"),
        (("all", "--seed", "-1"), "greater than or equal to 0|>=0"),
        (("all", "--quik"), "Did you mean --quick"),
    ],
)
def test_one_helpful_sentence(run, checkout, words, hint):
    import re

    result = run("reproduce", *words)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert re.search(hint, result.stderr)
