"""Files that were damaged, for every reader: typed errors only, in bounded memory and time."""

import json
import resource
import time

import numpy as np
import pandas as pd
import pytest

from noisewise.errors import NoisewiseError
from noisewise.readers import parquet as parquet_files
from noisewise.readers.files import SourceFile
from noisewise.readers.reading import SOURCES, reader_of
from tests.hostile import damaged, damaged_bytes
from tests.readers import test_census, test_opendp, test_tables, test_wikimedia
from tests.readers.forked_parquet import Forked

FEW, MANY = 200, 2_000
FEW_PROCESSES = 20
"""Damaged Parquet files of the fast tests: each starts a process."""
SECONDS = 2.0
"""For one file, far above the milliseconds that it takes: row 20 of the reliability table."""
GROWTH = 256 * 2**20
"""Bytes above what the process had, by the same row."""


def parquet(frame, tmp_path):
    path = tmp_path / "made.parquet"
    frame.to_parquet(path)
    return path.read_bytes()


def cells(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text(test_opendp.CELLS)
    return path


def query_table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(test_opendp.TABLE)
    return path


def nmf(tmp_path):
    beside = tmp_path / "constraints.parquet"
    beside.write_bytes(parquet(test_census.constraints(), tmp_path))
    return test_census.GIVEN | {"constraints": beside, "invariants": ["total_con"]}


def table_frame():
    frame = pd.DataFrame({"zip": ["01001", "01002"], "year": [2020, 2020], "sd": [1.0, 2.5]})
    return frame.assign(count=[3, None], noise="a", unmeasured=[False, True])


ROWS = {
    "table": lambda tmp: ("t.csv", test_tables.SYNTHETIC, test_tables.WHOLE),
    "table, parquet": lambda tmp: ("t.parquet", parquet(table_frame(), tmp), test_tables.WHOLE),
    "opendp": lambda tmp: (
        "m.json",
        json.dumps(
            {
                "measurement": json.loads(test_opendp.CASES["sum of a Context"].serialised),
                "output": 3,
            }
        ),
        {"sensitivity": 10.0},
    ),
    "opendp, keys": lambda tmp: (
        "m.json",
        test_opendp.CASES["threshold, whole"].serialised,
        test_opendp.CASES["threshold, whole"].given | {"output": {"a": 25}},
    ),
    "opendp, query": lambda tmp: (
        "s.csv",
        test_opendp.SUMMARY,
        test_opendp.QUERY | {"cells": cells(tmp), "output": query_table(tmp)},
    ),
    "wikimedia": lambda tmp: (
        "2023-10-24.tsv",
        test_wikimedia.LINES,
        {"cells": test_wikimedia.PAGES},
    ),
    "census_gls": lambda tmp: ("e.txt", test_census.GLS, {}),
    "census_nmf": lambda tmp: (
        "p.parquet",
        parquet(test_census.measurements(), tmp),
        nmf(tmp),
    ),
}
"""A file of each reader, and what it does not say."""


def test_every_reader_has_a_row():
    assert {row.split(",")[0] for row in ROWS} == set(SOURCES)


def outcomes(row, tmp_path, count, seed):
    """How many damaged files were read, and how many refused."""
    name, content, given = ROWS[row](tmp_path)
    reader, path = reader_of(row.split(",")[0]), tmp_path / name
    rng = np.random.default_rng(seed)
    if name.endswith(".json"):
        copies = damaged(content, rng, count)
    else:
        whole = content if isinstance(content, bytes) else content.encode()
        copies = damaged_bytes(whole, rng, count)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    reader(path, **given)
    before, found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, [0, 0]
    for copy in copies:
        path.write_bytes(copy)
        start = time.monotonic()
        try:
            reader(path, **given)
            found[0] += 1
        except NoisewiseError:
            found[1] += 1
        assert time.monotonic() - start < SECONDS
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < GROWTH
    return found


@pytest.mark.parametrize("row", ROWS)
def test_a_few_damaged_files(row, tmp_path):
    count = FEW_PROCESSES if ROWS[row](tmp_path)[0].endswith("parquet") else FEW
    read, refused = outcomes(row, tmp_path, count, 0)
    assert refused > count // 10
    assert read + refused == count


@pytest.fixture
def forked():
    server = Forked()
    yield server
    server.close()


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_many_damaged_files(row, tmp_path, forked, monkeypatch):
    monkeypatch.setattr(parquet_files, "subprocess", forked)
    assert sum(outcomes(row, tmp_path, MANY, 1)) == MANY


def test_a_forked_process_answers_as_one_of_its_own(tmp_path, forked, monkeypatch):
    """Of a whole file, and of damaged ones, some of which end the process."""
    _, content, _ = ROWS["table, parquet"](tmp_path)
    copies = [content, *damaged_bytes(content, np.random.default_rng(2), 8)]
    sources = [SourceFile(tmp_path / "t.parquet", copy) for copy in copies]
    asked = json.dumps({"names": None, "where": {}, "most": 1000})
    own = [parquet_files._unpacked(source, asked) for source in sources]
    monkeypatch.setattr(parquet_files, "subprocess", forked)
    assert [parquet_files._unpacked(source, asked) for source in sources] == own
    assert "columns" in own[0]
    assert any("columns" not in answer for answer in own)


def test_an_error_that_is_not_ours_is_seen(tmp_path, monkeypatch):
    """The planted bug: a reader that lets an error of Python through."""
    monkeypatch.setattr("noisewise.readers.tables.label_names", lambda labels: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        outcomes("table", tmp_path, 1, 0)


BOMBS = {
    "a long line": b"zip,year,count\n" + b"7" * 60_000_000,
    "many cells": b"zip,year,count\n" + b"1,2,3\n" * 1_000_000,
    "many columns": b"," * 60_000_000,
    "many lines": b"\n" * 60_000_000,
    "quotes": b'"' * 60_000_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_files_made_to_fill_the_memory(name, tmp_path):
    path = tmp_path / "bomb.csv"
    path.write_bytes(BOMBS[name])
    start = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NoisewiseError):
        reader_of("table").describe(path, **test_tables.GIVEN)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < GROWTH
    assert time.monotonic() - start < 10 * SECONDS


def test_a_parquet_file_that_unpacks_to_more_than_is_kept(tmp_path):
    path = tmp_path / "bomb.parquet"
    frame = pd.DataFrame({"zip": ["1"] * 2_000_000})
    frame.assign(year="2", count=3).to_parquet(path)
    assert path.stat().st_size < 2**20
    with pytest.raises(NoisewiseError, match="more than"):
        reader_of("table").describe(path, **test_tables.GIVEN)
