"""Releases that are tables: labels, absent and missing cells, mechanisms by row, from data frames."""

import json
import os
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError

m = nw.mechanisms
BESIDE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("NOISEWISE_TABLES", BESIDE))
"""A folder with real tables, which are not part of the project: `wikimedia_au_pages.csv`,
`nz_injuries_rr3.csv` and `nz_injuries_rr3_totals.csv`.
"""
COUNTS = m.DiscreteLaplace(scale=30.0)
FRAME = pd.DataFrame(
    {
        "district": ["North", "North", "South", "South"],
        "year": [2020, 2021, 2020, 2021],
        "cases": ["470", "X", "512", "X"],
        "noise": ["old", "old", "new", "new"],
        "lost": [False, False, False, True],
        "b": [30.0, 30.0, 15.0, 15.0],
    }
)
KINDS = {
    "old": m.Thresholded(COUNTS, above=450.0),
    "new": m.Thresholded(m.DiscreteGaussian(scale=18.0), above=90.0),
}


def table(frame=FRAME, **changes):
    settings = {
        "value": "cases",
        "labels": ["district", "year"],
        "mechanism": KINDS,
        "by": "noise",
        "absent": "X",
        "missing": "lost",
    }
    return nw.Release.from_table(frame, **{**settings, **changes})


def test_a_table_becomes_a_release():
    release = table(description="Cases", source={"file": "cases.csv", "rows": 4})
    assert release.names == ("North, 2020", "North, 2021", "South, 2020", "South, 2021")
    np.testing.assert_array_equal(release.observed, [470.0, np.nan, 512.0, np.nan])
    assert release.missing.tolist() == [False, False, False, True]
    shown = release.table
    assert shown.columns.tolist() == ["district", "year", "value", "absent", "missing", "noise_sd"]
    assert shown["absent"].tolist() == [False, True, False, False]
    np.testing.assert_allclose(shown["noise_sd"][:3], [42.42444, 42.42444, 18.0], rtol=1e-5)
    assert np.isnan(shown["noise_sd"][3])
    text = repr(release)
    assert "North, 2021  absent" in text
    assert "South, 2021  missing" in text


def test_a_table_comes_back_from_its_file():
    release = table(
        guarantee=nw.PureDP(1 / 30, neighbours=nw.AddRemoveOne("page view")), source="a line"
    )
    text = release.to_json()
    content = json.loads(text)
    assert content["schema_version"] == 2
    assert content["values"] == [470.0, None, 512.0, None]
    assert content["labels"] == {
        "district": ["North", "North", "South", "South"],
        "year": [2020, 2021, 2020, 2021],
    }
    again = nw.Release.from_json(text)
    assert again == release
    assert hash(again) == hash(release)
    assert again.to_json() == text
    pd.testing.assert_frame_equal(again.table, release.table)
    assert again.guarantee_is_stated
    assert again.neighbours == nw.AddRemoveOne("page view")
    assert "stated by the publisher" in repr(again)
    with pytest.raises(FileFormatError, match="otherwise"):
        nw.Release.from_json(
            text.replace('"guarantee_is_stated": true', '"guarantee_is_stated": false')
        )
    other = table(FRAME.assign(cases=["470", "X", "513", "X"]))
    assert other != table()


def test_missing_cells_have_likelihood_one_and_absent_ones_do_not():
    release = table()
    s = np.tile([470.0, 300.0, 500.0, 100.0], (3, 1))
    s[1, 3], s[2, 1] = 1e5, 600.0
    same, missing, absent = release.mechanism.log_prob(release.observed, s)
    assert same == missing
    assert absent < same - 1.0


