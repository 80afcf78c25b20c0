"""Simulators in JAX: results that do not depend on how they are computed, one program, typed
failures.
"""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise._core.arrays import stage_key
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
    assert np.array_equal(
        SIMULATOR.statistics(KEY, THETA, moments, batch_size=batch_size), reference
    )
    with ThreadPoolExecutor(2) as pool:
        s = SIMULATOR.statistics(KEY, THETA, moments, executor=pool, batch_size=batch_size)
    assert np.array_equal(s, reference)


def test_the_first_simulations_do_not_depend_on_how_many_follow(reference):
    for num in (9, 255, 256, 257):
        assert np.array_equal(SIMULATOR.statistics(KEY, THETA[:num], moments), reference[:num])
    few = SIMULATOR.statistics(KEY, THETA[:5], moments)
    np.testing.assert_allclose(few, reference[:5], rtol=1e-14)


def test_simulation_i_uses_the_key_of_the_stage_folded_with_i(reference):
    with jax.enable_x64(True):
        key = jax.random.fold_in(stage_key(KEY, "simulator"), 270)
        one = np.asarray(moments(model(key, jnp.asarray(THETA[270]))))
    np.testing.assert_allclose(reference[270], one, rtol=1e-12)


def test_statistics_are_those_of_the_simulated_databases(reference):
    x = SIMULATOR.simulate(KEY, THETA)
    assert x["x"].shape == (300, 20)
    with jax.enable_x64(True):
        s = np.asarray(jax.vmap(moments)(x))
    np.testing.assert_allclose(s, reference, rtol=1e-12)
    assert not np.allclose(SIMULATOR.simulate(jax.random.key(8), THETA)["x"], x["x"])


def test_simulations_are_independent_of_each_other():
    """Means of 4096 standard normals: variance 1 and lag-one correlation 0, each within 5 standard
    errors.
    """
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

    simulator = JaxSimulator(Affine(), deterministic=True)
    before = _compiled._program.cache_info().currsize
    assert (
        simulator.statistics(KEY, THETA[:3], lambda x: x)[0].tolist() == (THETA[0] + 1.0).tolist()
    )
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

    s = JaxSimulator(sometimes, deterministic=True).statistics(
        KEY, [[-1.0], [1.0], [-2.0]], lambda x: x
    )
    assert np.isnan(s[:, 0]).tolist() == [False, True, False]


def test_whole_numbers_and_truth_values_become_floats():
    positive = JaxSimulator(lambda key, theta: theta > 0.0, deterministic=True)
    s = positive.statistics(KEY, [[-1.0], [1.0]], lambda x: x)
    assert s.dtype == np.float64
    assert s.tolist() == [[0.0], [1.0]]


def test_the_width_of_s_is_found_by_tracing():
    assert SIMULATOR.statistic_width(KEY, THETA, moments) == 3


@pytest.mark.parametrize(
    "query", [lambda x: x["x"].mean(), nw.queries.FunctionQuery(lambda x: x["x"].mean())]
)
def test_a_statistic_of_one_number_is_one_column(query):
    s = SIMULATOR.statistics(KEY, THETA[:9], query)
    assert s.shape == (9, 1)
    assert np.array_equal(s, SIMULATOR.statistics(KEY, THETA[:9], lambda x: x["x"].mean()[None]))
    assert SIMULATOR.statistic_width(KEY, THETA, query) == 1


# What is read -------------------------------------------------------------------------------------


def loop(theta):
    return jax.lax.scan(lambda total, _: (total + theta[2], None), 0.0, length=3)[0]


BEYOND = {
    "an entry": (lambda theta: theta[3], 3),
    "from the end": (lambda theta: theta[-3], -3),
    "after a transformation": (lambda theta: jnp.exp(theta)[2], 2),
    "several at once": (lambda theta: theta[np.array([0, 5])].sum(), 5),
    "inside jit": (lambda theta: jax.jit(lambda t: t[2])(theta), 2),
    "inside a loop": (loop, 2),
    "inside a branch": (
        lambda theta: jax.lax.cond(theta[0] > 0, lambda: theta[1], lambda: theta[4]),
        4,
    ),
    "inside vmap": (lambda theta: jax.vmap(lambda t: t + theta[2])(jnp.zeros(3)), 2),
    "under a gradient": (lambda theta: jax.grad(lambda t: t[0] * t[2])(theta).sum(), 2),
}


@pytest.mark.parametrize("name", BEYOND, ids=str)
def test_columns_that_theta_does_not_have_are_refused(name):
    """JAX by itself clamps: theta[3] of two columns is theta[1]."""
    mean, index = BEYOND[name]
    simulator = JaxSimulator(lambda key, theta: mean(theta) + jax.random.normal(key, (3,)))
    with pytest.raises(
        errors.SimulationError, match=rf"reads theta\[{index}\], but theta has 2 column\(s\)"
    ):
        simulator.statistics(KEY, THETA, lambda x: x[:1])
    assert simulator.simulate(KEY, np.ones((2, 6))).shape[0] == 2


