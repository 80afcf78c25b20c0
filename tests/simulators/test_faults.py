"""Simulators that raise, hang, kill their worker or fail now and then: what is lost, what is said,
when it is too much.
"""

import contextlib
import multiprocessing
import subprocess
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import jax
import numpy as np
import pytest

from noisewise import errors
from noisewise.posteriors import Finding, Kind
from noisewise.simulators import Faults, PythonSimulator, Workers, dispatch
from tests.simulators.faulty import (
    HALF,
    KEY,
    THETA,
    here,
    keeps_the_gil,
    kills,
    loops,
    plain,
    raises,
    sleeps,
)

TIMEOUT = 0.5
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
    assert "theta = [0.5]" in faults.example


# One bad simulation costs itself ------------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", "threads", "workers"])
def test_what_raises_is_dropped_and_counted(where, workers):
    faults = Faults(max_failed=0.05)
    with ThreadPoolExecutor(2) as threads:
        executor = {"here": None, "threads": threads, "workers": workers}[where]
        s = PythonSimulator(raises).statistics(
            KEY, THETA, here, executor=executor, batch_size=10, faults=faults
        )
    assert_only_half_is_missing(s, faults)
    sentence = Finding(Kind.SIMULATIONS_DROPPED, faults.numbers()).sentence
    assert sentence.startswith("1 simulation failed twice and was dropped (1 raised an error)")
    assert "ValueError: half." in sentence


def test_a_death_costs_its_simulation_only(workers):
    """Its batch of ten is run again one by one: nine recover, as the same numbers."""
    faults = Faults(max_failed=0.05)
    s = PythonSimulator(kills).statistics(
        KEY, THETA, here, executor=workers, batch_size=10, faults=faults
    )
    assert_only_half_is_missing(s, faults)
    assert faults.num_recovered == 9
    assert "exit code 7" in faults.example


SLOW = [
    pytest.param(fn, where, marks=pytest.mark.slow)
    for fn, where in (
        (sleeps, "here"),
        (sleeps, "workers"),
        (loops, "here"),
        (loops, "workers"),
        (loops, "threads"),
        (keeps_the_gil, "here"),
    )
]


