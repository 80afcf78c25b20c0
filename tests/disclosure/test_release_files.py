"""Files of releases: what is kept, what is not in them, and what is wrong with damaged ones."""

import dataclasses
import json
import os

import numpy as np
import pytest

import noisewise as nw
from noisewise._core import files
from noisewise.disclosure import curator
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from tests.disclosure.releases import CURVE, LAPLACE, MEAN, MEAN3, MEDIAN, SECRET, SURE
from tests.hostile import damaged

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries


def rich_release():
    query = q.Joint([dataclasses.replace(MEAN, grid=0.1), MEDIAN, CURVE])
    blocks = [
        m.Clamped(m.DiscreteLaplace(2.0, 1.0, 0.1), low=0.0),
        m.ExponentialMechanism(MEDIAN.candidates, 4.0),
    ]
    mechanism = m.Product([*blocks, m.PaddedBinomial(9, 18.0, 1, 1)], widths=[1, 3, 1])
    return nw.release([1.0], query, mechanism=mechanism)


def test_saving_keeps_what_exists(tmp_path):
    path = tmp_path / "release.json"
    first, second = nw.Release([1.0], LAPLACE), nw.Release([2.0], LAPLACE)
    first.save(path)
    with pytest.raises(InvalidInputError, match="overwrite=True"):
        second.save(path)
    assert nw.Release.load(path) == first
    second.save(path, overwrite=True)
    assert nw.Release.load(path) == second
    assert [file.name for file in tmp_path.iterdir()] == ["release.json"]


def test_only_a_release_is_overwritten(tmp_path):
    nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1.0))
    contents = {
        "notes.txt": b"a text",
        "list.json": b"[]",
        "other.json": b'{"schema": "noisewise.posterior"}',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    for name in ("ledger.json", *contents):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InvalidInputError, match="not a release: it is kept"):
            nw.Release([1.0], LAPLACE).save(tmp_path / name, overwrite=True)
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(InvalidInputError, match="folder"):
        nw.Release([1.0], LAPLACE).save(tmp_path, overwrite=True)
    nw.Release([1.0], LAPLACE).save(tmp_path / "new.json", overwrite=True)


def test_a_second_run_of_a_script_spends_nothing(tmp_path):
    path, ledger = (
        tmp_path / "release.json",
        nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1.0)),
    )
    first = nw.release([1.0], MEAN, nw.PureDP(0.25), ledger=ledger, save_to=path)
    assert nw.Release.load(path) == first
    for taken in (
        path,
        ledger.path,
        tmp_path,
        tmp_path / "no" / "folder.json",
        path / "below",
        tmp_path / ("x" * 300),
    ):
        with pytest.raises(InvalidInputError, match=r"exists and is kept|cannot be written"):
            nw.release([1.0], MEAN, nw.PureDP(0.25), ledger=ledger, save_to=taken)
    with pytest.raises(InvalidTypeError, match="save_to"):
        nw.release([1.0], MEAN, nw.PureDP(0.25), ledger=ledger, save_to=3)
    assert len(ledger.entries) == 1
    assert nw.Release.load(path) == first
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "ledger.json",
        "ledger.json.lock",
        "release.json",
    ]


def test_a_release_that_is_paid_for_is_not_lost_with_its_file(tmp_path, monkeypatch):
    """The advice must not be to do the same again: that would be paid for twice."""
    path, replace = tmp_path / "release.json", os.replace

    def full(source, target):
        if str(target) == str(path):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", full)
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(2e12))
    with pytest.warns(
        UserWarning, match="made, but not saved: .*disk is full.*cost as much"
    ) as caught:
        published = nw.release([1.0], MEAN, SURE, save_to=path, ledger=ledger)
    assert "do the same again" not in str(caught[0].message)
    assert caught[0].filename == __file__
    assert published.values == (1.0,)
    assert not path.exists()
    assert len(ledger.entries) == 1


def test_a_file_holds_no_statistic_and_no_seed():
    content = json.loads(nw.release([SECRET, 1.0, 2.0], MEAN3, nw.PureDP(1e-3)).to_json())
    assert set(content) == {
        "schema", "schema_version", "values", "names", "mechanism", "guarantee", "requested", "neighbours",
        "privacy_unit", "query", "num_records", "description", "versions", "ids",
    }  # fmt: skip
    assert "31337" not in json.dumps(content | {"values": None})


