"""OpenDP: what a serialised measurement says of its noise, held against draws of that noise."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.audit import sampler_against_density
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms import DiscreteGaussian, DiscreteLaplace, Laplace
from noisewise.readers import opendp

dp = pytest.importorskip("opendp.prelude")
from tests.readers.opendp_measurements import ONE, STATED, cases  # noqa: E402

CASES = cases()
NONE = np.empty((0, 1))


@pytest.fixture
def saved(tmp_path):
    def save(content):
        path = tmp_path / "measurement.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return save


def described(saved, case, **changes):
    return opendp.describe(saved(case.serialised), **{"output": case.output} | case.given | changes)


@pytest.mark.parametrize("name", CASES)
def test_measurements_become_mechanisms(saved, name):
    case = CASES[name]
    found = described(saved, case)
    if case.expected is not None:
        assert type(found.mechanism) is type(case.expected)
        close(found.mechanism.to_spec(), case.expected.to_spec())
    assert found.neighbours.label == "add-remove"
    values = np.atleast_1d(
        list(case.output.values()) if isinstance(case.output, dict) else case.output
    )
    assert found.frame["value"].tolist()[: len(values)] == values.tolist()
    assert found.absent == ("absent" if isinstance(case.output, dict) else None)


def close(found, expected):
    """Specs that agree, but for the last digits of scales that OpenDP searches for."""
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, dict):
            close(found[key], value)
        else:
            assert found[key] == (
                pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            )


def audit(mechanism, case, num_draws, seed):
    """The test of sampler against density, with OpenDP as the sampler."""
    return sampler_against_density(
        jax.random.key(seed),
        mechanism,
        [case.s],
        sampler=lambda key, s: case.draw(len(s))[:, None],
        statistics=NONE,
        num_draws=num_draws,
    )


@pytest.mark.parametrize(
    "name", ["Laplace, vector", "Laplace, vector of whole", "threshold, whole"]
)
def test_draws_have_the_imported_density(saved, name):
    case = CASES[name]
    assert audit(described(saved, case).mechanism, case, 20_000, 0)


NUM_DRAWS = 200_000
"""Of each measurement, in each of two calls; entries of vectors count. Laplace noise whose scale is
wrong by 2% lies 9 standard errors off, and 5.5 of them are needed at level 1e-6 of all tests.
"""


def scaled(spec, factor):
    """The spec of a mechanism with another scale."""
    made = {**spec, "scale": spec["scale"] * factor} if "scale" in spec else dict(spec)
    if "mechanism" in spec:
        made["mechanism"] = scaled(spec["mechanism"], factor)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_draws_have_the_imported_density_and_no_other(saved, name):
    case = CASES[name]
    imported = described(saved, case).mechanism
    calls = [case.draw(NUM_DRAWS) for _ in range(2)]
    recorded = dataclasses.replace(case, draw=lambda num: calls.pop(0))
    kept = list(calls)
    verdict = audit(imported, recorded, NUM_DRAWS, 1)
    assert verdict, verdict
    calls.extend(kept)
    wrong = nw.mechanisms.from_spec(scaled(imported.to_spec(), 1.02))
    verdict = audit(wrong, recorded, NUM_DRAWS, 2)
    assert not verdict, verdict


# What the file does not say ----------------------------------------------------------------------

PLAIN = CASES["Laplace, whole"]


def test_the_file_may_hold_the_output(saved, tmp_path):
    both = json.dumps({"measurement": json.loads(PLAIN.serialised), "output": [3, -4]})
    found = opendp.describe(saved(both), **STATED)
    assert found.frame.to_dict("list") == {"cell": ["0", "1"], "value": [3.0, -4.0]}
    beside = tmp_path / "output.json"
    beside.write_text('{"North": 3, "South": 4.5}')
    found = opendp.describe(saved(PLAIN.serialised), output=beside, **STATED)
    assert found.frame.to_dict("list") == {"cell": ["North", "South"], "value": [3.0, 4.5]}


def test_a_stated_guarantee_takes_the_place_of_the_sensitivity(saved):
    given = {"guarantee": nw.PureDP(1.0, neighbours=ONE)}
    found = opendp.describe(saved(PLAIN.serialised), output=3, **given)
    assert found.mechanism == DiscreteLaplace(scale=7.0)
    assert (found.guarantee, found.neighbours) == (given["guarantee"], None)


def test_suppressed_keys_are_absent(saved):
    case = CASES["threshold, whole"]
    found = described(saved, case, cells=["b", "a", "c"])
    assert found.frame["value"].tolist() == ["absent", 31.0, "absent"]
    plain = json.loads(CASES["Laplace, vector of whole"].serialised)
    by_hand = opendp.describe(
        saved(plain), output={"a": 5}, cells=["a", "b"], threshold=4.0, **STATED
    )
    assert by_hand.mechanism.above == 4.0
    assert by_hand.frame["value"].tolist() == [5.0, "absent"]


MISTAKES = {
    "no privacy": ({"sensitivity": None}, InvalidInputError, "--sensitivity"),
    "both": ({"guarantee": nw.PureDP(1.0)}, InvalidInputError, "not both"),
    "no guarantee": ({"guarantee": 1.0}, InvalidTypeError, "PureDP"),
    "no relation": ({"neighbours": None}, InvalidInputError, "--neighbours"),
    "a word": ({"neighbours": "add-remove"}, InvalidTypeError, "AddRemoveOne"),
    "no output": ({"output": None}, InvalidInputError, "--output FILE"),
    "empty output": ({"output": []}, InvalidInputError, "empty"),
    "text": ({"output": ["3"]}, InvalidTypeError, "number"),
    "infinite": ({"output": float("inf")}, InvalidInputError, "finite"),
    "threshold without cells": ({"threshold": 3.0}, InvalidInputError, "--cells FILE"),
    "another type": ({"atom": "f64"}, InvalidInputError, "of type i64"),
    "no type": ({"atom": "float"}, InvalidInputError, "--atom"),
    "labels": ({"labels": "sex"}, InvalidInputError, "summaries"),
    "other cells": ({"cells": ["a"]}, InvalidInputError, "every cell of the output"),
    "sensitivities": ({"sensitivity": {"a": 1.0}}, InvalidTypeError, "one number"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_missing_is_named(saved, name):
    change, error, message = MISTAKES[name]
    with pytest.raises(error, match=message):
        described(saved, PLAIN, **change)


def changed(path, value):
    """The plain measurement with one entry replaced; paths go through arguments."""
    tree = json.loads(PLAIN.serialised)
    node = tree
    *before, last = path
    for name in before:
        node = node[name]
    node[last] = value
    return tree


DAMAGED = {
    "no tree": ([], "no cells"),
    "another file": ({"a": 1}, "dp.serialize"),
    "another constructor": (changed(["__function__"], "make_user_measurement"), "not known here"),
    "no scale": (changed(["__kwargs__", "scale"], None), "scale .* got null"),
    "scale 0": (changed(["__kwargs__", "scale"], 0.0), "above 0"),
    "text": (changed(["__kwargs__", "scale"], "3"), "a number"),
    "bounds": (changed(["__kwargs__", "bounds"], [3]), "two numbers"),
    "unknown numbers": (
        changed(["__kwargs__", "input_domain"], {"__function__": "x", "__kwargs__": {}}),
        "--atom f64",
    ),
    "no domain": (changed(["__kwargs__", "input_domain"], 3), "not a measurement"),
    "negative threshold": (
        changed(["__function__"], "make_laplace_threshold")
        | {"__kwargs__": json.loads(PLAIN.serialised)["__kwargs__"] | {"threshold": -1}},
        "below 0",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_measurements(saved, name):
    tree, message = DAMAGED[name]
    with pytest.raises((FileFormatError, InvalidInputError), match=message):
        opendp.describe(saved(tree), output=3, **STATED)


def test_truncated_measurements(saved):
    with pytest.raises(FileFormatError, match="truncated"):
        opendp.describe(saved(PLAIN.serialised[:-20]), output=3, **STATED)


def test_a_coarse_grid_is_refused(saved):
    real = json.loads(CASES["Laplace, real"].serialised)
    real["__kwargs__"]["k"] = -40
    assert opendp.describe(saved(real), output=3.0, **STATED).mechanism.scale == 2.5
    for coarse in (-3, 4, 10**6):
        real["__kwargs__"]["k"] = coarse
        with pytest.raises(FileFormatError, match="grid"):
            opendp.describe(saved(real), output=3.0, **STATED)


def test_relations_that_contradict_the_file_are_refused(saved):
    total = CASES["sum of a Context"]
    assert described(saved, total).neighbours == ONE
    with pytest.raises(InvalidInputError, match="add-remove, not replace-one"):
        described(saved, total, neighbours=nw.ReplaceOne())
    with pytest.raises(InvalidInputError, match="differ in 1 records, not 3"):
        described(saved, total, neighbours=nw.AddRemoveOne(max_contributions=3))
    unsaid = total.serialised.replace('"d_in": 1', '"d_in": null')
    with pytest.raises(InvalidInputError, match="--max-contributions"):
        opendp.describe(saved(unsaid), output=3, sensitivity=10.0)
    assert (
        opendp.describe(saved(unsaid), output=3, sensitivity=10.0, neighbours=ONE).neighbours == ONE
    )


# Summaries of queries, in the documented schema -----------------------------------------------------

SUMMARY = """column,aggregate,distribution,scale,accuracy,threshold
len,Frame Length,Integer Laplace,2.0,6.4,33
income,Sum,Integer Gaussian,200.0,640.0,
"""
TABLE = "sex,region,len,income\nf,North,40,-200\nm,North,34,1200\n"
CELLS = "region,sex\nNorth,f\nNorth,m\nSouth,f\nSouth,m\n"
QUERY = {
    "labels": ["sex", "region"],
    "sensitivity": {"len": 1.0, "income": 100.0},
    "neighbours": ONE,
    "signed": True,
}


@pytest.fixture
def query(tmp_path):
    def make(summary=SUMMARY, table=TABLE, cells=CELLS, **changes):
        files = {}
        for name, text in (("summary", summary), ("output", table), ("cells", cells)):
            files[name] = None if text is None else tmp_path / f"{name}.csv"
            if text is not None:
                files[name].write_text(text)
        source = files.pop("summary")
        return opendp.describe(source, **QUERY | files | changes)

    return make


def test_a_query_is_read_with_its_summary(query):
    found = query()
    assert found.labels == ("sex", "region", "column")
    assert len(found.frame) == 8
    assert found.by == "column"
    assert found.mechanism["len"].above == 34.0  # lengths above 33 are published
    assert found.mechanism["len"].mechanism == DiscreteLaplace(
        scale=2.0, sensitivity=1.0, neighbours=ONE
    )
    assert found.mechanism["income"] == DiscreteGaussian(
        scale=200.0, sensitivity=100.0, neighbours=ONE
    )
    south = found.frame[found.frame["region"] == "South"]
    assert south[south["column"] == "len"]["value"].tolist() == ["absent"] * 2
    assert south["missing"].tolist() == [False, True] * 2


def test_one_column_without_groups(query):
    summary = "column,aggregate,distribution,scale\nlen,Frame Length,Integer Laplace,2.0\n"
    given = {"table": "len\n-1\n", "labels": (), "cells": None, "sensitivity": 1.0}
    found = query(summary, **given)
    assert found.mechanism == DiscreteLaplace(scale=2.0, sensitivity=1.0, neighbours=ONE)
    assert (found.by, found.absent, found.missing) == (None, None, None)
    unsigned = query(summary, **given | {"signed": False, "table": "len\n0\n"})
    assert unsigned.mechanism.low == 0.0
    with pytest.raises(InvalidInputError, match="--signed"):
        query(summary, **given | {"signed": None})


def test_real_columns_and_columns_without_noise(query):
    summary = "column,aggregate,distribution,scale\nx,Sum,Float Laplace,2.0\nlen,Frame Length,,\n"
    given = {"table": "x,len\n-1.5,7\n", "labels": (), "cells": None, "sensitivity": 1.0}
    found = query(summary, **given)
    assert found.mechanism["x"] == Laplace(scale=2.0, sensitivity=1.0, neighbours=ONE)
    assert found.mechanism["len"] == nw.mechanisms.Exact()


QUERY_MISTAKES = {
    "no cells": ({"cells": None}, InvalidInputError, "--cells FILE"),
    "wrong columns": ({"summary": "a,b\n1,2\n"}, FileFormatError, "'column'"),
    "truncated": ({"summary": SUMMARY[:-20]}, FileFormatError, "truncated"),
    "unknown noise": (
        {"summary": SUMMARY.replace("Integer Laplace", "GumbelMax")},
        FileFormatError,
        "GumbelMax.*--columns",
    ),
    "no such column": ({"columns": ["lne"]}, InvalidInputError, "did you mean 'len'"),
    "a ratio": ({"summary": SUMMARY.replace("income", "len")}, FileFormatError, "ratio"),
    "one sensitivity": ({"sensitivity": 1.0}, InvalidInputError, "of its own"),
    "a sensitivity": ({"sensitivity": {"len": 1.0}}, InvalidInputError, "income=..."),
    "no table": ({"output": None}, InvalidInputError, "--output FILE"),
    "a wrong table": ({"table": "sex,region,len\nf,North,3\n"}, FileFormatError, "'income'"),
    "labels": ({"labels": ["region"]}, (InvalidInputError, FileFormatError), "one group"),
    "unlisted": (
        {"cells": CELLS.replace("North,m\n", "")},
        InvalidInputError,
        "every cell of the table",
    ),
    "an atom": ({"atom": "i64"}, InvalidInputError, "measurements"),
    "scale": ({"summary": SUMMARY.replace("2.0", "-2.0")}, FileFormatError, "above 0"),
}


@pytest.mark.parametrize("name", QUERY_MISTAKES)
def test_what_a_query_lacks_is_named(query, name):
    change, error, message = QUERY_MISTAKES[name]
    with pytest.raises(error, match=message):
        query(**change)
