"""A short training on fixed pairs, to time its steps."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import noisewise as nw
from noisewise.estimators.members import ensemble
from noisewise.estimators.training import Training, train


class Rows(eqx.Module):
    """Fixed pairs."""

    target: Any
    condition: Any

    def __call__(self, key: Any, rows: Any) -> tuple[Any, Any]:
        return self.target[rows], self.condition[rows]


def pairs(num: int, *dims: int) -> tuple[np.ndarray, ...]:
    """Standard normal numbers (num, dim), for each dim."""
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=(num, dim)).astype(np.float32) for dim in dims)


def training(
    target: np.ndarray,
    condition: np.ndarray,
    *,
    batch: int,
    epochs: int,
    checks: int,
    num_layers: int = 8,
) -> tuple[Callable[[], None], int, int]:
    """So many epochs of the paper's flow, the loss of the last `checks` rows found after each; its
    steps, and the number of weights.
    """
    num = len(target)
    flow = functools.partial(nw.estimators.neural_spline_flow, num_layers=num_layers)
    members = ensemble(jax.random.key(0), flow, 1, target.shape[1], condition.shape[1])
    weights = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(members, eqx.is_inexact_array)))
    settings = Training(max_epochs=epochs, patience=epochs, batch_size=batch)
    rows: dict[str, Any] = {
        "train_rows": np.arange(num - checks),
        "validation_rows": np.arange(num - checks, num),
    }
    data = Rows(jnp.asarray(target), jnp.asarray(condition))

    def run() -> None:
        train(jax.random.key(1), members, data, settings=settings, capacity=num, **rows)

    return run, epochs * ((num - checks) // batch), weights
