"""Diagnostics on posteriors and observations passed by mistake: a typed error with advice, or the
right degenerate answer; never NaN.
"""

import dataclasses

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import diagnostics, errors
from noisewise.diagnostics import (
    certify,
    compare,
    misspecification,
    predictive_check,
    prior_sensitivity,
)
from noisewise.posteriors import Report, WeightedSamples
from tests.diagnostics.calls import (
    GOOD,
    KEY,
    MODEL,
    OBSERVED,
    OF_OBSERVATIONS,
    OF_POSTERIORS,
    OF_TRIALS,
    cases,
    make_model,
    posterior,
)


def weighted(theta):
    return WeightedSamples(
        np.asarray(theta), ("a", "b"), Report("given"), log_weights=np.zeros(len(theta))
    )


def changed(value):
    theta = GOOD.copy()
    theta[7, 1] = value
    return theta


ITS_OWN = {"decompose_uncertainty"}
"""Has a test of its own, in test_decompose_uncertainty.py."""


def test_all_diagnostics_are_in_these_tables():
    functions = {name for name in diagnostics.__all__ if name[0].islower()}
    assert functions - ITS_OWN == {*OF_TRIALS, *OF_POSTERIORS, *OF_OBSERVATIONS}


# Posteriors ---------------------------------------------------------------------------------------

POSTERIORS = {
    "none": (None, errors.InvalidTypeError, "posterior"),
    "text": ("posterior.npz", errors.InvalidTypeError, "posterior"),
    "an array": (GOOD, errors.InvalidTypeError, "posterior"),
    "a method": (nw.inference.ImportanceSampling(), errors.InvalidTypeError, "posterior"),
    "nine draws": (posterior(GOOD[:9]), errors.InvalidInputError, "at least .* draws.*got 9"),
    "nan": (weighted(changed(np.nan)), errors.InvalidInputError, "1 of 200 draws.*NaN"),
    "another width": (
        posterior(GOOD[:, :1], ("a",)),
        errors.InvalidInputError,
        "same parameters|must be of a, b",
    ),
    "other names": (
        posterior(GOOD, ("b", "c")),
        errors.InvalidInputError,
        "same parameters|must be of a, b",
    ),
}


@pytest.mark.parametrize(("bad", "kind", "message"), cases(POSTERIORS))
@pytest.mark.parametrize("name", OF_POSTERIORS)
def test_posteriors(name, bad, kind, message):
    with pytest.raises(kind, match=message):
        OF_POSTERIORS[name](bad)


@pytest.mark.parametrize("name", OF_POSTERIORS)
@pytest.mark.parametrize("bad", [GOOD, GOOD.tolist()], ids=["array", "list"])
def test_arrays_are_told_what_to_be(name, bad):
    with pytest.raises(errors.InvalidTypeError, match=r"pass nw\.posteriors\.Draws\(draws, names"):
        OF_POSTERIORS[name](bad)


@pytest.mark.parametrize("name", OF_POSTERIORS)
def test_certificates_are_told_apart_from_what_they_correct(name):
    certificate = certify(KEY, posterior(), MODEL, OBSERVED, 1000)
    with pytest.raises(errors.InvalidTypeError, match=r"pass certificate\.corrected"):
        OF_POSTERIORS[name](certificate)


@pytest.mark.parametrize("name", sorted(set(OF_POSTERIORS) - {"certify"}))
def test_infinite_draws(name):
    with pytest.raises(errors.InvalidInputError, match="1 of 200 draws of b are NaN or infinite"):
        OF_POSTERIORS[name](posterior(changed(np.inf)))


def test_certify_leaves_infinite_draws_out_and_says_finite_things():
    certificate = certify(KEY, posterior(changed(np.inf)), MODEL, OBSERVED, 4000)
    assert np.isfinite(list(certificate.comparison.values())).all()
    assert certificate.certified


@pytest.mark.parametrize("name", ["compare", "predictive_check", "prior_sensitivity"])
def test_derived_quantities_that_are_not_finite_are_named(name):
    with pytest.raises(errors.InvalidInputError, match="200 of 200 draws of ratio"):
        OF_POSTERIORS[name](posterior(derived={"ratio": np.full(200, np.inf)}))


def test_draws_without_weight_may_be_anything():
    theta = np.concatenate([GOOD, [[np.nan, np.inf]]])
    weighted = WeightedSamples(
        theta, ("a", "b"), Report("given"), log_weights=np.r_[np.zeros(200), -np.inf]
    )
    table = prior_sensitivity(weighted, MODEL)
    assert np.isfinite(table.drop(columns="sensitive").to_numpy(dtype=float)).all()
    assert table["distance"].to_numpy() == pytest.approx(
        prior_sensitivity(posterior(), MODEL)["distance"].to_numpy()
    )


def test_draws_where_the_prior_has_no_density():
    model = make_model(nw.Prior({"a": dist.Uniform(-1.0, 1.0), "b": dist.Normal(0.0, 1.0)}))
    with pytest.raises(errors.InvalidInputError, match="draws lie where the prior has no density"):
        prior_sensitivity(posterior(2.0 + np.abs(GOOD)), model)


def with_constant(constant):
    return posterior(np.c_[GOOD[:, 0], np.full(200, constant)])


