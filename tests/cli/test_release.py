"""Releases by the command line: what `nw.release` makes, a ledger that adds up, and nothing of the
data in any output.
"""

import json
import shlex
from pathlib import Path

import pytest

import noisewise as nw

COMMANDS = {
    "mean": "--query mean --column age --bounds 0 100 --epsilon 1",
    "means": (
        "--query mean --column age --column income --bounds 0 100 --bounds-of income=0,200"
        " --rho 0.5"
    ),
    "sum": "--query sum --column age --bounds 0 100 --epsilon 1",
    "sums": "--query sum --column age --column income --bounds 0 100 --rho 0.5",
    "median": "--query median --column age --candidates 20,40,60,80 --epsilon 1",
    "histogram": "--query histogram --column age --edges 0,18,65,120 --epsilon 1 --delta 1e-6",
    "equal bins": "--query histogram --column age --bounds 0 100 --bins 4 --epsilon 1",
    "table": (
        "--query contingency-table --column sex --levels sex=f,m --column smoker --levels"
        " smoker=no,yes --epsilon 1"
    ),
    "proportions": (
        "--query category-proportions --outcome smoker --predictors sex --levels sex=f,m --levels"
        " smoker=no,yes --epsilon 2"
    ),
    "regression": (
        "--query regression_moments --outcome income --predictors age,size --bounds 0 100"
        " --bounds-of size=1,8 --epsilon 5"
    ),
}
CURVES = {
    "curve": "--query infection-curve --epsilon 3",
    "curve out of 100": "--query infection-curve --trials 100 --epsilon 3",
    "some days": "--query infection-curve --column monday --column wednesday --rho 0.1",
}
KINDS = {
    "mean": ("ClampedMean", "DiscreteLaplace", 1),
    "means": ("ClampedMean", "DiscreteGaussian", 2),
    "sum": ("ClampedSum", "DiscreteLaplace", 1),
    "sums": ("ClampedSum", "DiscreteGaussian", 2),
    "median": ("Median", "ExponentialMechanism", 1),
    "histogram": ("Histogram", "DiscreteGaussian", 3),
    "equal bins": ("Histogram", "DiscreteLaplace", 4),
    "table": ("ContingencyTable", "DiscreteLaplace", 4),
    "proportions": ("CategoryProportions", "DiscreteLaplace", 4),
    "regression": ("RegressionMoments", "DiscreteLaplace", 9),
    "curve": ("InfectionCurve", "DiscreteLaplace", 3),
    "curve out of 100": ("InfectionCurve", "PaddedBinomial", 3),
    "some days": ("InfectionCurve", "DiscreteGaussian", 2),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_query_makes_a_file_that_loads(run, name):
    data, options = ("town.csv", CURVES[name]) if name in CURVES else ("people.csv", COMMANDS[name])
    result = run("release", "--data", data, *shlex.split(options), "--out", "out.json")
    assert result.exit_code == 0, result.stderr
    published = nw.Release.load("out.json")
    query, mechanism, width = KINDS[name]
    assert (published.query["type"], type(published.mechanism).__name__, len(published.values)) == (
        query,
        mechanism,
        width,
    )
    assert published.num_records == (80 if name in CURVES else 200)
    assert "Spent " in result.stdout
    assert "--ledger" in result.stdout


@pytest.mark.parametrize(
    "bounds", [["--bounds", "-5,100"], ["--bounds=-5,100"], ["--bounds", "-5", "100"]], ids=" ".join
)
def test_bounds_may_be_joined_by_a_comma(run, bounds):
    words = shlex.split("--data people.csv --query mean --column age --epsilon 1 --out out.json")
    result = run("release", *bounds, *words)
    assert result.exit_code == 0, result.stderr
    assert nw.Release.load("out.json").query["bounds"] == [[-5.0, 100.0]]


def test_the_query_and_the_data_are_those_of_the_options(run, monkeypatch):
    """With the noise taken out the published numbers are the statistics themselves, in the stated
    order.
    """
    seen = {}

    def exact(plan, read):
        seen.update(data=read(), query=plan.query, names=plan.names)

    monkeypatch.setattr("noisewise.disclosure.curator.PlannedRelease.draw", exact)
    rows = [line.split(",") for line in Path("people.csv").read_text().splitlines()[1:]]
    run("release", "--data", "people.csv", *shlex.split(COMMANDS["table"]), "--out", "out.json")
    expected = [
        sum(row[3:] == [sex, smoker] for row in rows) for sex in "fm" for smoker in ("no", "yes")
    ]
    assert seen["query"](seen["data"]).tolist() == expected
    assert seen["names"][1] == "sex=f, smoker=yes"
    run(
        "release",
        "--data",
        "people.csv",
        *shlex.split(COMMANDS["proportions"]),
        "--out",
        "out.json",
    )
    assert (200 * seen["query"](seen["data"])).round().tolist() == [
        expected[0],
        expected[2],
        expected[1],
        expected[3],
    ]
    run(
        "release", "--data", "people.csv", *shlex.split(COMMANDS["regression"]), "--out", "out.json"
    )
    assert seen["query"].bounds == ((0.0, 100.0), (1.0, 8.0), (0.0, 100.0))
    assert seen["data"][0] == [float(rows[0][0]), float(rows[0][1]), float(rows[0][2])]


def test_the_ledger_adds_up_and_refuses(run, loaded):
    mean = ["release", "--data", "people.csv", *shlex.split(COMMANDS["mean"])]
    first = loaded(*mean, "--out", "a.json", "--ledger", "ledger.json", "--budget", "1.5")
    assert first["ledger"]["remaining"] == {"type": "PureDP", "epsilon": 0.5}
    refused = run(*mean, "--out", "b.json", "--ledger", "ledger.json")
    assert refused.exit_code == 1
    assert "would pass its limit" in refused.stderr
    assert not Path("b.json").exists()
    assert len(nw.Ledger("ledger.json").entries) == 1
    half = [word if word != "1" else "0.5" for word in mean]
    shown = run(*half, "--out", "b.json", "--ledger", "ledger.json").stdout
    assert "PureDP(epsilon=0.0) is left" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        ("2", nw.PureDP(2.0)),
        ("2,1e-5", nw.ApproximateDP(2.0, 1e-5)),
        ("rho=0.7", nw.ZeroConcentratedDP(0.7)),
    ],
)
def test_budgets_of_every_kind(run, budget, limit):
    words = shlex.split(
        "release --data people.csv --query mean --column age --bounds 0 100 --rho 0.01 --out a.json"
    )
    result = run(*words, "--ledger", "ledger.json", "--budget", budget)
    assert nw.Ledger("ledger.json").limit == limit
    assert result.exit_code == (1 if budget == "2" else 0)