WITHIN = {
    "both ends": lambda theta: theta[0] + theta[-1] + theta[-2],
    "arrays": lambda theta: theta[np.array([0, -1])].sum() + theta[jnp.array([1, 0])].sum(),
    "slices": lambda theta: theta[1:7].sum(),
    "a loop over entries": lambda theta: jax.lax.fori_loop(
        0, 2, lambda i, total: total + theta[i], 0.0
    ),
    "sorting and the like": (
        lambda theta: jnp.sort(theta)[1] + jnp.quantile(theta, 0.3) + jnp.interp(0.1, theta, theta)
    ),
    "longer vectors": lambda theta: jnp.tile(theta, 3)[5] + jnp.pad(theta, 2)[4],
}


@pytest.mark.parametrize("name", WITHIN, ids=str)
def test_columns_that_theta_has_are_read(name):
    simulator = JaxSimulator(lambda key, theta: WITHIN[name](theta) + jax.random.normal(key, (1,)))
    assert simulator.statistics(KEY, THETA[:3], lambda x: x).shape == (3, 1)


def numpys(size=None):
    return np.random.normal(size=size)  # noqa: NPY002


GENERATOR = np.random.default_rng(5)
inside_jit = jax.jit(lambda key, theta: theta + numpys())
ELSEWHERE = {
    "np.random": lambda key, theta: theta + numpys(2),
    "np.random inside jit": lambda key, theta: inside_jit(key, theta),
    "a generator": lambda key, theta: theta + GENERATOR.normal(size=2),
    "a split key that is not used": (
        lambda key, theta: theta + numpys() * (len(jax.random.split(key)) > 1)
    ),
    "np.random beside the key": lambda key, theta: theta + numpys() + jax.random.normal(key, (2,)),
    "a vector of them beside the key": lambda key, theta: numpys(2) * jax.random.normal(key, (2,)),
}


@pytest.mark.parametrize("name", ELSEWHERE, ids=str)
@pytest.mark.parametrize("key", [KEY, jax.random.PRNGKey(7)], ids=["typed", "raw"])
def test_randomness_that_would_be_frozen_is_refused(name, key):
    with pytest.raises(
        errors.SimulationError, match=r"(?s)drawn once.*Draw from key.*PythonSimulator"
    ):
        JaxSimulator(ELSEWHERE[name]).simulate(key, THETA)


def test_constants_drawn_from_a_fixed_seed_pass():
    """A public design matrix is the same in every trace."""
    simulator = JaxSimulator(
        lambda key, theta: (
            np.random.default_rng(0).normal(size=(5, 2)) @ theta + jax.random.normal(key, (5,))
        )
    )
    assert simulator.simulate(KEY, THETA[:2]).shape == (2, 5)


def test_models_without_randomness_say_so():
    decay = lambda key, theta: theta * jnp.exp(-jnp.arange(2.0))
    with pytest.raises(errors.SimulationError, match=r"JaxSimulator\(fn, deterministic=True\)"):
        JaxSimulator(decay).simulate(KEY, THETA)
    x = JaxSimulator(decay, deterministic=True).simulate(KEY, THETA)
    np.testing.assert_allclose(x[:, 1], THETA[:, 1] * np.exp(-1.0))
    with pytest.raises(errors.SimulationError, match="leave deterministic out"):
        JaxSimulator(model, deterministic=True).simulate(KEY, THETA)


def test_a_function_is_looked_at_once_for_each_number_of_columns():
    traces = []

    def counted(key, theta):
        traces.append(theta.shape)
        return theta.sum() + jax.random.normal(key, (1,))

    simulator, seen = JaxSimulator(counted), []
    for columns in (2, 2, 3, 2, 3):
        simulator.simulate(KEY, np.zeros((4, columns)))
        seen.append(len(traces))
    assert seen == [3, 3, 6, 6, 6]  # traced twice to look at it, once to compile it


IDENTITY = JaxSimulator(lambda key, theta: theta, deterministic=True)
BAD = {
    "a class": (lambda: JaxSimulator(dict), errors.InvalidTypeError, r"fn\(key, theta\)"),
    "not callable": (lambda: JaxSimulator(3), errors.InvalidTypeError, r"fn\(key, theta\)"),
    "no key": (lambda: IDENTITY.statistics(0.0, THETA, moments), errors.InvalidTypeError, "PRNG key"),
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
        lambda: JaxSimulator(lambda theta: theta), errors.InvalidTypeError, r"called as fn\(key, theta\).*\(theta\)",
    ),
    "three arguments": (
        lambda: JaxSimulator(lambda key, theta, n: theta), errors.InvalidTypeError, "2 positional parameter",
    ),
    "swapped parameters": (
        lambda: JaxSimulator(lambda theta, key: theta), errors.InvalidTypeError, r"called as fn\(key, theta\).*swap",
    ),
    "theta first": (lambda: JaxSimulator(lambda theta, _: theta), errors.InvalidTypeError, "swap"),
    "key last": (lambda: JaxSimulator(lambda t, rng_key: t), errors.InvalidTypeError, "swap"),
    "deterministic as a number": (lambda: JaxSimulator(model, deterministic=1), errors.InvalidTypeError, "True or False"),
    "untraceable query": (
        lambda: IDENTITY.statistics(KEY, THETA, lambda x: [float(x[0])]), errors.SimulationError, "The query failed",
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
