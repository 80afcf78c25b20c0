"""The compiled part of training: whole epochs in one program, one estimator or several side by
side.

Rows are numbers in a buffer of fixed size, of which a dynamic number counts: data may grow from
call to call without a new compilation. (A padded buffer with masked steps would compute every
masked step under `vmap`; a loop with a dynamic number of trips does not.)

The weights of a network are one vector here: what is done to each of them, by the optimiser above
all, is then compiled once and not for each matrix.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from jaxtyping import Bool, Float, Int

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, placed
from noisewise._core.keys import split_array
from noisewise.errors import InvalidInputError
from noisewise.estimators.members import Estimator

if TYPE_CHECKING:
    from noisewise.estimators.training import Loss, Training

MAX_EPOCHS_PER_CALL = 64
"""Epochs that one call of the program runs at most: the size of its buffers of losses."""
_VALIDATION_CHUNK = 50
"""Rows of the validation set evaluated at a time: half a default batch, so that small sets cost
little; results do not depend on it.
"""
_VALIDATION_KEY = 2**31 - 1
"""Stands in for the number of an epoch in the key of the validation noise, which is the same in all
epochs: larger than any epoch.
"""


class Weights(eqx.Module):
    """How a vector holds the arrays of an estimator."""

    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @staticmethod
    def of(tree: Any, num_axes: int) -> Weights:
        """That of a tree whose arrays have `num_axes` leading axes."""
        leaves, structure = jax.tree.flatten(tree)
        return Weights(tuple(leaf.shape[num_axes:] for leaf in leaves), structure)

    def flat(self, tree: Any) -> Float[np.ndarray, "*batch p"]:
        """All arrays of the tree, on a last axis."""
        parts = [
            np.asarray(leaf).reshape(*leaf.shape[: leaf.ndim - len(shape)], -1)
            for leaf, shape in zip(jax.tree.leaves(tree), self.shapes, strict=True)
        ]
        return np.concatenate(parts, axis=-1)

    def tree(self, flat: Float[Array, "*batch p"]) -> Any:
        """The tree of a vector, or of several."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        leaves = [
            flat[..., end - math.prod(shape) : end].reshape(*flat.shape[:-1], *shape)
            for end, shape in zip(ends, self.shapes, strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)


class TrainingState(eqx.Module):
    """One estimator in training, or several on leading axes (members, or trials and members)."""

    weights: Float[Array, "*batch p"]
    average: Float[Array, "*batch p"]
    """The moving average of the weights, which is validated."""
    moments: Any
    """What the optimiser keeps."""
    best_weights: Float[Array, "*batch p"]
    best: Float[Array, "*batch"]
    """The best validation loss so far, at `best_weights`."""
    since: Int[Array, "*batch"]
    """Epochs since then."""
    rate: Float[Array, "*batch"]
    """The factor on the learning rate."""
    epoch: Int[Array, "*batch"]
    key: Array


class RowNumbers(eqx.Module):
    """Row numbers, padded, and how many of them count."""

    train: Int[Array, " capacity"]
    validation: Int[Array, " capacity"]
    num_train: Int[Array, ""]
    num_validation: Int[Array, ""]


def padded(train_rows: np.ndarray, validation_rows: np.ndarray, capacity: int) -> RowNumbers:
    """Row numbers in buffers of size `capacity`."""
    if not len(train_rows) or not len(validation_rows):
        raise InvalidInputError(
            f"Training needs rows to train on and rows to validate on, got {len(train_rows)} and"
            f" {len(validation_rows)}: simulate more."
        )
    if max(len(train_rows), len(validation_rows)) > capacity:
        raise InvalidInputError(
            f"capacity is {capacity}, got {len(train_rows)} + {len(validation_rows)} rows."
        )

    def pad(rows: np.ndarray) -> np.ndarray:
        return np.pad(np.asarray(rows, dtype=np.int32), (0, capacity - len(rows)))

    return RowNumbers(
        pad(train_rows),
        pad(validation_rows),
        np.int32(len(train_rows)),
        np.int32(len(validation_rows)),
    )


