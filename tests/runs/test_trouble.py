"""Ctrl-C, simulators that fail and disks that are full cost no more than what was under way."""

import dataclasses
import errno
import functools
import itertools
import os
import subprocess

import pytest

import noisewise as nw
from noisewise import errors
from noisewise.inference.contract.run import InferenceRun
from noisewise.runs import journal as journals
from tests.runs.interruptions import SMC, a_model, infer
from tests.runs.problems import assert_same


def test_an_interrupted_run_keeps_all_that_was_simulated(tmp_path, monkeypatch):
    """Ctrl-C in the middle of a round: every batch before it is on disk."""
    original, sizes = InferenceRun._simulated, []

    def pressed(self, keys, theta):
        if len(sizes) == 4:
            raise KeyboardInterrupt
        sizes.append(len(theta))
        return original(self, keys, theta)

    monkeypatch.setattr(InferenceRun, "_simulated", pressed)
    with pytest.raises(KeyboardInterrupt):
        infer(a_model(), run_dir=tmp_path / "run")
    assert nw.runs.read_run(tmp_path / "run").num_simulations == sum(sizes)


def test_a_failing_simulator_loses_its_batch_alone(tmp_path, simulated, monkeypatch):
    """The thirtieth simulation fails, and fails again; once the simulator is mended, what was
    simulated before is not simulated again.
    """
    monkeypatch.setattr("noisewise.inference.contract.batches._BATCH_SECONDS", 1e-3)
    broken, calls = [True], itertools.count(1)

    def simulator(rng, theta):
        if broken[0] and next(calls) >= 30:
            raise ZeroDivisionError("no such parameter")
        return theta + 0.2 * rng.normal(size=1)

    model = dataclasses.replace(
        a_model(), simulator=nw.simulators.PythonSimulator(simulator, max_failed=0.0)
    )
    method = nw.inference.ImportanceSampling(num_stages=0, num_final=100)
    with pytest.raises(errors.SimulationError, match="no such parameter"):
        infer(model, method, run_dir=tmp_path / "run")
    done = nw.runs.read_run(tmp_path / "run").num_simulations
    assert done == sum(simulated[:-1]) > 0
    broken[0] = False
    simulated.clear()
    posterior = infer(model, method, run_dir=tmp_path / "run")
    assert sum(simulated) == posterior.report.num_simulations - done
    assert_same(posterior, infer(a_model(), method))


def test_a_full_disk_is_told_and_leaves_the_last_good_state(tmp_path, monkeypatch, simulated):
    """The file system has room for so many files of the run, and no more."""
    monkeypatch.setattr(journals, "_SECONDS", 0.0)
    fsync, left = os.fsync, [0]

    def full(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    run = functools.partial(infer, a_model(), run_dir=tmp_path / "run")
    done, told = 0, 0
    for _ in range(20):
        left[0] = 6
        simulated.clear()
        try:
            posterior = run()
            break
        except errors.StorageError as error:
            words = "the disk is full. What was written before is intact. Free some space"
            assert words in str(error)  # noqa: PT017
            told += 1
        record = nw.runs.read_run(tmp_path / "run")
        assert record.damaged == ()
        assert record.num_simulations >= done
        done = record.num_simulations
    assert told >= 3
    assert sum(simulated) == posterior.report.num_simulations - done
    assert_same(posterior, infer(a_model()))
    assert isinstance(errors.StorageError("full"), OSError)


def test_a_small_file_system_that_runs_full(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs needs the rights of an administrator")
    try:
        method = dataclasses.replace(SMC, num_particles=500)
        with pytest.raises(errors.StorageError, match="the disk is full"):
            infer(a_model(), method, run_dir=folder / "run")
        assert nw.runs.read_run(folder / "run").damaged == ()
        subprocess.run(["mount", "-o", "remount,size=16m", str(folder)], check=True)
        assert_same(infer(a_model(), method, run_dir=folder / "run"), infer(a_model(), method))
    finally:
        subprocess.run(["umount", str(folder)], check=True)
