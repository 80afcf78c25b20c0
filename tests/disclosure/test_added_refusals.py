"""Where records are added or removed: neighbours come to the same, in the same words, with no record
too, and the number of records appears nowhere.
"""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.disclosure import curator, preparation
from noisewise.disclosure.exact_mechanisms import exact_sampler
from noisewise.disclosure.preparation import choose_mechanism, columns_of
from noisewise.errors import InvalidInputError, ReleaseError
from noisewise.queries import domains
from tests.disclosure.added import ADDED, added_cases
from tests.disclosure.refusals import Case, differences, outcome
from tests.disclosure.test_refusals import losses, recorded

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries

FEWER, FEW_PAIRS, MORE = 400, 1_000, 50_000
ADD = nw.AddRemoveOne()
PURE = nw.PureDP(1.0)


def test_neighbours_come_to_the_same():
    assert list(differences(added_cases(np.random.default_rng(0), FEW_PAIRS))) == []


@pytest.mark.slow
def test_many_neighbours_come_to_the_same():
    assert list(differences(added_cases(np.random.default_rng(1), MORE))) == []


def test_every_kind_is_released_of_no_record_of_one_and_of_more():
    rng, seen = np.random.default_rng(2), set()
    for name, kind in ADDED.items():
        for _ in range(60):
            try:
                case = kind(rng)
            except nw.errors.NoisewiseError:
                continue
            if outcome(case, case.pair[0])[0][0] == "released":
                seen.add((name, min(len(case.pair[0]), 2)))
    assert seen == set(itertools.product(ADDED, (0, 1, 2)))


def test_integers_of_neighbours_are_no_farther_apart_than_opendp_is_told(monkeypatch):
    """The privacy loss itself, over the same pairs: a ratio above 1 is a guarantee that is false."""
    seen = recorded(monkeypatch)
    cases = added_cases(np.random.default_rng(4), FEWER)
    ratios = [ratio for case in cases for ratio in losses(case, seen)]
    assert len(ratios) > FEWER / 3
    assert max(ratios) <= 1.0 + 1e-9
    assert max(ratios) > 0.99


# Planted again, and found -------------------------------------------------------------------------


def no_empty_databases(monkeypatch):
    """What every domain once said: a database has a record."""
    check = domains.AbstractDomain._check_shape

    def planted(self, shape, num_records):
        if shape[0] == 0:
            raise InvalidInputError("x must have at least 1 record.")
        check(self, shape, num_records)

    monkeypatch.setattr(domains.AbstractDomain, "_check_shape", planted)


def empty_arrays_of_another_shape(monkeypatch):
    shape = q.AbstractQuery.takes_shape
    planted = lambda self, given: given[0] > 0 and shape(self, given)
    monkeypatch.setattr(q.AbstractQuery, "takes_shape", planted)


def a_number_in_the_release(monkeypatch):
    """The number of records as a field of what is published."""
    draw, publish = curator.PlannedRelease.draw, curator.PlannedRelease.publish
    counted = []

    def drawn(plan, read):
        counted.append(len(read()))
        return draw(plan, read)

    def published(plan, values):
        made = publish(plan, values)
        return dataclasses.replace(made, description=f"{counted[-1]} records")

    monkeypatch.setattr(curator.PlannedRelease, "draw", drawn)
    monkeypatch.setattr(curator.PlannedRelease, "publish", published)


def a_number_as_fits_the_data(monkeypatch):
    """A range that is checked against what the data have, not against what they could."""
    right = preparation.has_right_shape
    planted = lambda data, query: right(data, query) and len(data) < 8
    monkeypatch.setattr(curator, "has_right_shape", planted)


@pytest.mark.parametrize(
    "plant",
    [
        no_empty_databases,
        empty_arrays_of_another_shape,
        a_number_in_the_release,
        a_number_as_fits_the_data,
    ],
)
def test_a_planted_oracle_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert next(differences(added_cases(np.random.default_rng(0), FEWER)), None) is not None


def test_a_sensitivity_of_another_relation_would_be_found(monkeypatch):
    """A sum's that is right where a record is replaced, and too small where one is added."""
    seen = recorded(monkeypatch)
    monkeypatch.setattr(q.ClampedSum, "_added", lambda self, norm, _: self._sensitivity(norm))
    cases = added_cases(np.random.default_rng(4), FEWER)
    assert any(ratio >= 1.5 for case in cases for ratio in losses(case, seen))


# The number of records ----------------------------------------------------------------------------

MANY = 31_337
"""A number that no field holds by chance."""


@pytest.mark.parametrize("shape", ["list", "array", "frame"])
@pytest.mark.parametrize(
    "query",
    [
        q.ClampedSum(bounds=(0.0, 1.0)),
        q.Histogram(edges=(0.0, 0.5, 1.0)),
        q.Joint([q.ClampedSum(bounds=(0.0, 1.0)), q.Count()]),
        q.Median(candidates=(0.2, 0.7)),
    ],
    ids=lambda query: type(query).__name__,
)
def test_the_number_of_records_appears_nowhere(query, shape, tmp_path):
    data = {"list": list, "array": np.array, "frame": pd.DataFrame}[shape](np.full(MANY, 0.5))
    ledger = nw.Ledger(tmp_path / "ledger.json", nw.PureDP(9.0, neighbours=ADD))
    case = Case(query, {"guarantee": PURE, "neighbours": ADD, "ledger": ledger}, ())
    result, warned = outcome(case, data, description="a release")
    assert result[0] == "released"
    said = [*result, *warned, ledger.path.read_text(), repr(ledger), repr(ledger.entries)]
    assert all(str(MANY) not in text and f"{MANY:,}" not in text for text in said)


