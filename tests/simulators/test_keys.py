"""One key for all simulations or one for each: what a simulation may depend on, over all
simulators.
"""

import dataclasses
import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise._core.row_keys import fold_in_rows
from noisewise.inference.contract.run import InferenceRun
from noisewise.simulators import (
    SIR,
    JaxSimulator,
    LogLinear,
    NormalRecords,
    PythonSimulator,
    _keys,
    base,
)

KEY = jax.random.key(7)
NUM = 20
CURVE = [0, 17, 34, 51]


@dataclasses.dataclass(frozen=True)
class Case:
    """A simulator with parameters and a query for it."""

    simulator: object
    theta: np.ndarray
    query: object


def spread(*ends):
    return np.stack([np.linspace(low, high, NUM) for low, high in ends], axis=1)


RATES = spread((-1.0, 0.0), (-3.5, -2.5))
MEAN = nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=30)


@functools.cache
def table():
    return nw.problems.log_linear(1.0).model


@functools.cache
def regression():
    return nw.problems.linear_regression(1.0).model


def scaled(x):
    return jnp.exp(x / 1e5)


def epidemic(**settings):
    return SIR(settings.pop("population", 100_000), times=CURVE, initial_infected=10, **settings)


CASES = {
    "jax": Case(
        JaxSimulator(
            lambda key, theta: theta[0] + jnp.exp(theta[1]) * jax.random.normal(key, (20,))
        ),
        spread((-1.0, 1.0), (0.0, 0.5)),
        lambda x: jnp.stack([x.mean(), jnp.exp(x).mean(), jnp.sin(x).std()]),
    ),
    "python": Case(
        PythonSimulator(lambda rng, theta: rng.normal(theta[0], 1.0, size=rng.poisson(20) + 1)),
        spread((-1.0, 1.0)),
        lambda x: [x.mean(), len(x)],
    ),
    "records": Case(NormalRecords(num_records=30), spread((-1.0, 1.0)), MEAN),
    "streamed": Case(
        NormalRecords(num_records=9000),
        spread((-1.0, 1.0)),
        nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=9000),
    ),
    "regression": lambda: Case(
        regression().simulator, regression().prior.sample(KEY, NUM), regression().query
    ),
    "tables": lambda: Case(table().simulator, table().prior.sample(KEY, NUM), table().query),
    "counts": lambda: Case(
        LogLinear(num_records=10**5, num_classes=2, num_values=(2, 2)),
        table().prior.sample(KEY, NUM),
        nw.queries.CategoryProportions(num_classes=2, num_values=(2, 2), num_records=10**5),
    ),
    "leap": Case(epidemic(), RATES, scaled),
    "gillespie": Case(epidemic(method="gillespie", population=500), RATES, scaled),
    "ode": Case(epidemic(dynamics="ode"), RATES, scaled),
    "epidemic in jax": Case(epidemic(backend="jax"), RATES, scaled),
    "untraced query": Case(epidemic(), RATES, lambda x: [float(value) for value in x]),
}
"""A function is called when a test asks for its case: what it samples takes seconds to compile."""
THIRD = {
    "jax": (-0.3416032977773564, 1.0542503342503389, 0.6295529287686963),
    "python": (-0.4620131400767493, 18.0),
    "records": (-0.6587436850863096,),
    "streamed": (-0.6844800411734309,),
    "leap": (1.0001000050001667, 1.1101331909803691, 1.9181093742657536, 1.4467070879020785),
    "gillespie": (1.0001000050001667, 1.003546273200192, 1.0021322700614574, 1.0011406500469944),
    "ode": (1.0001000050001667, 1.0785623980375338, 1.9525815694837547, 1.4641727333321837),
    "epidemic in jax": (
        1.0001000050001667,
        1.1334771137717146,
        1.8992327712194272,
        1.434304410023129,
    ),
    "untraced query": (10.0, 10448.0, 65134.0, 36929.0),
    "tables": (0.07, 0.87, 0.5, 0.44, 0.05, 0.01, 0.03, 0.03),
    "counts": (0.08477, 0.83632, 0.51683, 0.40426, 0.05209, 0.02682, 0.0355, 0.04341),
    "regression": (
        -0.1228888470909205,
        -0.012786616813256381,
        0.012901129251575397,
        0.038414344682396885,
        0.08616529506285729,
        -0.12931328162062025,
        0.015360827441514653,
        -0.01100094127763991,
        0.025570429520725756,
    ),
}
"""Statistic 3 of each under KEY, which no later version may change."""

KEYS = jax.random.split(jax.random.key(3), NUM)
ORDER = np.random.default_rng(0).permutation(NUM)


@functools.cache
def made(name):
    return CASES[name] if isinstance(CASES[name], Case) else CASES[name]()


def statistics(name, key, rows=slice(None), **options):
    case = made(name)
    return case.simulator.statistics(key, case.theta[rows], case.query, **options)


