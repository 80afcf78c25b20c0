"""Networks of one architecture, many at once: their arrays have a leading axis, and nothing else
differs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array


def ensemble(
    key: Array, factory: Callable[..., Any], num: int, target_dim: int, condition_dim: int
) -> Any:
    """`num` estimators of one architecture with independent initial weights: a distribution whose
    arrays have a leading axis.

    Two ensembles of one architecture differ in their arrays alone, so that programs compiled for
    one serve the other.
    """
    blueprint = _blueprint(*_identity(factory), target_dim, condition_dim)
    with jax.enable_x64(False):
        return blueprint(jax.random.split(key, num))


def _identity(
    factory: Callable[..., Any],
) -> tuple[Callable[..., Any], tuple[tuple[str, Any], ...]]:
    if isinstance(factory, functools.partial) and not factory.args:
        return factory.func, tuple(sorted(factory.keywords.items()))
    return factory, ()


@functools.lru_cache(maxsize=64)
def _blueprint(
    factory: Callable[..., Any],
    settings: tuple[tuple[str, Any], ...],
    target_dim: int,
    condition_dim: int,
) -> Callable[[Array], Any]:
    build = functools.partial(factory, **dict(settings))
    with jax.enable_x64(False):
        made = eqx.filter_eval_shape(build, jax.random.key(0), target_dim, condition_dim)
        if any(map(callable, jax.tree.leaves(made))):
            # functions may hold arrays, as those of flowjax do, which must be real ones
            made = build(jax.random.key(0), target_dim, condition_dim)
    leaves, structure = jax.tree.flatten(made)
    is_array = [eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves]

    @jit_fast_compile
    def arrays(keys: Array) -> list[Array]:
        def one(key: Array) -> list[Array]:
            return [
                leaf
                for leaf in jax.tree.leaves(build(key, target_dim, condition_dim))
                if eqx.is_array(leaf)
            ]

        return jax.vmap(one)(keys)

    def members(keys: Array) -> Any:
        made = iter(arrays(keys))
        filled = [next(made) if kept else leaf for kept, leaf in zip(is_array, leaves, strict=True)]
        return jax.tree.unflatten(structure, filled)

    return members


def stacked(trees: Any) -> Any:
    """Trees of equal structure as one whose arrays have a leading axis, for training side by side."""
    with jax.enable_x64(True):
        join = lambda *leaves: jnp.stack(leaves) if eqx.is_array_like(leaves[0]) else leaves[0]  # noqa: E731
        return jax.tree.map(join, *trees)


def unstacked(tree: Any, num: int) -> list[Any]:
    """The inverse of `stacked`."""
    return [
        jax.tree.map(lambda leaf, i=i: leaf[i] if eqx.is_array(leaf) else leaf, tree)
        for i in range(num)
    ]
