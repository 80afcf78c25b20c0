"""Tables in CSV and Parquet files, synthetic ones."""

import inspect

import numpy as np
import pandas as pd
import pytest

from noisewise.disclosure import Release
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exact,
    Gaussian,
    Laplace,
    Rounded,
    Thresholded,
)
from noisewise.readers import read, table

SYNTHETIC = """zip,year,count,sd,noise,unmeasured
01001,2020,12,3,a,false
01001,2021,-4,3,b,false
01002,2020,X,6.5,a,false
01002,2021,,6.5,b,true
"""
GIVEN = {"value": "count", "labels": ["zip", "year"], "mechanism": "discrete-laplace", "scale": 3.0}
WHOLE = GIVEN | {"absent": "X", "missing": "unmeasured", "threshold": -5.0}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "synthetic.csv"
    path.write_text(SYNTHETIC)
    return path


def as_parquet(path):
    frame = pd.read_csv(path, dtype={"zip": str, "count": str}, keep_default_na=False)
    target = path.with_suffix(".parquet")
    frame.to_parquet(target)
    return target


@pytest.mark.parametrize("convert", [lambda path: path, as_parquet], ids=["csv", "parquet"])
def test_a_table_is_read_as_it_is(path, convert):
    found = table.describe(convert(path), **WHOLE)
    assert found.frame["zip"].tolist() == ["01001", "01001", "01002", "01002"]
    assert found.frame["year"].tolist() == ["2020", "2021"] * 2
    assert found.frame["count"].tolist()[:3] == [12.0, -4.0, "X"]
    assert np.isnan(found.frame["count"].iloc[3])
    assert found.frame["unmeasured"].tolist() == [False, False, False, True]
    assert found.mechanism == Thresholded(DiscreteLaplace(scale=3.0), -5.0)
    assert (found.absent, found.missing, found.labels) == ("X", "unmeasured", ("zip", "year"))
    assert found.source["reader"] == "table"
    assert len(found.source["sha256"]) == 64


def test_scales_may_be_a_column(path):
    text = path.read_text().replace("X", "5").replace(",,", ",7,")
    path.write_text(text)
    by_sd = table.describe(path, **GIVEN | {"mechanism": "gaussian", "scale": None, "sd": "sd"})
    assert (by_sd.mechanism, by_sd.sd, by_sd.frame["sd"].tolist()) == (
        Gaussian,
        "sd",
        [3, 3, 6.5, 6.5],
    )
    by_scale = table.describe(path, **GIVEN | {"scale": "sd", "mechanism": "DiscreteGaussian"})
    assert (by_scale.mechanism, by_scale.scale) == (DiscreteGaussian, "sd")
    known = table.describe(path, **GIVEN | {"scale": "sd", "sensitivity": 2.0})
    assert known.mechanism == DiscreteLaplace(scale=[3, 3, 6.5, 6.5], sensitivity=2.0)


def test_other_mechanisms(path):
    path.write_text(SYNTHETIC.replace("X", "3").replace(",,", ",3,"))
    plain = GIVEN | {"scale": None}
    assert table.describe(path, **plain | {"mechanism": "exact"}).mechanism == Exact()
    rounded = table.describe(path, **plain | {"mechanism": "rounded", "base": 3})
    assert rounded.mechanism == Rounded(base=3)
    made = {"a": Laplace(scale=1.0), "b": Laplace(scale=2.0)}
    both = table.describe(path, **plain | {"mechanism": made, "by": "noise"})
    assert (both.mechanism, both.by) == (made, "noise")
    assert both.frame["noise"].tolist() == ["a", "b", "a", "b"]


BY = {
    "by": "noise",
    "mechanism": {"a": "discrete-laplace", "b": "gaussian"},
    "scale": {"a": 3.0, "b": "sd"},
    "threshold": "least",
    "absent": "X",
    "missing": {"status": "lost"},
}
ROWS = """zip,year,count,sd,noise,least,status
01001,2020,12,3,a,10,ok
01001,2021,34,4,b,30,ok
01002,2020,X,5,a,10,ok
01002,2021,,6,b,30,lost
01003,2021,X,7,b,20,ok
"""


