r"""The deterministic SIR model by Taylor series, compiled with Numba.

    di/dt = beta s i - gamma i,      ds/dt = -beta s i,      i = I / K,  s = S / K.

The right-hand sides are polynomials, so the coefficients of i and s around any time follow one
another by products of series. A step is as long as the last terms allow, and the series give the
state at every observation time within it. Time is measured in units of 1 / (beta + gamma), which
keeps the coefficients near 1 whatever the rates.

A. Jorba and M. Zou, A software package for the numerical integration of ODEs by means of high-order
Taylor methods, Experimental Mathematics 14 (2005).
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.simulators.xoshiro import kernel

ORDER = 20
"""Terms of each series: Jorba and Zou find the least work at -log(tolerance) / 2 = 16 or a little
above.
"""

TOLERANCE = 1e-14
"""The largest last term of a series, relative to its first: curves then hold about 12 digits."""

_NO_INFECTED = 1e-100
"""Share of infected treated as 0, before products of series underflow."""

_NO_SUSCEPTIBLE = 1e-20
"""Share of susceptible treated as 0: far below one person in any population we simulate."""

_LAST_TIME = 1e9
"""Time, in units of 1 / (beta + gamma), after which i grows or falls at a constant rate, so that
the number of steps is bounded.
"""


@kernel
def deterministic_epidemics(
    rates: np.ndarray,
    population: float,
    initial_infected: float,
    times: np.ndarray,
    infected: np.ndarray,
) -> None:
    """Write the curve of each row of rates into `infected`.

    Args:
        rates: (beta, gamma), shape (N, 2).
        population: Number K of people.
        initial_infected: People infected at time 0.
        times: Observation times, shape (L,).
        infected: Output, shape (N, L).
    """
    i_series, s_series = np.empty(ORDER + 1), np.empty(ORDER + 1)
    start = initial_infected / population
    for row in range(len(rates)):
        unit = max(rates[row, 0] + rates[row, 1], 1e-300)
        i_series[0], s_series[0] = start, 1.0 - start
        _solve(rates[row, 0], rates[row, 1], unit, times, i_series, s_series, infected[row])
        for place in range(times.size):
            infected[row, place] *= population


@kernel
def _solve(
    beta: float,
    gamma: float,
    unit: float,
    times: np.ndarray,
    i_series: np.ndarray,
    s_series: np.ndarray,
    infected: np.ndarray,
) -> None:
    """The curve from the state in the first coefficients, with time in units of 1 / `unit`."""
    t = 0.0
    seen = 0
    while seen < times.size and s_series[0] > 0.0 and t < _LAST_TIME:
        _expand(beta / unit, gamma / unit, i_series, s_series)
        h = min(_step(i_series, s_series), times[-1] * unit - t)
        while seen < times.size and times[seen] * unit <= t + h:
            infected[seen] = _value(i_series, times[seen] * unit - t)
            seen += 1
        i, s = _value(i_series, h), _value(s_series, h)
        i_series[0] = i if i > _NO_INFECTED else 0.0
        s_series[0] = s if s > _NO_SUSCEPTIBLE else 0.0
        t += h
    for place in range(seen, times.size):
        change = math.exp((beta * s_series[0] - gamma) * (times[place] - t / unit))
        infected[place] = min(i_series[0] * change, 1.0 - s_series[0])


@kernel
def _expand(beta: float, gamma: float, i_series: np.ndarray, s_series: np.ndarray) -> None:
    for k in range(ORDER):
        contacts = 0.0
        for m in range(k + 1):
            contacts += i_series[m] * s_series[k - m]
        i_series[k + 1] = (beta * contacts - gamma * i_series[k]) / (k + 1)
        s_series[k + 1] = -beta * contacts / (k + 1)


@kernel
def _step(i_series: np.ndarray, s_series: np.ndarray) -> float:
    """How far the last two terms of both series stay within the tolerance; infinite once they
    vanish.
    """
    h = np.inf
    for k in range(ORDER - 1, ORDER + 1):
        for series in (i_series, s_series):
            if series[k] != 0.0:
                h = min(h, (TOLERANCE * series[0] / abs(series[k])) ** (1.0 / k))
    return h


@kernel
def _value(series: np.ndarray, h: float) -> float:
    total = series[ORDER]
    for k in range(ORDER - 1, -1, -1):
        total = total * h + series[k]
    return total
