"""theta and z as flat arrays: which columns belong to which distribution, and the compiled programs
that draw, weigh and map them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Bool, Float, Int

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError
from noisewise.priors.distributions import kind
from noisewise.priors.supports import bijection, contains, interior


@dataclasses.dataclass(frozen=True)
class Site:
    """The place of one named distribution in theta and in z.

    Attributes:
        name: The name of the distribution.
        shape: The shape of its entries in theta.
        free_shape: The shape of its unconstrained coordinates in z.
    """

    name: str
    shape: tuple[int, ...]
    free_shape: tuple[int, ...]

    @property
    def names(self) -> Iterator[str]:
        """One name per entry, such as "beta[0,1]"."""
        if not self.shape:
            return iter((self.name,))
        places = itertools.product(*(range(length) for length in self.shape))
        return (f"{self.name}[{','.join(map(str, place))}]" for place in places)


_LOG2_ROWS = 10
"""One program draws up to 2^10 rows: few enough to cost nothing where one draw is asked for."""
_MAX_BLOCK = 2**20
"""Numbers in the draws of one program, 8 MiB, where theta is long."""

Sites = tuple[Site, ...]
Laws = tuple[dist.Distribution, ...]


def site_of(name: str, law: dist.Distribution) -> Site:
    """The place of a distribution; one without free coordinates is refused."""
    shape = tuple(law.event_shape)
    free_shape = tuple(bijection(law.support).inverse_shape(law.event_shape))
    if 0 in shape or 0 in free_shape:
        raise InvalidInputError(
            f"The prior of {name!r}, {kind(law)} of shape {shape}, is a constant: leave it out."
        )
    return Site(name, shape, free_shape)


# Flat arrays <-> blocks ---------------------------------------------------------------------------


def blocks(flat: Float[Array, "*batch d"], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The columns of a flat array as one array per shape, after the leading axes.

    >>> [block.shape for block in blocks(jnp.zeros((5, 7)), [(2, 3), ()])]
    [(5, 2, 3), (5,)]
    """
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = jnp.split(flat, ends, axis=-1)
    return [
        part.reshape(*flat.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True)
    ]


def join(parts: Sequence[Array], event_dims: Sequence[int]) -> Float[Array, "*batch d"]:
    """The inverse of `blocks`: leading axes broadcast, the last `event_dims` of each part are
    flattened.
    """
    leading = [part.shape[: part.ndim - dims] for part, dims in zip(parts, event_dims, strict=True)]
    batch = jnp.broadcast_shapes(*leading)
    flat = [part.reshape(*lead, -1) for part, lead in zip(parts, leading, strict=True)]
    return jnp.concatenate(
        [jnp.broadcast_to(block, (*batch, block.shape[-1])) for block in flat], axis=-1
    )


def _entries(sites: Sites, laws: Laws, theta: Array) -> Iterator[tuple[dist.Distribution, Array]]:
    return zip(laws, blocks(theta, [site.shape for site in sites]), strict=True)


def _free(sites: Sites, laws: Laws, z: Array) -> Iterator[tuple[dist.Distribution, Array]]:
    return zip(laws, blocks(z, [site.free_shape for site in sites]), strict=True)


# Compiled programs: one per structure of the prior and shape of the argument ----------------------


def block_rows(dim: int) -> int:
    """The number of draws that one program makes: a power of two that depends on `dim` alone.

    >>> block_rows(1), block_rows(2**15)
    (1024, 32)
    """
    most = (_MAX_BLOCK // dim).bit_length() - 1
    return 2 ** min(_LOG2_ROWS, max(0, most))


@jit_fast_compile(static_argnums=(0, 3))
def sample_block(
    sites: Sites, laws: Laws, key: Array, rows: int, block: int | Int[Array, ""]
) -> Float[Array, "rows d"]:
    """Draws block * rows to (block + 1) * rows - 1; they depend on key and block alone."""
    keys = jax.random.split(jax.random.fold_in(key, block), len(laws))
    draws = [
        interior(law.support, law.sample(k, (rows,))) for law, k in zip(laws, keys, strict=True)
    ]
    return join(draws, [len(site.shape) for site in sites])


@jit_fast_compile(static_argnums=0)
def log_prob(sites: Sites, laws: Laws, theta: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
    """The log density of theta; -inf where it is not finite."""
    return _finite_or_off(
        sum(_site_log_prob(law, block) for law, block in _entries(sites, laws, theta))
    )


def _site_log_prob(law: dist.Distribution, x: Array) -> Array:
    """log_prob with points off the support replaced before the formula sees them, so that gradients
    stay finite.
    """
    inside, onto = contains(law.support, x), bijection(law.support)
    centre = onto(jnp.zeros(onto.inverse_shape(law.event_shape)))
    safe = jnp.where(inside.reshape(inside.shape + (1,) * len(law.event_shape)), x, centre)
    return jnp.where(inside, law.log_prob(safe), -jnp.inf)


def _finite_or_off(value: Array) -> Array:
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


@jit_fast_compile(static_argnums=0)
def support_contains(
    sites: Sites, laws: Laws, theta: Float[Array, "*batch d"]
) -> Bool[Array, "*batch"]:
    """Whether theta lies in the support of every distribution."""
    return functools.reduce(
        jnp.logical_and, (contains(law.support, x) for law, x in _entries(sites, laws, theta))
    )


@jit_fast_compile(static_argnums=0)
def unconstrain(
    sites: Sites, laws: Laws, theta: Float[Array, "*batch d"]
) -> Float[Array, "*batch p"]:
    """The unconstrained coordinates of theta; NaN for distributions off whose support it lies."""
    free = []
    for law, x in _entries(sites, laws, theta):
        inside = contains(law.support, x)
        z = bijection(law.support).inv(interior(law.support, x))
        free.append(
            jnp.where(inside.reshape(inside.shape + (1,) * (z.ndim - inside.ndim)), z, jnp.nan)
        )
    return join(free, [len(site.free_shape) for site in sites])


@jit_fast_compile(static_argnums=0)
def constrain(sites: Sites, laws: Laws, z: Float[Array, "*batch p"]) -> Float[Array, "*batch d"]:
    """The theta of unconstrained coordinates, in the interior of the support."""
    parts = [
        interior(law.support, bijection(law.support)(block)) for law, block in _free(sites, laws, z)
    ]
    return join(parts, [len(site.shape) for site in sites])


@jit_fast_compile(static_argnums=0)
def log_prob_unconstrained(
    sites: Sites, laws: Laws, z: Float[Array, "*batch p"]
) -> Float[Array, "*batch"]:
    """The log density of z: log pi(theta) + log |d theta / d z| at theta = constrain(z)."""
    total = jnp.zeros(z.shape[:-1])
    for law, block in _free(sites, laws, z):
        onto = bijection(law.support)
        x = onto(block)
        density = _site_log_prob(law, interior(law.support, x))
        total = total + density + onto.log_abs_det_jacobian(block, x)
    return _finite_or_off(total)
