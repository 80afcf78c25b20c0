"""Comparison of posteriors, prior sensitivity, prior and posterior predictive checks: against
theory, planted faults, false alarms.
"""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import noisewise as nw
from noisewise import errors
from noisewise.diagnostics import compare, misspecification, predictive_check, prior_sensitivity
from noisewise.inference.contract.surprise import p_value
from noisewise.posteriors import Draws, Report, WeightedSamples

KEY = jax.random.key(1)


def draws(theta, **more):
    return Draws(np.asarray(theta), tuple("ab"[: theta.shape[1]]), Report("given"), **more)


@pytest.mark.slow
def test_compare_gives_tables_and_the_values_of_theory():
    """A shift of one sd in one column: C2ST Phi(.5) = .69, Kolmogorov-Smirnov 2 Phi(.5) - 1 = .38;
    its null limit is .043 at 2000.
    """
    x, y = np.random.default_rng(0).normal(size=(2, 4000, 2))
    first, same = draws(x, derived={"sum": x.sum(axis=1)}), draws(y, derived={"sum": y.sum(axis=1)})
    moved = draws(y + np.array([1.0, 0.0]), derived={"sum": y.sum(axis=1) + 1.0})
    found = compare({"first": first, "same": same, "moved": moved})
    assert list(found.table.loc["a"].index) == ["first", "same", "moved"]
    assert found.table.loc[("sum", "moved"), "mean"] == pytest.approx(
        1.0, abs=4 * np.sqrt(2 / 4000)
    )
    assert found.c2st.loc["first", "same"] == pytest.approx(0.5, abs=0.03)
    assert found.c2st.loc["moved", "first"] == pytest.approx(norm.cdf(0.5), abs=0.03)
    assert found.kolmogorov_smirnov.loc[("first", "moved"), "a"] == pytest.approx(
        2 * norm.cdf(0.5) - 1, abs=0.04
    )
    assert found.kolmogorov_smirnov.loc[("first", "same")].max() < 0.06
    assert "C2ST" in str(found)


