"""`noisewise plan`: many budgets, JSON, models from files, and what is wrong with a command."""

import json

import pytest
import typer
from typer.testing import CliRunner

import noisewise as nw
from noisewise.cli.plan import plan as plan_command


def run(*arguments):
    app = typer.Typer()
    app.command()(plan_command)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_takes_many_budgets(tmp_path):
    files = ["--out", str(tmp_path / "plan.json"), "--picture", str(tmp_path / "plan.png")]
    result = run(
        "gaussian_mean",
        *files,
        "--simulations",
        "2000",
        "--releases",
        "20",
        "--epsilon",
        "10",
        "0.1",
        "1",
    )
    assert result.exit_code == 0, result.output
    assert result.output.count("an analyst learns") == 3
    assert all(
        word in result.output
        for word in ("coverage", "mean sd", "median 95% width", "over 20 simulated releases")
    )
    content = json.loads((tmp_path / "plan.json").read_text())
    assert [row["budget"] for row in content["table"]] == [0.1, 1.0, 10.0]
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_speaks_json_and_reads_files(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(
        "import noisewise as nw\nmodel = nw.problems.gaussian_mean(1.0).model\n",
    )
    result = run(
        "--epsilon", "0.5,5", f"{file}:model", "--simulations", "1000", "--releases", "10", "--json"
    )
    assert result.exit_code == 0, result.output
    assert [row["budget"] for row in json.loads(result.output)["table"]] == [0.5, 5.0]


COUNTS = """
import jax
import numpyro.distributions as dist
import noisewise as nw
model = nw.PrivateModel(
    prior=nw.Prior({"high": dist.Uniform(1.0, 2.0)}),
    simulator=nw.simulators.JaxSimulator(
        lambda key, theta: jax.random.uniform(key, (20, 1), maxval=theta[0])
    ),
    query=nw.queries.Histogram(edges=(0.0, 1.0, 2.0)),
    mechanism=nw.mechanisms.DiscreteLaplace(scale=1.0, sensitivity=2.0),
)
"""


def test_a_plan_has_its_neighbours(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(COUNTS)
    few = ["--simulations", "1000", "--releases", "10", "--json", "--epsilon", "1"]
    two = ["--neighbours", "add-remove", "--max-contributions", "2"]
    result = run(f"{file}:model", *few, *two, "--max-per-cell", "2", "--unit", "household")
    assert result.exit_code == 0, result.output
    three = ["--neighbours", "add-remove", "--max-contributions", "3"]
    refused = run(f"{file}:model", *few, *three)
    assert isinstance(refused.exception, nw.errors.SensitivityError)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such", "--epsilon", "1"], "there are contingency, gaussian-mean"),
        (["sir", "gaussian_mean", "--epsilon", "1"], "one problem"),
        (["--epsilon", "1", "2"], "one problem"),
        (["sir", "1", "2"], "follow --epsilon"),
        (["nowhere.py:model", "--epsilon", "1"], "no Python file"),
        (["gaussian_mean", "--epsilon", "-1"], "epsilon must be"),
    ],
)
def test_bad_commands_say_what_is_wrong(arguments, words):
    result = run(*arguments)
    assert isinstance(result.exception, nw.errors.NoisewiseError)
    assert words in str(result.exception)


def test_known_laws_of_which_weights_say_little_are_refused():
    """With districts at epsilon 10 one of 1,000 simulations has all the weight."""
    result = run("small-area", "--simulations", "1000", "--releases", "10", "--epsilon", "10")
    assert result.exit_code != 0
    text = str(result.exception)
    assert "widths would be off by factors" in text
    assert "nw.infer(key, model, observed)" in text
