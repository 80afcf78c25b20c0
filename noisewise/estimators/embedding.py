"""One network that sums up the condition for all layers of an estimator."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax.distributions import AbstractDistribution

from noisewise._core.arrays import Array, as_key, integer
from noisewise.errors import InvalidInputError
from noisewise.estimators._columns import Network, as_rows
from noisewise.estimators.members import Estimator, Factory


@dataclasses.dataclass(frozen=True)
class Embedding:
    r"""What the layers of an estimator see of a condition: a fitted prediction of the target, and
    what one network, shared by all of them, makes of the whole condition.

        q(x | c) = q'(x | r, e(r, u)),    (r, u) = conditioner(c)

    Layers that each have a network of their own on all columns overfit many of them; here the
    layers' networks have few inputs. `Conditioner` says how r and u are made.

    Args:
        num_columns: Columns of e; by default two for each parameter, for what its place and its
            width depend on. 0 shows the prediction alone.
        num_units: Units of each hidden layer of e.
        num_hidden: Hidden layers of e.

    >>> Embedding(num_columns=4)
    Embedding(num_columns=4, num_units=50, num_hidden=2)
    """

    num_columns: int | None = None
    num_units: int = 50
    num_hidden: int = 2

    def __post_init__(self) -> None:
        converters = {
            "num_columns": integer("num_columns", at_least=0, optional=True),
            "num_units": integer("num_units", at_least=1),
            "num_hidden": integer("num_hidden", at_least=1),
        }
        for name, converter in converters.items():
            object.__setattr__(self, name, converter(getattr(self, name)))

    def around(self, factory: Factory) -> Factory:
        """The factory of estimators (key, target_dim, condition_dim) whose conditions are what a
        `Conditioner` makes: predictions of all targets first.
        """
        return functools.partial(embedded, inner=factory, embedding=self)

    def sized(self, target_dim: int) -> Embedding:
        """The same with `num_columns` as a number."""
        num = 2 * target_dim if self.num_columns is None else self.num_columns
        return dataclasses.replace(self, num_columns=num)


class Embedded(AbstractDistribution):
    """q(x | c) = q'(x | c_1 .. c_d, e(c)), with d the number of columns of x."""

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: tuple[int, ...] | None = eqx.field(static=True)
    inner: Estimator
    network: Network | None

    def log_prob(self, x: Any, condition: Any = None) -> Array:
        """log q(x | condition), for batch axes that broadcast."""
        return self.inner.log_prob(x, self._seen(condition))

    def sample(
        self, key: Array, sample_shape: tuple[int, ...] = (), condition: Any = None
    ) -> Array:
        """Independent draws, of shape sample_shape + batch axes of the condition + (d,)."""
        return self.inner.sample(key, sample_shape, self._seen(condition))

    def sample_and_log_prob(
        self, key: Array, sample_shape: tuple[int, ...] = (), condition: Any = None
    ) -> tuple[Array, Array]:
        """Draws, as `sample` gives them, and their log densities."""
        x = self.sample(key, sample_shape, condition)
        return x, self.log_prob(x, condition)

    def _seen(self, condition: Any) -> Array:
        """What the inner estimator sees of conditions (..., w)."""
        (width,) = self.cond_shape or (0,)
        rows = as_rows(condition, width, "condition")
        passed = rows[..., : self.shape[0]]
        if self.network is None:
            return passed
        summaries = self.network(rows.reshape(-1, width).T).T
        return jnp.concatenate([passed, summaries.reshape(*rows.shape[:-1], -1)], axis=-1)

    def _log_prob(self, x: Array, condition: Array | None = None) -> Array:
        return self.log_prob(x, condition)

    def _sample(self, key: Array, condition: Array | None = None) -> Array:
        return self.sample(key, (), condition)


def embedded(
    key: Array, target_dim: int, condition_dim: int, *, inner: Factory, embedding: Embedding
) -> Embedded:
    """An estimator behind an embedding.

    Args:
        key: JAX PRNG key of the initial weights.
        target_dim: Columns of a target.
        condition_dim: Columns of a condition, predictions of the target first.
        inner: Makes the estimator, given what it sees of the condition.
        embedding: The sizes of the network.

    Returns:
        A distribution with `log_prob(x, condition)` and `sample(key, shape, condition)`.
    """
    if condition_dim < target_dim:
        raise InvalidInputError(
            f"An embedding needs the predictions of all {target_dim} targets in the condition, got"
            f" {condition_dim} columns."
        )
    inner_key, network_key = jax.random.split(as_key(key))
    sizes = embedding.sized(target_dim)
    num = sizes.num_columns or 0
    with jax.enable_x64(False):
        made = _checked(
            inner(inner_key, target_dim, target_dim + num), target_dim, target_dim + num
        )
        network = None
        if num:
            network = _start(network_key, condition_dim, num, sizes.num_units, sizes.num_hidden)
    return Embedded((target_dim,), (condition_dim,), made, network)


def _checked(made: Estimator, target_dim: int, condition_dim: int) -> Estimator:
    """An estimator, if it has the dimensions that were asked for."""
    if tuple(made.shape) != (target_dim,) or made.cond_shape != (condition_dim,):
        raise InvalidInputError(
            f"estimator(key, {target_dim}, {condition_dim}) must make a distribution of shape"
            f" ({target_dim},) given ({condition_dim},), got {made.shape} given {made.cond_shape}:"
            " pass a factory, such as neural_spline_flow, as it is."
        )
    return made


@functools.partial(jax.jit, static_argnums=range(1, 5))
def _start(
    key: Array, num_inputs: int, num_outputs: int, num_units: int, num_hidden: int
) -> Network:
    """A network whose last layer starts at random too: layers behind it that start as the identity
    would otherwise have nothing to learn from.
    """
    hidden_key, last_key = jax.random.split(key)
    network = Network(hidden_key, num_inputs, num_outputs, num_units, num_hidden)
    last = jax.random.uniform(last_key, (num_outputs, num_units), jnp.float32, -1.0, 1.0)
    return eqx.tree_at(lambda made: made.weights[-1], network, last / math.sqrt(num_units))
