"""Where the time of an inference goes, and at which parameters it simulates."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import noisewise as nw
from noisewise.inference.learned.common import learning

KEPT = 64
"""Simulated parameters that are remembered of one round, by which the cost of other simulators can
be told.
"""


class Stopwatch:
    """Seconds of simulation and of training since `reset`, and a sample of the parameters that were
    simulated.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin a round."""
        self.simulation = self.training = 0.0
        self._theta: list[np.ndarray] = []

    def timed(self, model: nw.PrivateModel) -> TimedModel:
        """The same model, whose simulations are timed."""
        stages = {
            name: getattr(model, name)
            for name in ("prior", "simulator", "query", "mechanism", "derived")
        }
        made = TimedModel(**stages)
        object.__setattr__(made, "watch", self)
        return made

    @contextlib.contextmanager
    def simulating(self, theta: Any) -> Iterator[None]:
        """Count what is done here as simulation at theta (N, d)."""
        started = time.perf_counter()
        yield
        self.simulation += time.perf_counter() - started
        self._theta.append(np.asarray(theta, dtype=float))

    @property
    def theta(self) -> np.ndarray:
        """Up to `KEPT` of the parameters that were simulated, evenly spread; none where none were."""
        if not self._theta:
            return np.zeros((0, 0))
        rows = np.concatenate(self._theta)
        return rows[np.linspace(0, len(rows) - 1, min(KEPT, len(rows))).astype(int)]


class TimedModel(nw.PrivateModel):
    """A model that tells a stopwatch when it simulates."""

    watch: Stopwatch

    def statistics(self, key: Any, theta: Any, **more: Any) -> np.ndarray:
        with self.watch.simulating(theta):
            return super().statistics(key, theta, **more)


@contextlib.contextmanager
def training_timed(watches: list[Stopwatch]) -> Iterator[None]:
    """Share out the time of every training in here among the trials that train together."""
    original = learning.train

    def train(*args: Any, **settings: Any) -> Any:
        started = time.perf_counter()
        try:
            return original(*args, **settings)
        finally:
            share = (time.perf_counter() - started) / len(watches)
            for watch in watches:
                watch.training += share

    learning.train = train
    try:
        yield
    finally:
        learning.train = original
