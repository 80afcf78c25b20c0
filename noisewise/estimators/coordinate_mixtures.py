"""Laws of one coordinate after another, each a mixture of normal ones."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from noisewise._core.arrays import Array, as_key
from noisewise._core.keys import split
from noisewise.estimators._columns import AbstractColumns, Network, drawn_by_numpy
from noisewise.estimators.flows import (
    LOG_RANGE,
    AffineAutoregressiveFlow,
    affine_steps,
    as_shapes,
    as_sizes,
    order_masks,
)
from noisewise.estimators.widening import Places, Ranks

_FIRST_SPREAD = 0.8
"""Means that components start from, in units of normal quantiles: apart, or they would stay alike.
"""
_FIRST_SD = 0.6
"""Standard deviation that components start from: with that spread they add up to about 1."""


class AutoregressiveMixture(AbstractColumns):
    r"""q(x | c) = prod_i sum_m a_m N(z_i; mu_m, s_m^2), with (a, mu, s) a function of z_1..z_{i-1}
    and c, and z the image of x under affine autoregressive steps.

    Affine steps alone leave a coordinate that does not depend on the others normal; mixtures give
    each any law. The networks are smooth, as the laws of statistics are in their parameters.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: tuple[int, ...] | None = eqx.field(static=True)
    num_components: int = eqx.field(static=True)
    steps: AffineAutoregressiveFlow
    network: Network
    ranks: Ranks | None = None
    """The order of coordinates, where not all columns are in use."""

    def _log_prob_columns(self, target: Array, condition: Array) -> Array:
        z, log_det = self.steps.image(target, condition)
        log_weights, means, log_sds = self._parameters(self._masked, z, condition)
        log_normal = -log_sds - 0.5 * ((z - means) * jnp.exp(-log_sds)) ** 2
        each = jax.nn.logsumexp(log_weights + log_normal, axis=0)
        num: Any = len(z)
        if self.ranks is not None:
            each, num = self.ranks.used(each), self.ranks.num_used
        return log_det + each.sum(axis=0) - 0.5 * num * math.log(2.0 * math.pi)

    def _noise(self, key: Array, columns: tuple[int, ...]) -> tuple[Array, Array]:
        choice_key, normal_key = jax.random.split(key)
        size = (*self.shape, *columns)
        choice = jax.random.gumbel(choice_key, (self.num_components, *size), jnp.float32)
        return choice, jax.random.normal(normal_key, size, jnp.float32)

    def _transport(self, noise: tuple[Array, Array], condition: Array) -> Array:
        choice, normal = noise
        masked = self._masked

        def solved(_: int, z: Array) -> Array:
            log_weights, means, log_sds = self._parameters(masked, z, condition)
            chosen = jnp.argmax(log_weights + choice, axis=0)[None]
            mean, log_sd = (
                jnp.take_along_axis(part, chosen, axis=0)[0] for part in (means, log_sds)
            )
            return mean + jnp.exp(log_sd) * normal

        # pass i leaves the first i coordinates right, whatever the others
        z = jax.lax.fori_loop(0, len(normal), solved, jnp.zeros_like(normal))
        return self.steps.inverse_image(z, condition)

    @property
    def masks(self) -> tuple[Array, ...]:
        """For each weight matrix of the mixtures, which connections keep the order."""
        if self.ranks is not None:
            return self.ranks.masks(len(self.network.biases) - 1)
        return order_masks(self.network, self.shape[0], 3 * self.num_components)

    @property
    def _masked(self) -> Network:
        """The network of the mixtures without the others."""
        return self.network.masked(self.masks)

    def widened(self, target_dim: int, condition_dim: int) -> AutoregressiveMixture:
        """The same law with columns that are not in use, for training: densities of targets and
        conditions with zeros there are those of the others. Arrays may have leading axes.
        """
        steps, place = (
            self.steps.widened(target_dim, condition_dim),
            self._place(target_dim, condition_dim),
        )
        lead = self.network.weights[0].shape[:-2]
        ranks = jax.tree.map(
            lambda leaf: np.broadcast_to(leaf, (*lead, *leaf.shape)),
            place.ranks(self.network.weights[-1].shape[-1]),
        )
        shapes = (target_dim,), (condition_dim,), self.num_components
        return AutoregressiveMixture(*shapes, steps, place.widened(self.network), ranks)

    def narrowed(self, wide: AutoregressiveMixture) -> AutoregressiveMixture:
        """The same law with the weights of a wide one."""
        place = self._place(*wide.shape, *(wide.cond_shape or ()))
        steps, network = self.steps.narrowed(wide.steps), place.narrowed(wide.network)
        return dataclasses.replace(self, steps=steps, network=network)

    def _place(self, target_dim: int, condition_dim: int) -> Places:
        """Where columns are in a wide law: each step reverses the coordinates."""
        sizes = (self.shape[0], sum(self.cond_shape or ())), (target_dim, condition_dim)
        num_steps = self.steps.networks.weights[0].shape[-3]
        return Places(*sizes, 3 * self.num_components, last=bool(num_steps % 2))

    def _parameters(
        self, masked: Network, z: Array, condition: Array
    ) -> tuple[Array, Array, Array]:
        """Log weights, means and log standard deviations, each (M, d, N)."""
        outputs = masked(jnp.concatenate([z, condition]))
        logits, means, raw = outputs.reshape(3, self.num_components, *z.shape)
        places = norm.ppf((np.arange(self.num_components) + 0.5) / self.num_components)
        first = (_FIRST_SPREAD * places).astype(np.float32).reshape(-1, *[1] * z.ndim)
        first_sd = _FIRST_SD if self.num_components > 1 else 1.0
        log_sds = math.log(first_sd) + LOG_RANGE * jnp.tanh(raw / LOG_RANGE)
        return jax.nn.log_softmax(logits, axis=0), first + means, log_sds


