"""Fixtures that interrupt runs and count what is simulated."""

import functools

import pytest

from noisewise.inference.contract.run import InferenceRun
from noisewise.runs import journal as journals
from tests.runs.interruptions import Interrupted


@pytest.fixture
def interrupt(monkeypatch):
    """`interrupt(n)` raises after the n-th file that a journal writes from now on, which it does at
    every step.
    """
    monkeypatch.setattr(journals, "_SECONDS", 0.0)
    write, left = journals.write_arrays, [0]

    def written(*args, **more):
        write(*args, **more)
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted

    monkeypatch.setattr(journals, "write_arrays", written)
    return functools.partial(left.__setitem__, 0)


@pytest.fixture
def simulated(monkeypatch):
    """The sizes of batches that were simulated."""
    sizes, original = [], InferenceRun._simulated

    def counted(self, keys, theta):
        sizes.append(len(theta))
        return original(self, keys, theta)

    monkeypatch.setattr(InferenceRun, "_simulated", counted)
    return sizes
