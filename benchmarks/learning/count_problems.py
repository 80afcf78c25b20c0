"""Kinds made of counts that are independent given the parameters; each cell's law is summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from benchmarks.learning.exact_draws import fitted_draws, from_table, grid_draws
from benchmarks.learning.noisy_counts import (
    HIGHEST,
    PoissonTable,
    counts_near,
    log_sums,
)
from benchmarks.learning.problem import Columns, Problem, normals

LARGEST = float(np.exp(HIGHEST))
"""Rate above which rates are cut, in the simulator and in the exact law alike: a prior draw that
is out of this world."""
NODES = np.arange(-12.0, 12.0, 0.005)
"""Log rates relative to the exposure over which a district's effect is integrated: an eighth of
the narrowest law of an effect."""
BLOCK = 500
"""Rows at a time of a table over all nodes: 20 MB."""


def poisson(key: Any, log_rate: Any) -> Any:
    """Counts of these log rates, in JAX."""
    return jax.random.poisson(key, jnp.exp(jnp.minimum(log_rate, HIGHEST))) * 1.0


def districts(name: str, seed: int, *, num: int, typical: float, mechanism: Any) -> Problem:
    """Counts ~ Poisson(E_i exp(b + tau u_i)), u_i ~ N(0, 1) in the simulator; parameters b,
    log tau.
    """
    exposure = _exposures(seed, num, typical)

    def simulate(key, theta):
        first, second = jax.random.split(key)
        effects = jnp.exp(theta[1]) * jax.random.normal(first, (num,))
        return poisson(second, jnp.log(exposure) + theta[0] + effects)

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        columns = _effect_columns(0)
        log_likelihood = _integrated(PoissonTable(mechanism, observed), exposure)
        posterior = lambda t: log_likelihood(t) + columns.log_prob(t)  # noqa: E731
        return log_likelihood, lambda rng, count: grid_draws(
            posterior, *columns.box(), 100, rng, count
        )

    return Problem(
        name=name,
        kind="district counts, effects integrated out",
        how="quadrature over each effect, grid and rejection",
        columns=_effect_columns(0),
        simulate=simulate,
        mechanism=mechanism,
        truth=np.array([0.3, np.log(0.6)]),
        seed=seed,
        exact=exact,
        step=1.0,
    )


def district_effects(name: str, seed: int, *, num: int, typical: float, mechanism: Any) -> Problem:
    """The same with the effects u_i as parameters."""
    exposure = _exposures(seed, num, typical)

    def simulate(key, theta):
        return poisson(key, jnp.log(exposure) + theta[0] + jnp.exp(theta[1]) * theta[2:])

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        table, columns = PoissonTable(mechanism, observed), _effect_columns(0)
        integrated = _integrated(table, exposure)
        posterior = lambda t: integrated(t) + columns.log_prob(t)  # noqa: E731

        def log_likelihood(theta: np.ndarray) -> np.ndarray:
            relative = theta[:, :1] + np.exp(theta[:, 1:2]) * theta[:, 2:]
            log_rates = np.log(exposure) + relative
            return sum(table(i, log_rates[:, i]) for i in range(num))

        def draw(rng: np.random.Generator, count: int) -> np.ndarray:
            common = grid_draws(posterior, *columns.box(), 100, rng, count)
            parts = [common]
            for i in range(num):
                cell = table(i, np.log(exposure[i]) + NODES)
                effect = [
                    from_table(rng, NODES, cell + _log_normal(NODES, common[j : j + BLOCK]))
                    for j in range(0, count, BLOCK)
                ]
                relative = np.concatenate(effect) - common[:, 0]
                parts.append((relative / np.exp(common[:, 1]))[:, None])
            return np.concatenate(parts, axis=1)

        return log_likelihood, draw

    rng = np.random.default_rng(seed + 1)
    return Problem(
        name=name,
        kind="district counts with all effects",
        how="grid for two, then each effect from its table",
        columns=_effect_columns(num),
        simulate=simulate,
        mechanism=mechanism,
        truth=np.concatenate([[0.3, np.log(0.6)], rng.normal(size=num)]),
        seed=seed,
        exact=exact,
        step=1.0,
    )


def zero_cases(name: str, seed: int, *, num: int, typical: float, mechanism: Any) -> Problem:
    """A share of districts reports nothing; the others are negative binomial: parameters log rate,
    log dispersion, logit of the share.
    """
    exposure = _exposures(seed, num, typical)
    columns = normals((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0))

    def simulate(key, theta):
        first, second, third = jax.random.split(key, 3)
        shape = jnp.exp(-theta[1])
        varied = jax.random.gamma(first, shape, (num,)) / shape
        log_rate = jnp.log(exposure) + theta[0] + jnp.log(jnp.maximum(varied, 1e-300))
        reports = jax.random.uniform(third, (num,)) < jax.nn.sigmoid(-theta[2])
        return jnp.where(reports, poisson(second, log_rate), 0.0)

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        near = [counts_near(mechanism, value) for value in observed]

        def log_likelihood(theta: np.ndarray) -> np.ndarray:
            total, shape = 0.0, np.exp(-theta[:, 1:2])
            silent = special.log_expit(theta[:, 2])
            for value, size, n in zip(observed, exposure, near, strict=True):
                mean = size * np.exp(theta[:, :1])
                reported = log_sums(_log_negative_binomial(n, shape, mean), mechanism, value, n)
                nothing = log_sums(np.zeros((len(theta), 1)), mechanism, value, np.zeros(1))
                total = total + np.logaddexp(
                    special.log_expit(-theta[:, 2]) + reported, silent + nothing
                )
            return total

        posterior = lambda t: log_likelihood(t) + columns.log_prob(t)  # noqa: E731
        return log_likelihood, lambda rng, count: grid_draws(
            posterior, *columns.box(), 32, rng, count
        )

    return Problem(
        name=name,
        kind="overdispersed counts with an atom at zero",
        how="each cell summed, grid and rejection",
        columns=columns,
        simulate=simulate,
        mechanism=mechanism,
        truth=np.array([0.4, np.log(0.5), -0.8]),
        seed=seed,
        exact=exact,
        step=1.0,
    )


def doses(name: str, seed: int, *, num: int, per_group: int, mechanism: Any) -> Problem:
    """Responses per group ~ Binomial(m, logistic(t1 + t2 dose + t3 sex + t4 dose sex))."""
    rng = np.random.default_rng(seed)
    dose, sex = np.linspace(-1.5, 1.5, num), rng.permutation(np.arange(num) % 2)
    design = np.column_stack([np.ones(num), dose, sex, dose * sex])
    columns = normals((0.0, 1.5), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0))

    def simulate(key, theta):
        chance = jax.nn.sigmoid(jnp.asarray(design) @ theta)
        return (jax.random.uniform(key, (per_group, num)) < chance).sum(0) * 1.0

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        n = np.arange(per_group + 1)
        choose = special.gammaln(per_group + 1) - special.gammaln(n + 1)
        choose = choose - special.gammaln(per_group - n + 1)

        def log_likelihood(theta: np.ndarray) -> np.ndarray:
            logits = (theta @ design.T)[:, :, None]
            log_mass = choose + n * special.log_expit(logits)
            log_mass = log_mass + (per_group - n) * special.log_expit(-logits)
            cells = [log_sums(log_mass[:, i], mechanism, observed[i], n) for i in range(num)]
            return np.sum(cells, axis=0)

        posterior = lambda t: log_likelihood(t) + columns.log_prob(t)  # noqa: E731
        return log_likelihood, lambda rng, count: fitted_draws(posterior, np.zeros(4), rng, count)

    return Problem(
        name=name,
        kind="logistic regression of grouped responses",
        how="each cell summed, fitted t law and rejection",
        columns=columns,
        simulate=simulate,
        mechanism=mechanism,
        truth=np.array([-0.4, 1.1, 0.8, -0.6]),
        seed=seed,
        exact=exact,
        step=1.0,
    )


def two_populations(name: str, seed: int, *, num: int, records: float, mechanism: Any) -> Problem:
    """Poisson counts in bins on (-5, 5) of a mixture of N(t1, .7^2) and N(t2, .7^2) with weight
    logistic(t3) of the first: the names of the two can be exchanged.
    """
    edges = np.linspace(-5.0, 5.0, num + 1)
    columns = normals((0.0, 2.0), (0.0, 2.0), (0.0, 1.0))

    def log_rates(theta, np, cdf, expit):
        scaled = lambda mean: cdf((edges - mean[..., None]) / 0.7)  # noqa: E731
        weight = expit(theta[..., 2])[..., None]
        first, second = np.diff(scaled(theta[..., 0])), np.diff(scaled(theta[..., 1]))
        share = weight * first + (1.0 - weight) * second
        return np.log(records) + np.log(share + 1e-9)

    def simulate(key, theta):
        return poisson(key, log_rates(theta, jnp, jax.scipy.stats.norm.cdf, jax.nn.sigmoid))

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        table = PoissonTable(mechanism, observed)

        def log_likelihood(theta: np.ndarray) -> np.ndarray:
            rates = log_rates(theta, np, special.ndtr, special.expit)
            return sum(table(i, rates[:, i]) for i in range(num))

        posterior = lambda t: log_likelihood(t) + columns.log_prob(t)  # noqa: E731

        def draw(rng: np.random.Generator, count: int) -> np.ndarray:
            """Where t1 < t2 by a grid, then both names with equal chance."""
            low, high = columns.box()
            ordered = lambda t: np.where(t[:, 0] < t[:, 1], posterior(t), -np.inf)  # noqa: E731
            theta = grid_draws(ordered, low, high, 60, rng, count)
            exchange = rng.random(count) < 0.5
            theta[exchange] = theta[exchange][:, [1, 0, 2]] * np.array([1.0, 1.0, -1.0])
            return theta

        return log_likelihood, draw

    return Problem(
        name=name,
        kind="mixture of two populations, two modes",
        how="each cell summed, grid and rejection, exchanged at random",
        columns=columns,
        simulate=simulate,
        mechanism=mechanism,
        truth=np.array([-1.3, 1.6, 0.7]),
        seed=seed,
        exact=exact,
        step=1.0,
    )


def _exposures(seed: int, num: int, typical: float) -> np.ndarray:
    return typical * np.exp(0.5 * np.random.default_rng(seed).normal(size=num))


def _effect_columns(num: int) -> Columns:
    return normals((0.0, 1.0), (-0.7, 0.5), *[(0.0, 1.0)] * num)


def _log_normal(nodes: np.ndarray, common: np.ndarray) -> np.ndarray:
    return stats.norm.logpdf(nodes, common[:, :1], np.exp(common[:, 1:2]))


def _integrated(table: PoissonTable, exposure: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """log of the product over districts of the integral of its law over N(b, tau^2)."""
    cells = np.stack([table(i, np.log(size) + NODES) for i, size in enumerate(exposure)], axis=1)
    highest = cells.max(0)
    heights, spacing = np.exp(cells - highest), NODES[1] - NODES[0]

    def log_likelihood(theta: np.ndarray) -> np.ndarray:
        parts = []
        for i in range(0, len(theta), BLOCK):
            common = theta[i : i + BLOCK]
            mass = spacing * np.exp(_log_normal(NODES, common)) @ heights
            below = stats.norm.cdf(NODES[0], common[:, 0], np.exp(common[:, 1]))
            mass = mass + below[:, None] * heights[0]
            parts.append((np.log(np.maximum(mass, 1e-300)) + highest).sum(1))
        return np.concatenate(parts)

    return log_likelihood


def _log_negative_binomial(n: np.ndarray, shape: np.ndarray, mean: np.ndarray) -> np.ndarray:
    log_total = np.log(shape + mean)
    log_mass = special.gammaln(n + shape) - special.gammaln(shape) - special.gammaln(n + 1)
    return log_mass + shape * (np.log(shape) - log_total) + n * (np.log(mean) - log_total)
