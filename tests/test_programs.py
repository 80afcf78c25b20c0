"""Programs compiled for a short life do what others do, wherever they are called."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise import _programs
from noisewise._programs import brief_filter_jit, brief_jit


@brief_jit
def cubed(x):
    return x * x * x


@brief_jit(static_argnames="num")
def repeated(x, num):
    return jnp.full(num, x)


@brief_filter_jit
def applied(function, x):
    return function(x)


@pytest.fixture
def fresh_options():
    _programs._options.cache_clear()
    yield
    _programs._options.cache_clear()


def test_at_the_top_it_is_compiled_with_options_and_gives_the_same():
    assert cubed._whole is not cubed._part
    x = jnp.linspace(-2.0, 2.0, 7)
    np.testing.assert_array_equal(cubed(x), x**3)
    np.testing.assert_array_equal(repeated(2.0, num=3), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(applied(jnp.negative, x), -x)


@pytest.mark.parametrize(
    "inside",
    [
        jax.jit(cubed),
        jax.vmap(cubed),
        jax.jit(lambda x: x + cubed(np.float32(1.0)) - 1.0 + cubed(x) - x),
        lambda x: jax.lax.map(cubed, x),
        lambda x: x + jax.lax.fori_loop(0, 3, lambda _, y: y + cubed(1.0), 0.0) - 3.0 + cubed(x) - x,
    ],
    ids=["jit", "vmap", "constants in jit", "map", "constants in a loop"],
)
def test_inside_other_programs_it_is_a_part_of_them(inside):
    x = jnp.linspace(-2.0, 2.0, 7)
    np.testing.assert_allclose(inside(x), x**3, atol=1e-5)


def test_it_has_gradients():
    assert float(jax.grad(cubed)(2.0)) == 12.0
    assert float(jax.grad(lambda x: applied(jnp.sin, x))(0.0)) == 1.0


def test_options_that_xla_does_not_know_are_left_out(fresh_options, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(
        _programs, "_FOR_A_SHORT_LIFE", {"xla_backend_optimization_level": 1, "xla_of_another_time": True}
    )
    assert _programs._options() == {"xla_backend_optimization_level": 1}


def test_what_the_user_sets_stands(fresh_options, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    assert _programs._options() == {"xla_cpu_use_fusion_emitters": False}


def test_other_devices_have_none_of_them(fresh_options, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert _programs._options() is None
