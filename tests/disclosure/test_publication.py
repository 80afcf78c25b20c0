"""Releases written down by hand, and combination."""

import dataclasses
import math

import numpy as np
import pytest

import noisewise as nw
from noisewise.disclosure import curator, publication
from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
    NoisewiseError,
    SensitivityError,
)
from tests.disclosure.releases import CODES, LAPLACE, MEAN, MEDIAN

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries


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
    "request without a guarantee": lambda: nw.Release(
        [1.0], m.Laplace(0.5), requested=nw.PureDP(0.1)
    ),
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
    with pytest.raises(
        (InvalidInputError, InvalidTypeError, FileFormatError, MissingCapabilityError)
    ):
        BAD[name]()


# Combination --------------------------------------------------------------------------------------


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
    s = np.concatenate([MEAN.on_default_grid()([1.0]), MEDIAN([1.0])])
    parts = mean.mechanism.log_prob(mean.observed, s[:1]) + median.mechanism.log_prob(
        median.observed, s[1:]
    )
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
    assert nw.Release.combine([gaussian, pure]).guarantee == gaussian.guarantee.compose(
        pure.guarantee
    )
    assert nw.Release.combine([pure, unknown]).guarantee is None
    assert nw.Release.combine([pure, stated]).guarantee == nw.PureDP(1.5)
    assert nw.Release.combine([pure]).values == pure.values


def test_every_way_to_combine_includes_every_release():
    a, b, c = (
        nw.Release([value], LAPLACE, names=(name,))
        for value, name in [(1.0, "a"), (2.0, "b"), (3.0, "c")]
    )
    both, all_three = nw.Release.combine([a, b]), nw.Release.combine([a, b, c])
    assert both.by_name == {"a": 1.0, "b": 2.0}
    for same in (
        nw.Release.combine(a, b),
        a.combine(b),
        a.combine([b]),
        nw.Release.combine(iter([a, b])),
    ):
        assert same == both
    for same in (
        nw.Release.combine(a, b, c),
        a.combine(b, c),
        a.combine([b, c]),
        nw.Release.combine([a, b], c),
    ):
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


def test_a_release_is_known_again_whatever_way_it_comes(tmp_path):
    """By its id, also inside a combination; by all that it says where it has none."""
    made = nw.release([1.0], MEAN, nw.PureDP(1.0), save_to=tmp_path / "a.json")
    again, other = nw.Release.load(tmp_path / "a.json"), nw.release([1.0], MEAN, nw.PureDP(1.0))
    renamed = dataclasses.replace(made, description="another name")
    by_hand = nw.Release([0.2], LAPLACE)
    loaded = nw.Release.from_json(by_hand.to_json())
    both = nw.Release.combine(made, other)
    old = nw.Release.from_json(made.to_json().replace(f'"{made.ids[0]}"', ""))
    for pair in [
        (made, again),
        (made, renamed),
        (by_hand, loaded),
        (both, again),
        (both, both),
        (made, old),
    ]:
        with pytest.raises(InvalidInputError, match="given twice"):
            nw.Release.combine(*pair)
    assert both.ids == (*made.ids, *other.ids)
    equal = [dataclasses.replace(part, values=(0.0,)) for part in (made, other)]
    assert nw.Release.combine(*equal).values == (0.0, 0.0), "two releases may agree by chance"


def three_cells(mechanism=None, **changes):
    noise = m.DiscreteLaplace(2.0, sensitivity=1.0) if mechanism is None else mechanism
    settings = {"labels": {"a": ["x", "y", "z"]}, "ids": ["0123456789abcdef"]}
    return nw.Release([3.0, 4.0, 5.0], noise, **settings | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mechanism": m.Thresholded(m.DiscreteLaplace(2.0, sensitivity=1.0), above=3.0)},
        {"mechanism": m.DiscreteLaplace(2.0), "guarantee": nw.PureDP(0.5)},
    ],
    ids=["derived", "thresholded", "stated"],
)
def test_cells_of_one_release_have_its_guarantee_together(changes):
    """They are a function of it, which reveals nothing more; also by way of files."""
    whole = three_cells(**changes)
    x, y, z = (whole.select(a=label) for label in "xyz")
    z = nw.Release.from_json(z.to_json())
    both = nw.Release.combine(x, z)
    assert both.guarantee == whole.guarantee == nw.PureDP(0.5)
    assert both.guarantee_is_stated == whole.guarantee_is_stated
    assert (both.by_name, both.part) == ({"x": 3.0, "z": 5.0}, (0, 2))
    assert nw.Release.from_json(both.to_json()) == both
    every = nw.Release.combine(both.select(a="z"), y, both.select(a="x"))
    assert (every.guarantee, every.part) == (whole.guarantee, (2, 1, 0))
    other = three_cells(ids=["f" * 16]).select(a="x")
    assert nw.Release.combine(x, other, y).guarantee == nw.PureDP(1.0)
    for pair in ((x, x), (x, whole), (both, z), (whole.select(a=["x", "y"]), y)):
        with pytest.raises(InvalidInputError, match="given twice"):
            nw.Release.combine(*pair)
    mixed = nw.Release.combine(x, other)
    with pytest.raises(InvalidInputError, match="given twice"):
        nw.Release.combine(mixed, y)  # which cells are in it is not known any more


def test_cells_whose_release_is_not_known_for_certain_compose():
    """Nothing but the random id says that two parts are of one release, and nothing but noise
    without numbers per cell that the mechanism of some cells is that of all.
    """
    unknown = three_cells(ids=())
    parts = [unknown.select(a=label) for label in "xy"]
    assert nw.Release.combine(parts).guarantee == nw.PureDP(1.0)
    one = m.DiscreteLaplace(2.0, sensitivity=1.0)
    for noise in (m.PerCell([one, one], [0, 1, 1]), m.Product([one, one], widths=[1, 2])):
        whole = three_cells(mechanism=noise)
        assert whole.guarantee == nw.PureDP(1.0)
        assert whole.select(a="x").part is None
        with pytest.raises(InvalidInputError, match="by one select"):
            nw.Release.combine(whole.select(a="x"), whole.select(a="y"))
    x, y = (three_cells().select(a=label) for label in "xy")
    louder = m.DiscreteLaplace(1.0, sensitivity=1.0)
    less = dataclasses.replace(y, mechanism=louder, guarantee=None)
    assert nw.Release.combine(x, less).guarantee == nw.PureDP(1.5)


@pytest.mark.parametrize("part", [[0], [0, 1, 1], [0, 1, -1], [0, 1, True], [0, 1, 2.0], 3, "012"])
def test_the_cells_of_a_part_are_checked(part):
    with pytest.raises(InvalidInputError, match="part must be"):
        three_cells(part=part)
    with pytest.raises(InvalidInputError, match="part must be"):
        three_cells(ids=(), part=[0, 1, 2])


def test_files_without_ids_are_read():
    made = nw.Release([0.2], LAPLACE)
    old = made.to_json().replace(',\n  "ids": []', "")
    assert "ids" not in old
    assert nw.Release.from_json(old) == made


@pytest.mark.parametrize(
    "ids", ["0123456789abcdef", ["x"], ["0123456789abcdef"] * 2, [1], {"a": 1}]
)
def test_ids_are_checked(ids):
    with pytest.raises(InvalidInputError, match="ids must be"):
        nw.Release([0.2], LAPLACE, ids=ids)
