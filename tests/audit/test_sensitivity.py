"""The search finds every stated sensitivity, never more, and catches claims that are 5% too small."""

import dataclasses
import math

import numpy as np
import pytest

from noisewise import queries as q
from noisewise.audit.sensitivity import sensitivity
from noisewise.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
    SimulationError,
)
from noisewise.queries.base import namespace
from tests.catalogue_queries import QUERIES

NORMS = (1, 2, math.inf)
COSTLY = ("joint", "median", "median_of_any_number", "sum_and_count")
"""Queries whose search takes long: the fast suite has them under one norm."""
UNIT = q.Box(low=(0.0,), high=(1.0,))


def under_norms(names):
    """Every name under every norm."""
    return [
        pytest.param(
            name, norm, marks=[pytest.mark.slow] if name in COSTLY and norm != NORMS[0] else []
        )
        for name in names
        for norm in NORMS
    ]


@pytest.mark.parametrize(("name", "norm"), under_norms(QUERIES))
def test_claims_are_reached_and_not_passed(name, norm):
    case = QUERIES[name]
    audit = sensitivity(case.query, norm=norm)
    assert audit.claimed == case.query.sensitivity(norm)
    assert audit.passed
    assert (0.999 if case.exact else 0.5) <= audit.ratio <= 1.0 + 1e-12
    # What was found is a pair of neighbours, and anyone can check it.
    changed = np.any(
        np.atleast_2d(audit.database != audit.neighbour).reshape(len(audit.database), -1), axis=1
    )
    assert changed.sum() == (1 if audit.found else 0)
    difference = case.query(audit.database) - case.query(audit.neighbour)
    assert np.linalg.norm(difference, ord=norm) == pytest.approx(audit.found, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "norm"),
    under_norms(
        name for name, case in QUERIES.items() if case.exact and case.query.sensitivity() > 0.0
    ),
)
def test_a_claim_5_percent_too_small_is_caught(name, norm):
    query = QUERIES[name].query
    kind = type(query)
    too_small = {"_sensitivity": lambda self, norm: 0.95 * kind._sensitivity(self, norm)}
    understated = type("Understated", (kind,), too_small)
    fields = {field.name: getattr(query, field.name) for field in dataclasses.fields(query)}
    audit = sensitivity(understated(**fields), norm=norm)
    assert not audit.passed
    assert audit.found > audit.claimed * 1.05


@pytest.mark.parametrize("predictors", [1, 2, 3, 4, 5])
def test_regression_moments_for_any_number_of_predictors(predictors):
    query = q.RegressionMoments(num_records=100, num_predictors=predictors)
    for norm in NORMS:
        assert 0.999 <= sensitivity(query, norm=norm).ratio <= 1.0 + 1e-12


def test_the_published_bound_is_valid_but_loose():
    query = q.RegressionMoments(num_records=100, num_predictors=2, sensitivity_bound="paper")
    audit = sensitivity(query, norm=1)
    assert audit.passed
    assert audit.ratio == pytest.approx(9.375 / 13, rel=1e-3)


@pytest.mark.parametrize("resolution", [1, 3, 10, 64])
def test_rounded_queries_stay_within_the_claim(resolution):
    query = q.RegressionMoments(
        num_records=20, num_predictors=2, bounds=(-5.0, 15.0), grid=1 / resolution
    )
    for norm in NORMS:
        audit = sensitivity(query, norm=norm)
        assert 0.85 <= audit.ratio <= 1.0 + 1e-12
        steps = (np.stack([audit.database[-1], audit.neighbour[-1]]) + 5.0) / 10.0 * resolution
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-9)


def test_the_integer_path_is_what_is_measured():
    class WrongIntegers(q.ClampedMean):
        def _integers(self, x):
            return 2 * self._total(x)

    audit = sensitivity(WrongIntegers(bounds=(0.0, 1.0), num_records=3, grid=0.5))
    assert audit.ratio == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: [np.median(x)], 1.0),
        (lambda x: [np.var(x)], 4 / 25),
        (lambda x: [x[1]], 1.0),
        (lambda x: np.sort(x), 1.0),
        (lambda x: np.quantile(x, [0.0, 1.0]) * [1.0, 3.0], 3.0),
        (lambda x: [x.sum() * (x.max() < 0.9)], 5 * 0.9),
    ],
    ids=["median", "variance", "second", "sort", "ends", "jump"],
)
def test_black_box_queries(fn, expected):
    audit = sensitivity(fn, domain=UNIT, num_records=5)
    assert audit.claimed is None
    assert math.isnan(audit.ratio)
    assert not audit.passed
    # A lower bound always; the jump is the hardest to climb
    assert 0.95 * expected <= audit.found <= expected * (1 + 1e-12)
    assert audit.found == pytest.approx(
        abs(np.subtract(fn(audit.database), fn(audit.neighbour))).sum()
    )


