"""Every diagnostic on what an analyst may pass by mistake: a typed error with advice, or the right degenerate answer; never NaN."""

import dataclasses

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import diagnostics, errors
from noisewise.diagnostics import (
    Calibration,
    Trials,
    calibrate,
    certify,
    compare,
    coverage,
    draw_trials,
    misspecification,
    predictive_check,
    prior_sensitivity,
    tarp,
)
from noisewise.posteriors import Draws, Report, WeightedSamples
from noisewise.samplers._seeds import generator

KEY = jax.random.key(3)
RNG = np.random.default_rng(0)
GOOD = 0.5 * RNG.normal(size=(200, 2))


def make_model(prior=None):
    return nw.PrivateModel(
        prior=prior or nw.Prior({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(lambda key, theta: theta + jax.random.normal(key, (2,))),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )


MODEL = make_model()


def posterior(theta=GOOD, names=("a", "b"), **more):
    return Draws(np.asarray(theta), names, Report("given"), **more)


def weighted(theta):
    return WeightedSamples(np.asarray(theta), ("a", "b"), Report("given"), log_weights=np.zeros(len(theta)))


def changed(value):
    theta = GOOD.copy()
    theta[7, 1] = value
    return theta


def right(key, observed):
    return observed / 3 + np.sqrt(2 / 3) * generator(key).normal(size=(100, 2))


class Right:
    def sample_many(self, key, observed, num):
        return observed[:, None] / 3 + np.sqrt(2 / 3) * generator(key).normal(size=(len(observed), num, 2))


OBSERVED = [0.3, -0.2]
TRIALS = draw_trials(KEY, Right(), MODEL, 40, num_draws=20)

OF_TRIALS = {
    "draw_trials": lambda given, *rest, **more: draw_trials(KEY, given, *rest, **{"progress": False, **more}),
    "calibrate": lambda given, *rest, **more: calibrate(KEY, given, *rest, **{"progress": False, **more}),
    "coverage": lambda given, *rest, **more: coverage(KEY, given, *rest, **{"progress": False, **more}),
    "tarp": lambda given, *rest, **more: tarp(KEY, given, *rest, **{"progress": False, **more}),
}
OF_POSTERIORS = {
    "certify": lambda given: certify(KEY, given, MODEL, OBSERVED, 1000),
    "compare": lambda given: compare({"good": posterior(), "given": given}, num_draws=100),
    "predictive_check": lambda given: predictive_check(KEY, given, MODEL, OBSERVED, 200),
    "prior_sensitivity": lambda given: prior_sensitivity(given, MODEL),
}
OF_OBSERVATIONS = {
    "certify": lambda seen: certify(KEY, posterior(), MODEL, seen, 1000),
    "predictive_check": lambda seen: predictive_check(KEY, posterior(), MODEL, seen, 200),
    "misspecification": lambda seen: misspecification(KEY, MODEL, seen, 200),
}
ITS_OWN = {"decompose_uncertainty"}
"""Has a test of its own, in test_decompose_uncertainty.py."""


def test_all_diagnostics_are_in_these_tables():
    functions = {name for name in diagnostics.__all__ if name[0].islower()}
    assert functions - ITS_OWN == {*OF_TRIALS, *OF_POSTERIORS, *OF_OBSERVATIONS}


def cases(table):
    return [pytest.param(*row, id=name) for name, row in table.items()]


def returns(value):
    return lambda key, observed: value


# What trials are drawn from -------------------------------------------------------------------------------------------

POSTERIORS_OF = {
    "none": (None, errors.InvalidTypeError, "posterior_of must be an amortised fit"),
    "text": ("sppe", errors.InvalidTypeError, "posterior_of must be an amortised fit"),
    "an array": (GOOD, errors.InvalidTypeError, "posterior_of must be an amortised fit"),
    "a posterior": (posterior(), errors.InvalidTypeError, "that of one observation: pass the method or the fit"),
    "a class": (nw.inference.ImportanceSampling, errors.InvalidTypeError, r"write ImportanceSampling\(...\)"),
    "one parameter": (lambda observed: GOOD, errors.InvalidTypeError, r"called as posterior_of\(key, observed\)"),
    "three parameters": (lambda key, observed, num: GOOD, errors.InvalidTypeError, r"as posterior_of\(key, observed\)"),
    "swapped parameters": (lambda observed, key: GOOD, errors.InvalidTypeError, "swap its parameters"),
    "returns none": (returns(None), errors.InvalidTypeError, "what posterior_of returns must be a rectangular array"),
    "returns text": (
        returns("draws"),
        errors.InvalidTypeError,
        "what posterior_of returns must be a rectangular array",
    ),
    "returns an object": (returns(MODEL), errors.InvalidTypeError, "return a posterior or draws"),
    "returns one column": (returns(GOOD[:, :1]), errors.InvalidInputError, r"at least num_draws=20 draws \(n, 2\)"),
    "returns a row": (returns(GOOD[0]), errors.InvalidInputError, r"at least num_draws=20 draws \(n, 2\)"),
    "returns few": (returns(GOOD[:19]), errors.InvalidInputError, r"at least num_draws=20 draws \(n, 2\)"),
    "returns nothing": (returns(GOOD[:0]), errors.InvalidInputError, r"at least num_draws=20 draws \(n, 2\)"),
    "returns nan": (returns(np.full((20, 2), np.nan)), errors.InvalidInputError, "without NaN or infinity"),
    "returns infinity": (returns(np.full((20, 2), np.inf)), errors.InvalidInputError, "without NaN or infinity"),
}


@pytest.mark.parametrize(("bad", "kind", "message"), cases(POSTERIORS_OF))
@pytest.mark.parametrize("name", OF_TRIALS)
def test_what_gives_posteriors(name, bad, kind, message):
    with pytest.raises(kind, match=message):
        OF_TRIALS[name](bad, MODEL, 20, num_draws=20)


class Many:
    def __init__(self, give):
        self.sample_many = give


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (Many(lambda key, observed: 0), errors.InvalidTypeError, r"called as sample_many\(key, observed, num\)"),
        (Many(lambda key, observed, num: None), errors.InvalidTypeError, "what sample_many gives must be"),
        (Many(lambda key, observed, num: np.zeros((20, 2))), errors.InvalidInputError, r"draws of shape \(20, 20, 2\)"),
        (Many(lambda key, observed, num: np.full((20, 20, 2), np.inf)), errors.InvalidInputError, "with some"),
    ],
    ids=["two parameters", "none", "shape", "infinity"],
)
@pytest.mark.parametrize("name", OF_TRIALS)
def test_fits_that_serve_many(name, bad, kind, message):
    with pytest.raises(kind, match=message):
        OF_TRIALS[name](bad, MODEL, 20, num_draws=20)


