"""Simulations that fail: how many may, and what is reported of them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from noisewise.errors import FileFormatError, SimulationError
from noisewise.simulators._worker import HUNG, LOST, RAISED, Failure

FIRST_SIMULATIONS = 8
"""Give up if the first 8 simulations all fail: at a failure rate of 1 in 2 that is 1 in 256."""

_ALLOWED_BY_CHANCE = 5
"""Failures that are always allowed where any are: so few show no failure rate yet."""


class WorkerError(Exception):
    """The traceback of a failed simulation, as text from its worker."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclasses.dataclass
class Faults:
    """The dropped simulations of one inference: those that failed in a batch and again alone.

    The rule allows for chance: f failures among n simulations are too many when

        f > p n + 5 + 3 sqrt(p n),      p = max_failed,

    and none is allowed where p = 0. Simulations count from when they are begun, so that it does not
    matter which of them end first.

    Attributes:
        max_failed: Fraction of simulations that may fail.
        width: Number of entries of s; 0 where it is not known.
        num_simulations: Simulations begun.
        num_recovered: Simulations that failed in a batch and succeeded alone.
        num_failed: Dropped simulations by the way in which they failed.
        example: The first dropped simulation, its theta and reason.

    Example:
        >>> faults = Faults(max_failed=0.05)
        >>> [faults.allowed(n) for n in (10, 1_000, 100_000)]
        [7, 76, 5217]
    """

    max_failed: float = 0.0
    width: int = 0
    num_simulations: int = 0
    num_recovered: int = 0
    num_failed: dict[str, int] = dataclasses.field(
        default_factory=lambda: dict.fromkeys((RAISED, HUNG, LOST), 0)
    )
    example: str | None = None
    _example_at: tuple[int, int] | None = None
    _calls: int = 0

    @property
    def total(self) -> int:
        """How many simulations were dropped."""
        return sum(self.num_failed.values())

    def allowed(self, num: int | None = None) -> int:
        """How many simulations may fail.

        Args:
            num: Number of simulations; by default all that were begun.

        Returns:
            The largest number of failures that is not too many.
        """
        expected = self.max_failed * (self.num_simulations if num is None else num)
        if expected <= 0.0:
            return 0
        return int(expected + _ALLOWED_BY_CHANCE + 3.0 * math.sqrt(expected))

    def begin(self, num: int) -> None:
        """Count simulations that are about to be run together."""
        self.num_simulations += num
        self._calls += 1

    def drop(self, index: int, theta: np.ndarray, failure: Failure) -> None:
        """Count a simulation that failed for good.

        Args:
            index: Number of the simulation in its call.
            theta: Its parameters, shape (d,).
            failure: What went wrong.

        Raises:
            SimulationError: If that makes too many.
        """
        self.num_failed[failure.kind] += 1
        where = f"theta = {theta.tolist()}"
        place = (self._calls, index)
        if self._example_at is None or (
            self._example_at[0] == place[0] and place < self._example_at
        ):
            self.example, self._example_at = f"{where}: {failure.reason.rstrip('.')}.", place
        if self.total <= self.allowed():
            return
        if self.max_failed == 0.0:
            raise _caused(f"Simulation {index} failed at {where}: {failure.reason}", failure)
        self.refuse(f"{self.total:,} of {self.num_simulations:,} simulations failed", failure)

    def refuse(self, found: str, failure: Failure) -> None:
        """Raise a `SimulationError` with an example.

        Args:
            found: What was found, such as "136 of 2,000 simulations failed".
            failure: The failure that the error names as its cause.
        """
        text = (
            f"{found}, more than PythonSimulator(max_failed={self.max_failed:g}) allows, the first"
            f" of them at {self.example} Fix the simulator there, or let it return np.nan in place"
            " of data that cannot have been observed."
        )
        raise _caused(text, failure)

    def numbers(self) -> dict[str, Any] | None:
        """What a reader of the result must know.

        Returns:
            Counts of dropped simulations, the ways in which they failed, and an example; None where
            none was dropped.
        """
        if not self.total:
            return None
        counts, kinds = list(self.num_failed.values()), list(self.num_failed)
        return {"counts": counts, "kinds": kinds, "example": str(self.example)}

    # On disk --------------------------------------------------------------------------------------

    def to_spec(self) -> dict[str, Any] | None:
        """The counts as JSON-ready values for a journal; None where nothing ever failed."""
        if not self.total and not self.num_recovered:
            return None
        failed = list(self.num_failed.values())
        return {"failed": failed, "recovered": self.num_recovered, "example": self.example}

    def restore(self, num: int, spec: Any) -> None:
        """Count simulations that an earlier session recorded.

        Args:
            num: Number of simulations.
            spec: What `to_spec()` returned after them.

        Raises:
            FileFormatError: If `spec` is damaged.
        """
        self.begin(num)
        if spec is None:
            return
        try:
            counts = [*spec["failed"], spec["recovered"]]
            whole = all(type(count) is int and count >= 0 for count in counts)
            if not whole or len(counts) != len(self.num_failed) + 1:
                raise ValueError
            example = spec["example"] if spec["example"] is None else str(spec["example"])
        except (KeyError, TypeError, ValueError):
            raise FileFormatError(
                "The journal does not say which simulations failed: delete the run."
            ) from None
        self.num_failed = dict(zip(self.num_failed, counts, strict=False))
        self.num_recovered = counts[-1]
        if example is not None:
            self.example, self._example_at = example, (0, 0)


def _caused(text: str, failure: Failure) -> SimulationError:
    error = SimulationError(text)
    error.__cause__ = failure.error or (WorkerError(failure.trace) if failure.trace else None)
    return error
