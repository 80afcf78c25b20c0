"""An outbreak in a household-sized population: a hidden Markov chain, summed forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from benchmarks.learning.exact_draws import grid_draws
from benchmarks.learning.noisy_counts import log_noise
from benchmarks.learning.problem import Problem, normals

FIRST_CASES = 2
"""Infectious people at the start: one alone often infects nobody."""
BLOCK = 250
"""Parameters at a time: 250 x 41 x 41 states x 41 transitions are 138 MB."""


def small_outbreak(name: str, seed: int, *, people: int, weeks: int, mechanism: Any) -> Problem:
    """Reed-Frost: I' ~ Binomial(S, 1 - exp(-b I / people)), S' = S - I', reports ~ Binomial(I', r)
    each week; parameters log b and logit r. Once nobody is infectious all reports are zero.
    """
    columns = normals((0.3, 0.6), (0.5, 1.0))

    def binomial(key, number, chance):
        """Binomial(number, chance) for a traced number of at most `people`."""
        uniform = jax.random.uniform(key, (people,))
        return ((uniform < chance) & (jnp.arange(people) < number)).sum() * 1.0

    def simulate(key, theta):
        def week(state, week_key):
            susceptible, infectious = state
            first, second = jax.random.split(week_key)
            chance = -jnp.expm1(-jnp.exp(theta[0]) * infectious / people)
            new = binomial(first, susceptible, chance)
            return (susceptible - new, new), binomial(second, new, jax.nn.sigmoid(theta[1]))

        start = (1.0 * (people - FIRST_CASES), 1.0 * FIRST_CASES)
        return jax.lax.scan(week, start, jax.random.split(key, weeks))[1]

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        log_likelihood = forward_sum(observed, people, mechanism)
        posterior = lambda t: log_likelihood(t) + columns.log_prob(t)  # noqa: E731
        return log_likelihood, lambda rng, count: grid_draws(
            posterior, *columns.box(5.0), 40, rng, count
        )

    return Problem(
        name=name,
        kind="small outbreak with extinction",
        how="hidden Markov chain summed forward, grid and rejection",
        columns=columns,
        simulate=simulate,
        mechanism=mechanism,
        truth=np.array([0.5, 0.9]),
        seed=seed,
        exact=exact,
        step=1.0,
    )


def forward_sum(
    observed: np.ndarray, people: int, mechanism: Any
) -> Callable[[np.ndarray], np.ndarray]:
    """theta (n, 2) -> log likelihood (n,): sum over all paths of (S, I), week by week."""
    n = np.arange(people + 1)
    log_factorial = special.gammaln(n + 1)
    noise = np.exp(log_noise(mechanism, observed[:, None] - n))
    # log of "s choose j", -inf where j > s; the exponents of escape in its column s - j
    with np.errstate(invalid="ignore"):
        left = n[:, None] - n
        choose = log_factorial[:, None] - log_factorial - special.gammaln(np.maximum(left, 0) + 1)
        choose = np.where(left >= 0, choose, -np.inf)

    def binomials(chance_log: np.ndarray, escape_log: np.ndarray) -> np.ndarray:
        """Binomial(j | s, chance) as (..., s, j) from log chance and log escape (...)."""
        with np.errstate(invalid="ignore"):
            taken = np.where(n == 0, 0.0, n * chance_log[..., None])[..., None, :]
        escaped = np.maximum(left, 0) * escape_log[..., None, None]
        return np.exp(choose + taken + escaped)

    def block(theta: np.ndarray) -> np.ndarray:
        force = np.exp(theta[:, :1]) * n / people
        with np.errstate(divide="ignore"):
            infected_log = np.log(-np.expm1(-force))
        # (rows, I, S, new)
        infects = binomials(infected_log, -force)
        reported = binomials(special.log_expit(theta[:, 1]), special.log_expit(-theta[:, 1]))
        mass = np.zeros((len(theta), people + 1, people + 1))
        mass[:, FIRST_CASES, people - FIRST_CASES] = 1.0
        total = np.zeros(len(theta))
        before = np.maximum(left, 0)
        for law in noise:
            weight = np.einsum("tjr,r->tj", reported, law)
            joined = np.einsum("tis,tisj->tsj", mass, infects) * weight[:, None, :]
            # to (new infectious j, susceptible s - j)
            moved = np.zeros_like(mass)
            for j in n:
                moved[:, j, before[j:, j]] = joined[:, j:, j]
            scale = moved.sum((1, 2))
            total, mass = total + np.log(scale), moved / scale[:, None, None]
        return total

    def log_likelihood(theta: np.ndarray) -> np.ndarray:
        starts = range(0, len(theta), BLOCK)
        return np.concatenate([block(theta[i : i + BLOCK]) for i in starts])

    return log_likelihood
