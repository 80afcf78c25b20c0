"""Models written in plain Python, NumPy or Numba."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from noisewise._core.arrays import describe, number
from noisewise._core.user_functions import check_call
from noisewise.errors import InvalidTypeError, SimulationError
from noisewise.simulators._keys import RowKeys
from noisewise.simulators._worker import RAISED, Failure, is_nan
from noisewise.simulators.base import AbstractSimulator, Execution, Query
from noisewise.simulators.dispatch import Batches
from noisewise.simulators.faults import FIRST_SIMULATIONS, Faults
from noisewise.simulators.named import ByName, Layout

_MAX_LOST_BATCHES = 8
"""Batches lost with their workers before their simulations are run alone, to find those to blame:
a round number, small because each lost worker costs the second or more that a new one takes.
"""


@dataclasses.dataclass(frozen=True)
class PythonSimulator(AbstractSimulator):
    """x = fn(rng, theta): one database from one parameter vector, in plain Python, NumPy or Numba.

    Use this where the model cannot be written in JAX, or calls another program. Draw from `rng`
    alone. Simulation i gets the generator
    `np.random.Generator(np.random.Philox(np.random.SeedSequence(words, spawn_key=(i,))))`, where
    `words` are the numbers in `stage_key(key, "simulator")` (0 in place of i where each row has its
    own key). So the result does not depend on workers, batch size or order of completion.

    **Executors.** With an `executor` the simulation and the query run in its workers, and only s
    comes back. It may be any `concurrent.futures` executor, `nw.simulators.Workers`, or that of a
    dask client. Functions travel by cloudpickle, so closures and lambdas work; a thread pool gets
    them as they are. `batch_size` simulations make one task; by default each worker gets four tasks
    of at most 64. Pools that fork are refused: JAX deadlocks in forked processes.

    **Failures.** A simulation that raises, or is lost with its worker, is rerun alone. If
    it fails again, an inference drops and reports it, up to the fraction `max_failed` of all (more,
    by chance, of few: see `nw.simulators.Faults`). Beyond that, and outside an inference, a
    `SimulationError` shows its theta and traceback. NaN in s, or `np.nan` in place of x, is not a
    failure: it says that these data cannot have been observed, and is counted apart.

    **Time-outs.** With a `timeout` a simulation that takes longer has failed. In `Workers`, and
    without an executor, which then means one worker, its process is ended. In other executors it
    stays behind in a thread, which ends when it next runs Python code. Where it blocks a whole
    worker (compiled code that keeps the GIL) and no batch comes back any more, the missing
    simulations are submitted again, and count as failed if that does not help. The first call of
    compiled code includes its compilation.

    Args:
        fn: Function of a NumPy generator and one parameter vector (d,), a copy that it may change.
            It returns one database, any object.
        timeout: Seconds that one simulation may take; None for no limit.
        max_failed: Fraction of simulations that an inference may drop, in [0, 1).
        named: Whether fn gets parameters by name, as `theta["rate"]`, in the shapes that they have
            in the prior of a model; `theta.array` is the vector.

    Raises:
        InvalidTypeError: If fn cannot be called as fn(rng, theta).
        InvalidInputError: If `timeout` or `max_failed` is out of range.

    Example:
        >>> import jax, numpy as np
        >>> import noisewise as nw
        >>> draw = lambda rng, theta: rng.normal(theta[0], 1.0, size=100)
        >>> simulator = nw.simulators.PythonSimulator(draw)
        >>> theta = np.array([[-1.0], [1.0]])
        >>> s = simulator.statistics(jax.random.key(0), theta, lambda x: [x.mean(), x.std()])
        >>> s.round(2).tolist()
        [[-1.01, 1.06], [1.16, 1.01]]
    """

    fn: Callable[[np.random.Generator, Any], Any]
    timeout: float | None = dataclasses.field(default=None, kw_only=True)
    max_failed: float = dataclasses.field(default=0.05, kw_only=True)
    named: bool = dataclasses.field(default=False, kw_only=True)
    layout: Layout | None = dataclasses.field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.fn) or isinstance(self.fn, type):
            raise InvalidTypeError(
                f"PythonSimulator needs a function fn(rng, theta) -> x, got {describe(self.fn)}."
            )
        check_call(self.fn, "fn(rng, theta)", "rng", "theta")
        checks = {
            "timeout": number("timeout", above=0.0, optional=True),
            "max_failed": number("max_failed", at_least=0.0, below=1.0),
        }
        for name, check in checks.items():
            object.__setattr__(self, name, check(getattr(self, name)))
        if not isinstance(self.named, bool):
            raise InvalidTypeError(f"named must be True or False, got {describe(self.named)}.")

    def named_by(self, layout: Layout) -> PythonSimulator:
        return dataclasses.replace(self, layout=layout) if self.named else self

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        width = 0 if execution.faults is None else execution.faults.width
        s, seen = np.full((len(theta), width), np.nan), "others"
        for index, row in self._outcomes(keys, theta, query, execution):
            if is_nan(row):
                continue
            if s.shape[1] == 0:
                s, seen = np.full((len(theta), len(row)), np.nan), f"simulation {index}"
            if len(row) != s.shape[1]:
                raise SimulationError(
                    f"The query must always return the same number of entries: it gave"
                    f" {s.shape[1]} in {seen} and {len(row)} in simulation {index}"
                    f" (theta = {theta[index].tolist()})."
                )
            s[index] = row
        return s

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Query) -> int:
        for row in range(len(theta)):
            try:
                width = super()._statistic_width(keys[row:], theta[row:], query)
            except SimulationError:
                if row == len(theta) - 1:
                    raise
                continue
            if width:
                return width
        raise SimulationError(
            f"All of {len(theta)} simulations returned NaN in place of data: how many statistics"
            " there are is unknown."
        )

    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> list[Any]:
        databases: list[Any] = [None] * len(theta)
        for index, outcome in self._outcomes(
            keys, theta, None, dataclasses.replace(execution, faults=None)
        ):
            databases[index] = outcome
        return databases

    def _outcomes(
        self, keys: RowKeys, theta: np.ndarray, query: Query | None, execution: Execution
    ) -> Iterator[tuple[int, Any]]:
        """(i, result of simulation i) as they complete, without those that are dropped."""
        faults = execution.faults or Faults()
        faults.begin(len(theta))
        fn = ByName(self.fn, self.layout) if self.named else self.fn
        batches = Batches(fn, query, self.timeout, keys, theta, execution.executor)
        attempts = _Attempts(batches, faults)
        while attempts.todo.any():
            yield from attempts.in_batches(execution.batch_size or batches.size)
            yield from attempts.alone()


class _Attempts:
    """Simulations that are run once in a batch and, if they fail there, again alone."""

    def __init__(self, batches: Batches, faults: Faults) -> None:
        self.todo = np.ones(len(batches.theta), dtype=bool)
        self._batches, self._faults = batches, faults
        self._failed: list[int] = []
        self._dropped: set[int] = set()
        self._succeeded = False
        self._many = max(4 * FIRST_SIMULATIONS, 2 * batches.num_workers)

    def in_batches(self, batch_size: int) -> Iterator[tuple[int, Any]]:
        """Results of what is left to do, until so much has failed that it must be run alone."""
        self._failed = []
        num_raised = num_lost = 0
        rows_left = np.flatnonzero(self.todo)
        with contextlib.closing(self._batches.run(rows_left, batch_size)) as done:
            for rows, outcomes in done:
                self.todo[rows] = False
                kinds = [outcome.kind for outcome in outcomes if isinstance(outcome, Failure)]
                num_raised += kinds.count(RAISED)
                num_lost += len(kinds) > kinds.count(RAISED)
                for index, outcome in zip(rows.tolist(), outcomes, strict=True):
                    if isinstance(outcome, Failure):
                        self._failed.append(index)
                    else:
                        self._succeeded = True
                        yield index, outcome
                too_many = self._faults.total + num_raised > self._faults.allowed()
                all_fail = self._all_fail({*self._failed, *self._dropped})
                if too_many or all_fail or num_lost > _MAX_LOST_BATCHES:
                    break

    def alone(self) -> Iterator[tuple[int, Any]]:
        """Results of the simulations that failed, each run alone so that none suffers from another.

        Those that fail again are dropped.
        """
        rows = np.array(sorted(self._failed), dtype=int)
        with contextlib.closing(self._batches.run(rows, 1)) as done:
            for (row,), (outcome,) in done:
                if isinstance(outcome, Failure):
                    self._drop(int(row), outcome)
                else:
                    self._succeeded = True
                    self._faults.num_recovered += 1
                    yield int(row), outcome

    def _drop(self, row: int, failure: Failure) -> None:
        self._dropped.add(row)
        self._faults.drop(row, self._batches.theta[row], failure)
        if self._all_fail(self._dropped):
            num = len(self._dropped)
            self._faults.refuse(f"Each of the first {num} simulations failed", failure)

    def _all_fail(self, failed: set[int]) -> bool:
        """Whether the first simulations all failed, or many did and none has succeeded."""
        none_succeeded = not self._succeeded and len(failed) >= self._many
        return none_succeeded or failed >= set(range(FIRST_SIMULATIONS))