def test_the_number_of_records_is_in_no_refusal(tmp_path):
    refused = {
        "missing": [0.5] * (MANY - 1) + [np.nan],
        "two columns": np.full((MANY, 2), 0.5),
        "texts": ["a"] * MANY,
    }
    for data in refused.values():
        with pytest.raises(ReleaseError) as caught:
            nw.release(data, q.ClampedSum(bounds=(0.0, 1.0)), PURE, neighbours=ADD)
        assert str(MANY) not in str(caught.value)


def test_a_query_that_states_it_is_refused():
    for query in (
        q.Histogram(edges=(0.0, 0.5, 1.0), num_records=2),
        q.ClampedMean(bounds=(0.0, 1.0), num_records=2),
        q.Joint([q.ClampedSum(bounds=(0.0, 1.0), num_records=2), q.Count()]),
        q.Median(candidates=(0.2, 0.7), num_records=2),
    ):
        with pytest.raises(ReleaseError, match=r"queries\.ClampedSum and queries\.Count"):
            nw.release([0.5, 0.7], query, PURE, neighbours=ADD)
    with pytest.raises(ReleaseError, match="is public and needs no noise"):
        nw.release([0.5, 0.7], q.Count(), PURE)


# Black boxes --------------------------------------------------------------------------------------

DRAWS = 20_000


def released_noise(query, guarantee):
    """The sampler of real releases of this query, from statistics, and what it claims.

    Its noise is independent and alike for all integers: one call draws that of all rows.
    """
    query = query.on_default_grid()
    mechanism = choose_mechanism(query, guarantee)
    draw = exact_sampler(mechanism, columns_of(query))
    steps = np.atleast_1d(query.step if not query.is_composed else 1.0)

    def sampler(_, s):
        integers = np.round(np.asarray(s) / steps).astype(int)
        return np.reshape(draw(integers.ravel().tolist()), integers.shape)

    return sampler, mechanism.guarantee


@functools.cache
def bound_of(name):
    query, database, neighbour, relation = PAIRS[name]
    sampler, claimed = released_noise(query, nw.PureDP(1.0, neighbours=relation))
    query = query.on_default_grid()
    pair = query(database), query(neighbour)
    bound = nw.audit.epsilon_lower_bound(
        jax.random.key(0), sampler, *pair, num_draws=DRAWS, alpha=1e-6
    )
    return bound, claimed


THREE = nw.AddRemoveOne(max_contributions=3)
PAIRS = {
    "a count of nobody": (q.Count(), [0.5], [], ADD),
    "a histogram": (q.Histogram(edges=(0.0, 1.0, 2.0)), [0.5, 1.5], [1.5], ADD),
    "a sum": (q.ClampedSum(bounds=(0.0, 4.0), grid=1.0), [9.0], [], ADD),
    "a sum of three": (q.ClampedSum(bounds=(0.0, 4.0), grid=1.0), [9.0] * 3, [], THREE),
    "a table of three": (q.ContingencyTable(levels=(2,)), [1, 1, 1, 0], [0], THREE),
}


@pytest.mark.parametrize("name", PAIRS)
def test_real_releases_lose_no_more_than_they_claim(name):
    bound, claimed = bound_of(name)
    assert not bound.refutes(claimed.epsilon)
    assert bound.epsilon > 0.75 * claimed.epsilon  # the pair is the worst one, and is seen


def test_noise_for_one_record_is_refuted_by_three(monkeypatch):
    """Planted: units have three records each, and the noise is made for one."""
    query, database, neighbour, _ = PAIRS["a sum of three"]
    sampler, claimed = released_noise(query, nw.PureDP(1.0, neighbours=ADD))
    bound = nw.audit.epsilon_lower_bound(
        jax.random.key(0), sampler, query(database), query(neighbour), num_draws=DRAWS
    )
    assert bound.refutes(claimed.epsilon)


def test_noise_of_another_relation_is_refuted(monkeypatch):
    """Planted: a sum of values far from 0 has the noise of one whose records are replaced."""
    query = q.ClampedSum(bounds=(3.0, 4.0), grid=1.0)
    honest, claimed = released_noise(query, nw.PureDP(1.0, neighbours=ADD))
    assert not nw.audit.epsilon_lower_bound(
        jax.random.key(0), honest, query([4.0]), query([]), num_draws=DRAWS
    ).refutes(claimed.epsilon)
    planted, _ = released_noise(query, nw.PureDP(1.0))
    assert nw.audit.epsilon_lower_bound(
        jax.random.key(0), planted, query([4.0]), query([]), num_draws=DRAWS
    ).refutes(claimed.epsilon)