def test_constant_columns_have_their_degenerate_values():
    same, other = with_constant(0.1), with_constant(0.2)
    found = compare({"x": same, "same": same, "other": other, "good": posterior()}, num_draws=200)
    for table in (found.table, found.c2st, found.kolmogorov_smirnov):
        assert np.isfinite(table.to_numpy(dtype=float)).all()
    assert found.kolmogorov_smirnov.loc[("x", "same"), "b"] == 0.0
    assert found.kolmogorov_smirnov.loc[("x", "other"), "b"] == 1.0
    assert found.c2st.loc["x", "other"] == 1.0
    assert found.c2st.loc["x", "good"] == 1.0
    assert abs(found.c2st.loc["x", "same"] - 0.5) < 0.15
    table = prior_sensitivity(same, MODEL)
    assert table.loc["b"].tolist() == [0.0, 0.0, 0.0, False]
    assert np.isfinite(table.loc["a", "distance"])
    assert np.isfinite(predictive_check(KEY, same, MODEL, OBSERVED, 200).p_value)


def test_points_are_the_same_or_told_apart():
    points = {
        "x": posterior(np.full((20, 2), 0.1)),
        "same": posterior(np.full((20, 2), 0.1)),
        "y": posterior(np.zeros((20, 2))),
    }
    found = compare(points, num_draws=50)
    assert found.c2st.loc["x"].tolist() == [0.5, 0.5, 1.0]


def test_certify_names_columns_that_do_not_vary():
    with pytest.raises(errors.InvalidInputError, match=r"needs draws that vary.*those of b do not"):
        certify(KEY, with_constant(0.1), MODEL, OBSERVED, 1000)
    with pytest.raises(errors.InvalidInputError, match="these lie on a plane"):
        certify(KEY, posterior(GOOD[:, [0, 0]]), MODEL, OBSERVED, 1000)


def test_certify_serves_parameters_of_very_different_scales():
    """Standard deviations of 1 and 1e-9 beside each other are no plane: the law is fitted in units
    of the draws.
    """
    wide = make_model(nw.Prior({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1e-9)}))
    certificate = certify(KEY, posterior(GOOD * [1.5, 2e-9]), wide, OBSERVED, 4000)
    assert certificate.certified
    assert np.isfinite(list(certificate.comparison.values())).all()


@pytest.mark.parametrize("name", ["certify", "predictive_check", "prior_sensitivity"])
def test_models_are_checked(name):
    calls = {
        "certify": lambda model: certify(KEY, posterior(), model, OBSERVED),
        "predictive_check": lambda model: predictive_check(KEY, posterior(), model, OBSERVED),
        "prior_sensitivity": lambda model: prior_sensitivity(posterior(), model),
    }
    for bad in (None, "model", posterior(), MODEL.prior):
        with pytest.raises(errors.InvalidTypeError, match="PrivateModel"):
            calls[name](bad)


@pytest.mark.parametrize("power", [1.0, 0.5, np.inf, np.nan, "two", None], ids=str)
def test_power(power):
    with pytest.raises(errors.NoisewiseError, match="power"):
        prior_sensitivity(posterior(), MODEL, power=power)


@pytest.mark.parametrize(
    "more", [{"num_draws": 9}, {"num_draws": "x"}, {"level": 1.0}, {"level": "x"}], ids=str
)
def test_settings_of_compare(more):
    with pytest.raises(errors.NoisewiseError, match=next(iter(more))):
        compare({"x": posterior(), "y": posterior()}, **more)


# Observations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "release.json",
        [0.3],
        [0.3, np.nan],
        [np.inf, 0.3],
        [],
        [[[0.3, 0.2]]],
        ["0.3", "0.2"],
        GOOD,
    ],
    ids=str,
)
@pytest.mark.parametrize("name", OF_OBSERVATIONS)
def test_observations(name, bad):
    with pytest.raises(errors.NoisewiseError):
        OF_OBSERVATIONS[name](bad)


@pytest.mark.parametrize("num", [99, 0, -1, "many", None, 200.5], ids=str)
@pytest.mark.parametrize("name", OF_OBSERVATIONS)
def test_numbers_of_simulations(name, num):
    call = {
        "certify": lambda: certify(KEY, posterior(), MODEL, OBSERVED, num),
        "predictive_check": lambda: predictive_check(KEY, posterior(), MODEL, OBSERVED, num),
        "misspecification": lambda: misspecification(KEY, MODEL, OBSERVED, num),
    }[name]
    if name == "misspecification" and num is None:
        assert len(call().simulated) == 1000  # 4 / .01 for each of two statistics, or 1000
        return
    with pytest.raises(errors.NoisewiseError, match="num_simulations"):
        call()


def test_observations_out_of_range_are_flagged_however_many_statistics_there_are():
    """Ten statistics: with 1000 simulations 80% of such observations were not."""
    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta[0] + jax.random.normal(key, (10,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )
    simulated = misspecification(KEY, model, np.zeros(10)).simulated
    assert len(simulated) == 4000
    for column in range(10):
        outside = np.zeros(10)
        outside[column] = simulated[:, column].max() + 1e-6
        assert not misspecification(KEY, model, outside).passed


def test_certificates_are_printed_without_powers_of_ten():
    certificate = certify(KEY, posterior(), MODEL, OBSERVED, 4000)
    extreme = dataclasses.replace(
        certificate, efficiency=1.0, missed_share=1.0, max_weight=1.0, effective_size=3.0
    )
    for each in (certificate, extreme):
        assert "e+0" not in str(each)
        assert "e-0" not in str(each)
    assert "efficiency of q 100%, misses 100% of the posterior" in str(extreme)
    assert "largest weight 100%" in str(extreme)
