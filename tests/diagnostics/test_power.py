"""What each diagnostic catches, and how often it is wrong: repetitions with closed-form posteriors,
right or wrong by design.

`SHARE` (100) repetitions of each fault, or more where said: a share p found in n of them has a
standard error of sqrt(p (1 - p) / n), .01 at .99 of 100. Powers are asserted as found, false alarms
to 4 standard errors of the stated rate. Seeds are fixed.
"""

import dataclasses

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import noisewise as nw
from noisewise import errors
from noisewise.diagnostics import (
    Trials,
    calibrate,
    certify,
    compare,
    coverage,
    misspecification,
    predictive_check,
    prior_sensitivity,
    tarp,
)
from noisewise.inference.contract.surprise import p_value
from noisewise.posteriors import Draws, Report
from tests.diagnostics.planted import normal

pytestmark = pytest.mark.slow

SHARE = 100
ALPHA = 0.05
PRIOR = np.array([1.0, 2.0])
NOISE = np.array([1.0, 1.5])
FACTOR = PRIOR**2 / (PRIOR**2 + NOISE**2)
SD = NOISE * np.sqrt(FACTOR)


def trials(seed, num, bias=0.0, stretch=1.0, *, dim=2, ignores=False, swapped=False, num_draws=100):
    """theta_j ~ N(0, PRIOR_j^2), y_j ~ N(theta_j, NOISE_j^2), and draws of the posterior, moved by
    `bias` of its sds and stretched.
    """
    rng = np.random.default_rng(seed)
    theta = PRIOR * rng.normal(size=(num, 2))
    observed = theta + NOISE * rng.normal(size=(num, 2))
    noise = rng.normal(size=(num, num_draws, 2))
    draws = (FACTOR * observed)[:, None] + SD * (bias + stretch * noise)
    draws = PRIOR * noise if ignores else draws[..., ::-1] if swapped else draws
    return Trials(("a", "b")[:dim], theta[:, :dim], observed[:, :dim], draws[..., :dim], 0)


def log_likelihood(theta, observed):
    return stats.norm.logpdf(observed, theta, NOISE[: theta.shape[-1]]).sum(axis=-1)


LIKELIHOOD = {"quantities": {"log likelihood": log_likelihood}}


def failing(diagnostic, num, repeats=SHARE, more=None, **wrong):
    """The share of calibrations that fail."""
    found = [
        diagnostic(jax.random.key(k), trials(k, num, **wrong), **(more or {}))
        for k in range(repeats)
    ]
    return np.mean([not each.passed for each in found])


def above(rate, repeats):
    """Four standard errors above a rate."""
    return rate + 4 * np.sqrt(rate * (1 - rate) / repeats)


# Calibration --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num", "wrong", "power"),
    [
        (2000, {"stretch": 0.9}, 0.99),
        (2000, {"bias": 0.2}, 0.99),
        (500, {"stretch": 0.8}, 0.99),
        (500, {"bias": 0.2}, 0.95),
    ],
    ids=str,
)
def test_calibrate_has_the_power_it_claims(num, wrong, power):
    """One parameter, as in the table of `Calibration`; the log likelihood beside it must not cost
    the power.
    """
    assert failing(calibrate, num, dim=1, **wrong) >= power
    assert failing(calibrate, num, dim=1, more=LIKELIHOOD, **wrong) >= power


@pytest.mark.parametrize("num", [500, 2000])
@pytest.mark.parametrize("more", [{}, LIKELIHOOD], ids=["parameters", "log likelihood"])
def test_calibrate_alarms_falsely_at_its_rate(num, more):
    """Bonferroni over tests that depend on each other a little: between 1% and 5%, found 2 to 4%."""
    assert 0.01 < failing(calibrate, num, 400, more) < above(ALPHA, 400)


def test_posteriors_that_ignore_the_data_fail():
    """Their ranks are uniform, and depend on the data: without that test they pass."""
    assert failing(calibrate, 500, ignores=True) >= 0.99
    found = [calibrate(jax.random.key(k), trials(k, 500, ignores=True)) for k in range(SHARE)]
    assert np.mean([not dataclasses.replace(each, scores=None).passed for each in found]) < above(
        ALPHA, SHARE
    )


def test_errors_that_cancel_over_the_data_fail():
    """Draws half an sd too near to 0 or too far from it, as y has it, with the spread that makes up
    for it in the ranks.
    """
    found = []
    for k in range(SHARE):
        given = trials(k, 500, stretch=np.sqrt(1.25), dim=1)
        moved = given.draws + 0.5 * SD[0] * np.sign(given.observed)[:, None]
        found.append(calibrate(jax.random.key(k), dataclasses.replace(given, draws=moved)))
    assert np.mean([not each.passed for each in found]) >= 0.99
    assert np.mean([not dataclasses.replace(each, scores=None).passed for each in found]) < 0.2


def test_tarp_sees_data_that_are_ignored():
    assert failing(tarp, 500, ignores=True) >= 0.99


