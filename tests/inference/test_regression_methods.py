"""Gibbs-SS, the naive plug-in and the confidential posterior: moments, kernels, the paper's rows, and what they refuse."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import noisewise as nw
from noisewise import errors
from noisewise.inference import _statistic_moves as moves
from noisewise.inference import gibbs_sufficient_statistics as gibbs
from noisewise.inference.confidential_posterior import ConfidentialPosterior
from noisewise.inference.gibbs_sufficient_statistics import GibbsSufficientStatistics
from noisewise.inference.importance_sampling import ImportanceSampling
from noisewise.inference.naive_plug_in import NaivePlugIn
from noisewise.inference.work import Work
from noisewise.queries import RegressionMoments
from noisewise.samplers.augmented_regression import AugmentedRegression
from noisewise.simulators import LinearRegression

KEY = jax.random.key(5)
SHORT = GibbsSufficientStatistics(num_draws=200, num_warmup=1000, thin=30)

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

EXACT = {
    10.0: ((-0.634, -2.643, 0.598), (0.878, 0.700, 0.924)),
    1.0: ((-0.971, -0.960, 1.248), (0.957, 0.940, 0.898)),
    0.1: ((-0.084, -0.085, 0.097), (1.006, 1.013, 1.014)),
}
"""Means and standard deviations of the exact posterior, known to about .01."""

GRAM = [[100.0, 93.7906, -126.9742], [93.7906, 179.9853, -93.5167], [-126.9742, -93.5167, 280.0132]]
CROSS, SQUARES = [-375.2591, -631.6069, 299.4140], 2521.1204
"""The paper's confidential sums, before clamping."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEWISE_CACHE_DIR", str(tmp_path))


def infer(method, model, observed, key=KEY):
    return method.infer(key, model, observed, progress=False)


def infer_problem(method, problem):
    return infer(method, problem.model, problem.observed)


def regression(simulator, query, mechanism, variance=None):
    sd = np.sqrt(simulator.prior_variance if variance is None else variance)
    prior = nw.Prior({"beta": dist.Normal(0.0, sd).expand([simulator.num_predictors + 1]).to_event(1)})
    return nw.PrivateModel(prior=prior, simulator=simulator, query=query, mechanism=mechanism)


# Sums and moments ----------------------------------------------------------------------------------------------------


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
    """Records (125, 3) and weights with which averages of polynomials of degree 9 in the normals behind a record are exact."""
    points, weights = np.polynomial.hermite_e.hermegauss(5)
    u = np.array(list(itertools.product(points, repeat=3)))
    weights = np.array([np.prod(w) for w in itertools.product(weights / weights.sum(), repeat=3)])
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(SIMULATOR.record, (0, None))(u, jnp.asarray(THETA))), weights


def test_moments_are_those_of_the_contributions():
    """Against Gauss-Hermite quadrature, exact for products of four normals: equal to 1e-12. Planted: each of the six terms left out."""
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


# The kernel ----------------------------------------------------------------------------------------------------------

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
    """20 rounds of s | w, s_dp, then w | s, s_dp, then s_dp | s, w, with theta standing still."""
    scale, wrong, spread = bugs

    def one(number, state):
        s, w, observed = state
        e = jnp.split(jax.random.normal(jax.random.fold_in(key, number), (CHAINS, 5 * s.shape[1])), 5, axis=1)
        s = moves.draw_statistic(e[0], spread * e[1], mean, covariance, w, observed)
        w = moves.draw_variances(e[2], e[3], jnp.where(wrong, 1 / scale**2, observed - s), scale)
        return s, w, s + jnp.sqrt(w) * e[4]

    return jax.lax.fori_loop(0, 20, one, state)


@functools.cache
def from_the_joint_law(seed):
    rng = np.random.default_rng(seed)
    theta = np.sqrt(1.3) * rng.normal(size=(CHAINS, 3))
    mean, covariance = moments(theta)
    s = mean + np.einsum("nij,nj->ni", np.linalg.cholesky(covariance), rng.normal(size=mean.shape))
    w = 2.0 * SCALE**2 * rng.exponential(size=s.shape)
    return theta, s, w, s + np.sqrt(w) * rng.normal(size=s.shape)


