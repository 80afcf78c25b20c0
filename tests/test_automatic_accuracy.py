"""nw.infer with its defaults on all seven settings of the paper: right, and within a minute."""

import time

import jax
import pytest

import noisewise as nw
from benchmarks.neural_accuracy import SETTINGS, problem, score


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [(name, epsilon) for name, epsilons in SETTINGS.items() for epsilon in epsilons],
)
def test_defaults_are_right_within_a_minute(name, epsilon):
    """C2ST <= .54, that of a shift by a fifth of a standard deviation, and under 60 s once
    compiled, on two cores.
    """
    made = problem(name, epsilon)
    nw.infer(jax.random.key(0), made.model, made.observed, progress=False)  # compiles
    started = time.perf_counter()
    posterior = nw.infer(jax.random.key(1), made.model, made.observed, progress=False)
    seconds = time.perf_counter() - started
    assert posterior.report.exact
    assert posterior.report.stopped == "finished"
    value = score(made, posterior)
    print(
        f"{name} {epsilon:g}: C2ST {value:.3f}, {seconds:.1f} s,"
        f" {posterior.report.diagnostics['route']}"
    )
    assert value <= 0.54
    assert seconds < 60.0
