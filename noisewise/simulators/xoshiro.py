"""One xoshiro256++ generator per simulation, for kernels compiled with Numba.

A generator is a tuple of four 64-bit words and is handed on explicitly, `u, rng = uniform(rng)`,
which keeps it in registers. Simulation i under a key starts from a hash of the key's words and i,
so what it draws depends on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numba import njit

Generator = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

_12, _17, _19, _23, _27, _30, _31, _41, _45 = (
    np.uint64(shift) for shift in (12, 17, 19, 23, 27, 30, 31, 41, 45)
)
"""Shifts as unsigned words: Numba turns a mixture of signed and unsigned integers into floats."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: the step of splitmix64."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""The two multipliers of the finaliser of splitmix64."""


_SHARED_KERNELS = ("xoshiro.py", "_counts.py", "epidemic.py")
"""The files in this folder whose kernels are called from other files."""


def _source_digest() -> str:
    """A hash of the shared kernels; empty where their sources cannot be read."""
    here = Path(__file__).parent
    try:
        text = b"".join((here / name).read_bytes() for name in _SHARED_KERNELS)
    except OSError:
        return ""
    return "_" + hashlib.sha256(text).hexdigest()[:8]


_DIGEST = _source_digest()


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with Numba: off the GIL, with IEEE division, cached on disk where a folder can be
    written.

    Numba's cache checks a kernel's own file only, not the kernels that it calls. So the name under
    which a kernel is cached holds a hash of all shared kernels, and an edit of one compiles all
    again.

    Args:
        function: Plain Python that Numba can compile without Python objects.

    Returns:
        The compiled function.
    """
    function.__qualname__ += _DIGEST
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:
        return njit(nogil=True, error_model="numpy")(function)


def key_words(key: jax.Array) -> np.ndarray:
    """The words of a JAX key, typed or raw.

    Args:
        key: One JAX PRNG key.

    Returns:
        Its numbers as uint64, shape (w,).
    """
    data = (
        jax.random.key_data(key) if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    )
    return np.asarray(data).ravel().astype(np.uint64)


@kernel
def mix(word: np.uint64) -> np.uint64:
    """The finaliser of splitmix64: a bijection that spreads every bit over all others.

    G. L. Steele, D. Lea and C. H. Flood, Fast splittable pseudorandom number generators, OOPSLA
    (2014).
    """
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@kernel
def hash_words(words: np.ndarray) -> np.uint64:
    """A hash of all words (w,) in one word."""
    total = _GOLDEN
    for word in words:
        total = mix((total ^ word) + _GOLDEN)
    return total


@kernel
def hash_rows(words: np.ndarray) -> np.ndarray:
    """A hash of each row of words (N, w), shape (N,)."""
    hashes = np.empty(len(words), dtype=np.uint64)
    for row in range(len(words)):
        hashes[row] = hash_words(words[row])
    return hashes


@kernel
def seeded(words: np.ndarray, index: int) -> Generator:
    """The generator of simulation `index` under the key with these words: four steps of
    splitmix64.

    Args:
        words: The key as numbers, shape (w,), uint64.
        index: Number of the simulation.

    Returns:
        Four words, the state of xoshiro256++.
    """
    start = mix((hash_words(words) ^ np.uint64(index)) + _GOLDEN)
    first = start + _GOLDEN
    second = first + _GOLDEN
    third = second + _GOLDEN
    return mix(first), mix(second), mix(third), mix(third + _GOLDEN)


@kernel
def next_word(rng: Generator) -> tuple[np.uint64, Generator]:
    """64 random bits, and the generator after them.

    D. Blackman and S. Vigna, Scrambled linear pseudorandom number generators, ACM Transactions on
    Mathematical Software 47 (2021).
    """
    a, b, c, d = rng
    total = a + d
    word = ((total << _23) | (total >> _41)) + a
    shifted = b << _17
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = (d << _45) | (d >> _19)
    return word, (a, b, c, d)


@kernel
def uniform(rng: Generator) -> tuple[float, Generator]:
    """A uniform number, an odd multiple of 2^-53 strictly inside (0, 1), and the generator after
    it.
    """
    word, rng = next_word(rng)
    # Through a signed integer: processors convert these to floats in one instruction
    return (np.float64(np.int64(word >> _12)) + 0.5) * 2.0**-52, rng
