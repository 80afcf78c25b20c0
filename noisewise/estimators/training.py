r"""The compiled training loop: it knows losses, minibatches and early stopping, and nothing of what
is learnt.

    for each epoch:  shuffle;  for each batch of rows:  Adam step on mean loss(q, *resample(key, rows));  validate

`resample` draws targets and conditions anew for the rows it is given, so that data may be noisy
afresh in every epoch. Whole epochs run inside one compiled program, with a dynamic number of rows
in a buffer of fixed size: data may grow from call to call without a new compilation. Members of an
ensemble, and independent trials, train side by side under `vmap`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import paramax

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, integer, number, placed
from noisewise.errors import InvalidInputError

Loss = Callable[[Any, Any, Any], Array]
"""(distribution, target, condition) -> the loss of each row (B,)."""

Watch = Callable[[int, float, float], bool]
"""(epochs so far, training loss, best validation loss) -> whether to stop."""

_VALIDATION_CHUNK = 50
_VALIDATION = 2**31 - 1  # stands in for the number of an epoch
_SECONDS_PER_CALL = 0.5
_MAX_EPOCHS_PER_CALL = 64
_USUAL_EPOCHS = 50
_BRIEF = (
    5e10  # about where ten rounds lose by slower steps what brief compiling saved before the first
)


def negative_log_prob(distribution: Any, target: Array, condition: Array) -> Array:
    """-log q(target | condition), averaged over the inner axis where there is one: targets (B, d)
    or (B, M, d).
    """
    loss = -distribution.log_prob(target, condition)
    return loss if loss.ndim == 1 else loss.mean(axis=1)


@dataclasses.dataclass(frozen=True)
class Training:
    """Adam with decoupled weight decay and clipped gradients, until the validation loss has not
    improved for `patience` epochs.

    What is validated, and returned, is the moving average of the weights over about 1 / (1 -
    averaging) steps; `averaging=0` takes the weights themselves. The learning rate is multiplied by
    `decay` each time half the patience has passed without an improvement; it starts at twice that
    of the paper.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    batch_size: int = 100
    clip: float = 5.0
    patience: int = 20
    max_epochs: int = 1000
    averaging: float = 0.99
    decay: float = 0.5

    def __post_init__(self) -> None:
        converters = {
            "learning_rate": number("learning_rate", above=0.0),
            "weight_decay": number("weight_decay", at_least=0.0),
            "batch_size": integer("batch_size", at_least=1),
            "clip": number("clip", above=0.0),
            "patience": integer("patience", at_least=1),
            "max_epochs": integer("max_epochs", at_least=1),
            "averaging": number("averaging", at_least=0.0, below=1.0),
            "decay": number("decay", above=0.0, at_most=1.0),
        }
        for name, converter in converters.items():
            object.__setattr__(self, name, converter(getattr(self, name)))

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """The transformation of gradients into steps at rate 1."""
        return optax.chain(
            optax.clip_by_global_norm(self.clip),
            optax.scale_by_adam(),
            optax.add_decayed_weights(self.weight_decay),
            optax.scale(-self.learning_rate),
        )


@dataclasses.dataclass(frozen=True)
class Trained:
    """Members with their best weights; losses are (epochs, E), or (epochs, T, E) for trials, NaN
    after a member has stopped.
    """

    members: Any
    train_losses: np.ndarray
    validation_losses: np.ndarray
    num_epochs: int


class _TrainingState(eqx.Module):
    weights: Any
    average: Any
    moments: Any
    best_weights: Any
    best: Array
    since: Array
    rate: Array
    epoch: Array
    key: Array


class _Rows(eqx.Module):
    """Padded row numbers with how many of them count."""

    train: Array
    validation: Array
    num_train: Array
    num_validation: Array


def train(
    key: Array,
    members: Any,
    resample: Any,
    *,
    train_rows: np.ndarray,
    validation_rows: np.ndarray,
    capacity: int,
    settings: Training | None = None,
    loss: Loss = negative_log_prob,
    validation: Any = None,
    watch: Watch | None = None,
) -> Trained:
    """Fit members, from `ensemble`, to what `resample(key, rows) -> (target, condition)` draws.

    `resample` is an `eqx.Module` whose arrays may change from call to call without a new
    compilation; it is traced in float64 and returns float32. `validation`, by default the same,
    draws once and for all. `capacity` bounds the number of rows over all calls that shall share one
    program. For T independent trials give T keys, members and resamplers with a leading axis T, and
    lists of T row arrays.
    """
    settings = settings or Training()
    validation = resample if validation is None else validation
    trials = isinstance(train_rows, (list, tuple))
    rows = (_stacked if trials else _padded)(train_rows, validation_rows, capacity)
    with jax.enable_x64(False):
        state, frozen = _start(key, members, settings, trials)
    losses: list[tuple[np.ndarray, np.ndarray]] = []
    epochs = 4
    with jax.enable_x64(True):
        resample, validation = _placed((resample, validation))
        brief = (
            jax.default_backend() == "cpu"
            and _work(state, resample, capacity, settings, trials) < _BRIEF
        )
        program = _briefly if brief else _thoroughly
        while True:
            started = time.monotonic()
            number = jnp.asarray(np.int32(epochs))
            state, train_loss, validation_loss, ran = program(
                state, frozen, resample, validation, rows, number, loss, settings, trials
            )
            ran = int(np.max(ran))
            losses.append((np.asarray(train_loss)[:ran], np.asarray(validation_loss)[:ran]))
            finished = bool(np.all(_finished(state, settings)))
            best = float(np.mean(state.best))
            if finished or (
                watch is not None
                and watch(int(np.max(state.epoch)), float(np.nanmean(losses[-1][0][-1])), best)
            ):
                break
            seconds = max(time.monotonic() - started, 1e-3)
            epochs = int(
                np.clip(
                    epochs * _SECONDS_PER_CALL / seconds, 1, min(2 * epochs, _MAX_EPOCHS_PER_CALL)
                )
            )
    train_losses, validation_losses = (np.concatenate(part) for part in zip(*losses, strict=True))
    return Trained(
        eqx.combine(state.best_weights, frozen), train_losses, validation_losses, len(train_losses)
    )


