"""Epidemics whose start is drawn under other rates, with exact weights.

How fast an epidemic takes off is settled while few are infected, and an observation may ask for a
start that is rare. With b = beta / K and beta_0 = b S(0), a guide changes the rates, until I first
reaches a level, to

    infection  b S I h(I+1) / h(I),      recovery  gamma I h(I-1) / h(I),

where h(0) = 0, h(1) = 1 and beta_0 i (h(i+1) - h(i)) + gamma i (h(i-1) - h(i)) = kappa h(i).
Without depletion of S this is Doob's transform of the process that reaches the level, with its time
T of doing so tilted by exp(-kappa T); for kappa = a (beta_0 - gamma) the early-growth variable W =
lim I(t) e^{-(beta_0 - gamma) t} is tilted by W^a. The density of the start under the guide is,
relative to the model's, in any population,

    h(I(T)) / h(I(0))
        exp( -kappa T + integral over [0, T] of I (beta_0 - b S) (h(I+1)/h(I) - 1) dt ).

A start is drawn from a mixture of guides, one of which is the model itself. Its weight is one over
the mixture of these densities, at most one over the model's share.

E. Veach and L. J. Guibas, Optimally combining sampling techniques for Monte Carlo rendering,
SIGGRAPH (1995).
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, softmax

from noisewise._core.arrays import Array
from noisewise.simulators.epidemic import EpidemicState, exact_events, one_leap
from noisewise.simulators.sir import LEAP_STEPS, SIR, in_threads
from noisewise.simulators.xoshiro import Generator, kernel, key_words, seeded, uniform

POWERS = np.array([-0.5, 0.0, 1.0, 3.0, 7.0, 15.0])
"""The power of W by which each guide tilts: from slow starts to very fast ones; 0 is survival."""

_MIN_SHARE = 0.02
"""Share of each guide, at least, so that no weight is much above 50."""

_MAX_LEVEL = 100
"""Number of infected at which guiding ends, at most: chance settles the start well before it."""

_FIT_ROUNDS = 50
"""Rounds of expectation and maximisation: a round number, as weights are exact for any shares."""


@dataclasses.dataclass(frozen=True, eq=False)
class GuidedEpidemics:
    """Epidemics of `simulator` under a mixture of guides.

    Attributes:
        simulator: The model of the epidemic.
        shares: Share of each guide, shape (G,), the model itself first; equal by default.

    Example:
        Weights have mean one and are at most one over the model's share, 1/7.

        >>> import jax
        >>> guided = GuidedEpidemics(SIR(10_000, times=[10.0, 20.0]))
        >>> theta = np.tile([-1.0, -2.0], (20_000, 1))
        >>> infected, log_ratios = guided.simulate(jax.random.key(0), theta)
        >>> weights = np.exp(guided.log_weights(log_ratios))
        >>> round(float(weights.mean()), 1), round(float(weights.max()), 6)
        (1.0, 7.0)
    """

    simulator: SIR
    shares: np.ndarray = dataclasses.field(
        default_factory=lambda: np.full(1 + POWERS.size, 1 / (1 + POWERS.size))
    )

    @property
    def level(self) -> int:
        """I at which guiding ends: where the depletion of S is still small."""
        return max(2, min(_MAX_LEVEL, self.simulator.population // 20))

    def simulate(
        self, key: Array, theta: Float[np.ndarray, "n 2"]
    ) -> tuple[Float[np.ndarray, "n times"], Float[np.ndarray, "n guides"]]:
        """One guided epidemic per row of theta.

        Args:
            key: One JAX PRNG key.
            theta: Parameters, shape (N, 2).

        Returns:
            The infected, shape (N, L), and the log density of each start under each guide relative
            to the model's, shape (N, G).
        """
        simulator = self.simulator
        rates, times, words = simulator.rates(theta), np.array(simulator.times), key_words(key)
        people = (float(simulator.population), float(simulator.initial_infected))
        switch = float(simulator.switch) if simulator.method == "leap" else np.inf
        infected = np.empty((len(rates), times.size))
        log_ratios = np.empty((len(rates), self.shares.size))
        guides = (POWERS, np.cumsum(self.shares)[:-1], self.level)

        def run(first: int, end: int) -> None:
            rows, results = rates[first:end], (infected[first:end], log_ratios[first:end])
            path = (*people, times, switch, simulator.leap)
            _epidemics(words, first, rows, *path, *guides, *results)

        exact = simulator.method == "gillespie"
        in_threads(run, len(rates), 2 * simulator.population if exact else LEAP_STEPS)
        return infected, log_ratios

    def log_weights(self, log_ratios: np.ndarray) -> np.ndarray:
        """The log density of each start under the model relative to the mixture.

        Args:
            log_ratios: What `simulate` returned, shape (N, G).

        Returns:
            Log weights, shape (N,).
        """
        return -logsumexp(log_ratios, b=self.shares, axis=1)

    def fitted(self, log_ratios: np.ndarray, log_weights: np.ndarray) -> GuidedEpidemics:
        """The mixture closest to weighted starts in Kullback and Leibler's divergence, by
        expectation and maximisation.

        Args:
            log_ratios: What `simulate` returned, shape (N, G).
            log_weights: Log weights of the starts, shape (N,), up to a constant.

        Returns:
            The same guides with other shares.

        References:
            O. Cappé, R. Douc, A. Guillin, J.-M. Marin and C. P. Robert, Adaptive importance
            sampling in general mixture classes, Stat. Comput. 18 (2008).
        """
        weights, shares = softmax(log_weights), self.shares
        log_ratios, weights = log_ratios[weights > 0.0], weights[weights > 0.0]
        for _ in range(_FIT_ROUNDS):
            shares = weights @ softmax(np.log(shares) + log_ratios, axis=1)
            shares = np.maximum(shares, _MIN_SHARE) / np.maximum(shares, _MIN_SHARE).sum()
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

    The guide of an epidemic is the number of thresholds (G-1,) below a uniform number.
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
                rng, s, i, t, seen = exact_events(
                    rng, s, i, t, seen, b, gamma, times, switch, infected[row]
                )
            else:
                rng, s, i, t, seen = one_leap(
                    rng, s, i, t, seen, b, gamma, times, switch, leap, infected[row]
                )


@kernel
def _fill_steps(
    beta: float, gamma: float, powers: np.ndarray, steps: np.ndarray, kappas: np.ndarray
) -> None:
    """Write h(i+1) / h(i) of each guide into steps (level, G), and its kappa into kappas (G,).

    The model comes first, with 1 and 0. Where gamma dwarfs beta no guide can help: all are the
    model.
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
    """Write the log density of a start from I = `start` to I = `end` in time t under each guide,
    relative to the model's, into log_ratios (G,).
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
