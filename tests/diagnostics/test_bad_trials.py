"""Diagnostics of trials on what an analyst may pass by mistake: a typed error with advice, or the
right degenerate answer; never NaN.
"""

import dataclasses

import numpy as np
import pytest

import noisewise as nw
from noisewise import diagnostics, errors
from noisewise._core.keys import generator
from noisewise.diagnostics import (
    Calibration,
    Trials,
    calibrate,
    coverage,
    misspecification,
    predictive_check,
)
from tests.diagnostics.calls import GOOD, KEY, MODEL, OBSERVED, OF_TRIALS, TRIALS, cases, posterior


def right(key, observed):
    return observed / 3 + np.sqrt(2 / 3) * generator(key).normal(size=(100, 2))


def returns(value):
    return lambda key, observed: value


POSTERIORS_OF = {
    "none": (None, errors.InvalidTypeError, "posterior_of must be an amortised fit"),
    "text": ("sppe", errors.InvalidTypeError, "posterior_of must be an amortised fit"),
    "an array": (GOOD, errors.InvalidTypeError, "posterior_of must be an amortised fit"),
    "a posterior": (
        posterior(),
        errors.InvalidTypeError,
        "is for one observation: pass the method or the fit",
    ),
    "a class": (
        nw.inference.ImportanceSampling,
        errors.InvalidTypeError,
        r"write ImportanceSampling\(...\)",
    ),
    "one parameter": (
        lambda observed: GOOD,
        errors.InvalidTypeError,
        r"called as posterior_of\(key, observed\)",
    ),
    "three parameters": (
        lambda key, observed, num: GOOD,
        errors.InvalidTypeError,
        r"as posterior_of\(key, observed\)",
    ),
    "swapped parameters": (
        lambda observed, key: GOOD,
        errors.InvalidTypeError,
        "swap its parameters",
    ),
    "returns none": (
        returns(None),
        errors.InvalidTypeError,
        "what posterior_of returns must be a rectangular array",
    ),
    "returns text": (
        returns("draws"),
        errors.InvalidTypeError,
        "what posterior_of returns must be a rectangular array",
    ),
    "returns an object": (returns(MODEL), errors.InvalidTypeError, "return a posterior or draws"),
    "returns one column": (
        returns(GOOD[:, :1]),
        errors.InvalidInputError,
        r"at least num_draws=20 draws \(n, 2\)",
    ),
    "returns a row": (
        returns(GOOD[0]),
        errors.InvalidInputError,
        r"at least num_draws=20 draws \(n, 2\)",
    ),
    "returns few": (
        returns(GOOD[:19]),
        errors.InvalidInputError,
        r"at least num_draws=20 draws \(n, 2\)",
    ),
    "returns nothing": (
        returns(GOOD[:0]),
        errors.InvalidInputError,
        r"at least num_draws=20 draws \(n, 2\)",
    ),
    "returns nan": (
        returns(np.full((20, 2), np.nan)),
        errors.InvalidInputError,
        "without NaN or infinity",
    ),
    "returns infinity": (
        returns(np.full((20, 2), np.inf)),
        errors.InvalidInputError,
        "without NaN or infinity",
    ),
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
        (
            Many(lambda key, observed: 0),
            errors.InvalidTypeError,
            r"called as sample_many\(key, observed, num\)",
        ),
        (
            Many(lambda key, observed, num: None),
            errors.InvalidTypeError,
            "what sample_many gives must be",
        ),
        (
            Many(lambda key, observed, num: np.zeros((20, 2))),
            errors.InvalidInputError,
            r"draws of shape \(20, 20, 2\)",
        ),
        (
            Many(lambda key, observed, num: np.full((20, 20, 2), np.inf)),
            errors.InvalidInputError,
            "with some",
        ),
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
    "few trials": (
        {"num_trials": 19},
        errors.InvalidInputError,
        "num_trials must be a whole number >= 20",
    ),
    "trials as text": ({"num_trials": "many"}, errors.InvalidTypeError, "num_trials"),
    "half trials": ({"num_trials": 20.5}, errors.InvalidTypeError, "num_trials"),
    "few draws": (
        {"num_draws": 9},
        errors.InvalidInputError,
        "num_draws must be a whole number >= 10",
    ),
    "draws as text": ({"num_draws": "many"}, errors.InvalidTypeError, "num_draws"),
}


