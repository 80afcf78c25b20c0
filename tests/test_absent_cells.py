"""Absent cells, NaN in arrays, outside the mechanisms: releases, observations, ranks, distances."""

import functools
import json
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import gamma, poisson

import noisewise as nw
from noisewise import errors
from noisewise._core.draws import filled_below
from noisewise.diagnostics import misspecification, predictive_check
from noisewise.diagnostics.trials import draw_trials
from noisewise.inference.abc.distances import Euclidean, Ruler, Weighted
from noisewise.inference.contract.surprise import p_value
from noisewise.inference.learned.common.features import features
from noisewise.inference.registry import METHODS
from noisewise.mechanisms import (
    DiscreteLaplace,
    Exact,
    Laplace,
    Product,
    Rounded,
    Thresholded,
    TransitionTable,
)
from noisewise.mechanisms.supports import (
    Blocks,
    Finite,
    Interval,
    Lattice,
    OrAbsent,
    Real,
    coded,
)
from noisewise.metrics import log_median_distance
from noisewise.posteriors import Draws, Report

KEY = jax.random.key(8)
NOISE = DiscreteLaplace(scale=3.0, sensitivity=1.0)
CELLS = Thresholded(NOISE, above=[5.0, 5.0, 5.0])
PRIOR = nw.Prior({"rate": dist.Gamma(20.0, 2.0)})


def counts(key, theta):
    return jax.random.poisson(key, theta[0], (3,)).astype(float)


MODEL = nw.PrivateModel(
    prior=PRIOR, simulator=nw.simulators.JaxSimulator(counts), query=lambda x: x, mechanism=CELLS
)


def failing(key, theta):
    """NaN in one of five simulations."""
    return jnp.where(jax.random.uniform(key) < 0.2, jnp.nan, counts(key, theta))


FAILING = nw.PrivateModel(
    prior=PRIOR,
    simulator=nw.simulators.JaxSimulator(failing),
    query=lambda x: x,
    mechanism=CELLS,
)

# Releases and observations ------------------------------------------------------------------------


def test_releases_with_absent_values_are_equal_hashed_and_read_back():
    release = nw.Release([7.0, None, 9.0], CELLS)
    same = nw.Release(np.array([7.0, np.nan, 9.0]), CELLS)
    assert release == same
    assert hash(release) == hash(same)
    assert release == pickle.loads(pickle.dumps(release))
    assert release != nw.Release([7.0, 8.0, 9.0], CELLS)
    assert release != nw.Release([None, 7.0, 9.0], CELLS)
    assert release != "release"
    assert json.loads(release.to_json())["values"] == [7.0, None, 9.0]
    assert nw.Release.from_json(release.to_json()) == release
    assert "absent" in repr(release)
    np.testing.assert_array_equal(release.observed, [7.0, np.nan, 9.0])


def test_absent_values_are_accepted_exactly_where_they_can_be():
    both = Product([Thresholded(NOISE, above=5.0), Exact()], widths=[1, 1])
    assert math.isnan(nw.Release([None, 8.0], both).values[0])
    for values in ([8.0, None], [4.0, 8.0]):
        with pytest.raises(errors.InvalidInputError, match="absent"):
            nw.Release(values, both)
    with pytest.raises(errors.InvalidInputError, match="multiples of 1"):
        nw.Release([8.0, None], NOISE)


def test_observations_are_absent_exactly_where_they_can_be():
    observed = MODEL.observation([7.0, np.nan, 9.0])
    np.testing.assert_array_equal(observed, [7.0, np.nan, 9.0])
    np.testing.assert_array_equal(MODEL.observation(nw.Release([7, None, 9], CELLS)), observed)
    with pytest.raises(errors.InvalidInputError, match="at least 5, or absent"):
        MODEL.observation([7.0, np.nan, 4.0])
    partly = MODEL.with_mechanism(Product([Thresholded(NOISE, above=5.0), NOISE], widths=[2, 1]))
    assert np.isnan(partly.observation([7.0, np.nan, 4.0])[1])
    with pytest.raises(errors.InvalidInputError, match=r"NaN for .*: .*Thresholded"):
        partly.observation([7.0, 8.0, np.nan])


