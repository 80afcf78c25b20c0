"""Tables released with exact noise: thresholds on noisy counts, a noisy total, declared
invariants; under both relations.
"""

import json

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.errors import InvalidInputError, InvalidTypeError, ReleaseError, SensitivityError

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries
ADD = nw.AddRemoveOne()
CELLS = q.Histogram(edges=(0.0, 18.0, 65.0, 120.0))
NOISE = m.DiscreteLaplace(scale=1.0, sensitivity=1.0, neighbours=ADD)

AGES = [3.0] * 400 + [40.0] * 12 + [80.0]
EDGES = (0.0, 18.0, 65.0, 120.0)
RELATIONS = {
    "replace": (nw.ReplaceOne(), 2.0, len(AGES)),
    "add": (nw.AddRemoveOne(), 1.0, None),
}
relations = pytest.mark.parametrize(
    ("neighbours", "sensitivity", "num_records"), RELATIONS.values(), ids=RELATIONS
)


def table(neighbours, num_records):
    return q.Histogram(edges=EDGES, num_records=num_records)


def counts(neighbours, sensitivity, above=30.0):
    noise = m.DiscreteLaplace(scale=2.0, sensitivity=sensitivity, neighbours=neighbours)
    return m.Thresholded(noise, above=above)


@relations
def test_a_table_of_thresholded_counts(neighbours, sensitivity, num_records):
    released = nw.release(
        AGES,
        table(neighbours, num_records),
        mechanism=counts(neighbours, sensitivity),
        labels={"age": ["child", "adult", "old"]},
    )
    assert released.guarantee == nw.PureDP(sensitivity / 2.0, neighbours=neighbours)
    shown = released.table
    assert shown["age"].tolist() == ["child", "adult", "old"]
    assert shown["absent"].tolist() == [False, False, True] or shown["absent"].tolist() == [
        False, True, True,
    ]  # fmt: skip
    assert abs(shown["value"][0] - 400.0) < 80.0
    assert nw.Release.from_json(released.to_json()) == released


@relations
def test_the_threshold_is_applied_to_the_noisy_count(neighbours, sensitivity, num_records):
    """Of counts that lie at the threshold half are published, and those that are lie on either side
    of the true count only as far as the noise; a threshold on true counts publishes all of them.
    """
    data = [3.0] * 30 + [40.0] * 30 + [80.0] * 30
    query = q.Histogram(edges=EDGES, num_records=None if num_records is None else 90)
    noise = counts(neighbours, sensitivity)
    rows = np.array([nw.release(data, query, mechanism=noise).observed for _ in range(60)])
    present = ~np.isnan(rows)
    expected = 1.0 - np.exp(noise.log_prob([np.nan], [30.0]))
    error = np.sqrt(expected * (1 - expected) / present.size)
    assert abs(present.mean() - expected) <= 5 * error
    assert 1.0 - expected > 5 * error  # what the planted bug would give, 1, is far from it
    assert np.nanmin(rows) >= 30.0


@relations
def test_a_table_with_a_noisy_total(neighbours, sensitivity, num_records):
    cells = table(neighbours, num_records)
    if num_records is not None:
        with pytest.raises(ReleaseError, match="No neighbour changes"):
            nw.release(AGES, q.Count(), nw.PureDP(1.0))
        return
    query = q.Joint([cells, q.Count()])
    noise = m.DiscreteLaplace(scale=4.0, sensitivity=1.0, neighbours=neighbours)
    both = m.Product([counts(neighbours, sensitivity), noise], widths=[3, 1])
    released = nw.release(AGES, query, mechanism=both)
    assert released.guarantee == nw.PureDP(0.75, neighbours=neighbours)
    assert abs(released.values[3] - len(AGES)) < 150.0
    assert released.num_records is None
    low = m.DiscreteLaplace(scale=4.0, sensitivity=0.5, neighbours=neighbours)
    with pytest.raises(SensitivityError, match="calibrate it"):
        nw.release(AGES, query, mechanism=m.Product([both.blocks[0], low], widths=[3, 1]))


def with_exact_total(neighbours, sensitivity, num_records):
    query = q.Joint([table(neighbours, num_records), q.Count()])
    return query, m.Product([counts(neighbours, sensitivity), m.Exact()], widths=[3, 1])


NAMES = ("child", "adult", "old", "total")


