"""Simulators that raise, hang, kill their worker or fail now and then: what is lost, what is said, when it is too much."""

import ctypes
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.simulators import Faults, PythonSimulator, Workers, _dispatch

KEY = jax.random.key(3)
THETA = np.linspace(0.0, 1.0, 101)[:, None]
HALF = 50
TIMEOUT = 0.5


def here(x):
    return x


def plain(rng, theta):
    return theta + rng.normal(size=1)


def raises(rng, theta):
    if theta[0] == 0.5:
        raise ValueError("half")
    return plain(rng, theta)


def kills(rng, theta):
    if theta[0] == 0.5:
        os._exit(7)
    return plain(rng, theta)


def sleeps(rng, theta):
    if theta[0] == 0.5:
        time.sleep(1000.0)
    return plain(rng, theta)


def loops(rng, theta):
    while theta[0] == 0.5:
        pass
    return plain(rng, theta)


def keeps_the_gil(rng, theta):
    """As compiled code may: only the end of its process ends it."""
    if theta[0] == 0.5:
        ctypes.PyDLL(None).sleep(1000)
    return plain(rng, theta)


REFERENCE = PythonSimulator(plain).statistics(KEY, THETA, here)


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as executor:
        yield executor


def others(s):
    return np.delete(s, HALF, axis=0)


def assert_only_half_is_missing(s, faults):
    assert np.isnan(s[HALF]).all()
    assert np.array_equal(others(s), others(REFERENCE))
    assert (faults.total, faults.num_simulations) == (1, len(THETA))
    assert "theta = [0.5]" in faults.sentence()


# One bad simulation costs itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", "threads", "workers"])
def test_what_raises_is_dropped_and_counted(where, workers):
    faults = Faults(max_failed=0.05)
    with ThreadPoolExecutor(2) as threads:
        executor = {"here": None, "threads": threads, "workers": workers}[where]
        s = PythonSimulator(raises).statistics(KEY, THETA, here, executor=executor, batch_size=10, faults=faults)
    assert_only_half_is_missing(s, faults)
    assert faults.sentence().startswith("1 simulation failed twice and was dropped (1 raised an error)")
    assert "ValueError: half." in faults.sentence()


def test_a_death_costs_its_simulation_only(workers):
    """Its batch of ten is run again one by one: nine recover, as the same numbers."""
    faults = Faults(max_failed=0.05)
    s = PythonSimulator(kills).statistics(KEY, THETA, here, executor=workers, batch_size=10, faults=faults)
    assert_only_half_is_missing(s, faults)
    assert faults.num_recovered == 9
    assert "exit code 7" in faults.sentence()


SLOW = [pytest.param(fn, where, marks=pytest.mark.slow) for fn in (sleeps, loops) for where in ("here", "workers")]


@pytest.mark.parametrize(
    ("fn", "where"),
    [(sleeps, "threads"), (loops, "threads"), (keeps_the_gil, "here"), (keeps_the_gil, "workers"), *SLOW],
)
def test_what_hangs_is_ended(fn, where, workers):
    faults = Faults(max_failed=0.05)
    with ThreadPoolExecutor(2) as threads:
        executor = {"here": None, "threads": threads, "workers": workers}[where]
        simulator = PythonSimulator(fn, timeout=TIMEOUT)
        started = time.monotonic()
        s = simulator.statistics(KEY, THETA, here, executor=executor, batch_size=10, faults=faults)
        seconds = time.monotonic() - started
    assert_only_half_is_missing(s, faults)
    assert "took more than 0.5 s" in faults.sentence()
    assert seconds < 20.0  # twice the time-out, and two new processes


def test_the_trace_says_where_it_hung(workers):
    with pytest.raises(errors.SimulationError) as caught:
        PythonSimulator(sleeps, timeout=TIMEOUT).statistics(KEY, THETA[[HALF]], here, executor=workers)
    assert "Simulation 0 failed at theta = [0.5]: it took more than 0.5 s." in str(caught.value)
    assert "in sleeps" in str(caught.value.__cause__)


def test_what_fails_now_and_then_is_run_again(tmp_path):
    """Every third simulation fails the first time: nothing is missing, and nobody's numbers change."""

    def unreliable(rng, theta, folder=tmp_path):
        seen = folder / str(theta[0])
        if round(theta[0] * 100) % 30 == 0 and not seen.exists():
            seen.touch()
            raise OSError("the licence server is busy")
        return plain(rng, theta)

    faults = Faults(max_failed=0.05)
    s = PythonSimulator(unreliable).statistics(KEY, THETA, here, faults=faults)
    assert np.array_equal(s, REFERENCE)
    assert (faults.total, faults.num_recovered, faults.sentence()) == (0, 4, None)


class Stuck(ThreadPoolExecutor):
    """An executor of somebody else's that loses some tasks: they never come back."""

    def __init__(self, lost):
        super().__init__(1)
        self.lost, self.submitted = lost, 0

    def submit(self, fn, /, *args, **kwargs):
        self.submitted += 1
        if self.submitted in self.lost:
            return super().submit(time.sleep, 3.0)
        return super().submit(fn, *args, **kwargs)