def test_swapped_parameters_fail():
    assert failing(calibrate, 500, swapped=True) >= 0.99
    assert failing(tarp, 500, swapped=True) >= 0.99


# TARP ---------------------------------------------------------------------------------------------

WIDE = 0.036
TARP_TRIALS = 2000
EXCEEDED = float(stats.kstwo(TARP_TRIALS).sf(WIDE))


def test_tarp_sees_a_narrow_posterior():
    assert failing(tarp, 500, stretch=0.8) >= 0.95
    assert failing(tarp, 2000, stretch=0.9) >= 0.95


def test_tarp_alarms_falsely_at_its_rate():
    assert 0.01 < failing(tarp, 500, 400) < above(ALPHA, 400)


def test_the_gap_of_right_posteriors_has_the_law_of_kolmogorov():
    """Of N = 2000 uniforms the gap exceeds .036 in 1.1% of cases (of 1000 in 15%, of 500 in 52%),
    and its law is known for any N.

    Planted: an sd of .8 times the right one goes beyond .036 in 99% or more.
    """
    assert 0.010 < EXCEEDED < 0.012
    gaps = np.array([tarp(jax.random.key(k), trials(k, TARP_TRIALS)).gap for k in range(200)])
    assert np.mean(gaps > WIDE) <= above(EXCEEDED, 200)
    assert stats.kstest(gaps, stats.kstwo(TARP_TRIALS).cdf).pvalue > 1e-3
    narrow = [
        tarp(jax.random.key(k), trials(k, TARP_TRIALS, stretch=0.8)).gap for k in range(SHARE)
    ]
    assert np.mean(np.array(narrow) > WIDE) >= 0.99


# Coverage -----------------------------------------------------------------------------------------


def tables(**wrong):
    return [coverage(jax.random.key(k), trials(k, 500, **wrong)) for k in range(SHARE)]


def test_coverage_of_right_posteriors_is_right_at_its_rate():
    """Clopper-Pearson limits hold the level in 95% of rows or more; the mean coverage is exact: 500
    trials, 100 repetitions, 4 se.
    """
    found = tables()
    for name in ("a", "b"):
        for level in (0.5, 0.8, 0.95):
            rows = [table.loc[(name, level)] for table in found]
            assert np.mean([not row["right"] for row in rows]) <= above(0.05, SHARE)
            error = np.sqrt(level * (1 - level) / (500 * SHARE))
            assert np.mean([row["coverage"] for row in rows]) == pytest.approx(level, abs=4 * error)


def test_coverage_flags_a_narrow_posterior():
    """An sd of .8 times the right one: every level is below, and the 80% and 95% intervals are
    flagged nearly always.
    """
    for table in tables(stretch=0.8):
        assert (table["coverage"] < table.index.get_level_values("level")).all()
        assert not table["right"].xs(0.95, level="level").any()
    assert (
        np.mean([table["right"].xs(0.8, level="level").any() for table in tables(stretch=0.8)])
        <= 0.01
    )


# Observations against predictions -----------------------------------------------------------------


def several(prior_sd=2.0, scale=0.5, width=1):
    """theta ~ N(0, prior_sd^2), `width` statistics with unit noise, released with Gaussian noise."""
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, prior_sd)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + jax.random.normal(key, (width,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=scale),
    )


def skewed():
    """exp(theta) in one column, a count in the other: the lower end is steep, the upper tail heavy."""

    def simulate(key, theta):
        first, second = jax.random.split(key)
        rate = jax.numpy.exp(theta[0])
        return jax.numpy.array(
            [rate * jax.random.exponential(first), 1.0 * jax.random.poisson(second, 3.0)]
        )

    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(simulate),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1e-3),
    )


@pytest.mark.parametrize("make", [several, skewed])
def test_misspecification_alarms_falsely_in_one_of_a_hundred(make):
    """2000 observations of the prior predictive, each against 400 simulated ones: at most 1% + 4
    standard errors, .89%.
    """
    model = make()
    observed = model.simulate(jax.random.key(1), model.prior.sample(jax.random.key(0), 2000))
    alarms = [
        not misspecification(jax.random.key(k), model, y, 400).passed
        for k, y in enumerate(observed)
    ]
    assert np.mean(alarms) <= above(0.01, 2000)


@pytest.mark.parametrize("make", [several, skewed])
def test_observations_outside_the_simulated_range_are_always_flagged(make):
    """By a hair in one column, at either end, the others being usual ones; 4 / alpha simulations
    for each statistic.
    """
    model = make()
    for k in range(SHARE):
        usual = misspecification(
            jax.random.key(k), model, np.full(model.private_width, 1.0), 1000
        ).simulated
        for column in range(usual.shape[1]):
            for end in (usual.min(axis=0) - 1e-6, usual.max(axis=0) + 1e-6):
                outside = np.median(usual, axis=0)
                outside[column] = end[column]
                found = misspecification(jax.random.key(k), model, outside, 1000)
                np.testing.assert_array_equal(found.simulated, usual)
                assert not found.passed


