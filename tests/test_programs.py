"""Programs compiled for a short life do what others do, wherever they are called."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise._compile import options
from noisewise._compile.few_sizes import with_few_sizes
from noisewise._compile.options import filter_jit_fast_compile, jit_fast_compile, jit_long_running

ROOT = Path(__file__).parent.parent


@jit_fast_compile
def cubed(x):
    return x * x * x


@jit_fast_compile(static_argnames="num")
def repeated(x, num):
    return jnp.full(num, x)


@jit_long_running
def raised(x):
    return jnp.exp(x)


@filter_jit_fast_compile
def applied(function, x):
    return function(x)


def test_at_the_top_it_is_compiled_with_options_and_gives_the_same():
    before = cubed.num_compiled
    x = jnp.linspace(-2.0, 2.0, 7)
    np.testing.assert_array_equal(cubed(x), x**3)
    assert cubed.num_compiled == before + 1
    np.testing.assert_array_equal(repeated(2.0, num=3), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(applied(jnp.negative, x), -x)
    np.testing.assert_allclose(raised(x), np.exp(x), rtol=1e-6)


@pytest.mark.parametrize(
    "inside",
    [
        jax.jit(cubed),
        jax.vmap(cubed),
        jax.jit(lambda x: x + cubed(np.float32(1.0)) - 1.0 + cubed(x) - x),
        lambda x: jax.lax.map(cubed, x),
        lambda x: (
            x + jax.lax.fori_loop(0, 3, lambda _, y: y + cubed(1.0), 0.0) - 3.0 + cubed(x) - x
        ),
    ],
    ids=["jit", "vmap", "constants in jit", "map", "constants in a loop"],
)
def test_inside_other_programs_it_is_a_part_of_them(inside):
    x = jnp.linspace(-2.0, 2.0, 7)
    np.testing.assert_allclose(inside(x), x**3, atol=1e-5)


def test_it_has_gradients():
    assert float(jax.grad(cubed)(2.0)) == 12.0
    assert float(jax.grad(lambda x: applied(jnp.sin, x))(0.0)) == 1.0


@pytest.mark.parametrize("jit", [jit_fast_compile, jit_long_running, filter_jit_fast_compile])
def test_there_are_options(jit, monkeypatch):
    """JAX refuses them in a part of a program: so they are there."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    with pytest.raises(ValueError, match="can only be passed to top-level"):
        jax.jit(jit(jnp.exp)._whole)(jnp.zeros(3))


def test_options_that_xla_does_not_know_are_left_out(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    given = {"xla_backend_optimization_level": 1, "xla_of_another_time": True}
    assert options.known_options(given) == {"xla_backend_optimization_level": 1}


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ("", {"xla_backend_optimization_level", "xla_cpu_use_fusion_emitters"}),
        (
            "--xla_backend_optimization_level=0 --xla_dump_to=x",
            {"xla_cpu_use_fusion_emitters"},
        ),
        (
            "--xla_backend_optimization_level_of_another_time=0",
            {"xla_backend_optimization_level", "xla_cpu_use_fusion_emitters"},
        ),
    ],
)
def test_what_the_user_sets_stands(flags, left, monkeypatch):
    """Whatever this version of XLA knows."""
    monkeypatch.setattr(options, "_known", lambda name, value: True)
    monkeypatch.setenv("XLA_FLAGS", flags)
    given = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}
    assert options.known_options(given) == {name: given[name] for name in left}


def test_the_fast_suite_asks_for_options_that_there_are():
    """XLA ends a process that it does not know an option of: this one runs with them all."""
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    env |= {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    asked = [sys.executable, ROOT / "tests" / "xla_flags.py"]
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=False)
    flags = run(asked, env=env).stdout
    assert "--xla_backend_optimization_level=0" in flags.split()
    program = [sys.executable, "-c", "import jax; jax.numpy.zeros(3) + 1"]
    assert run(program, env=env | {"XLA_FLAGS": flags}).returncode == 0


def test_other_devices_have_none_of_them(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert options.known_options(options.FAST_COMPILE) is None


# Numbers of rows ----------------------------------------------------------------------------------


@jax.jit
def distances(x, y):
    return jnp.abs(x - y).sum(-1)


SHAPES = [
    ((3, 2), (3, 2)),
    ((16, 2), (16, 2)),
    ((17, 2), (2,)),
    ((2,), (17, 2)),
    ((2,), (2,)),
    ((4, 5, 2), (4, 5, 2)),
    ((0, 2), (0, 2)),
    ((3, 1, 2), (4, 2)),
    ((20_000, 2), (2,)),
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_rows_count_by_themselves(shapes):
    x, y = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes)
    found = with_few_sizes(distances, x, y)
    np.testing.assert_allclose(found, np.abs(x - y).sum(-1), rtol=1e-6)
    assert found.shape == np.broadcast_shapes(x.shape, y.shape)[:-1]


def test_few_programs_serve_many_numbers_of_rows():
    doubled, unpadded = jax.jit(lambda x: 2.0 * x), jax.jit(lambda x: 3.0 * x)
    for num in (*range(1, 100), 900, 5000, 20_000, 70_000):
        with_few_sizes(doubled, np.ones((num, 1), np.float32))
    for num in range(1, 10):
        unpadded(np.ones((num, 1), np.float32))
    assert doubled._cache_size() == 5
    assert unpadded._cache_size() == 9


def test_numbers_of_rows_are_kept_inside_other_programs():
    through = lambda x: with_few_sizes(distances, x, jnp.zeros(2))
    x = jnp.ones((3, 2))
    for inside in (jax.jit(through), jax.vmap(through), lambda x: jax.lax.map(through, x)):
        np.testing.assert_array_equal(inside(x), [2.0, 2.0, 2.0])
    assert jax.grad(lambda x: through(x).sum())(x).tolist() == [[1.0, 1.0]] * 3
