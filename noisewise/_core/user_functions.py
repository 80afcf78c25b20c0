"""Users' functions, inspected when they are handed over: how many arguments they take and in which
order, and, for those written in JAX, what they read.

A function in JAX is traced. JAX clamps an index beyond the end (theta[3] of one entry is theta[0]),
and whatever NumPy or Python computes while it is traced becomes a constant of the compiled program
(np.random draws once, for all simulations). Neither shows in the results.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from noisewise.errors import InvalidTypeError

# Signatures ---------------------------------------------------------------------------------------

_NAMES = {
    "key": ("key", "rng", "rng_key", "prng_key", "random_key", "generator"),
    "rng": ("key", "rng", "rng_key", "prng_key", "random_key", "generator"),
    "theta": ("theta", "params", "parameters"),
    "s": ("s",),
    "s_dp": ("s_dp",),
}
"""What a parameter is called when it can only mean this argument."""


def check_call(function: Callable[..., Any], call: str, *arguments: str) -> None:
    """Refuse a function that cannot be called with these positional arguments, or whose parameter
    names say another order.

    Args:
        function: The function of a user. One that Python cannot inspect passes.
        call: How it is called, such as "fn(key, theta)".
        arguments: The names of the arguments in their order.

    Raises:
        InvalidTypeError: If the call would fail, or two arguments are swapped.

    >>> check_call(lambda theta, key: theta, "fn(key, theta)", "key", "theta")
    Traceback (most recent call last):
    noisewise.errors.InvalidTypeError: fn is called as fn(key, theta), but it is written as (theta,
    key): swap its parameters.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    what = f"{call.partition('(')[0]} is called as {call}, but it is written as {signature}"
    try:
        signature.bind(*arguments)
    except TypeError:
        raise InvalidTypeError(
            f"{what}: give it {len(arguments)} positional parameter(s), ({', '.join(arguments)}),"
            " and no others without a default."
        ) from None
    written = list(signature.parameters)[: len(arguments)]
    for place, name in enumerate(written):
        meant = [i for i, argument in enumerate(arguments) if name in _NAMES.get(argument, ())]
        if meant and place not in meant:
            raise InvalidTypeError(f"{what}: swap its parameters.")


def check_keywords(kind: type, given: Collection[str]) -> None:
    """Refuse keywords that a class does not take, with those that it takes.

    Args:
        kind: The class that is called.
        given: The keywords of the call.

    Raises:
        InvalidTypeError: If one is unknown.

    >>> class Noise:
    ...     def __init__(self, scale, step=1.0): ...
    >>> check_keywords(Noise, ["sd"])
    Traceback (most recent call last):
    noisewise.errors.InvalidTypeError: Noise has no argument 'sd': it takes scale, step.
    """
    if not given:
        return
    takes = list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
    names = [each.name for each in takes]
    unknown = [name for name in given if name not in names]
    if unknown and all(each.kind is not each.VAR_KEYWORD for each in takes):
        raise InvalidTypeError(
            f"{kind.__name__} has no argument {unknown[0]!r}: it takes {', '.join(names)}."
        )


# Traces -------------------------------------------------------------------------------------------

TracedProgram = core.ClosedJaxpr

_CALLS = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat")
"""Primitives that run one inner program on their very arguments."""


def _same(value: Any, **_: Any) -> Any:
    return value


_FOLDED: dict[str, Callable[..., Any]] = {
    "lt": lambda a, b, **_: a < b,
    "add": lambda a, b, **_: a + b,
    "sub": lambda a, b, **_: a - b,
    "select_n": lambda which, *cases, **_: np.where(which, cases[-1], cases[0]),
    "broadcast_in_dim": _same,
    "convert_element_type": _same,
    "reshape": _same,
    "squeeze": _same,
}
"""What JAX does to an index before it is used, on NumPy values; shapes do not matter here."""


_MAX_FOLDED = 1024
"""Entries of a constant that is followed: indices have few, and tables of data are not indices."""


def trace(function: Callable[..., Any], *args: Any) -> tuple[TracedProgram, Any]:
    """Trace a function at arguments of these shapes.

    Args:
        function: A function that JAX can trace.
        args: Its arguments, or their shapes.

    Returns:
        The program, traced afresh, and the shapes that it returns.
    """
    return jax.make_jaxpr(lambda *each: function(*each), return_shape=True)(*args)


def depends_on(program: TracedProgram, argument: int) -> bool:
    """Whether any result of a program depends on an argument; True where that is not known.

    Args:
        program: The program.
        argument: The number of the argument, from 0.
    """
    return any(_dependent(program.jaxpr, [i == argument for i in range(len(program.jaxpr.invars))]))


def read_beyond(program: TracedProgram, argument: int) -> int | None:
    """An index that lies outside a vector argument, or outside a vector of its size computed from
    it.
    Only indices known while tracing count; those that `jnp.take(..., mode="fill")` answers with NaN
    do not.

    Args:
        program: The program.
        argument: The number of the vector among its arguments, from 0.

    Returns:
        The first such index, as the user wrote it; None if there is none.

    >>> import jax.numpy as jnp
    >>> program, _ = trace(lambda theta: jnp.exp(theta)[3], jnp.zeros(2))
    >>> read_beyond(program, 0)
    3
    """
    vector = program.jaxpr.invars[argument]
    return _beyond(program, {vector}, {}, vector.aval.shape[0])


