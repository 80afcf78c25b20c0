"""Epidemics: susceptible, infected, recovered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import jax
import numpy as np

from noisewise._core.arrays import Array, as_float64, describe, in_float64, integer, number
from noisewise.errors import InvalidInputError, InvalidTypeError, SimulationError
from noisewise.simulators import _compiled
from noisewise.simulators._keys import RowKeys
from noisewise.simulators.base import AbstractSimulator, Execution, Query

LARGEST_POPULATION = 10**10
LARGEST_RATE = 1e100


@dataclasses.dataclass(frozen=True)
class SIR(AbstractSimulator):
    r"""x = (I(t_1), ..., I(t_L)): how many of `population` = K people are infected AT each of the
    `times`.

    From S = K - `initial_infected`, I = `initial_infected` at time 0,

        infection  (S, I) -> (S - 1, I + 1)  at rate  beta S I / K,      recovery  I -> I - 1  at rate  gamma I.

    theta (N, 2) = (log beta, log gamma), or the rates themselves where `log_parameters` is false.
    `variant="si"` is the model without recovery: gamma = 0 and theta (N, 1). Rates are per unit of
    `times`.

    `method="gillespie"` draws every event. `method="leap"` does while I < `switch`; from there on
    it leaps over about `leap` times I events at once. Numbers of events stay exact, only the clock
    is approximated, with a relative error of the order of leap / I: 50,000 epidemics show no
    difference, at 1/400 of the cost where K = 10^6. `dynamics="ode"` solves dS/dt = -beta S I / K,
    dI/dt = beta S I / K - gamma I to about 12 digits; x is then not whole, and the key without
    effect.

    Epidemic i depends on the key and i only, or on its own key. Numba spreads over all cores (as
    many threads as `NUMBA_NUM_THREADS` says); `backend="jax"` runs `leap` as one JAX program, meant
    for a GPU: on a CPU it is ten times slower. `executor` and `batch_size` have no effect.

    D. T. Gillespie, A general method for numerically simulating the stochastic time evolution of
    coupled chemical reactions, J. Comput. Phys. 22 (1976).

    >>> import jax, numpy as np
    >>> import noisewise as nw
    >>> simulator = nw.simulators.SIR(1_000_000, times=[0, 17, 34, 51], initial_infected=100)
    >>> x = simulator.simulate(jax.random.key(0), np.array([[-0.5, -3.0], [-3.0, -0.5]]))
    >>> (x / 1_000_000).round(2).tolist()
    [[0.0, 0.54, 0.42, 0.18], [0.0, 0.0, 0.0, 0.0]]
    """

    population: int
    times: tuple[float, ...]
    _: dataclasses.KW_ONLY
    initial_infected: int = 1
    method: Literal["leap", "gillespie"] = "leap"
    dynamics: Literal["stochastic", "ode"] = "stochastic"
    variant: Literal["sir", "si"] = "sir"
    log_parameters: bool = True
    backend: Literal["numba", "jax"] = "numba"
    switch: int = 500
    leap: float = 0.05

    def __post_init__(self) -> None:
        population = integer("population", at_least=1)(self.population)
        if population > LARGEST_POPULATION:
            raise InvalidInputError(
                f"population must be at most {LARGEST_POPULATION}, got {population}."
            )
        initial = integer("initial_infected", at_least=1)(self.initial_infected)
        if initial > population:
            raise InvalidInputError(
                f"initial_infected must be at most the population, {population} people, got"
                f" {initial}."
            )
        _one_of("method", self.method, ("leap", "gillespie"))
        _one_of("dynamics", self.dynamics, ("stochastic", "ode"))
        _one_of("variant", self.variant, ("sir", "si"))
        _one_of("backend", self.backend, ("numba", "jax"))
        if self.backend == "jax" and (self.method, self.dynamics) != ("leap", "stochastic"):
            raise InvalidInputError(
                'backend="jax" runs method="leap" with dynamics="stochastic" only: write'
                ' backend="numba" for others.'
            )
        if not isinstance(self.log_parameters, (bool, np.bool_)):
            raise InvalidTypeError(
                f"log_parameters must be True or False, got {describe(self.log_parameters)}."
            )
        object.__setattr__(self, "population", population)
        object.__setattr__(self, "times", _as_times(self.times))
        object.__setattr__(self, "initial_infected", initial)
        object.__setattr__(self, "log_parameters", bool(self.log_parameters))
        object.__setattr__(self, "switch", integer("switch", at_least=50)(self.switch))
        object.__setattr__(self, "leap", number("leap", above=0.0, at_most=0.25)(self.leap))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What the columns of theta are."""
        names = ("beta", "gamma") if self.variant == "sir" else ("beta",)
        return tuple(f"log_{name}" for name in names) if self.log_parameters else names

    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> np.ndarray:
        rates = self._rates(theta)
        if self.backend == "jax":
            from noisewise.simulators import _sir_jax

            fields = (
                self.population,
                self.initial_infected,
                np.array(self.times),
                self.switch,
                self.leap,
            )
            return _sir_jax.epidemics(keys, rates, *fields)
        return self._numba_curves(keys, rates)

    def _numba_curves(self, keys: RowKeys, rates: np.ndarray) -> np.ndarray:
        from noisewise.simulators import _sir_ode, epidemic

        infected = np.empty((len(rates), len(self.times)))
        words, times = keys.words.astype(np.uint64), np.array(self.times)
        people = (float(self.population), float(self.initial_infected))
        switch = float(self.switch) if self.method == "leap" else np.inf

        def run(first: int, end: int) -> None:
            if self.dynamics == "ode":
                _sir_ode.deterministic_epidemics(
                    rates[first:end], *people, times, infected[first:end]
                )
            else:
                rows = [array[first:end] for array in (words, keys.indices, rates)]
                epidemic.epidemics(*rows, *people, times, switch, self.leap, infected[first:end])

        exact = self.method == "gillespie" and self.dynamics == "stochastic"
        _in_threads(run, len(rates), 2 * self.population if exact else 5_000)
        return infected

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        if self._traced_width(query) is None:
            return _one_by_one(query, self._simulate(keys, theta, execution))
        infected = self._simulate(keys, theta, execution)
        return _compiled.run(_statistic, (query,), keys, infected, infected[0].nbytes).astype(
            np.float64
        )

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Query) -> int:
        return self._traced_width(query) or super()._statistic_width(keys, theta, query)

    def _traced_width(self, query: Query) -> int | None:
        """The number of entries of s, or None where JAX cannot trace the query or finds no vector."""
        try:
            curve = jax.ShapeDtypeStruct((len(self.times),), np.float64)
            return _compiled.statistic_shape(query, curve).shape[0]
        except SimulationError:
            return None

    def _rates(self, theta: np.ndarray) -> np.ndarray:
        """(beta, gamma) in the rows, (N, 2)."""
        names = self.parameter_names
        if theta.shape[1] != len(names):
            raise InvalidInputError(
                f"theta must have shape (N, {len(names)}), columns {', '.join(names)}, got"
                f" {theta.shape}: variant={self.variant!r} has {len(names)} parameter(s)."
            )
        with np.errstate(over="ignore", under="ignore"):
            rates = np.exp(theta) if self.log_parameters else theta
        bad = np.argwhere(~((rates >= 0.0) & (rates <= LARGEST_RATE)))
        if bad.size:
            row, column = bad[0]
            tell = (
                "Pass log_parameters=False if theta holds rates."
                if self.log_parameters
                else "Rates are >= 0."
            )
            raise InvalidInputError(
                f"Rates must lie between 0 and {LARGEST_RATE:g}, but {names[column]} is"
                f" {theta[row, column]:g} in row {row}. {tell}"
            )
        return np.ascontiguousarray(np.pad(rates, ((0, 0), (0, 2 - len(names)))))