def test_cells_are_chosen_by_their_labels():
    release = table()
    north = release.select(district="North")
    assert north.table["year"].tolist() == [2020, 2021]
    assert north.mechanism.to_spec() == KINDS["old"].to_spec()
    part = release.select(district=["North", "South"], year=2021)
    np.testing.assert_array_equal(part.observed, [np.nan, np.nan])
    assert part.missing.tolist() == [False, True]
    assert nw.Release.from_json(part.to_json()) == part
    for chosen, words in (
        ({"county": "North"}, "no dimension 'county'"),
        ({"district": "West"}, "No cell has the district 'West'"),
        ({}, "select takes labels"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            release.select(**chosen)
    with pytest.raises(InvalidInputError, match="no labels to select by"):
        nw.Release([1.0], m.Laplace(1.0)).select(a=1)
    partly = m.PerCell([m.Laplace(2.0, sensitivity=1.0), m.Laplace(2.0)], [0, 1])
    stated = nw.Release([3.0, 4.0], partly, labels={"a": [1, 2]}, guarantee=nw.PureDP(3.0))
    assert stated.select(a=1).guarantee == nw.PureDP(0.5)
    assert stated.select(a=2).guarantee == nw.PureDP(3.0)
    private = nw.Release(
        [3.0, 4.0], m.Laplace(2.0, sensitivity=1.0), labels={"a": [1, 2]}, requested=nw.PureDP(0.5)
    )
    assert private.select(a=2).guarantee == nw.PureDP(0.5)


def test_tables_are_joined_by_their_labels():
    first = table(name="cases")
    totals = pd.DataFrame({"year": [2020, 2021], "cases": [981, 402]})
    second = nw.Release.from_table(
        totals, value="cases", labels=["year"], mechanism=m.Rounded(base=3), name="total"
    )
    both = nw.Release.combine(first, second)
    shown = both.table
    assert shown.columns.tolist()[:3] == ["district", "year", "name"]
    assert shown["district"].tolist()[:4] == ["North", "North", "South", "South"]
    assert shown["district"].isna().tolist() == [False] * 4 + [True] * 2
    assert shown["name"].tolist() == ["cases"] * 4 + ["total"] * 2
    assert len(set(both.names)) == 6
    assert nw.Release.from_json(both.to_json()) == both
    assert both.select(name="total").observed.tolist() == [981.0, 402.0]
    assert both.select(name="cases").table["missing"].tolist() == [False, False, False, True]
    plain = nw.Release.combine(nw.Release([1.0], m.Laplace(1.0)), second)
    assert plain.labels is None


ADDED = nw.AddRemoveOne(max_contributions=300)
HOUSEHOLD = nw.AddRemoveOne("household")


@pytest.mark.parametrize("stated", [ADDED, HOUSEHOLD])
def test_numbers_without_noise_are_joined_to_any_table(stated):
    """They promise nothing about neighbours, so that no relation of theirs stands in the way."""
    noise = m.DiscreteLaplace(2.0, sensitivity=1.0, neighbours=stated)
    cells = nw.Release([3.0, 5.0], noise, labels={"a": [1, 2]})
    promised = nw.Release(
        [3.0, 5.0], m.DiscreteLaplace(2.0), guarantee=nw.PureDP(1.0, neighbours=stated)
    )
    total = nw.Release([8.0], m.Exact(), labels={"a": [None]})
    rounded = nw.Release([9.0], m.Rounded(base=3), neighbours=nw.AddRemoveOne("school"))
    for parts in ((cells, total), (total, cells), (promised, total), (rounded, promised)):
        both = nw.Release.combine(*parts)
        assert both.neighbours == stated
        assert both.guarantee == nw.NoGuarantee()
        assert nw.Release.from_json(both.to_json()) == both
    unknown = nw.Release.combine(cells, nw.Release([1.0], m.Laplace(1.0)))
    assert (unknown.neighbours, unknown.guarantee) == (stated, None)
    nothing = nw.Release.combine(total, rounded)
    assert nothing.neighbours == nw.AddRemoveOne("school")
    other = nw.AddRemoveOne("page view")
    for part in (
        nw.Release([1.0], m.Laplace(1.0, sensitivity=1.0)),
        nw.Release([1.0], m.Laplace(1.0), neighbours=other),
        nw.Release([1.0, 2.0], m.Product([m.Exact(), m.Laplace(1.0, sensitivity=1.0)])),
    ):
        with pytest.raises(InvalidInputError, match="do not add up"):
            nw.Release.combine(cells, part)


def test_parts_with_the_same_noise_share_a_block():
    """Programs grow with blocks; what knows its sensitivity, or ties its cells, stays apart."""
    noise = m.Thresholded(COUNTS, above=450.0)
    days = [nw.Release([460.0 + j, None], noise) for j in range(5)]
    year = nw.Release.combine(
        *days, nw.Release([3.0], m.Laplace(1.0)), nw.Release([4.0], noise.mechanism)
    )
    assert year.mechanism.widths == (10, 1, 1)
    assert year.mechanism.blocks[0].to_spec() == noise.to_spec()
    s = np.full(12, 455.0)
    parts = [part.mechanism.log_prob(part.observed, s[:2]) for part in days]
    whole = nw.Release.combine(days)
    assert np.isclose(whole.mechanism.log_prob(whole.observed, s[:10]), sum(parts), rtol=1e-12)
    for kind in (m.Laplace(1.0, sensitivity=1.0), m.EuclideanLaplace(1.0)):
        pair = nw.Release.combine(nw.Release([1.0], kind), nw.Release([2.0], kind))
        assert pair.mechanism.widths == (1, 1)


def test_where_nothing_is_promised_no_neighbours_are_shown():
    total = nw.Release([8.0], m.Exact())
    assert "no privacy claimed" in repr(total)
    assert "neighbours" not in repr(total)
    beside = m.Product([m.Exact(), m.Laplace(1.0, sensitivity=1.0)])
    assert "neighbours  replace-one" in repr(nw.Release([8.0, 1.0], beside))


def test_scales_by_row():
    numbers = FRAME.assign(cases=[470, 12, 512, 9])
    by_scale = table(
        numbers, mechanism=m.DiscreteLaplace, by=None, scale="b", absent=None, missing=None
    )
    assert by_scale.mechanism.scale.tolist() == [30.0, 30.0, 15.0, 15.0]
    for kind in (m.Gaussian, m.Laplace, m.DiscreteLaplace, m.DiscreteGaussian):
        wide = numbers.assign(sd=[3.0, 0.7, 3.0, 40.0], variance=[9.0, 0.49, 9.0, 1600.0])
        for role in ("sd", "variance"):
            made = table(wide, mechanism=kind, by=None, absent=None, missing=None, **{role: role})
            np.testing.assert_allclose(made.table["noise_sd"], wide["sd"], rtol=1e-9)
    exact = table(
        numbers.assign(sd=[3.0, 0.0, 3.0, 3.0]), mechanism=m.Gaussian, by=None, sd="sd",
        absent=None, missing=None,
    )  # fmt: skip
    assert isinstance(exact.mechanism, m.PerCell)
    assert exact.mechanism.has_noiseless_columns
    assert exact.table["noise_sd"].tolist() == [3.0, 0.0, 3.0, 3.0]
    lost = table(numbers.assign(cases=[470, 12, 512, None]), mechanism=m.Gaussian, by=None,
                 scale="b", absent=None)  # fmt: skip
    assert lost.mechanism.mechanisms[0].scale.tolist() == [30.0, 30.0, 15.0]


def test_the_public_list_of_cells_says_what_is_absent():
    """The frame without its suppressed rows, as some publishers give it."""
    present = FRAME[FRAME["cases"] != "X"].iloc[::-1]
    listed = FRAME.drop(columns=["cases", "b"])
    release = table(present, cells=listed)
    assert release.to_json() == table().to_json()
    one = {"mechanism": KINDS["old"], "by": None, "missing": None}
    crossed = table(present, cells="product", **one)
    assert crossed.table["absent"].tolist() == [False, False]
    crossed = table(present.assign(year=[2021, 2020]), cells="product", **one)
    assert crossed.table["absent"].tolist() == [False, True, True, False]
    with pytest.raises(InvalidInputError, match="selects on the outcome"):
        table(present, absent=None, **one)
    with pytest.raises(InvalidInputError, match="in the frame, but not in cells="):
        table(present, cells=listed[listed["district"] == "North"])
    with pytest.raises(InvalidInputError, match="give cells= a column"):
        table(present, cells=listed.drop(columns="noise"), missing=None)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"frame": [1, 2]}, InvalidTypeError, "pandas DataFrame"),
        ({"frame": FRAME.iloc[:0]}, InvalidInputError, "at least one row"),
        ({"value": "count"}, InvalidInputError, "one of the columns: district"),
        ({"labels": "district"}, InvalidTypeError, "list of columns"),
        ({"labels": ["district"]}, InvalidInputError, "is twice in frame"),
        ({"labels": ["district", "month"]}, InvalidInputError, "labels='month'"),
        ({"absent": None}, InvalidInputError, "pass it as absent="),
        ({"missing": "noise"}, InvalidInputError, "True and False"),
        ({"missing": [True]}, InvalidInputError, "True and False"),
        ({"missing": [True, False, False, False]}, InvalidInputError, "is missing, but"),
        ({"by": None}, InvalidInputError, "pass by="),
        ({"by": "district"}, InvalidInputError, "has no entry"),
        ({"mechanism": {}}, InvalidTypeError, "must map"),
        ({"mechanism": COUNTS}, InvalidInputError, "by='noise' chooses"),
        ({"mechanism": COUNTS, "by": None}, InvalidInputError, "always publishes one"),
        ({"mechanism": m.Laplace, "by": None}, InvalidInputError, "exactly one of scale="),
        ({"mechanism": m.Exact, "by": None, "scale": "b"}, InvalidInputError, "has a scale"),
        ({"mechanism": "laplace", "by": None}, InvalidTypeError, "mechanism must be one"),
        ({"scale": "b"}, InvalidInputError, "goes with a class"),
        ({"cells": "all"}, InvalidInputError, "cells must be"),
        ({"cells": FRAME[["district"]]}, InvalidInputError, "must have the labels"),
        ({"source": 3}, InvalidTypeError, "source must be"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        table(**changes)


def needs(*files):
    gone = [name for name in files if not (DATA / name).exists()]
    return pytest.mark.skipif(bool(gone), reason=f"no {', '.join(gone)} in {DATA}")


@needs("wikimedia_au_pages.csv")
def test_the_page_views_of_wikimedia_go_in_as_they_are():
    frame = pd.read_csv(DATA / "wikimedia_au_pages.csv")
    sigma = np.sqrt(10 / (2 * 0.01505))
    release = nw.Release.from_table(
        frame,
        value="views",
        labels=["page", "date"],
        mechanism={
            "laplace": m.Thresholded(m.DiscreteLaplace(scale=30.0), above=450),
            "gauss": m.Thresholded(m.DiscreteGaussian(scale=sigma), above=90),
        },
        by="noise",
        missing=frame["status"] == "no_file",
        neighbours=nw.AddRemoveOne("page view"),
        source="wikimedia_au_pages.csv",
    )
    shown = release.table
    assert len(shown) == 9921
    assert shown["missing"].tolist() == (frame["status"] == "no_file").tolist()
    assert shown["absent"].tolist() == (frame["status"] == "suppressed").tolist()
    np.testing.assert_array_equal(shown["value"], frame["views"])
    text = release.to_json()
    again = nw.Release.from_json(text)
    assert again == release
    assert again.to_json() == text
    year = release.select(page="Climate change", date=[f"2024-01-{day:02}" for day in range(1, 31)])
    assert len(year.values) == 30
    log_prob = release.mechanism.log_prob(release.observed, np.full(9921, 300.0))
    assert np.isfinite(log_prob)


@needs("nz_injuries_rr3.csv", "nz_injuries_rr3_totals.csv")
def test_the_injuries_of_new_zealand_go_in_with_their_totals():
    cells, totals = (pd.read_csv(DATA / f"nz_injuries_rr3{part}.csv") for part in ("", "_totals"))
    rounded = {"mechanism": m.Rounded(base=3)}
    inner = nw.Release.from_table(
        cells, value="injuries", labels=["age", "sex", "ethnicity", "year"], name="cell", **rounded
    )
    outer = nw.Release.from_table(
        totals, value="injuries_total_rr3", labels=["sex", "ethnicity", "year"], name="total",
        **rounded,
    )  # fmt: skip
    both = nw.Release.combine(inner, outer)
    assert len(both.values) == len(cells) + len(totals) == 988
    assert nw.Release.from_json(both.to_json()) == both
    assert "no privacy claimed" in repr(both)
    draw = both.mechanism.sample(jax.random.key(0), both.observed)
    np.testing.assert_array_equal(draw, both.observed)  # multiples of the base stay


def test_noise_calibrated_for_less_than_the_query_needs_is_no_release():
    """A replaced record changes two cells of a histogram: what is derived from 1 would be false."""
    histogram = nw.queries.Histogram(edges=(0.0, 1.0, 2.0))
    noise = m.DiscreteLaplace(scale=1.0, sensitivity=1.0)
    with pytest.raises(nw.errors.SensitivityError, match="calibrated for a sensitivity of 1"):
        nw.Release([3.0, 4.0], noise, query=histogram)
    added = nw.Release([3.0, 4.0], noise, query=histogram, neighbours=nw.AddRemoveOne())
    assert added.guarantee == nw.PureDP(1.0, neighbours=nw.AddRemoveOne())


def test_no_number_is_no_mark_of_absence():
    frame = FRAME.assign(cases=["470", None, "512", "X"])
    with pytest.raises(InvalidInputError, match="nor the mark absent='X'"):
        table(frame)


def test_a_cell_in_two_selections_counts_once():
    """Tables of others have no ids: what agrees in labels, value and noise is one cell."""
    frame = pd.DataFrame({"d": ["N", "N", "S"], "y": [1, 2, 2], "count": [3.0, 5.0, 7.0]})
    whole = nw.Release.from_table(frame, value="count", labels=["d", "y"], mechanism=COUNTS)
    with pytest.raises(InvalidInputError, match="given twice"):
        whole.select(d="N").combine(whole.select(y=2))
    joined = whole.select(d="N").combine(whole.select(d="S"))
    assert joined.values == (3.0, 5.0, 7.0)
