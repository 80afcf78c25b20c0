"""Files of tables from strangers: very many mechanisms, cells and labels, in little time."""

import json
import time

import numpy as np
import pytest

import noisewise as nw
from noisewise.errors import FileFormatError, InvalidInputError
from tests.hostile import damaged

m, q = nw.mechanisms, nw.queries
MOST_SECONDS = 2.0
"""Of this process, for one call on a file of a stranger (RELIABILITY row 20)."""
NOISE = m.DiscreteLaplace(3.0)
TABLE = nw.Release(
    [3.0, None],
    m.PerCell([m.Thresholded(NOISE, above=1.0), m.Unmeasured()], [0, 1]),
    labels={"a": [0, 1]},
    ids=["0123456789abcdef"],
    source={"file": "a.csv"},
)


def content_of(count=2, **changes):
    """A file of a table with `count` cells."""
    content = json.loads(TABLE.to_json())
    cells = {"values": [3.0] * count, "names": [f"cell {j}" for j in range(count)]}
    return content | cells | {"labels": {"a": list(range(count))}} | changes


def read(content):
    """The release in a file, or the refusal, in time."""
    text = json.dumps(content)
    started = time.process_time()
    try:
        return nw.Release.from_json(text)
    except FileFormatError as error:
        return error
    finally:
        assert time.process_time() - started < MOST_SECONDS


def many(count, kind="PerCell"):
    """`count` mechanisms, no two of which are equal."""
    parts = [m.DiscreteLaplace(3.0 + j).to_spec() for j in range(count)]
    if kind == "Product":
        return {"type": "Product", "mechanisms": parts, "widths": [1] * count}
    return {"type": "PerCell", "mechanisms": parts, "which": list(range(count))}


def nested(count, depth):
    """`count` products of which each has a block that is a product, `depth` deep."""
    part = {"type": "Product", "mechanisms": [NOISE.to_spec()], "widths": [1]}
    for _ in range(depth):
        part = {"type": "Product", "mechanisms": [part], "widths": [1]}
    return {"type": "Product", "mechanisms": [part] * count, "widths": [1] * count}


@pytest.mark.parametrize(
    ("count", "mechanism", "words"),
    [
        (20_000, many(20_000), "20,001 objects"),
        (20_000, many(20_000, "Product"), "20,001 objects"),
        (1_001, many(1_001), "PerCell has 1,001 mechanisms"),
        (1_001, many(1_001, "Product"), "Product has 1,001 mechanisms"),
        (900, nested(900, 8), "objects"),
    ],
    ids=["cells", "blocks", "some cells", "some blocks", "nested"],
)
def test_too_many_mechanisms_are_refused_soon(count, mechanism, words):
    error = read(content_of(count, mechanism=mechanism))
    assert isinstance(error, FileFormatError)
    assert words in str(error)


def test_as_many_as_there_may_be_are_read():
    release = read(content_of(1_000, mechanism=many(1_000)))
    assert len(release.values) == 1_000
    assert len(repr(release)) < 1_000


def test_too_many_queries_are_refused_soon():
    query = {"type": "Joint", "queries": [q.Count().to_spec()] * 20_000}
    assert "20,001 objects" in str(read(content_of(query=query)))


@pytest.mark.parametrize("kind", [m.Product, m.PerCell])
def test_no_more_are_put_together_than_can_be_read_again(kind):
    parts = [NOISE] * 501
    half = m.Product(parts)
    for blocks in ([*parts, *parts], [half, half]):
        with pytest.raises(InvalidInputError, match="has 1,002 mechanisms"):
            kind(blocks, [1] * 1_002 if len(blocks) > 2 else [501, 501])


def test_wide_tables_are_read_soon():
    """Mechanisms that take turns, which made blocks of one cell each; many labels."""
    wide = 60_000
    turns = {
        "type": "PerCell",
        "mechanisms": [NOISE.to_spec(), m.Laplace(2.0).to_spec()],
        "which": [j % 2 for j in range(wide)],
    }
    release = read(content_of(wide, mechanism=turns))
    assert len(release.values) == wide
    assert len(repr(release)) < 1_000
    labels = {f"d{j}": list(range(wide)) for j in range(5)}
    assert len(read(content_of(wide, mechanism=NOISE.to_spec(), labels=labels)).labels) == 5


