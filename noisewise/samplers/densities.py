"""Unnormalised densities as arguments of compiled programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, describe, placed
from noisewise.errors import InvalidInputError, InvalidTypeError

LogDensity = Callable[[Array], Array]
"""z (d,) -> log of an unnormalised density, a float64 scalar, written with jax.numpy."""

_BLOCK = 1024
"""Points evaluated at a time: one program serves every number of them."""


def log_densities(
    log_density: LogDensity, z: Float[np.ndarray, "n d"], *others: LogDensity
) -> Float[np.ndarray, "*m n"]:
    """The log density at each row of z, NaN as -inf, shape (n,); with m - 1 `others` (m, n). One
    program serves every n.
    """
    with jax.enable_x64(True):
        targets = [as_pytree(density) for density in (log_density, *others)]
        padded = np.concatenate([z, np.broadcast_to(z[-1:], (-len(z) % _BLOCK, z.shape[1]))])
        blocks = padded.reshape(-1, _BLOCK, z.shape[1])
        values = [np.asarray(_evaluate(targets, block)) for block in blocks]
    found = np.concatenate(values, axis=1)[:, : len(z)]
    return found if others else found[0]


def as_pytree(log_density: Any) -> Any:
    """The same callable with numbers and NumPy arrays as JAX arrays, so that their values are
    arguments, not constants.
    """
    if not callable(log_density):
        raise InvalidTypeError(
            "log_density must be a function z (d,) -> log density, or a module that can be called,"
            f" got {describe(log_density)}."
        )
    return jax.tree.map(
        lambda leaf: (
            placed(np.asarray(leaf)) if isinstance(leaf, (float, np.ndarray, np.generic)) else leaf
        ),
        log_density,
    )


def as_points(points: Any, name: str) -> np.ndarray:
    """Finite points (C, d) in float64."""
    cloud = np.asarray(points, dtype=np.float64)
    if cloud.ndim != 2 or 0 in cloud.shape or not np.isfinite(cloud).all():
        raise InvalidInputError(
            f"{name} must be finite points (C, d), one row each, got {describe(points)}."
        )
    return cloud


def value_or_nothing(log_density: LogDensity, z: Array) -> Array:
    """The log density at z (d,), -inf where it is NaN; for use inside compiled programs."""
    value = jnp.asarray(log_density(z), jnp.float64)
    if value.shape != ():
        raise InvalidInputError(
            f"log_density(z) must be a single number for z (d,), got shape {value.shape}."
        )
    return jnp.where(jnp.isnan(value), -jnp.inf, value)


@filter_jit_fast_compile
def _evaluate(log_densities: list[LogDensity], z: Array) -> Array:
    """Shape (m, n)."""
    each = [jax.vmap(functools.partial(value_or_nothing, fn))(z) for fn in log_densities]
    return jnp.stack(each)