def test_black_box_with_categories_and_a_false_claim():
    table = q.FunctionQuery(
        lambda x: np.bincount(2 * x[:, 0] + x[:, 1], minlength=4), sensitivity=1.0
    )
    audit = sensitivity(table, domain=q.Categories(levels=(2, 2)))
    assert audit.found == 2.0
    assert not audit.passed
    assert sensitivity(table, domain=q.Categories(levels=(2, 2)), norm=2).found == pytest.approx(
        math.sqrt(2.0)
    )


def test_the_search_repeats():
    first, second = (
        sensitivity(lambda x: [np.var(x)], domain=UNIT, seed=7, num_starts=8) for _ in range(2)
    )
    assert first.found == second.found
    np.testing.assert_array_equal(first.neighbour, second.neighbour)


# Records outside the bounds -----------------------------------------------------------------------


class NoClip(q.ClampedMean):
    """The mean of whatever comes."""

    def _units(self, records):
        return records if self.grid is None else namespace(records).rint(records / self.grid)


class ClipsOnlyTheStatistic(q.ClampedMean):
    """Clamps in the simulated statistic, forgets it in the integers of a release."""

    def _integers(self, x):
        return np.rint(x / self.grid).sum(0)


class LosesOneClip(q.RegressionMoments):
    """Everything clamped but the response."""

    def _units(self, records):
        low, high = np.asarray(self.domain.low), np.asarray(self.domain.high)
        scaled = (
            np.concatenate([np.clip(records, low, high)[:, :-1], records[:, -1:]], axis=1)
            * 2
            / (high - low)
        )
        columns = np.concatenate([np.ones((len(records), 1)), scaled], axis=1)
        left, right = zip(*self._pairs, strict=True)
        return columns[:, list(left)] * columns[:, list(right)]


class Refuses(NoClip):
    """Does not clamp, but takes no records that it would have to."""

    def _units(self, records):
        if np.any((records < 0.0) | (records > 1.0)):
            raise ValueError("outside")
        return records


UNCLAMPED = {
    "mean": NoClip(bounds=(0.0, 1.0), num_records=5),
    "columns": NoClip(bounds=((0.0, 8.0), (-4.0, 2.0)), num_records=4, num_columns=2),
    "grid": NoClip(bounds=(-1.0, 4.0), num_records=5, grid=0.5),
    "integers": ClipsOnlyTheStatistic(bounds=(-1.0, 4.0), num_records=5, grid=0.5),
    "moments": LosesOneClip(num_records=100, num_predictors=2),
    "joint": q.Joint(
        [q.Histogram(edges=(0.0, 0.5, 1.0)), NoClip(bounds=(0.0, 1.0), num_records=5)]
    ),
}


@pytest.mark.parametrize(("name", "norm"), under_norms(UNCLAMPED))
def test_a_forgotten_clamp_is_caught(name, norm):
    query = UNCLAMPED[name]
    audit = sensitivity(query, norm=norm)
    assert not audit.passed
    assert audit.ratio > 1e6
    assert np.abs(audit.neighbour[-1]).max() > 1e6
    assert np.array_equal(audit.database[:-1], audit.neighbour[:-1])
    # Inside the box there is nothing to see.
    assert sensitivity(query, norm=norm, domain=query.domain).passed


def test_records_that_a_query_refuses_are_not_held_against_it():
    audit = sensitivity(Refuses(bounds=(0.0, 1.0), num_records=5))
    assert audit.passed
    assert audit.ratio == pytest.approx(1.0)


def test_what_is_nan_outside_is_infinite():
    class Overflows(NoClip):
        def _units(self, records):
            return np.where(np.abs(records) > 10.0, np.nan, records)

    assert sensitivity(Overflows(bounds=(0.0, 1.0), num_records=5)).found == math.inf


MEAN = q.ClampedMean(bounds=(0.0, 1.0), num_records=3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: sensitivity(np.sort), MissingCapabilityError, "pass domain="),
        (lambda: sensitivity(np.sort, domain=(0, 1)), InvalidTypeError, "queries.Box"),
        (lambda: sensitivity(3.0), InvalidTypeError, "query must be"),
        (lambda: sensitivity(MEAN, norm=3), InvalidInputError, "norm must be"),
        (lambda: sensitivity(MEAN, num_records=4), InvalidInputError, "3 records"),
        (lambda: sensitivity(MEAN, domain=q.Box((0, 0), (1, 1))), InvalidInputError, "column"),
        (lambda: sensitivity(MEAN, num_starts=0), InvalidInputError, "num_starts"),
        (lambda: sensitivity(MEAN, seed=-1), InvalidInputError, "seed"),
        (lambda: sensitivity(lambda x: [math.nan], domain=UNIT), SimulationError, "NaN"),
    ],
)
def test_bad_calls_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
