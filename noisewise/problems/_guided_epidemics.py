r"""Epidemics whose start is drawn under other rates, with exact weights.

How fast an epidemic takes off is settled while few are infected, and an observation may ask for a
start that is rare. With b = beta / K and beta_0 = b S(0), a guide changes the rates, until I first
reaches a level, to

    infection  b S I h(I+1) / h(I),      recovery  gamma I h(I-1) / h(I),

where h(0) = 0, h(1) = 1 and beta_0 i (h(i+1) - h(i)) + gamma i (h(i-1) - h(i)) = kappa h(i).
Without depletion of S this is Doob's transform of the process that reaches the level, with its time
T of doing so tilted by exp(-kappa T); for kappa = a (beta_0 - gamma) the early-growth variable W =
lim I(t) e^{-(beta_0 - gamma) t} is tilted by W^a. The density of the start under the guide is,
relative to the model's, in any population,

    h(I(T)) / h(I(0))  exp( -kappa T + integral over [0, T] of I (beta_0 - b S) (h(I+1)/h(I) - 1) dt ).

A start is drawn from a mixture of guides, one of which is the model itself; its weight is one over
the mixture of these densities, at most one over the model's share (E. Veach and L. J. Guibas,
Optimally combining sampling techniques for Monte Carlo rendering, 1995).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from noisewise.simulators.epidemic import EpidemicState, _events, _leap
from noisewise.simulators.sir import SIR, _in_threads
from noisewise.simulators.xoshiro import Generator, kernel, key_words, seeded, uniform

POWERS = np.array([-0.5, 0.0, 1.0, 3.0, 7.0, 15.0])
"""The power of W by which each guide tilts: from slow starts over certain survival to very fast
ones.
"""

_LEAST_SHARE = 0.02
_HIGHEST_LEVEL = 100
_ROUNDS = 50


@dataclasses.dataclass(frozen=True, eq=False)
class GuidedEpidemics:
    """Epidemics of `simulator` under a mixture of guides with `shares` (G,), the model itself
    first.

    >>> import jax
    >>> guided = GuidedEpidemics(SIR(10_000, times=[10.0, 20.0]))
    >>> infected, log_ratios = guided.simulate(jax.random.key(0), np.tile([-1.0, -2.0], (20_000, 1)))
    >>> weights = np.exp(guided.log_weights(log_ratios))
    >>> round(float(weights.mean()), 1), round(float(weights.max()), 6)  # at most one over the model's share, 1/7
    (1.0, 7.0)
    """

    simulator: SIR
    shares: np.ndarray = dataclasses.field(
        default_factory=lambda: np.full(1 + POWERS.size, 1 / (1 + POWERS.size))
    )

    @property
    def level(self) -> int:
        """I at which guiding ends: where the depletion of S is still small."""
        return max(2, min(_HIGHEST_LEVEL, self.simulator.population // 20))

    def simulate(self, key: Any, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The infected (N, L) at theta (N, 2), and the log density of each start under each guide
        relative to the model's (N, G).
        """
        simulator = self.simulator
        rates, times, words = simulator._rates(theta), np.array(simulator.times), key_words(key)
        people = (float(simulator.population), float(simulator.initial_infected))
        switch = float(simulator.switch) if simulator.method == "leap" else np.inf
        infected, log_ratios = (
            np.empty((len(rates), times.size)),
            np.empty((len(rates), self.shares.size)),
        )
        guides = (POWERS, np.cumsum(self.shares)[:-1], self.level)

        def run(first: int, end: int) -> None:
            results = (infected[first:end], log_ratios[first:end])
            _epidemics(
                words,
                first,
                rates[first:end],
                *people,
                times,
                switch,
                simulator.leap,
                *guides,
                *results,
            )

        _in_threads(
            run, len(rates), 5_000 if simulator.method == "leap" else 2 * simulator.population
        )
        return infected, log_ratios

    def log_weights(self, log_ratios: np.ndarray) -> np.ndarray:
        """The log density (N,) under the model relative to the mixture."""
        return -logsumexp(log_ratios, b=self.shares, axis=1)

    def fitted(self, log_ratios: np.ndarray, log_weights: np.ndarray) -> GuidedEpidemics:
        """With the shares closest to weighted starts in Kullback and Leibler's divergence, by
        expectation and maximisation.

        O. Cappé, R. Douc, A. Guillin, J.-M. Marin and C. P. Robert, Adaptive importance sampling in
        general mixture classes, Stat. Comput. 18 (2008).
        """
        weights, shares = softmax(log_weights), self.shares
        log_ratios, weights = log_ratios[weights > 0.0], weights[weights > 0.0]
        for _ in range(_ROUNDS):
            shares = weights @ softmax(np.log(shares) + log_ratios, axis=1)
            shares = np.maximum(shares, _LEAST_SHARE) / np.maximum(shares, _LEAST_SHARE).sum()
        return dataclasses.replace(self, shares=shares)


