"""Histograms of a fixed number of records: the multinomial and all noise in one Fourier sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import fft, special

from benchmarks.learning.exact_draws import grid_draws
from benchmarks.learning.noisy_counts import counts_near, log_noise
from benchmarks.learning.problem import Problem, normals

BLOCK = 50
"""Parameters at a time: 50 x 24 x 4,096 complex numbers are 80 MB."""
FLOOR = 1e-12
"""Added to each share, in the simulator and in the exact law alike, for their logarithms."""


def incomes(
    name: str, seed: int, *, records: int, bins: int, top: float, mechanism: Any
) -> Problem:
    """log income ~ N(t1, exp(t2)^2) in `bins` equal bins of income on (0, top), the last one
    open.
    """
    edges = np.log(np.linspace(0.0, top, bins + 1)[1:-1])
    columns = normals((0.5, 0.7), (-0.5, 0.4))

    def shares(theta, np, cdf):
        below = cdf((edges - theta[..., :1]) / np.exp(theta[..., 1:2]))
        ends = np.zeros_like(below[..., :1]), np.ones_like(below[..., :1])
        share = np.diff(np.concatenate([ends[0], below, ends[1]], -1)) + FLOOR
        return share / share.sum(-1, keepdims=True)

    def simulate(key, theta):
        upper = jnp.cumsum(shares(theta, jnp, jax.scipy.stats.norm.cdf))[:-1]
        chosen = jnp.searchsorted(upper, jax.random.uniform(key, (records,)), side="right")
        return jnp.bincount(chosen, length=bins) * 1.0

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        law = MultinomialSum(mechanism, observed, records)
        log_likelihood = lambda t: law(shares(t, np, special.ndtr))  # noqa: E731
        posterior = lambda t: log_likelihood(t) + columns.log_prob(t)  # noqa: E731
        return log_likelihood, lambda rng, count: grid_draws(
            posterior, *columns.box(), 40, rng, count
        )

    return Problem(
        name=name,
        kind="histogram of incomes",
        how="multinomial summed by Fourier transforms, grid and rejection",
        columns=columns,
        simulate=simulate,
        mechanism=mechanism,
        truth=np.array([0.6, -0.55]),
        seed=seed,
        exact=exact,
        step=1.0,
    )


class MultinomialSum:
    """log sum over all tables n with sum n of Multinomial(n | N, p) prod_j noise(value_j - n_j).

    A multinomial is Poisson counts of means N p_j given their total. So this is the coefficient of
    the total N in the product over cells of sum_n Poisson(n | N p_j) noise(value_j - n) w^n, over
    Poisson(N | N). Each cell is tilted by e^(a n) with one a for all, chosen so that N is the
    mean of the product, where its coefficient is large beside the rounding.
    """

    def __init__(self, mechanism: Any, observed: np.ndarray, records: int) -> None:
        self.records = records
        self.near = [counts_near(mechanism, value) for value in observed]
        self.noise = [
            log_noise(mechanism, v - n) - special.gammaln(n + 1)
            for v, n in zip(observed, self.near, strict=True)
        ]
        self.size = fft.next_fast_len(max(4096, 2 * max(map(len, self.near))))

    def __call__(self, share: np.ndarray) -> np.ndarray:
        """The log law at shares (n, cells)."""
        starts = range(0, len(share), BLOCK)
        return np.concatenate([self._block(share[i : i + BLOCK]) for i in starts])

    def _block(self, share: np.ndarray) -> np.ndarray:
        log_mean = np.log(self.records * share)
        tilt = self._tilt(log_mean)
        product, log_scale, moved = 1.0, 0.0, 0
        for j, (n, noise) in enumerate(zip(self.near, self.noise, strict=True)):
            log_mass = noise + n * (log_mean[:, j : j + 1] + tilt[:, None])
            scale = special.logsumexp(log_mass, axis=1)
            product = product * fft.rfft(np.exp(log_mass - scale[:, None]), self.size, axis=1)
            log_scale, moved = log_scale + scale, moved + n[0]
        total = fft.irfft(product, self.size, axis=1)[:, (self.records - moved) % self.size]
        log_total = np.log(np.maximum(total, 1e-18)) + log_scale - self.records * tilt
        at_total = special.gammaln(self.records + 1) - self.records * np.log(self.records)
        return log_total + at_total

    def _tilt(self, log_mean: np.ndarray) -> np.ndarray:
        """a by Newton's method: the mean total minus N, over the variance of the total."""
        tilt = np.zeros(len(log_mean))
        for _ in range(4):
            mean = variance = 0.0
            for j, (n, noise) in enumerate(zip(self.near, self.noise, strict=True)):
                log_mass = noise + n * (log_mean[:, j : j + 1] + tilt[:, None])
                mass = np.exp(log_mass - special.logsumexp(log_mass, axis=1, keepdims=True))
                first = mass @ n
                mean, variance = mean + first, variance + mass @ n**2 - first**2
            tilt = tilt + np.clip((self.records - mean) / np.maximum(variance, 1.0), -1.0, 1.0)
        return tilt