def largest_z(factor=1.0, scale=1.0, wrong=False, spread=1.0):
    """Averages over (theta, s, w, s_dp) after 20 rounds from the joint law, against fresh draws from it: the largest of 72 z-scores."""
    start, fresh = from_the_joint_law(1), from_the_joint_law(2)
    mean, covariance = moments(start[0])
    with jax.enable_x64(True):
        run = successive(jax.random.key(3), mean, factor * covariance, start[1:], (scale * SCALE, wrong, spread))

    def functions(theta, s, w, observed):
        centre, spread = moments(theta)
        r, error = (s - centre) / np.sqrt(np.diagonal(spread, axis1=1, axis2=2)), (observed - s) / SCALE
        return np.concatenate((s * theta[:, :1], r, r**2, r * error, w, np.log(w), error, np.abs(error)), axis=1)

    left, right = functions(start[0], *map(np.asarray, run)), functions(*fresh)
    error = np.sqrt((left.var(0) + right.var(0)) / CHAINS)
    return np.abs((left.mean(0) - right.mean(0)) / error).max()


def test_the_joint_law_of_statistic_and_noise_is_kept():
    """Geweke (2004) for s and w given theta, under s ~ N(mu, V), w ~ Exponential, s_dp = s + N(0, w): all |z| < 4.

    Chains are independent and start in the joint law, which they must not leave. theta stands still, each chain at its own: beta | s is the
    posterior under the model of the records, not under the normal law of s, so that no joint law is kept by all three steps.
    Planted: V without its division by n or 30% too large, a noise scale 5% too large, the inverse Gaussian with mean b, and s without
    the part of its spread that the noise leaves.
    """
    assert largest_z() < 4.0
    assert largest_z(factor=40.0) > 10.0
    assert largest_z(factor=1.3) > 5.0
    assert largest_z(scale=1.05) > 5.0
    assert largest_z(wrong=True) > 10.0
    assert largest_z(spread=0.0) > 10.0


def test_noise_variances_are_inverse_gaussian():
    """1/w by KS against scipy with 20,000 draws, p > .001; an error of 0 is no trouble. Planted: scale 5% off."""
    e = np.random.default_rng(0).normal(size=(2, 20_000, 1))
    errors, scale = np.full((20_000, 1), 0.7), 0.4
    with jax.enable_x64(True):
        w = np.asarray(moves.draw_variances(*e, errors, scale))[:, 0]
        zero = np.asarray(moves.draw_variances(*e, 0.0 * errors, scale))
    assert stats.kstest(1 / w, stats.invgauss(0.16 / 0.28, scale=1 / 0.16).cdf).pvalue > 1e-3
    assert stats.kstest(1 / w, stats.invgauss(0.42**2 / 0.294, scale=1 / 0.42**2).cdf).pvalue < 1e-6
    assert stats.kstest(zero[:, 0] / 0.16, stats.chi2(1).cdf).pvalue > 1e-3


def test_parameters_follow_the_conjugate_posterior():
    """6000 draws whitened: means within 4.5/sqrt(n), second moments within 4.5 sqrt(2/n). Planted: a prior of twice the variance."""
    s = QUERY(some_records())
    theta, clipped = parameters(np.random.default_rng(1).normal(size=(CHAINS, 3)), np.tile(s, (CHAINS, 1)))

    def passes(simulator):
        mean, covariance = simulator.conjugate_posterior(*QUERY.sums_of(s)[:2])
        z = np.linalg.solve(np.linalg.cholesky(covariance), (theta - mean).T)
        close = np.abs(z.mean(1)).max() < 4.5 / np.sqrt(CHAINS)
        return close and np.abs(z @ z.T / CHAINS - np.eye(3)).max() < 4.5 * np.sqrt(2 / CHAINS)

    assert clipped == 0
    assert passes(SIMULATOR)
    assert not passes(dataclasses.replace(SIMULATOR, prior_variance=2.6, noise_variance=0.8))


def test_sums_of_no_data_are_clipped_and_counted():
    """One chain has a negative sum of squares: its X'X keeps its non-negative part, those of the others are left alone."""
    s = np.tile(QUERY(some_records()), (CHAINS, 1))
    s[1, 8] *= -1.0
    theta, clipped = parameters(np.zeros((CHAINS, 3)), s)
    gram, cross, _ = QUERY.sums_of(s[:2])
    values, vectors = np.linalg.eigh(gram[1])
    assert values[0] < 0.0
    gram[1] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    expected = [SIMULATOR.conjugate_posterior((g + g.T) / 2, c)[0] for g, c in zip(gram, cross, strict=True)]
    assert clipped == 1
    np.testing.assert_allclose(theta[:2], expected, rtol=1e-8)


# Gibbs-SS ------------------------------------------------------------------------------------------------------------


