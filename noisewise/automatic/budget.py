"""What one `nw.infer` may spend, and what it has spent."""

from __future__ import annotations

import time
from typing import TypedDict

import numpy as np

from noisewise.runs import Journal

_MIN_MINUTES = 1e-3
"""Minutes given to a method when none are left: methods refuse a budget of 0, and stop at once."""


class MethodBudgets(TypedDict):
    """The budgets of one method, as its settings name them."""

    max_simulations: int
    max_minutes: float | None


class Budget:
    """Simulations and minutes, shared by all methods of a search.

    With a `journal` the minutes of earlier runs count, and what the clock decided is recorded, so
    that a resumed run decides the same.
    """

    def __init__(
        self, max_simulations: int, max_minutes: float | None, journal: Journal | None = None
    ) -> None:
        self.max_simulations, self.max_minutes, self.journal = max_simulations, max_minutes, journal
        self.num_simulations = self.num_failed = 0
        self._started = time.monotonic() - (0.0 if journal is None else journal.seconds_before)

    def spend(self, num_simulations: int, num_failed: int) -> None:
        """Count simulations that a method has run."""
        self.num_simulations += num_simulations
        self.num_failed += num_failed

    @property
    def remaining(self) -> int:
        """Simulations left."""
        return max(0, self.max_simulations - self.num_simulations)

    @property
    def minutes(self) -> float:
        """Minutes spent, those of earlier runs included."""
        return (time.monotonic() - self._started) / 60.0

    def is_spent(self) -> bool:
        """Whether no simulation is left, or no time."""
        return self.remaining == 0 or (
            self.max_minutes is not None and self._is_late(self.max_minutes)
        )

    def can_spend(self, num: int) -> bool:
        """Whether `num` more simulations fit, and the time is not up."""
        return not self.is_spent() and self.remaining >= num

    def affordable(self, rate: float | None) -> int:
        """Simulations that both budgets allow, at `rate` simulations a second.

        The clock decides, so with a journal each call records its answer, or repeats what was
        recorded: calls must come in the same order in a resumed run.
        """
        if self.max_minutes is None or rate is None:
            return self.remaining
        num = int(60.0 * rate * max(0.0, self.max_minutes - self.minutes))
        if self.journal is not None:
            answer = self.journal.remembered("affordable", lambda: {"num": np.asarray(num)})
            num = int(answer["num"])
        return min(self.remaining, num)

    def left(self) -> MethodBudgets:
        """What is left, as settings of a method."""
        minutes = self.max_minutes
        if minutes is not None:
            minutes = max(minutes - self.minutes, _MIN_MINUTES)
        return {"max_simulations": max(1, self.remaining), "max_minutes": minutes}

    def _is_late(self, max_minutes: float) -> bool:
        expired = self.minutes >= max_minutes
        return expired if self.journal is None else self.journal.time_is_up(expired)
