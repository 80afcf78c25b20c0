"""From a problem or a file to a posterior: what is computed, shown, stored, and how the command
exits.
"""

import contextlib
import json
import re
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import noisewise as nw
from noisewise.cli import outcomes, targets
from noisewise.cli.app import app
from noisewise.cli.requests import remembered

QUICK = ("--method", "importance", "--set", "num_final=8000", "--set", "num_stages=0")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The directory of a finished run, to copy."""
    with contextlib.chdir(tmp_path_factory.mktemp("finished")):
        result = CliRunner().invoke(app, ["infer", "gaussian-mean", *QUICK, "--out", "a"])
        assert result.exit_code == 0, result.stderr
        return Path("a").resolve()


def test_a_problem_gives_the_posterior_of_python(run, folder):
    result = run("infer", "gaussian-mean", *QUICK, "--seed", 5, "--out", "runs/a")
    assert result.exit_code == 0, result.stderr
    problem = nw.problems.gaussian_mean()
    method = nw.inference.ImportanceSampling(num_final=8000, num_stages=0)
    expected = method.infer(jax.random.key(5), problem.model, problem.observed, progress=False)
    assert np.array_equal(nw.load_posterior("runs/a").theta, expected.theta)
    shown = result.stdout
    assert "gaussian-mean at epsilon 1" in shown
    assert "ignoring the noise" in shown
    assert "truth" in shown
    assert "Verdict: exact." in shown
    assert "Monte Carlo errors are at most" in shown
    assert max(map(len, shown.splitlines())) <= 80
    stored = json.loads(Path("runs/a/command.json").read_text())
    assert stored["argv"][:3] == ["noisewise", "infer", "gaussian-mean"]
    assert json.loads(Path("runs/a/certificate.json").read_text())["verdict"] == "exact"


def test_the_stored_command_repeats_the_run(run):
    words = ["infer", "gaussian-mean", *QUICK, "--epsilon", 2.5, "--seed", 7, "--out", "runs/a"]
    assert run(*words).exit_code == 0
    again = json.loads(Path("runs/a/command.json").read_text())["argv"]
    again[again.index("runs/a")] = "runs/b"
    assert run(*again[1:]).exit_code == 0
    assert np.array_equal(nw.load_posterior("runs/a").theta, nw.load_posterior("runs/b").theta)


def test_json_is_one_object(loaded):
    found = loaded("infer", "gaussian-mean", *QUICK, "--out", "runs/a")
    assert found["trustworthy"] is True
    assert found["truth"] == {"mean": 0.7}
    assert set(found["summary"]["mean"]) >= {"mean", "sd", "2.5%", "97.5%", "97.5% mcse"}
    assert 0.0 < found["summary"]["mean"]["mean mcse"] < found["summary"]["mean"]["sd"] / 5
    assert found["naive"]["mean"]["sd"] < found["summary"]["mean"]["sd"]


def test_quiet_says_the_verdict_alone(run):
    result = run("infer", "gaussian-mean", *QUICK, "--out", "runs/a", "--quiet")
    assert result.stderr == ""
    assert result.stdout.startswith("Verdict: exact.")
    assert "sd" not in result.stdout.split()


def test_without_a_method_the_target_is_reached(loaded):
    found = loaded(
        "infer", "model.py", "--release", "release.json", "--target-ess", 300, "--out", "runs/a"
    )
    posterior = found["summary"]["mean"]
    # the mean of 200 records with sd 10 has sd .71, the noise sd .71: the posterior sd is 1.0,
    # known here to 5%
    assert found["effective_size"] >= 300
    assert abs(posterior["mean"] - 51.0) < 0.5
    assert abs(posterior["sd"] - 1.0) < 0.2
    assert found["truth"] is None
    assert found["naive"] is None


def test_a_release_that_does_not_fit_is_told(run):
    """No record of a model with mean 44 and sampling error .71 makes a mean of 51: noise would have
    to be the cause, which has no such values.
    """
    fits, wrong = (
        run(
            "infer",
            f"model.py:{name}",
            "--release",
            "release.json",
            *QUICK,
            "--out",
            f"runs/{name}",
        )
        for name in ("model", "wrong")
    )
    assert (fits.exit_code, wrong.exit_code) == (0, 3)
    assert "Nothing that was found explains the observation" in " ".join(wrong.stdout.split())
    assert "Verdict: exact." not in wrong.stdout
    assert "Nothing that was found" not in fits.stdout
    told = "Warning: The observation lies outside what the posterior predicts"
    assert told in " ".join(wrong.stdout.split())
    assert told not in " ".join(fits.stdout.split())
    assert "Do not trust" in Path("runs/wrong/report.html").read_text()


def test_a_first_simulation_that_takes_long_is_told(folder, monkeypatch, capsys):
    release = nw.Release.load("release.json")
    slow, quick = (
        targets.model_from(Path("model.py"), name, release) for name in ("slow", "model")
    )
    monkeypatch.setattr(targets, "PATIENCE", 0.1)
    targets._tried(slow, release)
    assert "The first simulation has taken 0.1 s so far" in capsys.readouterr().err
    monkeypatch.setattr(targets, "PATIENCE", 60.0)
    targets._tried(quick, release)
    assert capsys.readouterr().err == ""


def test_truths_of_derived_quantities_are_known():
    problem = nw.problems.sir()
    truths = targets.Target("sir", problem.model, problem.observed, problem.truth).truths
    assert truths["R0"] == pytest.approx(np.exp(2.5))
    assert targets.Target("sir", problem.model, problem.observed).truths == {}


def test_releases_of_one_dataset_combine(loaded):
    both = ("--release", "release.json", "--release", "second.json")
    found = loaded(
        "infer",
        "model.py:model",
        *both,
        *QUICK[:2],
        "--set",
        "num_final=20000",
        "--set",
        "num_stages=0",
        "--out",
        "runs/a",
    )
    # two numbers with Laplace noise of scale .5 say of s what one of scale .25 would: sd .35 +
    # sampling .71 make .8, known to 5%
    assert abs(found["summary"]["mean"]["mean"] - 50.9) < 0.4
    assert abs(found["summary"]["mean"]["sd"] - 0.8) < 0.15
    assert sorted(path.name for path in Path("runs/a/inputs").iterdir()) == [
        "1-release.json",
        "2-second.json",
    ]


def test_a_problem_takes_a_release_of_its_own(loaded):
    problem = nw.problems.gaussian_mean(num_records=100)
    mechanism = nw.mechanisms.Laplace(scale=0.4, sensitivity=0.04)
    nw.Release([0.3], mechanism, query=problem.model.query).save("own.json")
    found = loaded("infer", "gaussian-mean", "--release", "own.json", *QUICK, "--out", "runs/a")
    assert found["truth"] is None
    assert -1.0 < found["summary"]["mean"]["mean"] < 1.0


def test_what_a_certificate_speaks_against_exits_with_3(run, loaded):
    settings = ("--set", "num_draws=400", "--set", "tolerance=3", "--certify", 2000)
    words = (
        "infer",
        "gaussian-mean",
        "--epsilon",
        10,
        "--method",
        "rejection-abc",
        *settings,
        "--out",
        "runs/a",
    )
    assert run(*words).exit_code == 3
    first = json.loads(Path("runs/a/certificate.json").read_text())
    assert first["verdict"] != "certified"
    stored = outcomes.stored(Path("runs/a"))
    assert stored.certificate.verdict == first["verdict"]
    assert stored.sentence == first["sentence"]
    found = loaded(*words, code=3)
    assert found["trustworthy"] is False
    assert found["certificate"]["verdict"] == first["verdict"]


PYTHON_WORDS = r"\bq\b|certificate\.corrected|num_simulations|max_simulations=|ImportanceSampling|DataAugmentation|nw\."
ABC = ("--method", "rejection-abc", "--set", "num_draws=400", "--set")


@pytest.mark.parametrize(
    ("settings", "certify", "word"),
    [
        (
            ("tolerance=0.2",),
            20_000,
            "Use these: they are what is shown, and lie in runs/{a}/corrected",
        ),
        (
            ("tolerance=1",),
            4000,
            (
                "may be used: they are what is shown, and lie in runs/{a}/corrected. Give the"
                " method more"
            ),
        ),
        (
            ("tolerance=3", "--epsilon", 3),
            8000,
            "should be used. Give the method more rounds or simulations (--num-rounds",
        ),
        (("tolerance=0.2",), 2000, "Repeat the command with --certify"),
        (("tolerance=3", "--epsilon", 10), 6000, "--method da-mcmc"),
    ],
    ids=["certified", "poor, corrected", "poor", "too few simulations", "hopeless"],
)
def test_certificates_speak_of_options_and_files(run, settings, certify, word):
    """Planted: with `certificate.sentence` in place of `said(_wording)` all fail. A folder may be
    called {a}.
    """
    result = run(
        "infer", "gaussian-mean", *ABC, *settings, "--certify", certify, "--out", "runs/{a}"
    )
    shown = result.stdout
    assert "Verdict: " in shown
    assert word in " ".join(shown.split())
    assert not re.search(PYTHON_WORDS, shown), shown


def test_a_larger_certificate_takes_the_finished_inference(run, loaded):
    words = (
        "infer",
        "gaussian-mean",
        "--method",
        "rejection-abc",
        "--set",
        "num_draws=400",
        "--set",
        "tolerance=0.2",
    )
    first = run(*words, "--certify", 2000, "--out", "runs/a")
    assert first.exit_code == 3
    before = Path("runs/a/posterior").stat().st_mtime_ns
    found = loaded(*words, "--certify", 20_000, "--out", "runs/a")
    assert found["verdict"] == "certified"
    assert Path("runs/a/posterior").stat().st_mtime_ns == before
    assert loaded("resume", "runs/a")["certificate"] == found["certificate"]


def test_a_poor_approximation_exits_with_3_though_its_corrected_draws_may_be_used(run, loaded):
    """The rule, in the exit code, the sentence, JSON, the page and --help. Planted: with
    `answer.report.exact` as the rule this fails.
    """
    words = ("infer", "gaussian-mean", *ABC, "tolerance=1", "--certify", 4000, "--out", "runs/a")
    result = run(*words)
    assert result.exit_code == 3
    shown = " ".join(result.stdout.split())
    assert "Verdict: the approximation is poor." in shown
    assert "They are exact and may be used" in shown
    found = loaded(*words, code=3)
    assert found["trustworthy"] is False
    assert found["effective_size"] >= 100
    assert "corrected" in found["method"]
    page = Path("runs/a/report.html").read_text()
    assert "Trust with care" in page
    assert "They are exact and may be used" in page
    told = " ".join(run("infer", "--help").stdout.replace("│", " ").split())
    assert "where the corrected draws of a poor one may be used, the verdict says so" in told


def test_few_exact_draws_exit_with_3(run):
    words = (
        "infer",
        "gaussian-mean",
        "--method",
        "rejection-abc",
        "--set",
        "num_draws=40",
        "--out",
        "runs/a",
    )
    result = run(*words)
    assert result.exit_code == 3
    assert "Verdict: exact, but few draws." in result.stdout
    assert run("resume", "runs/a").stdout == result.stdout


def test_simulations_of_inference_and_certificate_stand_apart(run, loaded):
    words = ("infer", "gaussian-mean", *ABC, "tolerance=1", "--certify", 4000, "--out", "runs/a")
    result = run(*words)
    parts = loaded(*words, code=3)
    own = parts["simulations"]["inference"]
    assert parts["simulations"]["certificate"] == 4000
    assert parts["num_simulations"] == own + 4000
    said = f"{own + 4000:,} simulations ({own:,} for the inference + 4,000 for the certificate)"
    assert said in " ".join(result.stdout.split())
    assert (
        f"{own:,} for the inference and 4,000 for its certificate, {own + 4000:,} in all"
        in Path("runs/a/report.html").read_text()
    )
    told = " ".join(run("infer", "--help").stdout.replace("│", " ").split())
    assert "--certify not counted" in told
    assert "Extra simulations" in told


def test_answers_for_comparison_are_left_as_they_are(run, loaded):
    words = ("infer", "gaussian-mean", "--method", "naive", "--out", "runs/a")
    result = run(*words)
    assert result.exit_code == 3
    assert "for comparison" in result.stdout
    assert "corrected" not in result.stdout
    found = loaded(*words, code=3)
    assert found["certificate"] is None
    assert found["verdict"] == "not certified"


def test_a_certified_approximation_is_corrected(loaded):
    words = (
        "infer",
        "gaussian-mean",
        "--method",
        "rejection-abc",
        "--set",
        "num_draws=400",
        "--certify",
        20_000,
    )
    found = loaded(*words, "--set", "tolerance=0.2", "--out", "runs/a")
    assert found["verdict"] == "certified"
    assert "corrected" in found["method"]
    reference = nw.problems.gaussian_mean().reference(jax.random.key(0), 4000)
    sd = reference.std()
    # 800 effective draws or more: the mean is known to 3.5% of an sd, the sd to 2.5%; five of those
    assert abs(found["summary"]["mean"]["mean"] - reference.mean()) < 0.2 * sd
    assert abs(found["summary"]["mean"]["sd"] / sd - 1.0) < 0.15


def test_a_finished_run_is_shown_again_and_another_is_refused(run):
    words = ["infer", "gaussian-mean", *QUICK, "--out", "runs/a"]
    first = run(*words)
    again = run("resume", "runs/a")
    assert again.exit_code == 0, again.stderr
    assert again.stdout == first.stdout
    assert run(*words).stdout == first.stdout
    refused = run(*words, "--seed", 2)
    assert refused.exit_code == 1
    assert "seed: 1 there, 2 now" in refused.stderr


def test_a_changed_model_or_release_is_not_resumed(run):
    assert (
        run("infer", "model.py", "--release", "release.json", *QUICK, "--out", "runs/a").exit_code
        == 0
    )
    Path("release.json").unlink()
    assert run("resume", "runs/a").exit_code == 0
    assert remembered(Path("runs/a")).releases == (Path("runs/a/inputs/1-release.json"),)
    Path("model.py").write_text(Path("model.py").read_text() + "\n# touched\n")
    changed = run("resume", "runs/a")
    assert changed.exit_code == 1
    assert "model.py was changed" in changed.stderr
    copy = Path("runs/a/inputs/1-release.json")
    copy.write_text(copy.read_text().replace("51.0", "52.0"))
    altered = run("resume", "runs/a")
    assert altered.exit_code == 1
    assert "altered" in altered.stderr


def test_a_run_moves_with_its_model(run, folder, monkeypatch):
    Path("project").mkdir()
    for name in ("model.py", "release.json"):
        Path(name).rename(Path("project") / name)
    words = (
        "infer",
        "project/model.py",
        "--release",
        "project/release.json",
        *QUICK,
        "--out",
        "project/runs/a",
    )
    assert run(*words).exit_code == 0
    Path("project").rename("elsewhere")
    refused = run("resume", "elsewhere/runs/a")
    assert refused.exit_code == 1
    line = "noisewise resume elsewhere/runs/a --model elsewhere/model.py"
    assert refused.stderr.strip().endswith(line)
    assert run(*line.split()[1:]).exit_code == 0
    assert run("resume", "elsewhere/runs/a").exit_code == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: {**record, "schema": "other"},
        lambda record: {**record, "schema_version": 2},
        lambda record: {name: value for name, value in record.items() if name != "seed"},
        lambda record: {**record, "more": 1},
        lambda record: {**record, "releases": [{"path": 3}]},
        lambda record: {**record, "releases": 5},
        lambda record: {**record, "seed": "one"},
        lambda record: {**record, "settings": [1]},
        lambda record: {**record, "problem": 4},
        lambda record: {**record, "problem": None},
        lambda record: {
            **record,
            "releases": [{"copy": "inputs/../../release.json", "sha256": "0"}],
        },
        lambda record: {
            **record,
            "problem": None,
            "file": {"path": "model.py", "name": "model", "sha256": "0"},
        },
    ],
)
def test_damaged_commands_are_refused(run, finished, damage):
    shutil.copytree(finished, "runs/a")
    path = Path("runs/a/command.json")
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    result = run("resume", "runs/a")
    assert result.exit_code == 1, result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_runs_are_compared(run, loaded):
    for seed in (1, 2):
        assert (
            run("infer", "gaussian-mean", *QUICK, "--seed", seed, "--out", f"runs/{seed}").exit_code
            == 0
        )
    assert run("infer", "gaussian-mean", "--epsilon", 0.1, *QUICK, "--out", "runs/3").exit_code == 0
    result = run("compare", "runs/1", "runs/2", "runs/3")
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    found = loaded("compare", "runs/1", "runs/2", "runs/3")
    told = {tuple(pair["runs"]): pair["c2st"] for pair in found["pairs"]}
    limits = {tuple(pair["runs"]): pair["by_chance"]["c2st"] for pair in found["pairs"]}
    assert told["runs/1", "runs/2"] < limits["runs/1", "runs/2"]
    assert told["runs/1", "runs/3"] > limits["runs/1", "runs/3"]
    assert f"{limits['runs/1', 'runs/2']:.3f}" in result.stdout
    assert set(found["table"]["mean"]) == {"runs/1", "runs/2", "runs/3"}


@pytest.fixture
def written(monkeypatch):
    """What reports are asked for, in place of pages."""
    asked = []

    def write_report(path, posterior, **more):
        path.write_text("page")
        asked.append((posterior, more))
        return path

    monkeypatch.setattr("noisewise.reports.write_report", write_report)
    return asked


def test_reports_are_written_with_all_that_is_known(run, written):
    result = run("infer", "gaussian-mean", *QUICK, "--out", "runs/a")
    assert result.stdout.strip().splitlines()[-1] == "runs/a/report.html"
    posterior, more = written[0]
    assert posterior.report.exact
    assert more["truth"].tolist() == [0.7]
    assert more["naive"] is not None
    assert re.fullmatch(r"noisewise infer gaussian-mean .*--seed 1 --out runs/a", more["command"])
    Path("runs/a/report.html").unlink()
    again = run("report", "runs/a")
    assert again.exit_code == 0
    assert again.stdout.strip() == "runs/a/report.html"
    assert Path("runs/a/report.html").exists()
    unfinished = run("report", "runs")
    assert unfinished.exit_code == 1


def test_a_report_is_kept_where_its_model_cannot_be_used(run, written):
    """A poorer one must not take its place."""
    assert (
        run("infer", "model.py", "--release", "release.json", *QUICK, "--out", "runs/a").exit_code
        == 0
    )
    assert run("report", "runs/a", "--model", "model.py").exit_code == 0
    Path("model.py").write_text("1 / 0")
    result = run("report", "runs/a", "--model", "model.py")
    assert result.exit_code == 1
    assert "model.py was changed" in result.stderr
    Path("runs/a/report.html").write_text("full")
    assert "was left unchanged" in run("report", "runs/a").stderr
    assert Path("runs/a/report.html").read_text() == "full"
    Path("runs/a/report.html").unlink()
    assert run("report", "runs/a").exit_code == 0
    assert ["model" in more for _, more in written] == [True, True, False]


def test_one_problem_written_in_two_ways_is_one_run(run):
    assert run("infer", "gaussian_mean", *QUICK, "--out", "runs/a").exit_code == 0
    again = run("infer", "Gaussian-Mean", "--method", "IMPORTANCE", *QUICK[2:], "--out", "runs/a")
    assert again.exit_code == 0, again.stderr
    assert run("resume", "runs/a").exit_code == 0
    path = Path("runs/a/command.json")
    assert json.loads(path.read_text())["problem"] == "gaussian-mean"
    path.write_text(path.read_text().replace('"gaussian-mean"', '"gaussian_mean"'))
    assert run("resume", "runs/a").exit_code == 0


def test_a_plan_takes_the_query_of_a_release(run):
    """A model that is a function of the release can be planned for with a trial release; without
    one it says so.
    """
    quick = ("--simulations", "1000", "--releases", "20", "--epsilon", "1")
    without = run("plan", "model.py", *quick)
    assert without.exit_code == 1
    assert "give one with --release" in without.stderr
    found = run("plan", "model.py", "--release", "release.json", *quick, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["num_simulations"] == 1000
    assert run("plan", "sir", "--release", "release.json", *quick).exit_code == 1
