r"""Training of networks: it knows losses, minibatches and early stopping, and nothing of what is
learnt.

    for each epoch:
        shuffle
        for each batch of rows:  one step of Adam on mean loss(q, *resample(key, rows))
        validate

`resample` draws targets and conditions for the rows it is given, so that data may get fresh noise
in every epoch. Members of an ensemble, and independent trials, train side by side under `vmap`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from noisewise._core.arrays import Array, integer, number, placed
from noisewise.estimators import _training_loop as loop
from noisewise.estimators.members import Estimator
from noisewise.estimators.widening import CanBeWidened

Loss = Callable[[Any, Any, Any], Array]
"""(distribution, target, condition) -> the loss of each row (b,)."""

Resample = Callable[[Array, Array], tuple[Any, Array]]
"""(key, rows) -> targets and conditions of these rows, drawn again at each call."""

Watch = Callable[[int, float, float], bool]
"""(epochs so far, training loss, best validation loss) -> whether to stop."""

_FIRST_EPOCHS = 4
"""Epochs in the first call of the program, before it is known how long one takes."""
_SECONDS_PER_CALL = 0.5
"""Seconds that one call of the program should last: long compared with the cost of a call, short
enough that a budget of time is kept and progress is shown.
"""
_USUAL_EPOCHS = 50
"""Epochs that a training usually takes, to guess how long it will last."""
_WORK_TO_OPTIMISE = 5e10
"""Weights applied to targets, in all epochs, from which the program is compiled with all
optimisations on a CPU: about where ten rounds lose by slower steps what fast compiling saved before
the first.
"""


def negative_log_prob(
    distribution: Estimator, target: Float[Array, "b ... d"], condition: Float[Array, "b ... w"]
) -> Float[Array, " b"]:
    """-log q(target | condition), averaged over the inner axis where there is one: targets (b, d)
    or (b, m, d).
    """
    loss = -distribution.log_prob(target, condition)
    return loss if loss.ndim == 1 else loss.mean(axis=1)


@dataclasses.dataclass(frozen=True)
class Training:
    """How networks are trained: Adam with decoupled weight decay and clipped gradients, until the
    validation loss has not improved for `patience` epochs.

    The defaults serve 1,000 to 100,000 simulations. Raise `batch_size` with the number of
    simulations where training is slower than simulating; lower `max_epochs` for a rough answer.

    Args:
        learning_rate: Of Adam, at first; twice the paper's, because it decreases.
        weight_decay: Decoupled from the gradients; the paper's.
        batch_size: Rows per step; the paper's.
        clip: The largest norm of a gradient, which keeps single outliers from undoing what was
            learnt; 5 as in sbi.
        patience: Epochs without a better validation loss after which training ends; the paper's.
        max_epochs: A limit that training rarely reaches; the report says so where it does.
        averaging: What is validated, and returned, is the moving average of the weights over about
            1 / (1 - averaging) steps, which removes the noise of single steps; 0 takes the weights.
        decay: Factor on the learning rate each time half the patience has passed without a better
            validation loss.

    >>> Training(max_epochs=100).learning_rate
    0.001
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
    """What `train` returns: members with their best weights, and losses per epoch.

    Losses are (epochs, E) for E members, or (epochs, T, E) for T trials, NaN once a member has
    stopped.
    """

    members: Estimator
    train_losses: Float[np.ndarray, "epochs ..."]
    validation_losses: Float[np.ndarray, "epochs ..."]
    num_epochs: int


