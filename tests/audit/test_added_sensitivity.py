"""The search under add/remove: it finds every stated sensitivity, and catches one of another
relation.
"""

import dataclasses
import math

import numpy as np
import pytest

import noisewise as nw
from noisewise import queries as q
from noisewise.audit.sensitivity import sensitivity
from noisewise.errors import InvalidInputError, SensitivityError
from tests.audit.test_sensitivity import under_norms
from tests.catalogue_queries import QUERIES

ADD = nw.AddRemoveOne()
RELATIONS = {
    "one": ADD,
    "three": nw.AddRemoveOne(max_contributions=3),
    "three, two to a cell": nw.AddRemoveOne(max_contributions=3, max_per_cell=2),
}
SEARCHED = [name for name, case in QUERIES.items() if case.added and name != "median"]
"""Not the median of a public number of records, of which no neighbour has another number."""


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("name", "norm"), under_norms(SEARCHED))
def test_claims_are_reached_and_not_passed(name, norm, relation):
    query, neighbours = QUERIES[name].query, RELATIONS[relation]
    audit = sensitivity(query, norm=norm, neighbours=neighbours)
    assert audit.claimed == query.sensitivity(norm, neighbours)
    assert audit.passed
    assert 0.999 <= audit.ratio <= 1.0 + 1e-12
    # What was found is a pair of neighbours, and anyone can check it.
    removed = len(audit.database) - len(audit.neighbour)
    assert removed == neighbours.max_contributions
    if query.num_records is None:
        difference = query(audit.database) - query(audit.neighbour)
        assert np.linalg.norm(difference, ord=norm) == pytest.approx(audit.found, rel=1e-12)


@pytest.mark.parametrize(("name", "norm"), under_norms(SEARCHED))
def test_a_claim_5_percent_too_small_is_caught(name, norm):
    query = QUERIES[name].query
    kind = type(query)
    too_small = {"_added": lambda self, *args: 0.95 * kind._added(self, *args)}
    understated = type("Understated", (kind,), too_small)
    fields = {field.name: getattr(query, field.name) for field in dataclasses.fields(query)}
    audit = sensitivity(understated(**fields), norm=norm, neighbours=ADD)
    assert not audit.passed
    assert audit.found > audit.claimed * 1.05


def of_another_relation(query, instead):
    """The same query, which answers for `instead` whatever the relation."""
    kind = type(query)
    wrong = {
        "sensitivity": lambda self, norm=1, neighbours=None: kind.sensitivity(self, norm, instead)
    }
    fields = {field.name: getattr(query, field.name) for field in dataclasses.fields(query)}
    return type("Wrong", (kind,), wrong)(**fields)


@pytest.mark.parametrize(
    ("query", "instead", "asked"),
    [
        # Add/remove claimed where one record is replaced: half of what a histogram needs
        (q.Histogram(edges=(0.0, 1.0, 2.0)), ADD, nw.ReplaceOne()),
        (q.ClampedSum(bounds=(-1.0, 4.0)), ADD, nw.ReplaceOne()),
        (q.Median(candidates=(1.0, 2.0)), ADD, nw.ReplaceOne()),
        # Replacement claimed where a record is added: values far from 0 move a sum by more
        (q.ClampedSum(bounds=(9.0, 10.0)), nw.ReplaceOne(), ADD),
        (q.Count(), nw.ReplaceOne(), ADD),
        # One record claimed for units of three, and different cells for records of one
        (q.Histogram(edges=(0.0, 1.0, 2.0)), ADD, RELATIONS["three"]),
        (
            q.ContingencyTable(levels=(2, 3)),
            nw.AddRemoveOne(max_contributions=3, max_per_cell=1),
            RELATIONS["three"],
        ),
    ],
    ids=repr,
)
def test_a_planted_wrong_relation_is_caught(query, instead, asked):
    assert sensitivity(query, norm=2, neighbours=asked).passed
    audit = sensitivity(of_another_relation(query, instead), norm=2, neighbours=asked)
    assert not audit.passed
    assert audit.ratio > 1.2


def test_a_forgotten_clamp_is_caught():
    class Unclamped(q.ClampedSum):
        def _units(self, records):
            return records

    assert sensitivity(Unclamped(bounds=(0.0, 1.0)), neighbours=ADD).found > 1e6


def test_black_boxes_of_any_number_of_records():
    unit = q.Box(low=(0.0,), high=(2.0,))

    def total(x):
        return [np.sum(x), float(len(x) > 0)]

    audit = sensitivity(
        q.FunctionQuery(total, sensitivity=3.0, neighbours=ADD),
        domain=unit,
        neighbours=ADD,
        num_records=1,
    )
    assert audit.passed
    assert audit.found == pytest.approx(3.0)
    assert len(audit.neighbour) == 0
    lying = q.FunctionQuery(total, sensitivity=2.0, neighbours=ADD)
    assert not sensitivity(lying, domain=unit, neighbours=ADD, num_records=1).passed


def test_what_has_no_neighbours_of_another_size_is_refused():
    with pytest.raises(InvalidInputError, match="leave num_records out"):
        sensitivity(QUERIES["median"].query, norm=math.inf, neighbours=ADD)
    with pytest.raises(SensitivityError, match="ClampedSum"):
        sensitivity(QUERIES["clamped_mean"].query, neighbours=ADD)
