"""theta and z as flat arrays: which columns belong to which distribution, and the compiled programs
that draw, weigh and map them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Bool, Float, Int

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array, as_float64, describe, is_traced
from noisewise.errors import InvalidInputError
from noisewise.priors.dependent import DependentLaw, Law
from noisewise.priors.distributions import kind
from noisewise.priors.supports import bijection, bounds, contains, interior


@dataclasses.dataclass(frozen=True)
class Site:
    """The place of one named distribution in theta and in z.

    Attributes:
        name: The name of the distribution.
        shape: The shape of its entries in theta.
        free_shape: The shape of its unconstrained coordinates in z.
        bounded: Whether those are the logits of places between two ends.
    """

    name: str
    shape: tuple[int, ...]
    free_shape: tuple[int, ...]
    bounded: bool


_LOG2_ROWS = 10
"""One program draws up to 2^10 rows: few enough to cost nothing where one draw is asked for."""
_MAX_BLOCK = 2**20
"""Numbers in the draws of one program, 8 MiB, where theta is long."""

Sites = tuple[Site, ...]
Laws = tuple[Law, ...]


def site_of(name: str, law: dist.Distribution) -> Site:
    """The place of a distribution, or of an example of a dependent one; one without free
    coordinates is refused.
    """
    shape = tuple(law.event_shape)
    free_shape = tuple(bijection(law.support).inverse_shape(law.event_shape))
    if 0 in shape or 0 in free_shape:
        raise InvalidInputError(
            f"The prior of {name!r}, {kind(law)} of shape {shape}, is a constant: leave it out."
        )
    bounded = all(end is not None for end in bounds(law.support))
    return Site(name, shape, free_shape, bounded)


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


def from_named(sites: Sites, values: Mapping[str, Any]) -> Float[Array, "*batch d"]:
    """theta from one array per name, whose leading axes broadcast.

    Raises:
        InvalidInputError: If the names or shapes are not those of the sites.
    """
    expected = [site.name for site in sites]
    if not isinstance(values, Mapping) or set(values) != set(expected):
        got = sorted(map(str, values)) if isinstance(values, Mapping) else describe(values)
        raise InvalidInputError(f"Expected a mapping with the names {expected}, got {got}.")
    parts = [as_float64(values[site.name], site.name) for site in sites]
    for site, part in zip(sites, parts, strict=True):
        size = len(site.shape)
        if part.ndim < size or part.shape[part.ndim - size :] != site.shape:
            raise InvalidInputError(
                f"{site.name} must have shape (..., {site.shape}), got {part.shape}."
            )
    return join(parts, [len(site.shape) for site in sites])


def _given(law: Law, values: Mapping[str, Array]) -> dist.Distribution:
    """The law at the values of the names before it."""
    return law.given(values) if isinstance(law, DependentLaw) else law


def by_rows(program: Callable[..., Array]) -> Callable[..., Array]:
    """Run a program of (sites, laws, rows (..., d)) row by row where a law depends on others; laws
    that do not serve all rows at once.
    """

    @functools.wraps(program)
    def run(sites: Sites, laws: Laws, rows: Array) -> Array:
        if not any(isinstance(law, DependentLaw) for law in laws):
            return program(sites, laws, rows)
        one = functools.partial(program, sites, laws)
        out = jax.vmap(one)(rows.reshape(-1, rows.shape[-1]))
        return out.reshape(*rows.shape[:-1], *out.shape[1:])

    return run


# Compiled programs: one per structure of the prior and shape of the argument ----------------------


def block_rows(dim: int) -> int:
    """The number of draws that one program makes: a power of two that depends on `dim` alone.

    >>> block_rows(1), block_rows(2**15)
    (1024, 32)
    """
    most = (_MAX_BLOCK // dim).bit_length() - 1
    return 2 ** min(_LOG2_ROWS, max(0, most))


def sample(sites: Sites, laws: Laws, key: Array, num: int) -> Float[Array, "num d"]:
    """Draws 0 to num - 1 of a key, block by block."""
    dim = sum(math.prod(site.shape) for site in sites)
    rows = block_rows(dim)
    block = functools.partial(sample_block, sites, laws, key, rows)
    numbers = np.arange(-(-num // rows))
    if is_traced(key):
        return jax.lax.map(block, numbers).reshape(-1, dim)[:num]
    return np.concatenate([np.asarray(block(number)) for number in numbers])[:num]


@jit_fast_compile(static_argnums=(0, 3))
def sample_block(
    sites: Sites, laws: Laws, key: Array, rows: int, block: int | Int[Array, ""]
) -> Float[Array, "rows d"]:
    """Draws block * rows to (block + 1) * rows - 1; they depend on key and block alone."""
    keys = jax.random.split(jax.random.fold_in(key, block), len(laws))
    values: dict[str, Array] = {}
    for site, law, k in zip(sites, laws, keys, strict=True):
        values[site.name] = _draws(law, k, rows, values)
    return join(list(values.values()), [len(site.shape) for site in sites])


def _draws(law: Law, key: Array, rows: int, values: Mapping[str, Array]) -> Array:
    """One draw for each row; those of a dependent law at that row of its parents."""
    if not isinstance(law, DependentLaw):
        return interior(law.support, law.sample(key, (rows,)))

    def one(key: Array, parents: dict[str, Array]) -> Array:
        there = law.given(parents)
        return interior(there.support, there.sample(key))

    parents = {name: values[name] for name in law.parents}
    return jax.vmap(one)(jax.random.split(key, rows), parents)


@jit_fast_compile(static_argnums=(0, 2))
def sample_rest(
    sites: Sites, laws: Laws, kept: frozenset[str], keys: Array, theta: Float[Array, "n m"]
) -> Float[Array, "n d"]:
    """All of theta where the names in `kept` have the given values, and the others are drawn given
    them; no name in `kept` depends on another one. Row i depends on its key and values alone.
    """
    shapes = [site.shape for site in sites if site.name in kept]

    def one(key: Array, row: Array) -> Array:
        given = iter(blocks(row, shapes))
        values: dict[str, Array] = {}
        for number, (site, law) in enumerate(zip(sites, laws, strict=True)):
            if site.name in kept:
                values[site.name] = next(given)
            else:
                there = _given(law, values)
                draw = there.sample(jax.random.fold_in(key, number))
                values[site.name] = interior(there.support, draw)
        return join(list(values.values()), [len(site.shape) for site in sites])

    return jax.vmap(one)(keys, theta)


@jit_fast_compile(static_argnums=0)
@by_rows
def log_prob(sites: Sites, laws: Laws, theta: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
    """The log density of theta; -inf where it is not finite."""
    return _finite_or_off(sum(density for _, density in _densities(sites, laws, theta)))


@jit_fast_compile(static_argnums=0)
@by_rows
def root_log_prob(
    sites: Sites, laws: Laws, theta: Float[Array, "*batch d"]
) -> Float[Array, "*batch"]:
    """The log density of the entries whose laws depend on no other."""
    parts = _densities(sites, laws, theta)
    return _finite_or_off(sum(value for law, value in parts if not isinstance(law, DependentLaw)))


def _densities(sites: Sites, laws: Laws, theta: Array) -> Iterator[tuple[Law, Array]]:
    """Each law with its log density; where an entry is off its support, its children see a point
    inside, so that gradients stay finite.
    """
    values: dict[str, Array] = {}
    shapes = [site.shape for site in sites]
    for site, law, x in zip(sites, laws, blocks(theta, shapes), strict=True):
        there = _given(law, values)
        inside, safe = _inside(there, x)
        values[site.name] = safe
        yield law, jnp.where(inside, there.log_prob(safe), -jnp.inf)


def _inside(law: dist.Distribution, x: Array) -> tuple[Array, Array]:
    """Whether each event lies in the support, and the events, those off it replaced by its
    centre.
    """
    inside, onto = contains(law.support, x), bijection(law.support)
    centre = onto(jnp.zeros(onto.inverse_shape(law.event_shape)))
    return inside, jnp.where(_beside(inside, len(law.event_shape)), x, centre)


def _beside(inside: Array, event_dims: int) -> Array:
    """One flag per event with axes of length one for those of the event."""
    return inside.reshape(inside.shape + (1,) * event_dims)


def _finite_or_off(value: Array) -> Array:
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


@jit_fast_compile(static_argnums=0)
@by_rows
def support_contains(
    sites: Sites, laws: Laws, theta: Float[Array, "*batch d"]
) -> Bool[Array, "*batch"]:
    """Whether theta lies in the support of every distribution."""
    values: dict[str, Array] = {}
    insides = []
    shapes = [site.shape for site in sites]
    for site, law, x in zip(sites, laws, blocks(theta, shapes), strict=True):
        inside, values[site.name] = _inside(_given(law, values), x)
        insides.append(inside)
    return functools.reduce(jnp.logical_and, insides)


@jit_fast_compile(static_argnums=0)
@by_rows
def unconstrain(
    sites: Sites, laws: Laws, theta: Float[Array, "*batch d"]
) -> Float[Array, "*batch p"]:
    """The unconstrained coordinates of theta; NaN for distributions off whose support it lies."""
    values: dict[str, Array] = {}
    free = []
    shapes = [site.shape for site in sites]
    for site, law, x in zip(sites, laws, blocks(theta, shapes), strict=True):
        there = _given(law, values)
        inside = contains(there.support, x)
        z = bijection(there.support).inv(interior(there.support, x))
        free.append(jnp.where(_beside(inside, z.ndim - inside.ndim), z, jnp.nan))
        values[site.name] = x
    return join(free, [len(site.free_shape) for site in sites])


@jit_fast_compile(static_argnums=0)
@by_rows
def constrain(sites: Sites, laws: Laws, z: Float[Array, "*batch p"]) -> Float[Array, "*batch d"]:
    """The theta of unconstrained coordinates, in the interior of the support."""
    values: dict[str, Array] = {}
    shapes = [site.free_shape for site in sites]
    for site, law, block in zip(sites, laws, blocks(z, shapes), strict=True):
        there = _given(law, values)
        values[site.name] = interior(there.support, bijection(there.support)(block))
    return join(list(values.values()), [len(site.shape) for site in sites])


@jit_fast_compile(static_argnums=0)
@by_rows
def log_prob_unconstrained(
    sites: Sites, laws: Laws, z: Float[Array, "*batch p"]
) -> Float[Array, "*batch"]:
    """The log density of z: log pi(theta) + log |d theta / d z| at theta = constrain(z).

    The map is triangular in blocks: each entry depends on its own coordinates and on entries before
    it, so that the Jacobians of the blocks add up.
    """
    values: dict[str, Array] = {}
    total = jnp.zeros(z.shape[:-1])
    shapes = [site.free_shape for site in sites]
    for site, law, block in zip(sites, laws, blocks(z, shapes), strict=True):
        there = _given(law, values)
        onto = bijection(there.support)
        x = onto(block)
        values[site.name] = interior(there.support, x)
        inside, safe = _inside(there, values[site.name])
        density = jnp.where(inside, there.log_prob(safe), -jnp.inf)
        total = total + density + onto.log_abs_det_jacobian(block, x)
    return _finite_or_off(total)