@pytest.mark.parametrize("count", [10**12, 2**62])
def test_huge_counts_take_no_memory(count):
    for mechanism in (
        {"type": "Product", "mechanisms": [NOISE.to_spec()], "widths": [count]},
        {"type": "PerCell", "mechanisms": [NOISE.to_spec()], "which": [0, count]},
        m.PaddedBinomial(9, 18.0, 1, 1).to_spec() | {"trials": count},
        m.RandomizedResponse(truth_probability=0.75).to_spec() | {"num_categories": count},
    ):
        found = read(content_of(mechanism=mechanism))
        assert isinstance(found, (FileFormatError, nw.Release))


RICH = nw.Release.combine(
    nw.Release(
        [3.0, None, 12.0, None, 7.0],
        m.PerCell(
            [
                m.Thresholded(m.DiscreteGaussian(scale=[2.0, 5.0]), above=[1.0, 2.0]),
                m.Unmeasured(),
                m.Clamped(m.DiscreteLaplace(4.0), low=0.0),
                m.Exact(),
            ],
            [0, 1, 2, 0, 3],
        ),
        labels={"place": ["a", "a", "b", "b", None], "year": [2020, 2021, 2020, 2021, 2020.5]},
        neighbours=nw.AddRemoveOne("visit", max_contributions=3, max_per_cell=1),
        guarantee=nw.NoGuarantee(),
        source={"file": "a.csv", "rows": [1, {"more": "x"}]},
    ),
    nw.Release([9.0], m.Rounded(base=3), labels={"place": [None], "kind": ["total"]}),
)
PART = nw.Release(
    [3.0, 4.0], m.Laplace(2.0, sensitivity=1.0), labels={"a": [1, 2]}, ids=["0123456789abcdef"]
).select(a=2)


@pytest.mark.parametrize("whole", [TABLE, RICH, PART], ids=["table", "rich", "part"])
def test_damaged_tables_are_refused_or_whole(whole):
    """What is still valid comes back from its own file, can be shown, and taken apart."""
    rng, refused = np.random.default_rng(5), 0
    for content in damaged(whole.to_json(), rng, 300):
        started = time.process_time()
        try:
            found = nw.Release.from_json(content)
        except FileFormatError:
            refused += 1
            continue
        finally:
            assert time.process_time() - started < MOST_SECONDS
        assert nw.Release.from_json(found.to_json()) == found
        assert len(repr(found)) < 3_000
        assert len(found.table) == len(found.values)
        if found.labels:
            name, labels = next(iter(found.labels.items()))
            try:
                found.select(**{name: labels[0]})
            except nw.errors.NoisewiseError:
                continue
    assert refused > 150


def test_truncated_tables_are_refused():
    text = RICH.to_json()
    for end in range(0, len(text) - 2, 37):
        with pytest.raises(FileFormatError):
            nw.Release.from_json(text[:end])


def per_cell(**changes):
    return {"mechanism": TABLE.mechanism.to_spec() | changes}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": {"a": 3}}, "must be a list"),
        ({"labels": {"a": [0, {}]}}, "A label must be"),
        ({"labels": {"a": [0, [1]]}}, "A label must be"),
        ({"labels": {"a": [0]}}, "2 cells, but 1"),
        ({"labels": {}}, "labels must map"),
        ({"labels": {"": [0, 1]}}, "A dimension"),
        ({"labels": {"absent": [0, 1]}}, "rename it"),
        ({"values": [None, 3.0]}, "of '1' is 3.0"),
        ({"values": [3.0, 4.0]}, "of '1' is 4.0"),
        ({"part": [0, 0]}, "part must be"),
        ({"part": "01"}, "part must be"),
        ({"part": [0, 1], "ids": []}, "part must be"),
        ({"source": {"a": {"b": {}}, "c": [[]]}, "guarantee_is_stated": True}, "otherwise"),
        (per_cell(which=[0, 2]), "which must name each"),
        (per_cell(which=[0, -1]), "which"),
        (per_cell(which=[0, True]), "which"),
        (per_cell(which="01"), "which must be a list"),
        (per_cell(which=[0, 1, 1]), "must be the 3"),
        (per_cell(mechanisms=[]), "PerCell takes a list"),
        (per_cell(mechanisms=[None, None]), "PerCell takes a list"),
        (per_cell(mechanisms={"type": "Exact"}), "PerCell takes a list"),
        (per_cell(mechanisms=[TABLE.mechanism.to_spec(), {"type": "Exact"}]), "PerCell needs"),
        (per_cell(mechanisms=[m.Laplace([1.0, 2.0]).to_spec(), {"type": "Exact"}]), "2 columns"),
    ],
)
def test_wrong_types_in_tables_are_named(changes, words):
    with pytest.raises(FileFormatError, match=words):
        nw.Release.from_json(json.dumps(json.loads(TABLE.to_json()) | changes))
