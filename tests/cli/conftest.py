"""A folder with small data, a model file and releases, in which commands run."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import noisewise as nw
from noisewise.cli.app import app

ROOT = Path(__file__).parent.parent.parent

MODEL = """
import jax
import numpy as np
import numpyro.distributions as dist
import noisewise as nw

prior = nw.Prior({"mean": dist.Normal(50.0, 20.0)})
simulator = nw.simulators.JaxSimulator(lambda key, theta: theta + 10.0 * jax.random.normal(key, (200, 1)))


def model(release):
    return nw.PrivateModel.from_release(release, prior=prior, simulator=simulator)


def wrong(release):
    near_44 = nw.Prior({"mean": dist.Normal(44.0, 0.01)})
    return nw.PrivateModel.from_release(release, prior=near_44, simulator=simulator)


def slow(release):
    import time

    def simulate(seed, theta):
        time.sleep(0.5)
        return np.random.default_rng(seed).normal(theta, 10.0, size=(200, 1))

    waits = nw.simulators.PythonSimulator(simulate)
    return nw.PrivateModel.from_release(release, prior=prior, simulator=waits)


def three():
    return 3


def pair(release, other):
    return None


def undefined(release):
    return nw.PrivateModel(prior=prios)


def narrow(release):
    few = nw.simulators.JaxSimulator(lambda key, theta: theta + jax.random.normal(key, (7, 1)))
    return nw.PrivateModel.from_release(release, prior=prior, simulator=few)
"""

SURVEY = """rr,age,sex,town,income,share,visits,negative
0,2.1,f,1,10,0.1,7,1
1,3.5,m,2,20,0.2,9,1
1,4.2,f,3a,,0.1,12,1
0,5.9,m,4,40,0.2,10,-1
1,6.6,f,5,50,0.1,8,1
0,2.8,m,6,60,0.2,11,1
"""


def fill():
    """Data, a model and releases, in the working directory."""
    rng = random.Random(7)
    people = [
        f"{rng.randint(0, 99)},{rng.uniform(1, 8):.1f},{rng.gauss(50, 20):.2f},{rng.choice('fm')},{rng.choice(('no', 'yes'))}"
        for _ in range(200)
    ]
    Path("people.csv").write_text("age,size,income,sex,smoker\n" + "\n".join(people) + "\n")
    town = ["".join(f"{int(rng.random() < p)}," for p in (0.02, 0.3, 0.1))[:-1] for _ in range(80)]
    Path("town.csv").write_text("monday,tuesday,wednesday\n" + "\n".join(town) + "\n")
    Path("stays.csv").write_text("district,count,size\nNorth,12,3\nSouth,X,4\n")
    Path("pages.csv").write_text("country_code,project,page_id\nAU,en.wikipedia,77\n")
    Path("survey.csv").write_text(SURVEY)
    Path("semicolons.csv").write_text(SURVEY.replace(",", ";"))
    Path("model.py").write_text(MODEL)
    mechanism = nw.mechanisms.DiscreteLaplace(scale=0.5, sensitivity=0.5, step=1 / 200)
    query = nw.queries.ClampedMean(bounds=(0.0, 100.0), num_records=200, grid=1.0)
    nw.Release([51.0], mechanism, query=query, description="mean age").save("release.json")
    nw.Release([50.8], mechanism, query=query).save("second.json")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory of a test: people.csv, town.csv, model.py, and releases of ages.csv."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fill()
    return tmp_path


@pytest.fixture
def run(folder):
    """Run a command in this process; returns what typer's runner does."""
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def loaded(run):
    """Run a command that must succeed, and read its JSON."""

    def read(*words, code=0):
        result = run(*words, "--json")
        assert result.exit_code == code, result.stderr
        return json.loads(result.stdout)

    return read


def start(*words, **more):
    """A real process, in the working directory of the test. It hears SIGINT, which workers of
    pytest-xdist ignore and pass on ignored.
    """
    heard = (
        "import os, signal, sys; signal.signal(2, signal.SIG_DFL); os.execv(sys.executable,"
        " [sys.executable] + sys.argv[1:])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", heard, "-m", "noisewise", *map(str, words)]
    return subprocess.Popen(command, env=environment, **pipes, **more)