def test_a_release_is_made_with_absent_values():
    query = nw.queries.Histogram(edges=(0.0, 1.0, 2.0, 3.0))
    mechanism = Thresholded(DiscreteLaplace(0.1, sensitivity=2.0), above=2.0)
    release = nw.release(np.array([0.5, 1.5, 1.7, 1.8, 2.2]), query, mechanism=mechanism)
    np.testing.assert_array_equal(release.observed, [np.nan, 3.0, np.nan])
    assert release.guarantee == mechanism.mechanism.guarantee


# Ranks and distances ------------------------------------------------------------------------------


def test_filled_rows_keep_columns_without_absent_cells():
    rows = np.random.default_rng(0).normal(size=(5, 3))
    assert filled_below(rows) is rows
    rows[2, 1] = np.nan
    filled = filled_below(rows)
    assert np.array_equal(filled[:, [0, 2]], rows[:, [0, 2]])
    assert filled[2, 1] < np.nanmin(rows[:, 1])
    assert filled_below(np.full((2, 1), np.nan)).tolist() == [[0.0], [0.0]]


def test_p_values_of_exchangeable_tables_are_uniform_or_larger():
    """500 observations from the model: the share at or below .1 is at most .1 + 4 standard errors."""
    theta = MODEL.prior.sample(KEY, 500)
    tables = MODEL.simulate(jax.random.key(1), theta)
    assert 0.02 < np.isnan(tables).mean() < 0.5
    p = np.array([p_value(np.delete(tables, i, axis=0), tables[i]) for i in range(500)])
    assert np.mean(p <= 0.1) <= 0.1 + 4 * math.sqrt(0.09 / 500)


def test_predictive_checks_tell_absent_from_failed():
    seen = np.array([9.0, np.nan, 12.0])
    check = misspecification(KEY, FAILING, seen)
    assert check.passed
    assert 100 < check.num_failed < 300
    assert np.isnan(check.simulated).any()
    assert "absent" in str(check)
    exact = Draws(np.full((200, 1), 10.0), FAILING.names, Report("exact"))
    assert predictive_check(KEY, exact, FAILING, seen).passed
    surprising = predictive_check(KEY, Draws(np.full((200, 1), 60.0), FAILING.names, Report("exact")),
                                  FAILING, seen)  # fmt: skip
    assert not surprising.passed
    assert surprising.p_values[FAILING.private_names[1]] < 0.01


def test_trials_keep_tables_with_absent_cells():
    trials = draw_trials(
        KEY, lambda key, observed: MODEL.prior.sample(key, 20), MODEL, 60, num_draws=20,
        progress=False,
    )  # fmt: skip
    assert trials.num == 60
    assert np.isnan(trials.observed).any()
    assert np.isfinite(trials.scores).all()


def test_distances_see_absence():
    ruler = Ruler(CELLS, np.array([7.0, np.nan, 9.0]), np.ones(3))
    exact = dataclass_with(ruler, Thresholded(Exact(), above=5.0))
    rows = np.array([[7.0, 2.0, 9.0], [7.0, 5.0, 9.0], [4.0, 2.0, 9.0], [np.nan] * 3])
    found = exact.distances(KEY, rows)[:, 0]
    np.testing.assert_allclose(found, [0.0, 1.0, math.sqrt(4.0 + 1.0), np.inf])
    s = np.random.default_rng(0).poisson(9.0, (200, 3)).astype(float)
    for distance in (Euclidean(), Weighted()):
        fitted = Ruler.fitted(KEY, distance, CELLS, ruler.observed, s)
        assert np.all(fitted.scales > 0.0)
        assert np.isfinite(fitted.distances(KEY, s)).all()


def dataclass_with(ruler, mechanism):
    return Ruler(mechanism, ruler.observed, ruler.scales)


def test_the_median_distance_counts_absent_cells_and_drops_failed_rows():
    rows = np.tile([[7.0, np.nan, 9.0]], (20, 1))
    assert log_median_distance([7.0, np.nan, 9.0], rows) == -math.inf
    assert log_median_distance([7.0, 6.0, 9.0], rows) > -math.inf
    failed = np.concatenate([rows, np.full((20, 3), np.nan)])
    assert log_median_distance([7.0, np.nan, 9.0], failed) == -math.inf


SEEN = np.array([9.0, np.nan, 12.0])


