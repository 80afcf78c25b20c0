"""Columns that are not in use change nothing."""

import functools
import logging

import equinox as eqx
import jax
import numpy as np
import pytest

from noisewise.estimators import Training, ensemble, train
from noisewise.estimators.coordinate_mixtures import autoregressive_mixture
from noisewise.estimators.widening import few_widths
from noisewise.inference.learned.common.noisy_targets import NoisyTargets
from tests.estimators.catalogue import perturbed

KEY = jax.random.key(0)
SIZES = [(3, 2, 4, 4, 1), (5, 3, 8, 4, 2), (4, 1, 4, 2, 1)]
RNG = np.random.default_rng(0)


def padded(values, width):
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, width - values.shape[-1])])


def weights(tree):
    return jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))


@pytest.mark.parametrize(("d", "k", "wide_d", "wide_k", "layers"), SIZES)
def test_densities_and_gradients_are_those_of_the_narrow_law(d, k, wide_d, wide_k, layers):
    law = perturbed(autoregressive_mixture(KEY, d, k, num_layers=layers, num_units=7))
    wide = law.widened(wide_d, wide_k)
    x, c = RNG.normal(size=(6, d)).astype("f4"), RNG.normal(size=(6, k)).astype("f4")
    x_wide, c_wide = padded(x, wide_d), padded(c, wide_k)
    value = eqx.filter_jit(eqx.filter_value_and_grad(lambda law, x, c: law.log_prob(x, c).sum()))
    (narrow_value, narrow_slope), (wide_value, wide_slope) = (
        value(law, x, c),
        value(wide, x_wide, c_wide),
    )
    # float32 sums in another order: 1e-6 of values up to 100
    np.testing.assert_allclose(wide_value, narrow_value, rtol=1e-5)
    for ours, theirs in zip(weights(law.narrowed(wide_slope)), weights(narrow_slope), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    # nothing reaches the others
    total = [
        sum(float(np.abs(leaf).sum()) for leaf in weights(tree))
        for tree in (wide_slope, narrow_slope)
    ]
    assert total[0] == pytest.approx(total[1], rel=1e-5)
    for ours, theirs in zip(weights(law.narrowed(wide)), weights(law), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def fitted(d, k, *, wide):
    rng = np.random.default_rng(1)
    c = rng.normal(size=(300, k))
    t = c.sum(axis=1)[:, None, None] + rng.normal(size=(300, 4, d))
    pairs = NoisyTargets.of(t, c, 300)
    factory = functools.partial(autoregressive_mixture, num_units=8, num_components=2)
    return train(
        KEY,
        ensemble(KEY, factory, 2, d, k),
        pairs.widened(few_widths(d), few_widths(k)) if wide else pairs,
        train_rows=np.arange(30, 300),
        validation_rows=np.arange(30),
        capacity=300,
        settings=Training(max_epochs=3, batch_size=50, learning_rate=1e-2),
    )


def test_one_program_trains_as_narrow_networks_would_be(caplog):
    alone, together = (fitted(3, 3, wide=wide) for wide in (False, True))
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        fitted(4, 4, wide=True)
    assert "Compiling jit(_run)" not in caplog.text
    # three epochs of steps in float32: rounding grows to some 1e-5 of losses of about 3
    np.testing.assert_allclose(together.validation_losses, alone.validation_losses, atol=1e-3)
    for ours, theirs in zip(weights(together.members), weights(alone.members), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=5e-3)