def differ(first: TracedProgram, second: TracedProgram) -> bool:
    """Whether two traces of one function hold different constants: then it draws numbers while it
    is traced.

    Args:
        first: A trace of the function.
        second: Another one at the same shapes.
    """
    pairs = list(itertools.zip_longest(_constants(first), _constants(second), fillvalue=None))
    if any(one is None or other is None for one, other in pairs):
        return False
    return any(one is not other and not _equal(one, other) for one, other in pairs)


# Reading programs ---------------------------------------------------------------------------------


def _dependent(jaxpr: core.Jaxpr, marked: list[bool]) -> list[bool]:
    """Which results depend on the marked arguments."""
    live = {var for var, mark in zip(jaxpr.invars, marked, strict=True) if mark}
    for eqn in jaxpr.eqns:
        hits = [_is_in(live, value) for value in eqn.invars]
        if any(hits):
            inner = _called(eqn)
            results = [True] * len(eqn.outvars) if inner is None else _dependent(inner.jaxpr, hits)
            live.update(var for var, hit in zip(eqn.outvars, results, strict=True) if hit)
    return [_is_in(live, value) for value in jaxpr.outvars]


def _beyond(
    program: TracedProgram, vectors: set[Any], known: dict[Any, Any], size: int
) -> int | None:
    """The first index outside one of the vectors; `known` maps variables to constants."""
    known = {**known, **dict(zip(program.jaxpr.constvars, program.consts, strict=True))}
    for eqn in program.jaxpr.eqns:
        index = _outside(eqn, vectors, known, size)
        for inner in _inner(eqn):
            if index is None:
                index = _beyond(inner, *_passed_on(eqn, inner, vectors, known, size), size)
        if index is not None:
            return index
        known |= _folded(eqn, known)
        if any(_is_in(vectors, value) for value in eqn.invars):
            vectors |= {var for var in eqn.outvars if var.aval.shape == (size,)}
    return None


def _folded(eqn: core.JaxprEqn, known: dict[Any, Any]) -> dict[Any, Any]:
    """The result of an equation by its variable, where it follows from constants."""
    values = [_value(known, value) for value in eqn.invars]
    constant = all(value is not None and value.size <= _MAX_FOLDED for value in values)
    if eqn.primitive.name not in _FOLDED or not constant:
        return {}
    return {eqn.outvars[0]: np.asarray(_FOLDED[eqn.primitive.name](*values))}


def _outside(eqn: core.JaxprEqn, vectors: set[Any], known: dict[Any, Any], size: int) -> int | None:
    if eqn.primitive.name not in ("dynamic_slice", "gather") or not _is_in(vectors, eqn.invars[0]):
        return None
    places = _value(known, eqn.invars[1])
    if places is None or "FILL" in str(eqn.params.get("mode")):
        return None
    outside = places[(places < 0) | (places + eqn.params["slice_sizes"][0] > size)]
    # Indices from the end had the size added.
    return None if outside.size == 0 else int(outside.flat[0]) - size * int(outside.flat[0] < 0)


def _passed_on(
    eqn: core.JaxprEqn, inner: TracedProgram, vectors: set[Any], known: dict[Any, Any], size: int
) -> tuple[set[Any], dict[Any, Any]]:
    """The vectors and the constants among the arguments of an inner program.

    Loops and branches pass their last arguments on; what a loop carries changes, so constants go to
    plain calls only.
    """
    pairs = list(zip(reversed(inner.jaxpr.invars), reversed(eqn.invars), strict=False))
    passed = {var for var, value in pairs if _is_in(vectors, value) and var.aval.shape == (size,)}
    if _called(eqn) is None:
        return passed, {}
    constants = {var: _value(known, value) for var, value in pairs}
    return passed, {var: value for var, value in constants.items() if value is not None}


def _constants(program: TracedProgram) -> Iterator[Any]:
    yield from program.consts
    for eqn in program.jaxpr.eqns:
        yield from (value.val for value in eqn.invars if isinstance(value, core.Literal))
        for inner in _inner(eqn):
            yield from _constants(inner)


def _inner(eqn: core.JaxprEqn) -> Iterator[TracedProgram]:
    for param in eqn.params.values():
        for part in param if isinstance(param, (tuple, list)) else (param,):
            if isinstance(part, core.ClosedJaxpr):
                yield part
            elif isinstance(part, core.Jaxpr) and not part.constvars:
                yield core.ClosedJaxpr(part, ())


def _called(eqn: core.JaxprEqn) -> TracedProgram | None:
    """The inner program of a plain call, argument by argument."""
    inner = list(_inner(eqn)) if eqn.primitive.name in _CALLS else []
    fits = len(inner) == 1 and len(inner[0].jaxpr.invars) == len(eqn.invars)
    return inner[0] if fits and len(inner[0].jaxpr.outvars) == len(eqn.outvars) else None


def _is_in(variables: set[Any], value: Any) -> bool:
    return not isinstance(value, core.Literal) and value in variables


def _value(known: dict[Any, Any], value: Any) -> np.ndarray | None:
    found = value.val if isinstance(value, core.Literal) else known.get(value)
    return None if found is None or _is_random_key(found) else np.asarray(found)


def _equal(one: Any, other: Any) -> bool:
    one, other = (
        jax.random.key_data(value) if _is_random_key(value) else value for value in (one, other)
    )
    first, second = np.asarray(one), np.asarray(other)
    return (
        first.dtype == second.dtype
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )


def _is_random_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