def exact_mean_and_sd(seen):
    """The posterior of the rate given these cells, on a grid, with sums over counts below 80."""
    rates, n = np.linspace(0.1, 40.0, 800), np.arange(80.0)
    like = np.ones(800)
    for value in seen:
        eta = np.exp(Thresholded(NOISE, above=5.0).log_prob([[value]] * 80, n[:, None]))
        like = like * (poisson.pmf(n, rates[:, None]) @ eta)
    weights = like * gamma.pdf(rates, 20.0, scale=0.5)
    weights /= weights.sum()
    mean = weights @ rates
    return mean, math.sqrt(weights @ (rates - mean) ** 2)


@pytest.mark.parametrize(
    "method",
    [
        nw.inference.RejectionABC(max_simulations=20_000),
        nw.inference.SMCABC(max_simulations=20_000, num_particles=500),
        nw.inference.ImportanceSampling(max_simulations=20_000),
        nw.inference.ExactSMC(max_simulations=20_000),
        pytest.param(
            nw.inference.PseudoMarginalMCMC(max_simulations=40_000), marks=pytest.mark.slow
        ),
    ],
    ids=lambda method: method.slug,
)
def test_methods_that_weigh_simulations_take_absent_cells(method):
    """Means within a quarter of a posterior sd: Monte Carlo errors of 300 effective draws are a
    seventeenth of one. Dropping the absent cell would move the mean by more.
    """
    mean, sd = exact_mean_and_sd(SEEN)
    assert exact_mean_and_sd(SEEN[~np.isnan(SEEN)])[0] > mean + 0.4 * sd
    posterior = method.infer(KEY, MODEL, SEEN, progress=False)
    assert abs(posterior.sample(KEY, 2000).mean() - mean) < 0.25 * sd


def test_laplace_noise_does_not_take_nan():
    assert not Laplace(1.0).support.may_be_absent(2).any()


# Learnt methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("support", "code"),
    [
        (OrAbsent(Real(), 5.0), 5.0),
        (OrAbsent(Lattice(step=0.5), 5.2), 5.0),
        (OrAbsent(Lattice(low=0.0, high=10.0), 5.0), 4.0),
        (OrAbsent(Interval(0.0, 10.0), 5.0), 5.0),
        (OrAbsent(Interval(0.0, 10.0), 10.0), 9.0),
        (OrAbsent(Interval(0.0, 10.0), 0.0), math.nan),
        (OrAbsent(Finite((1.0, 5.0, 9.0)), 2.0), 4.0),
    ],
)
def test_codes_lie_below_all_that_is_published(support, code):
    plain, codes = coded(support, 2)
    np.testing.assert_array_equal(codes, [code, code])
    values = np.array([0.0, 0.5, 1.0, 5.0, 5.5, 6.0, 9.0, 10.0, 50.0])
    published = values[support.contains(values)]
    assert plain.contains(published).all()
    if not math.isnan(code):
        assert plain.contains([code]).all()
        assert code < published.min() or not support.contains([code])[0] or code == support.above


def test_codes_of_blocks_share_supports():
    support = CELLS.support
    plain, codes = coded(Blocks((support, Real()), widths=(3, 2)), 5)
    assert plain == Blocks((Lattice(low=4.0), Real()), widths=(3, 2))
    np.testing.assert_array_equal(codes, [4.0] * 3 + [np.nan] * 2)
    assert coded(support, 3)[0] == Lattice(low=4.0)


def test_networks_see_a_value_and_a_flag():
    seen = features(CELLS.support, np.array([[7.0, np.nan, 9.0], [np.nan] * 3]))
    assert seen.tolist() == [[7.0, 4.0, 9.0, 0.0, 1.0, 0.0], [4.0] * 3 + [1.0] * 3]
    assert features(NOISE.support, np.ones((2, 3))).shape == (2, 3)


SMALL = functools.partial(
    nw.estimators.masked_autoregressive_flow, num_layers=2, num_units=16, num_hidden=1
)
TRAINING = nw.estimators.Training(learning_rate=2e-3, max_epochs=60)