@pytest.mark.parametrize(
    ("fn", "where"),
    [(sleeps, "threads"), (keeps_the_gil, "workers"), *SLOW],
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
    assert "took more than 0.5 s" in faults.example
    assert seconds < 20.0  # twice the time-out, and two new processes


def test_programs_that_a_simulation_started_end_with_it(workers, tmp_path):
    """Planted, and caught: workers without a group of their own."""

    def calls_a_program(rng, theta, folder=tmp_path):
        program = subprocess.Popen(["sleep", "1000"])
        (folder / str(program.pid)).touch()
        program.wait()

    with pytest.raises(errors.SimulationError, match=r"more than 0\.5 s"):
        PythonSimulator(calls_a_program, timeout=TIMEOUT).statistics(
            KEY, THETA[:1], here, executor=workers
        )
    started = [int(path.name) for path in tmp_path.iterdir()]
    assert len(started) == 2
    time.sleep(0.2)
    assert not any(is_running(pid) for pid in started)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_trace_says_where_it_hung(workers):
    with pytest.raises(errors.SimulationError) as caught:
        PythonSimulator(sleeps, timeout=TIMEOUT).statistics(
            KEY, THETA[[HALF]], here, executor=workers
        )
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
    assert (faults.total, faults.num_recovered, faults.numbers()) == (0, 4, None)


class Stuck(ThreadPoolExecutor):
    """An executor of somebody else's that loses some tasks: they never come back."""

    def __init__(self, lost):
        super().__init__(2)
        self.lost, self.submitted = lost, 0

    def submit(self, fn, /, *args, **kwargs):
        self.submitted += 1
        return Future() if self.submitted in self.lost else super().submit(fn, *args, **kwargs)


def run_in(executor, monkeypatch, batch_size=10):
    monkeypatch.setattr(dispatch, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(dispatch, "START_UP_SECONDS", 0.3)
    faults = Faults(max_failed=0.05)
    simulator = PythonSimulator(plain, timeout=0.02)
    return (
        simulator.statistics(
            KEY, THETA, here, executor=executor, batch_size=batch_size, faults=faults
        ),
        faults,
    )


@pytest.mark.parametrize(
    "lost", [pytest.param({11}, marks=pytest.mark.slow), {1}, {1, 2, 5}], ids=str
)
def test_batches_that_never_come_back_are_submitted_again(lost, monkeypatch):
    """Planted, and caught: an endless wait for the first result; one for what is submitted again."""
    with Stuck(lost) as executor:
        s, faults = run_in(executor, monkeypatch)
    assert np.array_equal(s, REFERENCE)
    assert faults.num_recovered > 0
    assert faults.total == 0


def test_what_never_comes_back_is_dropped(monkeypatch):
    with Stuck({7, 102}) as executor:  # the seventh, and the same once more
        s, faults = run_in(executor, monkeypatch, batch_size=1)
    assert np.flatnonzero(np.isnan(s[:, 0])).tolist() == [6]
    assert "no worker came back with it" in faults.example


class Thrifty(ThreadPoolExecutor):
    """Runs equal tasks once, as the executors of dask do by default."""

    def __init__(self):
        super().__init__(2)
        self.known = {}

    def submit(self, fn, /, *args, **kwargs):
        name = repr([fn, *(a.tolist() if isinstance(a, np.ndarray) else a for a in args)])
        if name not in self.known:
            self.known[name] = super().submit(fn, *args, **kwargs)
        return self.known[name]


def test_executors_that_run_equal_tasks_once_run_them_again(tmp_path):
    def once(rng, theta, folder=tmp_path):
        seen = folder / str(theta[0])
        if theta[0] < 0.3 and not seen.exists():
            seen.touch()
            raise OSError("busy")
        return plain(rng, theta)

    faults = Faults(max_failed=0.5)
    with Thrifty() as executor:
        s = PythonSimulator(once).statistics(
            KEY, THETA, here, executor=executor, batch_size=1, faults=faults
        )
    assert np.array_equal(s, REFERENCE)
    assert faults.total == 0 < faults.num_recovered


# Too many -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", "workers"])
def test_a_broken_simulator_is_found_out_early(where, workers, tmp_path):
    def broken(rng, theta, log=str(tmp_path / "log")):
        with open(log, "a") as file:
            file.write("x")
        raise NameError("betta")

    executor = {"here": None, "workers": workers}[where]
    with pytest.raises(
        errors.SimulationError,
        match=r"Each of the first \d+ simulations failed.* theta = \[.*NameError: betta\.",
    ):
        PythonSimulator(broken).statistics(
            KEY,
            np.zeros((10_000, 1)),
            here,
            executor=executor,
            batch_size=1,
            faults=Faults(max_failed=0.05),
        )
    assert len((tmp_path / "log").read_text()) <= {"here": 16, "workers": 64 + 512}[where]


@pytest.mark.slow
def test_each_death_is_not_waited_for(workers):
    started = time.monotonic()
    with pytest.raises(errors.SimulationError, match="exit code 7"):
        PythonSimulator(kills).statistics(KEY, np.full((128, 1), 0.5), here, executor=workers)
    assert time.monotonic() - started < 60.0


@pytest.mark.parametrize(("rate", "raised"), [(0.02, False), (0.04, False), (0.10, True)])
def test_the_budget_is_the_stated_fraction(rate, raised):
    """2000 simulations, of which 5% + 5 + 3 sd = 135 may fail: 4% are 80 +- 9, 10% reach that after
    some 1350 +- 110.
    """
    calls = []

    def sometimes(rng, theta):
        calls.append(theta)
        if rng.uniform() < rate:
            raise ValueError("no")
        return theta

    for seed in range(8):
        faults = Faults(max_failed=0.05)
        calls.clear()
        with (
            pytest.raises(errors.SimulationError, match="136 of 2,000")
            if raised
            else contextlib.nullcontext()
        ):
            PythonSimulator(sometimes).statistics(
                jax.random.key(seed), np.zeros((2000, 1)), here, faults=faults
            )
        assert len(calls) < 2000 if raised else len(calls) == 2000 + faults.total
        assert raised or faults.total == pytest.approx(2000 * rate, abs=4 * np.sqrt(2000 * rate))


def test_it_does_not_matter_which_end_first():
    """Eight of 64 fail at once, the others take longer: with many workers the failures come first."""

    def late(rng, theta):
        if round(theta[0]) % 8 == 1:
            raise ValueError("quick")
        time.sleep(0.02)
        return theta

    theta, found = np.arange(64.0)[:, None], []
    for workers in (1, 64):
        faults = Faults(max_failed=0.05)
        with ThreadPoolExecutor(workers) as executor:
            s = PythonSimulator(late).statistics(
                KEY, theta, here, executor=executor, batch_size=1, faults=faults
            )
        found.append((s.tolist(), faults.total, faults.numbers()))
    assert repr(found[0]) == repr(found[1])
    assert "theta = [1.0]" in found[0][2]["example"]


def test_without_a_count_the_first_failure_raises():
    with pytest.raises(
        errors.SimulationError, match=r"Simulation 50 failed at theta = \[0.5\]: ValueError: half"
    ):
        PythonSimulator(raises).statistics(KEY, THETA, here)
    with pytest.raises(errors.SimulationError, match="Simulation 50"):
        PythonSimulator(raises).simulate(KEY, THETA)


def test_a_pool_of_another_kind_that_breaks_says_what_does_not():
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=context) as executor,
        pytest.raises(
            errors.SimulationError, match=r"nw\.simulators\.Workers replaces workers that die"
        ),
    ):
        PythonSimulator(kills).statistics(KEY, THETA, here, executor=executor, faults=Faults(0.05))


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