def test_the_distance_from_the_centre_alone_would_not_see_them():
    """Planted: what was ranked before depths were, the largest absolute deviation, of an
    observation below all exponentials.
    """
    simulated = np.random.default_rng(0).exponential(size=(999, 1))
    deviations = np.abs(np.append(simulated, -0.1) - np.median(simulated))
    assert np.mean(deviations >= deviations[-1]) > 0.1
    assert p_value(simulated, np.array([-0.1])) <= 0.004


def test_observations_off_the_support_are_refused():
    model = nw.problems.sir(epsilon=10.0).model
    trials_ = model.mechanism.trials
    for count in (-1.0, trials_ + 1.0, 0.5, np.nan):
        with pytest.raises(errors.NoisewiseError):
            misspecification(jax.random.key(0), model, np.full(model.private_width, count))


def posterior_of_mean(model, observed, scale=None):
    """The conjugate posterior of `several`, with the noise scale that is believed."""
    noise = 1.0 + (scale or float(model.mechanism.scale)) ** 2
    precision = 1 / 4.0 + len(observed) / noise
    return observed.sum() / noise / precision, precision**-0.5


def test_predictive_check_sees_a_wrong_scale():
    """20 statistics made with three times the noise that the model believes in: seen in all; the
    right model fails in 1% at most.
    """
    model, truth = several(width=20), several(width=20, scale=3.0)
    right, wrong = [], []
    for k in range(SHARE):
        for made, found in ((model, right), (truth, wrong)):
            theta = made.prior.sample(jax.random.key(k), 1)
            observed = made.simulate(jax.random.key(1000 + k), theta)[0]
            mean, sd = posterior_of_mean(model, observed)
            posterior = normal(("a",), [mean], [[sd**2]])
            found.append(
                predictive_check(jax.random.key(k), posterior, model, observed, 400).passed
            )
    assert not any(wrong)
    assert np.mean(~np.array(right)) <= above(0.01, SHARE)


# One posterior ------------------------------------------------------------------------------------


def drawn(mean, sd, seed, num=4000):
    theta = mean + sd * np.random.default_rng(seed).normal(size=(num, 1))
    return Draws(theta, ("a",), Report("given"))


def test_prior_sensitivity_flags_an_informative_prior():
    """The same datum, with noise variance 1.25 and 3 prior sds off: a prior with sd .5 decides, one
    with sd 20 does not.
    """
    for prior_sd, sensitive in ((0.5, True), (20.0, False)):
        model, y = several(prior_sd), 1.5
        precision = 1 / prior_sd**2 + 1 / 1.25
        found = [
            prior_sensitivity(drawn(y / 1.25 / precision, precision**-0.5, k), model).loc[
                "a", "sensitive"
            ]
            for k in range(SHARE)
        ]
        assert np.mean(found) == (1.0 if sensitive else 0.0)


NUM = 6000  # of which compare takes 2000 for its classifier: at most half of what they are worth


def test_compare_shows_a_shifted_posterior():
    """A shift of .3 sd: the distance is 2 Phi(.15) - 1 = .12 and C2ST Phi(.15) = .56, the floors of
    2000 draws .043 (95%) and .5 +- .008.

    20 repetitions, as each trains three classifiers.
    """
    apart, same = [], []
    for k in range(20):
        found = compare(
            {
                "exact": drawn(0, 1, 3 * k, NUM),
                "same": drawn(0, 1, 3 * k + 1, NUM),
                "moved": drawn(0.3, 1, 3 * k + 2, NUM),
            }
        )
        apart.append(
            (
                found.kolmogorov_smirnov.loc[("exact", "moved"), "a"],
                found.c2st.loc["exact", "moved"],
            )
        )
        same.append(
            (found.kolmogorov_smirnov.loc[("exact", "same"), "a"], found.c2st.loc["exact", "same"])
        )
    (ks, told), (ks_same, told_same) = np.transpose(apart), np.transpose(same)
    assert (ks > 0.043).all()
    assert (told > 0.525).all()
    assert np.mean(ks_same > 0.043) <= above(0.05, 20)
    assert (told_same < 0.525).all()
    assert told_same.mean() == pytest.approx(
        0.49, abs=4 * 0.008 / np.sqrt(20) + 0.002
    )  # the floor that c2st documents for d = 1
    assert told.mean() == pytest.approx(stats.norm.cdf(0.15), abs=0.01)


def test_certify_sees_a_posterior_without_its_width():
    """sd of a tenth of the right one: poor in all; the right one is certified in all, 3000
    simulations of a model with 1 + rv = 1.4.
    """
    model, y = several(scale=2.0), np.array([1.0])
    mean, sd = posterior_of_mean(model, y)
    for stretch, certified in ((1.0, True), (0.1, False)):
        found = [
            certify(
                jax.random.key(k), normal(("a",), [mean], [[(stretch * sd) ** 2]]), model, y, 3000
            )
            for k in range(SHARE)
        ]
        assert all(each.certified == certified for each in found)
        ratio = np.mean([each.comparison["a"][1] for each in found])
        assert ratio == pytest.approx(stretch, rel=0.05)