def check_agreement(posterior, means, sds, num_exact=np.inf):
    """Means within 4 standard errors plus .12 sd and sds within 4 plus 6%: what normal statistics and no clamping may cost."""
    table, size = posterior.summary(), posterior.effective_size
    error = 4 * np.sqrt(1 / size + 1 / num_exact)
    assert (np.abs(table["mean"] - means) < (error + 0.12) * np.asarray(sds)).all()
    assert (np.abs(np.log(table["sd"] / sds)) < error / np.sqrt(2) + 0.06).all()


@pytest.mark.parametrize("epsilon", [10.0, 1.0])
def test_agrees_with_the_exact_posterior_in_short(epsilon):
    problem = nw.problems.linear_regression(epsilon)
    posterior = infer_problem(SHORT, problem)
    assert posterior.effective_size > 300
    check_agreement(posterior, *EXACT[epsilon])
    assert not posterior.report.exact
    assert posterior.report.stopped == "finished"
    assert posterior.report.num_simulations == 400
    assert posterior.report.diagnostics["records clamped"] < 0.05
    if epsilon == 10.0:
        spread = np.sqrt(2) * problem.model.mechanism.scale
        assert np.abs(posterior.statistics.mean(0) - problem.observed).max() < 4 * spread


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [10.0, 1.0, 0.1])
def test_agrees_with_the_exact_posterior(epsilon):
    problem = nw.problems.linear_regression(epsilon)
    posterior, exact = infer_problem(GibbsSufficientStatistics(), problem), problem.reference(KEY, 4000)
    assert posterior.effective_size > 1000
    assert posterior.report.warnings == ()
    check_agreement(posterior, exact.mean(0), exact.std(0), 4000)
    check_agreement(posterior, *EXACT[epsilon])


