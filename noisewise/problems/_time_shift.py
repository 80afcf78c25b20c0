"""The likelihood of a private infection curve in a large population, by one-dimensional
quadrature.

While infections are few the epidemic is a birth-death process: it dies out with probability
gamma/beta, and otherwise I(t) ~ W e^{rt} with r = beta - gamma and W ~ Exp(rate 1 - gamma/beta).
From then on it follows the differential equation, so that

    I(t) = Phi(t + log(W)/r),      Phi the deterministic curve through I(0) = 1,

    f(s_dp | theta) = (1 - gamma/beta) E_W prod_j Bin(s_j; n, (I_j + m)/(K + 2m))
                      + (gamma/beta) prod_j Bin(s_j; n, m/(K + 2m)),

where at time 0 exactly one person is infected. With beta <= gamma only the last term is left.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from scipy.special import gammaln

_STEP = 0.1
"""Time units per step of Runge and Kutta's method: its error is of order .1^4 at rates below 1."""

_NODES = 400
"""Points of the quadrature over log W: 20 per unit; the law varies over a unit."""

_LOG_LOW, _LOG_HIGH = -16.0, 4.0
"""Ends of the quadrature over v, exp(v) ~ Exp(1): below lies a mass of 1e-7, above exp(-54)."""


def time_shift_log_likelihood(
    theta: np.ndarray,
    s_dp: np.ndarray,
    times: np.ndarray,
    *,
    trials: int,
    padding: float,
    population: int,
) -> np.ndarray:
    """log f(s_dp | theta), exact in the limit of a large population.

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
    s_dp = np.asarray(s_dp, dtype=np.float64)
    constant = np.sum(gammaln(trials + 1) - gammaln(s_dp + 1) - gammaln(trials - s_dp + 1))
    arguments: tuple[Any, ...] = (
        s_dp,
        np.asarray(times, dtype=np.float64),
        float(trials),
        float(padding),
        float(population),
    )
    return constant + _log_likelihoods(np.ascontiguousarray(theta, dtype=np.float64), *arguments)


@numba.njit(parallel=True, cache=True, error_model="numpy")
def _log_likelihoods(theta, s_dp, times, n, m, k):  # type: ignore[no-untyped-def]
    result = np.empty(len(theta))
    for i in numba.prange(len(theta)):
        result[i] = _log_likelihood(
            math.exp(theta[i, 0]), math.exp(theta[i, 1]), s_dp, times, n, m, k
        )
    return result


@numba.njit(cache=True, error_model="numpy")
def _log_likelihood(beta, gamma, s_dp, times, n, m, k):  # type: ignore[no-untyped-def]
    extinct = 0.0
    for j in range(len(times)):
        extinct += _log_binomial(s_dp[j], n, 1.0 if times[j] == 0.0 else 0.0, m, k)
    if not beta > gamma:
        return extinct
    growth = beta - gamma
    survival = 1.0 - gamma / beta
    log_curve = _log_curve(beta, gamma, times[-1] + (_LOG_HIGH - math.log(survival)) / growth, k)
    width = (_LOG_HIGH - _LOG_LOW) / _NODES
    terms = np.empty(_NODES)
    for node in range(_NODES):
        v = _LOG_LOW + (node + 0.5) * width  # log of W times its rate, so that exp(v) ~ Exp(1)
        shift = (v - math.log(survival)) / growth
        total = v - math.exp(v) + math.log(width)
        for j in range(len(times)):
            infected = (
                1.0 if times[j] == 0.0 else math.exp(_value_at(log_curve, times[j] + shift, growth))
            )
            total += _log_binomial(s_dp[j], n, min(infected, k), m, k)
        terms[node] = total
    top = max(np.max(terms), extinct)
    return top + math.log(
        survival * np.sum(np.exp(terms - top)) + (1.0 - survival) * math.exp(extinct - top)
    )


@numba.njit(cache=True, error_model="numpy", inline="always")
def _log_binomial(s, n, infected, m, k):  # type: ignore[no-untyped-def]
    p = (infected + m) / (k + 2.0 * m)
    return s * math.log(p) + (n - s) * math.log1p(-p)


@numba.njit(cache=True, error_model="numpy")
def _log_curve(beta, gamma, end, k):  # type: ignore[no-untyped-def]
    """log I of the deterministic epidemic from I(0) = 1, on a grid up to `end`, by Runge and
    Kutta.
    """
    num = int(end / _STEP) + 2
    curve = np.empty(num)
    s, y = (k - 1.0) / k, 0.0
    for i in range(num):
        curve[i] = y
        a1, b1 = -beta * s * math.exp(y) / k, beta * s - gamma
        s2, y2 = s + 0.5 * _STEP * a1, y + 0.5 * _STEP * b1
        a2, b2 = -beta * s2 * math.exp(y2) / k, beta * s2 - gamma
        s3, y3 = s + 0.5 * _STEP * a2, y + 0.5 * _STEP * b2
        a3, b3 = -beta * s3 * math.exp(y3) / k, beta * s3 - gamma
        s4, y4 = s + _STEP * a3, y + _STEP * b3
        a4, b4 = -beta * s4 * math.exp(y4) / k, beta * s4 - gamma
        s += _STEP * (a1 + 2.0 * a2 + 2.0 * a3 + a4) / 6.0
        y += _STEP * (b1 + 2.0 * b2 + 2.0 * b3 + b4) / 6.0
    return curve


@numba.njit(cache=True, error_model="numpy", inline="always")
def _value_at(curve, t, growth):  # type: ignore[no-untyped-def]
    """The curve at t, linear between grid points; before 0 pure exponential growth."""
    if t <= 0.0:
        return growth * t
    place = t / _STEP
    i = min(int(place), len(curve) - 2)
    return curve[i] + (place - i) * (curve[i + 1] - curve[i])
