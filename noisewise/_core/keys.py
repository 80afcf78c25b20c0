"""Keys from keys, random bits and generators, by NumPy: those of JAX's default generator to the
last bit. JAX compiles a program for each number of them, which takes a tenth of a second.

Reference: Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float32, Integer, UInt32, UInt64

_THREEFRY = "threefry2x32"
"""The kind of JAX's default keys."""
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Bits by which words are rotated in rounds of one kind and the other: constants of Threefry."""
_PARITY = 0x1BD11BDA
"""The constant of Threefry that makes the third word of a key of the other two."""
_GROUPS = 5
"""Groups of four rounds: 20 rounds, as in JAX."""
_WORD = 0xFFFFFFFF
"""The bits of a word."""
_MOST = 2**20
"""Numbers from which a compiled program is faster: they take a tenth of a second here."""


def split(key: Any, num: int = 2) -> tuple[Any, ...]:
    """The keys of `jax.random.split(key, num)`, one by one.

    Args:
        key: One JAX PRNG key.
        num: The number of keys.

    >>> ours, theirs = split(jax.random.key(7), 3), jax.random.split(jax.random.key(7), 3)
    >>> all(bool(one == other) for one, other in zip(ours, theirs, strict=True))
    True
    """
    if not is_plain(key):
        return tuple(jax.random.split(key, num))
    return tuple(as_keys(words, like=key) for words in children(words_of(key), np.arange(num)))


def split_array(key: Any, num: int) -> Any:
    """`jax.random.split(key, num)`, an array of keys."""
    if not is_plain(key):
        return jax.random.split(key, num)
    return as_keys(children(words_of(key), np.arange(num)), like=key)


def fold_in(key: Any, number: Any) -> Any:
    """The key of `jax.random.fold_in(key, number)`.

    Args:
        key: One JAX PRNG key.
        number: A whole number from 0 to 2^32 - 1.

    >>> bool(fold_in(jax.random.key(7), 5) == jax.random.fold_in(jax.random.key(7), 5))
    True
    """
    known = isinstance(number, (int, np.integer)) and 0 <= number < 2**32
    if not known or not is_plain(key):
        return jax.random.fold_in(key, number)
    return as_keys(children(words_of(key), np.array([number]))[0], like=key)


def generator(key: Any, index: int = 0) -> np.random.Generator:
    """The NumPy generator of stream `index` under a JAX key.

    Args:
        key: A JAX PRNG key, typed or raw.
        index: The number of the stream; different streams are independent.

    Returns:
        A PCG64 generator.
    """
    from noisewise._core.arrays import as_key

    words = [int(word) for word in words_of(as_key(key)).ravel()]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words, spawn_key=(index,))))


def is_plain(key: Any, num: int = 1) -> bool:
    """Whether `key` is one key of JAX's default kind, with a value, outside of programs, and few
    numbers are wanted.
    """
    known = isinstance(key, (jax.Array, np.ndarray)) and not isinstance(key, jax.core.Tracer)
    if not known or num > _MOST or not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        return False
    if is_typed(key):
        if key.shape != () or str(jax.random.key_impl(key)) != _THREEFRY:
            return False
        return not isinstance(jax.random.key_data(key), jax.core.Tracer)
    plain = jax.config.jax_default_prng_impl == _THREEFRY  # type: ignore[attr-defined]
    return bool(plain and key.dtype == np.uint32 and key.shape == (2,))


def is_typed(key: Any) -> bool:
    """Whether it is a typed key, not its words."""
    return bool(jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key))


def words_of(key: Any) -> UInt32[np.ndarray, " w"]:
    """The words of a key."""
    return np.asarray(jax.random.key_data(key) if is_typed(key) else key)


def as_keys(words: Any, *, like: Any) -> Any:
    """Words (..., 2) as keys of the kind of another."""
    placed = jax.device_put(np.ascontiguousarray(words, np.uint32))
    return jax.random.wrap_key_data(placed, impl=_THREEFRY) if is_typed(like) else placed


def children(
    words: UInt32[np.ndarray, "*n 2"], numbers: Integer[np.ndarray, " n"]
) -> UInt32[np.ndarray, "n 2"]:
    """The words of `fold_in(key, number)`, for one key or as many as numbers."""
    lows = np.asarray(numbers).astype(np.uint32)
    return np.stack(_threefry(words[..., 0], words[..., 1], np.zeros_like(lows), lows), axis=-1)


def bits32(key: Any, shape: tuple[int, ...]) -> UInt32[np.ndarray, "*shape"]:
    """`jax.random.bits(key, shape, uint32)`."""
    first, second = _drawn(key, shape)
    return first ^ second


def bits64(key: Any, shape: tuple[int, ...]) -> UInt64[np.ndarray, "*shape"]:
    """`jax.random.bits(key, shape, uint64)`."""
    first, second = (part.astype(np.uint64) for part in _drawn(key, shape))
    return (first << np.uint64(32)) | second


def odd_multiples(bits: Any) -> Any:
    """The first 52 of 64 bits as odd multiples of 2^-53, strictly inside (0, 1)."""
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def uniforms32(key: Any, num: int) -> Float32[np.ndarray, " num"]:
    """`jax.random.uniform(key, (num,), float32, -1.0, 1.0)`."""
    mantissas = (bits32(key, (num,)) >> np.uint32(9)) | np.float32(1.0).view(np.uint32)
    return np.maximum((mantissas.view(np.float32) - np.float32(1.0)) * 2.0 - 1.0, -1.0, dtype="f4")


def _drawn(key: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    counts = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    high, low = (counts >> np.uint64(32)).astype(np.uint32), counts.astype(np.uint32)
    key, other = words_of(key)
    return _threefry(key, other, high, low)


def _threefry(
    key: np.ndarray, other: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The two words that Threefry-2x32 makes of a key's and of two others; all of them uint32."""
    words = key, other, key ^ other ^ np.uint32(_PARITY)
    with np.errstate(over="ignore"):
        first, second = first + words[0], second + words[1]
        for group in range(_GROUPS):
            for bits in _ROTATIONS[group % 2]:
                first = first + second
                second = (second << np.uint32(bits)) | (second >> np.uint32(32 - bits))
                second = second ^ first
            first = first + words[(group + 1) % 3]
            second = second + words[(group + 2) % 3] + np.uint32(group + 1)
    return first, second
