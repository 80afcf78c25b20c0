"""Where chains on records are, and what all of their moves have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from noisewise._core.arrays import Array
from noisewise.mechanisms.base import AbstractMechanism

TARGET_ACCEPTANCE = 0.3
"""Share of random-walk steps to accept: between .44, best in one dimension, and .234, best in many
(Roberts, Gelman and Gilks 1997).
"""


class RecordState(NamedTuple):
    """Where one chain is.

    Attributes:
        z: Unconstrained parameters, shape (p,).
        theta: Parameters, shape (d,).
        records: The records, a pytree with leading axis n.
        terms: What each contributes to the statistic, shape (n, k), in units of the query.
        total: The sum of the terms, shape (k,).
        log_eta: log eta(observed | s).
    """

    z: Array
    theta: Array
    records: Any
    terms: Array
    total: Array
    log_eta: Array


class Walk(NamedTuple):
    """The steps of random walks.

    Attributes:
        root: A root (p, p) of the covariance of steps in z.
        lengths: Lengths of centred, non-centred and joint steps, shape (3,).
    """

    root: Array
    lengths: Array


class Seen(NamedTuple):
    """What the moves condition on.

    Attributes:
        mechanism: The mechanism.
        observed: The private statistic, shape (k',).
        temperature: The power of eta in the target.
    """

    mechanism: AbstractMechanism
    observed: Array
    temperature: Array


def random_step(key: Array, walk: Walk, kind: int) -> Array:
    """A random-walk step (p,) of a kind: 0 centred, 1 not centred, 2 joint."""
    return walk.lengths[kind] * (
        walk.root @ jax.random.normal(key, (walk.root.shape[0],), dtype=float)
    )


def log_difference(new: Array, old: Array) -> Array:
    """new - old, where -inf is always left and never entered, and two of them are equal; NaN counts
    as -inf.
    """
    impossible, was_impossible = jnp.isneginf(new) | jnp.isnan(new), jnp.isneginf(old)
    change = jnp.where(impossible, -jnp.inf, new) - jnp.where(was_impossible, 0.0, old)
    return jnp.where(was_impossible, jnp.where(impossible, 0.0, jnp.inf), change)


def accept(key: Array, log_ratio: Array) -> Array:
    """True with probability min(1, exp(log_ratio)); NaN is never accepted."""
    return jnp.log1p(-jax.random.uniform(key, dtype=float)) < log_ratio


def choose(accepted: Array, new: Any, old: Any) -> Any:
    """The new pytree if accepted, else the old one."""
    return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)