SETTINGS = {
    "a key first": ({"model": None}, errors.InvalidTypeError, "PrivateModel"),
    "text as model": ({"model": "model"}, errors.InvalidTypeError, "PrivateModel"),
    "few trials": ({"num_trials": 19}, errors.InvalidInputError, "num_trials must be a whole number >= 20"),
    "trials as text": ({"num_trials": "many"}, errors.InvalidTypeError, "num_trials"),
    "half trials": ({"num_trials": 20.5}, errors.InvalidTypeError, "num_trials"),
    "few draws": ({"num_draws": 9}, errors.InvalidInputError, "num_draws must be a whole number >= 10"),
    "draws as text": ({"num_draws": "many"}, errors.InvalidTypeError, "num_draws"),
}


@pytest.mark.parametrize(("bad", "kind", "message"), cases(SETTINGS))
@pytest.mark.parametrize("name", OF_TRIALS)
def test_settings_of_trials(name, bad, kind, message):
    with pytest.raises(kind, match=message):
        OF_TRIALS[name](right, **{"model": MODEL, "num_trials": 20, "num_draws": 20, **bad})


@pytest.mark.parametrize("name", ["calibrate", "coverage", "tarp"])
@pytest.mark.parametrize(
    "numbers", [{"num_trials": 500}, {"num_draws": 100}, {"num_trials": 40, "num_draws": 20}], ids=str
)
def test_numbers_beside_ready_trials_are_refused(name, numbers):
    with pytest.raises(errors.InvalidInputError, match="drawn already, 40 with 20 draws each"):
        OF_TRIALS[name](TRIALS, **numbers)
    with pytest.raises(errors.InvalidInputError, match="drawn already"):
        OF_TRIALS[name](TRIALS, MODEL, **numbers)


