"""Trials: stored one by one, read back as they were, run anew where they would not be the same."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import noisewise as nw
from experiments import items, trials
from experiments.methods import unclamped_records
from experiments.stopwatch import Stopwatch, training_timed
from noisewise import errors
from noisewise.inference.learned.common import learning


@pytest.fixture
def scale(tmp_path):
    return dataclasses.replace(items.QUICK, name="tiny", num_draws=200, cache=tmp_path)


def test_a_trial_is_stored_and_read_back(scale):
    scale, said = dataclasses.replace(scale, num_draws=100), []
    first = trials.get("log_linear", 10.0, "smc-abc", 2, scale, progress=said.append)
    again = trials.get("log_linear", 10.0, "smc-abc", 2, scale, progress=said.append)
    assert said == ["SMC-ABC on log_linear at 10, seed 2"]
    assert again.record == first.record
    np.testing.assert_array_equal(again.draws, first.draws)
    np.testing.assert_array_equal(again.final, first.draws[-1])
    assert sorted(path.name for path in scale.store.iterdir()) == [
        "log_linear-10-smc-abc-2.json",
        "log_linear-10-smc-abc-2.npz",
    ]
    counts = [each["num_simulations"] for each in first.rounds]
    assert counts == sorted(counts)
    assert counts[-1] <= 3000
    assert first.draws.shape == (len(counts), 100, 10)
    assert all(len(theta) <= 64 and theta.shape[1] == 10 for theta in first.theta)
    metrics = {
        "mmd",
        "c2st",
        "nlog",
        "nlog_paper",
        "lmd",
        "ks",
        "mean",
        "sd",
        "low",
        "high",
        "seconds",
    }
    assert all(metrics <= set(each) for each in first.rounds)
    assert all(
        set(each["seconds"]) == {"simulation", "training", "sampling"} for each in first.rounds
    )
    assert first.rounds[-1]["seconds"]["simulation"] > 0.0


def test_small_scales_are_run_anew_when_sources_change_and_others_are_not(scale, monkeypatch):
    cell = trials.Cell("log_linear", 10.0, "naive", 1)
    kept = trials.Trial(
        {"scale": scale.settings(), "source": "old", "rounds": []}, np.zeros((0, 0, 0)), ()
    )
    trials.keep(kept, cell, scale)
    assert trials.stored(cell, scale) is None
    standard = dataclasses.replace(items.STANDARD, cache=scale.cache)
    trials.keep(
        dataclasses.replace(kept, record={**kept.record, "scale": standard.settings()}),
        cell,
        standard,
    )
    assert trials.stored(cell, standard) is not None
    full = dataclasses.replace(items.FULL, cache=scale.cache)
    assert trials.stored(cell, full) is not None
    assert trials.stored(cell, dataclasses.replace(standard, layers=5)) is None


def test_a_file_without_its_arrays_is_no_trial(scale):
    cell = trials.Cell("log_linear", 10.0, "naive", 1)
    record = {"scale": scale.settings(), "source": items.source_hash(), "rounds": []}
    trials.keep(trials.Trial(record, np.zeros((0, 0, 0)), ()), cell, scale)
    assert trials.stored(cell, scale) is not None
    (scale.store / f"{cell.name}.npz").unlink()
    assert trials.stored(cell, scale) is None


def test_what_a_method_refuses_is_told(scale):
    found = trials.get("log_linear", 10.0, "gibbs-ss", 1, scale)
    assert "LinearRegression" in found.refused
    assert trials.get("log_linear", 10.0, "gibbs-ss", 1, scale).refused == found.refused


def test_exact_draws_are_measured_like_others(scale):
    """100 against 100 draws of one law: C2ST has an sd of .05 or so, MMD^2 one of .5 / 100, four of
    which are .02; KS is below 1.95 sqrt(2 / 100) = .276 in 99.9% of cases.
    """
    found = trials.get("log_linear", 10.0, "exact", 7, scale).rounds[-1]
    assert abs(found["c2st"] - 0.5) < 0.2
    assert max(found["ks"]) < 0.276
    assert abs(found["mmd"]) < 0.02
    assert (scale.store / "log_linear-10-exact-1.json").exists()


def test_time_is_told_apart(monkeypatch):
    watch = Stopwatch()
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    model = watch.timed(problem.model)
    s = model.statistics(jax.random.key(0), problem.model.prior.sample(jax.random.key(1), 100))
    np.testing.assert_array_equal(
        s,
        problem.model.statistics(
            jax.random.key(0), problem.model.prior.sample(jax.random.key(1), 100)
        ),
    )
    assert watch.simulation > 0.0
    assert watch.theta.shape == (64, 1)
    monkeypatch.setattr(learning, "train", lambda: "trained")
    others = [watch, Stopwatch()]
    with training_timed(others):
        assert learning.train() == "trained"
    assert 0.0 < watch.training == pytest.approx(others[1].training)
    assert learning.train() == "trained"
    watch.reset()
    assert (watch.simulation, watch.training, len(watch.theta)) == (0.0, 0.0, 0)


@pytest.mark.slow
def test_metrics_may_be_taken_later(scale):
    cell = trials.Cell("log_linear", 10.0, "naive", 1)
    raw = trials.run(cell, scale)
    assert raw.unmeasured
    trials.keep(raw, cell, scale)
    found = trials.get("log_linear", 10.0, "naive", 1, scale)
    assert not found.unmeasured
    assert not trials.stored(cell, scale).unmeasured
    assert found.rounds[-1]["mean"] == raw.rounds[-1]["mean"]
    assert found.rounds == trials.with_metrics(raw).rounds


def test_what_fails_halfway_is_no_refusal(scale, monkeypatch):
    def halfway(*_):
        yield trials.Round(
            trials.exact_posterior(trials.made("log_linear", 10.0), scale), {}, np.zeros((0, 0))
        )
        raise errors.InvalidInputError("Out of paper.")

    monkeypatch.setattr(trials, "_rounds", halfway)
    with pytest.raises(errors.InvalidInputError, match="Out of paper"):
        trials.run(trials.Cell("log_linear", 10.0, "sple", 1), scale)


def test_records_have_the_sums_of_the_papers_data():
    records = unclamped_records()
    design = np.column_stack([np.ones(100), records[:, :2]])
    np.testing.assert_allclose(
        design.T @ records[:, 2], [-375.2591, -631.6069, 299.4140], atol=1e-8
    )
    np.testing.assert_allclose((design.T @ design)[1], [93.7906, 179.9853, -93.5167], atol=1e-8)


def test_the_command_fills_the_store_once(scale, capsys):
    words = [
        "--problem",
        "log_linear",
        "--method",
        "naive",
        "--seeds",
        "1",
        "2",
        "--scale",
        "quick",
        "--measure-later",
        "--store",
        str(scale.cache),
    ]
    trials.main(words)
    assert "log_linear-10-naive-1: not measured yet" in capsys.readouterr().out
    assert (
        json.loads((scale.cache / "quick" / "log_linear-10-naive-1.json").read_text())["refused"]
        is None
    )
    trials.main(words)
    assert capsys.readouterr().out == ""
