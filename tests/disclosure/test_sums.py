"""Sums of cells from the labels of a release."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import noisewise as nw
from noisewise import errors

NOISE = nw.mechanisms.DiscreteLaplace(scale=2.0)


def release(rows, columns=("state", "county")):
    labels = {name: [row[j] for row in rows] for j, name in enumerate(columns)}
    return nw.Release([float(j) for j in range(len(rows))], NOISE, labels=labels)


def test_margins_add_up_the_cells_that_have_their_labels():
    rows = [(None, None), ("A", None), ("A", "a2"), ("A", "a1"), ("B", "b1"), ("B", None)]
    found = release(rows).sums()
    assert found.cells.values.tolist() == [["A", "a2"], ["A", "a1"], ["B", "b1"]]
    assert found.matrix.tolist() == [
        [1, 1, 1],
        [1, 1, 0],
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 1],
    ]


@pytest.mark.parametrize("total", ["All", {"sex": "All", "age": "All"}])
def test_a_word_says_total(total):
    rows = [("f", "old"), ("f", "All"), ("m", "old"), ("All", "old")]
    found = release(rows, ("sex", "age")).sums(total=total)
    assert found.matrix.tolist() == [[1, 0], [1, 0], [0, 1], [1, 1]]


def test_cells_that_were_measured_twice_are_one():
    assert release([("A", "a"), ("A", "a"), ("A", "b")]).sums().matrix.tolist() == [
        [1, 0],
        [1, 0],
        [0, 1],
    ]


def test_cells_that_were_not_released_are_listed():
    rows = [("f", None), ("m", None), (None, "old"), (None, "young")]
    margins = release(rows, ("sex", "age"))
    found = margins.sums(cells="product")
    assert found.matrix.sum() == 8
    assert found.cells.values.tolist()[0] == ["f", "old"]
    frame = pd.DataFrame({"sex": ["f", "f", "m"], "age": ["old", "young", "young"]})
    assert margins.sums(cells=frame).matrix.tolist() == [[1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1]]


@pytest.mark.parametrize(
    ("rows", "more", "words"),
    [
        ([("A", None), (None, "a")], {}, 'cells="product"'),
        ([("A", "a"), ("B", None)], {}, r"The number of \(B, any\) adds up no cell"),
        ([("A", "a")], {"total": "All"}, "No cell has the label 'All'"),
        ([("A", "a")], {"total": {"sex": "All"}}, "total= names 'sex'"),
        ([("A", "a")], {"cells": "every"}, '"product"'),
    ],
)
def test_what_adds_up_nothing_is_refused(rows, more, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        release(rows).sums(**more)


def test_a_release_without_labels_is_refused():
    with pytest.raises(errors.InvalidInputError, match="has no labels"):
        nw.Release([1.0], NOISE).sums()
    with pytest.raises(errors.InvalidTypeError, match="must be the word"):
        release([("A", "a")]).sums(total=["All"])


def test_laws_take_the_sums_as_they_are():
    found = release([("A", "a"), ("A", "b"), ("A", None)]).sums()
    law = nw.simulators.StatisticLaw(lambda theta: theta, sums=found)
    np.testing.assert_array_equal(law.sums, found.matrix)
    same = nw.simulators.StatisticLaw(law.fn, sums=found.matrix)
    assert law == same
    assert hash(law) == hash(same)
    assert law != nw.simulators.StatisticLaw(law.fn, sums=found.matrix[::-1])
    assert law != nw.simulators.StatisticLaw(law.fn)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([("a", 1), ("b", 2), ("Total", 1)], 'release.sums(total="Total")'),
        ([("a", "x"), ("TOTAL", "all")], "sums(total={'state': 'TOTAL', 'county': 'all'})"),
    ],
)
def test_a_word_for_a_total_is_not_a_cell(rows, line):
    with pytest.raises(errors.InvalidInputError) as caught:
        release(rows).sums()
    assert line in str(caught.value)
    assert release([("a", "All"), ("b", "All"), (None, "All")]).sums().matrix.shape == (3, 2)


def test_a_law_of_fewer_numbers_is_told_of_totals():
    def made(width):
        return nw.PrivateModel.from_release(
            release([("A", "a"), ("A", "b"), ("A", None)]),
            prior=nw.Prior({"rate": dist.LogNormal(3.0, 1.0).expand([width])}),
            simulator=nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta["rate"])),
        )

    with pytest.raises(errors.InvalidInputError, match=r"totals of others, .*sums=release.sums"):
        made(2)
    with pytest.raises(errors.InvalidInputError, match=r"\[district\]\.$"):
        made(4)
