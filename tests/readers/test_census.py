"""Census files in the documented schemas; all numbers are synthetic."""

import math

import pandas as pd
import pytest

import noisewise as nw
from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.mechanisms import DiscreteGaussian, Exact, Gaussian
from noisewise.readers import census_gls, census_nmf

GLS = """geocode|query|estimate|std_dev|query_description
1400000US25001010100|total|3192.4|12.5|Total population
1400000US25001010100|votingage|2790.1|14.25|Voting age
1400000US25001010206|total|-3.5|12.5|Total population
"""


@pytest.fixture
def estimates(tmp_path):
    def make(text=GLS, **given):
        path = tmp_path / "estimates.txt"
        path.write_text(text)
        return census_gls.describe(path, **given)

    return make


def test_estimates_have_their_standard_deviation(estimates):
    found = estimates()
    assert found.frame["estimate"].tolist() == [3192.4, 2790.1, -3.5]
    assert found.frame[found.sd].tolist() == [12.5, 14.25, 12.5]
    assert (found.mechanism, found.labels) == (Gaussian, ("geocode", "query"))
    assert estimates(query=["total"]).frame["geocode"].tolist() == [
        "1400000US25001010100",
        "1400000US25001010206",
    ]


ESTIMATES = {
    "commas": ({"text": GLS.replace("|", ",")}, FileFormatError, "no column"),
    "truncated": ({"text": GLS[:-30]}, FileFormatError, "truncated"),
    "no deviation": ({"text": GLS.replace("std_dev", "se")}, FileFormatError, "'std_dev'"),
    "deviation 0": ({"text": GLS.replace("14.25", "0")}, FileFormatError, "above 0"),
    "unknown query": ({"query": "totl"}, InvalidInputError, "did you mean 'total'"),
    "no query": ({"query": []}, InvalidInputError, "at least one"),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_damaged_estimates(estimates, name):
    change, error, message = ESTIMATES[name]
    with pytest.raises(error, match=message):
        estimates(**change)


def measurements():
    """Two areas, a query by voting age and race of two categories, and a total."""
    rows = [
        ("1", "votingage * cenrace", [1, 2, 1, 2], [3, -1, 0, 12], 4.5),
        ("1", "total", [1, 1, 1, 1], [15], 2.0),
        ("2", "votingage * cenrace", [1, 2, 1, 2], [1, 1, -5, 2], 4.5),
    ]
    frame = pd.DataFrame(
        rows, columns=["geocode", "query_name", "query_shape", "value", "variance"]
    )
    return frame.assign(**dict.fromkeys(("hhgq", "votingage", "hispanic", "cenrace"), "all"))


def constraints():
    rows = [
        ("1", "total_con", [1, 1, 1, 1], [14], "="),
        ("1", "gq_con", [1, 1, 1, 1], [0], ">="),
    ]
    frame = pd.DataFrame(rows, columns=["geocode", "query_name", "query_shape", "value", "sign"])
    return frame.assign(**dict.fromkeys(("hhgq", "votingage", "hispanic", "cenrace"), "all"))


GIVEN = {"query": "votingage * cenrace", "variance_is_sigma_squared": True}


@pytest.fixture
def level(tmp_path):
    def make(frame=None, exact=None, **given):
        path = tmp_path / "part.parquet"
        (measurements() if frame is None else frame).to_parquet(path)
        if exact is not None:
            beside = tmp_path / "constraints.parquet"
            exact.to_parquet(beside)
            given["constraints"] = beside
        return census_nmf.describe(path, **GIVEN | given)

    return make


def test_measurements_of_one_query(level):
    found = level()
    assert found.mechanism == DiscreteGaussian(scale=math.sqrt(4.5))
    assert found.labels == ("query_name", "geocode", "hhgq", "votingage", "hispanic", "cenrace")
    assert found.frame["value"].tolist() == [3, -1, 0, 12, 1, 1, -5, 2]
    assert found.frame["votingage"].tolist() == ["0", "0", "1", "1"] * 2
    assert found.frame["cenrace"].tolist() == ["0", "1"] * 4
    assert found.frame["hhgq"].unique().tolist() == ["all"]
    assert found.neighbours == nw.ReplaceOne()
    one = level(geocodes=["2"], sensitivity=math.sqrt(2))
    assert one.frame["value"].tolist() == [1, 1, -5, 2]
    assert one.mechanism.guarantee.to(nw.ZeroConcentratedDP).rho == pytest.approx(1 / 4.5)


def test_invariants_are_cells_without_noise(level):
    found = level(exact=constraints(), invariants=["total_con"])
    assert found.frame["value"].tolist()[-1] == 14.0
    assert found.frame["law"].map(found.mechanism).tolist()[-2:] == [
        DiscreteGaussian(scale=math.sqrt(4.5)),
        Exact(),
    ]
    assert found.by == "law"


def test_variances_may_differ(level):
    frame = measurements()
    frame.loc[2, "variance"] = 9.0
    found = level(frame)
    assert found.frame["law"].map(found.mechanism).tolist()[4] == DiscreteGaussian(scale=3.0)


def test_housing_units(level):
    frame = measurements().iloc[[1]].drop(columns=["hhgq", "votingage", "hispanic", "cenrace"])
    frame = frame.assign(h1="all", query_shape=[[2]], value=[[5, 6]])
    with pytest.raises(InvalidInputError, match="--unit 'housing unit'"):
        level(frame, query="total")
    units = nw.ReplaceOne(unit="housing unit")
    found = level(frame, query="total", neighbours=units)
    assert (found.frame["h1"].tolist(), found.neighbours) == (["0", "1"], units)


def changed(row=0, **values):
    frame = measurements().astype({"variance": object})
    for name, value in values.items():
        frame.at[row, name] = value
    return frame


MEASUREMENTS = {
    "not confirmed": (
        {"variance_is_sigma_squared": False},
        InvalidInputError,
        "--variance-is-sigma-squared",
    ),
    "unknown query": ({"query": "votingage"}, InvalidInputError, "did you mean"),
    "no such area": ({"geocodes": ["3"]}, InvalidInputError, "none of the areas"),
    "no variance": (
        {"frame": measurements().drop(columns="variance")},
        FileFormatError,
        "'variance'",
    ),
    "other columns": (
        {"frame": measurements().drop(columns="hhgq")},
        FileFormatError,
        "'hhgq'",
    ),
    "variance 0": ({"frame": changed(variance=0.0)}, FileFormatError, "above 0"),
    "shape": ({"frame": changed(query_shape=[1, 2, 1, 3])}, FileFormatError, "product"),
    "shape 0": ({"frame": changed(query_shape=[0, 2, 1, 3])}, FileFormatError, "above 0"),
    "twice": (
        {"frame": pd.concat([measurements(), measurements()], ignore_index=True)},
        FileFormatError,
        "twice",
    ),
    "invariants alone": ({"invariants": ["total_con"]}, InvalidInputError, "--constraints"),
    "constraints alone": ({"exact": constraints()}, InvalidInputError, "--invariant"),
    "a bound": (
        {"exact": constraints(), "invariants": ["gq_con"]},
        FileFormatError,
        "bound",
    ),
    "unknown invariant": (
        {"exact": constraints(), "invariants": ["total"]},
        InvalidInputError,
        "did you mean 'total_con'",
    ),
}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_damaged_measurements(level, name):
    change, error, message = MEASUREMENTS[name]
    with pytest.raises(error, match=message):
        level(**change)


def test_truncated_measurements(tmp_path):
    path = tmp_path / "part.parquet"
    measurements().to_parquet(path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(FileFormatError, match="truncated"):
        census_nmf.describe(path, **GIVEN)