def stacked_rows(
    train_rows: Sequence[np.ndarray], validation_rows: Sequence[np.ndarray], capacity: int
) -> RowNumbers:
    """The same for each of several trials, on a leading axis."""
    each = [padded(*pair, capacity) for pair in zip(train_rows, validation_rows, strict=True)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def start(
    key: Array, members: Estimator, settings: Training, trials: bool
) -> tuple[TrainingState, Any]:
    """The state before the first step, and what of the members is not trained."""
    is_leaf = lambda leaf: isinstance(leaf, paramax.NonTrainable)  # noqa: E731
    trained, frozen = eqx.partition(members, eqx.is_inexact_array, is_leaf=is_leaf)
    axes = jax.tree.leaves(trained)[0].shape[: 2 if trials else 1]
    layout = Weights.of(trained, len(axes))
    weights = layout.flat(trained)
    split = functools.partial(jax.random.split, num=axes[-1])
    keys = jax.vmap(split)(key) if trials else split_array(key, axes[-1])
    zeros = np.zeros(axes, np.int32)
    return (
        TrainingState(
            weights=weights,
            average=weights,
            moments=_moments(weights, settings),
            best_weights=weights,
            best=np.full(axes, np.inf, np.float32),
            since=zeros,
            rate=np.ones(axes, np.float32),
            epoch=zeros,
            key=keys,
        ),
        (layout, frozen),
    )


def best(state: TrainingState, kept: tuple[Weights, Any]) -> Estimator:
    """The estimators with the best weights so far.

    Args:
        state: The state.
        kept: What is not trained, from `start`.
    """
    layout, frozen = kept
    trained = jax.tree.map(placed, layout.tree(np.asarray(state.best_weights)))
    return eqx.combine(trained, frozen)


def _moments(weights: Float[np.ndarray, "*batch p"], settings: Training) -> Any:
    """What the optimiser keeps of each estimator, at first: zeros."""
    one = jax.ShapeDtypeStruct(weights.shape[-1:], weights.dtype)
    kept = jax.eval_shape(settings.optimiser.init, one)
    lead = weights.shape[:-1]
    return jax.tree.map(lambda leaf: np.zeros((*lead, *leaf.shape), leaf.dtype), kept)


def finished(state: TrainingState, settings: Training) -> Bool[Array, "*batch"]:
    """Which estimators have stopped improving, or have had all their epochs."""
    return (state.since >= settings.patience) | (state.epoch >= settings.max_epochs)


def _run(
    state: TrainingState,
    kept: tuple[Weights, Any],
    resample: Any,
    validation: Any,
    rows: RowNumbers,
    num_epochs: Array,
    loss: Loss,
    settings: Training,
    trials: bool,
) -> tuple[TrainingState, Array, Array, Array]:
    """At most `num_epochs` more epochs: the state, training and validation losses (64, ...), and
    the number of epochs run.
    """
    layout, frozen = kept
    arrays, static = eqx.partition(frozen, eqx.is_array)

    def one(
        state: TrainingState, arrays: Any, resample: Any, validation: Any, rows: RowNumbers
    ) -> Any:
        member = _Member(layout, arrays, static, resample, validation, rows, loss, settings)
        return member.run(state, num_epochs)

    run: Any = one
    if state.best.shape[-1] > 1:
        run = jax.vmap(run, in_axes=(0, 0, None, None, None), out_axes=(0, 1, 1, 0))
    else:
        run = _lone(run)
    if trials:
        run = jax.vmap(run, in_axes=(0, 0, 0, 0, 0), out_axes=(0, 1, 1, 0))
    return run(state, arrays, resample, validation, rows)


run_compiled_fast, run_optimised = filter_jit_fast_compile(_run), eqx.filter_jit(_run)
"""The same program, compiled in less than half the time or so that steps take a fifth less."""


def _lone(run: Any) -> Any:
    """`vmap` over an axis of length one, without its price."""

    def wrapped(state: TrainingState, arrays: Any, *rest: Any) -> Any:
        first = lambda tree: jax.tree.map(lambda leaf: leaf[0], tree)  # noqa: E731
        state, train_losses, validation_losses, ran = run(first(state), first(arrays), *rest)
        state = jax.tree.map(lambda leaf: leaf[None], state)
        return state, train_losses[:, None], validation_losses[:, None], ran[None]

    return wrapped


@dataclasses.dataclass(frozen=True)
class _Member:
    """One estimator in training; its methods are traced."""

    layout: Weights
    arrays: Any
    static: Any
    resample: Any
    validation: Any
    rows: RowNumbers
    loss: Loss
    settings: Training

    def run(
        self, state: TrainingState, num_epochs: Array
    ) -> tuple[TrainingState, Array, Array, Array]:
        """At most `num_epochs` epochs, unless the estimator has finished before."""

        def proceed(carry: Any) -> Array:
            state, *_, ran = carry
            return (ran < num_epochs) & ~finished(state, self.settings)

        def epoch(carry: Any) -> Any:
            state, train_losses, validation_losses, ran = carry
            state, train_loss, validation_loss = self._epoch(state)
            return (
                state,
                train_losses.at[ran].set(train_loss),
                validation_losses.at[ran].set(validation_loss),
                ran + 1,
            )

        empty = jnp.full(MAX_EPOCHS_PER_CALL, jnp.nan, jnp.float32)
        return jax.lax.while_loop(proceed, epoch, (state, empty, empty, jnp.zeros((), jnp.int32)))

    def _epoch(self, state: TrainingState) -> tuple[TrainingState, Array, Array]:
        """One pass over the rows, and the validation after it."""
        key = jax.random.fold_in(state.key, state.epoch)
        order = self._shuffled(jax.random.fold_in(key, 0))
        batch = jnp.arange(self.settings.batch_size, dtype=jnp.int32)

        def step(number: Array, carry: Any) -> Any:
            state, total = carry
            rows = order[(number * self.settings.batch_size + batch) % self.rows.num_train]
            data = self.resample(jax.random.fold_in(key, number + 1), rows)
            with jax.enable_x64(False):
                state, value = self._step(state, data)
                return state, total + value

        state, total = jax.lax.fori_loop(
            jnp.int32(0), self.steps, step, (state, jnp.zeros((), jnp.float32))
        )
        value = self._validate(state.average, jax.random.fold_in(state.key, _VALIDATION_KEY))
        with jax.enable_x64(False):
            return self._judge(state, value), (total / self.steps).astype(jnp.float32), value

    @property
    def steps(self) -> Array:
        """Steps per epoch."""
        return jnp.maximum(1, self.rows.num_train // self.settings.batch_size).astype(jnp.int32)

    def _shuffled(self, key: Array) -> Array:
        """The training rows in random order, with the padding behind them."""
        places = jnp.arange(len(self.rows.train), dtype=jnp.int32)
        bits = jax.random.bits(key, places.shape, jnp.uint32) >> 1
        order = jnp.where(places < self.rows.num_train, bits, jnp.uint32(2**32 - 1))
        return jax.lax.sort((order, self.rows.train), num_keys=1, is_stable=False)[1]

    def _distribution(self, weights: Array) -> Any:
        """The estimator with these weights."""
        return paramax.unwrap(eqx.combine(self.layout.tree(weights), self.arrays, self.static))

    def _step(self, state: TrainingState, data: Any) -> tuple[TrainingState, Array]:
        """One step of the optimiser; none where the loss or the gradient is not finite."""

        def mean_loss(weights: Array) -> Array:
            return self.loss(self._distribution(weights), *data).mean()

        value, gradients = jax.value_and_grad(mean_loss)(state.weights)
        good = jnp.isfinite(value) & jnp.isfinite(gradients).all()
        updates, moments = self.settings.optimiser.update(gradients, state.moments, state.weights)
        weights = jnp.where(good, state.weights + state.rate * updates, state.weights)
        moments = jax.tree.map(lambda a, b: jnp.where(good, a, b), moments, state.moments)
        share = 1.0 - self.settings.averaging
        average = state.average + share * (weights - state.average)
        state = dataclasses.replace(state, weights=weights, moments=moments, average=average)
        return state, jnp.where(good, value, 0.0)

    def _validate(self, weights: Array, key: Array) -> Array:
        """The validation loss, with the same noise in each epoch."""
        places = jnp.arange(_VALIDATION_CHUNK, dtype=jnp.int32)
        distribution = self._distribution(weights)

        def chunk(number: Array, total: Array) -> Array:
            at = number * _VALIDATION_CHUNK + places
            data = self.validation(
                jax.random.fold_in(key, number), self.rows.validation[at % self.rows.num_validation]
            )
            with jax.enable_x64(False):
                values = self.loss(distribution, *data)
                return total + jnp.where(at < self.rows.num_validation, values, 0.0).sum()

        chunks = -(-self.rows.num_validation // _VALIDATION_CHUNK)
        total = jax.lax.fori_loop(jnp.int32(0), chunks, chunk, jnp.zeros((), jnp.float32))
        return (total / self.rows.num_validation).astype(jnp.float32)

    def _judge(self, state: TrainingState, value: Array) -> TrainingState:
        """Compare a validation loss with the best one; reduce the learning rate where none has been
        better for half the patience.
        """
        better = value < state.best
        since = jnp.where(better, 0, state.since + 1)
        stuck = (since > 0) & (since % max(1, self.settings.patience // 2) == 0)
        return dataclasses.replace(
            state,
            best_weights=jnp.where(better, state.average, state.best_weights),
            best=jnp.where(better, value, state.best),
            since=since.astype(jnp.int32),
            rate=jnp.where(stuck, state.rate * self.settings.decay, state.rate).astype(jnp.float32),
            epoch=state.epoch + 1,
        )
