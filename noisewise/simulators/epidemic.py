r"""Stochastic SIR epidemics, event by event and in leaps of operational time, compiled with Numba.

With b = beta / K, an infection happens at rate b S I and a recovery at rate gamma I. In operational
time tau, dtau = I dt, the factor I disappears: the susceptible die off at rate b each and
recoveries are a Poisson process of rate gamma, independently, until I = 0. A leap of length h
therefore draws, exactly,

    infections ~ Binomial(S, 1 - exp(-b h)),      recoveries ~ Poisson(gamma h),

and only the clock, t = integral of dtau / I(tau), is approximate: Simpson's rule through the mean
path. When the clock passes an observation time within a leap, the state there is drawn given both
ends, again exactly in operational time: a share (1 - exp(-b f h)) / (1 - exp(-b h)) of the
infections and f of the recoveries, binomially.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.simulators._counts import binomial, poisson
from noisewise.simulators.xoshiro import Generator, kernel, seeded, uniform

EpidemicState = tuple[Generator, float, float, float, int]
"""The generator, the susceptible, the infected, the time, and the number of observations made."""


@kernel
def epidemics(
    words: np.ndarray,
    indices: np.ndarray,
    rates: np.ndarray,
    population: float,
    initial_infected: float,
    times: np.ndarray,
    switch: float,
    leap: float,
    infected: np.ndarray,
) -> None:
    """Write one epidemic per row into `infected`: exact events where I < switch, leaps elsewhere.

    Args:
        words: Keys as numbers, shape (N, w), uint64.
        indices: Numbers to fold into the keys, shape (N,).
        rates: (beta, gamma), shape (N, 2).
        population: Number K of people.
        initial_infected: People infected at time 0.
        times: Observation times, shape (L,).
        switch: Number of infected from which leaps are made; infinite for exact events alone.
        leap: Events per leap, as a share of I.
        infected: Output, shape (N, L).
    """
    for row in range(len(rates)):
        rng = seeded(words[row], indices[row])
        epidemic(
            rng,
            rates[row, 0] / population,
            rates[row, 1],
            population - initial_infected,
            initial_infected,
            times,
            switch,
            leap,
            infected[row],
        )


@kernel
def epidemic(
    rng: Generator,
    b: float,
    gamma: float,
    s: float,
    i: float,
    times: np.ndarray,
    switch: float,
    leap: float,
    infected: np.ndarray,
) -> None:
    """Write one epidemic into `infected`, the number of infected AT each of the times.

    Args:
        rng: Its generator.
        b: beta / K.
        gamma: Rate of recovery.
        s: Susceptible at time 0.
        i: Infected at time 0.
        times: Observation times, shape (L,).
        switch: Number of infected from which leaps are made.
        leap: Events per leap, as a share of I.
        infected: Output, shape (L,).
    """
    t = 0.0
    seen = 0
    if times[0] == 0.0:
        infected[0] = i
        seen = 1
    while seen < times.size:
        if i < switch:
            rng, s, i, t, seen = exact_events(rng, s, i, t, seen, b, gamma, times, switch, infected)
        else:
            rng, s, i, t, seen = one_leap(
                rng, s, i, t, seen, b, gamma, times, switch, leap, infected
            )


@kernel
def exact_events(
    rng: Generator,
    s: float,
    i: float,
    t: float,
    seen: int,
    b: float,
    gamma: float,
    times: np.ndarray,
    switch: float,
    infected: np.ndarray,
) -> EpidemicState:
    """Gillespie's direct method, until I >= switch after an event or all observations are made.

    A waiting time is infinite once nothing can happen any more.

    Args:
        rng: The generator of this epidemic.
        s: Susceptible.
        i: Infected.
        t: Time.
        seen: Number of observations made.
        b: beta / K.
        gamma: Rate of recovery.
        times: Observation times, shape (L,).
        switch: Number of infected at which to stop.
        infected: Output, shape (L,).

    Returns:
        The state after the last event.
    """
    while True:
        infection = b * s
        u, rng = uniform(rng)
        following = t - math.log(u) / (i * (infection + gamma))
        while following > times[seen]:
            infected[seen] = i
            seen += 1
            if seen == times.size:
                return rng, s, i, t, seen
        t = following
        u, rng = uniform(rng)
        change = 1.0 if u * (infection + gamma) < infection else 0.0
        s -= change
        i += change + change - 1.0
        if i >= switch:
            return rng, s, i, t, seen


@kernel
def one_leap(
    rng: Generator,
    s: float,
    i: float,
    t: float,
    seen: int,
    b: float,
    gamma: float,
    times: np.ndarray,
    switch: float,
    leap: float,
    infected: np.ndarray,
) -> EpidemicState:
    """One leap, with the observations that fall into it.

    Where all infected might recover on the way, which only events can show, events are drawn
    instead.

    Args:
        rng: The generator of this epidemic.
        s: Susceptible.
        i: Infected.
        t: Time.
        seen: Number of observations made.
        b: beta / K.
        gamma: Rate of recovery.
        times: Observation times, shape (L,).
        switch: Number of infected from which leaps are made.
        leap: Events per leap, as a share of I.
        infected: Output, shape (L,).

    Returns:
        The state after the leap.
    """
    h = _length(s, i, b, gamma, leap, times[-1] - t)
    infections, rng = binomial(rng, s, -math.expm1(-b * h))
    recoveries, rng = poisson(rng, gamma * h)
    if recoveries >= i:  # the infected might die out on the way, which only events can show
        return exact_events(rng, s, i, t, seen, b, gamma, times, switch, infected)
    while True:
        start, middle, end = _slowness(i, infections, recoveries, b * h)
        duration = h * (start + 4.0 * middle + end) / 6.0
        if t + duration < times[seen]:
            return rng, s - infections, i + infections - recoveries, t + duration, seen
        f = _share_of_leap((times[seen] - t) / h, start, middle, end)
        early, rng = binomial(
            rng, infections, math.expm1(-b * f * h) / math.expm1(-b * h) if b * h > 0.0 else f
        )
        gone, rng = binomial(rng, recoveries, f)
        s -= early
        i += early - gone
        infections -= early
        recoveries -= gone
        h *= 1.0 - f
        t = times[seen]
        infected[seen] = i
        seen += 1
        if seen == times.size or h <= 0.0:
            return rng, s - infections, i + infections - recoveries, t, seen


@kernel
def _length(s: float, i: float, b: float, gamma: float, leap: float, left: float) -> float:
    """The operational time in which `leap` times I events are expected.

    At most what one susceptible waits for infection on average, and twice what the observations
    need.
    """
    h = min(leap * i / (b * s + gamma), 2.0 * i * left)
    return min(h, 1.0 / b) if s > 0.0 else h


@kernel
def _slowness(
    i: float, infections: float, recoveries: float, exposure: float
) -> tuple[float, float, float]:
    """1/I at the start, the middle and the end of a leap, on the mean path between its ends."""
    halfway = infections / (2.0 + math.expm1(-0.5 * exposure))
    return 1.0 / i, 1.0 / (i + halfway - 0.5 * recoveries), 1.0 / (i + infections - recoveries)


@kernel
def _share_of_leap(target: float, start: float, middle: float, end: float) -> float:
    """The f in [0, 1] at which the clock, the integral of the parabola through the three, shows
    `target`.
    """
    slope = -3.0 * start + 4.0 * middle - end
    curvature = 2.0 * (start - 2.0 * middle + end)
    f = 6.0 * target / (start + 4.0 * middle + end)
    for _ in range(3):
        clock = f * (start + f * (slope / 2.0 + f * curvature / 3.0))
        f -= (clock - target) / (start + f * (slope + f * curvature))
    return min(max(f, 0.0), 1.0)