def test_batches_that_never_come_back_are_submitted_again(monkeypatch):
    monkeypatch.setattr(_dispatch, "GRACE", 0.2)
    faults = Faults(max_failed=0.05)
    with Stuck({11}) as executor:
        simulator = PythonSimulator(plain, timeout=0.05)
        s = simulator.statistics(KEY, THETA, here, executor=executor, batch_size=10, faults=faults)
    assert np.array_equal(s[:-1], REFERENCE[:-1])
    assert executor.submitted > 11
    assert faults.total in (0, 1)


# Too many ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", "workers"])
def test_a_broken_simulator_is_found_out_early(where, workers, tmp_path):
    def broken(rng, theta, log=str(tmp_path / "log")):
        with open(log, "a") as file:
            file.write("x")
        raise NameError("betta")

    executor = {"here": None, "workers": workers}[where]
    with pytest.raises(errors.SimulationError, match=r"8 of 8 simulations failed.* theta = \[.*NameError: betta\."):
        PythonSimulator(broken).statistics(
            KEY, np.zeros((10_000, 1)), here, executor=executor, batch_size=1, faults=Faults(max_failed=0.05)
        )
    assert len((tmp_path / "log").read_text()) < 16 + 2 * 512


@pytest.mark.slow
def test_each_death_is_not_waited_for(workers):
    started = time.monotonic()
    with pytest.raises(errors.SimulationError, match="exit code 7"):
        PythonSimulator(kills).statistics(KEY, np.full((128, 1), 0.5), here, executor=workers)
    assert time.monotonic() - started < 60.0


@pytest.mark.parametrize(("rate", "raised"), [(0.02, False), (0.04, False), (0.10, True)])
def test_the_budget_is_the_stated_fraction(rate, raised):
    """2000 simulations, 5% allowed: 4% never look like more (allowed 5% + 5 + 3 sd, at every moment), 10% do long before the end."""

    def sometimes(rng, theta):
        if rng.uniform() < rate:
            raise ValueError("no")
        return theta

    def run(seed):
        faults = Faults(max_failed=0.05)
        try:
            PythonSimulator(sometimes).statistics(jax.random.key(seed), np.zeros((2000, 1)), here, faults=faults)
        except errors.SimulationError:
            return faults.num_simulations
        assert faults.total == pytest.approx(2000 * rate, abs=4 * np.sqrt(2000 * rate))
        return None

    stops = [run(seed) for seed in range(8)]
    assert all((stop is not None) == raised for stop in stops), stops
    assert not raised or max(stops) < 1500


def test_without_a_count_the_first_failure_raises():
    with pytest.raises(errors.SimulationError, match=r"Simulation 50 failed at theta = \[0.5\]: ValueError: half"):
        PythonSimulator(raises).statistics(KEY, THETA, here)
    with pytest.raises(errors.SimulationError, match="Simulation 50"):
        PythonSimulator(raises).simulate(KEY, THETA)


def test_a_pool_of_another_kind_that_breaks_says_what_does_not():
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=context) as executor,
        pytest.raises(errors.SimulationError, match=r"nw\.simulators\.Workers replaces workers that die"),
    ):
        PythonSimulator(kills).statistics(KEY, THETA, here, executor=executor, faults=Faults(0.05))


# In an inference -----------------------------------------------------------------------------------------------------


def a_model(fn, **settings):
    return nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Uniform(0.0, 1.0)}),
        simulator=PythonSimulator(fn, **settings),
        query=nw.queries.FunctionQuery(here, names=("s",)),
        mechanism=nw.mechanisms.Laplace(scale=0.1),
    )


def fails_above(rng, theta):
    if theta[0] > 0.97:
        raise ValueError("too large")
    return np.array([np.nan]) if theta[0] < 0.01 else theta + 0.1 * rng.normal(size=1)


def test_an_inference_drops_counts_and_reports():
    posterior = nw.inference.ImportanceSampling(num_stages=0, num_final=2000).infer(
        KEY, a_model(fails_above), [0.4], progress=False
    )
    warnings = " ".join(posterior.report.warnings)
    assert 30 < posterior.report.num_failed < 130
    assert "simulations failed twice and were dropped" in warnings
    assert "ValueError: too large" in warnings
    assert "biased" in warnings


def test_an_inference_stops_with_an_example_where_too_many_fail():
    model = a_model(fails_above, max_failed=0.001)
    with pytest.raises(
        errors.SimulationError, match=r"max_failed=0\.001\) allows, the first of them at theta = \[0\.9"
    ):
        nw.inference.ImportanceSampling(num_stages=0, num_final=20_000).infer(KEY, model, [0.4], progress=False)


def test_a_model_whose_first_simulation_fails_still_has_a_width():
    def unlucky(rng, theta):
        if theta[0] == first:
            raise ValueError("first")
        return theta

    model = nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Uniform(0.0, 1.0)}), simulator=PythonSimulator(unlucky), query=here,
        mechanism=nw.mechanisms.Laplace(scale=0.1),
    )  # fmt: skip
    first = float(model.prior.sample(jax.random.key(0), 8)[0, 0])
    assert model.statistic_width == 1


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"timeout": 0.0}, "timeout must be a finite number > 0, got 0"),
        ({"timeout": "1"}, "timeout"),
        ({"max_failed": 1.0}, "max_failed must be a finite number >= 0 and < 1"),
        ({"max_failed": -0.1}, "max_failed"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, text):
    with pytest.raises((errors.InvalidInputError, errors.InvalidTypeError), match=text):
        PythonSimulator(plain, **settings)
