"""Real processes: how fast they start, how they exit, and Ctrl-C."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from noisewise.cli.requests import remembered
from tests.cli.conftest import start

SLOW_MODEL = """
import os, pathlib, time
import numpyro.distributions as dist
import noisewise as nw


def simulate(rng, theta):
    pathlib.Path(f"simulating-{os.getpid()}").touch()
    time.sleep(0.02)
    return rng.normal(theta[0], 1.0, size=(200, 1))


def model(release):
    prior = nw.Prior({"mean": dist.Normal(50.0, 20.0)})
    return nw.PrivateModel.from_release(release, prior=prior, simulator=nw.simulators.PythonSimulator(simulate))
"""


def wait_for(path, process, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def group_ends(group, seconds=10.0):
    """Whether no process of the group is left soon."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_help_starts_fast(folder):
    process = start("--help")
    _, _ = process.communicate()
    assert process.returncode == 0
    before = os.times()
    start("infer", "--help").communicate()
    after = os.times()
    # CPU time, which other processes on the machine change little
    assert (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    ) < 1.0


@pytest.mark.parametrize(
    ("words", "code"),
    [(("problems", "--json"), 0), (("infer", "sri"), 1), (("infr",), 1), (("infer", "--no"), 1)],
)
def test_exit_codes_and_streams(folder, words, code):
    process = start(*words)
    out, err = process.communicate()
    assert process.returncode == code
    assert (out == "", err == "") == (bool(code), not code)
    assert "Traceback" not in err
    if not code:
        assert {"sir", "gaussian-mean"} <= {item["slug"] for item in json.loads(out)}


def test_output_may_be_cut_off(folder):
    process = start("methods")
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait() in (0, 1)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_interrupted_runs_end_at_once_and_say_how_to_go_on(folder, workers):
    Path("slow.py").write_text(SLOW_MODEL)
    words = (
        "infer",
        "slow.py",
        "--release",
        "release.json",
        "--workers",
        workers,
        "--out",
        "runs/a b",
    )
    process = start(*words, start_new_session=True)
    wait_for(Path("runs/a b/command.json"), process)
    deadline = time.monotonic() + 120.0
    while (
        len(list(folder.glob("simulating-*"))) < (1 if workers == 1 else 1 + workers)
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    time.sleep(1.0)
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - begun < 2.0
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last == "Interrupted. To resume: noisewise resume 'runs/a b'"
    assert remembered(Path("runs/a b")).target == "slow.py:model"
    assert group_ends(process.pid)


@pytest.mark.slow
def test_interrupted_training_ends_at_once(folder):
    process = start(
        "infer", "sir", "--method", "sppe", "--set", "num_simulations=500", "--out", "runs/a"
    )
    wait_for(Path("runs/a/command.json"), process)
    time.sleep(6.0)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - begun < 2.0
    assert process.returncode == 130
    assert err.strip().endswith("noisewise resume runs/a")