@kernel
def _epidemics(
    words: np.ndarray,
    first: int,
    rates: np.ndarray,
    population: float,
    initial_infected: float,
    times: np.ndarray,
    switch: float,
    leap: float,
    powers: np.ndarray,
    thresholds: np.ndarray,
    level: int,
    infected: np.ndarray,
    log_ratios: np.ndarray,
) -> None:
    """Write epidemics `first`, `first` + 1, ..., one per row of rates (N, 2), into infected (N, L)
    and log_ratios (N, G).

    The guide is the number of thresholds (G-1,) below a uniform number.
    """
    steps = np.empty((level, 1 + powers.size))
    kappas = np.empty(1 + powers.size)
    shortfall = np.empty(level)
    for row in range(len(rates)):
        b, gamma = rates[row, 0] / population, rates[row, 1]
        s, i, seen = population - initial_infected, initial_infected, 0
        beta = b * s
        _fill_steps(beta, gamma, powers, steps, kappas)
        u, rng = uniform(seeded(words, first + row))
        guide = np.searchsorted(thresholds, u)
        if times[0] == 0.0:
            infected[row, 0] = i
            seen = 1
        rng, s, i, t, seen = _guided_start(
            rng, s, i, seen, b, gamma, beta, times, steps[:, guide], shortfall, infected[row]
        )
        _write_log_ratios(
            int(initial_infected), int(i), t, steps, kappas, shortfall, log_ratios[row]
        )
        while seen < times.size:
            if i < switch:
                rng, s, i, t, seen = _events(
                    rng, s, i, t, seen, b, gamma, times, switch, infected[row]
                )
            else:
                rng, s, i, t, seen = _leap(
                    rng, s, i, t, seen, b, gamma, times, switch, leap, infected[row]
                )


@kernel
def _fill_steps(
    beta: float, gamma: float, powers: np.ndarray, steps: np.ndarray, kappas: np.ndarray
) -> None:
    """h(i+1) / h(i) of each guide into steps (level, G), and its kappa; all 1 and 0 for the model,
    which comes first.

    Where gamma dwarfs beta no guide can help, and all are the model.
    """
    steps[:] = 1.0
    kappas[:] = 0.0
    if gamma > 1e8 * beta:
        return
    steps[0, 1:] = np.inf
    kappas[1:] = powers * max(beta - gamma, 0.0)
    for i in range(1, len(steps)):
        for k in range(1, kappas.size):
            steps[i, k] = (
                1.0 + gamma / beta * (1.0 - 1.0 / steps[i - 1, k]) + kappas[k] / (beta * i)
            )


@kernel
def _guided_start(
    rng: Generator,
    s: float,
    i: float,
    seen: int,
    b: float,
    gamma: float,
    beta: float,
    times: np.ndarray,
    step: np.ndarray,
    shortfall: np.ndarray,
    infected: np.ndarray,
) -> EpidemicState:
    """Events under one guide, until I is 0 or the level, or all observations are made.

    `shortfall` (level,) becomes the integral of I (beta_0 - b S) dt over the time spent at each I.
    """
    t = 0.0
    shortfall[:] = 0.0
    while 0.0 < i < step.size and seen < times.size:
        n = int(i)
        infection = b * s * i * step[n]
        recovery = gamma * i / step[n - 1]
        u, rng = uniform(rng)
        following = t - math.log(u) / (infection + recovery)
        while seen < times.size and following > times[seen]:
            infected[seen] = i
            seen += 1
        following = min(following, times[-1])
        shortfall[n] += (following - t) * i * (beta - b * s)
        t = following
        if seen < times.size:
            u, rng = uniform(rng)
            change = 1.0 if u * (infection + recovery) < infection else 0.0
            s -= change
            i += change + change - 1.0
    return rng, s, i, t, seen


@kernel
def _write_log_ratios(
    start: int,
    end: int,
    t: float,
    steps: np.ndarray,
    kappas: np.ndarray,
    shortfall: np.ndarray,
    log_ratios: np.ndarray,
) -> None:
    """The log density of a start from I = `start` to I = `end` in time t under each guide, relative
    to the model's.
    """
    for k in range(kappas.size):
        total = -kappas[k] * t
        for i in range(start, end):
            total += math.log(steps[i, k])
        for i in range(end, start):
            total -= math.log(steps[i, k])
        for i in range(1, len(steps)):
            total += shortfall[i] * (steps[i, k] - 1.0)
        log_ratios[k] = total
