"""The exact likelihood of a private infection curve in a small population.

(S, I) is a Markov chain on at most (K+1)(K+2)/2 states, so the filter

    a_0 = indicator of (K-1, 1)
    a_j = (a_{j-1} weighted by Bin(s_{j-1}; n, p(I)))  exp(Q (t_j - t_{j-1}))

gives f(s_dp | theta) as its total mass. exp(Qt) acts by uniformisation: with r above every exit
rate, a exp(Qt) = sum_k Poisson(k; r t) a (1 + Q/r)^k, summed until the Poisson tail is below 1e-14.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from scipy.special import gammaln


def markov_log_likelihood(
    theta: np.ndarray,
    s_dp: np.ndarray,
    times: np.ndarray,
    *,
    trials: int,
    padding: float,
    population: int,
) -> np.ndarray:
    """log f(s_dp | theta), exact.

    Args:
        theta: (log beta, log gamma), shape (N, 2).
        s_dp: The private infection curve, shape (L,).
        times: Observation times, shape (L,).
        trials: n of the mechanism.
        padding: m of the mechanism.
        population: Number K of people.

    Returns:
        Log likelihoods, shape (N,).
    """
    infected = np.arange(population + 1.0)[:, None]
    p = (infected + padding) / (population + 2.0 * padding)
    s_dp = np.asarray(s_dp, dtype=float)
    constants = gammaln(trials + 1) - gammaln(s_dp + 1) - gammaln(trials - s_dp + 1)
    log_emission = constants + s_dp * np.log(p) + (trials - s_dp) * np.log1p(-p)
    return _log_likelihoods(
        np.ascontiguousarray(theta, dtype=float),
        np.ascontiguousarray(log_emission.T),
        np.asarray(times, dtype=float),
        population,
    )


@numba.njit(parallel=True, cache=True, error_model="numpy")
def _log_likelihoods(theta, log_emission, times, k):  # type: ignore[no-untyped-def]
    result = np.empty(len(theta))
    for i in numba.prange(len(theta)):
        result[i] = _log_likelihood(
            math.exp(theta[i, 0]), math.exp(theta[i, 1]), log_emission, times, k
        )
    return result


@numba.njit(cache=True, error_model="numpy")
def _log_likelihood(beta, gamma, log_emission, times, k):  # type: ignore[no-untyped-def]
    mass = np.zeros((k + 1, k + 1))  # mass[S, I]
    mass[k - 1, 1] = 1.0
    log_total, before = 0.0, 0.0
    for j in range(len(times)):
        if times[j] > before:
            mass = _evolve(mass, beta, gamma, times[j] - before, k)
        before = times[j]
        top = np.max(log_emission[j])
        for i in range(k + 1):
            mass[:, i] *= math.exp(log_emission[j, i] - top)
        total = mass.sum()
        mass /= total
        log_total += top + math.log(total)
    return log_total


@numba.njit(cache=True, error_model="numpy")
def _evolve(mass, beta, gamma, t, k):  # type: ignore[no-untyped-def]
    """mass exp(Qt), in pieces short enough that exp(-rt) does not underflow."""
    rate = 0.0
    for s in range(k + 1):
        rate = max(rate, (beta * s / k + gamma) * (k - s))
    pieces = int(rate * t / 200.0) + 1
    x = rate * t / pieces
    for _ in range(pieces):
        term = mass * math.exp(-x)
        total = term.copy()
        covered, weight, n = math.exp(-x), math.exp(-x), 0
        while 1.0 - covered > 1e-14 and n < 2000:
            n += 1
            term = _jump(term, beta, gamma, rate, k) * (x / n)
            total += term
            weight *= x / n
            covered += weight
        mass = total
    return mass


@numba.njit(cache=True, error_model="numpy")
def _jump(mass, beta, gamma, rate, k):  # type: ignore[no-untyped-def]
    """mass (1 + Q/rate)."""
    result = np.zeros_like(mass)
    for s in range(k + 1):
        for i in range(k + 1 - s):
            here = mass[s, i]
            if here == 0.0:
                continue
            infection, recovery = beta * s * i / k / rate, gamma * i / rate
            result[s, i] += here * (1.0 - infection - recovery)
            if s > 0 and i > 0:
                result[s - 1, i + 1] += here * infection
            if i > 0:
                result[s, i - 1] += here * recovery
    return result
