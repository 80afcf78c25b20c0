"""theta ~ pi: named numpyro distributions as one flat array, and the same array in unconstrained
coordinates.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import (
    Array,
    as_float64,
    as_key,
    as_vectors,
    describe,
    in_float64,
    integer,
    is_traced,
    stage_key,
)
from noisewise._core.files import reading
from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.priors.distributions import as_law, check_mapping, kind, update
from noisewise.priors.files import from_spec as law_from_spec
from noisewise.priors.files import to_spec as law_to_spec
from noisewise.priors.supports import bijection, contains, interior


@dataclasses.dataclass(frozen=True)
class _Site:
    """Where one named distribution lives in theta and in z."""

    name: str
    shape: tuple[int, ...]
    free_shape: tuple[int, ...]

    @property
    def names(self) -> Iterator[str]:
        if not self.shape:
            return iter((self.name,))
        places = itertools.product(*(range(length) for length in self.shape))
        return (f"{self.name}[{','.join(map(str, place))}]" for place in places)


_Sites = tuple[_Site, ...]
_Laws = tuple[dist.Distribution, ...]


class Prior:
    r"""The law of theta: a mapping from names to numpyro distributions, independent of each other.

    theta (..., d) holds the entries of every distribution in the order given, `names` says which; z
    (..., `unconstrained_dim`) are unconstrained coordinates of the same point, and
    `log_prob_unconstrained` is the density of z,

        log pi(constrain(z)) + log |d theta / d z|,

    taken over the free coordinates where the support has equalities (a Dirichlet of size J: J
    columns of theta, J-1 of z). A distribution with batch axes stands for independent entries, with
    or without `.to_event`.

    Computation is in float64, from the parameters numpyro keeps; those that it derives when a
    distribution is built (a Cholesky factor, the logarithms of LogUniform's bounds) have float32
    precision unless built under `jax.enable_x64(True)`. Under JAX transformations the methods
    return tracers; draws, and gradients through matrix supports, then need the caller's own
    `jax.enable_x64(True)`.

    >>> import jax, numpyro.distributions as dist
    >>> prior = Prior({"beta": dist.Normal(0, 1).expand([2]), "p": dist.Dirichlet(np.ones(3))})
    >>> prior.names
    ('beta[0]', 'beta[1]', 'p[0]', 'p[1]', 'p[2]')
    >>> theta = prior.sample(jax.random.key(0), 100)
    >>> theta.shape, prior.unconstrain(theta).shape, prior.log_prob(theta).shape
    ((100, 5), (100, 4), (100,))
    >>> prior.log_prob([[0.0, 0.0, 0.2, 0.3, 0.5], [0.0, 0.0, 0.2, 0.3, 0.6]]).round(6).tolist()
    [-1.14473, -inf]
    """

    def __init__(self, distributions: Mapping[str, dist.Distribution]) -> None:
        checked = check_mapping(distributions)
        with jax.enable_x64(True):
            self._laws: _Laws = tuple(as_law(name, value) for name, value in checked.items())
            self._sites: _Sites = tuple(
                _site(name, law) for name, law in zip(checked, self._laws, strict=True)
            )
        self.names: tuple[str, ...] = tuple(
            itertools.chain.from_iterable(site.names for site in self._sites)
        )
        """One name per column of theta."""
        self.dim: int = len(self.names)
        """The number of columns of theta."""
        self.unconstrained_dim: int = sum(math.prod(site.free_shape) for site in self._sites)
        """The number of columns of z."""

    @property
    def distributions(self) -> Mapping[str, dist.Distribution]:
        """The distributions in float64, their batch axes made part of the event."""
        return MappingProxyType(
            {site.name: law for site, law in zip(self._sites, self._laws, strict=True)}
        )

    @in_float64
    def sample(self, key: Array, num: int) -> Array:
        """`num` draws, (num, d), with finite `log_prob`: one that underflows to an edge of the
        support is moved inside.

        In place of zero that is 2.2e-308, the smallest positive normal number (Gamma(.01) falls
        below it once in 1,200 draws). Draw i depends on the key and i alone, not on `num`, and one
        program serves every `num`.
        """
        num = integer("num", at_least=1)(num)
        key = stage_key(as_key(key), "prior")
        rows = _rows(self.dim)
        block = functools.partial(_sample, self._sites, self._laws, key, rows)
        numbers = np.arange(-(-num // rows))
        if is_traced(key):
            return jax.lax.map(block, numbers).reshape(-1, self.dim)[:num]
        return np.concatenate([np.asarray(block(number)) for number in numbers])[:num]

    @in_float64
    def log_prob(self, theta: Array) -> Array:
        """The log density of theta, (...): -inf off the support, for NaN, and on an edge where the
        density is infinite.

        A simplex counts as such if its entries add up to one within 1e-6.
        """
        return _log_prob(self._sites, self._laws, as_vectors(theta, "theta", self.dim))

    @in_float64
    def support_contains(self, theta: Array) -> Array:
        """Whether theta lies in the support, (...)."""
        return _contains(self._sites, self._laws, as_vectors(theta, "theta", self.dim))

    @in_float64
    def unconstrain(self, theta: Array) -> Array:
        """The z with constrain(z) = theta, (..., `unconstrained_dim`).

        A distribution whose entries are off its support gives NaN.
        """
        return _unconstrain(self._sites, self._laws, as_vectors(theta, "theta", self.dim))

    @in_float64
    def constrain(self, z: Array) -> Array:
        """The theta of unconstrained coordinates, never on the edge of the support."""
        return _constrain(self._sites, self._laws, as_vectors(z, "z", self.unconstrained_dim))

    @in_float64
    def log_prob_unconstrained(self, z: Array) -> Array:
        """The log density of z: log pi(constrain(z)) + log |d theta / d z|."""
        return _log_prob_unconstrained(
            self._sites, self._laws, as_vectors(z, "z", self.unconstrained_dim)
        )

    @in_float64
    def as_dict(self, theta: Array) -> dict[str, Array]:
        """The entries of theta by name, in the order given, each shaped as its distribution after
        the leading axes.
        """
        theta = as_vectors(theta, "theta", self.dim)
        blocks = _blocks(theta, [site.shape for site in self._sites])
        return {site.name: block for site, block in zip(self._sites, blocks, strict=True)}

    @in_float64
    def from_dict(self, values: Mapping[str, Array]) -> Array:
        """The inverse of `as_dict`; leading axes broadcast."""
        expected = [site.name for site in self._sites]
        if not isinstance(values, Mapping) or set(values) != set(expected):
            got = sorted(map(str, values)) if isinstance(values, Mapping) else describe(values)
            raise InvalidInputError(f"Expected a mapping with the names {expected}, got {got}.")
        blocks = [as_float64(values[site.name], site.name) for site in self._sites]
        for site, block in zip(self._sites, blocks, strict=True):
            if block.shape[block.ndim - len(site.shape) :] != site.shape or block.ndim < len(
                site.shape
            ):
                raise InvalidInputError(
                    f"{site.name} must have shape (..., {site.shape}), got {block.shape}."
                )
        return _join(blocks, [len(site.shape) for site in self._sites])

    def fingerprint(self) -> str:
        """sha256 of names, kinds and parameters: equal for equal priors, in any process.

        >>> Prior({"rate": dist.Gamma(2.0, 1.0)}).fingerprint()[:8]
        '910253be'
        """
        digest = hashlib.sha256()
        for site, law in zip(self._sites, self._laws, strict=True):
            digest.update(repr((site.name, site.shape, site.free_shape)).encode())
            update(digest, law)
        return digest.hexdigest()

    def to_spec(self) -> dict[str, Any]:
        """A JSON-ready description; `from_spec` reads it back to the last bit."""
        return {
            site.name: law_to_spec(law) for site, law in zip(self._sites, self._laws, strict=True)
        }

    @staticmethod
    def from_spec(spec: Any) -> Prior:
        """Read what `to_spec` wrote; whatever else is a `FileFormatError`.

        >>> prior = Prior({"rate": dist.Gamma(2.0, 1.0), "p": dist.Dirichlet(np.ones(3))})
        >>> Prior.from_spec(prior.to_spec()) == prior
        True
        """
        with reading("The prior"), jax.enable_x64(True):
            if not isinstance(spec, dict):
                raise FileFormatError("it must be an object.")
            return Prior({name: law_from_spec(law) for name, law in spec.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prior) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        pairs = zip(self._sites, self._laws, strict=True)
        parts = (f"{site.name}: {kind(law)}{list(site.shape) or ''}" for site, law in pairs)
        return f"Prior({', '.join(parts)})"


def _site(name: str, law: dist.Distribution) -> _Site:
    shape, free_shape = (
        tuple(law.event_shape),
        tuple(bijection(law.support).inverse_shape(law.event_shape)),
    )
    if 0 in shape or 0 in free_shape:
        raise InvalidInputError(
            f"The prior of {name!r}, {kind(law)} of shape {shape}, is a constant: leave it out."
        )
    return _Site(name, shape, free_shape)


# Flat arrays <-> blocks ---------------------------------------------------------------------------


def _blocks(flat: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = jnp.split(flat, ends, axis=-1)
    return [
        part.reshape(*flat.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True)
    ]


def _join(blocks: list[Array], event_dims: list[int]) -> Array:
    leading = [
        block.shape[: block.ndim - dims] for block, dims in zip(blocks, event_dims, strict=True)
    ]
    batch = jnp.broadcast_shapes(*leading)
    flat = [block.reshape(*lead, -1) for block, lead in zip(blocks, leading, strict=True)]
    return jnp.concatenate(
        [jnp.broadcast_to(block, (*batch, block.shape[-1])) for block in flat], axis=-1
    )


def _constrained(
    sites: _Sites, laws: _Laws, theta: Array
) -> Iterator[tuple[dist.Distribution, Array]]:
    return zip(laws, _blocks(theta, [site.shape for site in sites]), strict=True)


def _free(sites: _Sites, laws: _Laws, z: Array) -> Iterator[tuple[dist.Distribution, Array]]:
    return zip(laws, _blocks(z, [site.free_shape for site in sites]), strict=True)


# Compiled programs: one per structure of the prior and shape of the argument ----------------------


def _rows(dim: int) -> int:
    """How many draws one program makes: 1024, fewer where theta is long (8 MiB in all)."""
    return 2 ** min(10, max(0, 20 - (dim - 1).bit_length()))


@jit_fast_compile(static_argnums=(0, 3))
def _sample(sites: _Sites, laws: _Laws, key: Array, rows: int, block: Array) -> Array:
    keys = jax.random.split(jax.random.fold_in(key, block), len(laws))
    draws = [
        interior(law.support, law.sample(k, (rows,))) for law, k in zip(laws, keys, strict=True)
    ]
    return _join(draws, [len(site.shape) for site in sites])


@jit_fast_compile(static_argnums=0)
def _log_prob(sites: _Sites, laws: _Laws, theta: Array) -> Array:
    return _finite_or_off(
        sum(_site_log_prob(law, block) for law, block in _constrained(sites, laws, theta))
    )


def _site_log_prob(law: dist.Distribution, x: Array) -> Array:
    """log_prob with points off the support replaced before the formula sees them, so that gradients
    stay finite.
    """
    inside = contains(law.support, x)
    centre = bijection(law.support)(
        jnp.zeros(bijection(law.support).inverse_shape(law.event_shape))
    )
    safe = jnp.where(inside.reshape(inside.shape + (1,) * len(law.event_shape)), x, centre)
    return jnp.where(inside, law.log_prob(safe), -jnp.inf)


def _finite_or_off(value: Array) -> Array:
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


@jit_fast_compile(static_argnums=0)
def _contains(sites: _Sites, laws: _Laws, theta: Array) -> Array:
    return functools.reduce(
        jnp.logical_and, (contains(law.support, x) for law, x in _constrained(sites, laws, theta))
    )


@jit_fast_compile(static_argnums=0)
def _unconstrain(sites: _Sites, laws: _Laws, theta: Array) -> Array:
    free = []
    for law, x in _constrained(sites, laws, theta):
        inside = contains(law.support, x)
        z = bijection(law.support).inv(interior(law.support, x))
        free.append(
            jnp.where(inside.reshape(inside.shape + (1,) * (z.ndim - inside.ndim)), z, jnp.nan)
        )
    return _join(free, [len(site.free_shape) for site in sites])


@jit_fast_compile(static_argnums=0)
def _constrain(sites: _Sites, laws: _Laws, z: Array) -> Array:
    blocks = [
        interior(law.support, bijection(law.support)(block)) for law, block in _free(sites, laws, z)
    ]
    return _join(blocks, [len(site.shape) for site in sites])


@jit_fast_compile(static_argnums=0)
def _log_prob_unconstrained(sites: _Sites, laws: _Laws, z: Array) -> Array:
    total = jnp.zeros(z.shape[:-1])
    for law, block in _free(sites, laws, z):
        onto = bijection(law.support)
        x = onto(block)
        total = (
            total
            + _site_log_prob(law, interior(law.support, x))
            + onto.log_abs_det_jacobian(block, x)
        )
    return _finite_or_off(total)