@pytest.mark.slow
def test_tight_bounds_bias_it_and_the_report_says_so():
    """Bounds of +-3 clamp a third of the responses: the exact posterior lies more than half a standard deviation away."""
    query = RegressionMoments(100, 2, bounds=(-3.0, 3.0))
    simulator = LinearRegression(predictor_mean=(0.9, -1.17))
    model = regression(simulator, query, nw.mechanisms.Laplace(scale=0.013))
    observed = model.simulate(jax.random.key(8), [[-1.0, -1.5, 0.5]])[0]
    posterior = infer(GibbsSufficientStatistics(num_draws=500), model, observed)
    target = AugmentedRegression(tuple(100 * observed), 1.3, 100, simulator.predictor_mean, bounds=(-3.0, 3.0))
    exact = target.near_independent(KEY, 2000).pooled(2000)
    distance = np.abs(posterior.theta.mean(0) - exact.mean(0)) / exact.std(0)
    assert distance.max() > 0.5
    assert posterior.report.diagnostics["records clamped"] > 0.05
    assert any("outside the bounds" in text for text in posterior.report.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("num_predictors", [1, 3])
def test_gaussian_noise_and_any_number_of_predictors(num_predictors):
    """Against importance sampling, which is exact. Correlated predictors, bounds off centre, other variances."""
    covariance = 0.3 * np.ones((num_predictors, num_predictors)) + 0.7 * np.eye(num_predictors)
    simulator = LinearRegression(
        num_records=200,
        num_predictors=num_predictors,
        predictor_mean=tuple(np.linspace(0.5, 1.0, num_predictors)),
        predictor_covariance=tuple(map(tuple, covariance)),
        noise_variance=1.5,
        prior_variance=0.8,
    )
    query = RegressionMoments(200, num_predictors, bounds=(*((-6.0, 8.0),) * num_predictors, (-14.0, 10.0)))
    model = regression(simulator, query, nw.mechanisms.Gaussian(scale=0.08))
    observed = model.simulate(jax.random.key(3), [[0.5, *[-0.6] * num_predictors]])[0]
    exact = infer(ImportanceSampling(num_final=100_000), model, observed)
    assert exact.effective_size > 1000
    table = exact.summary()
    check_agreement(
        infer(GibbsSufficientStatistics(), model, observed), table["mean"], table["sd"], exact.effective_size
    )


def test_the_share_of_clamped_records_is_told():
    """Against 100,000 simulated responses at one theta, within 4 standard errors; predictors are hardly ever clamped."""
    query = RegressionMoments(100, 2, bounds=((-9.0, 9.0), (-9.0, 9.0), (-4.0, 3.0)))
    model = regression(LinearRegression(predictor_mean=(0.9, -1.17)), query, nw.mechanisms.Laplace(scale=0.02))
    work = Work("gibbs-ss", {}, model, np.zeros(9))
    gibbs._look_at_clamping(work, np.array([[-1.0, -1.5, 0.5]]))
    share, rng = work.diagnostics["records clamped"], np.random.default_rng(0)
    y = (
        -1.0
        - 1.5 * rng.normal(0.9, 1, 100_000)
        + 0.5 * rng.normal(-1.17, 1, 100_000)
        + rng.normal(0, np.sqrt(2), 100_000)
    )
    assert abs(np.mean((y < -4.0) | (y > 3.0)) - share) < 4 * np.sqrt(share / 100_000)
    assert f"About {share:.0%} of the records" in work.warnings[0]
    quiet = Work("gibbs-ss", {}, nw.problems.linear_regression(10.0).model, np.zeros(9))
    gibbs._look_at_clamping(quiet, np.array(EXACT[10.0][:1]))
    assert quiet.diagnostics["records clamped"] == pytest.approx(0.02, abs=0.002)
    assert quiet.warnings == []


def test_impossible_observations_are_told_not_hidden():
    problem = nw.problems.linear_regression(1.0)
    for observed, stuck in ((40.0, False), (1e100, True)):
        posterior = infer(dataclasses.replace(SHORT, num_warmup=10, thin=1), problem.model, np.full(9, observed))
        text = " ".join(posterior.report.warnings)
        for part in ("outside what the prior predicts", "outside the bounds", "have not mixed", "no matrix of sums"):
            assert part in text
        assert ("floating-point" in text) == stuck
        assert np.isfinite(posterior.theta).all()


def test_the_same_key_gives_the_same_draws_however_the_work_is_cut(monkeypatch):
    problem = nw.problems.linear_regression(1.0)
    method = dataclasses.replace(SHORT, num_warmup=100, thin=5, max_simulations=1)
    whole = infer_problem(method, problem)
    monkeypatch.setattr(gibbs, "_SEGMENT_SECONDS", 1e-9)
    monkeypatch.setattr(gibbs, "_FIRST_SWEEPS", 170)
    cut = infer_problem(method, problem)
    np.testing.assert_array_equal(cut.theta, whole.theta)
    np.testing.assert_array_equal(cut.statistics, whole.statistics)
    assert not np.array_equal(infer(method, problem.model, problem.observed, jax.random.key(6)).theta, whole.theta)


def test_budgets_end_the_work_with_what_there_is():
    problem = nw.problems.linear_regression(1.0)
    short = infer_problem(dataclasses.replace(SHORT, max_minutes=1e-6), problem)
    assert "time budget" in short.report.stopped
    assert short.theta.shape == (16, 3)
    assert np.isfinite(short.theta).all()
    assert any("warm-up" in text for text in short.report.warnings)
    few = infer_problem(dataclasses.replace(SHORT, max_simulations=10, thin=1), problem)
    assert few.report.num_simulations <= 10
    assert few.theta.shape == (3200, 3)


# The plug-in and the confidential posterior --------------------------------------------------------------------------


def records_with_sums():
    """100 records with exactly the sums of the paper's confidential data."""
    sums = np.block([[np.array(GRAM), np.array(CROSS)[:, None]], [np.array(CROSS), SQUARES]])
    basis = np.column_stack([np.ones(100), np.random.default_rng(0).normal(size=(100, 3))])
    q, r = np.linalg.qr(basis)
    return (q * np.sign(np.diagonal(r)) @ np.linalg.cholesky(sums).T)[:, 1:]


def rows(posterior):
    table = posterior.summary()
    return table[["mean", "2.5%", "97.5%"]].to_numpy()


def test_the_papers_rows():
    """40,000 independent draws: means within 4 standard errors of the printed rows, ends of the intervals within .02."""
    problem = nw.problems.linear_regression(10.0)
    confidential = [[-2.15, -2.68, -1.61], [-2.79, -3.08, -2.50], [-0.83, -1.08, -0.58]]
    naive = [[-4.63, -5.04, -4.22], [-6.23, -6.57, -5.90], [-5.10, -5.40, -4.79]]
    found = rows(infer_problem(NaivePlugIn(num_draws=40_000), problem))
    np.testing.assert_allclose(found[:, 0], np.array(naive)[:, 0], atol=0.01)
    np.testing.assert_allclose(found, naive, atol=0.02)
    posterior = infer_problem(ConfidentialPosterior(data=records_with_sums(), num_draws=40_000), problem)
    np.testing.assert_allclose(rows(posterior)[:, 0], np.array(confidential)[:, 0], atol=0.01)
    np.testing.assert_allclose(rows(posterior), confidential, atol=0.02)
    assert posterior.report.exact
    clamped = infer_problem(ConfidentialPosterior(data=problem.confidential, num_draws=40_000), problem)
    np.testing.assert_allclose(rows(clamped)[:, 0], [-2.13, -2.78, -0.82], atol=0.01)
    assert not clamped.report.exact


@pytest.mark.parametrize("epsilon", [1.0, 0.1])
def test_the_plug_in_is_refused_where_no_data_have_such_sums(epsilon):
    with pytest.raises(errors.InvalidInputError, match=r"no posterior: .* positive definite"):
        infer_problem(NaivePlugIn(), nw.problems.linear_regression(epsilon))


def test_tables_and_means_are_plugged_in():
    """20,000 draws against the Dirichlet and normal laws by hand, means within 4.5 standard errors; KS p > .001 for the normal."""
    observed = np.array([0.3, -0.2, 0.25, 0.6, 0.1, 0.4, -0.01, 0.3])
    method = NaivePlugIn(num_draws=20_000, max_simulations=1)
    posterior = infer(method, TABLES.model, observed)
    counts = np.maximum(100 * observed, 0.0).reshape(2, 2, 2)
    classes = counts.sum(2).mean(1)
    parts = [*(2.0 + counts).reshape(4, 2), 2.0 + classes]
    expected = np.concatenate([part / part.sum() for part in parts])
    error = np.sqrt(np.concatenate([part / part.sum() * (1 - part / part.sum()) / (part.sum() + 1) for part in parts]))
    assert (np.abs(posterior.theta.mean(0) - expected) < 4.5 * error / np.sqrt(20_000)).all()
    assert any("ignored" in text for text in posterior.report.warnings)
    mean = nw.problems.gaussian_mean(1.0)
    draws = infer_problem(method, mean).theta[:, 0]
    law = stats.norm(100 * mean.observed[0] / 100.25, 1 / np.sqrt(100.25))
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3


def test_the_curators_posterior_needs_records_or_what_says_as_much():
    x = np.random.default_rng(0).integers(0, 2, (100, 3))
    by_records, by_tables = (
        infer_problem(ConfidentialPosterior(data=data), TABLES) for data in (x, TABLES.model.query(x))
    )
    np.testing.assert_array_equal(by_records.theta, by_tables.theta)
    assert by_records.report.exact
    assert by_tables.report.exact
    mean = nw.problems.gaussian_mean(1.0)
    values = np.linspace(-5.0, 6.0, 100)
    draws = infer_problem(ConfidentialPosterior(data=values, num_draws=20_000), mean)
    assert draws.theta.mean() == pytest.approx(100 * 0.5 / 100.25, abs=4.5 / np.sqrt(100 * 20_000))
    assert draws.report.exact
    assert not infer_problem(ConfidentialPosterior(data=[0.5]), mean).report.exact


def test_confidential_data_do_not_reach_the_report(tmp_path):
    problem = nw.problems.linear_regression(10.0)
    data = np.full((100, 3), 0.123456789) + np.arange(3)
    data[:50] *= -1.0
    method = ConfidentialPosterior(data=data)
    posterior = method.infer(KEY, problem.model, problem.observed, progress=False, run_dir=tmp_path / "run")
    saved = "".join(path.read_text() for path in (tmp_path / "run").rglob("*.json"))
    for text in (str(posterior.report.to_spec()), repr(method), saved):
        assert "0.123" not in text
    assert posterior.statistics is None
    assert set(posterior.report.settings) == {"num_draws", "max_simulations", "max_minutes"}
    assert any("not private" in text for text in posterior.report.warnings)
    np.testing.assert_array_equal(posterior.theta, infer_problem(method, problem).theta)
    data[:] = 0.0
    np.testing.assert_array_equal(posterior.theta, infer_problem(method, problem).theta)
    assert method != ConfidentialPosterior(data=method.data)


# Bad input -----------------------------------------------------------------------------------------------------------

PAPER = nw.problems.linear_regression(10.0)
UNKNOWN = LinearRegression(predictor_mean=(0.9, -1.17), unknown=("noise_sd",))


def paper_model(**changes):
    return dataclasses.replace(PAPER.model, **changes)


def wide_prior(law):
    return nw.Prior({"beta": law.expand([3]).to_event(1)})


def unknown_spread():
    prior = nw.Prior({"beta": dist.Normal(0.0, 1.0).expand([3]).to_event(1), "noise_sd": dist.HalfNormal(1.0)})
    return paper_model(simulator=UNKNOWN, prior=prior)


def truncated():
    return paper_model(prior=wide_prior(dist.TruncatedNormal(0.0, 1.0, low=-3.0, high=3.0)))


GRID = RegressionMoments(100, 2, grid=0.01, sensitivity_bound="paper")
LATTICE = nw.mechanisms.DiscreteLaplace(scale=0.013, step=GRID.step)
MISSING, INVALID, TYPE = errors.MissingCapabilityError, errors.InvalidInputError, errors.InvalidTypeError
CONFIDENTIAL = lambda data: ConfidentialPosterior(data=data)
TABLES = nw.problems.log_linear(10.0)

BAD = {
    "chains": (lambda: GibbsSufficientStatistics(num_chains=0), INVALID, "num_chains"),
    "draws": (lambda: GibbsSufficientStatistics(num_draws=1.5), TYPE, "num_draws"),
    "warm-up": (lambda: GibbsSufficientStatistics(num_warmup=-1), INVALID, "num_warmup"),
    "thin": (lambda: GibbsSufficientStatistics(thin=0), INVALID, "thin"),
    "minutes": (lambda: NaivePlugIn(max_minutes=0.0), INVALID, "max_minutes"),
    "naive draws": (lambda: NaivePlugIn(num_draws=0), INVALID, "num_draws"),
    "no regression": (lambda: infer_problem(SHORT, TABLES), MISSING, "Use DataAugmentationMCMC"),
    "lattice noise": (
        lambda: infer(SHORT, paper_model(query=GRID, mechanism=LATTICE), np.zeros(9)),
        MISSING,
        "without grid. Use DataAugmentationMCMC",
    ),
    "other noise": (
        lambda: infer(SHORT, paper_model(mechanism=nw.mechanisms.EuclideanLaplace(scale=0.1)), np.zeros(9)),
        MISSING,
        "Laplace or Gaussian noise",
    ),
    "unknown spread": (lambda: infer(SHORT, unknown_spread(), np.zeros(9)), MISSING, "noise_sd is"),
    "wider prior": (
        lambda: infer(SHORT, paper_model(prior=wide_prior(dist.Normal(0.0, 1.01))), PAPER.observed),
        MISSING,
        "variance 1 in every coordinate",
    ),
    "heavier prior": (
        lambda: infer(NaivePlugIn(), paper_model(prior=wide_prior(dist.StudentT(50.0))), PAPER.observed),
        MISSING,
        "conjugate prior",
    ),
    "truncated prior": (lambda: infer(SHORT, truncated(), PAPER.observed), MISSING, "conjugate prior"),
    "other concentration": (
        lambda: infer(
            NaivePlugIn(),
            dataclasses.replace(TABLES.model, simulator=nw.simulators.LogLinear(100, 2, (2, 2), concentration=1.0)),
            TABLES.observed,
        ),
        MISSING,
        "Dirichlet with every parameter 1",
    ),
    "no conjugate model": (lambda: infer_problem(NaivePlugIn(), nw.problems.sir(10.0)), MISSING, "not SIR"),
    "observation too short": (
        lambda: infer(NaivePlugIn(), PAPER.model, [0.1]),
        INVALID,
        "observed must have shape (9,)",
    ),
    "not a number": (lambda: infer(SHORT, PAPER.model, np.full(9, np.nan)), INVALID, "NaN"),
    "not a key": (lambda: NaivePlugIn().infer(0, PAPER.model, PAPER.observed), TYPE, "PRNG key"),
    "data are text": (lambda: CONFIDENTIAL("secret"), TYPE, "got str"),
    "data are ragged": (lambda: CONFIDENTIAL([[1.0], [1.0, 2.0]]), TYPE, "got list"),
    "data are missing": (lambda: CONFIDENTIAL([np.nan]), INVALID, "finite"),
    "data of another shape": (
        lambda: infer_problem(CONFIDENTIAL(np.zeros((7, 3))), PAPER),
        INVALID,
        "shape (100, 3), or the statistic, shape (9,); got shape (7, 3)",
    ),
    "noisy tables": (lambda: infer_problem(CONFIDENTIAL(TABLES.observed), TABLES), INVALID, "noise in them"),
    "no categories": (lambda: infer_problem(CONFIDENTIAL(np.full((100, 3), 7)), TABLES), INVALID, ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
