"""Random numbers in float64 from 32-bit ones: 64-bit ones do not compile in a caller's program
whose JAX flag is off, as numpyro's users mostly have it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array


def uniform(key: Array, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Uniforms in (0, 1), odd multiples of 2^-53.

    >>> with jax.enable_x64(True):
    ...     u = uniform(jax.random.key(0), (1000,))
    ...     bool(((u > 0.0) & (u < 1.0)).all()), abs(u.mean() - 0.5).item() < 0.05
    (True, True)
    """
    high, low = jax.random.bits(key, (2, *shape), np.uint32).astype(np.float64)
    return (high * 2.0**20 + jnp.floor(low * 2.0**-12) + 0.5) * 2.0**-52


def gumbel(key: Array, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Draws of Gumbel's law: the largest of log p + gumbel has the probabilities p."""
    return -jnp.log(-jnp.log(uniform(key, shape)))


def normal(key: Array, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Standard normal draws."""
    return ndtri(uniform(key, shape))


def bernoulli(key: Array, p: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether something of these probabilities happens."""
    return uniform(key, p.shape) < p
