"""Simulators in plain Python: bit-identical for any workers, batches and order of completion;
failures with a reason.
"""

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import traceback
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import cloudpickle
import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise._core.arrays import stage_key
from noisewise.simulators import PythonSimulator, _worker, dispatch

KEY = jax.random.key(7)
THETA = np.linspace(-1.0, 1.0, 150)[:, None]
SHIFT = 2.0


def make_simulator():
    """A closure over a local and a global, as users write them."""
    scale = 3.0
    return PythonSimulator(
        lambda rng, theta: SHIFT + scale * rng.normal(theta[0], 1.0, size=rng.poisson(20) + 1)
    )


def moments(x):
    return [x.mean(), x.var(), len(x)]


SIMULATOR = make_simulator()


@pytest.fixture(scope="module")
def reference():
    return SIMULATOR.statistics(KEY, THETA, moments)


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


class Shuffled(Executor):
    """Runs everything once `expected` tasks have come, in an order of its own."""

    def __init__(self, expected):
        self.expected, self.waiting = expected, []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.waiting.append((future, fn, args))
        if len(self.waiting) == self.expected:
            random.Random(1).shuffle(self.waiting)
            for each, task, arguments in self.waiting:
                each.set_result(task(*arguments))
        return future


class Recording(ThreadPoolExecutor):
    """A thread pool that remembers its futures and the largest number of unfinished ones."""

    def __init__(self, workers):
        super().__init__(workers)
        self.futures, self.most = [], 0

    def submit(self, fn, /, *args, **kwargs):
        future = super().submit(fn, *args, **kwargs)
        self.futures.append(future)
        self.most = max(self.most, sum(not each.done() for each in self.futures))
        return future


# The same numbers whoever computes them -----------------------------------------------------------


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_processes_and_batches_leave_no_trace(reference, workers):
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as executor:
        for batch_size in (1, 7, 64):
            s = SIMULATOR.statistics(KEY, THETA, moments, executor=executor, batch_size=batch_size)
            assert np.array_equal(s, reference), (workers, batch_size)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_the_order_of_completion_leaves_no_trace(reference, batch_size):
    executor = Shuffled(-(-len(THETA) // batch_size))
    assert np.array_equal(
        SIMULATOR.statistics(KEY, THETA, moments, executor=executor, batch_size=batch_size),
        reference,
    )
    starts = [arguments[4][0] for _, _, arguments in executor.waiting]
    assert starts != sorted(starts)


@pytest.mark.parametrize("batch_size", [1, 7, 64, None], ids=str)
def test_this_process_and_threads_give_the_same(reference, batch_size, x64_flag):
    assert np.array_equal(
        SIMULATOR.statistics(KEY, THETA, moments, batch_size=batch_size), reference
    )
    with ThreadPoolExecutor(3) as executor:
        s = SIMULATOR.statistics(KEY, THETA, moments, executor=executor, batch_size=batch_size)
    assert np.array_equal(s, reference)


def test_a_generator_shared_by_a_batch_would_be_caught(reference, monkeypatch):
    """The planted bug: one generator per batch instead of one per simulation."""

    def shared(fn, query, timeout, words, indices, theta, serial):
        rng = _worker.generator(words[0], indices[0])
        return [np.asarray(query(fn(rng, row)), dtype=float) for row in theta]

    monkeypatch.setattr(_worker, "run_batch", shared)
    with ThreadPoolExecutor(1) as executor:
        seven, ten = (
            SIMULATOR.statistics(KEY, THETA, moments, executor=executor, batch_size=b)
            for b in (7, 10)
        )
    assert not np.array_equal(seven, ten)


def test_the_generator_is_the_documented_one(reference):
    words = [int(word) for word in jax.random.key_data(stage_key(KEY, "simulator"))]
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(words, spawn_key=(149,))))
    assert reference[149].tolist() == moments(SIMULATOR.fn(rng, THETA[149]))
    assert np.array_equal(SIMULATOR.statistics(jax.random.key_data(KEY), THETA, moments), reference)


def test_statistics_are_those_of_the_simulated_databases(reference, pool):
    for executor in (None, pool):
        x = SIMULATOR.simulate(KEY, THETA, executor=executor, batch_size=50)
        assert isinstance(x, list)
        assert np.array_equal([moments(each) for each in x], reference)


def test_simulations_are_independent_of_each_other():
    """4096 standard normals: variance 1 and lag-one correlation 0 within 5 standard errors;
    repeated ones are caught.
    """
    draws = PythonSimulator(lambda rng, theta: rng.normal(size=1)).statistics(
        KEY, np.zeros((4096, 1)), lambda x: x
    )[:, 0]
    assert abs(draws.var() - 1.0) < 5 * np.sqrt(2 / 4096)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 5 / np.sqrt(4096)
    repeated = np.repeat(draws[::2], 2)
    assert abs(np.corrcoef(repeated[:-1], repeated[1:])[0, 1]) > 5 / np.sqrt(4096)