def test_nothing_is_overwritten_and_nothing_spent(run):
    mean = [
        "release",
        "--data",
        "people.csv",
        *shlex.split(COMMANDS["mean"]),
        "--ledger",
        "ledger.json",
        "--budget",
        "5",
    ]
    assert run(*mean, "--out", "a.json").exit_code == 0
    before = Path("a.json").read_text()
    again = run(*mean, "--out", "a.json")
    assert again.exit_code == 1
    assert "kept" in again.stderr
    assert Path("a.json").read_text() == before
    assert len(nw.Ledger("ledger.json").entries) == 1


def test_values_are_not_lost_where_the_file_cannot_be_written(run, monkeypatch):
    def full(*_):
        raise nw.errors.StorageError("The disk is full.")

    monkeypatch.setattr("noisewise._core.files.Reservation.fill", full)
    result = run(
        "release", "--data", "people.csv", *shlex.split(COMMANDS["mean"]), "--out", "a.json"
    )
    assert result.exit_code == 1
    assert nw.Release.from_json(result.stdout).names == ("mean",)
    assert "The disk is full." in result.stderr
    assert "printed above" in result.stderr
    assert "making it again would be another release" in result.stderr
    assert not Path("a.json").exists()


CONFIDENTIAL = "913.77"
LEAKS = {
    "text among numbers": "age,sex\n34,f\nXSECRETX,f\n",
    "a missing number": "age,sex\n34,f\n,XSECRETX\n",
    "not finite": "age,sex\nnan,XSECRETX\n34,f\n",
    "no names": f"XSECRETX,{CONFIDENTIAL}\n{CONFIDENTIAL},f\n",
    "no names, all text": "XSECRETX,YSECRETY\nXSECRETX,f\n",
    "uneven lines": "age,sex\n34,f,XSECRETX\n",
    "an open quotation": 'age,sex\n"34,XSECRETX\n',
    "a name given twice": "XSECRETX,XSECRETX\n34,f\n",
    "a level not listed": "age,sex\n34,XSECRETX\n",
}


@pytest.mark.parametrize("name", LEAKS)
def test_errors_never_show_the_data(run, name):
    Path("leak.csv").write_text(LEAKS[name])
    queries = [
        "--query mean --column age --bounds 0 100",
        "--query contingency-table --column sex --levels sex=f,m",
        "--query mean --bounds 0 1",
    ]
    results = [
        run(
            "release",
            "--data",
            "leak.csv",
            *shlex.split(query),
            "--epsilon",
            "1",
            "--out",
            "a.json",
        )
        for query in queries
    ]
    assert any(result.exit_code == 1 for result in results)
    for result in results:
        assert "SECRET" not in result.output
        assert CONFIDENTIAL not in result.output


def test_json_holds_what_is_public(loaded):
    found = loaded(
        "release", "--data", "people.csv", *shlex.split(COMMANDS["table"]), "--out", "a.json"
    )
    assert set(found) == {"out", "names", "values", "guarantee", "ledger"}
    assert found["values"] == list(nw.Release.load("a.json").values)
    assert json.loads(Path("a.json").read_text())["values"] == found["values"]


def test_a_ledger_is_shown(run, loaded):
    mean = ["release", "--data", "people.csv", *shlex.split(COMMANDS["mean"])]
    assert (
        run(*mean, "--out", "a.json", "--ledger", "ledger.json", "--budget", "1.5").exit_code == 0
    )
    shown = " ".join(run("ledger", "ledger.json").stdout.split())
    assert "PureDP(epsilon=1.0) of PureDP(epsilon=1.5) is spent" in shown
    assert "PureDP(epsilon=0.5) is left" in shown
    assert "mean of age, to a.json" in shown
    found = loaded("ledger", "ledger.json")
    assert [entry["description"] for entry in found["entries"]] == ["mean of age, to a.json"]
    assert run("ledger", "nothing.json").stderr.startswith("Error: There is no ledger")
