"""How programs are compiled: most run for less time than XLA takes to optimise them fully."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from noisewise._compile.on_disk import keep_programs

LONG_RUNNING = {"xla_backend_optimization_level": 1}
"""Options of XLA: half the time to compile, and programs are no slower."""
FAST_COMPILE = LONG_RUNNING | {"xla_cpu_use_fusion_emitters": False}
"""Options of XLA: less than half the time to compile, and steps of a training a fifth slower."""


def jit_fast_compile(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """`jax.jit`, for functions where compiling is most of the cost.

    On a GPU, and inside other programs, it is `jax.jit`.

    Args:
        function: The function; without it, a decorator is returned.
        settings: What `jax.jit` takes, such as `static_argnames`.

    Returns:
        A `CompiledFunction`.

    >>> @jit_fast_compile
    ... def double(x):
    ...     return 2 * x
    >>> float(double(2.0)), float(jax.jit(double)(2.0)), float(jax.grad(double)(2.0))
    (4.0, 4.0, 2.0)
    """
    if function is None:
        return functools.partial(jit_fast_compile, **settings)
    return CompiledFunction(function, functools.partial(jax.jit, **settings), FAST_COMPILE)


def jit_long_running(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """`jax.jit`, for functions that may run for long: compiled in half the time, and no slower.

    Those that draw many random numbers are even faster, because XLA unrolls them when it optimises
    fully.

    Args:
        function: The function; without it, a decorator is returned.
        settings: What `jax.jit` takes, such as `static_argnames`.

    Returns:
        A `CompiledFunction`.
    """
    if function is None:
        return functools.partial(jit_long_running, **settings)
    return CompiledFunction(function, functools.partial(jax.jit, **settings), LONG_RUNNING)


def filter_jit_fast_compile(function: Callable[..., Any]) -> Any:
    """`eqx.filter_jit`, for functions where compiling is most of the cost.

    Args:
        function: A function of pytrees that hold more than arrays.

    Returns:
        A `CompiledFunction`.
    """
    return CompiledFunction(function, eqx.filter_jit, FAST_COMPILE)


class CompiledFunction:
    """A function that is compiled with options of XLA where it is called by itself.

    Inside another program it is a part of that one, for which XLA takes no options.
    """

    def __init__(
        self, function: Callable[..., Any], jit: Callable[..., Any], options: dict[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        self._function, self._jit, self._options = function, jit, options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # XLA takes options for a program as a whole, not for parts of one
        return (self._part if _inside_a_program(args, kwargs) else self._whole)(*args, **kwargs)

    @property
    def num_compiled(self) -> int:
        """The number of programs compiled so far, one for each kind of arguments; calls inside
        other programs do not count.

        """
        return int(self._whole._cache_size())

    @functools.cached_property
    def _part(self) -> Any:
        return self._jit(self._function)

    @functools.cached_property
    def _whole(self) -> Any:
        keep_programs()
        return self._jit(self._function, compiler_options=known_options(self._options))


def _inside_a_program(*values: Any) -> bool:
    traced = lambda leaf: isinstance(leaf, jax.core.Tracer)  # noqa: E731
    return any(map(traced, jax.tree.leaves(values))) or traced(
        _traced_inside_programs(np.float32(0.0))
    )


def with_values() -> contextlib.AbstractContextManager[Any]:
    """A context in which what does not depend on tracers has a value, also inside a program.

    Outside of them it is none: what is compiled in JAX's own serves nothing else.
    """
    return jax.ensure_compile_time_eval() if _inside_a_program() else contextlib.nullcontext()


@jax.jit
def _traced_inside_programs(x: Any) -> Any:
    """Inside a program a part of it, whatever x is: a tracer."""
    return x


def known_options(options: dict[str, Any]) -> dict[str, Any] | None:
    """Those options that this version of XLA knows and the user does not set.

    XLA refuses a program with an option that it does not know, and its options come and go.

    Args:
        options: Options of XLA by name.

    Returns:
        Some of them; None where XLA does not compile for a CPU.

    >>> known_options({"xla_of_another_time": True})
    {}
    """
    if jax.default_backend() != "cpu":
        return None
    flags = {flag.partition("=")[0].lstrip("-") for flag in os.environ.get("XLA_FLAGS", "").split()}
    return {
        name: value for name, value in options.items() if name not in flags and _known(name, value)
    }


@functools.cache
def _known(name: str, value: Any) -> bool:
    number = jax.ShapeDtypeStruct((), "float32")
    try:
        jax.jit(lambda x: -x, compiler_options={name: value}).lower(number).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
