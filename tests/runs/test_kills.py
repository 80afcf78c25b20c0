"""SIGKILL at random moments: every file loads, at most one batch is lost, and the posterior is the
same to the last bit.

All kills are real ones of real processes. Half of those in the fast suite strike right after a
system call that changes a file, chosen at random, which random times would seldom hit; the other
half, and most of the slow gate, strike at random times.

Planted, and caught: rows taken from the start of their file whatever their place in it.
"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import noisewise as nw
from noisewise.runs.journal_files import journal_files, read_contents
from tests.runs import problems


class Nursery:
    """Processes that are born with everything imported, and may be killed."""

    def __enter__(self):
        command = [sys.executable, "-m", "tests.runs.problems"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline().strip() == "ready"
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def sitting(self, name, folder, log, *, count=0, seconds=None):
        """How one sitting ended, 0 or -9, and how long it took; killed after `count` calls, or
        `seconds`.
        """
        started = time.monotonic()
        pid = int(self._ask(f"{name} {folder} {log} {count}"))
        if seconds is not None:
            time.sleep(seconds)
            os.kill(
                pid, signal.SIGKILL
            )  # it may be dead, but keeps its number until the nursery waits for it
        return int(self._ask("wait")), time.monotonic() - started

    def _ask(self, text):
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


def rows_on_disk(folder):
    """How many simulations the journal holds; every file of the run is read on the way, and must be
    whole.
    """
    if not (folder / "run.json").exists():
        return 0
    record = nw.runs.read_run(folder)
    assert record.damaged == ()
    if (folder / "posterior" / "manifest.json").exists():
        nw.load_posterior(folder)
    contents = [read_contents(path, record.id) for path in journal_files(folder / "journal")]
    return sum(step["rows"] for part in contents for step in part.steps if step["kind"] == "rows")


def begun(lines):
    return sum(int(line) for line in lines if line != "written")


def check_kills(tmp_path, name, kills):
    """`kills` is a list of (count, share of a sitting): what ends each sitting; those that end by
    themselves are not counted.
    """
    expected = problems.infer(name)
    log = tmp_path / "log"
    with Nursery() as nursery:
        code, duration = nursery.sitting(name, tmp_path / "whole", log)
        assert code == 0
        assert begun(log.read_text().split()) == expected.report.num_simulations
        folders = (tmp_path / f"run{number}" for number in range(10_000))
        folder, killed, finished = next(folders), 0, 0
        while killed < len(kills):
            count, share = kills[killed]
            log.write_text("")
            before = rows_on_disk(folder)
            seconds = None if count else share * duration
            code, _ = nursery.sitting(name, folder, log, count=count, seconds=seconds)
            lines = log.read_text().split()
            lost = begun(lines) - (rows_on_disk(folder) - before)
            last = max((i for i, line in enumerate(lines) if line == "written"), default=-1)
            assert 0 <= lost <= begun(lines[last + 1 :])
            if code == 0:
                duration *= 0.8  # the first sitting compiled what later ones find compiled
                assert lost == 0
                problems.assert_same(nw.load_posterior(folder), expected)
                folder, finished = next(folders), finished + 1
            else:
                assert code == -signal.SIGKILL
                killed += 1
        code, _ = nursery.sitting(name, folder, log)
        assert code == 0
        problems.assert_same(nw.load_posterior(folder), expected)
    return finished


def mixed_kills(num):
    """After some system call, and at some time, in turn."""
    rng = np.random.default_rng(0)
    return [
        (int(rng.integers(1, 16)), 0.0) if i % 2 else (0, rng.uniform(0.1, 1.0)) for i in range(num)
    ]


@pytest.mark.parametrize(
    "num", [4, *(pytest.param(num, marks=pytest.mark.slow) for num in (8, 40))]
)
def test_kills_of_a_sequential_run(num, tmp_path):
    check_kills(tmp_path, "smc-abc", mixed_kills(num))


@pytest.mark.slow
@pytest.mark.parametrize("name", problems.METHODS)
def test_fifty_kills_at_random_times(name, tmp_path):
    rng = np.random.default_rng(1)
    check_kills(tmp_path, name, [(0, rng.uniform(0.1, 1.0)) for _ in range(50)])
