"""One key for each row of a batch, from one key or from an array of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Integer, UInt32

from noisewise._core.arrays import Array, as_key, describe, is_key
from noisewise._core.keys import children
from noisewise.errors import InvalidInputError, InvalidTypeError

_THREEFRY = "threefry2x32"
"""The kind of JAX's default keys."""


def as_keys(key: Any, num: int) -> Array:
    """`key` itself if it is one key, or an array of one key per row.

    Args:
        key: One JAX PRNG key, or `num` of them in an array.
        num: The number of rows.

    Raises:
        InvalidTypeError: If it is something else, or an array of keys of another kind than JAX's
            default.
        InvalidInputError: If there are fewer or more keys than rows.
    """
    if is_key(key) or isinstance(key, (int, np.integer)):
        return as_key(key)
    expected = (
        "one JAX PRNG key, such as jax.random.key(0), or an array of keys, one per row of theta"
    )
    if not _is_array_of_keys(key):
        raise InvalidTypeError(f"The first argument must be {expected}; got {describe(key)}.")
    if len(key) != num:
        raise InvalidInputError(
            f"The first argument must be {expected}; got {len(key)} keys for {num} rows."
        )
    if not _is_threefry(key):
        raise InvalidTypeError(
            f"An array of keys must be of the kind {_THREEFRY!r}, as in jax.random.key(0,"
            f" impl={_THREEFRY!r}): under vmap, other kinds draw numbers that depend on the other"
            " rows."
        )
    return key


def _is_array_of_keys(value: Any) -> bool:
    if not isinstance(value, (jax.Array, np.ndarray)):
        return False
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value.ndim == 1
    return value.dtype == np.uint32 and value.ndim == 2 and value.shape[1] == 2


def _is_threefry(key: Array) -> bool:
    return (
        not jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        or str(jax.random.key_impl(key)) == _THREEFRY
    )


def key_words(key: Array) -> tuple[UInt32[np.ndarray, "*keys w"], Any]:
    """The words of a key or of an array of keys.

    Args:
        key: One key, or an array of keys of shape (...).

    Returns:
        The words, uint32 of shape (..., w), and the kind of the keys: None for raw ones.
    """
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(key)), jax.random.key_impl(key)
    return np.asarray(key), None


def fold_in_rows(key: Array, rows: Integer[np.ndarray, " n"]) -> Array:
    """One key per row: `fold_in(key, rows[i])`, of the kind of `key`.

    Keys of other kinds than JAX's default cannot be put into arrays: one of the default kind is
    drawn from them first.

    Args:
        key: One key, or an array of n keys.
        rows: The numbers of the rows, shape (n,).

    Returns:
        An array of n keys.

    >>> keys = fold_in_rows(jax.random.key(0), np.arange(3))
    >>> bool(keys[2] == jax.random.fold_in(jax.random.key(0), 2))
    True
    """
    if not _is_threefry(key):
        key = jax.random.wrap_key_data(jax.random.bits(key, (2,), np.uint32), impl=_THREEFRY)
    words, implementation = key_words(key)
    folded: Array = children(words, np.asarray(rows))
    return (
        folded if implementation is None else jax.random.wrap_key_data(folded, impl=implementation)
    )
