"""What a simulator is: parameters in, confidential data or their statistic out, reproducibly.

    theta (N, d)  --simulate-->  x, N databases        theta (N, d)  --statistics-->  s (N, k)

`AbstractSimulator` checks arguments and results; a concrete simulator says how simulation i is run.
Under one key its randomness depends on the key and i alone. Given an array of N keys, one per row
of theta, it depends on the i-th key alone, as for row 0 under that key. So results do not depend on
how the work is divided, and a simulation can be repeated with the same randomness at another theta.
A simulator draws from `stage_key(key, "simulator")`, from which no other stage draws.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, as_float64, describe, in_float64, integer, is_traced
from noisewise.errors import InvalidInputError, InvalidTypeError, SimulationError
from noisewise.simulators._keys import RowKeys, row_keys
from noisewise.simulators.faults import Faults
from noisewise.simulators.named import Layout

Query = Callable[[Any], Any]
"""x -> s: one database to one vector."""


@runtime_checkable
class AdditiveQuery(Protocol):
    """A query s = sum_i t(x_i) / divisor over records, which can be summed up chunk by chunk.

    Record models use this to bound memory: `statistics` holds at most 8192 records of a database
    at a time.
    """

    @property
    def divisor(self) -> float:
        """What the sum is divided by: 1 for totals, the number of records for means."""

    def contributions(self, x: Any) -> Float[Array, "records k"]:
        """The terms t(x_i), one row per record.

        Args:
            x: Some records of one database, as the record model draws them.

        Returns:
            Terms, shape (records, k).
        """


@runtime_checkable
class KnowsLikelihood(Protocol):
    """A simulator that knows the law of each released number given theta, so that
    `PrivateModel.log_likelihood` has it.

    >>> import jax, jax.numpy as jnp, noisewise as nw, numpyro.distributions as dist
    >>> class Cells(nw.simulators.AbstractRecordModel):
    ...     "The numbers of two cells, each normal around theta."
    ...     num_records = 2
    ...     def record_noise(self, key):
    ...         return jax.random.normal(key)
    ...     def record(self, u, theta):
    ...         return theta[0] + u
    ...     def log_prob_record(self, x_i, theta):
    ...         return jax.scipy.stats.norm.logpdf(x_i, theta[0])
    ...     def log_likelihood(self, theta, query, mechanism, observed):
    ...         sd = jnp.sqrt(1.0 + mechanism.scale**2)
    ...         return jax.scipy.stats.norm.logpdf(observed, theta, sd)
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"mean": dist.Normal(0, 1)}),
    ...     simulator=Cells(),
    ...     query=lambda x: x,
    ...     mechanism=nw.mechanisms.Gaussian(scale=1.0),
    ... )
    >>> model.log_likelihood(np.zeros((3, 1)), [1.0, 2.0]).shape
    (3, 2)
    """

    def log_likelihood(
        self, theta: Float[np.ndarray, "n d"], query: Any, mechanism: Any, observed: np.ndarray
    ) -> Float[np.ndarray, "n kp"] | None:
        """log p(y_j | theta) of each released number y_j, the noise included.

        Args:
            theta: Parameters, shape (n, d).
            query: The query of the model.
            mechanism: The mechanism of the model.
            observed: The released numbers, shape (k',); NaN where a cell is absent.

        Returns:
            Shape (n, k'); None where the law is not known, or where numbers depend on each other
            given theta, so that it is no product over them.
        """


@dataclasses.dataclass(frozen=True)
class Execution:
    """How simulations in Python are run; simulators in JAX ignore it.

    Attributes:
        executor: Where batches run; None for this process.
        batch_size: Simulations per task; None lets the simulator choose.
        faults: Counts simulations that fail, so that a few may; None allows none.
    """

    executor: Executor | None = None
    batch_size: int | None = None
    faults: Faults | None = None


class AbstractSimulator(abc.ABC):
    """Base of all simulators: theta -> x, and theta -> s together with a query.

    To write a simulator of your own, pass a function to `JaxSimulator` or `PythonSimulator`, or
    derive from `AbstractRecordModel`; this class is for new ways to run simulations. A concrete
    class writes `_statistics` and `_simulate`; a class is abstract or final.
    """

    @final
    def statistics(
        self,
        key: Array,
        theta: Float[Array, "n d"],
        query: Query,
        *,
        executor: Executor | None = None,
        batch_size: int | None = None,
        faults: Faults | None = None,
    ) -> Float[np.ndarray, "n k"]:
        """The statistic of one simulated database per row of theta.

        This is what inference calls: no more databases are held than run at a time.

        Args:
            key: One JAX PRNG key, or an array of N keys. With N keys, row i depends on the i-th key
                and theta_i alone, which gives common random numbers at different theta.
            theta: Parameters, shape (N, d), finite.
            query: Function from one database to a number or a vector (k,).
            executor: Runs simulations elsewhere; used by simulators in Python only.
            batch_size: Simulations per task of the executor. The result depends on neither.
            faults: Counts simulations that fail. With it, a few failures become rows of NaN;
                without it, the first failure raises.

        Returns:
            Statistics s, shape (N, k). A row is NaN where the query returned NaN or the simulation
            was dropped.

        Raises:
            InvalidInputError: If theta is not a finite array (N, d), or the number of keys is not
                N.
            InvalidTypeError: If the query is not a function, or an argument is a tracer: simulators
                run outside `jit`, `vmap` and `grad`.
            SimulationError: If a simulation or the query fails.
        """
        keys, theta, execution = _checked(key, theta, Execution(executor, batch_size, faults))
        if isinstance(query, type) or not callable(query):
            raise InvalidTypeError(
                f"query must be a function x -> s or a query, got {describe(query)}."
            )
        s = _as_columns(self._statistics(keys, theta, query, execution))
        if s.ndim != 2 or s.shape[0] != len(theta) or s.shape[1] == 0:
            raise SimulationError(
                f"{type(self).__name__} gave statistics of shape {s.shape} for {len(theta)}"
                " simulations."
            )
        return s

    @final
    def simulate(
        self,
        key: Array,
        theta: Float[Array, "n d"],
        *,
        executor: Executor | None = None,
        batch_size: int | None = None,
    ) -> Any:
        """N simulated databases, one per row of theta: those whose statistics `statistics` returns
        for the same key.

        All are held in memory: for statistics alone call `statistics`.

        Args:
            key: One JAX PRNG key, or an array of N keys, one per row of theta.
            theta: Parameters, shape (N, d), finite.
            executor: Runs simulations elsewhere; used by simulators in Python only.
            batch_size: Simulations per task of the executor.

        Returns:
            Databases x: from simulators in JAX arrays with a leading axis of length N, from
            simulators in Python a list of length N.

        Raises:
            InvalidInputError: If theta is not a finite array (N, d), or the number of keys is not
                N.
            SimulationError: If a simulation fails.
        """
        keys, theta, execution = _checked(key, theta, Execution(executor, batch_size))
        return self._simulate(keys, theta, execution)

    def named_by(self, layout: Layout) -> AbstractSimulator:
        """The same simulator where parameters are called so: simulators that read them by name need
        it, and models give it.

        Args:
            layout: Names with the shapes of their entries, in the order of theta.
        """
        del layout
        return self

    @final
    def statistic_width(self, key: Array, theta: Float[Array, "n d"], query: Query) -> int:
        """The number k of entries of s.

        It is found by tracing where the simulator and the query are written in JAX, else by
        simulating at the first row of theta where that works.

        Args:
            key: One JAX PRNG key, or one per row of theta.
            theta: Parameters to try, shape (N, d).
            query: Function from one database to a number or a vector (k,).

        Returns:
            The number of entries; a query that returns a single number has one.
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


def _checked(
    key: Array, theta: ArrayLike, execution: Execution
) -> tuple[RowKeys, np.ndarray, Execution]:
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
def _parameters(theta: ArrayLike) -> np.ndarray:
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
