"""Where uncertainty comes from: against closed forms, a brute-force reference, and what the
regression must show.
"""

import dataclasses

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.diagnostics import decompose_uncertainty
from noisewise.diagnostics.decomposition.regression import predicted
from noisewise.posteriors import Draws, Report

KEY = jax.random.key(1)
RECORDS, BOUND, GRID = 20, 0.5, 1 / 64


def clamped_mean(epsilon):
    """Twenty records N(theta, 1), theta ~ N(0, 1), most of them clamped."""
    query = nw.queries.ClampedMean(bounds=(-BOUND, BOUND), num_records=RECORDS, grid=GRID)
    sensitivity = query.sensitivity(norm=1)
    return nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.NormalRecords(num_records=RECORDS, prior_variance=1.0),
        query=query,
        mechanism=nw.mechanisms.Laplace.calibrate(
            sensitivity=sensitivity, guarantee=nw.PureDP(epsilon)
        ),
    )


def brute_force(model, observed, num=1_000_000):
    """The three variances from weighted prior simulations, with E[theta | s] the mean over each
    lattice point of s.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num, 1)) + rng.normal(size=(num, RECORDS))
    places = np.round(np.clip(x, -BOUND, BOUND) / GRID).sum(1)
    mean = x.sum(1) / (RECORDS + 1)
    weights = np.exp(model.mechanism.log_prob(observed, places[:, None] * GRID / RECORDS))
    weights /= weights.sum()
    places = np.unique(places, return_inverse=True)[1]
    counts = np.bincount(places)[places]
    given_s = np.bincount(places, mean)[places] / counts
    clamping = weights @ (
        np.where(counts > 1, counts / np.maximum(counts - 1, 1), 0.0) * (mean - given_s) ** 2
    )
    between = weights @ mean**2 - (weights @ mean) ** 2
    assert 1.0 / (weights**2).sum() > 10_000
    return np.array([1 / (RECORDS + 1), clamping, between - clamping])


@pytest.mark.parametrize("epsilon", [pytest.param(1.0, marks=pytest.mark.slow), 8.0])
def test_parts_are_those_of_brute_force(epsilon):
    """Tails are nearly normal here: variances of 4000 databases have a standard error of 2.5%, the
    reference one of 1% at most.
    """
    model = clamped_mean(epsilon)
    found = decompose_uncertainty(KEY, model, [0.05], progress=False)
    exact = brute_force(model, [0.05])
    assert exact[1] > 0.05 * exact.sum()  # clamping matters, so that there is something to see
    error = np.abs(found.shares.to_numpy()[0] - exact / exact.sum())
    assert (error < [0.035, 0.013, 0.04]).all(), (
        error
    )  # four standard errors, which are .008, .003 and .01
    assert (found.standard_errors < [0.012, 0.005, 0.015]).all()
    assert float(found.total.iloc[0]) == pytest.approx(exact.sum(), rel=0.1)


def test_two_parts_are_those_of_the_conjugate_model():
    """theta ~ N(0, 1), s ~ N(theta, .5), s_dp ~ N(s, 1.5): Var(theta | s) = 1/3, E[theta | s] = s /
    1.5, Var(s | s_dp) = .75.
    """
    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + np.sqrt(0.5) * jax.random.normal(key, (1,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=np.sqrt(1.5)),
        derived={"minus twice": lambda theta: -2.0 * theta[..., 0]},
    )
    rng = np.random.default_rng(0)
    s = 0.5 * 1.2 + np.sqrt(0.75) * rng.normal(size=(20_000, 1))
    theta = s / 1.5 + np.sqrt(1 / 3) * rng.normal(size=(20_000, 1))
    given = Draws(theta, ("a",), Report("given", exact=True), statistics=s, statistic_names=("s",))
    found = decompose_uncertainty(KEY, model, [1.2], posterior=given)
    assert found.parts == ("sampling and clamping", "privacy")
    # the standard error of a share of 20,000 draws is below .006
    np.testing.assert_allclose(found.shares.to_numpy(), [[0.5, 0.5]] * 2, atol=0.025)
    np.testing.assert_allclose(found.table.loc["minus twice"], 4.0 * found.table.loc["a"])
    drawn = decompose_uncertainty(KEY, model, [1.2], num_draws=2000, progress=False)
    np.testing.assert_allclose(drawn.shares.to_numpy(), [[0.5, 0.5]] * 2, atol=0.08)
    assert "privacy" in str(drawn)
    assert "minus twice" in str(drawn)


@pytest.mark.parametrize(("num", "exact"), [(1, 0.238), (2, 0.306), (12, None)])
def test_statistics_on_a_lattice(num, exact):
    """p uniform, s binomial(num, p), Laplace noise of scale .7: E[p | s] = (s + 1) / (num + 2), so
    the share is a sum over s.
    """
    model = nw.PrivateModel(
        prior=nw.Prior({"p": dist.Uniform(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: (jax.random.uniform(key, (num,)) < theta[0]).sum()[None]
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Laplace(scale=0.7),
    )
    rng, y = np.random.default_rng(0), min(num, 1)
    weights = np.exp(-np.abs(y - np.arange(num + 1)) / 0.7)  # s is uniform a priori
    weights /= weights.sum()
    mean = (np.arange(num + 1) + 1) / (num + 2)
    within = weights @ (mean * (1 - mean) / (num + 3))
    between = weights @ (mean - weights @ mean) ** 2
    assert exact is None or between / (between + within) == pytest.approx(exact, abs=0.001)
    s = rng.choice(num + 1, size=(4000, 1), p=weights).astype(float)
    given = Draws(
        rng.beta(s + 1, num - s + 1),
        ("p",),
        Report("given", exact=True),
        statistics=s,
        statistic_names=("s",),
    )
    found = decompose_uncertainty(KEY, model, [float(y)], posterior=given)
    error = found.standard_errors[0, 1]
    assert 0.002 < error < 0.02
    assert found.shares["privacy"].iloc[0] == pytest.approx(
        between / (between + within), abs=4 * error
    )


def test_standard_errors_are_those_of_repetitions():
    """60 repetitions of 1000 draws, privacy's share .8: the ratio of scatter to stated errors has
    one of .09.
    """
    model, shares, errors_ = clamped_mean(1.0), [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s = rng.normal(size=(1000, 1))
        theta = s * np.sqrt(0.8) + np.sqrt(0.2) * rng.normal(size=(1000, 1))
        given = Draws(
            theta, ("mean",), Report("given", exact=True), statistics=s, statistic_names=("s",)
        )
        found = decompose_uncertainty(KEY, model, [0.0], posterior=given)
        shares.append(found.shares["privacy"].iloc[0])
        errors_.append(found.standard_errors[0, 1])
    assert np.std(shares) / np.mean(errors_) == pytest.approx(1.0, abs=0.3)
    assert np.mean(shares) == pytest.approx(0.8, abs=4 * np.std(shares) / np.sqrt(60))


def test_predictions_do_not_know_the_draws_they_are_for():
    """Pure noise must not be predicted, however many terms there are: repeated draws stay in one
    fold.
    """
    rng = np.random.default_rng(0)
    s, values = (
        np.repeat(rng.normal(size=(200, 8)), 3, axis=0),
        np.repeat(rng.normal(size=(200, 1)), 3, axis=0),
    )
    groups, weights = np.repeat(np.arange(200), 3), np.full(600, 1 / 600)
    # the mean of the other folds errs by the variance times 1 + 1/160
    assert ((values - predicted(values, s, groups, weights)) ** 2).mean() > 0.95 * values.var()
    leaked = predicted(values, s, np.arange(600), weights)
    assert ((values - leaked) ** 2).mean() < 0.9 * values.var()


def test_repeated_draws_are_not_taken_for_knowledge():
    """Statistics that say nothing about theta explain nothing, though every draw is there three
    times, as after resampling.
    """
    rng = np.random.default_rng(0)
    s, theta = (np.repeat(rng.normal(size=(600, width)), 3, axis=0) for width in (8, 1))
    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta[0] + jax.random.normal(key, (8,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )
    given = Draws(
        theta, ("a",), Report("given", exact=True), statistics=s, statistic_names=tuple("abcdefgh")
    )
    found = decompose_uncertainty(KEY, model, np.zeros(8), posterior=given)
    assert found.shares["privacy"].iloc[0] < 0.05


def test_bad_input_is_refused():
    problem = nw.problems.gaussian_mean(1.0)
    draws = np.zeros((500, 1))
    with pytest.raises(errors.InvalidTypeError, match="PrivateModel second"):
        decompose_uncertainty(KEY, problem, problem.observed)
    with pytest.raises(errors.InvalidInputError, match="num_draws"):
        decompose_uncertainty(KEY, problem.model, problem.observed, num_draws=10)
    with pytest.raises(errors.InvalidTypeError, match="posterior"):
        decompose_uncertainty(KEY, problem.model, problem.observed, posterior=draws)
    with pytest.raises(errors.InvalidInputError, match="exact method"):
        decompose_uncertainty(
            KEY,
            problem.model,
            problem.observed,
            posterior=Draws(draws, ("mean",), Report("sppe", exact=True)),
        )
    for seen in ([np.nan], [np.inf], [0.1, 0.2], "text", None):
        with pytest.raises(errors.NoisewiseError):
            decompose_uncertainty(KEY, problem.model, seen)
    few = Draws(
        draws[:50],
        ("mean",),
        Report("given", exact=True),
        statistics=draws[:50],
        statistic_names=("s",),
    )
    with pytest.raises(errors.InvalidInputError, match="target_ess"):
        decompose_uncertainty(KEY, problem.model, problem.observed, posterior=few)


class WithoutSampler(nw.simulators.NormalRecords):
    """The same records, whose parameters must be found by a random walk."""

    can_sample_parameters = False


@pytest.mark.slow
def test_models_without_a_sampler_of_parameters():
    """Random walks are thinned until the halves are independent: the parts are those of brute force
    again.
    """
    model = dataclasses.replace(
        clamped_mean(1.0), simulator=WithoutSampler(num_records=RECORDS, prior_variance=1.0)
    )
    found = decompose_uncertainty(KEY, model, [0.05], progress=False)
    exact = brute_force(model, [0.05])
    error = np.abs(found.shares.to_numpy()[0] - exact / exact.sum())
    assert (error < [0.04, 0.015, 0.045]).all(), error
    assert not found.warnings


def regression(epsilon, bound):
    problem = nw.problems.linear_regression(epsilon)
    query = nw.queries.RegressionMoments(num_records=100, num_predictors=2, bounds=(-bound, bound))
    sensitivity = query.sensitivity(norm=1)
    mechanism = nw.mechanisms.Laplace.calibrate(
        sensitivity=sensitivity, guarantee=nw.PureDP(epsilon)
    )
    model = problem.model
    return nw.PrivateModel(
        prior=model.prior, simulator=model.simulator, query=query, mechanism=mechanism
    )


def mean_shares(epsilon, bound, num=20):
    model = regression(epsilon, bound)
    observed = model.simulate(KEY, model.prior.sample(KEY, num))
    found = [
        decompose_uncertainty(
            jax.random.fold_in(KEY, i), model, row, num_draws=1000, progress=False
        )
        for i, row in enumerate(observed)
    ]
    assert not any(one.warnings for one in found)
    exact = nw.inference.DataAugmentationMCMC(target_ess=4000).infer(
        KEY, model, observed[0], progress=False
    )
    # the width of the interval, as posteriors are nearly normal and one late chain of data
    # augmentation spoils an sd, but no quantile
    width = exact.summary()["97.5%"] - exact.summary()["2.5%"]
    np.testing.assert_allclose(
        found[0].total, (width / (2 * 1.96)) ** 2, rtol=0.2
    )  # 4 standard errors of 1000 draws
    mean = np.mean([one.shares for one in found], axis=0)
    print(epsilon, bound, mean.round(3).tolist(), flush=True)
    return mean


@pytest.mark.slow
def test_privacy_falls_with_epsilon_and_clamping_with_the_bounds():
    """Twenty releases with parameters from the prior: each mean share has a standard error below
    .02 or so.
    """
    wide = {epsilon: mean_shares(epsilon, 10.0) for epsilon in (0.1, 1.0, 10.0, 100.0)}
    privacy = np.stack([wide[epsilon][:, 2] for epsilon in wide])
    assert (np.diff(privacy, axis=0) < 0.0).all(), privacy
    assert privacy[-1].max() < 0.8 * privacy[0].min(), privacy
    clamping = np.stack([wide[epsilon][:, 1] for epsilon in wide])
    assert clamping.max() < 0.05, clamping
    narrow = mean_shares(10.0, 3.0)
    assert (narrow[:, 1] > 10.0 * wide[10.0][:, 1]).all(), narrow
    assert (narrow[:, 1] / narrow[:, :2].sum(axis=1)).min() > 0.1, (
        narrow
    )  # its part of what is left without noise
