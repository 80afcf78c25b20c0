"""Invalid releases are refused before noise is drawn, and without a word about the data."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.disclosure import exact_noise
from noisewise.errors import InvalidInputError, InvalidTypeError, NoisewiseError, ReleaseError
from tests.disclosure.releases import CODES, CURVE, LAPLACE, MEAN, MEAN3, PURE, SECRET

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries

TABLE3 = q.ContingencyTable(levels=(2, 2))
CURVE3 = q.InfectionCurve(population=40_000, num_times=3)
MOMENTS = q.RegressionMoments(num_records=3, num_predictors=1)
GOOD = [SECRET, 1.0, 2.0]


class Explosive:
    def __array__(self, *arguments, **options):
        raise ValueError(f"cannot convert {SECRET}")


def explode(x):
    raise KeyError(f"{x[0]}")


def invalid(data=GOOD, query=MEAN3, guarantee=PURE, **settings):
    return lambda: nw.release(data, query, guarantee, **settings)


LAPLACE3 = m.DiscreteLaplace(1e5, 1e5, 1.0)
INVALID = {
    "nan": invalid([SECRET, math.nan, 1.0]),
    "infinity": invalid([SECRET, math.inf, 1.0]),
    "minus infinity": invalid([SECRET, -math.inf, 1.0]),
    "nan in a histogram": invalid([SECRET, math.nan], q.Histogram(edges=(0, 1, 2))),
    "nan for a median": invalid([SECRET, math.nan, 1.0], q.Median((1.0, 2.0), 3)),
    "nan in moments": invalid([[SECRET, math.nan]] * 3, MOMENTS),
    "too few records": invalid([SECRET, 1.0]),
    "too many records": invalid([SECRET] * 4),
    "no records": invalid([]),
    "no data": invalid(None),
    "a number": invalid(SECRET),
    "a text": invalid(str(SECRET)),
    "texts": invalid([str(SECRET)] * 3),
    "bytes": invalid(str(SECRET).encode()),
    "objects": invalid(np.array([SECRET, None, "x"], dtype=object)),
    "complex numbers": invalid(np.array(GOOD) + 1j),
    "dates": invalid(np.array(["2026-01-01"] * 3, dtype="datetime64[D]")),
    "a dictionary": invalid({"a": GOOD}),
    "a set": invalid({SECRET, 1.0, 2.0}),
    "a generator": invalid(value for value in GOOD),
    "uneven rows": invalid([[SECRET], [1.0, 2.0], [3.0]]),
    "a masked array": invalid(np.ma.masked_array(GOOD, mask=[True, False, False])),
    "missing values of pandas": invalid(pd.Series([SECRET, None, 1.0])),
    "texts of pandas": invalid(pd.Series([str(SECRET), "1", "2"])),
    "an exploding array": invalid(Explosive()),
    "two columns for one": invalid([[SECRET, 1.0]] * 3),
    "three axes": invalid([[[SECRET]]] * 3),
    "one column for two": invalid([[SECRET]] * 3, MOMENTS),
    "category too large": invalid([[0, SECRET]] * 3, TABLE3),
    "category 2 of 2": invalid([[0, 2], [1, 31337]], TABLE3),
    "negative category": invalid([[0, -31337]], TABLE3),
    "fractional category": invalid([[0, 31337.125]], TABLE3),
    "class out of range": invalid([[31337, 0]], q.CategoryProportions(num_classes=2, num_values=(2,), num_records=1)),
    "negative count": invalid([-31337, 1, 2], CURVE3),
    "count above the population": invalid([31337000, 1, 2], CURVE3),
    "fractional count": invalid([SECRET, 1, 2], CURVE3),
    "statuses that are not 0 or 1": invalid([[31337, 0, 1]], q.InfectionCurve(population=1, num_times=3)),
    "wrong number of times": invalid([31337, 1], CURVE3),
    "a failing function": invalid(GOOD, q.FunctionQuery(explode, sensitivity=1.0), None, mechanism=LAPLACE3),
    "a function off the lattice": invalid(GOOD, q.FunctionQuery(np.ravel, sensitivity=1e5), None, mechanism=LAPLACE3),
    "a function of nan": invalid([math.nan, SECRET], CODES, None, mechanism=LAPLACE3),
    "overflow": invalid([31337e20], q.FunctionQuery(np.ravel, sensitivity=1.0), None, mechanism=LAPLACE3),
    "wrong width": invalid([31337, 1], q.FunctionQuery(np.ravel, sensitivity={math.inf: 1.0}), None,
                           mechanism=m.PaddedBinomial(5, 1.0, 40_000, 3)),
    "unknown category in randomised response": invalid([31337], CODES, None, mechanism=m.RandomizedResponse(3, 0.5)),
    "count above the mechanism's population": invalid([31337], CODES, None, mechanism=m.PaddedBinomial(5, 1.0, 9, 1)),
    "function without lattice": invalid(GOOD, q.FunctionQuery(np.ravel, sensitivity=1.0)),
    "function without sensitivity": invalid(GOOD, q.FunctionQuery(np.ravel), None, mechanism=LAPLACE3),
    "no query": invalid(GOOD, None),
    "a class for a query": invalid(GOOD, q.ClampedMean),
    "a bare function": invalid(GOOD, np.mean),
    "data and query swapped": invalid(MEAN3, GOOD),
    "neither guarantee nor mechanism": invalid(guarantee=None),
    "both guarantee and mechanism": invalid(mechanism=LAPLACE3),
    "a number for a guarantee": invalid(guarantee=0.5),
    "a class for a guarantee": invalid(guarantee=nw.PureDP),
    "no epsilon": invalid(guarantee=nw.PureDP(0.0)),
    "gaussian guarantee": invalid(guarantee=nw.GaussianDP(1.0)),
    "delta of zero": invalid(guarantee=nw.ApproximateDP(1.0, 0.0)),
    "concentrated median": invalid(GOOD, q.Median((1.0, 2.0), 3), nw.ZeroConcentratedDP(1.0)),
    "vast noise": invalid(guarantee=nw.PureDP(1e-15)),
    "laplace": invalid(guarantee=None, mechanism=m.Laplace(1e5, 1e5)),
    "gaussian": invalid(guarantee=None, mechanism=m.Gaussian(1e5, 1e5)),
    "euclidean": invalid(guarantee=None, mechanism=m.EuclideanLaplace(1e5, 1e5)),
    "clamped laplace": invalid(guarantee=None, mechanism=m.Clamped(m.Laplace(1e5, 1e5), low=0.0)),
    "foreign sampler": invalid(guarantee=None, mechanism=m.SampledMechanism(lambda key, s: s, sensitivity=1e5)),
    "a class for a mechanism": invalid(guarantee=None, mechanism=m.DiscreteLaplace),
    "a sensitivity beyond counting": invalid(guarantee=None, mechanism=m.DiscreteLaplace(1.0, 1e30, 1.0)),
    "a step that underflows": invalid(guarantee=None, mechanism=m.DiscreteLaplace(1e300, 1e300, 1e-300)),
    "a smaller population": invalid([31337, 1, 2], CURVE3, None, mechanism=m.PaddedBinomial(5, 1.0, 39_999, 3)),
    "other step": invalid(query=dataclasses.replace(MEAN3, grid=0.5), guarantee=None,
                          mechanism=m.DiscreteLaplace(1e5, 1e5, 0.3)),
    "sensitivity too small": invalid(guarantee=None, mechanism=m.DiscreteLaplace(1.0, 1.0, MEAN3.on_default_grid().step)),
    "sensitivity unknown": invalid(guarantee=None, mechanism=m.DiscreteLaplace(1.0, None, MEAN3.on_default_grid().step)),
    "response to a mean": invalid(guarantee=None, mechanism=m.RandomizedResponse(2, 0.75)),
    "laplace for a median": invalid(GOOD, q.Median((1.0, 2.0), 3), None, mechanism=m.DiscreteLaplace(9.0, 9.0, 0.5)),
    "other candidates": invalid(GOOD, q.Median((1.0, 2.0), 3), None, mechanism=m.ExponentialMechanism((1.0, 3.0), 9.0)),
    "product too private for one block": invalid(
        GOOD, q.Joint([q.Histogram((0, 1, 2)), q.Histogram((0, 1, 3))]), None,
        mechanism=m.Product([m.DiscreteLaplace(9.0, 2.0), m.DiscreteLaplace(9.0, 1.0)], [2, 2])),
    "grid that misses the bounds": lambda: nw.release(GOOD, q.ClampedMean((0.0, 1.0), 3, grid=0.3), PURE),
    "bounds without a common grid": invalid(query=q.ClampedMean((-1.23456789012345, math.pi), 3)),
    "swapped bounds": lambda: nw.release(GOOD, q.ClampedMean((1.0, 0.0), 3), PURE),
    "too few names": invalid(names=()),
    "names that are numbers": invalid(names=(1,)),
    "a text for names": invalid(names="mean"),
    "no privacy unit": invalid(privacy_unit=""),
    "a path for a ledger": invalid(ledger="ledger.json"),
    "a description of two lines": invalid(description="a\nb"),
}  # fmt: skip


def test_there_are_enough_invalid_releases():
    assert len(INVALID) >= 40


def whole_story(error):
    """An exception and everything chained to it, as texts."""
    while error is not None:
        yield from (str(error), repr(error), *map(repr, error.args))
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("name", INVALID)
def test_invalid_releases_are_refused_without_a_word_about_the_data(name, monkeypatch):
    def drawn(*arguments):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(exact_noise, "_invoke", drawn)
    monkeypatch.setattr(exact_noise.secrets, "randbelow", drawn)
    with pytest.raises(NoisewiseError) as caught:
        INVALID[name]()
    assert not any("31337" in text for text in whole_story(caught.value))
    assert len(str(caught.value)) > 20


def test_data_in_a_message_would_be_found():
    with pytest.raises(KeyError) as caught:
        explode(GOOD)
    assert any("31337" in text for text in whole_story(caught.value))


@pytest.mark.parametrize(
    ("kind", "instead"), [(m.Laplace, "DiscreteLaplace"), (m.Gaussian, "DiscreteGaussian")]
)
def test_continuous_noise_is_refused_with_the_line_to_write(kind, instead):
    with pytest.raises(
        ReleaseError, match=rf"nw.mechanisms.{instead}.calibrate\(.*step=query.step\)"
    ):
        nw.release([1.0], MEAN, mechanism=kind(1.0, 1.0))


def test_a_ledger_of_another_unit_is_refused(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1.0), privacy_unit="household")
    with pytest.raises(ReleaseError, match="household"):
        nw.release([1.0], MEAN, PURE, ledger=ledger)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (InvalidTypeError, "pass it as mechanism=", lambda: nw.release(GOOD, MEAN3, LAPLACE3)),
        (InvalidTypeError, "data and query swapped", lambda: nw.release(MEAN3, GOOD, PURE)),
        (ReleaseError, "3 rows.*1 column.*of finite numbers", lambda: nw.release([math.nan, 1.0, 2.0], MEAN3, PURE)),
        (ReleaseError, "3 rows, one per record", lambda: nw.release([1.0], q.Joint([MEAN3]), PURE)),
        (ReleaseError, "statuses, 0 or 1", lambda: nw.release([[2]], CURVE, PURE)),
        (ReleaseError, "population=1,", lambda: nw.release([2], CURVE, PURE)),
        (InvalidTypeError, "data must be the records", lambda: nw.release("people.csv", MEAN3, PURE)),
        (ReleaseError, "real-valued.*DiscreteLaplace.*whole multiple",
         lambda: nw.release(GOOD, q.FunctionQuery(np.ravel, sensitivity=1.0), mechanism=m.Laplace(1.0, 1.0))),
        (ReleaseError, "real-valued.*DiscreteGaussian",
         lambda: nw.release(GOOD, MEAN3, mechanism=m.Product([m.Clamped(m.Gaussian(1.0, 1.0), low=0.0)]))),
        (InvalidInputError, "names must be 1 text, .*, got 2", lambda: nw.release([1.0], MEAN, PURE, names=("a", "b"))),
        (InvalidInputError, "2 different texts, but one", lambda: nw.Release([1, 2], LAPLACE, names=("a", "a"))),
    ],
)  # fmt: skip
def test_messages_say_what_is_wrong(error, message, call):
    with pytest.raises(error, match=message):
        call()
