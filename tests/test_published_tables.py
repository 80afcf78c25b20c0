"""What published tables have, and the contract once refused, through every door: neighbours other
than replace-one, the sensitivity that goes with them, a scale per cell, a value that is not there,
and a cell without noise.
"""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import noisewise as nw
from noisewise.cli.app import app
from noisewise.reports import write_report

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries

ADD = nw.AddRemoveOne()
AGES = [5.0] * 12 + [30.0] * 20 + [70.0] * 8
CELLS = q.Histogram(edges=(0.0, 18.0, 65.0, 120.0))
NAMES = ("child", "adult", "old")
NOISE = m.DiscreteLaplace(scale=1.0, sensitivity=1.0, neighbours=ADD)


def with_total():
    query = q.Joint([CELLS, q.Count()])
    noise = m.Product([NOISE, m.Exact()], widths=[3, 1])
    names = (*NAMES, "total")
    return nw.release(AGES, query, mechanism=noise, names=names, invariants=["total"])


def with_missing():
    frame = pd.DataFrame({"age": NAMES, "cases": [12, 21, None], "lost": [False, False, True]})
    return nw.Release.from_table(
        frame, value="cases", labels=["age"], mechanism=NOISE, missing="lost"
    )


TABLES = {
    "add or remove one": lambda: nw.release(AGES, CELLS, nw.PureDP(1.0), neighbours=ADD),
    "a sensitivity of 1": lambda: nw.release(AGES, CELLS, mechanism=NOISE),
    "a scale per cell": lambda: nw.release(
        AGES, CELLS,
        mechanism=m.DiscreteLaplace(scale=[1.0, 2.0, 3.0], sensitivity=1.0, neighbours=ADD),
    ),
    "an absent cell": lambda: nw.release(AGES, CELLS, mechanism=m.Thresholded(NOISE, above=14.0)),
    "a missing cell": with_missing,
    "a cell without noise": with_total,
}  # fmt: skip
VALUES = {
    "an absent cell": (np.nan, 21.0, np.nan),
    "a missing cell": (12.0, 21.0, np.nan),
    "a cell without noise": (13.0, 19.0, 8.0, 40.0),
}
"""What was released in one draw of the noise, where it is not (13, 19, 8)."""
MODEL = """
import jax, jax.numpy as jnp, numpyro.distributions as dist
import noisewise as nw

def counts(key, theta):
    cells = jax.random.poisson(key, jnp.exp(theta), (3,)).astype(float)
    return jnp.append(cells, cells.sum())

def model(release):
    k = len(release.values)
    return nw.PrivateModel.from_release(
        release,
        prior=nw.Prior({"log_rate": dist.Normal(2.5, 0.5)}),
        simulator=nw.simulators.JaxSimulator(counts),
        query=lambda x: x[:k],
    )
"""
QUICK = ("--method", "importance", "--set", "num_final=4000", "--set", "num_stages=0")


def model_of(release):
    space: dict = {}
    exec(MODEL, space)  # the same text that the command line reads from a file
    return space["model"](release)


def apart_from(*names):
    """All tables, of which the fast suite leaves these to others."""
    return pytest.mark.parametrize(
        "release",
        [pytest.param(name, marks=[pytest.mark.slow] * (name in names)) for name in TABLES],
        indirect=True,
    )


@pytest.fixture
def release(request):
    """A table as it is released, with values of one draw: what follows does not depend on luck."""
    values = VALUES.get(request.param, (13.0, 19.0, 8.0))
    return dataclasses.replace(TABLES[request.param](), values=values)


@pytest.mark.parametrize("name", TABLES)
def test_it_is_released_and_kept(name):
    release = TABLES[name]()
    again = nw.Release.from_json(release.to_json())
    assert again == release
    assert release.neighbours == ADD
    assert len(release.table) == len(release.values)


def test_it_was_refused_for_good_reason_where_the_claim_is_false():
    """The planted error: the same noise, claimed for the replacement of one record."""
    with pytest.raises(nw.errors.SensitivityError):
        nw.release(AGES, CELLS, mechanism=m.DiscreteLaplace(scale=1.0, sensitivity=1.0))
    with pytest.raises(nw.errors.ReleaseError, match="promises nothing"):
        nw.release(AGES, q.Joint([CELLS, q.Count()]), names=(*NAMES, "total"),
                   mechanism=m.Product([NOISE, m.Exact()], widths=[3, 1]))  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@apart_from("add or remove one", "a sensitivity of 1", "a missing cell")
def test_it_is_inferred_from_planned_and_reported(release, tmp_path):
    model = model_of(release)
    budget = {"target_ess": 300, "max_simulations": 10_000}
    posterior = nw.infer(jax.random.key(0), model, release, **budget, progress=False)
    mean = posterior.summary()["mean"].iloc[0]
    assert abs(mean - np.log(40 / 3)) < 0.5
    found = nw.plan(
        jax.random.key(1), model, [0.5, 5.0], num_simulations=2000, num_releases=20, progress=False
    )
    sd = found.table["mean sd"]
    assert sd.iloc[0] > 0.0
    page = write_report(
        tmp_path / "r.html", posterior, title="Cases", model=model, observed=release
    ).read_text()
    assert ("absent" in page) == bool(release.table["absent"].any())
    assert ("missing</td>" in page) == bool(release.missing.any())
    assert ("no privacy claimed" in page) == (release.guarantee == nw.NoGuarantee())


@apart_from("a sensitivity of 1", "a scale per cell", "an absent cell", "a cell without noise")
def test_it_goes_through_the_command_line(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    release.save("table.json")
    run = lambda *words: CliRunner().invoke(app, list(map(str, words)))
    found = run("infer", "model.py", "--release", "table.json", *QUICK, "--out", "run", "--json")
    assert found.exit_code in (0, 3, 4), found.stderr
    mean = json.loads(found.stdout)["summary"]["log_rate"]["mean"]
    assert abs(mean - np.log(40 / 3)) < 0.5
    Path("run/report.html").unlink()
    reported = run("report", "run", "--model", "model.py")
    assert reported.exit_code == 0, reported.stderr
    assert "add" in Path("run/report.html").read_text()
    planned = run("plan", "model.py:model", "--release", "table.json", "--epsilon", 0.5, 5,
                  "--simulations", 2000, "--releases", 20, "--json")  # fmt: skip
    assert planned.exit_code == 0, planned.stderr or planned.exception
    assert len(json.loads(planned.stdout)["table"]) == 2


def test_the_command_line_releases_tables_with_a_threshold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age\n" + "\n".join(map(str, [5.0] * 400 + [70.0])) + "\n")
    words = ["release", "--data", "people.csv", "--query", "histogram", "--column", "age",
             "--edges", "0,18,65,120", "--epsilon", "1", "--threshold", "90",
             "--neighbours", "add-remove", "--out", "t.json", "--json"]  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["values"][1:] == [None, None]
    published = nw.Release.load("t.json")
    assert published.table["absent"].tolist() == [False, True, True]
    assert published.guarantee == nw.PureDP(1.0, neighbours=ADD)
    refused = CliRunner().invoke(app, [*words[:4], "sum", *words[5:-1], "--bounds", "0", "9"])
    assert refused.exit_code != 0
