"""Models written in plain Python, NumPy or Numba."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from noisewise._core.arrays import describe, number
from noisewise._core.signatures import check_call
from noisewise.errors import InvalidTypeError, SimulationError
from noisewise.simulators._keys import RowKeys
from noisewise.simulators._worker import RAISED, Failure, is_nan
from noisewise.simulators.base import AbstractSimulator, Execution, Query
from noisewise.simulators.dispatch import Batches
from noisewise.simulators.faults import ALWAYS, Faults

_LOST_BATCHES = 8
"""After so many batches were lost with their workers, it is time to see whether their simulations
are to blame.
"""


@dataclasses.dataclass(frozen=True)
class PythonSimulator(AbstractSimulator):
    """x = fn(rng, theta): one database, any object, from one parameter vector (d,), a NumPy array
    of your own.

    Simulation i gets the generator
    `np.random.Generator(np.random.Philox(np.random.SeedSequence(words, spawn_key=(i,))))`, where
    `words` are the numbers in `stage_key(key, "simulator")`: the result depends on the key and i
    only (with keys of their own: on the i-th, and 0 in place of i), not on workers, batch size or
    order of completion. Draw from `rng` alone.

    With an `executor` the simulation and the query run in its workers and only s comes back: any
    `concurrent.futures` one, `nw.simulators.Workers`, or that of a dask client. Functions travel by
    cloudpickle, so closures and lambdas will do; a thread pool gets them as they are. `batch_size`
    simulations make one task, by default so many that each worker gets four, at most 64. Pools that
    fork are refused: JAX deadlocks in forked processes.

    A simulation that raises, or is lost with its worker, is run once more, alone. If it fails
    again, an inference drops and reports it, as long as these are at most the fraction `max_failed`
    of all (more, by chance, of few: see `nw.simulators.Faults`); then, and in any other call, comes
    a `SimulationError` with its theta and traceback. NaN in s, or `np.nan` in place of x, is no
    such failure: it says that these data cannot have been observed, and is counted apart.

    With a `timeout` in seconds a simulation that takes longer has failed. In `Workers`, and without
    an executor, which then means one worker, its process is ended. In other executors it is left
    behind in a thread, which ends when it next comes to Python code; where it holds up a whole
    worker (compiled code that keeps the GIL) and no batch comes back any more, what is missing is
    submitted once more, and has failed if that does not help. The first call of compiled code
    includes its compilation.

    >>> import jax, numpy as np
    >>> import noisewise as nw
    >>> simulator = nw.simulators.PythonSimulator(lambda rng, theta: rng.normal(theta[0], 1.0, size=100))
    >>> theta = np.array([[-1.0], [1.0]])
    >>> simulator.statistics(jax.random.key(0), theta, lambda x: [x.mean(), x.std()]).round(2).tolist()
    [[-1.01, 1.06], [1.16, 1.01]]
    """

    fn: Callable[[np.random.Generator, np.ndarray], Any]
    timeout: float | None = dataclasses.field(default=None, kw_only=True)
    max_failed: float = dataclasses.field(default=0.05, kw_only=True)

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
                    f"The query must always return as many entries: it gave {s.shape[1]} in {seen}"
                    f" and {len(row)} in simulation {index} (theta = {theta[index].tolist()})."
                )
            s[index] = row
        return s

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Query) -> int:
        for row in range(len(theta)):
            with (
                contextlib.nullcontext()
                if row == len(theta) - 1
                else contextlib.suppress(SimulationError)
            ):
                width = super()._statistic_width(keys[row:], theta[row:], query)
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
        """(i, result of simulation i) in the order of completion, without those that are dropped."""
        faults = execution.faults or Faults()
        faults.begin(len(theta))
        batches = Batches(self.fn, query, self.timeout, keys, theta, execution.executor)
        batch_size = execution.batch_size or batches.size
        todo = np.ones(len(theta), dtype=bool)
        first, many = set(range(ALWAYS)), max(4 * ALWAYS, 2 * batches.num_workers)
        dropped: set[int] = set()
        succeeded = False
        while todo.any():
            failed: list[int] = []
            num_raised = num_lost = 0
            with contextlib.closing(batches.run(np.flatnonzero(todo), batch_size)) as done:
                for rows, outcomes in done:
                    todo[rows] = False
                    kinds = [outcome.kind for outcome in outcomes if isinstance(outcome, Failure)]
                    num_raised += kinds.count(RAISED)
                    num_lost += len(kinds) > kinds.count(RAISED)
                    for index, outcome in zip(rows.tolist(), outcomes, strict=True):
                        if isinstance(outcome, Failure):
                            failed.append(index)
                        else:
                            succeeded = True
                            yield index, outcome
                    never = not succeeded and len(failed) + len(dropped) >= many
                    always = never or first <= {*failed, *dropped}
                    if (
                        faults.total + num_raised > faults.allowed()
                        or always
                        or num_lost > _LOST_BATCHES
                    ):
                        break
            for index, outcome in _once_more(batches, np.array(sorted(failed), dtype=int)):
                if isinstance(outcome, Failure):
                    dropped.add(index)
                    faults.drop(index, theta[index], outcome)
                    if first <= dropped or (not succeeded and len(dropped) >= many):
                        faults.refuse(
                            f"Each of the first {len(dropped)} simulations failed", outcome
                        )
                else:
                    succeeded = True
                    faults.num_recovered += 1
                    yield index, outcome


def _once_more(batches: Batches, rows: np.ndarray) -> Iterator[tuple[int, Any]]:
    """The outcome of each of these simulations alone, so that none suffers from another."""
    with contextlib.closing(batches.run(rows, 1)) as done:
        for (index,), (outcome,) in done:
            yield int(index), outcome
