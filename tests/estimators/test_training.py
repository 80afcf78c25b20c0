"""The training loop: best weights, patience, growing data without a new compilation, members and
standardisation.
"""

import functools
import logging

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.errors import InvalidInputError
from noisewise.estimators import (
    Affine,
    ConditionalDensity,
    Training,
    Whitening,
    _training_loop,
    ensemble,
    mixture_density_network,
    train,
    training,
)
from noisewise.estimators.members import stacked

KEY = jax.random.key(0)
SMALL = functools.partial(mixture_density_network, num_components=1, num_units=8, num_hidden=1)


class Pairs(eqx.Module):
    """t ~ N(c, 1) with fresh noise each time it is asked for."""

    c: jax.Array

    def __call__(self, key, rows):
        c = self.c[rows]
        t = c + jax.random.normal(key, c.shape)
        return t.astype(jnp.float32), c.astype(jnp.float32)


def data(num=400, capacity=600):
    c = np.zeros((capacity, 1))
    c[:num] = np.random.default_rng(0).normal(size=(num, 1))
    return Pairs(c), np.arange(20, num), np.arange(20)


def fitted(num=400, members=1, **settings):
    pairs, train_rows, validation_rows = data(num)
    return train(
        KEY,
        ensemble(KEY, SMALL, members, 1, 1),
        pairs,
        train_rows=train_rows,
        validation_rows=validation_rows,
        capacity=600,
        settings=Training(
            **{"learning_rate": 1e-2, "max_epochs": 30, "averaging": 0.9, **settings}
        ),
    )


@pytest.mark.slow
def test_the_best_weights_are_returned():
    """The validation loss of what comes back is the smallest one seen, to the last bit: draws for
    validation are made once.
    """
    trained = fitted(learning_rate=0.3, max_epochs=11, averaging=0.0, patience=30)
    losses = trained.validation_losses[:, 0]
    assert np.argmin(losses) < len(losses) - 1
    again = train(
        KEY,
        trained.members,
        data()[0],
        train_rows=data()[1],
        validation_rows=data()[2],
        capacity=600,
        settings=Training(learning_rate=1e-30, max_epochs=1, weight_decay=0.0, averaging=0.0),
    )
    np.testing.assert_allclose(again.validation_losses[0, 0], losses.min(), rtol=1e-6)


def test_training_ends_when_patience_does():
    trained = fitted(learning_rate=1e-12, weight_decay=0.0, patience=4, averaging=0.0)
    assert trained.num_epochs == 5


@pytest.mark.slow
def test_members_differ_and_learn():
    """The entropy of N(c, 1) is 1.419, known to .22 / sqrt(1.5) from 20 rows; members start at
    different weights.
    """
    trained = fitted(members=2)
    best = np.nanmin(trained.validation_losses, axis=0)
    assert best[0] != best[1]
    assert (np.abs(trained.train_losses[-1] - 1.419) < 0.15).all()


def test_more_rows_compile_nothing_and_another_capacity_does(caplog):
    fitted(num=300)
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        fitted(num=400)
        assert not [record for record in caplog.records if "jit(_run)" in record.getMessage()]
        pairs, train_rows, validation_rows = data(capacity=601)
        rows = {"train_rows": train_rows, "validation_rows": validation_rows, "capacity": 601}
        train(KEY, ensemble(KEY, SMALL, 1, 1, 1), pairs, settings=Training(max_epochs=1), **rows)
        assert [record for record in caplog.records if "jit(_run)" in record.getMessage()]


def test_long_work_is_compiled_with_all_optimisations_and_gives_the_same_but_for_rounding(
    monkeypatch,
):
    """5 epochs of 3 steps in float32: roundings of 1e-7 grow a little on the way, to 1e-5 at most."""
    used = []
    for name in ("run_compiled_fast", "run_optimised"):
        program = getattr(_training_loop, name)
        monkeypatch.setattr(
            _training_loop, name, lambda *args, _p=program, _n=name: (used.append(_n), _p(*args))[1]
        )
    brief = fitted(max_epochs=5)
    monkeypatch.setattr(training, "_WORK_TO_OPTIMISE", 1.0)
    thorough = fitted(max_epochs=5)
    assert set(used) == {"run_compiled_fast", "run_optimised"}
    assert used == sorted(used)
    np.testing.assert_allclose(brief.validation_losses, thorough.validation_losses, rtol=1e-5)


def test_an_epoch_visits_every_row_once_in_an_order_of_its_own():
    """700 rows of 1000 places: the first 700 are those rows, in another order for another key;
    chance repeats one with 1 in 700!.
    """
    rows = _training_loop.padded(np.arange(5, 705), np.arange(5), 1000)
    member = _training_loop._Member(None, None, None, None, None, rows, None, Training())
    with jax.enable_x64(True):
        first, second = (
            np.asarray(member._shuffled(jax.random.key(seed)))[:700] for seed in (0, 1)
        )
    for order in (first, second):
        np.testing.assert_array_equal(np.sort(order), np.arange(5, 705))
        # the correlation of place and row has sd 1 / sqrt(699) = .038: 5 of them
        assert abs(np.corrcoef(order, np.arange(700))[0, 1]) < 0.19
    assert (first != second).any()


