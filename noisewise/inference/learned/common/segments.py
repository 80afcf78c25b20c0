"""Hamiltonian chains that go on segment by segment until they have settled."""

from __future__ import annotations

import abc

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.inference.contract.chains import Trace
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.samplers.hamiltonian import HamiltonianDraws, Tuning

NUM_CANDIDATES = 4096
"""Points that starts are resampled from: 40 for each of the usual 100 chains, four blocks of the
rows that densities are evaluated in.
"""
THIN = 2
"""Iterations per draw: neighbours are correlated, and half of them say as much in half the memory.
"""
_MAX_SEGMENTS = 40
"""Segments after which chains that have not settled are given up: they are stuck, not slow."""


class AbstractSegmentedChains(abc.ABC):
    """Chains whose draws are collected in `trace`; `latest` is the last segment."""

    trace: Trace
    latest: HamiltonianDraws

    def finish(self, key: Array, run: InferenceRun) -> None:
        """Go on until the effective size and R-hat are as wanted, for 40 segments at most, or until
        the time is up.
        """
        for segment in range(_MAX_SEGMENTS):
            if self.trace.complete():
                break
            try:
                run.check_time()
            except OutOfBudget:
                break
            segment_key, start = jax.random.fold_in(key, segment), self.latest.draws[-1]
            self._segment(run, segment_key, start, num_warmup=0, tuning=self.latest.tuning)
        self.trace.look()

    @abc.abstractmethod
    def _segment(
        self,
        run: InferenceRun,
        key: Array,
        start: Float[np.ndarray, "c p"],
        *,
        num_warmup: int,
        tuning: Tuning | None,
    ) -> None:
        """Draw one more segment of all chains from `start`, into `latest` and `trace`."""
