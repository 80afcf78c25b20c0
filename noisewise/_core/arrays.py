"""Precision and shapes at the borders: what every public array method does first and last.

Inside noisewise priors, mechanisms and statistics are float64 whatever JAX's global flag says.
`in_float64` wraps a public method so that it runs under `jax.enable_x64(True)` and hands back NumPy
arrays, or tracers when the caller is itself inside a JAX transformation.
"""

from __future__ import annotations

import functools
import math
import operator
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._compile.options import jit_fast_compile
from noisewise.errors import InvalidInputError, InvalidTypeError

P = ParamSpec("P")
T = TypeVar("T")

Array = Any

_THREEFRY = "threefry2x32"
_ROWS_AT_ONCE = 2048
"""Keys are made so many at a time, so that a new number of them compiles nothing."""


def is_traced(*values: Any) -> bool:
    """Whether any leaf is a JAX tracer (so that its values cannot be looked at)."""
    return any(
        isinstance(leaf, jax.core.Tracer) for value in values for leaf in jax.tree.leaves(value)
    )


def to_numpy(tree: Any) -> Any:
    """JAX arrays to writable NumPy arrays; tracers stay as they are, and dictionaries keep their
    order.
    """
    if type(tree) is dict:
        return {name: to_numpy(part) for name, part in tree.items()}
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.core.Tracer) else np.array(leaf), tree
    )


def placed(array: np.ndarray) -> Array:
    """The array where programs find it, without the second copy that `jnp.asarray` makes for a
    moment. Call where float64 is enabled.

    It may share its memory with the array, which must not be written to while it is used.
    """
    return jax.device_put(array)