def test_work_counts_weights_rows_and_targets_per_row():
    members = ensemble(KEY, SMALL, 3, 1, 1)
    weights = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(members, eqx.is_inexact_array)))

    class Nets(Pairs):
        def __call__(self, key, rows):
            t, c = super().__call__(key, rows)
            return jnp.repeat(t[:, None], 4, axis=1), c[:, None]

    def run(kind, capacity, **settings):
        state, _ = _training_loop.start(KEY, members, Training(**settings), False)
        drawn = training._drawn(kind(jnp.zeros((capacity, 1))), Training(**settings), False)
        return training._work(state, drawn, capacity, Training(**settings))

    assert run(Pairs, 600) == 50 * 600 * weights
    assert run(Nets, 1200) == 4 * 50 * 1200 * weights
    assert run(Pairs, 600, max_epochs=3) == 3 * 600 * weights
    keys, twice = jax.random.split(KEY), stacked([members, members])
    state, _ = _training_loop.start(keys, twice, Training(), True)
    drawn = training._drawn(Pairs(jnp.zeros((2, 600, 1))), Training(), True)
    assert training._work(state, drawn, 600, Training()) == 2 * 50 * 600 * weights


def test_too_few_rows_are_refused():
    pairs, train_rows, _ = data()
    with pytest.raises(InvalidInputError, match="validate"):
        train(
            KEY,
            ensemble(KEY, SMALL, 1, 1, 1),
            pairs,
            train_rows=train_rows,
            validation_rows=np.arange(0),
            capacity=600,
        )
    with pytest.raises(InvalidInputError, match="capacity"):
        train(
            KEY,
            ensemble(KEY, SMALL, 1, 1, 1),
            pairs,
            train_rows=train_rows,
            validation_rows=np.arange(5),
            capacity=10,
        )


@pytest.mark.parametrize(
    "bad",
    [
        {"learning_rate": 0.0},
        {"patience": 0},
        {"averaging": 1.0},
        {"decay": 2.0},
        {"batch_size": 1.5},
    ],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises((ValueError, TypeError)):
        Training(**bad)


# Standardisation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_whitening_is_a_change_of_variables(degree):
    """Residuals have mean 0 and covariance I, the inverse undoes it, and log_det is that of its
    Jacobian.
    """
    rng = np.random.default_rng(1)
    c = rng.normal(size=(2000, 2))
    t = (
        np.stack([c[:, 0] ** 2, c[:, 0] * c[:, 1]], axis=1)
        + c @ [[1.0, 0.5], [0.0, 2.0]]
        + rng.normal(size=(2000, 2)) * [1, 0.1]
    )
    whitening = Whitening.fit(t, c, degree=degree)
    standard = whitening.forward(t, c)
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(np.cov(standard.T, bias=True), np.eye(2), atol=1e-4)
    np.testing.assert_allclose(whitening.inverse(standard, c), t, atol=1e-10)
    with jax.enable_x64(True):
        jacobian = np.asarray(
            jax.jacobian(lambda x: whitening.forward(x, jnp.asarray(c[0])))(jnp.asarray(t[0]))
        )
        np.testing.assert_allclose(
            np.log(abs(np.linalg.det(jacobian))), whitening.log_det, rtol=1e-10
        )


def test_columns_that_do_not_vary_become_zero():
    values = np.random.default_rng(2).normal(size=(50, 2)) * [1.0, 0.0] + [0.0, 7.0]
    assert (Affine.fit(values)(values)[:, 1] == 0.0).all()


def test_few_rows_lower_the_degree():
    """9 conditions have 55 quadratic features; 60 rows would let them explain everything."""
    rng = np.random.default_rng(3)
    c, t = rng.normal(size=(60, 9)), rng.normal(size=(60, 1))
    assert Whitening.fit(t, c, degree=2).root[0, 0] > 0.7


def test_flows_that_hold_functions_are_members_too():
    """flowjax's coupling flow keeps a function that closes over arrays."""
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow

    def factory(key, target_dim, condition_dim):
        return coupling_flow(
            key,
            base_dist=Normal(jnp.zeros(target_dim)),
            cond_dim=condition_dim,
            flow_layers=1,
            nn_width=4,
            nn_depth=1,
        )

    members = ensemble(KEY, factory, 2, 2, 1)
    scale, whitening = (
        Affine(np.zeros(1), np.ones(1)),
        Whitening(np.zeros((1, 2)), np.eye(2), np.eye(2), 0),
    )
    value = ConditionalDensity(members, scale, whitening).log_prob(
        np.zeros((3, 2)), np.zeros((3, 1))
    )
    assert np.isfinite(value).all()


@pytest.mark.slow
def test_an_ensemble_is_the_average_of_its_members():
    members = fitted(members=2, max_epochs=2).members
    c = np.random.default_rng(4).normal(size=(30, 1))
    scale = Affine.fit(c)
    whitening = Whitening.fit(2.0 * c + np.random.default_rng(5).normal(size=(30, 1)), scale(c))
    both = ConditionalDensity(members, scale, whitening)
    alone = [
        ConditionalDensity(
            jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], members), scale, whitening
        )
        for i in range(2)
    ]
    t = np.linspace(-8, 8, 4001)[:, None]
    average = np.mean([np.exp(density.log_prob(t, c[0])) for density in alone], axis=0)
    np.testing.assert_allclose(np.exp(both.log_prob(t, c[0])), average, rtol=1e-5, atol=1e-12)
    assert abs(np.trapezoid(average, t[:, 0]) - 1.0) < 1e-3
    draws = both.sample(KEY, c[0], 4000)
    exact = np.trapezoid(average * t[:, 0], t[:, 0])
    assert abs(draws.mean() - exact) < 4.5 * draws.std() / np.sqrt(4000)
