"""Programs that are compiled for a short life: in less than half the time, though they may run some percent slower."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

_FOR_A_SHORT_LIFE = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


def brief_jit(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """`jax.jit`, for programs of which compiling is most of the cost. On a GPU, and inside other programs, it is `jax.jit`.

    >>> @brief_jit
    ... def double(x):
    ...     return 2 * x
    >>> float(double(2.0)), float(jax.jit(double)(2.0)), float(jax.grad(double)(2.0))
    (4.0, 4.0, 2.0)
    """
    if function is None:
        return functools.partial(brief_jit, **settings)
    return _Brief(function, functools.partial(jax.jit, **settings))


def brief_filter_jit(function: Callable[..., Any]) -> Any:
    """`eqx.filter_jit`, for programs of which compiling is most of the cost."""
    return _Brief(function, eqx.filter_jit)


class _Brief:
    def __init__(self, function: Callable[..., Any], jit: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._jit = function, jit

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # XLA takes options for a program as a whole, not for parts of one
        return (self._part if _inside_a_program(args, kwargs) else self._whole)(*args, **kwargs)

    @property
    def num_compiled(self) -> int:
        """How many programs have been compiled, one for each kind of arguments."""
        return int(self._whole._cache_size())

    @functools.cached_property
    def _part(self) -> Any:
        return self._jit(self._function)

    @functools.cached_property
    def _whole(self) -> Any:
        return self._jit(self._function, compiler_options=_options())


def _inside_a_program(*values: Any) -> bool:
    traced = lambda leaf: isinstance(leaf, jax.core.Tracer)  # noqa: E731
    return any(map(traced, jax.tree.leaves(values))) or traced(_as_it_is(np.float32(0.0)))


@jax.jit
def _as_it_is(x: Any) -> Any:
    """Inside a program a part of it, whatever x is: a tracer."""
    return x


@functools.cache
def _options() -> dict[str, Any] | None:
    """Options that this version of XLA knows and the user does not set by XLA_FLAGS; none where it does not compile for a CPU."""
    if jax.default_backend() != "cpu":
        return None
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in _FOR_A_SHORT_LIFE.items() if name not in flags and _known(name, value)}


def _known(name: str, value: Any) -> bool:
    number = jax.ShapeDtypeStruct((), "float32")
    try:
        jax.jit(lambda x: -x, compiler_options={name: value}).lower(number).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
