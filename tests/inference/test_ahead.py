"""Programs compiled ahead while a network trains, and simulations kept in arrays that never grow."""

import functools
import threading
import time

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise._compile import background
from noisewise._compile.background import in_background
from noisewise.estimators import (
    Affine,
    Training,
    Whitening,
    masked_autoregressive_flow,
    neural_spline_flow,
    whitening,
)
from noisewise.inference import (
    ConfidentialLikelihoodEstimation,
    PrivateLikelihoodEstimation,
    PrivatePosteriorEstimation,
)
from noisewise.inference.learned.common.simulations import Rows, Simulations

KEY = jax.random.key(3)
SMALL = {"num_simulations": 200, "num_members": 1, "training": Training(max_epochs=2)}
AFFINE = functools.partial(masked_autoregressive_flow, num_layers=1, num_units=9, num_hidden=1)
SPLINE = functools.partial(neural_spline_flow, num_layers=1, num_units=9, num_hidden=1, num_bins=4)
CHAINS = {"num_chains": 20, "num_warmup": 5, "target_ess": 20}
METHODS = {
    "cle": ConfidentialLikelihoodEstimation(num_rounds=1, estimator=AFFINE, **SMALL, **CHAINS),
    "sple": PrivateLikelihoodEstimation(num_rounds=1, estimator=SPLINE, **SMALL, **CHAINS),
    "sppe": PrivatePosteriorEstimation(num_rounds=1, estimator=SPLINE, **SMALL),
}
AHEAD = {
    "cle": ("_run", "_evaluate", "_statistics"),
    "sple": ("_run", "_evaluate"),
    "sppe": ("_log_density", "_sample_given"),
}
"""Programs that are compiled ahead, and must serve the trained density."""

compiled: list[tuple[str, str]] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **more: (
        compiled.append((str(more.get("fun_name")), threading.current_thread().name))
        if event.endswith("backend_compile_duration")
        else None
    )
)


@pytest.mark.parametrize(
    "name", ["sppe", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cle", "sple"))]
)
def test_what_is_compiled_ahead_serves_the_trained_density(name, monkeypatch):
    monkeypatch.setattr(background, "num_cores", lambda: 2)
    problem = nw.problems.gaussian_mean(epsilon=1.0, bounds=None)
    compiled.clear()
    METHODS[name].infer(KEY, problem.model, problem.observed, progress=False).sample(KEY, 50)
    threads = {
        program: [thread for found, thread in compiled if found == f"jit({program})"]
        for program in AHEAD[name]
    }
    for program, found in threads.items():
        assert found.count("noisewise-ahead") == 1, program
        assert len(found) == 1 + (program == "_run"), (
            program
        )  # the training is a program by that name, too


def test_what_fails_ahead_is_left_to_its_turn(monkeypatch):
    monkeypatch.setattr(background, "num_cores", lambda: 2)
    seen = []
    with in_background(lambda: seen.append(1 / 0)):
        seen.append("went on")
    assert seen == ["went on"]
    with pytest.raises(KeyError), in_background(lambda: time.sleep(0.2) or seen.append("ended")):
        raise KeyError("of the block itself")
    assert seen == ["went on", "ended"]


def test_rows_are_written_into_one_array():
    rows = Rows(5, 2)
    whole = rows.whole
    rows.add(np.ones((2, 2)))
    rows.add(np.full((1, 2), 3.0))
    np.testing.assert_array_equal(rows.values, [[1.0, 1.0], [1.0, 1.0], [3.0, 3.0]])
    assert rows.whole is whole
    assert np.shares_memory(rows.values, whole)
    np.testing.assert_array_equal(whole[3:], 0.0)
    for wrong in (np.ones((3, 2)), np.ones((1, 1))):
        with pytest.raises(ValueError, match="no room"):
            rows.add(wrong)


def test_the_number_of_cores_changes_nothing(monkeypatch):
    problem, draws = nw.problems.gaussian_mean(epsilon=1.0, bounds=None), []
    for cores in (1, 2):
        monkeypatch.setattr(background, "num_cores", lambda cores=cores: cores)
        posterior = METHODS["sppe"].infer(KEY, problem.model, problem.observed, progress=False)
        draws.append(posterior.sample(KEY, 50))
    np.testing.assert_array_equal(*draws)


def test_memory_for_all_rounds_is_taken_at_once():
    model = nw.problems.gaussian_mean(epsilon=1.0).model
    kept = Simulations(model, 1000)
    assert kept.nbytes == 1000 * (8 + 8 + 1 + 4)
    assert (kept.num, kept.z.shape, kept.s.shape) == (0, (0, 1), (0, 1))


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_standardisation_in_blocks_is_that_of_all_rows(degree, monkeypatch):
    rng = np.random.default_rng(0)
    condition = rng.normal(size=(1000, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 2.0]
    target = rng.normal(size=(1000, 2)) @ [[1.0, 0.5], [0.0, 0.2]] + condition[:, :1] ** 2 + 1e3
    found = []
    for rows in (10_000, 64):
        monkeypatch.setattr(whitening, "_ROWS", rows)
        scale = Affine.fit(condition)
        fit = Whitening.fit(target, scale(condition), degree=degree)
        found.append((scale.mean, scale.inverse_sd, fit.coefficients, fit.root))
    for whole, blocks in zip(*found, strict=True):
        np.testing.assert_allclose(blocks, whole, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[0][1], 1.0 / condition.std(axis=0), rtol=1e-12)
    rest = target - np.asarray(fit.inverse(np.zeros_like(target), scale(condition)))
    np.testing.assert_allclose(fit.root @ fit.root.T, np.cov(rest.T, bias=True), rtol=1e-6)
