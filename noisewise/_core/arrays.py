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
from jaxtyping import Float, Shaped

from noisewise._compile.numpy_constants import make_constants_anew
from noisewise._compile.options import jit_fast_compile
from noisewise._core.keys import bits64, fold_in, is_plain, odd_multiples
from noisewise.errors import InvalidInputError, InvalidTypeError

make_constants_anew()

P = ParamSpec("P")
T = TypeVar("T")

Array = Any
"""An array of JAX or NumPy, or a tracer: the base of jaxtyping annotations, `Float[Array, "n d"]`.

Functions with this annotation accept all three; their docstrings say what they return.
"""


def is_traced(*values: Any) -> bool:
    """Whether any leaf is a JAX tracer, whose value is not known yet.

    Args:
        values: Arrays, numbers, or pytrees of them.
    """
    return any(
        isinstance(leaf, jax.core.Tracer) for value in values for leaf in jax.tree.leaves(value)
    )


def to_numpy(tree: Any) -> Any:
    """Turn JAX arrays into writable NumPy arrays.

    Args:
        tree: An array or a pytree of arrays.

    Returns:
        The same tree of NumPy arrays; tracers stay as they are, and dictionaries keep their order.
    """
    if type(tree) is dict:
        return {name: to_numpy(part) for name, part in tree.items()}
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.core.Tracer) else np.array(leaf), tree
    )


def placed(array: Shaped[np.ndarray, "*shape"]) -> Shaped[Array, "*shape"]:
    """Put an array where compiled programs find it, without the second copy that `jnp.asarray`
    makes for a moment.
    Call it where float64 is enabled.

    Args:
        array: The array; it may share its memory with the result, so do not write to it while that
            is used.

    Returns:
        A JAX array of the same shape and type.
    """
    return jax.device_put(array)


def in_float64(method: Callable[P, T]) -> Callable[P, T]:
    """Run a public method in float64 and return NumPy arrays, or tracers under a transformation.

    Use it on every public method that takes or returns arrays.

    Args:
        method: A method that computes with JAX.

    Returns:
        The method, which runs under `jax.enable_x64(True)` whatever the global flag says.
    """

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return to_numpy(method(*args, **kwargs))

    return wrapped


def as_float64(value: Any, name: str) -> Float[Array, "*shape"]:
    """`value` as a float64 JAX array. Call it inside `in_float64`.

    Args:
        value: Numbers of any shape: an array, nested lists, or a tracer.
        name: The argument that the value was given for, as messages name it.

    Returns:
        A float64 array of the same shape.

    Raises:
        InvalidTypeError: If the value holds anything but real numbers, or is a PRNG key.
    """
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


def as_vectors(value: Any, name: str, width: int | None = None) -> Float[Array, "*batch k"]:
    """`value` as a float64 array of one or more vectors. Call it inside `in_float64`.

    Args:
        value: Numbers, shape (..., width).
        name: The argument that the value was given for, as messages name it.
        width: The length of the last axis; any positive one if None.

    Returns:
        A float64 array of the same shape.

    Raises:
        InvalidInputError: If the shape is another one.
    """
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


_MANY_KEYS = 2**32
"""Seeds: JAX makes the same key of larger ones as of their last 32 bits, depending on a flag."""


def is_key(value: Any) -> bool:
    """Whether `value` is one JAX PRNG key, typed (`random.key`) or raw (`random.PRNGKey`)."""
    if not isinstance(value, (jax.Array, np.ndarray)):
        return False
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value.shape == ()
    return value.dtype == np.uint32 and value.shape == (2,)


def as_key(key: Any) -> Array:
    """`key` itself, checked; an integer i stands for `jax.random.key(i)`.

    Args:
        key: One JAX PRNG key, typed or raw, or an integer from 0 to 2^32 - 1.

    Raises:
        InvalidTypeError: If it is something else; the message says how to make one.
        InvalidInputError: If the integer is negative or larger.

    >>> bool(as_key(7) == jax.random.key(7))
    True
    """
    if is_key(key):
        return key
    if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
        if not 0 <= key < _MANY_KEYS:
            raise InvalidInputError(f"A seed lies between 0 and 2^32 - 1, got {int(key)}.")
        return jax.random.key(int(key))
    raise InvalidTypeError(
        "The first argument must be one JAX PRNG key, such as jax.random.key(0), or an integer in"
        f" its place; got {describe(key)}."
    )


def stage_key(key: Array, stage: str) -> Array:
    """The key that one stage draws from: `fold_in(key, crc32(stage))`.

    `jax.random.split(key, n)[i]` equals `fold_in(key, i)`, so two stages that split the same key
    would share draws. With a domain for each stage, one key may serve the prior and the simulator.

    Args:
        key: A JAX PRNG key.
        stage: The name of the stage. Results depend on it, so it never changes.

    Returns:
        The key of the stage.

    >>> jax.random.key_data(stage_key(jax.random.key(0), "prior")).tolist()
    [2091360807, 2698684526]
    """
    return fold_in(key, zlib.crc32(stage.encode()))


def describe(value: Any) -> str:
    """Describe a value for messages: its type, and its shape if it has one. Never its contents,
    which may be confidential.
    """
    shape = getattr(value, "shape", None)
    return (
        f"{type(value).__name__} of shape {shape}"
        if isinstance(shape, tuple)
        else type(value).__name__
    )


