"""Moves of Gibbs-SS: sums and moments of contributions, and draws of the statistic, the variances
of noise and the parameters.
"""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from noisewise.inference.baselines import statistic_moves as moves
from noisewise.queries import RegressionMoments
from noisewise.simulators import LinearRegression

SIMULATOR = LinearRegression(
    num_records=40,
    predictor_mean=(0.9, -1.17),
    predictor_covariance=((1.5, -0.6), (-0.6, 0.8)),
    noise_variance=0.7,
    prior_variance=1.3,
)
QUERY = RegressionMoments(40, 2, bounds=((-6.0, 7.0), (-9.0, 4.0), (-14.0, 10.0)))
CENTRE, HALF = np.array([0.5, -2.5, -2.0]), np.array([6.5, 6.5, 12.0])
KERNEL = moves.Kernel(SIMULATOR, QUERY, laplace=True)
THETA = np.array([0.4, -1.3, 0.6])


# Sums and moments ---------------------------------------------------------------------------------


def test_sums_are_undone_for_any_bounds():
    """X'X, X'y and y'y of the clamped records, one database or many, in NumPy and in JAX."""
    query = RegressionMoments(40, 2, bounds=((-1.0, 2.0), (-3.0, 0.5), (1.0, 4.0)))
    x = np.random.default_rng(0).normal(0.5, 2.0, (5, 40, 3))
    clamped = np.clip(x, [-1.0, -3.0, 1.0], [2.0, 0.5, 4.0])
    design, y = np.concatenate([np.ones((5, 40, 1)), clamped[..., :2]], axis=2), clamped[..., 2]
    expected = design.swapaxes(1, 2) @ design, np.einsum("nij,ni->nj", design, y), (y**2).sum(1)
    s = np.stack([query(database) for database in x])
    with jax.enable_x64(True):
        for found in (
            query.sums_of(s),
            jax.jit(query.sums_of)(s),
            [np.array(part) for part in zip(*map(query.sums_of, s), strict=True)],
        ):
            for left, right in zip(found, expected, strict=True):
                np.testing.assert_allclose(np.asarray(left), right, rtol=1e-11, atol=1e-11)


