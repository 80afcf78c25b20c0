"""Epidemics: susceptible, infected, recovered."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, as_float64, describe, in_float64, integer, number
from noisewise.errors import InvalidInputError, InvalidTypeError, SimulationError
from noisewise.simulators import _compiled
from noisewise.simulators._keys import RowKeys
from noisewise.simulators.base import AbstractSimulator, Execution, Query

LARGEST_POPULATION = 10**10
"""People: more than live on earth, and few enough that counts stay exact in float64."""

LARGEST_RATE = 1e100
"""Per unit of time: products of a rate, a population and a time stay below the largest float."""

_PIECE_STEPS = 2**24
"""Steps of kernels between two chances to hear Ctrl-C: about .3 s at 20 ns an event."""

LEAP_STEPS = 5_000
"""Steps of one leaping epidemic, roughly: thousands of events below the switch, then some leaps."""


@dataclasses.dataclass(frozen=True)
class SIR(AbstractSimulator):
    """A stochastic epidemic in a closed population: x = (I(t_1), ..., I(t_L)), the number of
    people infected AT each of the `times`.

    From S = K - `initial_infected`, I = `initial_infected` at time 0,

        infection  (S, I) -> (S - 1, I + 1)   at rate  beta S I / K,
        recovery   I -> I - 1                 at rate  gamma I.

    Epidemic i depends on the key and i only, or on its own key. `executor` and `batch_size` have no
    effect: Numba kernels use all cores (as many threads as `NUMBA_NUM_THREADS` says).

    `method="leap"` draws every event while I < `switch`; from there on it leaps over about `leap`
    times I events at once. Numbers of events stay exact; only the clock is approximate, with a
    relative error of the order of leap / I. Against exact simulation 50,000 epidemics show no
    difference, at 1/400 of the cost where K = 10^6.

    Args:
        population: Number K of people, at most 10^10.
        times: Increasing observation times, in the unit of the rates, none below 0.
        initial_infected: People infected at time 0.
        method: "leap", or "gillespie", which draws every event.
        dynamics: "stochastic", or "ode", which solves dS/dt = -beta S I / K, dI/dt = beta S I / K -
            gamma I to about 12 digits: x is then not whole, and the key has no effect.
        variant: "sir", or "si" without recovery: gamma = 0, and theta has one column.
        log_parameters: Whether theta (N, 2) holds (log beta, log gamma) or the rates themselves.
        backend: "numba", or "jax", which runs "leap" as one JAX program. That is meant for a GPU:
            on a CPU it is ten times slower.
        switch: Number of infected from which leaps are made, at least 50. At the default 500 an
            epidemic of K = 10^6 takes .3 ms, and its law at ten times does not differ from the
            exact one in 8,000 epidemics.
        leap: Events per leap, as a share of I, in (0, .25].

    Raises:
        InvalidInputError: If a setting is out of range or settings do not go together.

    References:
        D. T. Gillespie, A general method for numerically simulating the stochastic time evolution
        of coupled chemical reactions, J. Comput. Phys. 22 (1976).

    Example:
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
        set_field = functools.partial(object.__setattr__, self)
        set_field("population", population)
        set_field("times", _as_times(self.times))
        set_field("initial_infected", initial)
        set_field("log_parameters", bool(self.log_parameters))
        set_field("switch", integer("switch", at_least=50)(self.switch))
        set_field("leap", number("leap", above=0.0, at_most=0.25)(self.leap))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What the columns of theta are: ("log_beta", "log_gamma"), say."""
        names = ("beta", "gamma") if self.variant == "sir" else ("beta",)
        return tuple(f"log_{name}" for name in names) if self.log_parameters else names

    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> np.ndarray:
        rates = self.rates(theta)
        if self.backend == "jax":
            from noisewise.simulators import _sir_jax

            people, times = (self.population, self.initial_infected), np.array(self.times)
            return _sir_jax.epidemics(keys, rates, *people, times, self.switch, self.leap)
        return self._numba_curves(keys, rates)

    def _numba_curves(self, keys: RowKeys, rates: np.ndarray) -> np.ndarray:
        from noisewise.simulators import _sir_ode, epidemic

        infected = np.empty((len(rates), len(self.times)))
        words, times = keys.words.astype(np.uint64), np.array(self.times)
        people = (float(self.population), float(self.initial_infected))
        switch = float(self.switch) if self.method == "leap" else np.inf

        def run(first: int, end: int) -> None:
            rows = [array[first:end] for array in (words, keys.indices, rates)]
            out = infected[first:end]
            if self.dynamics == "ode":
                _sir_ode.deterministic_epidemics(rows[-1], *people, times, out)
            else:
                epidemic.epidemics(*rows, *people, times, switch, self.leap, out)

        exact = self.method == "gillespie" and self.dynamics == "stochastic"
        in_threads(run, len(rates), 2 * self.population if exact else LEAP_STEPS)
        return infected

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        if self._traced_width(query) is None:
            return _one_by_one(query, self._simulate(keys, theta, execution))
        infected = self._simulate(keys, theta, execution)
        s = _compiled.run(_statistic, (query,), keys, infected, infected[0].nbytes)
        return s.astype(np.float64)

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Query) -> int:
        return self._traced_width(query) or super()._statistic_width(keys, theta, query)

    def _traced_width(self, query: Query) -> int | None:
        """The number of entries of s; None where JAX cannot trace the query or finds no vector."""
        try:
            curve = jax.ShapeDtypeStruct((len(self.times),), np.float64)
            return _compiled.statistic_shape(query, curve).shape[0]
        except SimulationError:
            return None

    def rates(self, theta: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
        """The rates in theta.

        Args:
            theta: Parameters, shape (n, 2), or (n, 1) for the variant "si".

        Returns:
            (beta, gamma), shape (n, 2); gamma is 0 for the variant "si".

        Raises:
            InvalidInputError: If the number of columns does not fit, or a rate is negative or huge.
        """
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
            holds_rates = "Pass log_parameters=False if theta holds rates."
            hint = holds_rates if self.log_parameters else "Rates are >= 0."
            raise InvalidInputError(
                f"Rates must lie between 0 and {LARGEST_RATE:g}, but {names[column]} is"
                f" {theta[row, column]:g} in row {row}. {hint}"
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


def in_threads(run: Callable[[int, int], None], num: int, steps: int) -> None:
    """Call run(first, end) for pieces that cover 0, ..., num - 1, in all threads.

    Pieces take a fraction of a second, so that Ctrl-C is heard. Kernels run off the GIL, so plain
    threads do; unlike Numba's own they may be started from several threads at once.

    Args:
        run: Works on rows first, ..., end - 1.
        num: Number of rows.
        steps: Bound on the steps of one row, which sets the size of a piece.
    """
    import numba

    threads = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    size = min(max(_PIECE_STEPS // steps, 1), -(-num // (4 * threads)))
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


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidInputError(
            f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}."
        )


@in_float64
def _times_array(times: ArrayLike) -> Array:
    return as_float64(times, "times")


def _as_times(times: ArrayLike) -> tuple[float, ...]:
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
