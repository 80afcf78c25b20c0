"""Keys and random bits by NumPy are JAX's, to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise._core import keys
from noisewise._core.arrays import open_uniforms
from noisewise._core.keys import fold_in, split, split_array
from noisewise.mechanisms import point_sets
from noisewise.mechanisms.point_sets import ScrambledSobol

KEYS = {
    "typed": jax.random.key(2**31 + 12345),
    "raw": jax.random.PRNGKey(7),
    "another kind": jax.random.key(3, impl="rbg"),
}


def same(ours, theirs):
    typed = jax.dtypes.issubdtype(theirs.dtype, jax.dtypes.prng_key)
    words = jax.random.key_data if typed else np.asarray
    np.testing.assert_array_equal(words(ours), words(theirs))
    assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("kind", KEYS)
def test_children_are_jaxs(kind):
    key = KEYS[kind]
    for ours, theirs in zip(split(key, 3), jax.random.split(key, 3), strict=True):
        same(ours, theirs)
    same(split_array(key, 3), jax.random.split(key, 3))
    for number in (0, 5, np.uint32(2**32 - 1)):
        same(fold_in(key, number), jax.random.fold_in(key, number))


def test_children_inside_programs_are_the_same():
    key = KEYS["typed"]
    inside = jax.jit(lambda key: jax.random.key_data(fold_in(split(key)[1], 4)))(key)
    np.testing.assert_array_equal(inside, jax.random.key_data(fold_in(split(key)[1], 4)))


def test_keys_that_programs_close_over_are_the_same():
    key, raw = KEYS["typed"], KEYS["raw"]
    inside = jax.jit(lambda: (jax.random.key_data(fold_in(split(key)[1], 4)), split(raw)[1]))()
    np.testing.assert_array_equal(inside[0], jax.random.key_data(fold_in(split(key)[1], 4)))
    np.testing.assert_array_equal(inside[1], split(raw)[1])
    with jax.enable_x64(True):
        uniforms = jax.jit(lambda: open_uniforms(key, (3,)))()
        np.testing.assert_array_equal(uniforms, open_uniforms(key, (3,)))


def test_a_generator_without_numbered_children_is_left_to_jax():
    key = KEYS["typed"]
    try:
        jax.config.update("jax_threefry_partitionable", False)
        same(split(key)[0], jax.random.split(key)[0])
    finally:
        jax.config.update("jax_threefry_partitionable", True)


@pytest.mark.parametrize("shape", [(3,), (2, 1, 5)])
def test_bits_are_jaxs(shape):
    key = KEYS["typed"]
    with jax.enable_x64(True):
        for bits, kind in ((keys.bits32, jnp.uint32), (keys.bits64, jnp.uint64)):
            np.testing.assert_array_equal(bits(key, shape), jax.random.bits(key, shape, kind))
        inside = jax.jit(lambda key: open_uniforms(key, shape))(key)
        np.testing.assert_array_equal(open_uniforms(key, shape), inside)
    uniforms = jax.random.uniform(key, (9,), jnp.float32, -1.0, 1.0)
    np.testing.assert_array_equal(keys.uniforms32(key, 9), uniforms)


def test_scrambled_points_are_those_of_the_program(monkeypatch):
    by_numpy = ScrambledSobol().uniforms(KEYS["typed"], 3, 8, 2)
    monkeypatch.setattr(point_sets, "is_plain", lambda *_: False)
    np.testing.assert_array_equal(by_numpy, ScrambledSobol().uniforms(KEYS["typed"], 3, 8, 2))
