"""Densities evaluated for many points at once, one point per column.

flowjax writes a density for one point and maps it over rows. On a CPU the small axes of a spline
(bins, coordinates) then lie innermost in memory and little vectorises; with the points innermost a
training step takes half the time.
"""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.distributions import AbstractDistribution

from noisewise._core.arrays import Array, numpy_of, placed
from noisewise._core.keys import is_plain, split, uniforms32
from noisewise.errors import InvalidInputError, InvalidTypeError

F = TypeVar("F", bound=Callable[..., Any])

_BLOCK = 1024
"""Columns evaluated at a time: they stay in a CPU's cache; with more, each is up to three times
slower.
"""


class AbstractColumns(AbstractDistribution):
    """A distribution whose concrete classes write the density and the sampler for columns.

    Targets are (d, N), conditions (k, N) with k = 0 for an unconditional law, or (d,) and (k,) for
    one point alone; rows and batch axes are handled here, once. Give batches, where there is the
    choice, rather than points under `vmap`.
    """

    @abc.abstractmethod
    def _log_prob_columns(self, target: Array, condition: Array) -> Array:
        """(d, N), (k, N) -> (N,)."""

    @abc.abstractmethod
    def _noise(self, key: Array, columns: tuple[int, ...]) -> Any:
        """What draws are made of: arrays (..., N), whose laws are fixed."""

    @abc.abstractmethod
    def _transport(self, noise: Any, condition: Array) -> Array:
        """Draws (d, N) made of noise, given conditions (k, N)."""

    def log_prob(self, x: Any, condition: Any = None) -> Array:
        """log q(x | condition).

        Args:
            x: Targets, shape (..., d).
            condition: Conditions, shape (..., k), whose batch axes broadcast with those of x; None
                for an unconditional law.

        Returns:
            Log densities, of the shape of the batch axes.
        """
        x = as_rows(x, self.shape[0], "x")
        condition = self._as_condition(condition)
        batch = jnp.broadcast_shapes(x.shape[:-1], condition.shape[:-1])
        return _in_blocks(
            self._log_prob_columns, _columns(x, batch), _columns(condition, batch)
        ).reshape(batch)

    def sample(
        self, key: Array, sample_shape: tuple[int, ...] = (), condition: Any = None
    ) -> Array:
        """Independent draws.

        Args:
            key: JAX PRNG key.
            sample_shape: The shape of the draws given each condition.
            condition: Conditions, shape (..., k); None for an unconditional law.

        Returns:
            Targets of shape sample_shape + batch axes of the condition + (d,).
        """
        condition = self._as_condition(condition)
        batch = (*sample_shape, *condition.shape[:-1])
        columns = _columns(condition, batch)
        draws = _in_blocks(self._transport, self._noise(key, columns.shape[1:]), columns)
        return draws.T.reshape(*batch, *self.shape)

    def sample_and_log_prob(
        self, key: Array, sample_shape: tuple[int, ...] = (), condition: Any = None
    ) -> tuple[Array, Array]:
        """Draws, as `sample` gives them, and their log densities."""
        x = self.sample(key, sample_shape, condition)
        return x, self.log_prob(x, condition)

    def _as_condition(self, condition: Any) -> Array:
        """Conditions as rows; none have no columns."""
        if self.cond_shape is None:
            if condition is not None:
                raise InvalidInputError(
                    "This estimator was made with condition_dim=None: give it no condition."
                )
            return jnp.zeros((0,), jnp.float32)
        return as_rows(condition, self.cond_shape[0], "condition")

    def _log_prob(self, x: Array, condition: Array | None = None) -> Array:
        return self.log_prob(x, condition)

    def _sample(self, key: Array, condition: Array | None = None) -> Array:
        return self.sample(key, (), condition)