def in_float64(method: Callable[P, T]) -> Callable[P, T]:
    """Run a public method in float64 and return NumPy arrays (or tracers under a transformation)."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return to_numpy(method(*args, **kwargs))

    return wrapped


def as_float64(value: Any, name: str) -> Array:
    """`value` as a float64 JAX array; call inside `in_float64`."""
    if value is None or isinstance(value, (str, bytes)):
        raise InvalidTypeError(f"{name} must be an array of numbers, got {type(value).__name__}.")
    if is_key(value):
        raise InvalidTypeError(
            f"{name} must be an array of numbers, got a PRNG key: are two arguments swapped?"
        )
    try:
        if is_traced(value):
            return jnp.asarray(value, dtype=jnp.float64)
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"dtype {array.dtype}")
        return placed(array.astype(np.float64))  # asarray compiles a program for each new shape
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(
            f"{name} must be a rectangular array of real numbers, got {type(value).__name__}"
            f" ({error})."
        ) from None


def as_vectors(value: Any, name: str, width: int | None = None) -> Array:
    """`value` as float64 with at least one axis, the last of length `width` if that is given."""
    array = as_float64(value, name)
    if array.ndim == 0:
        raise InvalidInputError(
            f"{name} must have shape (..., {width or 'k'}), got a single number: write [{name}]."
        )
    if width is not None and array.shape[-1] != width:
        raise InvalidInputError(f"{name} must have shape (..., {width}), got {array.shape}.")
    if width is None and array.shape[-1] == 0:
        raise InvalidInputError(f"{name} must have at least one column, got shape {array.shape}.")
    return array


def is_key(value: Any) -> bool:
    """Whether `value` is one JAX PRNG key, typed (`jax.random.key`) or raw (`jax.random.PRNGKey`)."""
    if not isinstance(value, (jax.Array, np.ndarray)):
        return False
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value.shape == ()
    return value.dtype == np.uint32 and value.shape == (2,)


def as_key(key: Any) -> Array:
    """`key` itself, or an error that says how to make one."""
    if is_key(key):
        return key
    raise InvalidTypeError(
        "The first argument must be one JAX PRNG key, such as jax.random.key(0); got"
        f" {describe(key)}."
    )


def stage_key(key: Array, stage: str) -> Array:
    """The key that one stage draws from: `fold_in(key, crc32(stage))`.

    `jax.random.split(key, n)[i]` equals `fold_in(key, i)`, so two stages that divided one and the
    same key would share draws. With a domain for each, handing one key to the prior and to the
    simulator does no harm.

    >>> jax.random.key_data(stage_key(jax.random.key(0), "prior")).tolist()
    [2091360807, 2698684526]
    """
    return jax.random.fold_in(key, np.uint32(zlib.crc32(stage.encode())))


def as_keys(key: Any, num: int) -> Array:
    """`key` itself if it is one key, or an array of `num` of them; else an error that says what is
    expected.
    """
    if is_key(key):
        return key
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
            f" impl={_THREEFRY!r}): what others draw under vmap depends on their neighbours."
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


def key_words(key: Array) -> tuple[np.ndarray, Any]:
    """The words of a key or of an array of keys (..., w), in uint32, and their kind: None for raw
    keys.
    """
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(key)), jax.random.key_impl(key)
    return np.asarray(key), None


def fold_in_rows(key: Array, rows: np.ndarray) -> Array:
    """An array of keys `fold_in(key, rows[i])`, from one key or from as many as there are rows; of
    the kind of `key`.

    Keys of other kinds than JAX's default cannot stand in arrays: in their place one of the default
    kind is drawn from them.

    >>> keys = fold_in_rows(jax.random.key(0), np.arange(3))
    >>> bool(keys[2] == jax.random.fold_in(jax.random.key(0), 2))
    True
    """
    if not _is_threefry(key):
        key = jax.random.wrap_key_data(jax.random.bits(key, (2,), np.uint32), impl=_THREEFRY)
    words, implementation = key_words(key)
    padding = -len(rows) % _ROWS_AT_ONCE
    words = np.pad(np.broadcast_to(words, (len(rows), 2)), ((0, padding), (0, 0)))
    numbers = np.pad(np.asarray(rows).astype(np.uint32), (0, padding))
    starts = range(0, len(words), _ROWS_AT_ONCE)
    parts = [
        _folded(words[at : at + _ROWS_AT_ONCE], numbers[at : at + _ROWS_AT_ONCE]) for at in starts
    ]
    folded: Array = np.concatenate([np.asarray(part) for part in parts])[: len(rows)]
    return (
        folded if implementation is None else jax.random.wrap_key_data(folded, impl=implementation)
    )


@jit_fast_compile
def _folded(words: Array, numbers: Array) -> Array:
    keys = jax.random.wrap_key_data(words, impl=_THREEFRY)
    return jax.random.key_data(jax.vmap(jax.random.fold_in)(keys, numbers))


def describe(value: Any) -> str:
    """A short description of a value for messages: its type, and its shape if it has one. Never its
    contents.
    """
    shape = getattr(value, "shape", None)
    return (
        f"{type(value).__name__} of shape {shape}"
        if isinstance(shape, tuple)
        else type(value).__name__
    )


def open_uniforms(key: Array, shape: Sequence[int]) -> Array:
    """Uniforms strictly inside (0, 1): odd multiples of 2^-53, so that neither `log(u)` nor
    `log(1-u)` overflows.

    Call inside `in_float64`.
    """
    return _open_uniforms(key, tuple(shape))


@jit_fast_compile(static_argnames="shape")
def _open_uniforms(key: Array, shape: tuple[int, ...]) -> Array:
    bits = jax.random.bits(key, shape, jnp.uint64) >> jnp.uint64(12)
    return (bits.astype(jnp.float64) + 0.5) * 2.0**-52


def number(
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    optional: bool = False,
    infinite: bool = False,
    tell: str = "",
) -> Callable[[Any], Any]:
    """A converter that returns a Python float inside the stated range or raises, naming the
    argument.
    """
    rules = [(above, ">"), (at_least, ">="), (below, "<"), (at_most, "<=")]
    limits = [(limit, sign) for limit, sign in rules if limit is not None]
    range_text = " and ".join(f"{sign} {limit:g}" for limit, sign in limits)
    expected = f"{name} must be a {'' if infinite else 'finite '}number {range_text}".rstrip()
    holds = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}

    def convert(value: Any) -> Any:
        if (value is None and optional) or isinstance(value, jax.core.Tracer):
            return value
        if (
            isinstance(value, (bool, str, bytes))
            or value is None
            or np.ndim(value) != 0
            or is_key(value)
        ):
            raise InvalidTypeError(f"{expected}, got {describe(value)}. {tell}".rstrip())
        try:
            result = float(value)
        except (TypeError, ValueError):
            raise InvalidTypeError(f"{expected}, got {describe(value)}. {tell}".rstrip()) from None
        finite = math.isfinite(result) or (infinite and not math.isnan(result))
        if not finite or not all(holds[sign](result, limit) for limit, sign in limits):
            raise InvalidInputError(f"{expected}, got {result:g}. {tell}".rstrip())
        return result

    return convert


def integer(
    name: str, *, at_least: int, optional: bool = False, tell: str = ""
) -> Callable[[Any], Any]:
    """A converter that returns a Python int of at least `at_least` or raises, naming the argument."""

    def convert(value: Any) -> Any:
        if value is None and optional:
            return None
        whole = not isinstance(value, (bool, str, bytes)) and np.ndim(value) == 0
        if whole:
            try:
                whole = float(value) == int(value)
            except (TypeError, ValueError, OverflowError):
                whole = False
        if not whole:
            raise InvalidTypeError(
                f"{name} must be a whole number >= {at_least}, got {describe(value)}. {tell}".rstrip()
            )
        if int(value) < at_least:
            raise InvalidInputError(
                f"{name} must be a whole number >= {at_least}, got {int(value)}. {tell}".rstrip()
            )
        return int(value)

    return convert
