"""Mixtures of Gaussians q(target | condition) whose parameters a network computes."""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, as_key
from noisewise.estimators._columns import AbstractColumns, Network
from noisewise.estimators.flows import LOG_RANGE, as_shapes, as_sizes

_SPREAD = 0.5
"""Standard deviation of the initial means, in units of the standardised target: apart, but inside
it.
"""


class GaussianMixture(AbstractColumns):
    r"""q(x | c) = sum_m a_m(c) N(x; mu_m(c), (P_m(c)' P_m(c))^-1), with P_m lower triangular of
    positive diagonal.

    A factor of the precision makes the density a product, log N = log |P| - |P (x - mu)|^2 / 2 +
    const; draws solve P (x - mu) = z.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: tuple[int, ...] | None = eqx.field(static=True)
    num_components: int = eqx.field(static=True)
    network: Network

    def _log_prob_columns(self, target: Array, condition: Array) -> Array:
        log_weights, means, log_diagonal, below = self._parameters(condition)
        away = target - means
        rows, columns = np.tril_indices(self.shape[0], -1)
        z = (jnp.exp(log_diagonal) * away).at[:, rows].add(below * away[:, columns])
        log_normal = log_diagonal.sum(axis=1) - 0.5 * (z**2).sum(axis=1)
        constant = 0.5 * self.shape[0] * math.log(2.0 * math.pi)
        return jax.nn.logsumexp(log_weights + log_normal, axis=0) - constant

    def _noise(self, key: Array, columns: tuple[int, ...]) -> tuple[Array, Array]:
        choice_key, normal_key = jax.random.split(key)
        choice = jax.random.gumbel(choice_key, (self.num_components, *columns), jnp.float32)
        return choice, jax.random.normal(normal_key, (*self.shape, *columns), jnp.float32)

    def _transport(self, noise: tuple[Array, Array], condition: Array) -> Array:
        choice, z = noise
        log_weights, means, log_diagonal, below = self._parameters(condition)
        chosen = jnp.argmax(log_weights + choice, axis=0)
        mean, log_scale, below = (_of_chosen(part, chosen) for part in (means, log_diagonal, below))
        rows, columns = np.tril_indices(self.shape[0], -1)
        away = jnp.zeros_like(z)
        for i in range(self.shape[0]):
            earlier = (below[rows == i] * away[columns[rows == i]]).sum(axis=0)
            away = away.at[i].set((z[i] - earlier) * jnp.exp(-log_scale[i]))
        return mean + away

    def _parameters(self, condition: Array) -> tuple[Array, Array, Array, Array]:
        """Log weights (M, N), means and log diagonals (M, d, N), entries below the diagonal (M,
        d(d-1)/2, N).
        """
        num, (dim,) = self.num_components, self.shape
        outputs = self.network(condition)
        logits, means, raw, below = jnp.split(outputs, np.cumsum([num, num * dim, num * dim]))
        means, raw = (part.reshape(num, dim, *outputs.shape[1:]) for part in (means, raw))
        below = below.reshape(num, dim * (dim - 1) // 2, *outputs.shape[1:])
        return (
            jax.nn.log_softmax(logits, axis=0),
            means,
            LOG_RANGE * jnp.tanh(raw / LOG_RANGE),
            below,
        )


def mixture_density_network(
    key: Array,
    target_dim: int,
    condition_dim: int | None,
    *,
    num_components: int = 8,
    num_units: int = 50,
    num_hidden: int = 2,
) -> GaussianMixture:
    """A mixture of Gaussians with full covariances; a network computes weights, means and factors
    from the condition.

    Use it where a few normal laws describe the target: it trains fastest. The covariances are the
    identity when it is made, and the means are drawn around 0.

    Args:
        key: JAX PRNG key of the initial weights.
        target_dim: Columns of a target.
        condition_dim: Columns of a condition; None makes it unconditional.
        num_components: Normal laws in the mixture.
        num_units: Units of each hidden layer.
        num_hidden: Hidden layers.

    Returns:
        A distribution with `log_prob(x, condition)` and `sample(key, shape, condition)`.

    Reference: Bishop (1994), Mixture density networks, Aston University NCRG/94/004.

    >>> mixture = mixture_density_network(jax.random.key(0), 2, 3, num_components=2, num_units=16)
    >>> mixture.log_prob(jnp.zeros((4, 2)), jnp.ones(3)).shape
    (4,)
    >>> mixture.sample(jax.random.key(1), (5,), jnp.ones(3)).shape
    (5, 2)
    """
    shape, cond_shape = as_shapes(target_dim, condition_dim)
    num_components, *sizes = as_sizes(
        num_components=num_components, num_units=num_units, num_hidden=num_hidden
    )
    num_outputs = num_components * (1 + 2 * shape[0] + shape[0] * (shape[0] - 1) // 2)
    with jax.enable_x64(False):
        network = _start(
            as_key(key), num_components, shape[0], sum(cond_shape or ()), num_outputs, *sizes
        )
    return GaussianMixture(shape, cond_shape, num_components, network)


@functools.partial(jax.jit, static_argnums=range(1, 7))
def _start(key: Array, num_components: int, target_dim: int, *sizes: int) -> Network:
    """A network whose means start apart: alike components would stay alike."""
    network_key, mean_key = jax.random.split(key)
    means = _SPREAD * jax.random.normal(mean_key, (num_components * target_dim,), jnp.float32)
    place = slice(num_components, num_components * (1 + target_dim))
    return eqx.tree_at(
        lambda made: made.biases[-1],
        Network(network_key, *sizes),
        replace_fn=lambda b: b.at[place].set(means),
    )


def _of_chosen(values: Array, chosen: Array) -> Array:
    """values (M, r, N) of the components chosen (N,): (r, N)."""
    return jnp.take_along_axis(values, chosen[None, None], axis=0)[0]