@pytest.mark.parametrize(("bad", "kind", "message"), cases(SETTINGS))
@pytest.mark.parametrize("name", OF_TRIALS)
def test_settings_of_trials(name, bad, kind, message):
    with pytest.raises(kind, match=message):
        OF_TRIALS[name](right, **{"model": MODEL, "num_trials": 20, "num_draws": 20, **bad})


@pytest.mark.parametrize("name", ["calibrate", "coverage", "tarp"])
@pytest.mark.parametrize(
    "numbers",
    [{"num_trials": 500}, {"num_draws": 100}, {"num_trials": 40, "num_draws": 20}],
    ids=str,
)
def test_numbers_beside_ready_trials_are_refused(name, numbers):
    with pytest.raises(errors.InvalidInputError, match="drawn already, 40 with 20 draws each"):
        OF_TRIALS[name](TRIALS, **numbers)
    with pytest.raises(errors.InvalidInputError, match="drawn already"):
        OF_TRIALS[name](TRIALS, MODEL, **numbers)


@pytest.mark.parametrize("name", OF_TRIALS)
def test_keys_are_checked(name):
    with pytest.raises(errors.InvalidTypeError, match="PRNG key"):
        getattr(diagnostics, name)(True, right, MODEL, 20)


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    cases(
        {
            "no array": (
                {"theta": "theta"},
                errors.InvalidTypeError,
                "theta must be a rectangular array",
            ),
            "widths": (
                {"draws": TRIALS.draws[..., :1]},
                errors.InvalidInputError,
                "draws \\(N, L, d\\)",
            ),
            "lengths": (
                {"observed": TRIALS.observed[:-1]},
                errors.InvalidInputError,
                "observed \\(39, 2\\)",
            ),
            "axes": (
                {"draws": TRIALS.draws[:, 0]},
                errors.InvalidInputError,
                "draws \\(N, L, d\\)",
            ),
            "names": ({"names": ("a",)}, errors.InvalidInputError, "one name per parameter"),
            "few draws": (
                {"draws": TRIALS.draws[:, :9]},
                errors.InvalidInputError,
                "10 draws in each",
            ),
            "nan": (
                {"draws": np.full_like(TRIALS.draws, np.nan)},
                errors.InvalidInputError,
                "draws must be finite",
            ),
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
    "one parameter": (
        {"sum": lambda theta: theta},
        errors.InvalidTypeError,
        r"called as sum\(theta, observed\)",
    ),
    "swapped": (
        {"sum": lambda observed, theta: theta},
        errors.InvalidTypeError,
        "swap its parameters",
    ),
    "name of a parameter": (
        {"a": lambda theta, y: theta[..., 0]},
        errors.InvalidInputError,
        "other names",
    ),
    "none": (
        {"sum": lambda theta, y: None},
        errors.InvalidTypeError,
        "'sum' must be a rectangular array",
    ),
    "shape": ({"sum": lambda theta, y: theta}, errors.InvalidInputError, "'sum' must turn theta"),
    "nan": (
        {"sum": lambda theta, y: theta[..., 0] * np.nan},
        errors.InvalidInputError,
        "without NaN",
    ),
}


@pytest.mark.parametrize(("bad", "kind", "message"), cases(QUANTITIES))
def test_quantities(bad, kind, message):
    with pytest.raises(kind, match=message):
        calibrate(KEY, TRIALS, quantities=bad)


@pytest.mark.parametrize(
    "levels", [(), (0.5, 0.5), (95,), ("half",), None, 0.0, "0.5", [np.nan]], ids=str
)
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
    for call in (
        misspecification,
        lambda key, *rest, **more: predictive_check(key, posterior(), *rest, **more),
    ):
        with pytest.raises(errors.NoisewiseError, match="alpha"):
            call(KEY, MODEL, OBSERVED, 200, alpha=alpha)


@pytest.mark.parametrize("name", ["calibrate", "tarp"])
def test_posteriors_that_are_points_fail_with_numbers(name):
    """All draws equal: ranks are 0 or L, so that the posterior is found too narrow, without NaN on
    the way.
    """
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