class Network(eqx.Module):
    """A perceptron on columns: num_hidden layers of num_units, (inputs, N) -> (outputs, N), between
    them relu or, if `smooth`, x / (1 + e^-x).

    The hidden layers start uniform in +-1 / sqrt(inputs), the last one at zero.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    smooth: bool = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        num_inputs: int,
        num_outputs: int,
        num_units: int,
        num_hidden: int,
        *,
        smooth: bool = False,
    ) -> None:
        self.smooth = smooth
        sizes = (num_inputs, *[num_units] * num_hidden)
        pairs = list(itertools.pairwise(sizes))
        # one draw for all layers: each compiles for longer than it runs
        ends = np.cumsum([size * (inputs + 1) for inputs, size in pairs])
        all_of_them = _uniforms(key, int(ends[-1]))
        draws = numpy_of(all_of_them).split(all_of_them, ends[:-1])
        layers = [
            draw.reshape(size, inputs + 1) / math.sqrt(max(inputs, 1))
            for draw, (inputs, size) in zip(draws, pairs, strict=True)
        ]
        last = np.zeros((num_outputs, num_units + 1), np.float32)
        self.weights = tuple(placed(layer[:, :-1]) for layer in (*layers, last))
        self.biases = tuple(placed(layer[:, -1]) for layer in (*layers, last))

    def __call__(self, inputs: Array) -> Array:
        biases = [bias.reshape(-1, *[1] * (inputs.ndim - 1)) for bias in self.biases]
        activation = jax.nn.silu if self.smooth else jax.nn.relu
        for weight, bias in zip(self.weights[:-1], biases[:-1], strict=True):
            inputs = activation(weight @ inputs + bias)
        return self.weights[-1] @ inputs + biases[-1]

    def masked(self, masks: tuple[np.ndarray, ...]) -> Network:
        """The network without the connections whose mask (outputs, inputs) is 0."""
        weights = tuple(weight * mask for weight, mask in zip(self.weights, masks, strict=True))
        return eqx.tree_at(lambda network: network.weights, self, weights)


def _uniforms(key: Array, num: int) -> Array:
    """Numbers between -1 and 1, by NumPy where that can be."""
    if is_plain(key, num):
        return uniforms32(key, num)
    return jax.random.uniform(key, (num,), jnp.float32, -1.0, 1.0)


def stacked_networks(key: Array, num: int, *sizes: int, smooth: bool = False) -> Network:
    """`num` networks of these sizes on a leading axis."""
    if is_plain(key):
        return stacked_trees([Network(each, *sizes, smooth=smooth) for each in split(key, num)])
    return _stacked_networks(key, num, *sizes, smooth=smooth)


@functools.partial(jax.jit, static_argnums=range(1, 6), static_argnames="smooth")
def _stacked_networks(key: Array, num: int, *sizes: int, smooth: bool) -> Network:
    make = lambda key: Network(key, *sizes, smooth=smooth)  # noqa: E731
    return jax.vmap(make)(jax.random.split(key, num))


def stacked_trees(trees: Sequence[Any]) -> Any:
    """Trees of equal structure as one whose arrays have a leading axis, without a program."""
    return jax.tree.map(lambda *leaves: placed(np.stack(leaves)), *trees)


def drawn_by_numpy(factory: F) -> F:
    """Mark a factory whose weights are drawn by NumPy, for which nothing needs to be compiled."""
    factory.drawn_by_numpy = True  # type: ignore[attr-defined]
    return factory


def as_rows(value: Any, width: int, name: str) -> Array:
    """`value` as float32 rows of this width."""
    if not eqx.is_array_like(value):
        raise InvalidTypeError(
            f"{name} must be an array of shape (..., {width}), got {type(value).__name__}."
        )
    rows = jnp.asarray(value, jnp.float32)
    if rows.shape[-1:] != (width,):
        raise InvalidInputError(f"{name} must have shape (..., {width}), got {rows.shape}.")
    return rows


def _columns(rows: Array, batch: tuple[int, ...]) -> Array:
    """(..., w) to (w, N), or to (w,) where there is no batch axis."""
    if not batch:
        return rows
    width = rows.shape[-1]
    return jnp.broadcast_to(rows, (*batch, width)).reshape(math.prod(batch), width).T


def _in_blocks(function: Callable[..., Array], *columns: Any) -> Array:
    """function(*columns), arrays (..., N) to (..., N); on a CPU block by block, and so are
    gradients.
    """
    num = columns[-1].shape[-1] if columns[-1].ndim > 1 else 1
    if num <= 2 * _BLOCK or jax.default_backend() != "cpu":
        return function(*columns)
    count = -(-num // _BLOCK)
    size = -(-num // count)

    def split(array: Array) -> Array:
        padded = jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, count * size - num)])
        return jnp.moveaxis(padded.reshape(*array.shape[:-1], count, size), -2, 0)

    one_block = jax.checkpoint(lambda block: function(*block), prevent_cse=False)
    made = jnp.moveaxis(jax.lax.map(one_block, jax.tree.map(split, columns)), 0, -2)
    return made.reshape(*made.shape[:-2], count * size)[..., :num]
