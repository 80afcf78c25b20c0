"""Runs for the tests of run directories; as a program, sittings of them in processes that are
killed.

    python -m tests.runs.problems

reads lines "NAME FOLDER LOG COUNT" and starts a process for each, whose number it prints, and at
the next line how it ended. LOG gets a line for each batch of simulations that is begun, with its
size, and one for each write of the journal. With a COUNT above 0 the process kills itself, by
SIGKILL, after so many system calls that flush, rename or link a file. Processes are forked before
JAX has started any thread.
"""

import dataclasses
import os
import signal
import sys

import jax
import numpy as np

import noisewise as nw
from tests.inference.methods import QUICK, SMALL

METHODS = {
    "smc-abc": nw.inference.SMCABC(num_particles=200, num_rounds=6),
    "sppe": nw.inference.PrivatePosteriorEstimation(
        num_rounds=4,
        num_simulations=1500,
        estimator=SMALL,
        training=QUICK,
        num_noise=2,
        noise_bank=8,
    ),
}


def infer(name, folder=None):
    problem = nw.problems.sir(10.0)
    return METHODS[name].infer(
        jax.random.key(11), problem.model, problem.observed, run_dir=folder, progress=False
    )


def arrays_of(posterior):
    return {
        "theta": posterior.theta,
        "weights": posterior.weights,
        **posterior._own_arrays(),
        **posterior.derived,
    }


def assert_same(one, other):
    """All arrays are equal to the last bit, and so is the report, apart from the time."""
    assert type(one) is type(other)
    expected = arrays_of(other)
    assert arrays_of(one).keys() == expected.keys()
    for name, array in arrays_of(one).items():
        assert np.asarray(array).tobytes() == np.asarray(expected[name]).tobytes(), name
    assert dataclasses.replace(one.report, seconds=0.0) == dataclasses.replace(
        other.report, seconds=0.0
    )


def logged(log):
    """Tell `log` of every batch of simulations before it is begun, and of every write of the
    journal once it is done.
    """
    from noisewise.inference.contract.run import InferenceRun
    from noisewise.runs.journal import Journal

    simulated, flush = InferenceRun._simulated, Journal.flush

    def told_simulated(self, keys, theta):
        log.write(f"{len(theta)}\n")
        log.flush()
        return simulated(self, keys, theta)

    def told_flush(self):
        flush(self)
        log.write("written\n")
        log.flush()

    InferenceRun._simulated, Journal.flush = told_simulated, told_flush


def die_after(count):
    """SIGKILL this process right after the `count`-th call of fsync, replace or link: moments
    between which files change.
    """
    left = [count]

    def dying(call):
        def called(*args, **more):
            result = call(*args, **more)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return called

    for name in ("fsync", "replace", "link"):
        setattr(os, name, dying(getattr(os, name)))


def sitting(name, folder, log, count):
    logged(open(log, "a"))  # noqa: SIM115
    if int(count):
        die_after(int(count))
    infer(name, folder)


if __name__ == "__main__":
    nw.problems.sir  # noqa: B018  imports Numba once, for all processes
    print("ready", flush=True)
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            sitting(*line.split())
            os._exit(0)
        print(pid, flush=True)
        sys.stdin.readline()
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
