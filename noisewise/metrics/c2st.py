"""Classifier two-sample test."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, integer
from noisewise._core.draws import two_samples
from noisewise.errors import InvalidInputError

# These settings are scikit-learn's defaults for `MLPClassifier`, which sbibm uses
_BATCH = 200  # rows per step
_LEARNING_RATE = 1e-3  # of Adam
_L2_PENALTY = 1e-4  # on weights, not on biases
_TOLERANCE = 1e-4  # smallest fall of the epoch's mean loss that counts as progress
_PATIENCE = 10  # epochs without progress before training ends
_MAX_EPOCHS = 10_000  # sbibm's own bound, which is hardly ever reached

_Network = list[tuple[Array, Array]]
"""Weights and biases, layer by layer."""


def c2st(
    reference: Float[Array, "n d"], draws: Float[Array, "m d"], *, num_folds: int = 5, seed: int = 1
) -> float:
    """How well a neural classifier separates two sets of draws: .5 when they agree, 1 when it
    never errs.

    Use it where one number should cover all parameters and their dependence. It is the test of
    sbibm:
    both sets are standardised with the mean and sd of the reference; a network with two hidden
    layers of 10 d rectified units is trained by Adam (rate 1e-3, batches of 200, L2 penalty 1e-4)
    until the training loss has not fallen by 1e-4 for ten epochs; the accuracy is averaged over the
    folds. The folds train at once in one compiled program, and the answer is a function of the
    arguments alone.

    Floor: for two sets of 2000 exact draws of one law the value is .49 in one and two dimensions
    and .50 in three, with sd .01, that of 4000 fair coins being .008. It is below .5 where the
    network only learns which set is the larger part of its training rows, because that is the
    smaller part of the fold: the folds of sbibm are not balanced. A shift of h sd in one of d
    independent normal columns gives the best classifier Phi(h/2), .540 for h = .2; with 2000 draws
    the network reaches .535 in one and two dimensions and .518 in three.

    Args:
        reference: Draws from the exact posterior, shape (n, d).
        draws: Draws to judge, shape (n, d), as many as reference draws.
        num_folds: Folds of the cross-validation, at least 2.
        seed: Seed of the folds, the first weights and the batches.

    Returns:
        The accuracy on held-out rows, averaged over folds.

    Raises:
        InvalidInputError: If the sets differ in size, or a column of the reference is constant.

    References:
        J.-M. Lueckmann et al., Benchmarking simulation-based inference, AISTATS (2021).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(2, 200, 2))
        >>> abs(c2st(x, y) - 0.5) < 0.08, c2st(x, y + 4.0) > 0.95
        (True, True)
    """
    num_folds = integer("num_folds", at_least=2)(num_folds)
    seed = integer("seed", at_least=0)(seed)
    first, second = two_samples(reference, draws, allow_constant=False)
    if len(first) != len(second):
        raise InvalidInputError(
            f"c2st needs as many draws as reference draws, got {len(second)} and {len(first)}: "
            "with unequal sizes .5 is not the value of agreement. Thin the larger set."
        )
    center, scale = first.mean(axis=0), first.std(axis=0)
    data = np.concatenate([(first - center) / scale, (second - center) / scale])
    labels = np.repeat([0.0, 1.0], len(first))
    folds = np.array_split(np.random.RandomState(seed).permutation(len(data)), num_folds)
    size = max(len(fold) for fold in folds)
    padded = np.stack([np.pad(fold, (0, size - len(fold)), constant_values=-1) for fold in folds])
    with jax.enable_x64(False):
        keys = jax.random.split(jax.random.key(seed), num_folds)
        accuracy = _fold_accuracies(
            keys,
            jnp.asarray(data, jnp.float32),
            jnp.asarray(labels, jnp.float32),
            jnp.asarray(padded, jnp.int32),
        )
        return float(np.mean(np.asarray(accuracy, dtype=np.float64)))


@jax.jit
def _fold_accuracies(keys: Array, data: Array, labels: Array, folds: Array) -> Array:
    return jax.vmap(lambda key, fold: _fold_accuracy(key, data, labels, fold))(keys, folds)


def _fold_accuracy(key: Array, data: Array, labels: Array, fold: Array) -> Array:
    """Train without the rows in `fold` (padded with -1); return the accuracy on them."""
    total = len(data)
    held_out = jnp.zeros(total + 1, bool).at[fold].set(True)[:total]
    init_key, train_key = jax.random.split(key)
    network = _train(train_key, _initial(init_key, data.shape[1]), data, labels, ~held_out)
    correct = (_logits(network, data) > 0) == (labels > 0.5)
    return jnp.sum(correct * held_out) / jnp.sum(held_out)


def _initial(key: Array, dim: int) -> _Network:
    sizes = [dim, 10 * dim, 10 * dim, 1]
    layers = []
    for layer_key, fan_in, fan_out in zip(
        jax.random.split(key, 3), sizes[:-1], sizes[1:], strict=True
    ):
        bound = (6.0 / (fan_in + fan_out)) ** 0.5
        weight_key, bias_key = jax.random.split(layer_key)
        weight = jax.random.uniform(weight_key, (fan_in, fan_out), minval=-bound, maxval=bound)
        layers.append(
            (weight, jax.random.uniform(bias_key, (fan_out,), minval=-bound, maxval=bound))
        )
    return layers


def _logits(network: _Network, data: Array) -> Array:
    *hidden, (weight, bias) = network
    for w, b in hidden:
        data = jax.nn.relu(data @ w + b)
    return (data @ weight + bias)[..., 0]


def _loss(network: _Network, data: Array, labels: Array, weights: Array) -> Array:
    """Cross-entropy summed over rows of weight 1, plus the penalty shared out per batch."""
    cross_entropy = jax.nn.softplus(_logits(network, data)) - labels * _logits(network, data)
    penalty = sum(jnp.sum(weight**2) for weight, _ in network)
    return jnp.sum(weights * cross_entropy) + 0.5 * _L2_PENALTY * penalty


def _train(key: Array, network: _Network, data: Array, labels: Array, use: Array) -> _Network:
    """Adam over shuffled batches until the epoch's mean loss stops falling."""
    num = len(data)
    num_batches = -(-num // _BATCH)

    def step(carry: Any, rows: Array) -> Any:
        network, first, second, count, total = carry
        weights = jnp.where(rows < num, use[rows], False).astype(jnp.float32)
        size = weights.sum()
        loss, gradient = jax.value_and_grad(_loss)(network, data[rows], labels[rows], weights)
        gradient = jax.tree.map(lambda g: g / jnp.maximum(size, 1.0), gradient)
        count = count + 1.0
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
        rate = _LEARNING_RATE * jnp.sqrt(1.0 - 0.999**count) / (1.0 - 0.9**count)
        network = jax.tree.map(
            lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), network, first, second
        )
        return (network, first, second, count, total + loss), None

    def epoch(state: Any) -> Any:
        key, network, first, second, count, best, stalled, epochs = state
        key, shuffle_key = jax.random.split(key)
        # training rows first, in random order; held-out rows and padding have weight zero in the
        # last batches
        order = jnp.argsort(jnp.where(use, jax.random.uniform(shuffle_key, (num,)), 2.0))
        rows = jnp.pad(order, (0, num_batches * _BATCH - num), constant_values=num).reshape(
            num_batches, _BATCH
        )
        used = -(-use.sum() // _BATCH)
        carry = (network, first, second, count, jnp.zeros(()))
        carry = jax.lax.fori_loop(0, used, lambda i, c: step(c, rows[i])[0], carry)
        network, first, second, count, total = carry
        loss = total / use.sum()
        stalled = jnp.where(loss > best - _TOLERANCE, stalled + 1, 0)
        return key, network, first, second, count, jnp.minimum(best, loss), stalled, epochs + 1

    zeros = jax.tree.map(jnp.zeros_like, network)
    start = (
        key,
        network,
        zeros,
        zeros,
        jnp.zeros(()),
        jnp.asarray(jnp.inf),
        jnp.asarray(0),
        jnp.asarray(0),
    )
    running = lambda state: (state[-2] <= _PATIENCE) & (state[-1] < _MAX_EPOCHS)  # noqa: E731
    return jax.lax.while_loop(running, epoch, start)[1]
