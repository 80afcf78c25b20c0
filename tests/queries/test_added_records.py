"""Queries where records are added or removed: their sensitivities, and databases without records."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise import queries as q
from noisewise.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
    SensitivityError,
)
from noisewise.queries.base import AbstractCountQuery
from tests.catalogue_queries import QUERIES

NORMS = (1, 2, math.inf)
ADD = nw.AddRemoveOne()
DEFINED = [name for name, case in QUERIES.items() if case.added]
UNDEFINED = [name for name, case in QUERIES.items() if not case.added]
COUNTING = [name for name in DEFINED if getattr(QUERIES[name].query, "num_records", None) is None]


@pytest.mark.parametrize("name", UNDEFINED)
@pytest.mark.parametrize("norm", NORMS)
def test_what_is_divided_by_a_confidential_number_is_refused(name, norm):
    with pytest.raises(SensitivityError, match=r"queries\.ClampedSum and queries\.Count"):
        QUERIES[name].query.sensitivity(norm, ADD)


@pytest.mark.parametrize("name", DEFINED)
@pytest.mark.parametrize("norm", NORMS)
def test_the_unit_plays_no_part_and_contributions_add_up(name, norm):
    query = QUERIES[name].query
    one = query.sensitivity(norm, ADD)
    assert query.sensitivity(norm, nw.AddRemoveOne(unit="household")) == one
    assert query.sensitivity(norm, nw.ReplaceOne("household")) == query.sensitivity(norm)
    assert query.sensitivity(norm, nw.AddRemoveOne(max_contributions=3)) == pytest.approx(3 * one)
    assert query.sensitivity(norm) <= 2 * one * (1 + 1e-12)  # to replace is to remove and to add


def test_histograms_by_hand():
    histogram = q.Histogram(edges=tuple(range(10)))
    assert [histogram.sensitivity(norm) for norm in NORMS] == [2.0, math.sqrt(2.0), 1.0]
    assert [histogram.sensitivity(norm, ADD) for norm in NORMS] == [1.0, 1.0, 1.0]
    spread = nw.AddRemoveOne(max_contributions=4, max_per_cell=1)
    assert [histogram.sensitivity(norm, spread) for norm in NORMS] == [4.0, 2.0, 1.0]
    pairs = nw.AddRemoveOne(max_contributions=5, max_per_cell=2)
    assert [histogram.sensitivity(norm, pairs) for norm in NORMS] == [5.0, 3.0, 2.0]
    two_cells = q.Histogram(edges=(0, 1, 2))
    assert two_cells.sensitivity(1, spread) == 2.0  # no more of its records fit


@pytest.mark.parametrize(("most", "per_cell"), itertools.product((1, 2, 3, 4, 5), (1, 2, 3)))
def test_tables_by_enumeration(most, per_cell):
    """All ways in which the records of one unit fall into three cells."""
    if per_cell > most:
        pytest.skip("no such unit")
    relation = nw.AddRemoveOne(max_contributions=most, max_per_cell=per_cell)
    ways = [n for n in itertools.product(range(per_cell + 1), repeat=3) if sum(n) <= most]
    table = q.ContingencyTable(levels=(3,))
    for norm in NORMS:
        largest = max(np.linalg.norm(n, ord=norm) for n in ways)
        assert table.sensitivity(norm, relation) == pytest.approx(largest, rel=1e-15)
    assert table.sensitivity(2, relation) <= math.sqrt(most * per_cell) * (1 + 1e-12)


def test_medians_by_enumeration():
    query = q.Median(candidates=(1.0, 3.0, 4.0))
    values = (0.0, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0)
    databases = [
        database
        for size in range(4)
        for database in itertools.combinations_with_replacement(values, size)
    ]
    changes = [query([*x, value]) - query(x) for x in databases for value in values]
    for norm in NORMS:
        largest = max(np.linalg.norm(change, ord=norm) for change in changes)
        assert query.sensitivity(norm, ADD) == pytest.approx(largest, rel=1e-15)


@pytest.mark.parametrize("name", COUNTING)
def test_a_database_without_records_has_a_statistic(name):
    query = QUERIES[name].query
    columns = 1 if query.domain is None else query.domain.width
    for nothing in ([], np.zeros((0, columns)), pd.DataFrame(np.zeros((0, columns)))):
        np.testing.assert_array_equal(query(nothing), np.zeros(query.width))
        assert query.takes_shape(np.shape(nothing))
        if query.step is not None:
            assert query.integer_statistic(nothing) == [0] * query.width


def test_a_stated_number_of_records_refuses_none():
    with pytest.raises(InvalidInputError, match="5 record"):
        q.ClampedSum(bounds=(0.0, 1.0), num_records=5)([])


def test_sums_of_many_records_are_exact():
    rng = np.random.default_rng(4)
    x = rng.uniform(0.0, 1.0, 20_000)
    query = q.ClampedSum(bounds=(0.0, 1.0), grid=2.0**-30)
    by_hand = sum(round(value * 2**30) for value in x.tolist())
    assert query.integer_statistic(x) == [by_hand]
    with pytest.raises(InvalidInputError, match="too fine"):
        q.ClampedSum(bounds=(0.0, 1.0), grid=2.0**-31)
    assert (
        q.ClampedSum(bounds=(0.0, 1.0), grid=2.0**-31, num_records=3).largest_integer == 3 * 2**31
    )


def test_a_users_function_states_for_which_neighbours():
    query = q.FunctionQuery(len, sensitivity=1.0, neighbours=ADD)
    assert query.sensitivity(1, nw.AddRemoveOne(unit="household")) == 1.0
    assert query.on_default_grid().neighbours == ADD
    with pytest.raises(MissingCapabilityError, match="not for ReplaceOne"):
        query.sensitivity(1)
    with pytest.raises(MissingCapabilityError, match="pass neighbours="):
        query.sensitivity(1, nw.AddRemoveOne(max_contributions=2))
    with pytest.raises(MissingCapabilityError, match="pass neighbours="):
        q.FunctionQuery(len, sensitivity=1.0).sensitivity(1, ADD)
    with pytest.raises(InvalidTypeError, match=r"nw\.AddRemoveOne"):
        query.sensitivity(1, "add-remove")


def test_a_users_class_that_says_nothing_of_added_records_is_refused():
    class Silent(AbstractCountQuery):
        num_records = None
        names = ("all",)
        width = 1
        domain = q.Categories((2,))
        divisor = 1.0

        def _cells(self, records):
            return 0 * records

        def _sensitivity(self, norm):
            return 2.0

    assert Silent().sensitivity() == 2.0
    with pytest.raises(MissingCapabilityError, match="_added"):
        Silent().sensitivity(neighbours=ADD)
