"""Daily page views, in the documented schema; all counts are synthetic."""

import datetime
import math

import pandas as pd
import pytest

import noisewise as nw
from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.mechanisms import DiscreteGaussian, DiscreteLaplace, Thresholded
from noisewise.readers import wikimedia

PAGES = pd.DataFrame(
    {
        "country_code": ["AU", "AU", "NZ"],
        "project": ["en.wikipedia"] * 3,
        "page_id": ["5042951", "77", "77"],
    }
)
LINES = (
    'Australia\tAU\ten.wikipedia\t5042951\tClimate "change"\tQ7942\t4000\n'
    "Australia\tAU\tde.wikipedia\t9\tKlima\t\t5000\n"
    "New Zealand\tNZ\ten.wikipedia\t77\tSheep\tQ7368\t4100\n"
)


@pytest.fixture
def day(tmp_path):
    def make(lines=LINES, name="2023-10-24.tsv", **given):
        path = tmp_path / name
        path.write_text(lines)
        return wikimedia.describe(path, **{"cells": PAGES} | given)

    return make


def laplace(scale, above):
    return Thresholded(DiscreteLaplace(scale=scale), above)


def gaussian(rho, above):
    return Thresholded(DiscreteGaussian(scale=math.sqrt(10 / (2 * rho))), above)


LAWS = {
    "2015-7-1": laplace(300.0, 3500.0),
    "2017-2-8": laplace(300.0, 3500.0),
    "2017-02-09": laplace(30.0, 450.0),
    "2023-2-5": laplace(30.0, 450.0),
    "2023-2-6": gaussian(0.01505, 90.0),
    "2023-06-19": laplace(30.0, 450.0),
    "2023-06-20": gaussian(0.01505, 90.0),
    "2023-11-27": laplace(30.0, 450.0),
    "2024-02-14": gaussian(0.01505, 90.0),
}


@pytest.mark.parametrize("date", LAWS)
def test_the_day_decides_the_law(day, date):
    found = day(name=f"{date}.tsv")
    assert found.mechanism == LAWS[date]
    assert found.guarantee.neighbours.label == "add-remove"


def test_sigma_is_that_of_ten_pages():
    assert gaussian(0.01505, 90.0).mechanism.scale == pytest.approx(18.227, abs=5e-4)


def test_cells_that_are_not_in_the_file_are_absent(day):
    found = day()
    assert found.labels == ("date", "country_code", "project", "page_id")
    assert found.frame["count"].tolist() == [4000.0, "absent", 4100.0]
    assert found.frame["date"].unique().tolist() == ["2023-10-24"]
    assert (found.absent, found.by) == ("absent", None)
    assert found.guarantee == nw.ZeroConcentratedDP(
        0.01505,
        neighbours=nw.AddRemoveOne(unit="device on one day", max_contributions=10, max_per_cell=1),
    )
    assert found.source["date"] == "2023-10-24"


def test_countries_may_differ_in_risk(day):
    given = {"date": datetime.date(2024, 2, 15), "name": "day.tsv"}
    found = day(risk={"AU": "lower", "NZ": "higher"}, **given)
    assert set(found.mechanism.values()) == {gaussian(0.01505, 90.0), gaussian(0.0001546, 1000.0)}
    assert found.frame["law"].map(found.mechanism).tolist()[2] == gaussian(0.0001546, 1000.0)
    assert (found.by, found.guarantee) == ("law", None)
    assert day(risk="medium", **given).mechanism == gaussian(0.0006166, 550.0)
    with pytest.raises(InvalidInputError, match="--risk"):
        day(**given)
    with pytest.raises(InvalidInputError, match="--risk"):
        day(risk={"AU": "lower"}, **given)
    with pytest.raises(InvalidInputError, match="did you mean 'higher'"):
        day(risk="hihger", **given)


def test_the_united_states_were_filled_in_later(day):
    pages = PAGES.assign(country_code=["US", "AU", "NZ"])
    found = day(name="2023-09-19.tsv", cells=pages)
    assert found.frame["law"].map(found.mechanism).tolist()[:2] == [
        laplace(30.0, 450.0),
        gaussian(0.01505, 90.0),
    ]
    assert day(name="2023-09-20.tsv", cells=pages).mechanism == gaussian(0.01505, 90.0)


def test_thresholds_are_inclusive(day):
    line = "Australia\tAU\ten.wikipedia\t77\tSheep\tQ7368\t{}\n"
    assert day(line.format(90)).frame["count"].tolist()[1] == 90.0
    for count in ("89", "90.5"):
        with pytest.raises(FileFormatError, match="whole numbers from 90"):
            day(line.format(count))
    assert day(line.format(450), name="2020-01-01.tsv").frame["count"].tolist()[1] == 450.0


def test_pages_may_be_a_file(day, tmp_path):
    listed = tmp_path / "pages.csv"
    PAGES.to_csv(listed, index=False)
    assert day(cells=listed).frame["count"].tolist() == [4000.0, "absent", 4100.0]


MISTAKES = {
    "no list": ({"cells": None}, InvalidInputError, "--cells FILE"),
    "a list without a column": (
        {"cells": PAGES.drop(columns="project")},
        InvalidInputError,
        "'project'",
    ),
    "a page twice": ({"cells": pd.concat([PAGES, PAGES])}, InvalidInputError, "twice"),
    "no date": ({"name": "day.tsv"}, InvalidInputError, "--date YYYY-MM-DD"),
    "no such date": ({"date": "2023-02-30"}, InvalidInputError, "--date"),
    "too early": ({"date": "2015-06-30"}, InvalidInputError, "2015-07-01"),
    "truncated": ({"lines": LINES[:-20]}, FileFormatError, "Line 3 .* has 4 cells"),
    "commas": ({"lines": LINES.replace("\t", ",")}, FileFormatError, "has 1 cells"),
    "empty": ({"lines": ""}, FileFormatError, "empty"),
    "text": ({"lines": LINES.replace("4000", "many")}, FileFormatError, "must be a number"),
    "twice": ({"lines": LINES + LINES}, FileFormatError, "second"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_missing_is_named(day, name):
    change, error, message = MISTAKES[name]
    with pytest.raises(error, match=message):
        day(**change)
