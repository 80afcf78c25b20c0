"""One inference under way: what it simulates, its budgets, and its journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, is_key
from noisewise._core.keys import split
from noisewise._core.row_keys import as_keys, fold_in_rows, key_words
from noisewise.errors import FileFormatError, ResumeError
from noisewise.inference.contract.batches import num_at_once
from noisewise.inference.contract.progress import ProgressBar, planned
from noisewise.inference.contract.recorded import refilled
from noisewise.inference.contract.reporting import RunReport
from noisewise.inference.contract.surprise import p_value
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Kind, Stop, StopKind
from noisewise.runs.journal import Journal
from noisewise.runs.journal_files import Result
from noisewise.simulators import Faults

T = TypeVar("T")

NUM_PRIOR_CHECK = 400
"""Prior simulations that show whether the observation is surprising: the smallest p-value from
fewer would not be below `_SURPRISING_P`.
"""

_SURPRISING_P = 0.005
"""p-value below which an observation is called surprising: one model in 200 that is right."""

_P_VALUE = "prior predictive p-value"
"""The p-value's name in `report.numbers`."""


class OutOfBudget(Exception):  # noqa: N818, a signal to methods, never an error to users
    """Raised to a method when nothing more may be simulated; the method then returns what it
    has.
    """


class InferenceRun(RunReport):
    """What a method works with while it infers.

    A method simulates through `statistics`, which counts every simulation and keeps both budgets.
    Other expensive steps go through `remember`, or through `advance` where chains have a state.
    With a `journal` both are recorded, and what an earlier run recorded is not done again.

    Args:
        method: The method's slug, for the report.
        settings: Its settings, JSON-ready, for the report.
        model: The model.
        observed: The private statistic, checked, shape (k',).
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.
        executor: Runs simulators that are written in Python.
        progress: Whether to show a progress bar on a terminal.
        journal: Where work is recorded; None without a run directory.
        seconds: Seconds that earlier runs of this journal have spent.
        faults: Counts of failed simulations, shared where several runs belong together.
    """

    def __init__(
        self,
        method: str,
        settings: dict[str, Any],
        model: PrivateModel,
        observed: Float[np.ndarray, " kp"],
        *,
        max_simulations: int | None = None,
        max_minutes: float | None = None,
        executor: Executor | None = None,
        progress: bool = False,
        journal: Journal | None = None,
        seconds: float = 0.0,
        faults: Faults | None = None,
    ) -> None:
        bar = ProgressBar(method, planned(settings, max_simulations)) if progress else None
        faults = model.new_faults() if faults is None else faults
        super().__init__(method, settings, model, faults, bar, seconds)
        self.observed = observed
        self.executor, self.journal = executor, journal
        self._deadline = None if max_minutes is None else self._start + 60.0 * max_minutes
        self._max_simulations = max_simulations
        self._speed: float | None = None

    # Simulating -----------------------------------------------------------------------------------

    @property
    def remaining(self) -> int | None:
        """Simulations that may still be run; None without a limit."""
        limit = self._max_simulations
        return None if limit is None else limit - self.num_simulations

    def statistics(self, key: Array, theta: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m k"]:
        """Simulate, within the budgets.

        Row i runs with the key `fold_in(key, i)`, or with the i-th of an array of keys, so that no
        result depends on the clock.

        Args:
            key: A key, or an array of keys, one per row of theta.
            theta: Parameters, shape (n, d).

        Returns:
            Statistics s, shape (m, k), of the first m rows: all of them, or as many as the budgets
            allow. Rows of failed simulations hold NaN, and are counted.

        Raises:
            OutOfBudget: If the budgets allow none.
        """
        allowed = len(theta) if self.remaining is None else min(len(theta), self.remaining)
        if allowed <= 0:
            raise OutOfBudget(self._spend_all())
        keys = (
            fold_in_rows(key, np.arange(allowed))
            if is_key(key)
            else as_keys(key, len(theta))[:allowed]
        )
        if self.journal is not None:
            self.journal.begin()
        parts: list[np.ndarray] = []
        done = 0
        while done < allowed:
            self._check_time(partial=bool(parts))
            if self._time_is_up():
                break
            s = self._next_rows(keys, theta[:allowed], done)
            parts.append(s)
            done += len(s)
            self.num_failed += int(np.isnan(s).any(axis=1).sum())
            self._count(len(s))
        return np.concatenate(parts)

    def _next_rows(self, keys: Array, theta: np.ndarray, done: int) -> np.ndarray:
        """Statistics of some rows after the first `done`: those in the journal if there are any,
        else as many as are simulated at once.
        """
        left = len(theta) - done
        kept = self.journal is not None
        if kept or self._deadline is not None:
            simulator = self.model.simulator
            left = min(left, num_at_once(simulator, self.executor, self._speed, kept=kept))
        if self.journal is None:
            return self._simulated(keys[done : done + left], theta[done : done + left])
        words = key_words(keys)[0]
        found = self.journal.recall_rows(words, theta)
        if found is not None:
            s, faults = found
            self._faults.restore(len(s), faults)
            self._compare(keys[done : done + len(s)], theta[done : done + len(s)], s)
            return s
        size = min(left, self.journal.unknown_rows() or left)
        s = self._simulated(keys[done : done + size], theta[done : done + size])
        self.journal.keep_rows(words, theta, s, self._faults.to_spec())
        return s

    def _simulated(self, keys: Array, theta: np.ndarray) -> np.ndarray:
        started = time.monotonic()
        s = self.model.statistics(keys, theta, executor=self.executor, faults=self._faults)
        self._speed = len(theta) / max(time.monotonic() - started, 1e-9)
        return s

    def _compare(self, keys: Array, theta: np.ndarray, recorded: np.ndarray) -> None:
        """Simulate one recorded row again, the first time that recorded rows are used, and refuse a
        model that gives other numbers.
        """
        if self.journal is None:
            return
        if recorded.shape[1] != self.model.statistic_width:
            raise FileFormatError(
                f"The journal in {self.journal.folder} holds statistics of another width:"
                " delete it."
            )
        if self.journal.checked:
            return
        finite = np.isfinite(recorded).all(axis=1)
        if not finite.any():
            return
        row = int(np.argmax(finite))
        again = self.model.statistics(
            keys[row : row + 1], theta[row : row + 1], executor=self.executor
        )
        if not np.array_equal(again, recorded[row : row + 1], equal_nan=True):
            raise ResumeError(
                "The model no longer simulates the numbers it did when the run in"
                f" {self.journal.folder.parent} started. It was left as it is. Use the simulator"
                " and the query of that run to resume it, or another folder for a new run."
            )
        self.journal.checked = True

    def _count(self, num: int) -> None:
        self.num_simulations += num
        if self._bar:
            self._bar.update(self.num_simulations)

    # Remembering ----------------------------------------------------------------------------------

    def remember(
        self, name: str, compute: Callable[[], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Compute arrays once, and take them from the journal afterwards.

        Args:
            name: What the step is called in the journal.
            compute: Makes the arrays, by name. It must not simulate.

        Returns:
            The arrays, computed now or in an earlier run.
        """
        if self.journal is None:
            return compute()
        self.journal.begin()
        found = self.journal.recall(name)
        if found is None:
            arrays = compute()
            found = Result(arrays, self.stop.to_record())
            self.journal.keep(name, found)
        self.stop = Stop.from_record(found.stopped)
        return found.arrays

    def advance(
        self, name: str, state: T, compute: Callable[[], tuple[T, dict[str, np.ndarray]]]
    ) -> tuple[T, dict[str, np.ndarray]]:
        """Move chains by one step, or take the step from the journal.

        The draws of all steps are recorded, but the state, a pytree, only after the last one. If an
        earlier run went further than this step, the state that is returned is the one that was
        given: use only what the draws show of it.

        Args:
            name: What the step is called in the journal.
            state: Where the chains are.
            compute: Moves them; returns the new state and draws by name. It must not simulate.

        Returns:
            The state after the step, and the draws.
        """
        if self.journal is None:
            return compute()
        self.journal.begin()
        found = self.journal.recall_move(name)
        if found is None:
            state, arrays = compute()
            result = Result(arrays, self.stop.to_record())
            self.journal.keep(name, result, state=jax.tree.leaves(state))
            return state, arrays
        result, leaves = found
        self.stop = Stop.from_record(result.stopped)
        return state if leaves is None else refilled(state, leaves), result.arrays

    def all_statistics(
        self, key: Array, theta: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n k"]:
        """Simulate every row, or none.

        Args:
            key: A key, or an array of keys, one per row of theta.
            theta: Parameters, shape (n, d).

        Returns:
            Statistics s, shape (n, k); rows of failed simulations hold NaN.

        Raises:
            OutOfBudget: If the budgets do not allow all rows.
        """
        if self.remaining is not None and len(theta) > self.remaining:
            raise OutOfBudget(self._spend_all())
        s = self.statistics(key, theta)
        if len(s) < len(theta):
            raise OutOfBudget(self.stop)
        return s

    def spend(self, num: int) -> None:
        """Count `num` simulations that a method is about to run by itself.

        Raises:
            OutOfBudget: If fewer are left, or the time is up.
        """
        self.check_time()
        if self.remaining is not None and num > self.remaining:
            raise OutOfBudget(self._spend_all())
        if self.journal is not None:
            self.journal.count(num)
        self._count(num)

    def prior_draws(
        self, key: Array, num: int
    ) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m k"]]:
        """Simulate at draws from the prior. The first call also checks whether the observation is
        surprising.

        Args:
            key: A PRNG key.
            num: How many draws.

        Returns:
            theta, shape (m, d), and s, shape (m, k), with m = num unless a budget ends.
        """
        theta_key, simulation_key, noise_key = split(key, 3)
        theta = self.model.prior.sample(theta_key, num)
        s = self.statistics(simulation_key, theta)
        self.look_at_observation(noise_key, s)
        return theta[: len(s)], s

    def log_eta(self, s: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
        """log eta(observed | s), shape (n,), at statistics s (n, k); -inf for failed
        simulations.
        """
        return self.model.mechanism.log_prob(self.observed, s)

    def look_at_observation(self, key: Array, s: Float[np.ndarray, "n k"] | None = None) -> None:
        """Warn if the observation lies far outside what the prior predicts.

        It does so once per run, if the mechanism can be sampled. A p-value below 1 in 200 is
        surprising.

        Args:
            key: A PRNG key.
            s: Statistics of prior draws, shape (n, k). Without at least 400 of them, 400 new ones
                are simulated, unless that is a quarter of the budget left or more.
        """
        able = self.model.mechanism.capabilities
        if Capability.SAMPLE not in able or _P_VALUE in self.diagnostics:
            return
        if s is None or len(s) < NUM_PRIOR_CHECK:
            if self.remaining is not None and self.remaining < 4 * NUM_PRIOR_CHECK:
                return
            theta_key, simulation_key, key = split(key, 3)
            try:
                s = self.statistics(
                    simulation_key, self.model.prior.sample(theta_key, NUM_PRIOR_CHECK)
                )
            except OutOfBudget:
                return
        s = s[~np.isnan(s).any(axis=1)]
        if len(s) < NUM_PRIOR_CHECK // 2:
            return
        simulated = self.model.mechanism.sample(key, s[:10_000])
        rank = p_value(simulated, self.observed)
        self.diagnostics[_P_VALUE] = rank
        if self.surprised:
            self.warn(Kind.SURPRISING_OBSERVATION, p=rank)

    @property
    def surprised(self) -> bool:
        """Whether the observation was found to be surprising."""
        return bool(self.diagnostics.get(_P_VALUE, 1.0) < _SURPRISING_P)

    # Ending ---------------------------------------------------------------------------------------

    def _spend_all(self) -> Stop:
        return self.end(StopKind.SIMULATIONS_SPENT, budget=self._max_simulations)

    def stop_if_spent(self) -> None:
        """Report that the budget of simulations ended the run, if none are left."""
        if self.remaining == 0:
            self._spend_all()

    def _time_is_up(self) -> bool:
        if self._deadline is None:
            return False
        expired = time.monotonic() >= self._deadline
        return expired if self.journal is None else self.journal.time_is_up(expired)

    def check_time(self) -> None:
        """Raise `OutOfBudget` when the time is up; for loops that do not simulate."""
        self._check_time(partial=False)

    def out_of_time(self, epochs: int = 0, loss: float = np.nan, best: float = np.nan) -> bool:
        """Whether the time is up, for training loops to ask; if it is, the report will say so.

        Args:
            epochs: Epochs of training so far, for the progress bar.
            loss: Validation loss of the last epoch.
            best: Smallest validation loss so far, for the progress bar.
        """
        if self._bar:
            self._bar.describe({"training, epoch": epochs, "validation loss": best})
        if self._time_is_up():
            self.end(StopKind.TIME_SPENT)
        return self._time_is_up()

    def _check_time(self, *, partial: bool) -> None:
        if self._time_is_up():
            stop = self.end(StopKind.TIME_SPENT)
            if not partial:
                raise OutOfBudget(stop)
