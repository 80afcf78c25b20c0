r"""Uniforms for noise: independent ones, or scrambled Sobol nets for nested randomised quasi-Monte
Carlo.

Sets are uncorrelated and each is unbiased by itself: one set serves one (theta, s) pair.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array, as_key, in_float64, integer, open_uniforms, stage_key
from noisewise._core.keys import bits32, is_plain, split
from noisewise.errors import InvalidInputError

_BITS = 32  # of a word; float64 has 53, so that every word and its half are exact
_MAX_DIM = 21201  # dimensions in scipy's table of direction numbers
_MAX_POINTS = 2**30  # scipy's limit at 32 bits is 2^32; 2^30 points already fill 8 GiB a dimension


@dataclasses.dataclass(frozen=True)
class AbstractPointSet(abc.ABC):
    """A way to place `num_points` points in (0,1)^dim, newly randomised for every set."""

    @in_float64
    def uniforms(
        self, key: Array, num_sets: int, num_points: int, dim: int
    ) -> Float[Array, "num_sets num_points dim"]:
        """`num_sets` randomisations of a set of `num_points` points in `dim` dimensions.

        Args:
            key: JAX PRNG key.
            num_sets: The number of independent randomisations.
            num_points: The number m of points in each.
            dim: The number of uniforms per point, such as `mechanism.num_uniforms(k)`.

        Returns:
            float64 numbers strictly inside (0, 1), shape (num_sets, num_points, dim).

        Raises:
            InvalidInputError: If the point set does not have this size.
        """
        key = stage_key(as_key(key), "points")
        num_sets = integer("num_sets", at_least=1)(num_sets)
        num_points = integer("num_points", at_least=1)(num_points)
        dim = integer("dim", at_least=1)(dim)
        self._check(num_points, dim)
        return self._uniforms(key, num_sets, num_points, dim)

    def _check(self, num_points: int, dim: int) -> None:  # noqa: B027, most point sets have every size
        """Refuse sizes this point set does not have."""

    @abc.abstractmethod
    def _uniforms(self, key: Array, num_sets: int, num_points: int, dim: int) -> Array: ...


@dataclasses.dataclass(frozen=True)
class IndependentUniforms(AbstractPointSet):
    """Independent uniforms: plain Monte Carlo, for any number of points.

    >>> import jax
    >>> IndependentUniforms().uniforms(jax.random.key(0), 3, 5, 2).shape
    (3, 5, 2)
    """

    def _uniforms(self, key: Array, num_sets: int, num_points: int, dim: int) -> Array:
        return open_uniforms(key, (num_sets, num_points, dim))


@dataclasses.dataclass(frozen=True)
class ScrambledSobol(AbstractPointSet):
    r"""Sobol nets of 2^m points, one linear matrix scramble per call and one digital shift per set.

    With base net x_i in {0,1}^32 (Sobol's first 2^m points, zero included), a random unit
    lower-triangular binary matrix L_j per dimension and an independent random word r_pj per set p,

        u_pij = (L_j x_ij XOR r_pj + 1/2) 2^-32.

    Each point is uniform, each set keeps the net property (every elementary interval of volume 2^-m
    holds the number of points it should), and given L the sets are independent and unbiased, hence
    uncorrelated. The variance equals that of Owen's nested scramble for the pairs that matter
    (Matousek 1998; Owen 2003). Works under `jit` with `num_sets`, `num_points` and `dim` fixed.

    >>> import jax
    >>> u = ScrambledSobol().uniforms(jax.random.key(0), 1000, 32, 10)
    >>> u.shape, sorted((u[0, :, 3] * 32).astype(int)) == list(range(32))
    ((1000, 32, 10), True)
    """

    def _check(self, num_points: int, dim: int) -> None:
        if num_points & (num_points - 1) or num_points > _MAX_POINTS:
            near = 2 ** round(np.log2(num_points))
            raise InvalidInputError(
                f"ScrambledSobol needs a power of two of points (at most 2^30), got {num_points}:"
                f" use {min(near, _MAX_POINTS)}."
            )
        if dim > _MAX_DIM:
            raise InvalidInputError(
                f"ScrambledSobol has at most {_MAX_DIM} dimensions, got {dim}: use"
                " IndependentUniforms."
            )

    def _uniforms(self, key: Array, num_sets: int, num_points: int, dim: int) -> Array:
        words = _sobol_words(num_points, dim)
        if not is_plain(key, num_sets * num_points * dim):
            return _scrambled(key, words, num_sets)
        matrix_key, shift_key = split(key)
        random, shifts = bits32(matrix_key, (dim, _BITS)), bits32(shift_key, (num_sets, 1, dim))
        return _shifted(np, np.bitwise_xor.reduce(_digits(np, words, random), axis=2), shifts)


@functools.lru_cache(maxsize=32)
def _sobol_words(num_points: int, dim: int) -> np.ndarray:
    """The first points of Sobol's sequence as 32-bit words, shape (num_points, dim)."""
    from scipy.stats import qmc

    points = qmc.Sobol(dim, scramble=False, bits=_BITS).random_base2(num_points.bit_length() - 1)
    return (points * 2.0**_BITS).astype(np.uint32)


@jit_fast_compile(static_argnames="num_sets")
def _scrambled(key: Array, words: Array, num_sets: int) -> Array:
    words = jnp.asarray(words)
    matrix_key, shift_key = jax.random.split(key)
    dim = words.shape[-1]
    random = jax.random.bits(matrix_key, (dim, _BITS), jnp.uint32)
    digits = _digits(jnp, words, random)
    scrambled = jax.lax.reduce(digits, jnp.uint32(0), jax.lax.bitwise_xor, (2,))
    return _shifted(jnp, scrambled, jax.random.bits(shift_key, (num_sets, 1, dim), jnp.uint32))


def _digits(xp: Any, words: Array, random: Array) -> Array:
    """For each digit of a word, which is 1, the digits that L_j makes of it: column b has ones on
    the diagonal, random digits below it. Bit 31 is the most significant digit.
    """
    one, digits = np.uint32(1), np.arange(_BITS, dtype=np.uint32)
    columns = (random & xp.asarray((one << digits) - one)) | xp.asarray(one << digits)
    return ((words[..., None] >> digits) & one) * columns


def _shifted(xp: Any, scrambled: Array, shifts: Array) -> Array:
    return ((scrambled ^ shifts).astype(xp.float64) + 0.5) * 2.0**-_BITS
