"""Programs compiled for a short life: in less than half the time, though steps of a training then
take a fifth longer.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

LONG_RUNNING = {"xla_backend_optimization_level": 1}
FAST_COMPILE = LONG_RUNNING | {"xla_cpu_use_fusion_emitters": False}


def jit_fast_compile(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """`jax.jit`, for functions of which compiling is most of the cost. On a GPU, and inside other
    programs, it is `jax.jit`.

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

    Those that draw many random numbers are even faster. XLA unrolls them when it takes its time.
    """
    if function is None:
        return functools.partial(jit_long_running, **settings)
    return CompiledFunction(function, functools.partial(jax.jit, **settings), LONG_RUNNING)


def filter_jit_fast_compile(function: Callable[..., Any]) -> Any:
    """`eqx.filter_jit`, for functions of which compiling is most of the cost."""
    return CompiledFunction(function, eqx.filter_jit, FAST_COMPILE)


class CompiledFunction:
    """A function compiled with options where it is a program of its own."""

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
        """How many programs `jit_fast_compile` or `jit_long_running` has compiled, one for each kind of
        arguments, not as parts of others.
        """
        return int(self._whole._cache_size())

    @functools.cached_property
    def _part(self) -> Any:
        return self._jit(self._function)

    @functools.cached_property
    def _whole(self) -> Any:
        return self._jit(self._function, compiler_options=_known_options(self._options))


def _inside_a_program(*values: Any) -> bool:
    traced = lambda leaf: isinstance(leaf, jax.core.Tracer)  # noqa: E731
    return any(map(traced, jax.tree.leaves(values))) or traced(
        _traced_inside_programs(np.float32(0.0))
    )


@jax.jit
def _traced_inside_programs(x: Any) -> Any:
    """Inside a program a part of it, whatever x is: a tracer."""
    return x


def _known_options(options: dict[str, Any]) -> dict[str, Any] | None:
    """Options that this version of XLA knows and the user does not set; none where it does not
    compile for a CPU.
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