def nodes():
    """Records (125, 3) and weights with which averages of polynomials of degree 9 in the normals
    behind a record are exact.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(5)
    u = np.array(list(itertools.product(points, repeat=3)))
    weights = np.array([np.prod(w) for w in itertools.product(weights / weights.sum(), repeat=3)])
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(SIMULATOR.record, (0, None))(u, jnp.asarray(THETA))), weights


def test_moments_are_those_of_the_contributions():
    """Against Gauss-Hermite quadrature, exact for products of four normals: equal to 1e-12.
    Planted: each of the six terms left out.
    """
    records, weights = nodes()
    t = QUERY.contributions(records)
    assert (np.abs(records - CENTRE) < HALF).all()
    mean = weights @ t
    covariance = (weights[:, None] * (t - mean)).T @ (t - mean)
    scale = np.sqrt(np.outer(np.diagonal(covariance), np.diagonal(covariance)))
    found_mean, found = (part[0] for part in moments(np.tile(THETA, (CHAINS, 1))))
    np.testing.assert_allclose(found_mean, mean, rtol=0, atol=1e-13)
    np.testing.assert_allclose(40 * found / scale, covariance / scale, rtol=0, atol=1e-12)
    for term in six_terms(records, weights):
        assert np.abs((40 * found - term - covariance) / scale).max() > 1e-2


def six_terms(records, weights):
    """What the covariances of products of normals are made of, (6, k, k)."""
    z = np.column_stack([np.ones(len(records)), (records - CENTRE) / HALF])
    a = weights @ z
    C = (weights[:, None] * (z - a)).T @ (z - a)
    (i, j), (k, l) = np.array(QUERY._pairs).T[:, :, None], np.array(QUERY._pairs).T[:, None, :]
    means = [(i, k, j, l), (i, l, j, k), (j, k, i, l), (j, l, i, k)]
    return [C[i, k] * C[j, l], C[i, l] * C[j, k], *(a[m] * a[o] * C[p, q] for m, o, p, q in means)]


# The kernel ---------------------------------------------------------------------------------------

SCALE, CHAINS = 0.002, 6000
COMPILED = {"moments": jax.jit(KERNEL.moments), "parameters": jax.jit(KERNEL.draw_parameters)}


def some_records():
    x = np.random.default_rng(4).normal(size=(40, 3))
    return np.column_stack([0.9 + x[:, 0], x[:, 1] - 1.17, x @ [1.0, -0.5, 0.8]])


def moments(theta):
    with jax.enable_x64(True):
        return tuple(np.asarray(part) for part in COMPILED["moments"](theta))


def parameters(e, s):
    with jax.enable_x64(True):
        return tuple(np.asarray(part) for part in COMPILED["parameters"](e, s))


@jax.jit
def successive(key, mean, covariance, state, bugs):
    """10 rounds of s | w, s_dp, then w | s, s_dp, then s_dp | s, w, with theta standing still."""
    scale, wrong, spread = bugs

    def one(number, state):
        s, w, observed = state
        e = jnp.split(
            jax.random.normal(jax.random.fold_in(key, number), (CHAINS, 5 * s.shape[1])), 5, axis=1
        )
        s = moves.draw_statistic(e[0], spread * e[1], mean, covariance, w, observed)
        w = moves.draw_variances(e[2], e[3], jnp.where(wrong, 1 / scale**2, observed - s), scale)
        return s, w, s + jnp.sqrt(w) * e[4]

    return jax.lax.fori_loop(0, 10, one, state)


@functools.cache
def from_the_joint_law(seed):
    rng = np.random.default_rng(seed)
    theta = np.sqrt(1.3) * rng.normal(size=(CHAINS, 3))
    mean, covariance = moments(theta)
    s = mean + np.einsum("nij,nj->ni", np.linalg.cholesky(covariance), rng.normal(size=mean.shape))
    w = 2.0 * SCALE**2 * rng.exponential(size=s.shape)
    return theta, s, w, s + np.sqrt(w) * rng.normal(size=s.shape)


def largest_z(factor=1.0, scale=1.0, wrong=False, spread=1.0):
    """Averages over (theta, s, w, s_dp) after 10 rounds from the joint law, against fresh draws
    from it: the largest of 72 z-scores.
    """
    start, fresh = from_the_joint_law(1), from_the_joint_law(2)
    mean, covariance = moments(start[0])
    with jax.enable_x64(True):
        run = successive(
            jax.random.key(3), mean, factor * covariance, start[1:], (scale * SCALE, wrong, spread)
        )

    def functions(theta, s, w, observed):
        centre, spread = moments(theta)
        r, error = (
            (s - centre) / np.sqrt(np.diagonal(spread, axis1=1, axis2=2)),
            (observed - s) / SCALE,
        )
        return np.concatenate(
            (s * theta[:, :1], r, r**2, r * error, w, np.log(w), error, np.abs(error)), axis=1
        )

    left, right = functions(start[0], *map(np.asarray, run)), functions(*fresh)
    error = np.sqrt((left.var(0) + right.var(0)) / CHAINS)
    return np.abs((left.mean(0) - right.mean(0)) / error).max()


def test_the_joint_law_of_statistic_and_noise_is_kept():
    """Geweke (2004) for s and w given theta, under s ~ N(mu, V), w ~ Exponential, s_dp = s + N(0,
    w): all |z| < 4.

    Chains are independent and start in the joint law, which they must not leave. theta stands
    still, each chain at its own: beta | s is the posterior under the model of the records, not
    under the normal law of s, so that no joint law is kept by all three steps. Planted: V without
    its division by n or 30% too large, a noise scale 5% too large, the inverse Gaussian with mean
    b, and s without the part of its spread that the noise leaves.
    """
    assert largest_z() < 4.0
    assert largest_z(factor=40.0) > 10.0
    assert largest_z(factor=1.3) > 5.0
    assert largest_z(scale=1.05) > 5.0
    assert largest_z(wrong=True) > 10.0
    assert largest_z(spread=0.0) > 10.0


def test_noise_variances_are_inverse_gaussian():
    """1/w by KS against scipy with 20,000 draws, p > .001; an error of 0 is no trouble. Planted:
    scale 5% off.
    """
    e = np.random.default_rng(0).normal(size=(2, 20_000, 1))
    errors, scale = np.full((20_000, 1), 0.7), 0.4
    with jax.enable_x64(True):
        w = np.asarray(moves.draw_variances(*e, errors, scale))[:, 0]
        zero = np.asarray(moves.draw_variances(*e, 0.0 * errors, scale))
    assert stats.kstest(1 / w, stats.invgauss(0.16 / 0.28, scale=1 / 0.16).cdf).pvalue > 1e-3
    assert stats.kstest(1 / w, stats.invgauss(0.42**2 / 0.294, scale=1 / 0.42**2).cdf).pvalue < 1e-6
    assert stats.kstest(zero[:, 0] / 0.16, stats.chi2(1).cdf).pvalue > 1e-3


def test_parameters_follow_the_conjugate_posterior():
    """6000 draws whitened: means within 4.5/sqrt(n), second moments within 4.5 sqrt(2/n). Planted:
    a prior of twice the variance.
    """
    s = QUERY(some_records())
    theta, clipped = parameters(
        np.random.default_rng(1).normal(size=(CHAINS, 3)), np.tile(s, (CHAINS, 1))
    )

    def passes(simulator):
        mean, covariance = simulator.conjugate_posterior(*QUERY.sums_of(s)[:2])
        z = np.linalg.solve(np.linalg.cholesky(covariance), (theta - mean).T)
        close = np.abs(z.mean(1)).max() < 4.5 / np.sqrt(CHAINS)
        return close and np.abs(z @ z.T / CHAINS - np.eye(3)).max() < 4.5 * np.sqrt(2 / CHAINS)

    assert clipped == 0
    assert passes(SIMULATOR)
    assert not passes(dataclasses.replace(SIMULATOR, prior_variance=2.6, noise_variance=0.8))


def test_sums_of_no_data_are_clipped_and_counted():
    """One chain has a negative sum of squares: its X'X keeps its non-negative part, those of the
    others are left alone.
    """
    s = np.tile(QUERY(some_records()), (CHAINS, 1))
    s[1, 8] *= -1.0
    theta, clipped = parameters(np.zeros((CHAINS, 3)), s)
    gram, cross, _ = QUERY.sums_of(s[:2])
    values, vectors = np.linalg.eigh(gram[1])
    assert values[0] < 0.0
    gram[1] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    expected = [
        SIMULATOR.conjugate_posterior((g + g.T) / 2, c)[0] for g, c in zip(gram, cross, strict=True)
    ]
    assert clipped == 1
    np.testing.assert_allclose(theta[:2], expected, rtol=1e-8)