@pytest.fixture(scope="module")
def by_key():
    """The statistics of every simulator with a key for each row."""
    return {name: statistics(name, KEYS) for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_one_key_gives_what_it_always_gave(name):
    np.testing.assert_allclose(statistics(name, KEY)[3], THIRD[name], rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_row_depends_on_its_key_and_its_theta_alone(name, by_key):
    """Bit for bit: alone, among a few, in another order, and in row 0 under its key as the only
    one.
    """
    for rows in (ORDER[:1], ORDER[:11], ORDER):
        assert np.array_equal(statistics(name, KEYS[rows], rows), by_key[name][rows])
    assert np.array_equal(statistics(name, KEYS[5], np.full(9, 5))[0], by_key[name][5])


@pytest.mark.parametrize("name", ["records", "python", "leap"])
def test_raw_keys_will_do(name, by_key):
    assert np.array_equal(statistics(name, np.asarray(jax.random.key_data(KEYS))), by_key[name])


@pytest.mark.parametrize("name", ["records", "python", "leap", "epidemic in jax"])
def test_keys_matter_and_databases_are_those_of_the_statistics(name, by_key):
    assert not np.array_equal(statistics(name, KEYS[::-1]), by_key[name])
    case = made(name)
    x = case.simulator.simulate(KEYS, case.theta)
    with jax.enable_x64(True):
        s = np.stack(
            [
                np.atleast_1d(
                    case.query(jax.tree.map(lambda leaf: leaf[4], x) if name != "python" else x[4])
                )
            ]
        )
    np.testing.assert_allclose(s[0], by_key[name][4], rtol=1e-12)


def test_a_simulation_that_sees_its_row_number_would_be_caught(monkeypatch):
    """The planted bug: row numbers folded in although every row has a key of its own."""

    def with_numbers(key, num, stage):
        keys = _keys.row_keys(key, num, stage)
        return dataclasses.replace(keys, indices=np.arange(num, dtype=np.uint32))

    monkeypatch.setattr(base, "row_keys", with_numbers)
    for name in ("records", "python", "leap", "epidemic in jax"):
        assert not np.array_equal(
            statistics(name, KEYS[ORDER], ORDER), statistics(name, KEYS)[ORDER]
        ), name


def test_the_same_keys_at_another_theta_are_common_random_numbers():
    """Means of normal records move with theta, exactly, where records are neither rounded nor
    clamped.
    """
    simulator, mean = NormalRecords(num_records=30), lambda x: x.mean()
    here, there = (
        simulator.statistics(KEYS, np.full((NUM, 1), theta), mean) for theta in (0.0, 0.25)
    )
    np.testing.assert_allclose(there - here, 0.25, rtol=1e-12)
    assert here.std() > 0.05


@pytest.mark.parametrize("batch_size", [1, 7, None], ids=str)
def test_executors_and_batches_leave_no_trace(by_key, batch_size):
    with ThreadPoolExecutor(3) as threads:
        s = statistics("python", KEYS[ORDER], ORDER, executor=threads, batch_size=batch_size)
    assert np.array_equal(s, by_key["python"][ORDER])


def test_processes_leave_no_trace(by_key):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        s = statistics("python", KEYS, executor=processes, batch_size=7)
    assert np.array_equal(s, by_key["python"])


def test_models_pass_keys_on(by_key):
    assert np.array_equal(
        regression().statistics(KEYS, made("regression").theta), by_key["regression"]
    )
    assert CASES["leap"].simulator.statistic_width(KEYS, RATES, scaled) == 4


@pytest.mark.parametrize("kind", ["typed", "raw"])
def test_rows_are_folded_in_as_jax_does(kind):
    key = KEY if kind == "typed" else jax.random.PRNGKey(7)
    rows = np.array([0, 3, 5000, 2**32 - 1])
    expected = jax.numpy.stack([jax.random.fold_in(key, np.uint32(row)) for row in rows])
    assert (fold_in_rows(key, rows) == expected).all()
    assert (fold_in_rows(expected, rows)[1] == jax.random.fold_in(expected[1], 3)).all()


@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_inference_simulates_the_same_whatever_the_clock_says(chunk, monkeypatch):
    """A deadline cuts the work into chunks by time; each of any size gives the same rows, and a
    budget the first of them.
    """
    theta = made("regression").theta
    run = lambda **budget: InferenceRun("test", {}, regression(), np.zeros(9), **budget)
    whole = run().statistics(KEY, theta)
    assert np.array_equal(whole, regression().statistics(fold_in_rows(KEY, np.arange(NUM)), theta))
    monkeypatch.setattr("noisewise.inference.contract.run.num_at_once", lambda *a, **k: chunk)
    assert np.array_equal(run(max_minutes=5.0).statistics(KEY, theta), whole)
    assert np.array_equal(run(max_simulations=NUM - 3).statistics(KEY, theta), whole[:-3])
    assert np.array_equal(
        run(max_simulations=3).statistics(KEYS, theta), regression().statistics(KEYS, theta)[:3]
    )


def test_inference_takes_keys_of_any_kind():
    s = InferenceRun("test", {}, regression(), np.zeros(9)).statistics(
        jax.random.key(1, impl="rbg"), made("regression").theta
    )
    assert np.isfinite(s).all()


BAD = {
    "too few": (KEYS[:-1], errors.InvalidInputError, "19 keys for 20 rows"),
    "too many raw": (
        np.zeros((21, 2), dtype=np.uint32),
        errors.InvalidInputError,
        "21 keys for 20 rows",
    ),
    "a matrix of keys": (KEYS.reshape(4, 5), errors.InvalidTypeError, "one per row of theta"),
    "three words": (
        np.zeros((NUM, 3), dtype=np.uint32),
        errors.InvalidTypeError,
        "one per row of theta",
    ),
    "signed words": (np.zeros((NUM, 2), dtype=np.int32), errors.InvalidTypeError, "PRNG key"),
    "a list": (list(KEYS), errors.InvalidTypeError, "PRNG key"),
    "seeds": (np.arange(NUM), errors.InvalidTypeError, "PRNG key"),
    "another kind": (
        jax.random.split(jax.random.key(0, impl="rbg"), NUM),
        errors.InvalidTypeError,
        "threefry2x32",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_keys_are_refused_with_what_is_expected(name):
    keys, kind, text = BAD[name]
    for case in ("records", "python", "leap"):
        with pytest.raises(kind, match=text):
            statistics(case, keys)
