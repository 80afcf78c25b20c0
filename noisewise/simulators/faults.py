"""Simulations that fail: how many of them may, and what is said of the others."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from noisewise.errors import SimulationError
from noisewise.simulators._worker import HUNG, LOST, RAISED, Failure

_BY_CHANCE = 5
"""So many failures say nothing yet of how often a simulator fails."""


class WorkerError(Exception):
    """The traceback of a failed simulation, as text from its worker."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclasses.dataclass
class Faults:
    """The simulations of one inference that failed twice, once among others and once alone, and that are dropped.

    `max_failed` is the fraction that may. The rule allows for chance: f failures among n simulations are too many when
    f > p n + 5 + 3 sqrt(p n), with p = max_failed; none is allowed where p = 0. `width` is that of s, 0 where it is not known.

    >>> faults = Faults(max_failed=0.05)
    >>> [faults.allowed(n) for n in (10, 1_000, 100_000)]
    [7, 76, 5217]
    """

    max_failed: float = 0.0
    width: int = 0
    num_simulations: int = 0
    num_recovered: int = 0
    num_failed: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys((RAISED, HUNG, LOST), 0))
    example: str | None = None

    @property
    def total(self) -> int:
        """How many simulations were dropped."""
        return sum(self.num_failed.values())

    def allowed(self, num: int) -> int:
        """How many of `num` simulations may fail."""
        expected = self.max_failed * num
        return int(expected + _BY_CHANCE + 3.0 * math.sqrt(expected)) if expected > 0.0 else 0

    def drop(self, index: int, theta: np.ndarray, failure: Failure) -> None:
        """Count a simulation that failed for good; raises `SimulationError` where that makes too many."""
        self.num_failed[failure.kind] += 1
        where = f"theta = {theta.tolist()}"
        self.example = self.example or f"{where}: {failure.reason.rstrip('.')}."
        if self.total <= self.allowed(self.num_simulations):
            return
        if self.max_failed == 0.0:
            text = f"Simulation {index} failed at {where}: {failure.reason}"
        else:
            text = (
                f"{self.total} of {self.num_simulations} simulations failed, more than PythonSimulator(max_failed="
                f"{self.max_failed:g}) allows, the first of them at {self.example} Mend the simulator there, or let it return NaN "
                "for data that cannot have been observed."
            )
        error = SimulationError(text)
        error.__cause__ = failure.error or WorkerError(failure.trace)
        raise error

    def sentence(self) -> str | None:
        """What a reader of the result must know; None where nothing was dropped."""
        if not self.total:
            return None
        s, were = ("", "was") if self.total == 1 else ("s", "were")
        kinds = " and ".join(f"{num:,} {kind}" for kind, num in self.num_failed.items() if num)
        return (
            f"{self.total:,} simulation{s} failed twice and {were} dropped ({kinds}), the first at {self.example} "
            "If failures depend on the parameters, the posterior is biased."
        )
