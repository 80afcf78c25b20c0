"""`noisewise regress`: what options mean, and a run from the file to the report."""

import json
import shlex
import sys

import numpy as np
import pytest

import noisewise as nw
from noisewise.cli.regression_requests import RegressionRequest
from noisewise.posteriors import Draws, Report

FORCED = "--law bernoulli --mechanism forced-response --set truth=2/3 --out run"
LINE = f"regress survey.csv 'rr ~ age' {FORCED}"


def request(**changes):
    from pathlib import Path

    plain = {
        "data": Path("survey.csv"),
        "formula": "rr ~ age",
        "law": "bernoulli",
        "mechanisms": ("forced-response",),
        "parameters": ("truth=2/3",),
    }
    return RegressionRequest(**(plain | changes))


@pytest.fixture
def quick(monkeypatch):
    """Draws near the prior in place of an inference, so that nothing is compiled."""

    def infer(key, model, observed, *, run_dir, **more):
        theta = np.random.default_rng(0).normal(0.0, 0.3, (1000, len(model.names)))
        made = Draws(theta, model.names, Report("nuts", exact=True))
        (run_dir / "run.json").write_text("{}")
        made.save(run_dir / "posterior")
        return made

    monkeypatch.setattr("noisewise.automatic.infer", infer)


def test_parameters_are_numbers_fractions_and_columns(folder):
    plain = request(parameters=("truth=2/3", "yes=share")).load()[0].model.mechanism
    assert np.isclose(plain.truth, 2 / 3)
    assert np.allclose(plain.yes, np.resize([0.1, 0.2], 6))


def test_mechanisms_by_entry_have_parameters_of_their_own(folder):
    made = request(
        by="sex",
        mechanisms=("f=warner", "m=forced-response"),
        parameters=("f.p=0.8", "m.truth=share"),
    )
    mechanism = made.load()[0].model.mechanism
    answered = mechanism.log_prob_each(np.ones(6), np.zeros(6))
    # of women 1 - p, of men (1 - truth) / 2
    expected = [0.2, 0.4, 0.2, 0.4, 0.2, 0.4]
    assert np.allclose(np.exp(answered), expected)


def test_a_name_with_a_prior_is_an_unknown_parameter(folder):
    made = request(
        mechanisms=("stochastic-lie-detector",),
        parameters=("truth=honest", "p=share"),
        priors=("honest=Uniform(0.5,1)", "age=Normal(0,1/2)"),
    )
    analysis = made.load()[0].analysis
    assert analysis.model.mechanism.unknown == ("honest",)
    assert analysis.priors["age"] == "Normal(0, 0.5)"


def test_missing_absent_and_incomplete_rows(folder):
    missing = request(missing="sex=m").load()[0].observed
    assert np.isnan(missing).tolist() == 3 * [False, True]
    analysis = request(formula="rr ~ income", drop_missing=True).load()[0].analysis
    assert len(analysis.observed) == 5
    counts = request(
        formula="visits ~ age",
        law="poisson",
        mechanisms=("exact",),
        parameters=("threshold=8",),
        absent="7",
    )
    assert np.isnan(counts.load()[0].observed).tolist() == [True] + 5 * [False]


def test_a_run_is_shown_again_and_holds_one_regression(run, folder, quick):
    first = run(*shlex.split(LINE))
    assert first.exit_code == 0, first.stderr
    words = " ".join(first.stdout.split())
    assert "Share of yes over all rows:" in words
    assert "Verdict: exact" in words
    page = (folder / "run/report.html").read_text()
    assert "What the regression says" in page
    assert "noisewise regress survey.csv &#x27;rr ~ age&#x27; --law bernoulli" in page
    again = run(*shlex.split(f"{LINE} --json"))
    record = json.loads(again.stdout)
    assert set(record["summary"]) == {"Intercept", "age"}
    assert 0.3 < record["prevalence"]["mean"] < 0.7
    for change in ("--seed 2", "--set yes=0.1", "--prior 'age=Normal(0,1)'"):
        other = run(*shlex.split(f"{LINE} {change}"))
        assert other.exit_code == 1
        assert "holds another regression" in other.stderr
    (folder / "survey.csv").write_text((folder / "survey.csv").read_text().replace("2.1", "2.2"))
    assert "not the same: the data" in run(*shlex.split(LINE)).stderr
    assert "repeat the command" in run("resume", "run").stderr


def test_answers_that_the_device_cannot_give_are_told_first(run, folder, monkeypatch):
    monkeypatch.setattr("noisewise.cli.infer.carry_out", lambda *given, **more: None)
    rows = "\n".join(f"{int(i < 20)},{i % 7}" for i in range(200))
    (folder / "few.csv").write_text(f"rr,age\n{rows}\n")
    line = f"regress few.csv 'rr ~ age' {FORCED}".replace("--set truth=2/3", "--set truth=0.5")
    result = run(*shlex.split(line))
    assert "Note: Fewer answers are yes than the stated mechanism can produce: 20 of 200" in (
        " ".join(result.stderr.split())
    )


def test_without_formulae_one_line_says_how_to_install_it(run, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "formulae", None)
    result = run(*shlex.split(LINE))
    assert result.exit_code == 1
    assert "pip install 'noisewise[formula]'" in result.stderr
    assert not (folder / "run").exists()


def test_weights_move_the_mean(run, folder, quick):
    plain, weighted = (
        json.loads(run(*shlex.split(f"{LINE}{n} --json {more}")).stdout)["prevalence"]["mean"]
        for n, more in enumerate(("", "--weights visits"))
    )
    assert plain != weighted


@pytest.mark.slow
def test_the_whole_way(run, folder):
    result = run(*shlex.split(f"{LINE} --json"))
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["method"] == "nuts"
    assert nw.load_posterior(folder / "run").report.exact
