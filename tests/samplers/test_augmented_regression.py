"""Data augmentation for the regression: the exact table, a second route, bookkeeping, and planted
bugs that are seen.
"""

import inspect
import types

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise._core.keys import generator
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.samplers import _regression_kernel
from noisewise.samplers.augmented_regression import AugmentedRegression

OBSERVED = {
    10.0: (-38.2440, -6.6783, 3.1997, 27.1985, 9.8835, -13.8503, 2.1882, -2.2884, 3.4092),
    1.0: (-55.14, -6.00, 15.04, 23.78, 41.30, -16.21, -9.46, -11.33, 35.95),
    0.1: (-333.84, -106.51, -1.31, 399.93, 229.98, 19.67, 84.59, -55.41, 88.90),
}
EXACT = {  # mean, sd, the Monte Carlo error of both, acceptance of records
    10.0: ((-0.634, -2.643, 0.598), (0.878, 0.700, 0.924), 0.01, 0.844),
    1.0: ((-0.971, -0.960, 1.248), (0.957, 0.940, 0.898), 0.01, 0.980),
    0.1: ((-0.084, -0.085, 0.097), (1.006, 1.013, 1.014), 0.001, 0.9989),
}


def paper(epsilon):
    return AugmentedRegression(
        OBSERVED[epsilon], 13.0 / epsilon, num_records=100, predictor_mean=(0.9, -1.17)
    )


def deviations(draws, epsilon):
    """How far means are from the table in sds, and sds from the table as ratios minus 1."""
    mean, sd, _, _ = EXACT[epsilon]
    return np.abs(draws.mean(0) - mean) / sd, np.abs(draws.std(0) / sd - 1.0)


@pytest.mark.parametrize(
    "epsilon", [*(pytest.param(e, marks=pytest.mark.slow) for e in (10.0, 1.0)), 0.1]
)
def test_posterior_is_that_of_the_exact_table(epsilon):
    """4000 nearly independent draws: 4 standard errors plus the table's own error, 1/sqrt(4000) sd
    for means and 1/sqrt(8000) for sds (kurtosis near 3), so .063 + .014 and .045 + .014. Acceptance
    has an error below .001.
    """
    _, sd, error, acceptance = EXACT[epsilon]
    chains = paper(epsilon).near_independent(jax.random.key(3), 4000)
    assert chains.effective_sizes().min() > 3200
    means, sds = deviations(chains.pooled(4000), epsilon)
    assert means.max() < 4 / np.sqrt(4000) + error / min(sd)
    assert sds.max() < 4 / np.sqrt(8000) + error / min(sd)
    assert chains.record_acceptance.mean() == pytest.approx(acceptance, abs=0.0015)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", OBSERVED)
def test_posterior_is_that_of_the_exact_table_with_20000_effective_draws(epsilon):
    chains = paper(epsilon).near_independent(jax.random.key(4), 22_000)
    assert chains.effective_sizes().min() > 20_000
    means, sds = deviations(chains.pooled(), epsilon)
    assert means.max() < 0.05
    assert sds.max() < 0.05
    assert chains.record_acceptance.mean() == pytest.approx(EXACT[epsilon][3], abs=0.001)


@pytest.mark.slow
def test_interweaving_pays():
    """At epsilon .1 and 10 plain augmentation needs at least 20 times the sweeps for an effective
    draw.
    """
    for epsilon in (0.1, 10.0):
        plain = paper(epsilon).chains(jax.random.key(5), num_draws=10_000, num_moves=0)
        woven = paper(epsilon).chains(jax.random.key(5), num_draws=2000)
        assert plain.autocorrelation_times().max() > 20 * woven.autocorrelation_times().max()


# A second route, on a target with other sizes, bounds that bite and correlated predictors ---------

