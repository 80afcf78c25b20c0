"""Which coordinates are effects around a location with a spread that depend on other parameters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from noisewise._core.arrays import Array
from noisewise.priors.dependent import DependentLaw
from noisewise.priors.prior import Prior

_AROUND = (dist.Normal, dist.LogNormal, dist.Cauchy, dist.Laplace, dist.Gumbel)
"""Laws of loc + scale x on unconstrained coordinates, x of one law."""


@dataclasses.dataclass(frozen=True)
class Effects:
    """Unconstrained coordinates e_j = loc_j + scale_j x_j, loc and scale functions of others.

    Attributes:
        name: Their name in the prior.
        columns: Which columns of z they are.
        law: z (p,) -> (loc, scale).
        increments: Whether the steps from one to the next are, as in a random walk.
        log_density: The log density of x, elementwise.
    """

    name: str
    columns: tuple[int, ...]
    law: Callable[[Array], tuple[Array, Array]]
    increments: bool
    log_density: Callable[[Array], Array]


@functools.lru_cache(maxsize=64)
def effects_of(prior: Prior) -> tuple[Effects, ...]:
    """The effects of a prior: normal, log-normal, Student t, Cauchy, Laplace and Gumbel laws and
    normal random walks whose parameters depend on other names. The same objects are returned for
    the same prior, so that programs made of them are compiled once.

    >>> prior = Prior(
    ...     {"mu": dist.Normal(0, 1), "e": lambda mu: dist.Normal(mu, 1).expand([2])}
    ... )
    >>> [(effects.name, effects.columns) for effects in effects_of(prior)]
    [('e', (1, 2))]
    """
    found, start = [], 0
    for site, law in zip(prior.sites, prior.distributions.values(), strict=True):
        size = int(np.prod(site.free_shape))
        if isinstance(law, DependentLaw):
            columns = tuple(range(start, start + size))
            kind = _kind_of(prior, law)
            if kind is not None and len(columns) > 0:
                found.append(Effects(law.name, columns, _LocationScale(prior, law), *kind))
        start += size
    return tuple(found)


@dataclasses.dataclass(frozen=True, eq=False)
class _LocationScale:
    """loc and scale of the law of one name, from the coordinates of all; more may follow these."""

    prior: Prior
    law: DependentLaw

    def __call__(self, z: Array) -> tuple[Array, Array]:
        own = z[: self.prior.unconstrained_dim]
        there = self.law.given(self.prior.as_dict(self.prior.constrain(own)))
        shape = there.event_shape
        base = _base(there)
        if isinstance(base, dist.GaussianRandomWalk):
            return jnp.zeros(()), jnp.asarray(base.scale)
        parts = (base.loc, base.scale)
        loc, scale = (jnp.broadcast_to(part, shape).reshape(-1) for part in parts)
        return loc, scale


def _kind_of(prior: Prior, law: DependentLaw) -> tuple[bool, Callable[[Array], Array]] | None:
    """Whether the law is a random walk, and the log density of its standardised law; None where it
    is no law of location and scale.
    """
    with jax.enable_x64(True):
        centre = prior.as_dict(prior.constrain(np.zeros(prior.unconstrained_dim)))
        base = _base(law.given({name: jnp.asarray(value) for name, value in centre.items()}))
    if isinstance(base, dist.GaussianRandomWalk):
        return (True, _normal) if base.event_shape and not base.batch_shape else None
    if isinstance(base, dist.StudentT):
        freedom = np.asarray(base.df)
        return (False, _Standard(dist.StudentT(freedom.flat[0]))) if np.ptp(freedom) == 0 else None
    if not isinstance(base, _AROUND):
        return None
    if isinstance(base, (dist.Normal, dist.LogNormal)):
        return False, _normal
    return False, _Standard(type(base)(0.0, 1.0))


def _normal(x: Array) -> Array:
    return -0.5 * x**2 - 0.5 * np.log(2.0 * np.pi)


@dataclasses.dataclass(frozen=True, eq=False)
class _Standard:
    """The log density of a law, elementwise."""

    law: dist.Distribution

    def __call__(self, x: Array) -> Array:
        value: Array = self.law.log_prob(x)
        return value


def _base(law: Any) -> Any:
    """The law without the wrappers that give it shapes."""
    while isinstance(law, (dist.Independent, dist.ExpandedDistribution)):
        law = law.base_dist
    return law
