"""What there is: complete, true to the classes, and read without loading them."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import noisewise as nw
from noisewise.cli import catalogue
from noisewise.cli.targets import ready_problem
from noisewise.inference.registry import METHODS

LISTS = ("problems", "methods", "mechanisms", "queries")


@pytest.mark.parametrize("name", LISTS)
def test_lists_have_one_line_each(run, loaded, name):
    items = loaded(name)
    shown = run(name).stdout
    assert len(items) >= 8
    assert all(item["slug"] in shown and item["line"].endswith(".") for item in items)
    assert max(map(len, shown.splitlines())) <= 80


def exported(package):
    return {name: getattr(package, name) for name in package.__all__}


def first_line(kind):
    """The first sentence of the module that a class is in."""
    text = inspect.getdoc(inspect.getmodule(kind))
    return " ".join(text.split("\n\n")[0].split())


def test_methods_are_those_of_the_package():
    kinds = [kind for kind in exported(nw.inference).values() if hasattr(kind, "slug")]
    assert len(kinds) == len(METHODS) == len({row.slug for row in METHODS})
    assert {(kind.slug, kind.__name__) for kind in kinds} == {
        (item.slug, item.name) for item in catalogue.methods()
    }


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row.slug)
def test_rows_of_methods_are_true_to_their_classes(row):
    kind = getattr(nw.inference, row.name)
    assert issubclass(kind, nw.inference.AbstractMethod)
    assert (kind.__name__, kind.slug) == (row.name, row.slug)
    assert kind.__module__ == f"noisewise.inference.{row.module}"
    assert kind.needs == {nw.mechanisms.Capability(name) for name in row.needs}
    assert row.line == first_line(kind)


def test_rows_of_methods_are_in_order():
    assert [row.slug for row in METHODS] == sorted(row.slug for row in METHODS)


@pytest.mark.parametrize("package", ["mechanisms", "queries"])
def test_rows_of_classes_are_true_to_their_modules(package):
    for item in getattr(catalogue, package)():
        assert item.line == first_line(getattr(getattr(nw, package), item.name))


def test_rows_of_problems_are_true():
    """Modules of problems begin with their line; outbreaks with the titles of their data."""
    for item in catalogue.problems():
        name, _, variant = item.name.partition("(")
        module = inspect.getmodule(getattr(nw.problems, name))
        line = first_line(module)
        if variant:
            data = Path(module.__file__).parent / "data" / f"{variant.strip(chr(34) + ')')}.csv"
            titles = [text for text in data.read_text().splitlines() if "title:" in text]
            line = f"{titles[0].removeprefix('# title: ')}."
        assert item.line == line
    variants = sys.modules["noisewise.problems.outbreak"].NAMES
    assert [item.slug for item in catalogue.problems() if item.slug.startswith("outbreak")] == [
        f"outbreak-{name}" for name in variants
    ]


@pytest.mark.parametrize(
    ("package", "root"), [("mechanisms", "AbstractMechanism"), ("queries", "AbstractQuery")]
)
def test_classes_are_those_of_the_package(package, root):
    module = getattr(nw, package)
    kinds = {
        name
        for name in module.__all__
        if isinstance(value := getattr(module, name), type)
        and issubclass(value, getattr(module, root))
    }
    assert {item.name for item in getattr(catalogue, package)()} == {
        name for name in kinds if not name.startswith("Abstract")
    }


def test_problems_can_be_had():
    assert {item.slug for item in catalogue.problems()} >= {
        "sir",
        "outbreak-influenza",
        "gaussian-mean",
    }
    for item in catalogue.problems():
        problem = ready_problem(item, 5.0)
        assert problem.settings["epsilon"] == 5.0
        assert problem.name.replace("_", "-") == item.slug


def test_names_may_be_written_in_several_ways():
    for name in ("outbreak:influenza", "outbreak-influenza", "OUTBREAK_INFLUENZA"):
        assert catalogue.find("problem", name, catalogue.problems()).name == 'outbreak("influenza")'


def test_listing_loads_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from noisewise.cli.app import"
        " app\nresults = [CliRunner().invoke(app, [name, '--json']) for name in ('problems',"
        " 'methods', 'mechanisms', 'queries')]\nresults.append(CliRunner().invoke(app, ['infer',"
        " '--help']))\nprint([result.exit_code for result in results], bool({'jax', 'pandas',"
        " 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split("\n")[0] == "[0, 0, 0, 0, 0] False"


@pytest.mark.parametrize(
    "words",
    [
        (),
        *(
            (name,)
            for name in (
                "infer",
                "regress",
                "release",
                "resume",
                "report",
                "compare",
                "plan",
                "reproduce",
                *LISTS,
            )
        ),
    ],
)
def test_help_at_every_level(run, words):
    result = run(*words, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
    assert "noisewise" in result.stdout.split("Usage: ")[1]
    assert max(map(len, result.stdout.splitlines())) <= 80
    if words:
        assert "Example" in result.stdout
        assert f"noisewise {words[0]}" in result.stdout.split("Example")[1]


def test_help_shows_what_extras_are_called_and_breaks_no_line(run):
    """Brackets are markup unless escaped; lines of more than 78 columns break into two."""
    assert "pip install 'noisewise[formula]'" in run("regress", "--help").stdout
    for words in ("regress", "import"):
        told = run(words, "--help").stdout.split("Examples:")[1]
        assert not [line for line in told.splitlines() if 0 < len(line.strip()) < 8]


def test_no_arguments_show_help_and_the_version_is_told(run):
    assert "For analysts" in run().stdout
    assert run("--version").stdout.strip() == f"noisewise {nw.__version__}"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("noisewise infer s", "sir"),
        ("noisewise infer sir --method s", "sppe"),
        ("noisewise release --query h", "histogram"),
    ],
)
def test_shells_complete(run, monkeypatch, typed, expected):
    monkeypatch.setenv("_NOISEWISE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    from typer.testing import CliRunner

    from noisewise.cli.app import app

    result = CliRunner().invoke(app, [], prog_name="noisewise")
    assert expected in result.stdout.split()


def test_json_is_strict():
    from noisewise._core.json_values import jsonable

    assert (
        json.dumps(jsonable({"a": float("nan"), "b": (1, 2.5)}), allow_nan=False)
        == '{"a": null, "b": [1, 2.5]}'
    )


def test_long_names_are_folded_and_numbers_never_cut(monkeypatch, capsys):
    from noisewise.cli import show

    monkeypatch.setenv("COLUMNS", "60")
    show.table(
        ["quantity", "run", "mean", "sd"],
        [["mean", "runs/" + 60 * "x", "0.58812345", "0.11612345"]],
        num_names=2,
    )
    shown = capsys.readouterr().out
    assert "0.58812345" in shown
    assert "0.11612345" in shown
    assert shown.count("x") == 60
    assert max(map(len, shown.splitlines())) <= 60