@pytest.mark.parametrize("name", OF_TRIALS)
def test_keys_are_checked(name):
    with pytest.raises(errors.InvalidTypeError, match="PRNG key"):
        getattr(diagnostics, name)(0, right, MODEL, 20)


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    cases(
        {
            "no array": ({"theta": "theta"}, errors.InvalidTypeError, "theta must be a rectangular array"),
            "widths": ({"draws": TRIALS.draws[..., :1]}, errors.InvalidInputError, "draws \\(N, L, d\\)"),
            "lengths": ({"observed": TRIALS.observed[:-1]}, errors.InvalidInputError, "observed \\(39, 2\\)"),
            "axes": ({"draws": TRIALS.draws[:, 0]}, errors.InvalidInputError, "draws \\(N, L, d\\)"),
            "names": ({"names": ("a",)}, errors.InvalidInputError, "one name per parameter"),
            "few draws": ({"draws": TRIALS.draws[:, :9]}, errors.InvalidInputError, "10 draws in each"),
            "nan": ({"draws": np.full_like(TRIALS.draws, np.nan)}, errors.InvalidInputError, "draws must be finite"),
            "infinity": (
                {"theta": np.full_like(TRIALS.theta, np.inf)},
                errors.InvalidInputError,
                "theta must be finite",
            ),
        }
    ),
)
def test_trials_made_by_hand(bad, kind, message):
    with pytest.raises(kind, match=message):
        dataclasses.replace(TRIALS, **bad)


def test_few_trials_made_by_hand():
    with pytest.raises(errors.InvalidInputError, match="at least 20 trials"):
        Trials(("a", "b"), TRIALS.theta[:19], TRIALS.observed[:19], TRIALS.draws[:19], 0)


QUANTITIES = {
    "no mapping": ([np.sum], errors.InvalidTypeError, "quantities must map names to functions"),
    "no function": ({"sum": 3.0}, errors.InvalidTypeError, "'sum' must be a function"),
    "one parameter": ({"sum": lambda theta: theta}, errors.InvalidTypeError, r"called as sum\(theta, observed\)"),
    "swapped": ({"sum": lambda observed, theta: theta}, errors.InvalidTypeError, "swap its parameters"),
    "name of a parameter": ({"a": lambda theta, y: theta[..., 0]}, errors.InvalidInputError, "other names"),
    "none": ({"sum": lambda theta, y: None}, errors.InvalidTypeError, "'sum' must be a rectangular array"),
    "shape": ({"sum": lambda theta, y: theta}, errors.InvalidInputError, "'sum' must turn theta"),
    "nan": ({"sum": lambda theta, y: theta[..., 0] * np.nan}, errors.InvalidInputError, "without NaN"),
}


@pytest.mark.parametrize(("bad", "kind", "message"), cases(QUANTITIES))
def test_quantities(bad, kind, message):
    with pytest.raises(kind, match=message):
        calibrate(KEY, TRIALS, quantities=bad)


@pytest.mark.parametrize("levels", [(), (0.5, 0.5), (95,), ("half",), None, 0.0, "0.5", [np.nan]], ids=str)
def test_levels(levels):
    with pytest.raises(errors.NoisewiseError, match="levels"):
        coverage(KEY, TRIALS, levels=levels)


def test_levels_may_be_an_array_or_one_number():
    assert len(coverage(KEY, TRIALS, levels=np.array([0.5, 0.9]))) == 4
    assert len(coverage(KEY, TRIALS, levels=0.5)) == 2


