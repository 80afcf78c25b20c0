"""Simulations as one compiled program of fixed width, called as often as needed.

XLA may round differently in programs of different widths. So the width depends on the simulator
alone: rows are padded to whole chunks, simulation i under one key always has the same place in a
chunk, and a new number of simulations never recompiles.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._compile.options import jit_long_running
from noisewise._core import user_functions
from noisewise._core.arrays import Array
from noisewise.errors import NoisewiseError, SimulationError
from noisewise.simulators._keys import RowKeys, as_jax_keys

One = Callable[[Array, Array], Any]
"""(key, theta_1d) -> pytree: one simulation."""

MAX_CHUNK_BYTES = 2**22
"""Bytes of databases that one chunk may hold: 4 MiB, a round number that bounds memory."""

_MAX_WIDTH = 256
"""Simulations per chunk, at most: the cost of a call is then spread over many, and little is lost
to padding.
"""

_SMALL_WIDTH = 8
"""Simulations per chunk where no more are asked for, so that one is not paid for 256 times."""

_FROZEN = "drawn once while JAX compiles the program and the same ever after"
_HOW_TO_DRAW = (
    "Draw from key, as in jax.random.normal(key, shape); with np.random write"
    " nw.simulators.PythonSimulator(fn) with fn(rng, theta) -> x."
)


def width_for(num: int, nbytes: int) -> int:
    """How many simulations run at once: the largest power of two, at most 256, within the memory
    limit.

    A call for at most 8 simulations runs 8, so that a single one is not paid for 256 times.

    Args:
        num: Simulations asked for.
        nbytes: Memory of one simulation.

    Returns:
        The width of a chunk.
    """
    widest = 1
    while widest < _MAX_WIDTH and 2 * widest * nbytes <= MAX_CHUNK_BYTES:
        widest *= 2
    return min(widest, _SMALL_WIDTH) if num <= _SMALL_WIDTH else widest


def run(
    make: Callable[..., One], parts: tuple[Any, ...], keys: RowKeys, theta: np.ndarray, nbytes: int
) -> Any:
    """The results of N simulations by `make(*parts)`.

    Equal parts share one compiled program. Simulations with keys of their own always run at full
    width, so that results do not depend on N.

    Args:
        make: Builds the function of one simulation, (key, theta_1d) -> pytree.
        parts: Arguments of `make`; unhashable ones are compared by identity.
        keys: The randomness of the N simulations.
        theta: Parameters, shape (N, d), or whatever each simulation starts from.
        nbytes: Memory of one simulation.

    Returns:
        A pytree of NumPy arrays with a leading axis of length N.

    Raises:
        SimulationError: If the compiled program fails while it runs.
    """
    num = len(theta)
    width = width_for(num if keys.shared else _MAX_WIDTH, nbytes)
    padded = [_padded(rows, -num % width) for rows in (keys.words, keys.indices, theta)]
    program = _program(make, _hashable(parts), keys.implementation)
    chunks: list[Any] = []
    with jax.enable_x64(True):
        try:
            for start in range(0, num, width):
                chunk = [rows[start : start + width] for rows in padded]
                chunks.append(jax.tree.map(np.asarray, program(*chunk)))
        except jax.errors.JaxRuntimeError as error:
            raise SimulationError(f"The compiled simulation failed: {error}") from error
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:num], *chunks)


def _padded(rows: np.ndarray, more: int) -> np.ndarray:
    return np.concatenate([rows, np.repeat(rows[-1:], more, axis=0)])


def shapes(one: Callable[..., Any], *args: Any, what: str) -> Any:
    """The shapes that `one` returns, found by tracing it.

    Args:
        one: Function of arrays.
        args: Arrays, or shapes in place of them.
        what: Name of the function in messages, such as "The query".

    Returns:
        A pytree of `jax.ShapeDtypeStruct`.

    Raises:
        SimulationError: If tracing fails, whatever was raised.
    """
    with jax.enable_x64(True), _reported(what):
        return jax.eval_shape(one, *args)


def checked_shapes(
    make: Callable[..., One],
    parts: tuple[Any, ...],
    keys: RowKeys,
    theta: np.ndarray,
    *,
    what: str,
    deterministic: bool = False,
) -> Any:
    """The shapes that the simulation `make(*parts)` returns, after a check of what it reads.

    The check is made once for equal parts. It traces the simulation twice, which shows numbers that
    are drawn while tracing.

    Args:
        make: Builds the function of one simulation.
        parts: Arguments of `make`.
        keys: The randomness of the simulations; only its kind matters.
        theta: Parameters, shape (N, d); only d matters.
        what: Name of the simulation in messages.
        deterministic: Whether it needs no key.

    Returns:
        A pytree of `jax.ShapeDtypeStruct`, one simulation.

    Raises:
        SimulationError: If the simulation reads columns that theta does not have, makes no use of
            its key though it is not `deterministic`, or draws numbers from elsewhere.
    """
    return _checked_shapes(make, _hashable(parts), example(keys, theta), what, deterministic)


def example(keys: RowKeys, theta: np.ndarray) -> tuple[Any, Any]:
    """Shapes of the arguments (key, theta_1d) of one simulation, for tracing."""
    key, row = keys.first, jax.ShapeDtypeStruct(theta.shape[1:], np.float64)
    return jax.ShapeDtypeStruct(key.shape, key.dtype), row


def statistic_shape(query: Callable[[Any], Any], x: Any) -> jax.ShapeDtypeStruct:
    """The shape of the statistic of a database of the given shapes.

    Args:
        query: Function from one database to its statistic.
        x: Shapes of one database.

    Returns:
        The shape (k,) and dtype of s; a single number counts as (1,).

    Raises:
        SimulationError: If the query returns anything but real numbers, one or a vector.
    """
    s = shapes(query, x, what="The query")
    if not isinstance(s, jax.ShapeDtypeStruct):
        raise SimulationError(
            f"The query must return one array (k,), got {type(s).__name__}: write jnp.stack(...)."
        )
    number = jnp.issubdtype(s.dtype, jnp.number) or s.dtype == bool
    if not number or jnp.issubdtype(s.dtype, jnp.complexfloating):
        raise SimulationError(f"The query must return real numbers, got {s.dtype}.")
    if s.ndim > 1 or s.size == 0:
        raise SimulationError(f"The query must return a statistic of shape (k,), got {s.shape}.")
    return jax.ShapeDtypeStruct((s.size,), s.dtype)


def nbytes(tree: Any) -> int:
    """The memory that arrays of these shapes take."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