@pytest.mark.parametrize(
    "method",
    [
        nw.inference.PrivatePosteriorEstimation(
            num_rounds=1, num_simulations=2000, estimator=SMALL, training=TRAINING, noise_bank=16,
            num_noise=4,
        ),
        nw.inference.PrivateLikelihoodEstimation(
            num_rounds=1, num_simulations=2000, estimator=SMALL, training=TRAINING, noise_bank=16,
            num_noise=4, target_ess=400,
        ),
        nw.inference.ConfidentialLikelihoodEstimation(
            num_rounds=1, num_simulations=2000, estimator=SMALL, training=TRAINING, target_ess=400
        ),
    ],
    ids=lambda method: method.slug,
)  # fmt: skip
def test_learnt_methods_take_absent_cells(method):
    """Small networks: means within .4 posterior sd; without the absent cell it is .5 off."""
    mean, sd = exact_mean_and_sd(SEEN)
    posterior = method.infer(KEY, MODEL, SEEN, progress=False)
    assert abs(posterior.sample(KEY, 2000).mean() - mean) < 0.4 * sd


def robust(**changes):
    small = {"estimator": SMALL, "marginal": SMALL, "training": TRAINING, "num_simulations": 2000}
    chains = {"num_chains": 50, "num_warmup": 50, "target_ess": 400}
    return nw.inference.RobustPosteriorEstimation(**small, **chains, **changes)


def test_an_absent_cell_has_no_gross_error():
    """Refused before anything is simulated, with the methods that serve."""
    counted = []

    def simulate(key, theta):
        counted.append(1)
        return counts(key, theta)

    model = nw.PrivateModel(
        prior=PRIOR,
        simulator=nw.simulators.JaxSimulator(simulate),
        query=lambda x: x,
        mechanism=CELLS,
    )
    model.statistics(KEY, PRIOR.sample(KEY, 2))
    counted.clear()
    words = r"absent cell has no naive estimate.*error=MechanismError\(\), or PrivatePosterior"
    with pytest.raises(errors.MissingCapabilityError, match=words):
        robust().infer(KEY, model, SEEN, progress=False)
    assert not counted


@pytest.mark.slow
def test_robust_estimation_with_the_law_of_the_noise_takes_absent_cells():
    """Small networks: within .4 posterior sd, as for the other methods."""
    mean, sd = exact_mean_and_sd(SEEN)
    posterior = robust(error=nw.inference.MechanismError()).infer(KEY, MODEL, SEEN, progress=False)
    draws = posterior.sample(KEY, 2000)
    assert abs(draws.mean() - mean) < 0.4 * sd
    assert 0.8 < draws.std() / sd < 1.3


@pytest.mark.slow
def test_a_learnt_likelihood_gives_absent_cells_their_probability():
    """The default network, 4,000 simulations: .13 in each of three cells, within .03; the Monte Carlo
    error of 4,000 draws is .005.
    """
    training = nw.estimators.Training(learning_rate=2e-3, max_epochs=40)
    method = nw.inference.PrivateLikelihoodEstimation(
        num_rounds=1, num_simulations=4000, noise_bank=16, num_noise=4, training=training
    )
    fit = method.fit(KEY, MODEL, progress=False)
    drawn = fit.sample(KEY, np.full((4000, 1), 10.0))
    assert np.all(np.isnan(drawn) | (drawn >= 5.0))
    n = np.arange(80.0)[:, None]
    absent = np.exp(Thresholded(NOISE, above=5.0).log_prob([np.nan], n)) @ poisson.pmf(n[:, 0], 10)
    np.testing.assert_allclose(np.isnan(drawn).mean(axis=0), absent, atol=0.03)


# Exact cells --------------------------------------------------------------------------------------

WITH_TOTAL = MODEL.with_mechanism(Product([CELLS.mechanism, Exact()], widths=[2, 1]))


@pytest.mark.parametrize("slug", ["sppe", "sple", "cle", "rnpe", "da-mcmc"])
def test_methods_that_need_noise_refuse_an_exact_cell_and_name_others(slug):
    method = getattr(nw.inference, {row.slug: row.name for row in METHODS}[slug])()
    with pytest.raises(errors.MissingCapabilityError, match="weigh simulations that hit"):
        method.infer(KEY, WITH_TOTAL, [9.0, 8.0, 12.0], progress=False)
    assert not method.supports(WITH_TOTAL)


def test_what_has_no_noise():
    table = TransitionTable([[0.0, 1.0], [1.0, 0.0]])
    parts = [Thresholded(Exact(), above=1.0), Rounded(random=False), Rounded(), table, NOISE]
    assert [part.has_noiseless_columns for part in parts] == [True, True, False, True, False]
    assert Product(parts).has_noiseless_columns