def test_mechanisms_and_thresholds_by_row(path):
    """Each entry of a column has its own law, with numbers of its own rows; missing rows need
    none.
    """
    path.write_text(ROWS)
    release = table(path, **GIVEN | BY)
    first, second, _ = release.mechanism.mechanisms
    assert first.to_spec() == Thresholded(DiscreteLaplace(scale=3.0), 10.0).to_spec()
    both = Thresholded(Gaussian(scale=[4.0, 7.0]), [30.0, 20.0])
    assert second.to_spec() == both.to_spec()
    assert release.mechanism.which == (0, 1, 0, 2, 1)
    assert release.table["absent"].tolist() == [False, False, True, False, True]
    assert release.table["missing"].tolist() == [False, False, False, True, False]
    s = np.full(5, 25.0)
    cells = [
        Thresholded(DiscreteLaplace(scale=3.0), 10.0).log_prob([12.0], s[:1]),
        Thresholded(Gaussian(scale=4.0), 30.0).log_prob([34.0], s[:1]),
        Thresholded(DiscreteLaplace(scale=3.0), 10.0).log_prob([np.nan], s[:1]),
        Thresholded(Gaussian(scale=7.0), 20.0).log_prob([np.nan], s[:1]),
    ]
    assert np.isclose(release.mechanism.log_prob(release.observed, s), sum(cells), rtol=1e-12)


def test_a_column_of_thresholds_in_the_list_of_cells(path, tmp_path):
    listed = tmp_path / "cells.csv"
    rows = [line.split(",") for line in ROWS.splitlines()]
    listed.write_text(
        "".join(",".join([*row[:2], *row[4:]]) + "\n" for row in rows[::-1] if row != rows[0])
    )
    header = "zip,year,noise,least,status\n"
    listed.write_text(header + listed.read_text())
    path.write_text("\n".join(ROWS.splitlines()[:3]) + "\n")
    plain = {"mechanism": "laplace", "scale": 3.0, "by": None, "absent": None}
    release = table(path, **GIVEN | BY | plain | {"cells": listed})
    assert release.labels["zip"] == ("01003", "01002", "01002", "01001", "01001")
    assert release.mechanism.mechanisms[0].above.tolist() == [20.0, 10.0, 30.0, 10.0]
    assert release.table["absent"].tolist() == [True, False, True, False, False]
    both = table(path, **GIVEN | BY | {"cells": listed, "absent": None, "scale": 3.0})
    assert both.mechanism.which == (1, 2, 0, 1, 0)
    listed.write_text(listed.read_text().replace("least", "said"))
    with pytest.raises(InvalidInputError, match=r"cells=.* needs a column 'least'"):
        table(path, **GIVEN | BY | {"cells": listed, "absent": None, "scale": 3.0})


BY_MISTAKES = {
    "no column of entries": ({"by": None}, InvalidInputError, "--by COLUMN"),
    "one mechanism": ({"mechanism": "laplace"}, InvalidInputError, "Several mechanisms"),
    "no mechanism": ({"mechanism": {}}, InvalidTypeError, "mechanism must be"),
    "unknown": ({"mechanism": {"a": "laplcae"}, "scale": 1.0}, InvalidInputError, "mean 'laplace'"),
    "no scale": ({"scale": {"a": 3.0}}, InvalidInputError, "Where noise is 'b': The scale"),
    "another entry": (
        {"scale": {"a": 3.0, "c": 1.0}},
        InvalidInputError,
        "for 'c', but .* 'a', 'b'",
    ),
    "an entry without law": (
        {"mechanism": {"a": "laplace"}, "scale": 3.0},
        InvalidInputError,
        r"cell \(01001, 2021\) has noise='b'",
    ),
    "sd": ({"scale": None, "sd": "sd"}, InvalidInputError, "go with --scale"),
    "text for a threshold": ({"threshold": "status"}, FileFormatError, r"row 1 .*\(zip '01001'"),
    "two marks": ({"missing": {"a": "b", "c": "d"}}, InvalidTypeError, "missing must be"),
    "a mark that is nowhere": ({"missing": {"status": "gone"}}, FileFormatError, "nowhere 'gone'"),
    "a made one with a scale": (
        {"mechanism": {"a": Laplace(1.0), "b": "laplace"}},
        InvalidInputError,
        "its own",
    ),
}


