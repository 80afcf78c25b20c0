r"""Draws of a law on an odd set, by a population whose members give each other their steps.

    z_i' = z_i + g (z_a - z_b) + e,   accepted with min(1, p(z_i') / p(z_i)) if z_i' is in the set,

z_a and z_b members of the other half of the population, g = 2.38 / sqrt(2 p), every tenth time 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from noisewise._core.arrays import Array
from noisewise._core.keys import generator

LogDensities = Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, " n"]]
"""z (n, p) -> logs of an unnormalised density (n,)."""
Inside = Callable[[Float[np.ndarray, "n p"]], Bool[np.ndarray, " n"]]
"""z (n, p) -> which rows lie in the set (n,)."""

_SCALE = 2.38
"""Of steps, over sqrt(2 p): the best for normal laws (ter Braak 2006)."""
_LEAP_EVERY = 10
"""Steps of which one is a whole difference, which goes from mode to mode; ter Braak's."""
_JITTER = 1e-4
"""Sd of e in sds of the population: small, so that steps keep the shape of the law; not zero, so
that they are not confined to the differences of a few starts.
"""


@dataclasses.dataclass(frozen=True)
class Population:
    """Draws z (n, p), and how many of its steps each of them took."""

    z: Float[np.ndarray, "n p"]
    moves: Int[np.ndarray, " n"]


def differential_evolution(
    key: Array,
    log_density: LogDensities,
    inside: Inside,
    start: Float[np.ndarray, "n p"],
    *,
    num_steps: int = 150,
) -> Population:
    """Draws of a density restricted to a set, from a population that starts in the set.

    Use it where rejection is hopeless: in many dimensions, for sets that are known by a test only.
    The halves of the population move in turn, each by differences of the other, so that every step
    leaves the law as it is: starts that are draws of it stay draws of it. `inside` is asked about
    the steps that the density accepts.

    Args:
        key: JAX PRNG key.
        log_density: Logs of an unnormalised density, for rows (n, p).
        inside: Which of rows (n, p) lie in the set.
        start: Points in the set, four or more, shape (n, p).
        num_steps: Steps of each member; from starts .3 times as wide as the law, 100 suffice in
            balls of up to 40 dimensions.

    Returns:
        The population after the last step.

    Reference: ter Braak (2006), A Markov chain Monte Carlo version of the genetic algorithm
    differential evolution, Statistics and Computing 16.

    >>> import jax
    >>> start = np.random.default_rng(0).uniform(-0.1, 0.1, (2000, 2))
    >>> found = differential_evolution(
    ...     jax.random.key(0),
    ...     lambda z: np.zeros(len(z)),
    ...     lambda z: (z**2).sum(axis=1) < 1.0,
    ...     start,
    ... )
    >>> round(float((found.z**2).sum(axis=1).mean()), 1)  # p / (p + 2) in a ball
    0.5
    """
    rng, (num, dim) = generator(key), start.shape
    z, value, moves = start.copy(), np.array(log_density(start)), np.zeros(num, dtype=int)
    halves = np.array_split(rng.permutation(num), 2)
    for step in range(num_steps):
        factor = 1.0 if step % _LEAP_EVERY == _LEAP_EVERY - 1 else _SCALE / np.sqrt(2.0 * dim)
        for mine, others in (halves, halves[::-1]):
            first = rng.integers(len(others), size=len(mine))
            second = (first + rng.integers(1, len(others), size=len(mine))) % len(others)
            jitter = _JITTER * z[others].std(axis=0) * rng.normal(size=(len(mine), dim))
            tried = z[mine] + factor * (z[others[first]] - z[others[second]]) + jitter
            log_u = np.log1p(-rng.random(len(mine)))
            new = np.array(log_density(tried))
            accepted = log_u < new - value[mine]
            if accepted.any():
                accepted[accepted] = inside(tried[accepted])
            rows = mine[accepted]
            z[rows], value[rows] = tried[accepted], new[accepted]
            moves[rows] += 1
    return Population(z, moves)
