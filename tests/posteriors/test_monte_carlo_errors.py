"""Monte Carlo errors are as large as they say: z-scores over replications have an sd of 1.

An sd of z-scores over R replications has a standard error of 1 / sqrt(2 R): .035 over 400, .07 over
100. Estimates of an error are noisy themselves, which widens z-scores, in tails by 5% to 10%.
"""

import functools
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from noisewise.posteriors import Draws, Report, WeightedSamples, monte_carlo_errors, summaries
from noisewise.posteriors.monte_carlo_errors import chain_times

REPORT = Report("test")
NORMAL = stats.norm()
COLUMNS = ("mean", "median", "2.5%", "97.5%")
TRUTH = {"mean": 0.0, "median": 0.0, "2.5%": NORMAL.ppf(0.025), "97.5%": NORMAL.ppf(0.975)}


def weighted(theta, proposal):
    """Draws of a proposal, weighted to N(0, 1)."""
    log_weights = NORMAL.logpdf(theta) - proposal.logpdf(theta)
    return WeightedSamples(theta[:, None], ("a",), REPORT, log_weights=log_weights)


def autoregressive(rng, correlation, num_chains, num):
    """A stationary chain with marginal N(0, 1)."""
    noise = rng.normal(size=(num_chains, num))
    noise[:, 0] /= np.sqrt(1.0 - correlation**2)
    chains = lfilter([1.0], [1.0, -correlation], noise, axis=1) * np.sqrt(1.0 - correlation**2)
    return Draws(chains.reshape(-1, 1), ("a",), REPORT, num_chains=num_chains)


MAKE = {
    "equal weights": lambda rng: weighted(rng.normal(size=2000), NORMAL),
    "wide proposal": lambda rng: weighted(rng.standard_t(3, size=4000), stats.t(3)),
    "narrow proposal": lambda rng: weighted(0.8 * rng.normal(size=8000), stats.norm(scale=0.8)),
    "shifted proposal": lambda rng: weighted(
        1.0 + 1.5 * rng.normal(size=4000), stats.norm(1.0, 1.5)
    ),
    "independent draws": lambda rng: Draws(rng.normal(size=(2000, 1)), ("a",), REPORT),
    "chains": lambda rng: autoregressive(rng, 0.8, 4, 2000),
    "one chain": lambda rng: autoregressive(rng, 0.5, 1, 4000),
    "antithetic chains": lambda rng: autoregressive(rng, -0.5, 2, 1000),
}


def z_scores(make, num, error=lambda posterior, row, column: row[f"{column} mcse"]):
    """(estimate - truth) / stated error, shape (num, 4)."""
    scores = []
    for seed in range(num):
        posterior = make(np.random.default_rng([seed, 7]))
        row = posterior.summary().iloc[0]
        scores.append([(row[c] - TRUTH[c]) / error(posterior, row, c) for c in COLUMNS])
    return np.array(scores)


@pytest.mark.parametrize("name", MAKE)
def test_errors_are_as_large_as_they_say(name):
    """The sd of 100 z-scores: 1.05 with an error of .07; four of them are allowed."""
    spread = z_scores(MAKE[name], 100).std(axis=0)
    assert (spread > 0.77).all(), spread
    assert (spread < 1.33).all(), spread


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKE)
def test_errors_are_as_large_as_they_say_to_a_tenth(name):
    spread = z_scores(MAKE[name], 1000).std(axis=0)  # each with a standard error of .022
    assert (spread > 0.85).all(), spread
    assert (spread < 1.15).all(), spread


def rare_in_a_tail(rng):
    """Draws of which one in 33 below -1 has a weight, a large one that varies: four or five lie
    beyond the 2.5% point.
    """
    theta = rng.normal(size=6000)
    chance = np.where(theta < -1.0, 0.03, 0.3)
    varying = np.where(theta < -1.0, 0.5 * rng.normal(size=6000) - 0.125, 0.0)
    log_weights = np.where(rng.random(6000) < chance, varying - np.log(chance), -np.inf)
    return WeightedSamples(theta[:, None], ("a",), REPORT, log_weights=log_weights)


@pytest.mark.parametrize(("more", "least", "most"), [(None, 0.85, 1.15), (0.0, 1.2, np.inf)])
def test_an_end_that_rests_on_a_few_large_weights_has_an_honest_error(
    monkeypatch, more, least, most
):
    """The rms of 300 z-scores has an error of .04; planted: counting only what happened to occur,
    which gives 1.40.
    """
    if more is not None:
        planted = functools.partial(monte_carlo_errors.effective_sizes_at, more=more)
        monkeypatch.setattr(summaries, "effective_sizes_at", planted)
    scores = z_scores(rare_in_a_tail, 300)[:, COLUMNS.index("2.5%")]
    assert least < np.sqrt(np.mean(scores**2)) < most


@pytest.mark.parametrize("name", ["equal weights", "wide proposal", "independent draws", "chains"])
def test_one_effective_size_does_not_describe_tails(name):
    """Planted: sd / sqrt(effective size) for every number."""

    def planted(posterior, row, column):
        chains = isinstance(posterior, Draws)
        size = posterior.diagnostics()["ess_bulk"].iloc[0] if chains else posterior.effective_size
        return row["sd"] / np.sqrt(size)

    spread = z_scores(MAKE[name], 100, planted).std(axis=0)
    assert spread[COLUMNS.index("2.5%")] > 1.33


