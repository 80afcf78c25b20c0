r"""A prior in coordinates in which random walks move well: each effect centred by its own share.

    w_j = c_j m + (e_j - m) tau^(c_j - 1),    1 - c_j = Var(e_j | m, tau, s_dp) / tau^2

The variance is that of weighted draws, among the half of them whose spreads lie nearest their
median, about its regression on m. Any shares leave the law as it is; good ones make steps long.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.few_sizes import with_few_sizes
from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array
from noisewise._core.weights import effective_size
from noisewise.inference.contract.effects import blocks_of
from noisewise.priors.prior import Prior
from noisewise.samplers.densities import as_pytree
from noisewise.samplers.hierarchies.centring import Centred, LocationScale

_FEWEST = 40
"""Effective draws below which a variance given others says nothing: shares are 1/2 then."""


class _LogPrior(eqx.Module):
    """z -> log prior(z), Jacobian included."""

    prior: Prior = eqx.field(static=True)

    def __call__(self, z: Float[Array, " p"]) -> Float[Array, ""]:
        return self.prior.log_prob_unconstrained(z)


@dataclasses.dataclass(frozen=True)
class CentredPrior:
    """The prior's coordinates w, which are its unconstrained ones where there are no effects.

    Args:
        prior: The prior.
        shares: The share of each effect, block by block.
    """

    prior: Prior
    shares: tuple[Float[np.ndarray, " n"], ...] = ()

    def from_z(self, z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Rows of unconstrained coordinates in these."""
        return self._rows(_from_z, z) if self.shares else z

    def constrain(self, w: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n d"]:
        """theta of rows."""
        return np.asarray(self.prior.constrain(self._rows(_to_z, w) if self.shares else w))

    def log_prob(self, w: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """The log density of w, Jacobian included."""
        if not self.shares:
            return np.asarray(self.prior.log_prob_unconstrained(w))
        return self._rows(_log_density, w)

    def _rows(self, call: object, rows: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            centred = as_pytree(Centred(_LogPrior(self.prior), blocks_of(self.prior), self.shares))
            compiled = lambda part: call(centred, jnp.asarray(part))  # type: ignore[operator]  # noqa: E731
            return np.asarray(with_few_sizes(compiled, rows))


def centred_prior(
    prior: Prior, z: Float[np.ndarray, "n p"], weights: Float[np.ndarray, " n"]
) -> CentredPrior:
    """The prior with the shares that weighted draws of the posterior show.

    Args:
        prior: The prior.
        z: Unconstrained draws, shape (n, p).
        weights: Their normalised weights, shape (n,).

    >>> import numpyro.distributions as dist
    >>> prior = Prior({"mu": dist.Normal(0, 1), "e": lambda mu: dist.Normal(mu, 1).expand([2])})
    >>> z = np.array(prior.unconstrain(prior.sample(jax.random.key(0), 4000)))
    >>> z[:, 2] = 0.5 + 0.1 * (z[:, 2] - z[:, 0])  # known to .1
    >>> centred_prior(prior, z, np.full(4000, 1 / 4000)).shares[0].round(2).tolist()
    [0.0, 0.99]
    """
    blocks = blocks_of(prior)
    found = tuple(_shares(block, *_at(block, z), weights) for block in blocks)
    return CentredPrior(prior, found)


def _at(block: LocationScale, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Effects, loc and scale at each draw, (n, num) each."""
    with jax.enable_x64(True):
        loc, scale = with_few_sizes(
            lambda part: jnp.stack(_loc_and_scale(block, jnp.asarray(part)), axis=1), z
        ).swapaxes(0, 1)
    return np.asarray(z[:, np.array(block.columns)]), np.asarray(loc), np.asarray(scale)


def _shares(
    block: LocationScale,
    effects: np.ndarray,
    loc: np.ndarray,
    scale: np.ndarray,
    weights: np.ndarray,
) -> Float[np.ndarray, " n"]:
    half = np.full(block.num, 0.5)
    if block.increments:
        return half
    shares = []
    for e, m, tau in zip(effects.T, loc.T, scale.T, strict=True):
        near = _nearest_half(np.log(tau), weights)
        total = weights[near].sum()
        if effective_size(weights[near] / total) < _FEWEST:
            return half
        own, x, y = weights[near] / total, m[near], e[near]
        x, y = x - own @ x, y - own @ y
        slope = (own @ (x * y)) / max(own @ x**2, 1e-300)
        left = own @ (y - slope * x) ** 2 / (own @ tau[near] ** 2)
        shares.append(float(np.clip(1.0 - left, 0.0, 1.0)))
    return np.array(shares)


def _nearest_half(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows that hold half of the weight, nearest to the weighted median."""
    order = np.argsort(values)
    median = values[order][np.searchsorted(np.cumsum(weights[order]), 0.5)]
    nearest = np.argsort(np.abs(values - median), kind="stable")
    return nearest[: 1 + np.searchsorted(np.cumsum(weights[nearest]), 0.5)]


# Compiled -----------------------------------------------------------------------------------------


@filter_jit_fast_compile
def _to_z(centred: Centred, rows: Array) -> Array:
    return jax.vmap(centred.to_z)(rows)


@filter_jit_fast_compile
def _from_z(centred: Centred, rows: Array) -> Array:
    return jax.vmap(centred.from_z)(rows)


@filter_jit_fast_compile
def _log_density(centred: Centred, rows: Array) -> Array:
    return jax.vmap(centred)(rows)


@filter_jit_fast_compile
def _loc_and_scale(block: LocationScale, rows: Array) -> tuple[Array, Array]:
    return jax.vmap(block.loc_and_scale)(rows)