def test_damaged_files_are_refused_or_whole(tmp_path):
    text, path = rich_release().to_json(), tmp_path / "release.json"
    rng, refused = np.random.default_rng(2), 0
    for number, content in enumerate(damaged(text, rng, 500)):
        try:
            if number % 10:
                loaded = nw.Release.from_json(content)
            else:
                path.write_bytes(content)
                loaded = nw.Release.load(path)
            assert np.isfinite(loaded.observed).all()
            assert nw.Release.from_json(loaded.to_json()) == loaded
        except FileFormatError:
            refused += 1
    assert refused > 350


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [0.25, 0.5]}, "names must be 2"),
        ({"values": []}, "one or more numbers"),
        ({"values": ["0.25"]}, "one or more numbers"),
        ({"values": [True]}, "one or more numbers"),
        ({"values": {"0": 1.0}}, "must be lists"),
        ({"names": ["a", "b"]}, "names must be 1"),
        ({"names": None}, "must be lists"),
        ({"mechanism": None}, "must be an object"),
        ({"mechanism": {"type": "Laplace", "scale": 0.5}}, "has the fields"),
        ({"mechanism": {"type": "Laplace", "scale": -0.5, "sensitivity": 0.25}}, "> 0"),
        ({"mechanism": {"type": "SampledMechanism"}}, "one of"),
        (
            {
                "mechanism": {
                    "type": "DiscreteLaplace",
                    "scale": 0.5,
                    "sensitivity": 0.25,
                    "step": 1.0,
                }
            },
            "multiples of 1",
        ),
        ({"guarantee": {"type": "PureDP", "epsilon": 0.25}}, "implies PureDP"),
        ({"guarantee": {"type": "ZeroConcentratedDP", "rho": 0.125}}, "implies PureDP"),
        ({"guarantee": {"type": []}}, "not valid"),
        ({"requested": {"type": "PureDP", "epsilon": 0.4}}, "does not follow"),
        ({"requested": {"type": "ZeroConcentratedDP", "rho": 0.1}}, "does not follow"),
        ({"requested": 0.5}, "must be an object"),
        ({"description": None}, "must be a string"),
        ({"description": "two\nlines"}, "one printable line"),
        ({"neighbours": "add-remove"}, "replace-one"),
        ({"privacy_unit": 3}, "must be a string"),
        ({"query": {"type": "FunctionQuery"}}, "one of"),
        ({"query": MEAN.on_default_grid().to_spec() | {"num_columns": 10**12}}, "columns"),
        ({"query": {"type": "Median", "candidates": [2.0, 1.0], "num_records": 3}}, "increasing"),
        ({"num_records": True}, "whole number"),
        ({"num_records": 3.5}, "whole number"),
        ({"versions": {"noisewise": 1}}, "must be a string"),
        ({"schema": "noisewise.ledger"}, "another kind"),
        ({"schema_version": 2}, "lacks labels, source"),
        ({"schema_version": 2, "labels": {"place": ["a", "b"]}, "source": None}, "1 cells, but 2"),
        ({"schema_version": 2, "labels": {"place": "a"}, "source": None}, "must be a list"),
        ({"schema_version": 2, "labels": [["a"]], "source": None}, "labels must map"),
        ({"schema_version": 2, "labels": {"value": ["a"]}, "source": None}, "rename it"),
        ({"schema_version": 2, "labels": None, "source": 3}, "source must be a line"),
        ({"schema_version": 3}, "reads version 2"),
        ({"schema_version": True}, "reads version 1"),
        ({"seed": 1}, "does not know: 'seed'"),
    ],
)
def test_says_what_is_wrong_with_a_file(change, message):
    content = json.loads(nw.Release([0.25], LAPLACE, names=("mean",)).to_json())
    nw.Release.from_json(json.dumps(content))
    with pytest.raises(FileFormatError, match=message):
        nw.Release.from_json(json.dumps(content | change))


@pytest.mark.parametrize("key", ["values", "guarantee", "query", "versions", "schema"])
def test_a_missing_key_is_named(key):
    content = json.loads(nw.Release([0.25], LAPLACE).to_json())
    del content[key]
    with pytest.raises(FileFormatError, match=key):
        nw.Release.from_json(json.dumps(content))


def test_a_reservation_that_was_replaced_is_not_written_over(tmp_path, monkeypatch):
    """Also where the file system gives the new file the number of the old one."""
    path, draw = tmp_path / "release.json", curator.PlannedRelease.draw

    def replaced(plan, read):
        path.unlink()
        path.write_text("somebody's")
        return draw(plan, read)

    monkeypatch.setattr(curator.PlannedRelease, "draw", replaced)
    with pytest.warns(UserWarning, match="replaced by another file"):
        nw.release([1.0], MEAN, SURE, save_to=path)
    assert path.read_text() == "somebody's"
