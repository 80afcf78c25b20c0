"""Releases: the precision attack, exactness, refusals without data in them, files, and combination."""

import dataclasses
import json
import math

import jax
import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.disclosure import curator, display, exact_noise, publication
from noisewise.disclosure.path import on_grid
from noisewise.errors import (
    BudgetError,
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
    NoisewiseError,
    ReleaseError,
    SensitivityError,
)
from noisewise.mechanisms.base import AbstractMechanism
from tests.hostile import damaged

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries

CODES = q.FunctionQuery(np.ravel, sensitivity={0: 1, 1: 1})
MEAN = q.ClampedMean(bounds=(0.0, 1.0), num_records=1)
CURVE = q.InfectionCurve(population=1, num_times=1)
MEDIAN = q.Median(candidates=(0.1, 0.3, 0.7), num_records=1)
EPSILON = 1.0
PURE, RHO = nw.PureDP(EPSILON), nw.ZeroConcentratedDP(EPSILON**2 / 2)

# Every way to release one record that is 0 or 1, at epsilon = 1 or the zCDP that it implies.
PATHS = {
    "discrete laplace": (MEAN, {"guarantee": PURE}),
    "step that is no power of two": (dataclasses.replace(MEAN, grid=0.1), {"guarantee": PURE}),
    "discrete gaussian": (dataclasses.replace(MEAN, grid=0.1), {"guarantee": RHO}),
    "approximate": (MEAN, {"guarantee": nw.ApproximateDP(EPSILON, 1e-6)}),
    "histogram": (q.Histogram(edges=(-1.0, 0.5, 2.0)), {"guarantee": PURE}),
    "exponential mechanism": (MEDIAN, {"guarantee": PURE}),
    "padded binomial": (CURVE, {"mechanism": m.PaddedBinomial.calibrate(
        trials=9, population=1, num_times=1, guarantee=PURE)}),
    "randomized response": (CODES, {"mechanism": m.RandomizedResponse.calibrate(num_categories=2, guarantee=PURE)}),
    "clamped": (CODES, {"mechanism": m.Clamped(m.DiscreteLaplace(1.0, 1.0, 0.1), low=-0.4, high=1.2, step=0.2)}),
    "joint": (q.Joint([dataclasses.replace(MEAN, grid=0.1), MEDIAN]), {"guarantee": PURE}),
}  # fmt: skip


# Row 1 ---------------------------------------------------------------------------------------------------------------


def too_precise(y):
    """The event of the precision attack: some number is not a multiple of 2^-53."""
    return np.any(y * 2.0**53 != np.round(y * 2.0**53), axis=1)


def attack(sampler, num_draws):
    return nw.audit.epsilon_lower_bound(
        jax.random.key(0), sampler, [0.0], [1.0], event=too_precise, num_draws=num_draws, alpha=1e-6
    ).epsilon


@pytest.mark.parametrize("name", PATHS)
def test_precision_attack_learns_nothing_from_a_release(name):
    query, settings = PATHS[name]
    mechanism = nw.release([0.0], query, **settings).mechanism
    query = query if isinstance(query, q.FunctionQuery) else on_grid(query)

    def sampler(key, s):
        return np.stack([nw.release(row, query, mechanism=mechanism).observed for row in s])

    assert attack(sampler, 400) <= EPSILON


def test_precision_attack_breaks_floating_point_noise():
    rng = np.random.default_rng(0)
    leaking = {
        "numpy": lambda key, s: s + rng.laplace(0.0, 1 / EPSILON, s.shape),
        "gaussian": lambda key, s: s + rng.normal(0.0, 1 / EPSILON, s.shape),
        "ours": m.Laplace(scale=1 / EPSILON, sensitivity=1.0),
    }
    assert all(attack(sampler, 400) > EPSILON for sampler in leaking.values())
    assert all(attack(sampler, 100_000) > 5 * EPSILON for sampler in leaking.values())


def forbid_generators(monkeypatch):
    def forbidden(*arguments, **options):
        raise AssertionError("a floating-point generator was used")

    for module in (np.random, jax.random):
        for name in [name for name in dir(module) if not name.startswith("_")]:
            if callable(getattr(module, name)) and not isinstance(getattr(module, name), type):
                monkeypatch.setattr(module, name, forbidden)
    for name in ("sample", "transport"):
        monkeypatch.setattr(AbstractMechanism, name, forbidden)