def test_queries_of_the_catalogue_run_in_workers(pool):
    query = nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=30)
    simulator = PythonSimulator(lambda rng, theta: rng.normal(theta[0], 1.0, size=(30, 1)))
    here = simulator.statistics(KEY, THETA[:20], query)
    assert here.shape == (20, 1)
    assert np.array_equal(simulator.statistics(KEY, THETA[:20], query, executor=pool), here)


def test_numba_functions_work():
    import numba

    @numba.njit
    def walk(rng, steps):
        total = 0.0
        for _ in range(steps):
            total += rng.normal()
        return total

    simulator = PythonSimulator(lambda rng, theta: np.array([walk(rng, 10) + theta[0]]))
    s = simulator.statistics(KEY, THETA[:20], lambda x: x)
    with ThreadPoolExecutor(2) as executor:
        assert np.array_equal(
            simulator.statistics(KEY, THETA[:20], lambda x: x, executor=executor, batch_size=3), s
        )
    travelled = PythonSimulator(cloudpickle.loads(cloudpickle.dumps(simulator.fn)))
    assert np.array_equal(travelled.statistics(KEY, THETA[:20], lambda x: x), s)


def test_parameters_are_the_functions_own_copy():
    def spoil(rng, theta):
        assert type(theta) is np.ndarray
        assert theta.dtype == np.float64
        theta += 100.0
        return theta

    theta = THETA[:3].copy()
    assert np.array_equal(PythonSimulator(spoil).statistics(KEY, theta, lambda x: x), theta + 100.0)
    assert np.array_equal(theta, THETA[:3])


def test_nan_passes_through_as_a_row():
    s = PythonSimulator(lambda rng, theta: theta).statistics(
        KEY, [[0.0], [1.0]], lambda x: np.where(x > 0.5, np.nan, x)
    )
    assert np.isnan(s[:, 0]).tolist() == [False, True]


@pytest.mark.parametrize(
    "query", [lambda x: x[0], nw.queries.FunctionQuery(np.mean)], ids=["bare", "query"]
)
def test_a_statistic_of_one_number_is_one_column(query):
    assert np.array_equal(IDENTITY.statistics(KEY, THETA, query), THETA)


# Executors ----------------------------------------------------------------------------------------


def test_few_batches_are_in_flight(reference, monkeypatch):
    monkeypatch.setattr(dispatch, "MAX_IN_FLIGHT", 4)
    with Recording(2) as executor:
        assert np.array_equal(
            SIMULATOR.statistics(KEY, THETA, moments, executor=executor, batch_size=1), reference
        )
    assert len(executor.futures) == 150
    assert executor.most <= 4


def test_functions_are_unpickled_once_per_worker(pool):
    class Counted:
        def __init__(self):
            self.loads = 0

        def __setstate__(self, state):
            self.loads = state["loads"] + 1

        def __call__(self, rng, theta):
            import builtins

            builtins.noisewise_loads = getattr(builtins, "noisewise_loads", set()) | {id(self)}
            return np.array([len(builtins.noisewise_loads)])

    s = PythonSimulator(Counted()).statistics(
        KEY, THETA[:20], lambda x: x, executor=pool, batch_size=2
    )
    assert s.ravel().tolist() == [1.0] * 20


def test_workers_do_not_import_jax():
    code = (
        "import sys, noisewise.simulators._worker; print(sorted({'jax', 'numpyro', 'scipy',"
        " 'numba'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_forking_pools_are_refused_with_the_line_to_write():
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor,
        pytest.raises(
            errors.InvalidInputError, match=r'mp_context=multiprocessing.get_context\("spawn"\)'
        ),
    ):
        SIMULATOR.statistics(KEY, THETA, moments, executor=executor)


def test_an_interrupt_cancels_what_has_not_started(monkeypatch):
    release = threading.Event()
    simulator = PythonSimulator(lambda rng, theta: release.wait(5.0) and theta)

    def interrupt(flight):
        raise KeyboardInterrupt

    monkeypatch.setattr(dispatch._Submitted, "collect", interrupt)
    with Recording(1) as executor:
        with pytest.raises(KeyboardInterrupt):
            simulator.statistics(KEY, THETA, lambda x: x, executor=executor, batch_size=1)
        cancelled = sum(future.cancelled() for future in executor.futures)
        release.set()
    assert cancelled >= len(THETA) - 2


# Failures -----------------------------------------------------------------------------------------


def explode(rng, theta):
    if theta[0] > 0.5:
        raise ZeroDivisionError("no people left")
    return theta


