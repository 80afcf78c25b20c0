"""From a file to a release, to its JSON, and back; from the command line as well."""

import json

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.cli.app import app
from noisewise.readers import census_nmf, opendp, read, table, wikimedia
from noisewise.readers.reading import reader_of
from tests.readers import test_opendp, test_tables, test_wikimedia
from tests.readers.test_mutations import ROWS


@pytest.mark.parametrize("row", ROWS)
def test_a_release_comes_back_from_its_file(row, tmp_path):
    name, content, given = ROWS[row](tmp_path)
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    reader = reader_of(row.split(",")[0])
    found, described = reader(path, **given), reader.describe(path, **given)
    found.save(tmp_path / "release.json")
    assert nw.Release.load(tmp_path / "release.json") == found
    assert len(found.table) == len(described.frame)
    assert found.source["sha256"] == described.source["sha256"]
    assert read(row.split(",")[0], path, **given) == found
    numbers = pd.to_numeric(described.frame[described.value], errors="coerce")
    np.testing.assert_array_equal(found.table["value"], numbers)
    assert np.isfinite(found.mechanism.log_prob(found.observed, np.nan_to_num(found.observed)))


def test_absent_and_missing_cells_are_told_apart(tmp_path):
    path = tmp_path / "synthetic.csv"
    path.write_text(test_tables.SYNTHETIC)
    found = table(path, **test_tables.WHOLE).table
    assert found["absent"].tolist() == [False, False, True, False]
    assert found["missing"].tolist() == [False, False, False, True]
    assert found["zip"].tolist() == ["01001", "01001", "01002", "01002"]


def test_listed_cells_may_say_their_noise(tmp_path):
    path, listed = tmp_path / "some.csv", tmp_path / "cells.csv"
    path.write_text("zip,count,noise\n01001,12,a\n")
    listed.write_text("zip,noise\n01001,a\n01002,b\n")
    laws = {
        word: nw.mechanisms.Thresholded(nw.mechanisms.DiscreteLaplace(scale=scale), 10.0)
        for word, scale in (("a", 2.0), ("b", 3.0))
    }
    given = {"value": "count", "labels": "zip", "mechanism": laws, "by": "noise"}
    found = table(path, cells=listed, **given).table
    assert found["absent"].tolist() == [False, True]
    assert found["noise_sd"].is_monotonic_increasing


def test_one_day_of_page_views(tmp_path):
    path = tmp_path / "2023-10-24.tsv"
    path.write_text(test_wikimedia.LINES)
    found = wikimedia(path, cells=test_wikimedia.PAGES)
    assert found.table["absent"].tolist() == [False, True, False]
    assert found.guarantee_is_stated
    assert found.guarantee.to(nw.ZeroConcentratedDP).rho == 0.01505
    assert found.neighbours.max_contributions == 10
    assert found.select(country_code="NZ").table["value"].tolist() == [4100.0]


def test_two_days_are_one_table(tmp_path):
    releases = []
    for day in ("2023-10-24", "2023-10-25"):  # the second was filled in with another law
        path = tmp_path / f"{day}.tsv"
        path.write_text(test_wikimedia.LINES)
        releases.append(wikimedia(path, cells=test_wikimedia.PAGES))
    sds = [release.table["noise_sd"][0] for release in releases]
    assert sds == pytest.approx([18.227, 42.42], abs=0.01)


def test_a_query_of_opendp(tmp_path):
    name, content, given = ROWS["opendp, query"](tmp_path)
    (tmp_path / name).write_text(content)
    found = opendp(tmp_path / name, **given)
    assert found.table["missing"].sum() == 2
    assert found.table["absent"].sum() == 2
    assert not found.guarantee_is_stated


def test_a_measurement_keeps_its_epsilon(tmp_path):
    case = test_opendp.CASES["sum of a Context"]
    path = tmp_path / "m.json"
    path.write_text(case.serialised)
    found = opendp(path, output=case.output, **case.given)
    assert found.guarantee == nw.PureDP(0.5, neighbours=nw.AddRemoveOne(max_contributions=1))
    assert not found.guarantee_is_stated


def test_census_measurements_with_an_invariant(tmp_path):
    name, content, given = ROWS["census_nmf"](tmp_path)
    (tmp_path / name).write_bytes(content)
    found = census_nmf(tmp_path / name, **given).table
    assert found["noise_sd"].tolist()[-1] == 0.0
    assert found["value"].tolist()[-1] == 14.0


# From the command line ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stays.csv").write_text("district,count\nNorth,12\nSouth,X\n")
    (tmp_path / "2023-10-24.tsv").write_text(test_wikimedia.LINES)
    test_wikimedia.PAGES.to_csv("pages.csv", index=False)
    case = test_opendp.CASES["sum of a Context"]
    (tmp_path / "measurement.json").write_text(case.serialised)
    (tmp_path / "released.json").write_text(json.dumps(case.output))
    return tmp_path


COMMANDS = {
    "table": (
        "table stays.csv --value count --label district --mechanism discrete-laplace --scale 3"
        " --threshold 10 --absent X --epsilon 1 --neighbours add-remove"
    ),
    "opendp": "opendp measurement.json --output released.json --sensitivity 10",
    "wikimedia": "wikimedia 2023-10-24.tsv --cells pages.csv",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_writes_the_release(folder, name):
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, ["import", *COMMANDS[name].split(), "--out", "release.json"])
    assert result.exit_code == 0, result.output
    assert "Saved to release.json" in result.output
    found = nw.Release.load("release.json")
    assert found.source["reader"] == name
    if name == "table":
        assert found.guarantee_is_stated
        assert found.table["absent"].tolist() == [False, True]


def test_the_command_writes_json(folder):
    from typer.testing import CliRunner

    words = ["import", *COMMANDS["table"].split(), "--out", "release.json", "--json"]
    shown = json.loads(CliRunner().invoke(app, words).stdout)
    assert shown["values"] == [12.0, None]
    assert shown["guarantee_is_stated"] is True