MEAN, COVARIANCE, BOUNDS = (
    (0.5, -0.3),
    ((1.0, 0.4), (0.4, 0.7)),
    ((-1.0, 2.0), (-2.0, 1.5), (-1.5, 2.5)),
)
SUMS = (2.0, 4.5, -3.0, 11.0, 1.0, -4.0, 6.0, 1.0, 5.0)
SCALE, RECORDS = 3.0, 20


def other(**changes):
    settings = {
        "noise_variance": 1.4,
        "prior_variance": 1.5,
        "bounds": BOUNDS,
        "predictor_covariance": COVARIANCE,
    }
    return AugmentedRegression(SUMS, SCALE, RECORDS, MEAN, **{**settings, **changes})


@pytest.fixture(scope="module")
def weighted():
    """Importance sampling from the prior with the package's own simulator, query and mechanism."""
    model = nw.simulators.LinearRegression(
        RECORDS,
        2,
        predictor_mean=MEAN,
        predictor_covariance=COVARIANCE,
        noise_variance=1.4,
        prior_variance=1.5,
    )
    query = nw.queries.RegressionMoments(RECORDS, 2, bounds=BOUNDS)
    theta = np.sqrt(1.5) * np.random.default_rng(0).normal(size=(400_000, 3))
    s = model.statistics(jax.random.key(0), theta, query)
    log_weights = nw.mechanisms.Laplace(scale=SCALE / RECORDS).log_prob(np.array(SUMS) / RECORDS, s)
    weights = np.exp(log_weights - log_weights.max())
    return theta, s, weights / weights.sum()


def z_scores(chains, weighted):
    """Differences of posterior means of beta, beta^2 and s between the routes, in standard errors
    of both.
    """
    theta, s, weights = weighted
    draws, totals = chains.pooled(), chains.totals.transpose(1, 0, 2).reshape(-1, 9) / RECORDS
    size = chains.effective_sizes().min()
    scores = []
    for ours, theirs in ((draws, theta), (draws**2, theta**2), (totals, s)):
        mean = weights @ theirs
        error = np.sqrt(weights**2 @ (theirs - mean) ** 2 + ours.var(0) / size)
        scores.append((ours.mean(0) - mean) / error)
    return np.abs(np.concatenate(scores))


@pytest.mark.slow
def test_two_routes_agree(weighted):
    """15 differences below 4.5 standard errors each. Planted: other variances and other bounds."""
    assert 1.0 / (weighted[2] ** 2).sum() > 3000
    assert z_scores(other().near_independent(jax.random.key(6), 20_000), weighted).max() < 4.5
    for change in ({"noise_variance": 1.0}, {"prior_variance": 1.0}, {"bounds": (-2.5, 2.5)}):
        assert (
            z_scores(other(**change).near_independent(jax.random.key(6), 20_000), weighted).max()
            > 6.0
        )


@pytest.mark.slow
def test_plain_augmentation_agrees_too(weighted):
    chains = other().chains(jax.random.key(7), num_draws=20_000, num_moves=0)
    assert z_scores(chains, weighted).max() < 4.5


# Bookkeeping --------------------------------------------------------------------------------------


def mutant(old, new):
    """The kernel with one line of its source changed."""
    source = inspect.getsource(_regression_kernel)
    assert source.count(old) == 1
    module = types.ModuleType("mutant")
    exec(
        compile(source.replace(old, new).replace(", cache=True", ""), "mutant", "exec"),
        module.__dict__,
    )
    return module


def final_state(kernel, num_moves):
    target = other()
    state = kernel.RegressionState(
        np.empty(3), np.empty((RECORDS, 3)), np.empty((RECORDS, 3)), np.empty(9)
    )
    outputs = np.empty((40, 3)), np.empty((40, 9))
    kernel.run_chain(
        generator(jax.random.key(9)),
        target._target(),
        state,
        target._move_root(),
        num_moves,
        0,
        25,
        *outputs,
    )
    return state