def test_chains_taken_for_independent_draws_are_seen():
    """Planted: the autocorrelation of chains left out."""

    def planted(rng):
        draws = MAKE["chains"](rng)
        log_weights = np.zeros(len(draws.theta))
        return WeightedSamples(draws.theta, ("a",), REPORT, log_weights=log_weights)

    assert (z_scores(planted, 100).std(axis=0)[:2] > 1.33).all()


@pytest.mark.parametrize(("correlation", "num_chains"), [(0.8, 4), (0.0, 1), (0.95, 2), (-0.5, 3)])
def test_autocorrelation_times_are_those_of_arviz(correlation, num_chains):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        theta = autoregressive(np.random.default_rng(0), correlation, num_chains, 2000).theta
        size = float(arviz.ess(theta.reshape(num_chains, -1), method="mean"))
    found = chain_times(theta - theta.mean(), num_chains)
    assert found[0] == pytest.approx(len(theta) / size, rel=1e-9)
    if correlation >= 0.0:
        expected = (1 + correlation) / (1 - correlation)
        assert found[0] == pytest.approx(expected, rel=0.35)


def test_a_chain_apart_has_a_large_error():
    theta = np.random.default_rng(0).normal(size=(4000, 1))
    theta[:1000] += 3.0
    row = Draws(theta, ("a",), REPORT, num_chains=4).summary().iloc[0]
    assert row["mean mcse"] > 0.3


def test_the_error_of_a_mean_of_equal_weights_is_the_usual_one():
    theta = np.random.default_rng(0).normal(size=(50, 2))
    table = WeightedSamples(theta, ("a", "b"), REPORT, log_weights=np.zeros(50)).summary()
    np.testing.assert_allclose(table["mean mcse"], theta.std(axis=0, ddof=1) / np.sqrt(50))


def test_columns_come_in_their_order_and_are_named_after_their_numbers():
    posterior = MAKE["equal weights"](np.random.default_rng(0))
    first = ["mean", "sd", "median", "2.5%", "97.5%", "hdi low", "hdi high"]
    errors = ["mean mcse", "median mcse", "2.5% mcse", "97.5% mcse"]
    assert list(posterior.summary().columns) == first + errors
    assert list(posterior.summary(level=0.8).columns[-2:]) == ["10% mcse", "90% mcse"]


def test_what_cannot_vary_or_is_not_finite_has_no_error():
    derived = {"constant": np.ones(100), "infinite": np.full(100, np.inf)}
    theta = np.random.default_rng(0).normal(size=(100, 1))
    for make in (
        lambda **more: WeightedSamples(theta, ("a",), REPORT, log_weights=np.zeros(100), **more),
        lambda **more: Draws(theta, ("a",), REPORT, num_chains=2, **more),
    ):
        table = make(derived=derived).summary().filter(like="mcse")
        assert (table.loc["constant"] < 1e-12).all()
        assert np.isnan(table.loc["infinite", "mean mcse"])
        assert (table.loc["a"] > 0.0).all()
    one = WeightedSamples(theta, ("a",), REPORT, log_weights=np.where(theta[:, 0] > 2, 0, -np.inf))
    assert np.isnan(one.summary().loc["a", "mean mcse"]) or (theta > 2).sum() > 1


def test_rows_of_weight_zero_may_hold_anything():
    theta = np.array([[np.nan], [1.0], [2.0], [3.0]])
    log_weights = np.array([-np.inf, 0.0, 0.0, 0.0])
    found = WeightedSamples(theta, ("a",), REPORT, log_weights=log_weights).summary()
    without = WeightedSamples(theta[1:], ("a",), REPORT, log_weights=np.zeros(3)).summary()
    np.testing.assert_allclose(found, without)


def test_short_chains_have_unknown_errors():
    row = Draws(np.arange(14.0)[:, None], ("a",), REPORT, num_chains=2).summary().iloc[0]
    assert row.filter(like="mcse").isna().all()
    assert row["mean"] == pytest.approx(6.5)


# Tails --------------------------------------------------------------------------------------------


def test_ends_beyond_which_fewer_than_ten_draws_lie_are_named():
    """Equal weights: 10 of 400 draws lie in a tail of 2.5%, 9 of 360."""
    for num, expected in ((400, {}), (360, {"a": ("2.5%", "97.5%")})):
        theta = np.random.default_rng(0).normal(size=(num, 1))
        posterior = WeightedSamples(theta, ("a",), REPORT, log_weights=np.zeros(num))
        assert posterior.thin_tails == expected


def test_one_thin_tail_is_told_from_the_other():
    theta = np.random.default_rng(0).normal(size=6000)
    log_weights = np.stack([1.5 * theta, -1.5 * theta])
    for sign, end in zip(log_weights, ("97.5%", "2.5%"), strict=True):
        posterior = WeightedSamples(
            theta[:, None], ("a",), REPORT, derived={"c": np.ones(6000)}, log_weights=sign
        )
        assert posterior.effective_size > 400
        assert posterior.thin_tails == {"a": (end,)}


def test_a_heavy_draw_at_the_end_is_a_thin_tail():
    theta = np.linspace(0.0, 1.0, 2000)[:, None]
    log_weights = np.zeros(2000)
    log_weights[-1] = np.log(200.0)
    posterior = WeightedSamples(theta, ("a",), REPORT, log_weights=log_weights)
    assert posterior.thin_tails == {"a": ("97.5%",)}


def test_chains_that_move_slowly_have_thin_tails():
    fast, slow = (
        autoregressive(np.random.default_rng(0), correlation, 4, 1000)
        for correlation in (0.0, 0.95)
    )
    assert fast.thin_tails == {}
    assert set(slow.thin_tails) == {"a"}