def _placed(tree: Any) -> Any:
    """The tree with its arrays where programs find them, each once, so that no call takes them
    there again.
    """
    known: dict[int, Array] = {}

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = placed(leaf)
        return known[id(leaf)]

    return jax.tree.map(place, tree)


def _padded(train_rows: np.ndarray, validation_rows: np.ndarray, capacity: int) -> _Rows:
    if not len(train_rows) or not len(validation_rows):
        raise InvalidInputError(
            f"Training needs rows to train on and rows to validate on, got {len(train_rows)} and"
            f" {len(validation_rows)}: simulate more."
        )
    if max(len(train_rows), len(validation_rows)) > capacity:
        raise InvalidInputError(
            f"capacity is {capacity}, got {len(train_rows)} + {len(validation_rows)} rows."
        )
    pad = lambda rows: np.pad(np.asarray(rows, dtype=np.int32), (0, capacity - len(rows)))  # noqa: E731
    return _Rows(
        pad(train_rows),
        pad(validation_rows),
        np.int32(len(train_rows)),
        np.int32(len(validation_rows)),
    )


def _stacked(train_rows: Any, validation_rows: Any, capacity: int) -> _Rows:
    each = [_padded(*pair, capacity) for pair in zip(train_rows, validation_rows, strict=True)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def _start(
    key: Array, members: Any, settings: Training, trials: bool
) -> tuple[_TrainingState, Any]:
    is_leaf = lambda leaf: isinstance(leaf, paramax.NonTrainable)  # noqa: E731
    weights, frozen = eqx.partition(members, eqx.is_inexact_array, is_leaf=is_leaf)
    first = jax.tree.leaves(weights)[0]
    axes = first.shape[: 2 if trials else 1]
    split = lambda k: jax.random.split(k, axes[-1])  # noqa: E731
    keys = jax.vmap(split)(key) if trials else split(key)
    zeros = np.zeros(axes, np.int32)
    return (
        _TrainingState(
            weights=weights,
            average=weights,
            moments=_moments(weights, settings, len(axes)),
            best_weights=weights,
            best=np.full(axes, np.inf, np.float32),
            since=zeros,
            rate=np.ones(axes, np.float32),
            epoch=zeros,
            key=keys,
        ),
        frozen,
    )


@filter_jit_fast_compile
def _moments(weights: Any, settings: Training, num_axes: int) -> Any:
    init = settings.optimiser.init
    for _ in range(num_axes):
        init = jax.vmap(init)
    return init(weights)


def _finished(state: _TrainingState, settings: Training) -> Array:
    return (state.since >= settings.patience) | (state.epoch >= settings.max_epochs)


def _work(
    state: _TrainingState, resample: Any, capacity: int, settings: Training, trials: bool
) -> float:
    """How many weights are applied to how many targets, if all rows are trained on: a measure of
    the time that it takes.
    """
    rows = jax.ShapeDtypeStruct((settings.batch_size,), jnp.int32)

    def draw(key: Array, resample: Any, rows: Array) -> Any:
        first = jax.tree.map(lambda leaf: leaf[0], resample) if trials else resample
        return first(key, rows)

    drawn = jax.tree.leaves(eqx.filter_eval_shape(draw, jax.random.key(0), resample, rows))
    num_targets = max(np.prod(leaf.shape[:-1]) for leaf in drawn) / settings.batch_size
    num_epochs = min(settings.max_epochs, _USUAL_EPOCHS)
    return (
        num_epochs
        * capacity
        * num_targets
        * sum(leaf.size for leaf in jax.tree.leaves(state.weights))
    )


def _run(
    state: _TrainingState,
    frozen: Any,
    resample: Any,
    validation: Any,
    rows: _Rows,
    num_epochs: Array,
    loss: Loss,
    settings: Training,
    trials: bool,
) -> tuple[_TrainingState, Array, Array, Array]:
    """At most `num_epochs` more epochs: the state, training and validation losses (64, ...), and
    how many epochs were run.
    """
    arrays, static = eqx.partition(frozen, eqx.is_array)

    def one(state: _TrainingState, arrays: Any, resample: Any, validation: Any, rows: _Rows) -> Any:
        member = _Member(arrays, static, resample, validation, rows, loss, settings)
        return member.run(state, num_epochs)

    run: Any = one
    if state.best.shape[-1] > 1:
        run = jax.vmap(run, in_axes=(0, 0, None, None, None), out_axes=(0, 1, 1, 0))
    else:
        run = _lone(run)
    if trials:
        run = jax.vmap(run, in_axes=(0, 0, 0, 0, 0), out_axes=(0, 1, 1, 0))
    return run(state, arrays, resample, validation, rows)


_briefly, _thoroughly = filter_jit_fast_compile(_run), eqx.filter_jit(_run)


def _lone(run: Any) -> Any:
    """`vmap` over an axis of length one, without its price."""

    def wrapped(state: _TrainingState, arrays: Any, *rest: Any) -> Any:
        first = lambda tree: jax.tree.map(lambda leaf: leaf[0], tree)  # noqa: E731
        state, train_losses, validation_losses, ran = run(first(state), first(arrays), *rest)
        state = jax.tree.map(lambda leaf: leaf[None], state)
        return state, train_losses[:, None], validation_losses[:, None], ran[None]

    return wrapped


@dataclasses.dataclass(frozen=True)
class _Member:
    """One estimator in training; its methods are traced."""

    arrays: Any
    static: Any
    resample: Any
    validation: Any
    rows: _Rows
    loss: Loss
    settings: Training

    def run(
        self, state: _TrainingState, num_epochs: Array
    ) -> tuple[_TrainingState, Array, Array, Array]:
        def proceed(carry: Any) -> Array:
            state, *_, ran = carry
            return (ran < num_epochs) & ~_finished(state, self.settings)

        def epoch(carry: Any) -> Any:
            state, train_losses, validation_losses, ran = carry
            state, train_loss, validation_loss = self._epoch(state)
            return (
                state,
                train_losses.at[ran].set(train_loss),
                validation_losses.at[ran].set(validation_loss),
                ran + 1,
            )

        empty = jnp.full(_MAX_EPOCHS_PER_CALL, jnp.nan, jnp.float32)
        return jax.lax.while_loop(proceed, epoch, (state, empty, empty, jnp.zeros((), jnp.int32)))

    def _epoch(self, state: _TrainingState) -> tuple[_TrainingState, Array, Array]:
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
        value = self._validate(state.average, jax.random.fold_in(state.key, _VALIDATION))
        with jax.enable_x64(False):
            return self._judge(state, value), (total / self.steps).astype(jnp.float32), value

    @property
    def steps(self) -> Array:
        """Steps per epoch."""
        return jnp.maximum(1, self.rows.num_train // self.settings.batch_size).astype(jnp.int32)

    def _shuffled(self, key: Array) -> Array:
        places = jnp.arange(len(self.rows.train), dtype=jnp.int32)
        bits = jax.random.bits(key, places.shape, jnp.uint32) >> 1
        order = jnp.where(places < self.rows.num_train, bits, jnp.uint32(2**32 - 1))
        return jax.lax.sort((order, self.rows.train), num_keys=1, is_stable=False)[1]

    def _distribution(self, weights: Any) -> Any:
        return paramax.unwrap(eqx.combine(weights, self.arrays, self.static))

    def _step(self, state: _TrainingState, data: Any) -> tuple[_TrainingState, Array]:
        mean_loss = lambda weights: self.loss(self._distribution(weights), *data).mean()  # noqa: E731
        value, gradients = jax.value_and_grad(mean_loss)(state.weights)
        good = jnp.isfinite(value) & jnp.isfinite(optax.global_norm(gradients))
        updates, moments = self.settings.optimiser.update(gradients, state.moments, state.weights)
        weights = jax.tree.map(lambda w, u: w + state.rate * u, state.weights, updates)
        keep = lambda new, old: jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)  # noqa: E731
        weights, moments = keep(weights, state.weights), keep(moments, state.moments)
        share = 1.0 - self.settings.averaging
        average = jax.tree.map(lambda a, w: a + share * (w - a), state.average, weights)
        state = dataclasses.replace(state, weights=weights, moments=moments, average=average)
        return state, jnp.where(good, value, 0.0)

    def _validate(self, weights: Any, key: Array) -> Array:
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

    def _judge(self, state: _TrainingState, value: Array) -> _TrainingState:
        better = value < state.best
        since = jnp.where(better, 0, state.since + 1)
        stuck = (since > 0) & (since % max(1, self.settings.patience // 2) == 0)
        return dataclasses.replace(
            state,
            best_weights=jax.tree.map(
                lambda a, b: jnp.where(better, a, b), state.average, state.best_weights
            ),
            best=jnp.where(better, value, state.best),
            since=since.astype(jnp.int32),
            rate=jnp.where(stuck, state.rate * self.settings.decay, state.rate).astype(jnp.float32),
            epoch=state.epoch + 1,
        )