@drawn_by_numpy
def autoregressive_mixture(
    key: Array,
    target_dim: int,
    condition_dim: int | None,
    *,
    num_layers: int = 1,
    num_components: int = 4,
    num_units: int = 50,
    num_hidden: int = 2,
) -> AutoregressiveMixture:
    """A mixture of normal laws for each coordinate given those before it, behind affine
    autoregressive steps; nearly standard normal when it is made.

    Use it for the law of statistics given parameters, of counts above all, whose coordinates are
    skew or have tails while they hardly depend on each other; the default of
    `PrivateLikelihoodEstimation` and `ConfidentialLikelihoodEstimation`. Densities take one pass
    through `num_layers` + 1 networks.

    Args:
        key: JAX PRNG key of the initial weights.
        target_dim: Columns of a target.
        condition_dim: Columns of a condition; None makes it unconditional.
        num_layers: Affine steps before the mixtures, which see the coordinates in reverse order.
        num_components: Normal laws in each mixture.
        num_units: Units of each hidden layer.
        num_hidden: Hidden layers of each network.

    Returns:
        A distribution with `log_prob(x, condition)` and `sample(key, shape, condition)`.

    Reference: Papamakarios, Pavlakou, Murray (2017), Masked autoregressive flow for density
    estimation, arXiv:1705.07057, where it is called MAF MoG.

    >>> law = autoregressive_mixture(jax.random.key(0), 2, 3, num_units=16)
    >>> law.log_prob(jnp.zeros((4, 2)), jnp.ones(3)).shape
    (4,)
    >>> law.sample(jax.random.key(1), (5,), jnp.ones(3)).shape
    (5, 2)
    """
    shape, cond_shape = as_shapes(target_dim, condition_dim)
    num_layers, num_components, *sizes = as_sizes(
        num_layers=num_layers,
        num_components=num_components,
        num_units=num_units,
        num_hidden=num_hidden,
    )
    step_key, mixture_key = split(as_key(key))
    steps = affine_steps(step_key, shape, cond_shape, num_layers, *sizes, smooth=True)
    num_inputs, num_outputs = shape[0] + sum(cond_shape or ()), 3 * num_components * shape[0]
    with jax.enable_x64(False):
        network = Network(mixture_key, num_inputs, num_outputs, *sizes, smooth=True)
    return AutoregressiveMixture(shape, cond_shape, num_components, steps, network)
