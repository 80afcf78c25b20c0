"""Normalising flows q(target | condition): maps chosen by a network that take the target to a
standard normal law.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, as_key, integer, number
from noisewise.errors import InvalidInputError
from noisewise.estimators._columns import AbstractColumns, Network, drawn_by_numpy, stacked_networks
from noisewise.estimators._spline import inverse_spline, num_parameters, spline
from noisewise.estimators.widening import Places, Ranks, joined, layers_of

LOG_RANGE = 8.0
"""Scales lie within exp(-8) and exp(8)."""


class SplineCouplingFlow(AbstractColumns):
    r"""z = T_L o ... o T_1 (x) given c, log q(x | c) = log N(z; 0, I) + sum of log |det dT|.

    Each layer keeps the first floor(d / 2) coordinates and moves the others by splines whose
    parameters a network computes from the kept ones and c; then the kept coordinates go to the end,
    so that all take turns.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: tuple[int, ...] | None = eqx.field(static=True)
    bound: float = eqx.field(static=True)
    networks: Network
    """One per layer, on a leading axis."""

    def _log_prob_columns(self, target: Array, condition: Array) -> Array:
        def layer(carry: tuple[Array, Array], network: Network) -> tuple[tuple[Array, Array], None]:
            x, log_det = carry
            kept, moved = x[: self._num_kept], x[self._num_kept :]
            moved, log_slope = spline(moved, self._parameters(network, kept, condition), self.bound)
            return (jnp.concatenate([moved, kept]), log_det + log_slope.sum(axis=0)), None

        return _log_normal(*_through(layer, target, self.networks))

    def _noise(self, key: Array, columns: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*self.shape, *columns), jnp.float32)

    def _transport(self, noise: Array, condition: Array) -> Array:
        def layer(y: Array, network: Network) -> tuple[Array, None]:
            moved, kept = y[: len(y) - self._num_kept], y[len(y) - self._num_kept :]
            moved, _ = inverse_spline(moved, self._parameters(network, kept, condition), self.bound)
            return jnp.concatenate([kept, moved]), None

        return jax.lax.scan(layer, noise, self.networks, reverse=True)[0]

    @property
    def _num_kept(self) -> int:
        """Coordinates that a layer does not move."""
        return self.shape[0] // 2

    def _parameters(self, network: Network, kept: Array, condition: Array) -> Array:
        """Spline parameters of the moved coordinates, (3K - 1, moved, n)."""
        outputs, num_moved = (
            network(jnp.concatenate([kept, condition])),
            self.shape[0] - self._num_kept,
        )
        return outputs.reshape(len(outputs) // num_moved, num_moved, *outputs.shape[1:])


class AffineAutoregressiveFlow(AbstractColumns):
    r"""z_i = m_i + exp(a_i) x_i with (m_i, a_i) a function of x_1..x_{i-1} and c, then the
    coordinates in reverse; L times over.

    One masked network computes all (m_i, a_i) at once, so that the density takes one pass and a
    draw takes d.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: tuple[int, ...] | None = eqx.field(static=True)
    networks: Network
    ranks: Ranks | None = None
    """The order of coordinates in each layer, where not all columns are in use."""

    def _log_prob_columns(self, target: Array, condition: Array) -> Array:
        return _log_normal(*self.image(target, condition))

    def image(self, target: Array, condition: Array) -> tuple[Array, Array]:
        """z (d, N) of targets (d, N), and log |dz / dx| (N,)."""
        masks = self.masks if self.ranks is None else ()

        def layer(
            carry: tuple[Array, Array], given: tuple[Network, Ranks | None]
        ) -> tuple[tuple[Array, Array], None]:
            (x, log_det), (network, ranks) = carry, given
            order = masks if ranks is None else ranks.masks(len(network.biases) - 1)
            shift, log_scale = self._affine(network.masked(order), x, condition)
            used = log_scale if ranks is None else ranks.used(log_scale)
            return ((shift + jnp.exp(log_scale) * x)[::-1], log_det + used.sum(axis=0)), None

        return _through(layer, target, (self.networks, self.ranks))

    def _noise(self, key: Array, columns: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*self.shape, *columns), jnp.float32)

    def _transport(self, noise: Array, condition: Array) -> Array:
        return self.inverse_image(noise, condition)

    def inverse_image(self, z: Array, condition: Array) -> Array:
        """The targets (d, N) whose image is z."""
        masks = self.masks

        def layer(y: Array, network: Network) -> tuple[Array, None]:
            masked = network.masked(masks)

            def solved(_: int, x: Array) -> Array:
                shift, log_scale = self._affine(masked, x, condition)
                return (y[::-1] - shift) * jnp.exp(-log_scale)

            # pass i leaves the first i coordinates right, whatever the others
            return jax.lax.fori_loop(0, len(y), solved, jnp.zeros_like(y)), None

        return jax.lax.scan(layer, z, self.networks, reverse=True)[0]

    @property
    def masks(self) -> tuple[np.ndarray, ...]:
        """For each weight matrix, which connections keep the order."""
        return order_masks(self.networks, self.shape[0], 2)

    def widened(self, target_dim: int, condition_dim: int) -> AffineAutoregressiveFlow:
        """The same flow with columns that are not in use; its arrays may have leading axes. Only
        its `image` serves.
        """
        places = self._places(target_dim, condition_dim)
        each = zip(places, layers_of(self.networks, len(places)), strict=True)
        networks = joined([place.widened(network) for place, network in each], self.networks)
        lead = self.networks.weights[0].shape[:-3]
        units = self.networks.weights[-1].shape[-1]
        ranks = jax.tree.map(
            lambda *leaves: np.broadcast_to(stack := np.stack(leaves), (*lead, *stack.shape)),
            *[place.ranks(units) for place in places],
        )
        return AffineAutoregressiveFlow((target_dim,), (condition_dim,), networks, ranks)

    def narrowed(self, wide: AffineAutoregressiveFlow) -> AffineAutoregressiveFlow:
        """The same flow with the weights of a wide one."""
        places = self._places(*wide.shape, *(wide.cond_shape or ()))
        each = zip(places, layers_of(wide.networks, len(places)), strict=True)
        networks = joined([place.narrowed(network) for place, network in each], wide.networks)
        return dataclasses.replace(self, networks=networks)

    def _places(self, target_dim: int, condition_dim: int) -> list[Places]:
        """Where columns are in each layer of a wide flow: coordinates are reversed in between."""
        sizes = (self.shape[0], sum(self.cond_shape or ())), (target_dim, condition_dim)
        num = self.networks.weights[0].shape[-3]
        return [Places(*sizes, 2, last=bool(layer % 2)) for layer in range(num)]

    def _affine(self, network: Network, x: Array, condition: Array) -> tuple[Array, Array]:
        """The shift and the log scale of each coordinate; scales are bounded smoothly."""
        outputs = network(jnp.concatenate([x, condition]))
        shift, raw = outputs[: len(x)], outputs[len(x) :]
        return shift, LOG_RANGE * jnp.tanh(raw / LOG_RANGE)


@drawn_by_numpy
def neural_spline_flow(
    key: Array,
    target_dim: int,
    condition_dim: int | None,
    *,
    num_layers: int = 8,
    num_units: int = 50,
    num_hidden: int = 2,
    num_bins: int = 10,
    bound: float = 5.0,
) -> SplineCouplingFlow:
    """A coupling flow of rational-quadratic splines on [-bound, bound], the identity outside and
    when it is made.

    Use it for laws of a complicated shape, such as posteriors; the default of
    `PrivatePosteriorEstimation`. Pass the function itself, or a `functools.partial` of it, as
    `estimator`.

    Args:
        key: JAX PRNG key of the initial weights.
        target_dim: Columns of a target, best of mean 0 and variance 1.
        condition_dim: Columns of a condition; None makes it unconditional.
        num_layers: Coupling layers, each with a network of its own; 8, and the other sizes, are
            those of Xiong, Ju and Zhang, who found 5 slightly worse and 10 no better.
        num_units: Units of each hidden layer.
        num_hidden: Hidden layers of each network.
        num_bins: Bins of each spline: the detail that one layer can follow.
        bound: Splines act on [-bound, bound], five standard deviations to each side by default.

    Returns:
        A distribution with `log_prob(x, condition)` and `sample(key, shape, condition)`.

    Reference: Durkan, Bekasov, Murray, Papamakarios (2019), Neural spline flows, arXiv:1906.04032.

    >>> flow = neural_spline_flow(jax.random.key(0), 2, 3, num_layers=2, num_units=16)
    >>> round(float(flow.log_prob(jnp.zeros(2), jnp.ones(3))), 4)
    -1.8379
    >>> flow.sample(jax.random.key(1), (5,), jnp.ones(3)).shape
    (5, 2)
    """
    shape, cond_shape = as_shapes(target_dim, condition_dim)
    sizes = as_sizes(num_layers=num_layers, num_units=num_units, num_hidden=num_hidden)
    num_bins, bound = integer("num_bins", at_least=2)(num_bins), number("bound", above=0.0)(bound)
    if num_bins > 200.0 * bound:
        raise InvalidInputError(
            "num_bins must be at most 200 * bound, as no bin is narrower than 0.001, got"
            f" {num_bins} for bound {bound:g}."
        )
    num_kept = shape[0] // 2
    num_inputs, num_outputs = (
        num_kept + sum(cond_shape or ()),
        num_parameters(num_bins) * (shape[0] - num_kept),
    )
    with jax.enable_x64(False):
        networks = stacked_networks(as_key(key), sizes[0], num_inputs, num_outputs, *sizes[1:])
    return SplineCouplingFlow(shape, cond_shape, bound, networks)


@drawn_by_numpy
def masked_autoregressive_flow(
    key: Array,
    target_dim: int,
    condition_dim: int | None,
    *,
    num_layers: int = 5,
    num_units: int = 50,
    num_hidden: int = 2,
) -> AffineAutoregressiveFlow:
    """A masked autoregressive flow of affine steps, the identity (up to the order of coordinates)
    when it is made.

    Use it for laws that are nearly normal, such as those of statistics given parameters: it trains
    several times faster than `neural_spline_flow`. In one dimension it is a normal law.

    Args:
        key: JAX PRNG key of the initial weights.
        target_dim: Columns of a target.
        condition_dim: Columns of a condition; None makes it unconditional.
        num_layers: Steps, with the coordinates reversed in between; 5 as in the reference.
        num_units: Units of each hidden layer.
        num_hidden: Hidden layers of each network.

    Returns:
        A distribution with `log_prob(x, condition)` and `sample(key, shape, condition)`.

    Reference: Papamakarios, Pavlakou, Murray (2017), Masked autoregressive flow for density
    estimation, arXiv:1705.07057.

    >>> flow = masked_autoregressive_flow(jax.random.key(0), 2, 3, num_layers=2, num_units=16)
    >>> round(float(flow.log_prob(jnp.zeros(2), jnp.ones(3))), 4)
    -1.8379
    """
    shapes = as_shapes(target_dim, condition_dim)
    sizes = as_sizes(num_layers=num_layers, num_units=num_units, num_hidden=num_hidden)
    return affine_steps(as_key(key), *shapes, *sizes)


def affine_steps(
    key: Array,
    shape: tuple[int],
    cond_shape: tuple[int] | None,
    num_layers: int,
    num_units: int,
    num_hidden: int,
    *,
    smooth: bool = False,
) -> AffineAutoregressiveFlow:
    """The same from checked sizes, of relu networks or smooth ones."""
    num_inputs = shape[0] + sum(cond_shape or ())
    sizes = num_layers, num_inputs, 2 * shape[0], num_units, num_hidden
    with jax.enable_x64(False):
        networks = stacked_networks(key, *sizes, smooth=smooth)
    return AffineAutoregressiveFlow(shape, cond_shape, networks)


def as_shapes(target_dim: int, condition_dim: int | None) -> tuple[tuple[int], tuple[int] | None]:
    """The shapes of a target and of a condition, from checked numbers of columns."""
    target_dim = integer("target_dim", at_least=1)(target_dim)
    condition_dim = integer("condition_dim", at_least=0, optional=True)(condition_dim)
    return (target_dim,), None if condition_dim is None else (condition_dim,)


def as_sizes(**sizes: int) -> tuple[int, ...]:
    """Positive whole numbers, or an error that names the argument."""
    return tuple(integer(name, at_least=1)(size) for name, size in sizes.items())


def order_masks(network: Network, dim: int, copies: int) -> tuple[np.ndarray, ...]:
    """For each weight matrix, which connections keep an order of d coordinates: inputs have rank
    1..d, or 0 if of a condition; units and each of several copies of the outputs 0..d-1.
    """
    inputs = np.r_[1 : dim + 1, [0] * (network.weights[0].shape[-1] - dim)]
    units = np.arange(network.weights[-1].shape[-1]) % dim
    outputs = np.tile(np.arange(dim), copies)
    ranks = [inputs, *[units] * (len(network.weights) - 1), outputs]
    pairs = zip(ranks[1:], ranks[:-1], strict=True)
    return tuple((after[:, None] >= before).astype(np.float32) for after, before in pairs)


def _through(layer: Callable[..., Any], target: Array, networks: Any) -> tuple[Array, Array]:
    """The image of the target under all layers, and the sum of their log determinants."""
    # a loop compiles in half the time; on a CPU a step takes as long, on a GPU longer
    return jax.lax.scan(
        layer, (target, jnp.zeros_like(target[0])), networks, unroll=jax.default_backend() != "cpu"
    )[0]


def _log_normal(z: Array, log_det: Array) -> Array:
    """log N(z; 0, I) plus the log determinant."""
    return log_det - 0.5 * (z**2).sum(axis=0) - 0.5 * len(z) * math.log(2.0 * math.pi)