@pytest.mark.parametrize("where", ["here", "threads", "processes"])
def test_a_failure_names_the_simulation_and_keeps_the_traceback(where, pool):
    with ThreadPoolExecutor(1) as threads:
        executor = {"here": None, "threads": threads, "processes": pool}[where]
        with pytest.raises(errors.SimulationError) as caught:
            PythonSimulator(explode).statistics(
                KEY, [[0.0], [0.75]], lambda x: x, executor=executor
            )
    assert "Simulation 1 failed at theta = [0.75]: ZeroDivisionError: no people left" in str(
        caught.value
    )
    shown = "".join(traceback.format_exception(caught.value))
    assert "in explode" in shown
    assert 'raise ZeroDivisionError("no people left")' in shown


def test_a_failure_cancels_what_has_not_started():
    release = threading.Event()

    def first_fails(rng, theta):
        if theta[0] == -1.0:
            raise ValueError("first")
        release.wait(0.5)
        return theta

    with Recording(1) as executor:
        with pytest.raises(errors.SimulationError, match="Simulation 0"):
            PythonSimulator(first_fails).statistics(
                KEY, THETA, lambda x: x, executor=executor, batch_size=1
            )
        cancelled = sum(future.cancelled() for future in executor.futures)
        release.set()
    assert cancelled >= len(THETA) - 3


def test_a_dead_worker_is_reported():
    simulator = PythonSimulator(lambda rng, theta: os._exit(3))
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor,
        pytest.raises(errors.SimulationError, match="__main__"),
    ):
        simulator.statistics(KEY, THETA[:2], moments, executor=executor)


LOCK = threading.Lock()
SHUT = ThreadPoolExecutor(1)
SHUT.shutdown()
IDENTITY = PythonSimulator(lambda rng, theta: theta)
BAD = {
    "a class": (lambda pool: PythonSimulator(list), errors.InvalidTypeError, r"fn\(rng, theta\)"),
    "not callable": (lambda pool: PythonSimulator("f"), errors.InvalidTypeError, r"fn\(rng, theta\)"),
    "no key": (lambda pool: IDENTITY.statistics(1.0, THETA, moments), errors.InvalidTypeError, "PRNG key"),
    "one vector": (lambda pool: IDENTITY.statistics(KEY, [1.0], moments), errors.InvalidInputError, r"theta\[None\]"),
    "infinite": (lambda pool: IDENTITY.simulate(KEY, [[np.inf]]), errors.InvalidInputError, "finite"),
    "not an executor": (
        lambda pool: IDENTITY.simulate(KEY, THETA, executor=multiprocessing), errors.InvalidTypeError, "Executor",
    ),
    "pool that was shut": (
        lambda pool: IDENTITY.simulate(KEY, THETA, executor=SHUT), errors.SimulationError, "stopped working",
    ),
    "batch size": (lambda pool: IDENTITY.simulate(KEY, THETA, batch_size=-1), errors.InvalidInputError, "batch_size"),
    "cannot be pickled": (
        lambda pool: PythonSimulator(lambda rng, theta, lock=LOCK: theta).simulate(KEY, THETA, executor=pool),
        errors.SimulationError, "ThreadPoolExecutor",
    ),
    "result cannot be pickled": (
        lambda pool: PythonSimulator(lambda rng, theta: threading.Lock()).simulate(KEY, THETA, executor=pool),
        errors.SimulationError, "picklable",
    ),
    "matrix statistic": (
        lambda pool: IDENTITY.statistics(KEY, THETA, lambda x: [x]), errors.SimulationError, r"shape \(k,\), got \(1, 1\)",
    ),
    "empty statistic": (
        lambda pool: IDENTITY.statistics(KEY, THETA, lambda x: []), errors.SimulationError, r"shape \(k,\)",
    ),
    "text as statistic": (
        lambda pool: IDENTITY.statistics(KEY, THETA, lambda x: "high"), errors.SimulationError, "real numbers",
    ),
    "ragged statistic": (
        lambda pool: IDENTITY.statistics(KEY, THETA, lambda x: [[1.0], [1.0, 2.0]]), errors.SimulationError, "real numbers",
    ),
    "statistic of many lengths": (
        lambda pool: IDENTITY.statistics(KEY, THETA, lambda x: np.ones(1 + (x[0] > 0))), errors.SimulationError, "same number of entries",
    ),
    "wrong arguments": (
        lambda pool: PythonSimulator(lambda theta: theta), errors.InvalidTypeError, r"called as fn\(rng, theta\)",
    ),
    "swapped arguments": (
        lambda pool: PythonSimulator(lambda theta, rng: theta), errors.InvalidTypeError, "swap its parameters",
    ),
    "exit": (
        lambda pool: PythonSimulator(lambda rng, theta: sys.exit(2)).simulate(KEY, THETA), errors.SimulationError, "SystemExit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD, ids=str)
def test_bad_input_is_refused_with_a_reason(name, pool):
    attempt, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        attempt(pool)