@functools.lru_cache(maxsize=64)
def _program(
    make: Callable[..., One], parts: tuple[Any, ...], implementation: Hashable | None
) -> Callable[[Array, Array, Array], Any]:
    one = _made(make, parts)

    @jit_long_running
    def chunk(words: Array, indices: Array, theta: Array) -> Any:
        keys = as_jax_keys(words, implementation)
        return jax.vmap(one)(jax.vmap(jax.random.fold_in)(keys, indices), theta)

    return chunk


@functools.lru_cache(maxsize=64)
def _checked_shapes(
    make: Callable[..., One],
    parts: tuple[Any, ...],
    arguments: tuple[Any, Any],
    what: str,
    deterministic: bool,
) -> Any:
    with jax.enable_x64(True), _reported(what):
        program, x = user_functions.trace(_made(make, parts), *arguments)
        again, _ = user_functions.trace(_made(make, parts), *arguments)
    columns = arguments[1].shape[0]
    beyond = user_functions.read_beyond(program, 1)
    if beyond is not None:
        raise SimulationError(
            f"{what} reads theta[{beyond}], but theta has {columns} column(s): correct the index,"
            " or add the parameter to the prior. JAX would silently use the last column."
        )
    if user_functions.differ(program, again):
        raise SimulationError(
            f"{what} draws numbers that do not come from its key, {_FROZEN}. {_HOW_TO_DRAW}"
        )
    random = user_functions.depends_on(program, 0)
    if not random and not deterministic:
        raise SimulationError(
            f"{what} makes no use of its key; randomness from elsewhere is {_FROZEN}."
            f" {_HOW_TO_DRAW} A model without randomness is JaxSimulator(fn, deterministic=True)."
        )
    if random and deterministic:
        raise SimulationError(
            f"{what} is stated to be deterministic, but uses its key: leave deterministic out."
        )
    return x


@contextlib.contextmanager
def _reported(what: str) -> Iterator[None]:
    """Anything raised inside is a failure of `what`."""
    try:
        yield
    except NoisewiseError as error:
        raise SimulationError(f"{what} failed: {error}") from error
    except Exception as error:
        raise SimulationError(_untraceable(what, error)) from error


def _made(make: Callable[..., One], parts: tuple[Any, ...]) -> One:
    return make(*(part.value if isinstance(part, _ByIdentity) else part for part in parts))


def _hashable(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_hashable_part(part) for part in parts)


def _hashable_part(part: object) -> object:
    try:
        hash(part)
    except TypeError:
        return _ByIdentity(part)
    return part


class _ByIdentity:
    """Makes anything a key of a dictionary, equal to itself only."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _untraceable(what: str, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
    return (
        f"{what} failed while JAX traced it ({reason}). If it is plain Python or NumPy rather than"
        " JAX, write nw.simulators.PythonSimulator(fn) with fn(rng, theta) -> x."
    )