@pytest.mark.parametrize("name", PATHS)
def test_no_generator_is_reached(name, monkeypatch):
    query, settings = PATHS[name]
    forbid_generators(monkeypatch)
    with pytest.raises(AssertionError, match="generator"):
        m.Laplace(scale=1.0).sample(jax.random.PRNGKey, [0.0])
    assert np.isfinite(nw.release([1.0], query, **settings).observed).all()


# What a release says -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PATHS)
def test_a_release_is_a_possible_observation_and_survives_its_file(name, tmp_path):
    query, settings = PATHS[name]
    published = nw.release([1.0], query, **settings)
    s = (query if isinstance(query, q.FunctionQuery) else on_grid(query))([1.0])
    assert np.isfinite(published.mechanism.log_prob(published.observed, s))
    assert published.guarantee == published.mechanism.guarantee
    if "guarantee" in settings:
        assert published.guarantee.within(settings["guarantee"])
    assert set(published.versions) == {"noisewise", "opendp", "python"}
    published.save(tmp_path / "release.json")
    loaded = nw.Release.load(tmp_path / "release.json")
    assert loaded == published
    assert loaded.to_json() == published.to_json()
    assert hash(loaded) == hash(published)
    assert [value.hex() for value in loaded.values] == [value.hex() for value in published.values]


SURE = nw.PureDP(1e12)
DATA = {
    "mean": ([0.24, 0.5, 9.0, -4.0], q.ClampedMean(bounds=(0.0, 1.0), num_records=4, grid=0.1), [0.425]),
    "means": ([[0.25, 3], [0.5, 1]], q.ClampedMean(bounds=((0, 1), (0, 4)), num_records=2, num_columns=2), [0.375, 2]),
    "histogram": ([0.5, 1.5, 1.6], q.Histogram(edges=(0, 1, 2, 3)), [1, 2, 0]),
    "proportions": ([0.5, 1.5, 1.6, 9], q.Histogram(edges=(0, 1, 2), num_records=4, normalize=True), [0.25, 0.75]),
    "table": ([[0, 2], [0, 2], [1, 0]], q.ContingencyTable(levels=(2, 3)), [0, 0, 2, 1, 0, 0]),
    "categories": ([[0, 1], [1, 1]], q.CategoryProportions(2, num_values=(2,), num_records=2), [0, 0.5, 0, 0.5]),
    "regression": ([[10.0, -5.0], [2.5, 99.0]], q.RegressionMoments(num_records=2, num_predictors=1),
                   [0.25, -0.125, 0.625, 0.625, 0.53125]),
    "infections": ([[0, 1], [1, 1], [0, 0]], q.InfectionCurve(population=3, num_times=2), [1, 2]),
    "infection counts": ([1, 2], q.InfectionCurve(population=3, num_times=2), [1, 2]),
    "median": ([1.0, 2.0, 2.0, 3.0, 50.0], q.Median(candidates=(1.0, 2.0, 3.0), num_records=5), [2.0]),
    "joint": ([0.5, 1.5, 1.6], q.Joint([q.Histogram(edges=(0, 1, 2)), q.Median((0.5, 1.5), 3)]), [1, 2, 1.5]),
    "data frame": (pd.DataFrame({"a": [0, 1, 1]}), q.ContingencyTable(levels=(2,)), [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_without_noise_to_speak_of_the_statistic_comes_out(name):
    data, query, expected = DATA[name]
    published = nw.release(data, query, SURE)
    assert published.observed == pytest.approx(expected, abs=1e-12)
    assert published.num_records == query.num_records
    assert published.query == on_grid(query).to_spec()
    if len(expected) == query.width:
        assert published.names == query.names


def test_concentrated_noise_also_centres_on_the_statistic():
    data, query, expected = DATA["means"]
    published = nw.release(data, query, nw.ZeroConcentratedDP(1e6), names=("a", "b"), privacy_unit="household")
    assert published.observed == pytest.approx(expected, abs=0.01)
    assert (published.names, published.privacy_unit) == (("a", "b"), "household")
    assert isinstance(published.mechanism, m.DiscreteGaussian)


def test_the_median_is_named():
    assert nw.release([1.0], MEDIAN, SURE).names == ("median",)


@pytest.mark.parametrize(
    ("bounds", "grid"),
    [((0.0, 1.0), 2**-12), ((-1.5, 2.5), 0.5 / 2**9), ((0.0, math.pi), math.pi / 2**12), ((0.1, 0.7), 0.1 / 2**10)],
)
def test_default_grid_divides_the_bounds(bounds, grid):
    query = on_grid(q.ClampedMean(bounds=bounds, num_records=3))
    assert query.grid == pytest.approx(grid, rel=1e-15)
    assert (bounds[1] - bounds[0]) / query.grid >= 2**12 - 1e-6


def test_noise_fits_the_rounded_query():
    """Integers of neighbours differ by at most what OpenDP was told: search over neighbours on and off the grid."""
    query = q.RegressionMoments(num_records=2, num_predictors=1, grid=0.25)
    rng = np.random.default_rng(0)
    reach = math.floor(query.sensitivity(1) / query.step * (1 + 1e-9))
    largest = 0
    for _ in range(2000):
        x = rng.uniform(-12.0, 12.0, (2, 2))
        other = x.copy()
        other[0] = rng.choice([-10.0, -10 / 3, 10 / 3, 10.0, 2.5, -2.5], 2)
        change = np.subtract(query.integer_statistic(x), query.integer_statistic(other))
        largest = max(largest, int(np.abs(change).sum()))
    assert 0.9 * reach <= largest <= reach


def test_values_are_integers_times_the_step():
    query = q.ClampedMean(bounds=(0.0, 1.0), num_records=7, grid=0.1)
    for _ in range(50):
        (value,) = nw.release(np.full(7, 0.5), query, nw.PureDP(0.01)).values
        assert value == query.step * round(value / query.step)


# The ledger ----------------------------------------------------------------------------------------------------------


def test_the_budget_is_spent_before_noise_is_drawn(tmp_path, monkeypatch):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1.0))
    seen = []
    monkeypatch.setattr(exact_noise, "_invoke", lambda measurement, integers: seen.append(ledger.spent) or integers)
    nw.release([1.0], MEAN, nw.PureDP(0.75), ledger=ledger, description="the mean")
    assert seen == [nw.PureDP(0.75)]
    with pytest.raises(BudgetError, match="limit"):
        nw.release([1.0], MEAN, nw.PureDP(0.5), ledger=ledger)
    assert len(seen) == 1
    assert [(entry.description, entry.guarantee) for entry in ledger.entries] == [("the mean", nw.PureDP(0.75))]


def test_a_refused_release_costs_nothing(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1.0))
    for data, options in [([math.nan], {}), ([1.0, 2.0], {}), ([1.0], {"names": ("a", "b")}), ([1.0], {"names": 3})]:
        with pytest.raises(NoisewiseError):
            nw.release(data, MEAN, nw.PureDP(0.75), ledger=ledger, **options)
    assert ledger.entries == ()