@pytest.mark.parametrize("num_moves", [0, 10])
def test_cached_sums_are_those_of_the_query(num_moves):
    """After 1000 sweeps the running sums are those of the records, by the query itself, up to
    rounding.
    """
    state = final_state(_regression_kernel, num_moves)
    query = nw.queries.RegressionMoments(RECORDS, 2, bounds=BOUNDS)
    np.testing.assert_allclose(state.total, RECORDS * query(state.records), atol=1e-10)


BUGS = {  # with how many moves per sweep: right moves make up for much of what is wrong elsewhere
    "cached sums not updated": (0, "            state.total[:] = new\n", ""),
    "prior forgotten in the move": (
        10,
        "change[j] * (state.beta[j] + change[j] / 2) / target.prior_sd**2",
        "0.0",
    ),
    "proposals too wide": (
        0,
        "response = beta[0] + target.noise_sd",
        "response = beta[0] + 1.2 * target.noise_sd",
    ),
    "records accepted by the wrong sign": (0, "if proposed - error <", "if error - proposed <"),
    "residuals not kept": (
        10,
        "            responses[i] += change[j]",
        "            responses[i] += 0.8 * change[j]",
    ),
    "variance for precision": (
        0,
        "root[j, j] += target.prior_sd**-2.0",
        "root[j, j] += target.prior_sd**2.0",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug, monkeypatch, weighted):
    num_moves, old, new = BUGS[bug]
    monkeypatch.setattr(_regression_kernel, "run_chain", mutant(old, new).run_chain)
    chains = other().chains(jax.random.key(8), num_draws=6000, num_moves=num_moves)
    assert z_scores(chains, weighted).max() > 6.0


def test_results_depend_on_the_key_and_on_nothing_else():
    run = lambda seed, **settings: (
        other().chains(jax.random.key(seed), num_chains=3, num_draws=20, **settings).draws
    )
    np.testing.assert_array_equal(run(0, num_threads=1), run(0, num_threads=3))
    np.testing.assert_array_equal(
        run(0), other().chains(jax.random.key(0), num_chains=5, num_draws=20).draws[:3]
    )
    np.testing.assert_array_equal(
        run(0), other().chains(jax.random.PRNGKey(0), num_chains=3, num_draws=20).draws
    )
    assert np.all(run(0) != run(1))
    assert np.all(run(0)[0] != run(0)[1])


def test_thinning_keeps_every_kth_draw():
    every = other().chains(jax.random.key(0), num_chains=1, num_draws=60)
    third = other().chains(jax.random.key(0), num_chains=1, num_draws=20, thin=3)
    np.testing.assert_array_equal(every.draws[:, 2::3], third.draws)
    np.testing.assert_array_equal(every.totals[:, 2::3], third.totals)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"observed": (1.0, 2.0)},
            InvalidInputError,
            r"observed must be 9 finite numbers, got shape \(2,\)",
        ),
        ({"observed": (np.nan,) * 9}, InvalidInputError, "finite"),
        ({"observed": "abc"}, InvalidTypeError, "observed"),
        ({"scale": 0.0}, InvalidInputError, "scale"),
        ({"num_records": 0}, InvalidInputError, "num_records"),
        ({"noise_variance": -1.0}, InvalidInputError, "noise_variance"),
        (
            {"predictor_covariance": ((1.0, 2.0), (2.0, 1.0))},
            InvalidInputError,
            "positive definite",
        ),
        ({"predictor_covariance": ((1.0,),)}, InvalidInputError, "symmetric"),
        ({"bounds": (1.0, -1.0)}, InvalidInputError, "low < high"),
        ({"bounds": (1.0, 2.0, 3.0)}, InvalidInputError, "pair"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    given = {"observed": SUMS, "scale": 1.0, "num_records": 10, "predictor_mean": (0.0, 0.0)}
    with pytest.raises(error, match=message):
        AugmentedRegression(**{**given, **settings})


def test_bad_calls_are_refused():
    with pytest.raises(InvalidInputError, match="num_chains"):
        other().chains(jax.random.key(0), num_chains=0)
    with pytest.raises(InvalidTypeError, match="PRNG key"):
        other().chains(True)
