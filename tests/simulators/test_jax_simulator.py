"""Simulators in JAX: results that do not depend on how they are computed, one program, typed failures."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.simulators import JaxSimulator, _compiled

KEY = jax.random.key(7)
THETA = np.linspace(-1.0, 1.0, 600).reshape(300, 2)


def model(key, theta):
    return {"x": theta[0] + jnp.exp(theta[1]) * jax.random.normal(key, (20,))}


def moments(x):
    return jnp.stack([x["x"].mean(), jnp.exp(x["x"]).mean(), jnp.sin(x["x"]).std()])


SIMULATOR = JaxSimulator(model)


@pytest.fixture(scope="module")
def reference():
    return SIMULATOR.statistics(KEY, THETA, moments)


def test_shapes_and_precision(reference, x64_flag):
    s = SIMULATOR.statistics(KEY, THETA, moments)
    assert type(s) is np.ndarray
    assert s.shape == (300, 3)
    assert s.dtype == np.float64
    assert np.array_equal(s, reference)


@pytest.mark.parametrize("batch_size", [1, 7, 64, None], ids=str)
def test_results_depend_neither_on_batch_size_nor_on_an_executor(reference, batch_size):
    assert np.array_equal(SIMULATOR.statistics(KEY, THETA, moments, batch_size=batch_size), reference)
    with ThreadPoolExecutor(2) as pool:
        s = SIMULATOR.statistics(KEY, THETA, moments, executor=pool, batch_size=batch_size)
    assert np.array_equal(s, reference)


def test_the_first_simulations_do_not_depend_on_how_many_follow(reference):
    for num in (9, 255, 256, 257):
        assert np.array_equal(SIMULATOR.statistics(KEY, THETA[:num], moments), reference[:num])
    few = SIMULATOR.statistics(KEY, THETA[:5], moments)
    np.testing.assert_allclose(few, reference[:5], rtol=1e-14)


def test_simulation_i_uses_the_key_folded_with_i(reference):
    with jax.enable_x64(True):
        one = np.asarray(moments(model(jax.random.fold_in(KEY, 270), jnp.asarray(THETA[270]))))
    np.testing.assert_allclose(reference[270], one, rtol=1e-12)


def test_statistics_are_those_of_the_simulated_databases(reference):
    x = SIMULATOR.simulate(KEY, THETA)
    assert x["x"].shape == (300, 20)
    with jax.enable_x64(True):
        s = np.asarray(jax.vmap(moments)(x))
    np.testing.assert_allclose(s, reference, rtol=1e-12)
    assert not np.allclose(SIMULATOR.simulate(jax.random.key(8), THETA)["x"], x["x"])


def test_simulations_are_independent_of_each_other():
    """Means of 4096 standard normals: variance 1 and lag-one correlation 0, each within 5 standard errors."""
    draws = JaxSimulator(lambda key, theta: jax.random.normal(key, (1,))).statistics(
        KEY, np.zeros((4096, 1)), lambda x: x
    )
    lagged = np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]
    assert abs(draws.var() - 1.0) < 5 * np.sqrt(2 / 4096)
    assert abs(lagged) < 5 / np.sqrt(4096)
    one_key = np.repeat(draws[::2], 2, axis=0)
    assert abs(np.corrcoef(one_key[:-1, 0], one_key[1:, 0])[0, 1]) > 5 / np.sqrt(4096)


def test_one_program_serves_every_number_of_simulations():
    traces = []

    def counted(key, theta):
        traces.append(theta.shape)
        return theta + jax.random.normal(key, theta.shape)

    simulator = JaxSimulator(counted)
    query = nw.queries.ClampedMean(bounds=(-9.0, 9.0), num_records=2)
    simulator.statistics(KEY, THETA[:20], query)
    once = len(traces)
    for num in (21, 100, 300):
        equal = nw.queries.ClampedMean(bounds=(-9.0, 9.0), num_records=2)
        simulator.statistics(KEY, THETA[:num], equal)
    assert len(traces) == once


def test_callables_that_cannot_be_hashed_share_a_program_too():
    class Affine:
        __hash__ = None

        def __init__(self):
            self.shift = np.ones(2)

        def __eq__(self, other):
            return NotImplemented

        def __call__(self, key, theta):
            return theta + self.shift

    simulator = JaxSimulator(Affine())
    before = _compiled._program.cache_info().currsize
    assert simulator.statistics(KEY, THETA[:3], lambda x: x)[0].tolist() == (THETA[0] + 1.0).tolist()
    simulator.simulate(KEY, THETA[:3])
    simulator.simulate(KEY, THETA[:3])
    assert _compiled._program.cache_info().currsize <= before + 2


@pytest.mark.parametrize(
    ("num", "size", "width"),
    [
        (1, 8, 8),
        (8, 8, 8),
        (9, 8, 256),
        (10**6, 8, 256),
        (100, 2**20, 4),
        (100, 2**30, 1),
        (3, 2**30, 1),
        (3, 2**20, 4),
    ],
)
def test_chunks_are_bounded_by_memory(num, size, width):
    assert _compiled.width_for(num, size) == width


def test_nan_passes_through_as_a_row():
    def sometimes(key, theta):
        return jnp.where(theta > 0.0, jnp.nan, theta)

    s = JaxSimulator(sometimes).statistics(KEY, [[-1.0], [1.0], [-2.0]], lambda x: x)
    assert np.isnan(s[:, 0]).tolist() == [False, True, False]


def test_whole_numbers_and_truth_values_become_floats():
    s = JaxSimulator(lambda key, theta: theta > 0.0).statistics(KEY, [[-1.0], [1.0]], lambda x: x)
    assert s.dtype == np.float64
    assert s.tolist() == [[0.0], [1.0]]


def test_the_width_of_s_is_found_by_tracing():
    assert SIMULATOR.statistic_width(KEY, THETA, moments) == 3


IDENTITY = JaxSimulator(lambda key, theta: theta)
BAD = {
    "a class": (lambda: JaxSimulator(dict), errors.InvalidTypeError, r"fn\(key, theta\)"),
    "not callable": (lambda: JaxSimulator(3), errors.InvalidTypeError, r"fn\(key, theta\)"),
    "no key": (lambda: IDENTITY.statistics(0, THETA, moments), errors.InvalidTypeError, "PRNG key"),
    "swapped": (lambda: IDENTITY.statistics(THETA, KEY, moments), errors.InvalidTypeError, "PRNG key"),
    "one vector": (lambda: IDENTITY.statistics(KEY, THETA[0], moments), errors.InvalidInputError, r"theta\[None\]"),
    "three axes": (lambda: IDENTITY.statistics(KEY, THETA[None], moments), errors.InvalidInputError, r"\(N, d\)"),
    "no rows": (lambda: IDENTITY.simulate(KEY, THETA[:0]), errors.InvalidInputError, r"\(N, d\)"),
    "not finite": (
        lambda: IDENTITY.statistics(KEY, [[0.0], [np.nan]], moments), errors.InvalidInputError, "row 1",
    ),
    "text": (lambda: IDENTITY.statistics(KEY, [["a"]], moments), errors.InvalidTypeError, "numbers"),
    "tracers": (
        lambda: jax.jit(lambda theta: IDENTITY.simulate(KEY, theta))(THETA), errors.InvalidTypeError, "outside jit",
    ),
    "no query": (lambda: IDENTITY.statistics(KEY, THETA, None), errors.InvalidTypeError, "query"),
    "query class": (lambda: IDENTITY.statistics(KEY, THETA, dict), errors.InvalidTypeError, "query"),
    "batch of zero": (lambda: IDENTITY.statistics(KEY, THETA, moments, batch_size=0), errors.InvalidInputError, "batch"),
    "not an executor": (lambda: IDENTITY.simulate(KEY, THETA, executor=4), errors.InvalidTypeError, "Executor"),
    "plain numpy": (
        lambda: JaxSimulator(lambda key, theta: np.sin(theta)).simulate(KEY, THETA),
        errors.SimulationError, "PythonSimulator",
    ),
    "python branch": (
        lambda: JaxSimulator(lambda key, theta: theta if theta[0] > 0 else -theta).simulate(KEY, THETA),
        errors.SimulationError, "PythonSimulator",
    ),
    "one argument": (
        lambda: JaxSimulator(lambda theta: theta).simulate(KEY, THETA), errors.SimulationError, "positional argument",
    ),
    "untraceable query": (
        lambda: IDENTITY.statistics(KEY, THETA, lambda x: [float(x[0])]), errors.SimulationError, "The query failed",
    ),
    "scalar statistic": (
        lambda: IDENTITY.statistics(KEY, THETA, lambda x: x.mean()), errors.SimulationError, "atleast_1d",
    ),
    "matrix statistic": (
        lambda: IDENTITY.statistics(KEY, THETA, lambda x: x[None]), errors.SimulationError, r"shape \(k,\), got \(1, 2\)",
    ),
    "several arrays": (
        lambda: IDENTITY.statistics(KEY, THETA, lambda x: (x, x)), errors.SimulationError, "stack",
    ),
    "complex statistic": (
        lambda: IDENTITY.statistics(KEY, THETA, lambda x: 1j * x), errors.SimulationError, "real numbers",
    ),
    "query's own refusal": (
        lambda: IDENTITY.statistics(KEY, THETA, nw.queries.ClampedMean(bounds=(0.0, 1.0), num_records=5)),
        errors.SimulationError, "5 record",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD, ids=str)
def test_bad_input_is_refused_with_a_reason(name):
    attempt, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        attempt()
