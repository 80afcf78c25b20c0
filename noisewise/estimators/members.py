"""Several networks of one architecture at once: their arrays have a leading axis, and nothing else
differs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array
from noisewise._core.keys import is_plain, split, split_array
from noisewise.estimators._columns import stacked_trees


class Estimator(Protocol):
    """q(target | condition), or an ensemble: one whose arrays have a leading axis."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one target, (d,)."""

    @property
    def cond_shape(self) -> tuple[int, ...] | None:
        """The shape of one condition, (w,); None for an unconditional law."""

    def log_prob(self, x: Any, condition: Any = None) -> Array:
        """log q(x | condition)."""

    def sample(
        self, key: Array, sample_shape: tuple[int, ...] = (), condition: Any = None
    ) -> Array:
        """Draws given a condition."""


Factory = Callable[..., Estimator]
"""(key, target_dim, condition_dim) -> an estimator with its initial weights."""


def ensemble(
    key: Array, factory: Factory, num: int, target_dim: int, condition_dim: int
) -> Estimator:
    """Estimators of one architecture with independent initial weights, stacked into one
    distribution with a leading axis of length `num`.

    Two ensembles of one architecture differ in their arrays alone, so that programs compiled for
    one serve the other.

    Args:
        key: JAX PRNG key of the initial weights.
        factory: Makes one estimator: (key, target_dim, condition_dim) -> distribution.
        num: The number of estimators.
        target_dim: d, columns of a target.
        condition_dim: w, columns of a condition; 0 for an unconditional law.

    Returns:
        The ensemble, for `train` and `ConditionalDensity`.
    """
    made_of, settings = _identity(factory)
    if getattr(made_of, "drawn_by_numpy", False) and is_plain(key):
        build = functools.partial(made_of, **dict(settings))
        return stacked_trees([build(each, target_dim, condition_dim) for each in split(key, num)])
    blueprint = _blueprint(made_of, settings, target_dim, condition_dim)
    with jax.enable_x64(False):
        return blueprint(split_array(key, num))


def _identity(
    factory: Callable[..., Any],
) -> tuple[Callable[..., Any], tuple[tuple[str, Any], ...]]:
    """What two factories share that make the same architecture."""
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
    """keys -> an ensemble, by a program compiled once for each architecture."""
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
    """Trees of equal structure as one tree whose arrays have a leading axis, for training them side
    by side.
    """

    def join(*leaves: Any) -> Any:
        return jnp.stack(leaves) if eqx.is_array_like(leaves[0]) else leaves[0]

    with jax.enable_x64(True):
        return jax.tree.map(join, *trees)


def unstacked(tree: Any, num: int) -> list[Any]:
    """The inverse of `stacked`."""
    return [
        jax.tree.map(lambda leaf, i=i: leaf[i] if eqx.is_array(leaf) else leaf, tree)
        for i in range(num)
    ]