@pytest.mark.parametrize("alpha", [0.0, 1.0, "five", None, np.nan], ids=str)
def test_alpha(alpha):
    for name in ("calibrate", "tarp"):
        with pytest.raises(errors.NoisewiseError, match="alpha"):
            OF_TRIALS[name](TRIALS, alpha=alpha)
    for call in (misspecification, lambda key, *rest, **more: predictive_check(key, posterior(), *rest, **more)):
        with pytest.raises(errors.NoisewiseError, match="alpha"):
            call(KEY, MODEL, OBSERVED, 200, alpha=alpha)


@pytest.mark.parametrize("name", ["calibrate", "tarp"])
def test_posteriors_that_are_points_fail_with_numbers(name):
    """All draws equal: ranks are 0 or L, so that the posterior is found too narrow, without NaN on the way."""
    point = Many(lambda key, observed, num: np.repeat((observed / 3)[:, None], num, axis=1))
    found = OF_TRIALS[name](point, MODEL, 400)
    assert isinstance(found, Calibration)
    assert np.isfinite(found.uniforms).all()
    assert not found.passed
    assert 0.0 <= found.p_value < 0.01


def test_intervals_of_points_hold_nothing_but_the_randomised_edges():
    point = Many(lambda key, observed, num: np.repeat((observed / 3)[:, None], num, axis=1))
    table = coverage(KEY, point, MODEL, 400)
    assert (table["coverage"] < 0.05).all()


# Posteriors -----------------------------------------------------------------------------------------------------------

POSTERIORS = {
    "none": (None, errors.InvalidTypeError, "posterior"),
    "text": ("posterior.npz", errors.InvalidTypeError, "posterior"),
    "an array": (GOOD, errors.InvalidTypeError, "posterior"),
    "a method": (nw.inference.ImportanceSampling(), errors.InvalidTypeError, "posterior"),
    "nine draws": (posterior(GOOD[:9]), errors.InvalidInputError, "at least .* draws.*got 9"),
    "nan": (weighted(changed(np.nan)), errors.InvalidInputError, "1 of 200 draws.*NaN"),
    "another width": (posterior(GOOD[:, :1], ("a",)), errors.InvalidInputError, "same parameters|must be of a, b"),
    "other names": (posterior(GOOD, ("b", "a")), errors.InvalidInputError, "same parameters|must be of a, b"),
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
    weighted = WeightedSamples(theta, ("a", "b"), Report("given"), log_weights=np.r_[np.zeros(200), -np.inf])
    table = prior_sensitivity(weighted, MODEL)
    assert np.isfinite(table.drop(columns="sensitive").to_numpy(dtype=float)).all()
    assert table["distance"].to_numpy() == pytest.approx(prior_sensitivity(posterior(), MODEL)["distance"].to_numpy())


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
    """Standard deviations of 1 and 1e-9 beside each other are no plane: the law is fitted in units of the draws."""
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


@pytest.mark.parametrize("more", [{"num_draws": 9}, {"num_draws": "x"}, {"level": 1.0}, {"level": "x"}], ids=str)
def test_settings_of_compare(more):
    with pytest.raises(errors.NoisewiseError, match=next(iter(more))):
        compare({"x": posterior(), "y": posterior()}, **more)


# Observations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [None, "release.json", [0.3], [0.3, np.nan], [np.inf, 0.3], [], [[[0.3, 0.2]]], ["0.3", "0.2"], GOOD],
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
        simulator=nw.simulators.JaxSimulator(lambda key, theta: theta[0] + jax.random.normal(key, (10,))),
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
    extreme = dataclasses.replace(certificate, efficiency=1.0, missed_share=1.0, max_weight=1.0, effective_size=3.0)
    for each in (certificate, extreme):
        assert "e+0" not in str(each)
        assert "e-0" not in str(each)
    assert "efficiency of q 100%, misses 100% of the posterior" in str(extreme)
    assert "largest weight 100%" in str(extreme)
