"""Networks with columns that are not in use, so that one compiled program trains networks of
several sizes.

A target and a condition get columns of zeros, a network the weights for them, also zero. Nothing
depends on these, no gradient reaches them, and the weights of the others are trained as they would
be alone. Which columns are in use, and in which order, is data of the program.
"""

from __future__ import annotations

import itertools
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Shaped

from noisewise._core.arrays import Array
from noisewise.estimators._columns import Network

_WIDTHS = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Columns of a wide network: few enough that the next model finds the programs of an earlier one,
close enough that a step takes a fifth longer at most where it takes long.
"""


def few_widths(num: int) -> int:
    """The number of columns that so many are widened to.

    >>> [few_widths(num) for num in (1, 5, 12, 200)]
    [2, 8, 12, 200]
    """
    return next((width for width in _WIDTHS if width >= num), num)


@runtime_checkable
class CanBeWidened(Protocol):
    """An estimator that has a wide form, for training."""

    def widened(self, target_dim: int, condition_dim: int) -> Any:
        """The same law with columns that are not in use."""

    def narrowed(self, wide: Any) -> Any:
        """The same law with the weights of a wide one."""


class Ranks(eqx.Module):
    """The order of coordinates of a network of `dim` of them: inputs have rank 1..d, or 0 if of a
    condition, units 0..d-1, outputs 0..d-1, or -1 where they are not in use.
    """

    inputs: Int[Array, "*l i"]
    units: Int[Array, "*l h"]
    outputs: Int[Array, "*l o"]

    def masks(self, num_hidden: int) -> tuple[Array, ...]:
        """For each weight matrix, which connections keep the order."""
        ranks = [self.inputs, *[self.units] * num_hidden, self.outputs]
        return tuple(
            (after[..., :, None] >= before[..., None, :]).astype(np.float32)
            for before, after in itertools.pairwise(ranks)
        )

    def used(self, values: Shaped[Array, "*m d n"]) -> Shaped[Array, "*m d n"]:
        """Values of coordinates, 0 where these are not in use."""
        used = self.outputs[: values.shape[-2]] >= 0
        return jnp.where(used[:, None], values, 0.0)

    @property
    def num_used(self) -> Array:
        """The number of coordinates in use, in each copy of the outputs."""
        return self.inputs.max()


class Places:
    """Where the columns of a narrow network are in a wide one.

    Args:
        narrow: d and k, columns of targets and conditions of the narrow one.
        wide: The same of the wide one.
        copies: How many outputs a coordinate has.
        last: Whether coordinates in use come after those that are not.
    """

    def __init__(
        self, narrow: tuple[int, int], wide: tuple[int, int], copies: int, *, last: bool
    ) -> None:
        self.narrow, self.wide, self.copies = narrow, wide, copies
        start = wide[0] - narrow[0] if last else 0
        self._own = start + np.arange(narrow[0])
        self.inputs = np.r_[self._own, wide[0] + np.arange(narrow[1])]
        self.outputs = np.concatenate([wide[0] * copy + self._own for copy in range(copies)])

    def ranks(self, num_units: int) -> Ranks:
        """The order of the coordinates of the wide network."""
        dim, inputs = self.narrow[0], np.zeros(sum(self.wide), np.int32)
        inputs[self._own] = 1 + np.arange(dim)
        outputs = np.full(self.copies * self.wide[0], -1, np.int32)
        outputs[self.outputs] = np.tile(np.arange(dim), self.copies)
        return Ranks(inputs, (np.arange(num_units) % dim).astype(np.int32), outputs)

    def widened(self, network: Network) -> Network:
        """The wide network; arrays may have leading axes."""
        first, *between, last = map(np.asarray, network.weights)
        *biases, end = map(np.asarray, network.biases)
        weights = [_spread(first, self.inputs, sum(self.wide), -1), *between]
        num = self.copies * self.wide[0]
        weights.append(_spread(last, self.outputs, num, -2))
        biases.append(_spread(end, self.outputs, num, -1))
        return _with(network, weights, biases)

    def narrowed(self, network: Network) -> Network:
        """The narrow network, from the wide one."""
        first, *between, last = map(np.asarray, network.weights)
        *biases, end = map(np.asarray, network.biases)
        weights = [first[..., self.inputs], *between, last[..., self.outputs, :]]
        return _with(network, weights, [*biases, end[..., self.outputs]])


def layers_of(networks: Network, num: int) -> list[Network]:
    """The networks of layers whose arrays are stacked."""
    axis = networks.weights[0].ndim - 3
    return [jax.tree.map(lambda a, n=n: np.asarray(a).take(n, axis), networks) for n in range(num)]


def joined(layers: list[Network], like: Network) -> Network:
    """The inverse of `layers_of`."""
    axis = like.weights[0].ndim - 3
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis=axis), *layers)


def _spread(values: np.ndarray, at: np.ndarray, num: int, axis: int) -> np.ndarray:
    """Values at places along an axis of length `num`, zeros elsewhere."""
    shape = list(values.shape)
    shape[axis] = num
    wide = np.zeros(shape, values.dtype)
    np.moveaxis(wide, axis, 0)[at] = np.moveaxis(values, axis, 0)
    return wide


def _with(network: Network, weights: list[np.ndarray], biases: list[np.ndarray]) -> Network:
    given = tuple(weights), tuple(biases)
    return eqx.tree_at(lambda network: (network.weights, network.biases), network, given)