def train(
    key: Array,
    members: Estimator,
    resample: Resample,
    *,
    train_rows: Int[np.ndarray, " n"] | Sequence[Int[np.ndarray, " n"]],
    validation_rows: Int[np.ndarray, " v"] | Sequence[Int[np.ndarray, " v"]],
    capacity: int,
    settings: Training | None = None,
    loss: Loss = negative_log_prob,
    validation: Resample | None = None,
    watch: Watch | None = None,
) -> Trained:
    """Fit an ensemble to what `resample(key, rows) -> (target, condition)` draws.

    For T independent trials give T keys, members and resamplers with a leading axis T (`stacked`),
    and sequences of T row arrays.

    Args:
        key: JAX PRNG key of batches and of what `resample` draws.
        members: Networks, as `ensemble` makes them.
        resample: An `eqx.Module` whose arrays may change from call to call without a new
            compilation; it is traced in float64 and returns float32.
        train_rows: Row numbers to train on.
        validation_rows: Row numbers that the validation loss is computed on.
        capacity: The most rows in any call that is to share this program.
        settings: How to train; `Training()` by default.
        loss: What is minimised, on average over rows.
        validation: Draws the validation data, with the same key in all epochs; by default
            `resample`.
        watch: Called periodically with (epochs, training loss, best validation loss); returns
            whether to stop.

    Returns:
        The members with the best weights found, and the losses of all epochs.

    Raises:
        InvalidInputError: If there are no rows to train or to validate on, or more than `capacity`.
    """
    settings = settings or Training()
    validation = resample if validation is None else validation
    trials = isinstance(train_rows, (list, tuple))
    pad: Any = loop.stacked_rows if trials else loop.padded
    rows = pad(train_rows, validation_rows, capacity)
    drawn = _drawn(resample, settings, trials)
    wide = _as_wide_as(members, drawn)
    with jax.enable_x64(False):
        state, kept = loop.start(key, wide, settings, trials)
    losses: list[tuple[np.ndarray, np.ndarray]] = []
    epochs = _FIRST_EPOCHS
    with jax.enable_x64(True):
        resample, validation = _placed((resample, validation))
        program = loop.run_compiled_fast
        if _is_long(_work(state, drawn, capacity, settings)):
            program = loop.run_optimised
        while True:
            started = time.monotonic()
            wanted = placed(np.asarray(epochs, np.int32))
            state, *found, ran = program(
                state, kept, resample, validation, rows, wanted, loss, settings, trials
            )
            num = int(np.asarray(ran).max())
            train_losses, validation_losses = (np.asarray(part)[:num] for part in found)
            losses.append((train_losses, validation_losses))
            if _ends(state, train_losses, settings, watch):
                break
            epochs = _next_epochs(epochs, time.monotonic() - started)
    train_losses, validation_losses = (np.concatenate(part) for part in zip(*losses, strict=True))
    with jax.enable_x64(False):
        best = loop.best(state, kept)
        if isinstance(members, CanBeWidened) and wide is not members:
            best = _placed(members.narrowed(best))
    return Trained(best, train_losses, validation_losses, len(train_losses))


def _ends(
    state: loop.TrainingState, losses: np.ndarray, settings: Training, watch: Watch | None
) -> bool:
    """Whether all estimators have finished, or `watch` says stop."""
    since, epoch, best = (np.asarray(part) for part in (state.since, state.epoch, state.best))
    done = bool(((since >= settings.patience) | (epoch >= settings.max_epochs)).all())
    if done or watch is None:
        return done
    return watch(int(epoch.max()), float(np.nanmean(losses[-1])), float(best.mean()))


def _next_epochs(epochs: int, seconds: float) -> int:
    """Epochs for the next call, to last `_SECONDS_PER_CALL`; at most twice the number before."""
    wanted = epochs * _SECONDS_PER_CALL / max(seconds, 1e-3)
    return int(np.clip(wanted, 1, min(2 * epochs, loop.MAX_EPOCHS_PER_CALL)))


def _placed(tree: Any) -> Any:
    """The tree with its arrays where programs find them, each once, so that no call copies them
    again.
    """
    known: dict[int, Array] = {}

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = placed(leaf)
        return known[id(leaf)]

    return jax.tree.map(place, tree)


def _is_long(work: float) -> bool:
    """Whether a training is worth a slower compilation; accelerators always compile so."""
    return jax.default_backend() != "cpu" or work >= _WORK_TO_OPTIMISE


def _drawn(resample: Any, settings: Training, trials: bool) -> Any:
    """The shapes of a batch: targets and conditions."""
    rows = jax.ShapeDtypeStruct((settings.batch_size,), jnp.int32)

    def draw(key: Array, resample: Any, rows: Array) -> Any:
        first = jax.tree.map(lambda leaf: leaf[0], resample) if trials else resample
        return first(key, rows)

    with jax.enable_x64(True):
        return eqx.filter_eval_shape(draw, jax.random.key(0), resample, rows)


def _as_wide_as(members: Estimator, drawn: Any) -> Any:
    """The members with columns for all that is drawn, zeros included, where they can have some."""
    if not isinstance(members, CanBeWidened):
        return members
    target, condition = drawn
    return _placed(members.widened(target.shape[-1], condition.shape[-1]))


def _work(state: loop.TrainingState, drawn: Any, capacity: int, settings: Training) -> float:
    """How many weights are applied to how many targets, if all rows are trained on: a measure of
    the time that it takes.
    """
    leaves = jax.tree.leaves(drawn)
    num_targets = max(np.prod(leaf.shape[:-1]) for leaf in leaves) / settings.batch_size
    num_epochs = min(settings.max_epochs, _USUAL_EPOCHS)
    return num_epochs * capacity * num_targets * state.weights.size