def _statistic(query: Query) -> _compiled.One:
    return lambda key, infected: query(infected)


def _one_by_one(query: Query, infected: np.ndarray) -> np.ndarray:
    """The statistics by a query that JAX cannot trace."""
    rows: list[np.ndarray] = []
    for index, curve in enumerate(infected):
        try:
            s = np.atleast_1d(np.asarray(query(curve), dtype=np.float64))
        except Exception as error:
            raise SimulationError(
                f"The query failed on epidemic {index}: {type(error).__name__}: {error}"
            ) from error
        if s.ndim != 1 or s.size == 0 or s.shape != (rows or [s])[0].shape:
            raise SimulationError(
                f"The query must return a statistic of one shape (k,), got {s.shape} for epidemic"
                f" {index}."
            )
        rows.append(s)
    return np.stack(rows)


def _in_threads(run: Callable[[int, int], None], num: int, steps: int) -> None:
    """run(first, end) over 0, ..., num - 1 in all threads, in pieces of a fraction of a second so
    that Ctrl-C is heard.

    `steps` bounds the work of one epidemic. Kernels run off the GIL, so plain threads do; unlike
    Numba's own they may be started from several threads at once.
    """
    import numba

    threads = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    size = min(max(2**24 // steps, 1), -(-num // (4 * threads)))
    pieces = [(first, min(first + size, num)) for first in range(0, num, size)]
    if len(pieces) == 1 or threads == 1:
        for piece in pieces:
            run(*piece)
        return
    pool = ThreadPoolExecutor(min(threads, len(pieces)))
    try:
        for future in [pool.submit(run, *piece) for piece in pieces]:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidInputError(
            f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}."
        )


@in_float64
def _times_array(times: Any) -> Array:
    return as_float64(times, "times")


def _as_times(times: Any) -> tuple[float, ...]:
    array = _times_array(tuple(times) if isinstance(times, range) else times)
    if array.ndim != 1 or array.size == 0:
        raise InvalidInputError(
            f"times must be a list of at least one time, got shape {array.shape}."
        )
    if not np.isfinite(array).all() or array[0] < 0.0 or (np.diff(array) <= 0.0).any():
        raise InvalidInputError(
            "times must be finite, increasing and none below 0, the start of the epidemic, got"
            f" {array.tolist()}."
        )
    return tuple(array.tolist())