def test_gaussian_releases_add_up_under_an_approximate_limit(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.ApproximateDP(1.0, 1e-6))
    nw.release([1.0], MEAN, nw.ApproximateDP(1.0, 1e-6), ledger=ledger)
    assert dataclasses.astuple(ledger.spent) == pytest.approx((1.0, 1e-6))
    with pytest.raises(BudgetError):
        nw.release([1.0], MEAN, nw.ZeroConcentratedDP(1e-4), ledger=ledger)


def test_an_approximate_request_adds_up_as_it_was_asked_for(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.ApproximateDP(1.0, 1e-6))
    nw.release([1.0], MEAN, nw.PureDP(0.3), ledger=ledger)
    published = nw.release([1.0], MEAN, nw.ApproximateDP(0.5, 5e-7), ledger=ledger, description="the mean")
    assert isinstance(published.guarantee, nw.ZeroConcentratedDP)
    assert published.requested == nw.ApproximateDP(0.5, 5e-7)
    assert published.description == "the mean"
    assert nw.Release.from_json(published.to_json()) == published
    assert dataclasses.astuple(ledger.spent) == pytest.approx((0.8, 5e-7))
    assert [entry.query for entry in ledger.entries] == ["ClampedMean", "ClampedMean"]
    with pytest.raises(BudgetError, match="asked for ApproximateDP"):
        nw.release([1.0], MEAN, nw.ApproximateDP(0.21, 5e-7), ledger=ledger)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_asked_for_always_follows(seed):
    """Calibration and the sum over blocks round: never so far that a release would contradict its request."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        guarantee = [
            nw.ApproximateDP(10 ** rng.uniform(-2, 1.5), 10 ** rng.uniform(-12, -2)),
            nw.PureDP(10 ** rng.uniform(-2, 2)),
            nw.ZeroConcentratedDP(10 ** rng.uniform(-4, 2)),
        ][rng.integers(3)]
        blocks = [q.ClampedMean((0.0, float(rng.integers(1, 99))), 7) for _ in range(rng.integers(1, 6))]
        assert nw.release(np.ones(7), q.Joint(blocks), guarantee).requested == guarantee


# Row 6: invalid releases ---------------------------------------------------------------------------------------------

SECRET = 31337.125
MEAN3 = q.ClampedMean(bounds=(0.0, 1e5), num_records=3)
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
    "a huge integer": invalid([10**400, 1.0, 2.0]),
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
    "sensitivity too small": invalid(guarantee=None, mechanism=m.DiscreteLaplace(1.0, 1.0, on_grid(MEAN3).step)),
    "sensitivity unknown": invalid(guarantee=None, mechanism=m.DiscreteLaplace(1.0, None, on_grid(MEAN3).step)),
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


@pytest.mark.parametrize(("kind", "instead"), [(m.Laplace, "DiscreteLaplace"), (m.Gaussian, "DiscreteGaussian")])
def test_continuous_noise_is_refused_with_the_line_to_write(kind, instead):
    with pytest.raises(ReleaseError, match=rf"nw.mechanisms.{instead}.calibrate\(.*step=query.step\)"):
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
        (ReleaseError, "the data: data must be finite", lambda: nw.release([math.nan, 1.0, 2.0], MEAN3, PURE)),
        (ReleaseError, "data must have 3 record", lambda: nw.release([1.0], q.Joint([MEAN3]), PURE)),
        (ReleaseError, "statuses, 0 or 1", lambda: nw.release([[2]], CURVE, PURE)),
        (ReleaseError, "population=1;", lambda: nw.release([2], CURVE, PURE)),
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


# Releases by hand ----------------------------------------------------------------------------------------------------

LAPLACE = m.Laplace(scale=0.5, sensitivity=0.25)


def test_an_analyst_writes_down_published_numbers():
    query = q.ClampedMean(bounds=(0.0, 1.0), num_records=4)
    published = nw.Release(np.array([0.25]), LAPLACE, query=query)
    assert (published.values, published.names, published.num_records) == ((0.25,), ("mean",), 4)
    assert published.guarantee == nw.PureDP(0.5)
    assert published.query == query.to_spec()
    assert nw.Release([1, 2], m.Laplace(0.5)).names == ("s_dp[0]", "s_dp[1]")
    assert nw.Release([1.0], m.Laplace(0.5)).guarantee is None
    assert nw.Release([1.0], m.Laplace(0.5), guarantee=nw.PureDP(3.0)).guarantee == nw.PureDP(3.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        published.values = (1.0,)


BAD = {
    "nan": lambda: nw.Release([math.nan], LAPLACE),
    "infinite": lambda: nw.Release([math.inf], LAPLACE),
    "empty": lambda: nw.Release([], LAPLACE),
    "texts": lambda: nw.Release(["1"], LAPLACE),
    "booleans": lambda: nw.Release([True], LAPLACE),
    "a number": lambda: nw.Release(1.0, LAPLACE),
    "a matrix": lambda: nw.Release([[1.0]], LAPLACE),
    "uneven": lambda: nw.Release([[1.0], [1.0, 2.0]], LAPLACE),
    "swapped": lambda: nw.Release(LAPLACE, [1.0]),
    "no mechanism": lambda: nw.Release([1.0], None),
    "off the lattice": lambda: nw.Release([0.5], m.DiscreteLaplace(1.0)),
    "above the trials": lambda: nw.Release([6], m.PaddedBinomial(5, 1.0, 10, 1)),
    "no candidate": lambda: nw.Release([1.5], m.ExponentialMechanism((1.0, 2.0), 1.0)),
    "too many": lambda: nw.Release([1, 2, 3], m.PaddedBinomial(5, 1.0, 10, 2)),
    "utilities": lambda: nw.Release([1.0, 2.0], m.ExponentialMechanism((1.0, 2.0), 1.0)),
    "other guarantee": lambda: nw.Release([1.0], LAPLACE, guarantee=nw.PureDP(0.4)),
    "other kind": lambda: nw.Release([1.0], LAPLACE, guarantee=nw.ZeroConcentratedDP(0.5)),
    "number for guarantee": lambda: nw.Release([1.0], LAPLACE, guarantee=0.5),
    "too many names": lambda: nw.Release([1.0], LAPLACE, names=("a", "b")),
    "equal names": lambda: nw.Release([1.0, 2.0], LAPLACE, names=("a", "a")),
    "neighbours": lambda: nw.Release([1.0], LAPLACE, neighbours="add-remove"),
    "unit": lambda: nw.Release([1.0], LAPLACE, privacy_unit=None),
    "query": lambda: nw.Release([1.0], LAPLACE, query="mean"),
    "function": lambda: nw.Release([1.0], LAPLACE, query=CODES),
    "records": lambda: nw.Release([1.0], LAPLACE, num_records=0),
    "other records": lambda: nw.Release([1.0], LAPLACE, num_records=3, query=MEAN),
    "versions": lambda: nw.Release([1.0], LAPLACE, versions="1.0"),
    "request beyond the guarantee": lambda: nw.Release([1.0], LAPLACE, requested=nw.PureDP(0.1)),
    "request without a guarantee": lambda: nw.Release([1.0], m.Laplace(0.5), requested=nw.PureDP(0.1)),
    "number for a request": lambda: nw.Release([1.0], LAPLACE, requested=0.5),
    "description": lambda: nw.Release([1.0], LAPLACE, description=3),
    "sampler to file": lambda: nw.Release([1.0], m.SampledMechanism(lambda key, s: s)).to_json(),
    "path": lambda: nw.Release([1.0], LAPLACE).save(3),
    "no folder": lambda: nw.Release([1.0], LAPLACE).save("/nowhere/at/all.json"),
    "no file": lambda: nw.Release.load("/nowhere/at/all.json"),
    "a folder": lambda: nw.Release.load("/"),
    "not a text": lambda: nw.Release.from_json(3),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_releases_are_refused(name):
    with pytest.raises((InvalidInputError, InvalidTypeError, FileFormatError, MissingCapabilityError)):
        BAD[name]()


def test_a_release_reads_well():
    query = q.ClampedMean(bounds=(0.0, 100.0), num_records=8, grid=1.0)
    published = nw.release([50.0] * 8, query, nw.ApproximateDP(0.5, 1e-6), description="mean age")
    published = dataclasses.replace(published, values=(51.25,))
    text = str(published)
    sd = published.mechanism.scale
    assert text.splitlines()[:3] == [
        "Release: mean age  (value ± standard deviation of the noise)",
        f"  mean        51 ± {sd:.0f}",
        "  mechanism   DiscreteGaussian",
    ]
    assert f"{published.guarantee!r}, requested as {published.requested!r}" in text
    assert "replace-one, one person" in text
    assert text.endswith("records     8")
    assert repr(published) == text


def test_a_wide_release_is_abbreviated():
    candidates = tuple(float(c) for c in range(500))
    chosen = nw.Release([250.0], m.ExponentialMechanism(candidates, 1.0))
    assert "250" in str(chosen)
    assert "±" not in str(chosen)
    assert len(str(chosen)) < 250
    wide = nw.Release(np.arange(1000.0), LAPLACE, names=[f"{j}" + "x" * 500 for j in range(1000)])
    assert "and 994 more" in str(wide)
    assert len(str(wide)) < 1000
    many = nw.Release.combine(chosen, wide, *(nw.Release([j], LAPLACE) for j in range(200)))
    assert "ExponentialMechanism, 201 x Laplace" in str(many)
    assert len(str(many)) < 1000


def test_numbers_are_shown_to_the_precision_of_the_noise():
    shown = {
        0.0123: "3.142 ± 0.012", 12.3: "3 ± 12", 1.23: "3.1 ± 1.2", 1e-20: "3.141592654 ± 1e-20", 3e5: "3 ± 300000",
    }  # fmt: skip
    for sd, expected in shown.items():
        assert display._number(math.pi, sd) == expected
    assert display._number(math.pi, None) == "3.141592654"


NOISE = {
    "laplace": m.Laplace(0.7),
    "gaussian": m.Gaussian(0.7),
    "discrete laplace": m.DiscreteLaplace(0.7, step=0.5),
    "fine discrete laplace": m.DiscreteLaplace(0.7, step=0.01),
    "discrete gaussian": m.DiscreteGaussian(0.3, step=0.5),
    "fine discrete gaussian": m.DiscreteGaussian(0.7, step=0.01),
    "euclidean": m.EuclideanLaplace(0.7),
}


@pytest.mark.parametrize("name", NOISE)
def test_the_standard_deviation_shown_is_that_of_the_noise(name):
    """Within 6 standard errors; those of Laplace noise, of kurtosis 6, are sqrt(5 / 4 / draws) of the value."""
    draws = NOISE[name].sample(jax.random.key(4), np.zeros((40_000, 2)))
    found, stated = draws.std(axis=0), np.array(display.noise_sd(NOISE[name], 2))
    error = 6 * math.sqrt(5 / 4 / 40_000)
    assert np.all(np.abs(found / stated - 1.0) < error)
    assert not np.all(np.abs(found / (stated * 1.1) - 1.0) < error)


def test_blocks_have_their_own_noise():
    product = m.Product([m.Gaussian(2.0), m.ExponentialMechanism((1.0, 2.0), 1.0), m.EuclideanLaplace(1.0)], [2, 2, 3])
    assert display.noise_sd(product, 6) == [2.0, 2.0, None, 2.0, 2.0, 2.0]


# Files ---------------------------------------------------------------------------------------------------------------


def rich_release():
    query = q.Joint([dataclasses.replace(MEAN, grid=0.1), MEDIAN, CURVE])
    blocks = [m.Clamped(m.DiscreteLaplace(2.0, 1.0, 0.1), low=0.0), m.ExponentialMechanism(MEDIAN.candidates, 4.0)]
    mechanism = m.Product([*blocks, m.PaddedBinomial(9, 18.0, 1, 1)], widths=[1, 3, 1])
    return nw.release([1.0], query, mechanism=mechanism)


def test_saving_keeps_what_exists(tmp_path):
    path = tmp_path / "release.json"
    first, second = nw.Release([1.0], LAPLACE), nw.Release([2.0], LAPLACE)
    first.save(path)
    with pytest.raises(InvalidInputError, match="overwrite=True"):
        second.save(path)
    assert nw.Release.load(path) == first
    second.save(path, overwrite=True)
    assert nw.Release.load(path) == second
    assert [file.name for file in tmp_path.iterdir()] == ["release.json"]


def test_only_a_release_is_overwritten(tmp_path):
    nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1.0))
    contents = {"notes.txt": b"a text", "list.json": b"[]", "other.json": b'{"schema": "noisewise.posterior"}'}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    for name in ("ledger.json", *contents):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InvalidInputError, match="not a release: it is kept"):
            nw.Release([1.0], LAPLACE).save(tmp_path / name, overwrite=True)
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(InvalidInputError, match="folder"):
        nw.Release([1.0], LAPLACE).save(tmp_path, overwrite=True)
    nw.Release([1.0], LAPLACE).save(tmp_path / "new.json", overwrite=True)


def test_a_second_run_of_a_script_spends_nothing(tmp_path):
    path, ledger = tmp_path / "release.json", nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1.0))
    first = nw.release([1.0], MEAN, nw.PureDP(0.25), ledger=ledger, save_to=path)
    assert nw.Release.load(path) == first
    for taken in (path, ledger.path, tmp_path, tmp_path / "no" / "folder.json", path / "below", tmp_path / ("x" * 300)):
        with pytest.raises(InvalidInputError, match=r"exists and is kept|cannot be written"):
            nw.release([1.0], MEAN, nw.PureDP(0.25), ledger=ledger, save_to=taken)
    with pytest.raises(InvalidTypeError, match="save_to"):
        nw.release([1.0], MEAN, nw.PureDP(0.25), ledger=ledger, save_to=3)
    assert len(ledger.entries) == 1
    assert nw.Release.load(path) == first
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock", "release.json"]


def test_a_release_that_is_paid_for_is_not_lost_with_its_file(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise InvalidInputError("No space left on device.")

    monkeypatch.setattr(publication, "write_atomically", full)
    with pytest.warns(UserWarning, match="made, but not saved: No space"):
        published = nw.release([1.0], MEAN, SURE, save_to=tmp_path / "release.json")
    assert published.values == (1.0,)


def test_a_file_holds_no_statistic_and_no_seed():
    content = json.loads(nw.release([SECRET, 1.0, 2.0], MEAN3, nw.PureDP(1e-3)).to_json())
    assert set(content) == {
        "schema", "schema_version", "values", "names", "mechanism", "guarantee", "requested", "neighbours",
        "privacy_unit", "query", "num_records", "description", "versions",
    }  # fmt: skip
    assert "31337" not in json.dumps(content | {"values": None})


def test_damaged_files_are_refused_or_whole(tmp_path):
    text, path = rich_release().to_json(), tmp_path / "release.json"
    rng, refused = np.random.default_rng(2), 0
    for number, content in enumerate(damaged(text, rng, 500)):
        try:
            if number % 10:
                loaded = nw.Release.from_json(content)
            else:
                path.write_bytes(content)
                loaded = nw.Release.load(path)
            assert np.isfinite(loaded.observed).all()
            assert nw.Release.from_json(loaded.to_json()) == loaded
        except FileFormatError:
            refused += 1
    assert refused > 350


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [0.25, 0.5]}, "names must be 2"),
        ({"values": []}, "one or more numbers"),
        ({"values": ["0.25"]}, "one or more numbers"),
        ({"values": [True]}, "one or more numbers"),
        ({"values": {"0": 1.0}}, "must be lists"),
        ({"names": ["a", "b"]}, "names must be 1"),
        ({"names": None}, "must be lists"),
        ({"mechanism": None}, "must be an object"),
        ({"mechanism": {"type": "Laplace", "scale": 0.5}}, "has the fields"),
        ({"mechanism": {"type": "Laplace", "scale": -0.5, "sensitivity": 0.25}}, "> 0"),
        ({"mechanism": {"type": "SampledMechanism"}}, "one of"),
        ({"mechanism": {"type": "DiscreteLaplace", "scale": 0.5, "sensitivity": 0.25, "step": 1.0}}, "multiples of 1"),
        ({"guarantee": {"type": "PureDP", "epsilon": 0.25}}, "implies PureDP"),
        ({"guarantee": {"type": "ZeroConcentratedDP", "rho": 0.125}}, "implies PureDP"),
        ({"guarantee": {"type": []}}, "not valid"),
        ({"requested": {"type": "PureDP", "epsilon": 0.4}}, "does not follow"),
        ({"requested": {"type": "ZeroConcentratedDP", "rho": 0.1}}, "does not follow"),
        ({"requested": 0.5}, "must be an object"),
        ({"description": None}, "must be a text"),
        ({"description": "two\nlines"}, "one printable line"),
        ({"neighbours": "add-remove"}, "replace-one"),
        ({"privacy_unit": 3}, "must be a text"),
        ({"query": {"type": "FunctionQuery"}}, "one of"),
        ({"query": on_grid(MEAN).to_spec() | {"num_columns": 10**12}}, "columns"),
        ({"query": {"type": "Median", "candidates": [2.0, 1.0], "num_records": 3}}, "increasing"),
        ({"num_records": True}, "whole number"),
        ({"num_records": 3.5}, "whole number"),
        ({"versions": {"noisewise": 1}}, "must be a text"),
        ({"schema": "noisewise.ledger"}, "another kind"),
        ({"schema_version": 2}, "reads version 1"),
        ({"schema_version": True}, "reads version 1"),
        ({"seed": 1}, "does not know: 'seed'"),
    ],
)
def test_says_what_is_wrong_with_a_file(change, message):
    content = json.loads(nw.Release([0.25], LAPLACE, names=("mean",)).to_json())
    nw.Release.from_json(json.dumps(content))
    with pytest.raises(FileFormatError, match=message):
        nw.Release.from_json(json.dumps(content | change))


@pytest.mark.parametrize("key", ["values", "guarantee", "query", "versions", "schema"])
def test_a_missing_key_is_named(key):
    content = json.loads(nw.Release([0.25], LAPLACE).to_json())
    del content[key]
    with pytest.raises(FileFormatError, match=key):
        nw.Release.from_json(json.dumps(content))


# Combination ---------------------------------------------------------------------------------------------------------


def test_releases_of_one_dataset_combine(tmp_path):
    mean = nw.release([1.0], MEAN, nw.PureDP(0.5))
    median = nw.release([1.0], MEDIAN, nw.PureDP(0.25))
    both = nw.Release.combine([mean, median])
    assert both.values == mean.values + median.values
    assert both.names == ("mean", "median")
    assert both.guarantee == nw.PureDP(0.75)
    assert both.num_records == 1
    assert both.query["type"] == "Joint"
    assert both.mechanism.width == 4
    s = np.concatenate([on_grid(MEAN)([1.0]), MEDIAN([1.0])])
    parts = mean.mechanism.log_prob(mean.observed, s[:1]) + median.mechanism.log_prob(median.observed, s[1:])
    assert both.mechanism.log_prob(both.observed, s) == pytest.approx(parts)
    both.save(tmp_path / "both.json")
    assert nw.Release.load(tmp_path / "both.json") == both


def test_combination_of_kinds_names_and_unknowns():
    gaussian = nw.Release([0.1], m.Gaussian(1.0, 0.6), names=("mean",))
    pure = nw.Release([0.2], m.Laplace(1.0, 0.5), names=("mean",), num_records=9)
    unknown = nw.Release([0.3], m.Laplace(1.0), names=("other",))
    stated = nw.Release([0.3], m.Laplace(1.0), names=("other",), guarantee=nw.PureDP(1.0))
    assert nw.Release.combine([gaussian, pure]).names == ("0:mean", "1:mean")
    assert nw.Release.combine([gaussian, pure]).num_records == 9
    assert nw.Release.combine([gaussian, pure]).guarantee == gaussian.guarantee.compose(pure.guarantee)
    assert nw.Release.combine([pure, unknown]).guarantee is None
    assert nw.Release.combine([pure, stated]).guarantee == nw.PureDP(1.5)
    assert nw.Release.combine([pure]).values == pure.values


def test_every_way_to_combine_includes_every_release():
    a, b, c = (nw.Release([value], LAPLACE, names=(name,)) for value, name in [(1.0, "a"), (2.0, "b"), (3.0, "c")])
    both, all_three = nw.Release.combine([a, b]), nw.Release.combine([a, b, c])
    assert both.by_name == {"a": 1.0, "b": 2.0}
    for same in (nw.Release.combine(a, b), a.combine(b), a.combine([b]), nw.Release.combine(iter([a, b]))):
        assert same == both
    for same in (nw.Release.combine(a, b, c), a.combine(b, c), a.combine([b, c]), nw.Release.combine([a, b], c)):
        assert same == all_three
    for alone in (lambda: nw.Release.combine(a), lambda: a.combine()):
        with pytest.raises(InvalidInputError, match="at least two releases"):
            alone()
    with pytest.raises(InvalidInputError, match="twice"):
        a.combine(a)


def test_descriptions_are_joined():
    releases = [nw.Release([1.0], LAPLACE, names=(name,), description=name * 600) for name in "ab"]
    assert nw.Release.combine(*releases).description == "a" * 600 + "; " + "b" * 395 + "..."
    short = [dataclasses.replace(release, description=release.names[0]) for release in releases]
    assert nw.Release.combine(*short).description == "a; b"


@pytest.mark.parametrize(
    ("error", "releases"),
    [
        (InvalidTypeError, lambda r: []),
        (InvalidTypeError, lambda r: 3),
        (InvalidTypeError, lambda r: "ab"),
        (InvalidTypeError, lambda r: [r, 3]),
        (InvalidInputError, lambda r: [r, r]),
        (InvalidInputError, lambda r: [r, dataclasses.replace(r, privacy_unit="household")]),
        (InvalidInputError, lambda r: [r, dataclasses.replace(r, num_records=8)]),
    ],
)
def test_what_does_not_belong_together_is_not_combined(error, releases):
    with pytest.raises(error):
        nw.Release.combine(releases(nw.Release([0.2], LAPLACE, num_records=9)))


def test_public_names():
    assert nw.Release is publication.Release
    assert nw.release is curator.release
    assert issubclass(SensitivityError, NoisewiseError)