@pytest.mark.parametrize("name", BY_MISTAKES)
def test_what_is_wrong_with_mechanisms_by_row_is_named(path, name):
    change, error, message = BY_MISTAKES[name]
    path.write_text(ROWS)
    with pytest.raises(error, match=message):
        table(path, **GIVEN | BY | change)


def test_cells_that_are_not_in_the_file_are_listed(path, tmp_path):
    listed = tmp_path / "cells.csv"
    listed.write_text("year,zip\n2020,01001\n2021,01001\n2020,01002\n2021,01002\n2020,01003\n")
    path.write_text("".join(SYNTHETIC.splitlines(keepends=True)[:3]))
    found = table.describe(path, **GIVEN | {"threshold": -5.0, "cells": listed})
    assert found.cells["zip"].tolist()[-1] == "01003"
    assert list(found.cells.columns) == ["zip", "year"]
    frame = pd.DataFrame({"zip": ["01001"] * 2, "year": [2020, 2021]})
    assert table.describe(path, **GIVEN | {"cells": frame}).cells["year"].tolist() == [
        "2020",
        "2021",
    ]


MISTAKES = {
    "no such column": ({"value": "cuont"}, FileFormatError, "did you mean 'count'"),
    "unknown mechanism": ({"mechanism": "laplcae"}, InvalidInputError, "did you mean 'laplace'"),
    "no scale": ({"scale": None}, InvalidInputError, "--scale"),
    "two scales": ({"sd": "sd"}, InvalidInputError, "one of --scale"),
    "no mark": ({"absent": None}, FileFormatError, "got 'X'. .*--absent"),
    "no measurement": ({"missing": None}, FileFormatError, "got an empty cell"),
    "no cells": (
        {"absent": None, "value": "sd", "missing": None},
        InvalidInputError,
        "--cells FILE",
    ),
    "no labels": ({"labels": []}, InvalidInputError, "--label"),
    "no base": ({"mechanism": "rounded", "scale": None}, InvalidInputError, "--base"),
    "a base": ({"base": 3}, InvalidInputError, "belongs to rounded"),
    "scale of nothing": ({"mechanism": "exact"}, InvalidInputError, "neither scale"),
    "negative scale": ({"scale": -1.0}, InvalidInputError, "scale"),
    "text for a scale": (
        {"scale": "noise"},
        FileFormatError,
        r"noise in row 1 of synthetic.csv \(zip '01001', year '2020'\) must be a number",
    ),
    "flags": ({"missing": "noise"}, FileFormatError, "must be true or false.*--missing noise=TEXT"),
    "cells of a number": ({"cells": 3}, InvalidTypeError, "cells must be"),
    "cells of another table": (
        {"cells": pd.DataFrame({"zip": ["1"]})},
        InvalidInputError,
        "no column 'year'",
    ),
    "a class": ({"mechanism": Laplace, "scale": None, "threshold": None}, InvalidTypeError, "word"),
    "a mechanism and a scale": ({"mechanism": Laplace(scale=1.0)}, InvalidInputError, "its own"),
    "by without a choice": (
        {"by": "noise", "scale": None, "threshold": None},
        InvalidInputError,
        "by=",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_missing_is_named(path, name):
    change, error, message = MISTAKES[name]
    with pytest.raises(error, match=message):
        table.describe(path, **WHOLE | change)


DAMAGED = {
    "empty": (b"", "must name the columns"),
    "no rows": (b"zip,year,count\n", "no cells"),
    "short line": (b"zip,year,count\n1,2,3\n1,2\n", "Line 3 .* truncated"),
    "open quotes": (b'zip,year,count\n1,2,"3\n', "truncated"),
    "two alike": (b"zip,zip,count\n1,2,3\n", "each differently"),
    "bytes": (b"zip,year,count\n\xff\xfe,2,3\n", "UTF-8"),
    "nul": (b"zip,year,count\n\0,2,3\n", "not a text file"),
    "infinite": (b"zip,year,count\n1,2,1e999\n", "must be a number"),
    "nan": (b"zip,year,count\n1,2,nan\n", "must be a number"),
    "long line": (b"zip,year,count\n" + b"1" * 2**21, "line of more"),
    "long cell": (b"zip,year,count\n" + b"1" * 2**18, "field larger"),
    "many columns": (b"zip,year,count\n" + b"," * 2000, "more than 1,000"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files(tmp_path, name):
    content, message = DAMAGED[name]
    path = tmp_path / "damaged.csv"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        table.describe(path, **GIVEN)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InvalidInputError, match="no file"):
        table.describe(tmp_path / "none.csv", **GIVEN)
    with pytest.raises(InvalidInputError, match="folder"):
        table.describe(tmp_path, **GIVEN)
    with pytest.raises(InvalidInputError, match="did you mean 'table'"):
        read("tabel", tmp_path, **GIVEN)
    with (tmp_path / "huge.csv").open("wb") as file:
        file.truncate(2**27)
    with pytest.raises(FileFormatError, match="larger than 64 MiB: select the part"):
        table.describe(tmp_path / "huge.csv", **GIVEN)


def test_parquet_files_that_are_none(path):
    whole = as_parquet(path).read_bytes()
    target = path.with_suffix(".parquet")
    for content in (whole[:-9], whole[:40], b"PAR1" + whole[300:], b"PAR1PAR1"):
        target.write_bytes(content)
        with pytest.raises(FileFormatError, match=r"damaged|truncated"):
            table.describe(target, **WHOLE)


def test_nested_columns_are_refused(tmp_path):
    target = tmp_path / "nested.parquet"
    pd.DataFrame({"zip": ["1"], "year": ["2"], "count": [[1, 2]]}).to_parquet(target)
    with pytest.raises(FileFormatError, match="holds lists"):
        table.describe(target, **GIVEN)


def test_without_pyarrow_the_message_has_the_line_to_install_it(path, monkeypatch):
    target = as_parquet(path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"noisewise\[parquet\]"):
        table.describe(target, **WHOLE)


def test_readers_are_functions_that_give_releases():
    signature = inspect.signature(table)
    assert signature.return_annotation == "Release"
    assert list(signature.parameters) == list(inspect.signature(table.describe).parameters)
    assert (table.__name__, table.__module__) == ("table", "noisewise.readers.tables")


def test_no_noise_is_exact_as_in_frames(tmp_path):
    """A size of 0, where only the size of the noise is said; elsewhere the way out is named."""
    path = tmp_path / "t.csv"
    path.write_text("place,n,sd\na,3,2\nb,7,0\n")
    given = {"value": "n", "labels": "place", "mechanism": "discrete-gaussian"}
    for size in ("sd", "scale", "variance"):
        release = table(path, **given, **{size: "sd"})
        frame = pd.DataFrame({"place": ["a", "b"], "n": [3, 7], "sd": [2.0, 0.0]})
        own = Release.from_table(
            frame, value="n", labels=["place"], mechanism=DiscreteGaussian, **{size: "sd"}
        )
        assert release.mechanism.to_spec() == own.mechanism.to_spec()
    with pytest.raises(FileFormatError, match="--mechanism ENTRY=exact"):
        table(path, **given, scale="sd", sensitivity=1.0)
    path.write_text("place,n,sd\na,3,2\nb,7,-1\n")
    with pytest.raises(FileFormatError, match="above 0, got '-1'"):
        table(path, **given, sd="sd")
