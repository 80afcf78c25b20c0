"""Exact binomial and Poisson draws from a `xoshiro` generator, for kernels compiled with Numba.

Means of 10 and more: Hormann's transformed rejection, about 1.2 pairs of uniforms whatever the
mean. Below: the distribution function is summed from 0. Numbers of trials and counts are whole
floats.

W. Hormann, The generation of binomial random variates, J. Stat. Comput. Simul. 46 (1993); The
transformed rejection method for generating Poisson random variables, Insurance: Mathematics and
Economics 12 (1993).
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.simulators.xoshiro import Generator, kernel, uniform

SMALL_MEAN = 10.0
"""Mean from which counts are drawn by transformed rejection: Hormann states it for 10 or more."""

FACTORIAL_TAILS = np.array(
    [
        math.lgamma(k + 1.0)
        - (k + 0.5) * math.log(k + 1.0)
        + (k + 1.0)
        - 0.5 * math.log(2.0 * math.pi)
        for k in range(10)
    ]
)
"""`factorial_tail(k)` for k = 0..9, where the series in 1/(k+1) is not accurate to 1e-12."""


@kernel
def factorial_tail(k: float) -> float:
    """What Stirling's formula leaves: log k! - (k + 1/2) log(k + 1) + (k + 1) - log sqrt(2 pi)."""
    if k < 10.0:
        return FACTORIAL_TAILS[int(k)]
    inverse = 1.0 / (k + 1.0)
    square = inverse * inverse
    return (
        1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square
    ) * inverse


@kernel
def binomial(rng: Generator, trials: float, p: float) -> tuple[float, Generator]:
    """The number of successes in `trials` trials of probability p.

    Args:
        rng: Generator.
        trials: Number of trials, a whole float.
        p: Probability of success.

    Returns:
        The count, a whole float, and the generator after it.
    """
    if trials <= 0.0 or p <= 0.0:
        return 0.0, rng
    if p >= 1.0:
        return trials, rng
    rare = min(p, 1.0 - p)
    if trials * rare < SMALL_MEAN:
        count, rng = _few_successes(rng, trials, rare)
    else:
        count, rng = _many_successes(rng, trials, rare)
    return (count if p <= 0.5 else trials - count), rng


@kernel
def _few_successes(rng: Generator, trials: float, p: float) -> tuple[float, Generator]:
    u, rng = uniform(rng)
    odds = p / (1.0 - p)
    mass = math.exp(trials * math.log1p(-p))
    count = 0.0
    while u > mass and count < trials:
        u -= mass
        mass *= odds * (trials - count) / (count + 1.0)
        count += 1.0
    return count, rng


@kernel
def _many_successes(rng: Generator, trials: float, p: float) -> tuple[float, Generator]:
    spread = math.sqrt(trials * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = trials * p + 0.5
    inside = 0.92 - 4.2 / b
    while True:
        u, rng = uniform(rng)
        v, rng = uniform(rng)
        u -= 0.5
        edge = 0.5 - abs(u)
        count = np.floor((2.0 * a / edge + b) * u + centre)
        if edge >= 0.07 and v <= inside:
            return count, rng
        if count < 0.0 or count > trials:
            continue
        level = math.log(v * (2.83 + 5.1 / b) * spread / (a / (edge * edge) + b))
        if level <= _log_ratio_to_mode(count, trials, p):
            return count, rng


@kernel
def _log_ratio_to_mode(k: float, trials: float, p: float) -> float:
    """log P(k) / P(mode) of the binomial distribution."""
    odds = p / (1.0 - p)
    mode = np.floor((trials + 1.0) * p)
    tails = factorial_tail(mode) + factorial_tail(trials - mode)
    tails -= factorial_tail(k) + factorial_tail(trials - k)
    return (
        (mode + 0.5) * math.log((mode + 1.0) / (odds * (trials - mode + 1.0)))
        + (trials + 1.0) * math.log1p((k - mode) / (trials - k + 1.0))
        + (k + 0.5) * math.log(odds * (trials - k + 1.0) / (k + 1.0))
        + tails
    )


@kernel
def poisson(rng: Generator, mean: float) -> tuple[float, Generator]:
    """A Poisson count.

    Args:
        rng: Generator.
        mean: Mean of the count, at least 0.

    Returns:
        The count, a whole float, and the generator after it.
    """
    if mean <= 0.0:
        return 0.0, rng
    return _few_arrivals(rng, mean) if mean < SMALL_MEAN else _many_arrivals(rng, mean)


@kernel
def _few_arrivals(rng: Generator, mean: float) -> tuple[float, Generator]:
    u, rng = uniform(rng)
    mass = math.exp(-mean)
    count = 0.0
    while u > mass and count < 100.0:
        u -= mass
        count += 1.0
        mass *= mean / count
    return count, rng


@kernel
def _many_arrivals(rng: Generator, mean: float) -> tuple[float, Generator]:
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inside = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u, rng = uniform(rng)
        v, rng = uniform(rng)
        u -= 0.5
        edge = 0.5 - abs(u)
        count = np.floor((2.0 * a / edge + b) * u + mean + 0.43)
        if edge >= 0.07 and v <= inside:
            return count, rng
        if count < 0.0 or (edge < 0.013 and v > edge):
            continue
        level = math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (edge * edge) + b))
        if level <= _log_poisson(count, mean):
            return count, rng


@kernel
def _log_poisson(k: float, mean: float) -> float:
    """log of mean^k exp(-mean) / k!, arranged so that large terms cancel before they are added."""
    return (
        (k + 1.0 - mean)
        + (k + 0.5) * math.log(mean / (k + 1.0))
        - 0.5 * math.log(2.0 * math.pi * mean)
        - factorial_tail(k)
    )
