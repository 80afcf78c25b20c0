"""The metric of no-U-turn chains: maps between w and u, what windows teach, and what it is worth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.samplers.hierarchies.metric import (
    Metric,
    Moments,
    correlated_columns,
    metric_of_curvature,
)
from noisewise.samplers.hierarchies.no_u_turn import nuts

DIM, COLUMNS = 5, (0, 3, 4)
ROOT = np.linalg.cholesky(np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.4], [0.2, 0.4, 1.0]]))
SCALES = np.array([0.1, 2.0, 3.0, 10.0, 1.0])


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def metric():
    return Metric(jnp.asarray(SCALES), jnp.asarray(ROOT), COLUMNS)


def covariance():
    """Of w where u is standard normal."""
    found = np.diag(SCALES**2)
    some = np.ix_(COLUMNS, COLUMNS)
    found[some] = ROOT @ ROOT.T * np.outer(SCALES[list(COLUMNS)], SCALES[list(COLUMNS)])
    return found


def test_maps_there_and_back():
    u = np.random.default_rng(0).normal(size=DIM)
    np.testing.assert_allclose(metric().from_w(metric().to_w(u)), u, rtol=1e-12)
    linear = np.asarray(jax.jacobian(metric().to_w)(jnp.asarray(u)))
    np.testing.assert_allclose(linear @ linear.T, covariance(), rtol=1e-12)


def test_slopes_follow_the_chain_rule():
    """Against automatic differentiation, both ways."""
    w = jnp.arange(1.0, DIM + 1.0)
    value = lambda w: jnp.sin(w).sum() + w[0] * w[3]
    slope = jax.grad(value)(w)
    in_u = jax.grad(lambda u: value(metric().to_w(u)))(metric().from_w(w))
    np.testing.assert_allclose(metric().slope_in_u(slope), in_u, rtol=1e-10)
    np.testing.assert_allclose(metric().slope_in_w(in_u), slope, rtol=1e-10)


def test_moments_in_parts_are_those_of_all_draws():
    draws = np.random.default_rng(1).multivariate_normal(np.arange(DIM), covariance(), size=600)
    moments, before = Moments.none(metric()), Metric.of_scales(jnp.ones(DIM), COLUMNS)
    for part in np.split(draws, [100, 350]):
        moments = moments.with_draws(jnp.asarray(part), before)
    np.testing.assert_allclose(moments.squares / 599, draws.var(axis=0, ddof=1), rtol=1e-9)
    exact = np.cov(draws[:, COLUMNS].T)
    np.testing.assert_allclose(moments.products / 599, exact, rtol=1e-9)
    found = moments.metric(before)
    weight = 600 / (600 + 5 + len(COLUMNS))
    shrunk = weight * exact + (1.0 - weight) * np.eye(len(COLUMNS))
    sds = np.sqrt(np.diag(shrunk))
    np.testing.assert_allclose(found.root @ found.root.T, shrunk / np.outer(sds, sds), rtol=1e-9)


def test_a_window_without_draws_leaves_the_metric():
    """No covariance, or one that is no number."""
    before = metric()
    for moments in (
        Moments.none(before),
        Moments.none(before).with_draws(jnp.full((3, DIM), jnp.nan), before),
    ):
        after = moments.metric(before)
        np.testing.assert_allclose(after.scales, before.scales, rtol=1e-12)
        np.testing.assert_allclose(after.root, before.root, rtol=1e-12)


def test_the_curvature_of_a_normal_law_is_its_covariance():
    precision = np.linalg.inv(covariance())
    density = lambda w: -0.5 * w @ precision @ w
    found = metric_of_curvature(density, jnp.ones(DIM), jnp.ones(DIM), tuple(range(DIM)))
    linear = np.asarray(jax.jacobian(found.to_w)(jnp.zeros(DIM)))
    np.testing.assert_allclose(linear @ linear.T, covariance(), rtol=1e-8)
    # a saddle point: only the coordinates along which it falls have scales
    saddle = lambda w: -0.5 * w[0] ** 2 / 4.0 + 0.5 * w[1] ** 2
    found = metric_of_curvature(saddle, jnp.zeros(2), jnp.full(2, 7.0), (0, 1))
    np.testing.assert_allclose(found.scales, [2.0, 7.0])
    np.testing.assert_allclose(found.root, np.eye(2))


def test_which_correlations_are_learnt():
    assert correlated_columns(5, {1, 2}) == (0, 3, 4)
    assert correlated_columns(60, set()) == ()
    assert correlated_columns(3, {1, 2}) == ()


def test_collinear_coordinates_cost_no_more_than_independent_ones():
    """Correlations of .995 need some ten times as long trajectories without them. The law of the
    draws: means within 5 standard errors, the correlation too. A root that is never learnt leaves
    the law and takes 20 gradients per draw.
    """
    correlation = 0.995
    exact = np.array([[1.0, correlation], [correlation, 1.0]])
    precision = np.linalg.inv(exact)

    def density(z):
        return -0.5 * (z - 3.0) @ precision @ (z - 3.0)

    starts = 3.0 + np.random.default_rng(2).normal(size=(4, 2))
    run = nuts(jax.random.key(0), density, starts, num_warmup=200, num_draws=250)
    draws = run.draws.reshape(-1, 2)
    assert (np.abs(draws.mean(axis=0) - 3.0) < 5.0 / np.sqrt(run.bulk_size)).all()
    found = np.corrcoef(draws.T)[0, 1]
    error = (1.0 - correlation**2) / np.sqrt(run.bulk_size.min())
    assert abs(found - correlation) < 5.0 * error
    assert run.num_gradients / 1000 < 8.0  # 3 where all are independent