def thin(worth, seed, dim=2):
    """20 draws or so for each that they are worth, by weights that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.05, size=21 * worth)
    theta = rng.normal(size=(len(weights), dim))
    return WeightedSamples(
        theta, tuple("ab"[:dim]), Report("given"), log_weights=np.log(weights + 1e-300)
    )


def test_distances_by_chance_are_those_of_what_draws_are_worth(monkeypatch):
    """Ten weighted sets worth 60 to 140 draws of one law against exact draws, in two columns: the
    limit holds in 95% of columns.

    Of 20 columns one may exceed: 5 or more do so with probability .3%. Planted: with v = 1 /
    num_draws all 20 exceed.
    """
    monkeypatch.setitem(compare.__globals__, "_told_apart", lambda first, second: 0.5)
    exact = draws(np.random.default_rng(99).normal(size=(20_000, 2)))
    found = [compare({"thin": thin(100, seed), "exact": exact}) for seed in range(10)]
    limits = np.array([each.chance["Kolmogorov-Smirnov"].item() for each in found])
    assert ((limits > 0.11) & (limits < 0.19)).all()
    distances = np.concatenate([each.kolmogorov_smirnov.to_numpy() for each in found])
    assert (distances > limits[:, None]).sum() < 5


def test_classifiers_see_no_more_draws_than_posteriors_are_worth():
    """Planted: with 2000 resampled draws of each the classifier knows the repeats: C2ST .72."""
    found = compare({"thin": thin(100, 0), "other": thin(100, 1)})
    assert 22 <= found.chance["draws"].item() <= 64
    # n = 45: one sd of 90 fair coins is .053, the limit .63
    assert found.c2st.loc["thin", "other"] < found.chance["C2ST"].item() < 0.69
    assert "By chance up to" in str(found)


def test_many_draws_differ_by_little_by_chance():
    """Worth 20,000, as are the weights of equal draws: 1.36 sqrt(2 / 2000) = .043, .5 + 2.5 /
    sqrt(16000) = .52.
    """
    x, y = np.random.default_rng(0).normal(size=(2, 20_000, 1))
    found = compare({"x": draws(x), "y": draws(y)})
    assert found.chance.iloc[0].tolist() == pytest.approx([2000, 0.5198, 0.0430], rel=0.01)
    assert found.kolmogorov_smirnov.to_numpy().max() < 0.06  # passed with probability .1%


def test_compare_refuses_what_is_not_comparable():
    x = draws(np.random.default_rng(0).normal(size=(100, 2)))
    with pytest.raises(errors.InvalidTypeError, match="mapping"):
        compare([x, x])
    with pytest.raises(errors.InvalidInputError, match="two"):
        compare({"one": x})
    with pytest.raises(errors.InvalidInputError, match="same parameters"):
        compare({"one": x, "other": draws(x.theta[:, :1])})


def conjugate(prior_sd, noise_sd=1.0):
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, prior_sd)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + 0.5 * jax.random.normal(key, (1,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=noise_sd),
    )


@pytest.mark.parametrize("prior_sd", [0.7, 3.0])
def test_prior_sensitivity_is_that_of_the_conjugate_model(prior_sd):
    """Precision a / t^2 + l, mean l y over it: slopes between a = .8 and 1.25, 200,000 draws,
    within 5 standard errors or so.
    """
    precision, y = 1 / (0.25 + 1.0), 2.0
    mean = lambda a: precision * y / (a / prior_sd**2 + precision)
    sd = lambda a: (a / prior_sd**2 + precision) ** -0.5
    theta = mean(1.0) + sd(1.0) * np.random.default_rng(0).normal(size=(200_000, 1))
    table = prior_sensitivity(draws(theta), conjugate(prior_sd))
    doublings = 2 * np.log2(1.25)
    assert table.loc["a", "mean"] == pytest.approx(
        (mean(1.25) - mean(0.8)) / sd(1.0) / doublings, abs=0.02
    )
    assert table.loc["a", "sd"] == pytest.approx(np.log(sd(1.25) / sd(0.8)) / doublings, abs=0.01)
    assert table.loc["a", "sensitive"] == (prior_sd < 1.0)
    assert table.attrs["pareto k"] < 0.7


def test_a_posterior_that_is_the_prior_is_sensitive_to_it():
    """It narrows by log sqrt(2) = .347 per doubling and does not move: found within 5 standard
    errors of 20,000 draws.
    """
    model = conjugate(2.0)
    table = prior_sensitivity(draws(model.prior.sample(KEY, 20_000)), model)
    assert table.loc["a", "sd"] == pytest.approx(-np.log(np.sqrt(2.0)), abs=0.03)
    assert table.loc["a", "sensitive"]


def test_prior_sensitivity_counts_the_weights_of_weighted_draws():
    """Draws from a wide law, weighted: the same slopes as equally weighted ones."""
    rng = np.random.default_rng(3)
    theta = 2.0 * rng.normal(size=(100_000, 1))
    log_weights = norm.logpdf(theta[:, 0], 0.4, 0.6) - norm.logpdf(theta[:, 0], 0.0, 2.0)
    weighted = WeightedSamples(theta, ("a",), Report("given"), log_weights=log_weights)
    plain = draws(0.4 + 0.6 * rng.normal(size=(100_000, 1)))
    first, second = (
        prior_sensitivity(p, conjugate(0.7)).loc["a", "mean"] for p in (weighted, plain)
    )
    assert first == pytest.approx(second, abs=0.02)


def test_false_alarms_of_misspecification_are_at_most_one_in_a_hundred():
    """2000 observations from the model itself, each against 400 simulated ones: 1% + 4 standard
    errors. Heavy tails, and a constant.
    """
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(2000):
        values = np.c_[
            rng.standard_cauchy(size=(401, 2)), rng.poisson(3.0, size=401), np.zeros(401)
        ]
        alarms += p_value(values[1:], values[0]) <= 0.01
    assert alarms / 2000 <= 0.01 + 4 * np.sqrt(0.01 * 0.99 / 2000)


def test_observations_that_no_parameter_makes_are_flagged():
    model = conjugate(2.0)
    for far in (-30.0, 30.0):
        found = misspecification(KEY, model, [far])
        assert not found.passed
        assert "outside what the prior predicts" in found.sentence
    assert misspecification(KEY, model, [1.0]).passed


def test_predictive_check_sees_a_posterior_at_the_wrong_place():
    model, y = conjugate(2.0, 0.2), np.array([1.0])
    right = draws(1.0 + 0.5 * np.random.default_rng(0).normal(size=(500, 1)))
    wrong = draws(right.theta + 4.0)
    assert predictive_check(KEY, right, model, y).passed
    found = predictive_check(KEY, wrong, model, y)
    assert not found.passed
    assert str(found).startswith("failed. The observation lies outside what the posterior predicts")
    assert found.simulated.shape == (1000, 1)


def test_bad_input_is_refused():
    model = conjugate(2.0)
    with pytest.raises(errors.InvalidInputError, match="num_simulations"):
        misspecification(KEY, model, [1.0], 50)
    with pytest.raises(errors.InvalidTypeError, match="second argument"):
        predictive_check(KEY, model, model, [1.0])
    with pytest.raises(errors.InvalidTypeError, match="PrivateModel"):
        prior_sensitivity(draws(np.ones((20, 1))), "model")
    with pytest.raises(errors.NoisewiseError):
        misspecification(KEY, model, [1.0, 2.0])


def test_columns_are_matched_by_name():
    rng = np.random.default_rng(0)
    report = nw.posteriors.Report("example")
    one = nw.posteriors.Draws(rng.normal([0.0, 5.0], size=(400, 2)), ("a", "b"), report)
    turned = nw.posteriors.Draws(one.theta[:, ::-1], ("b", "a"), report)
    found = nw.diagnostics.compare({"one": one, "turned": turned}, num_draws=100)
    assert found.kolmogorov_smirnov.to_numpy().max() < 0.3
