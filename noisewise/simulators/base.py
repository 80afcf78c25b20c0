r"""What a simulator is: parameters in, confidential data or their statistic out, reproducibly.

    theta (N, d)  --simulate-->  x, N databases        theta (N, d)  --statistics-->  s (N, k)

`AbstractSimulator` owns the checks; a concrete simulator says how simulation i is run. Under one
key its randomness is derived from the key and i alone; given an array of N keys, one per row of
theta, from the i-th alone, as for row 0 under that key. So results do not depend on how the work is
divided, and a simulation can be repeated with the same randomness at another theta. What it gets is
`stage_key(key, "simulator")`, from which no other stage draws.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from noisewise._core.arrays import Array, as_float64, describe, in_float64, integer, is_traced
from noisewise.errors import InvalidInputError, InvalidTypeError, SimulationError
from noisewise.simulators._keys import RowKeys, row_keys
from noisewise.simulators.faults import Faults

Query = Callable[[Any], Any]
"""x -> s: one database to one vector."""


@runtime_checkable
class AdditiveQuery(Protocol):
    """A query s = sum_i t(x_i) / divisor over records, which can be summed up chunk by chunk."""

    @property
    def divisor(self) -> float:
        """What the sum is divided by."""

    def contributions(self, x: Any) -> Array:
        """The terms t of each record, shape (n, k)."""


@dataclasses.dataclass(frozen=True)
class Execution:
    """How simulations in Python are run: where, how many at a time, and what keeps count of those
    that fail.
    """

    executor: Executor | None = None
    batch_size: int | None = None
    faults: Faults | None = None


class AbstractSimulator(abc.ABC):
    """Base of all simulators. A concrete class writes `_statistics` and `_simulate`; a class is
    abstract or final.
    """

    @final
    def statistics(
        self,
        key: Array,
        theta: Array,
        query: Query,
        *,
        executor: Executor | None = None,
        batch_size: int | None = None,
        faults: Faults | None = None,
    ) -> np.ndarray:
        """The statistics s (N, k) of one simulated database per row of theta (N, d).

        `key` is one key, or an array of N keys: row i then depends on the i-th key and theta_i
        only, whatever the others are, which gives common random numbers at different theta.

        `executor` runs `batch_size` simulations at a time elsewhere; it serves simulators written
        in Python only. The result depends on neither. A statistic that is one number counts as
        (1,). A simulation whose statistic is NaN gives a row of NaN. So does one in Python that
        fails, where `faults` are given to count it, as long as they are few; else it raises.
        """
        keys, theta, execution = _checked(key, theta, Execution(executor, batch_size, faults))
        if isinstance(query, type) or not callable(query):
            raise InvalidTypeError(
                f"query must be a function x -> s or a query, got {describe(query)}."
            )
        s = _as_columns(self._statistics(keys, theta, query, execution))
        if s.ndim != 2 or s.shape[0] != len(theta) or s.shape[1] == 0:
            kind = type(self).__name__
            raise SimulationError(
                f"{kind} gave statistics of shape {s.shape} for {len(theta)} simulations."
            )
        return s

    @final
    def simulate(
        self,
        key: Array,
        theta: Array,
        *,
        executor: Executor | None = None,
        batch_size: int | None = None,
    ) -> Any:
        """N databases, one per row of theta (N, d); the same ones `statistics` sees for the same
        key.

        Simulators in JAX give arrays with a leading axis of length N, simulators in Python a list
        of length N.
        """
        keys, theta, execution = _checked(key, theta, Execution(executor, batch_size))
        return self._simulate(keys, theta, execution)

    @final
    def statistic_width(self, key: Array, theta: Array, query: Query) -> int:
        """The number of entries of s: by tracing where that tells, else by simulating at the first
        row of theta where that works.
        """
        keys, theta, _ = _checked(key, theta, Execution())
        return self._statistic_width(keys, theta, query)

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Query) -> int:
        return _as_columns(self._statistics(keys[:1], theta[:1], query, Execution())).shape[1]

    @abc.abstractmethod
    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray: ...

    @abc.abstractmethod
    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> Any: ...


def _checked(key: Any, theta: Any, execution: Execution) -> tuple[RowKeys, np.ndarray, Execution]:
    if is_traced(key, theta):
        raise InvalidTypeError(
            "Simulators run outside jit, vmap and grad: pass a key and theta with values, not"
            " tracers."
        )
    executor = execution.executor
    if executor is not None and not isinstance(executor, Executor):
        raise InvalidTypeError(
            f"executor must be a concurrent.futures.Executor or None, got {describe(executor)}."
            " nw.simulators.Workers() is one; a dask client gives one by client.get_executor()."
        )
    theta = _parameters(theta)
    batch_size = integer("batch_size", at_least=1, optional=True)(execution.batch_size)
    return (
        row_keys(key, len(theta), "simulator"),
        theta,
        dataclasses.replace(execution, batch_size=batch_size),
    )


def _as_columns(s: np.ndarray) -> np.ndarray:
    return s[:, None] if s.ndim == 1 else s


@in_float64
def _parameters(theta: Any) -> np.ndarray:
    theta = np.asarray(as_float64(theta, "theta"))
    if theta.ndim == 1:
        raise InvalidInputError(
            f"theta must have shape (N, d), one row per simulation, got {theta.shape}: "
            "for one parameter vector write theta[None]."
        )
    if theta.ndim != 2 or 0 in theta.shape:
        raise InvalidInputError(
            f"theta must have shape (N, d), one row per simulation, got {theta.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(theta).all(1))
    if bad.size:
        raise InvalidInputError(
            f"theta must be finite, but {bad.size} of {len(theta)} rows are not; the first is row"
            f" {bad[0]}."
        )
    return theta
