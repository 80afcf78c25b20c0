"""`noisewise reproduce`: in a checkout it runs items; an installed package does not have it."""

import ast
import os
import shutil
import subprocess
import sys
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
    monkeypatch.setattr(items, "ITEMS", {"toy_item": "experiments.tests.toy_item"})
    monkeypatch.syspath_prepend(str(ROOT))
    return folder


@pytest.fixture
def installed(tmp_path):
    """Run Python with the package as a wheel installs it: `noisewise` alone, and no checkout."""
    target = tmp_path / "site-packages"
    shutil.copytree(
        ROOT / "noisewise", target / "noisewise", ignore=shutil.ignore_patterns("__pycache__")
    )

    def python(*words):
        command = [sys.executable, *words]
        environment = {**os.environ, "PYTHONPATH": str(target), "NO_COLOR": "1"}
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300
        )

    where = python("-c", "import noisewise; print(noisewise.__file__)")
    assert where.stdout.strip() == str(target / "noisewise" / "__init__.py")
    return python


def test_an_installed_package_does_not_have_it(installed):
    shown = installed("-m", "noisewise", "--help")
    assert shown.returncode == 0, shown.stderr
    assert "infer" in shown.stdout
    assert "reproduce" not in shown.stdout
    tried = installed("-m", "noisewise", "reproduce", "all")
    assert tried.returncode == 1
    assert "No such command 'reproduce'" in tried.stderr
    assert len(tried.stderr.splitlines()) == 1


BEYOND = ("experiments", "benchmarks", "tests", "docs", "examples")


def test_no_module_of_the_package_imports_from_a_checkout():
    """The one that `noisewise.cli.app` loads by name is looked for first."""
    for path in (ROOT / "noisewise").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            assert not [name for name in names if name.split(".")[0] in BEYOND], path


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