def open_uniforms(key: Array, shape: Sequence[int]) -> Float[Array, "*shape"]:
    """Draw uniforms strictly inside (0, 1): odd multiples of 2^-53, so that neither `log(u)` nor
    `log(1-u)` overflows.

    Call it inside `in_float64`.

    Args:
        key: A JAX PRNG key.
        shape: The shape of the result.

    Returns:
        Float64 uniforms of that shape.
    """
    if is_plain(key, math.prod(shape)):
        return odd_multiples(bits64(key, tuple(shape)))
    return _open_uniforms(key, tuple(shape))


@jit_fast_compile(static_argnames="shape")
def _open_uniforms(key: Array, shape: tuple[int, ...]) -> Array:
    return odd_multiples(jax.random.bits(key, shape, jnp.uint64))


def number(
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    optional: bool = False,
    infinite: bool = False,
    advice: str = "",
) -> Callable[[Any], Any]:
    """Make a converter for a setting that is a number.

    Args:
        name: The setting, as messages name it.
        above: The number must be larger than this.
        at_least: The number must be at least this.
        below: The number must be smaller than this.
        at_most: The number must be at most this.
        optional: Whether None is allowed; it stays None.
        infinite: Whether infinities are allowed.
        advice: Advice that is added to messages.

    Returns:
        A function that returns its argument as a Python float (tracers as they are), or raises
        `InvalidTypeError` or `InvalidInputError`.
    """
    limits = _limits(above, at_least, below, at_most)
    range_text = " and ".join(f"{sign} {limit:g}" for limit, sign, _ in limits)
    expected = f"{name} must be a {'' if infinite else 'finite '}number {range_text}".rstrip()

    def convert(value: Any) -> Any:
        if (value is None and optional) or isinstance(value, jax.core.Tracer):
            return value
        result = _as_float(value)
        if result is None:
            raise InvalidTypeError(f"{expected}, got {describe(value)}. {advice}".rstrip())
        finite = math.isfinite(result) or (infinite and not math.isnan(result))
        if not finite or not all(holds(result, limit) for limit, _, holds in limits):
            raise InvalidInputError(f"{expected}, got {result:g}. {advice}".rstrip())
        return result

    return convert


def _limits(*ends: float | None) -> list[tuple[float, str, Callable[[Any, Any], bool]]]:
    """The limits that are given, each with its sign and its comparison."""
    rules = zip(ends, _SIGNS.items(), strict=True)
    return [(limit, sign, holds) for limit, (sign, holds) in rules if limit is not None]


_SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def _as_float(value: Any) -> float | None:
    """A single number as a float; None for everything else."""
    if type(value) is float:
        return value
    if value is None or isinstance(value, (bool, str, bytes)) or np.ndim(value) or is_key(value):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def integer(
    name: str, *, at_least: int, optional: bool = False, advice: str = ""
) -> Callable[[Any], Any]:
    """Make a converter for a setting that is a whole number.

    Args:
        name: The setting, as messages name it.
        at_least: The smallest value that is allowed.
        optional: Whether None is allowed; it stays None.
        advice: Advice that is added to messages.

    Returns:
        A function that returns its argument as a Python int, or raises `InvalidTypeError` or
        `InvalidInputError`.
    """

    expected = f"{name} must be a whole number >= {at_least}"

    def convert(value: Any) -> Any:
        if value is None and optional:
            return None
        if not _is_whole(value):
            raise InvalidTypeError(f"{expected}, got {describe(value)}. {advice}".rstrip())
        if int(value) < at_least:
            raise InvalidInputError(f"{expected}, got {int(value)}. {advice}".rstrip())
        return int(value)

    return convert


def _is_whole(value: Any) -> bool:
    if isinstance(value, (bool, str, bytes)) or np.ndim(value):
        return False
    try:
        return bool(float(value) == int(value))
    except (TypeError, ValueError, OverflowError):
        return False


def numpy_of(values: Any) -> Any:
    """NumPy for its arrays, JAX for others: what serves both keeps float64 whatever JAX's flag."""
    return np if isinstance(values, np.ndarray) else jnp


_GOLDEN = 0.6180339887498949
"""The golden section: its multiples are never the same but for a whole number."""


def sum_by_place(values: Shaped[Array, "*shape"]) -> Float[Array, ""]:
    """The sum of numbers with a weight of their own for each place: it tells in which order they
    are, for comparisons of what functions return.

    >>> float(sum_by_place(np.array([1.0, 2.0]))) == float(sum_by_place(np.array([2.0, 1.0])))
    False
    """
    flat = jnp.asarray(values).reshape(-1)
    return flat @ (1.0 + np.arange(flat.size) * _GOLDEN % 1.0)


# Blocks of rows -----------------------------------------------------------------------------------

BLOCK = 1024
"""Rows of a block: a compiled program serves any number of rows, and filling up a block costs next
to nothing.
"""


def in_blocks(
    fn: Callable[[int, Shaped[np.ndarray, "block ..."]], Shaped[np.ndarray, "block ..."]],
    rows: Shaped[np.ndarray, "n ..."],
) -> Shaped[np.ndarray, "n ..."]:
    """fn(number, block) of successive blocks of rows, laid end to end.

    The last block is filled up with copies of its last row, whose results are dropped.

    >>> values = in_blocks(lambda number, block: block[:, 0] + number, np.zeros((1025, 1)))
    >>> values[[0, 1023, 1024]].tolist()
    [0.0, 0.0, 1.0]
    """
    filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % BLOCK, axis=0)])
    return np.concatenate(
        [fn(i, filled[i * BLOCK : (i + 1) * BLOCK]) for i in range(len(filled) // BLOCK)]
    )[: len(rows)]