@relations
def test_numbers_without_noise_must_be_declared_public(
    neighbours, sensitivity, num_records, tmp_path
):
    query, noise = with_exact_total(neighbours, sensitivity, num_records)
    settings = {"mechanism": noise, "names": NAMES}
    ledger = nw.Ledger(tmp_path / "l.json", limit=nw.PureDP(5.0, neighbours=neighbours))
    with pytest.raises(ReleaseError, match=r"declare it: invariants=\['total'\]"):
        nw.release(AGES, query, ledger=ledger, **settings)
    assert ledger.entries == ()
    released = nw.release(AGES, query, ledger=ledger, invariants=["total"], **settings)
    assert released.values[3] == len(AGES)
    assert released.guarantee == nw.NoGuarantee()
    assert "no privacy claimed" in repr(released)
    assert ledger.spent == nw.PureDP(sensitivity / 2.0, neighbours=neighbours)
    for wrong, error, words in (
        (["total", "child"], ReleaseError, "child is declared an invariant"),
        ("total", InvalidTypeError, "list of names"),
        ([1], InvalidTypeError, "list of names"),
        (["total", "total"], InvalidInputError, "occurs twice"),
    ):
        with pytest.raises(error, match=words):
            nw.release(AGES, query, invariants=wrong, **settings)
    with pytest.raises(ReleaseError, match="is declared an invariant"):
        nw.release(
            AGES, table(neighbours, num_records), mechanism=counts(neighbours, sensitivity),
            invariants=["s_dp[0]"],
        )  # fmt: skip


def test_what_is_exact_alone_is_never_released():
    query = q.Histogram(edges=EDGES)
    names = ["child", "adult", "old"]
    for declared in ((), names):
        with pytest.raises((ReleaseError, SensitivityError)):
            nw.release(AGES, query, mechanism=m.Exact(), names=names, invariants=declared)
    with pytest.raises(ReleaseError, match="no exact sampler"):
        nw.release(AGES, query, mechanism=m.Rounded())
    with pytest.raises(InvalidInputError, match="labels"):
        nw.release(AGES, query, nw.PureDP(1.0), labels={"age": ["a", "b"]})


def test_a_ledger_names_what_was_published_as_it_is(tmp_path):
    query = q.Joint([CELLS, q.Count()])
    noise = m.Product([NOISE, m.Exact()], widths=[3, 1])
    ledger = nw.Ledger(tmp_path / "l.json", limit=nw.PureDP(2.0, neighbours=ADD))
    names = ("child", "adult", "old", "total")
    nw.release(AGES, query, mechanism=noise, names=names, ledger=ledger, invariants=["total"])
    assert ledger.entries[-1].description.endswith("beside total as they are")


def test_exact_cells_claim_no_privacy_beside_noise_of_unknown_sensitivity():
    noise = m.Product([m.Laplace(scale=2.0), m.Exact()], widths=[1, 1])
    assert nw.Release([1.0, 3.0], noise).guarantee == nw.NoGuarantee()
    with pytest.raises(nw.errors.InvalidInputError, match="implies NoGuarantee"):
        nw.Release([1.0, 3.0], noise, guarantee=nw.PureDP(1.0))


def test_an_empty_frame_is_a_database_without_records():
    """As a list of none: who sees the refusal, or the ledger, must not learn that nobody is in it."""
    for empty in (pd.DataFrame([]), pd.DataFrame({"age": []}), []):
        released = nw.release(empty, CELLS, nw.PureDP(1.0), neighbours=ADD)
        assert len(released.values) == 3


def test_a_file_of_version_1_has_nothing_that_came_later():
    frame = pd.DataFrame({"age": ["child", "old"], "cases": [3.0, 4.0]})
    table = nw.Release.from_table(frame, value="cases", labels=["age"], mechanism=NOISE)
    content = json.loads(table.to_json()) | {"schema_version": 1}
    with pytest.raises(nw.errors.FileFormatError, match="version 1"):
        nw.Release.from_json(json.dumps(content))


def test_empty_cells_of_nullable_columns_are_absent():
    frame = pd.DataFrame({"age": ["child", None], "cases": [30, None]}).convert_dtypes()
    noise = m.Thresholded(NOISE, above=14.0)
    table = nw.Release.from_table(frame, value="cases", labels=["age"], mechanism=noise, absent="")
    assert table.table["absent"].tolist() == [False, True]
