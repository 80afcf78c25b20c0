r"""Hamiltonian Monte Carlo with many chains at once.

    z' = leapfrog(z, p; step, steps),   p ~ N(0, M),

    accepted with probability min(1, exp(H(z, p) - H(z', p')))

All chains of a run share the step size, tuned to an acceptance of .8 by dual averaging (Hoffman and
Gelman 2014), the mass matrix, the inverse covariance of the cloud of chains, and, in each
iteration, the number of steps: trajectories last 1 to 3 units of time, at random, where a normal
target of that covariance forgets its place after pi/2 and skewed ones somewhat later.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, as_key, integer, numpy_of, placed
from noisewise._core.keys import generator
from noisewise._core.weights import effective_size, normalised, rows_at
from noisewise.errors import InvalidInputError
from noisewise.samplers.chain_diagnostics import effective_draws, r_hat
from noisewise.samplers.densities import (
    LogDensity,
    as_points,
    as_pytree,
    log_densities,
    value_or_nothing,
)

_TARGET_ACCEPTANCE = 0.8
"""Mean acceptance that step sizes are tuned to, as in Stan: nearly optimal for Hamiltonian chains.
"""
_DURATION = 2.0
"""Mean duration of trajectories, in units of time: between pi/2, where a normal target is
forgotten, and the somewhat longer time that skewed ones need.
"""
_MAX_STEPS = 64
"""Leapfrog steps per trajectory: a limit for targets so stiff that a trajectory would take
hundreds.
"""
_CANDIDATES_PER_DIMENSION = 10
"""Candidates per dimension that must matter, so that a cloud of starts has a width in every
direction.
"""


class Tuning(eqx.Module):
    """What the warm-up finds: a step size, and the covariance whose inverse is the mass matrix."""

    step_size: Float[Array, ""]
    covariance: Float[Array, "d d"]


@dataclasses.dataclass(frozen=True)
class HamiltonianDraws:
    """Draws of several chains, their log densities, and how the run went.

    `acceptance` is the mean acceptance probability after the warm-up, `num_divergent` the number of
    trajectories that ended where the density vanishes or is NaN. `draws[-1]` with `tuning`
    continues the chains.
    """

    draws: Float[np.ndarray, "n c d"]
    log_density: Float[np.ndarray, "n c"]
    acceptance: float
    num_divergent: int
    tuning: Tuning

    @property
    def step_size(self) -> float:
        """The step size, in units of the covariance."""
        return float(self.tuning.step_size)

    @functools.cached_property
    def r_hat(self) -> float:
        """The largest rank-normalised split R-hat over coordinates (Vehtari et al. 2021)."""
        return max(map(r_hat, self._coordinates()))

    @functools.cached_property
    def effective_size(self) -> float:
        """The smallest bulk effective size over coordinates, all chains together."""
        return min(map(effective_draws, self._coordinates()))

    def _coordinates(self) -> Iterator[Float[np.ndarray, "c n"]]:
        """The draws of each coordinate, chain by chain."""
        return (column.T for column in np.moveaxis(self.draws, 2, 0))


def hamiltonian(
    key: Array,
    log_density: LogDensity,
    start: Any,
    *,
    num_warmup: int = 100,
    num_draws: int = 100,
    thin: int = 1,
    tuning: Tuning | None = None,
) -> HamiltonianDraws:
    r"""Draws from a density by Hamiltonian chains, all moved at once.

    Use it for smooth densities of up to some dozens of coordinates. NaN counts as -inf, and such
    points are never visited; chains that start there begin at another chain's start.

    Args:
        key: JAX PRNG key.
        log_density: z (d,) -> unnormalised log density; a pytree that can be called, such as an
            `eqx.Module`: other values of its arrays compile nothing, another function does.
        start: Where the chains begin, shape (c, d): spread as the target is, with more chains than
            coordinates. `resample_start` makes such a cloud.
        num_warmup: Iterations before the first draw; 0 only with `tuning`.
        num_draws: Draws of each chain.
        thin: Iterations per draw.
        tuning: What an earlier run found; the warm-up starts from it.

    Returns:
        The draws, with acceptance, divergences and the tuning to go on with.

    Raises:
        InvalidInputError: If the density vanishes at all starts.

    >>> class Normal(eqx.Module):
    ...     mean: Array
    ...     def __call__(self, z):
    ...         return -0.5 * jnp.sum((z - self.mean) ** 2)
    >>> start = np.random.default_rng(0).normal(size=(50, 2))
    >>> run = hamiltonian(jax.random.key(0), Normal(np.array([1.0, -2.0])), start)
    >>> run.draws.shape, run.draws.mean(axis=(0, 1)).round(1).tolist(), run.effective_size > 2000
    ((100, 50, 2), [1.0, -2.0], True)
    """
    key = as_key(key)
    num_warmup = integer("num_warmup", at_least=0)(num_warmup)
    num_draws = integer("num_draws", at_least=1)(num_draws)
    thin = integer("thin", at_least=1)(thin)
    position = as_points(start, "start")
    with jax.enable_x64(True):
        target = as_pytree(log_density)
        position = _rescued(key, position, log_densities(target, position))
        if tuning is None:
            tuning = Tuning(np.float64(0.5), cloud_covariance(position))
        numbers = np.array([num_warmup, thin])
        given = jax.tree.map(placed, (position, tuning, numbers))
        result = _run(key, target, *given, num_draws)
        draws, values, acceptance, divergent, tuning = jax.tree.map(np.asarray, result)
    return HamiltonianDraws(draws, values, float(acceptance), int(divergent), tuning)


def resample_start(
    key: Array, log_density: LogDensity, candidates: Any, log_proposal: Any = None, num: int = 100
) -> np.ndarray:
    r"""Starting points for chains, resampled from candidates z_i with weights density(z_i) /
    proposal(z_i).

    Where fewer than 10 d candidates matter, the weights are flattened, w^a with a < 1, until they
    do, so that the cloud has a width in every direction.

    Args:
        key: JAX PRNG key.
        log_density: As for `hamiltonian`.
        candidates: Points, shape (n, d).
        log_proposal: Log densities (n,) of the law that the candidates come from; None leaves them
            out, which favours the target's peaks.
        num: The number of starting points.

    Returns:
        Points, shape (num, d).

    Raises:
        InvalidInputError: If the density vanishes at all candidates.

    >>> z = np.random.default_rng(0).normal(size=(4000, 1))
    >>> target = lambda z: -50.0 * jnp.sum((z - 1.0) ** 2)
    >>> start = resample_start(jax.random.key(0), target, z, -0.5 * z[:, 0] ** 2)
    >>> start.shape, abs(float(start.mean()) - 1.0) < 0.05
    ((100, 1), True)
    """
    rng, num = generator(as_key(key)), integer("num", at_least=1)(num)
    z = as_points(candidates, "candidates")
    log_weights = log_densities(log_density, z)
    if log_proposal is not None:
        log_weights = log_weights - np.asarray(log_proposal, dtype=np.float64)
    log_weights = np.where(np.isnan(log_weights) | (log_weights == np.inf), -np.inf, log_weights)
    if not np.isfinite(log_weights).any():
        raise InvalidInputError(
            f"The density vanishes at all {len(z)} candidates: draw them where the target lies."
        )
    weights = _flattened(
        log_weights,
        min(float(_CANDIDATES_PER_DIMENSION * z.shape[1]), np.isfinite(log_weights).sum() / 4),
    )
    places = (rng.permutation(num) + rng.random()) / num
    return z[rows_at(weights, places)]


# Compiled -----------------------------------------------------------------------------------------


def cloud_covariance(cloud: Array) -> Array:
    """The covariance of a cloud (C, d), shrunk towards its diagonal where there are few points."""
    (num, dim), xp = cloud.shape, numpy_of(cloud)
    covariance = xp.cov(cloud.T, bias=True).reshape(dim, dim)
    variances = xp.diag(covariance)
    variances = xp.where(variances > 0.0, variances, 1.0)
    share = (dim + 5.0) / (num + dim + 5.0)
    return (1.0 - share) * covariance + share * xp.diag(variances)


@filter_jit_fast_compile
def _run(
    key: Array,
    log_density: LogDensity,
    start: Array,
    tuning: Tuning,
    numbers: Array,
    num_draws: int,
) -> tuple[Array, Array, Array, Array, Tuning]:
    """One loop for warm-up and draws, so that the gradient is compiled once; its first iteration
    stands still to evaluate it.
    """
    from blackjax.adaptation.step_size import dual_averaging_adaptation
    from blackjax.mcmc import hmc

    num_warmup, thin = numbers
    num_chains, dim = start.shape
    kernel = hmc.build_kernel()
    fresh, learn, learnt = dual_averaging_adaptation(_TARGET_ACCEPTANCE)
    move = jax.vmap(kernel, in_axes=(0, 0, None, None, None, None))
    target = functools.partial(value_or_nothing, log_density)

    def iterate(i: Array, state: Any) -> Any:
        chains, averaging, tuning, draws, values, acceptance, divergent = state
        step_key, length_key = jax.random.split(jax.random.fold_in(key, i))
        warming = i <= num_warmup
        step = jnp.where(
            i == 0, 0.0, jnp.where(warming, jnp.exp(averaging.log_step_size), tuning.step_size)
        )
        length = _DURATION * jax.random.uniform(length_key, minval=0.5, maxval=1.5)
        steps = jnp.where(
            i == 0, 1, jnp.clip(jnp.ceil(length / jnp.maximum(step, 1e-6)), 1, _MAX_STEPS)
        ).astype(int)
        keys = jax.random.split(step_key, num_chains)
        chains, info = move(keys, chains, target, step, tuning.covariance, steps)
        accepted = jnp.mean(info.acceptance_rate)
        averaging = _where(warming & (i > 0), learn(averaging, accepted), averaging)
        spread = (i == num_warmup // 2) & (num_warmup > 1)
        covariance = jnp.where(spread, cloud_covariance(chains.position), tuning.covariance)
        averaging = _where(spread, fresh(jnp.exp(averaging.log_step_size)), averaging)
        last = (i == num_warmup) & (num_warmup > 0)
        tuning = Tuning(jnp.where(last, learnt(averaging), tuning.step_size), covariance)
        slot = (i - num_warmup - 1) // thin
        keep = (~warming).astype(float)
        draws = draws.at[jnp.maximum(slot, 0)].set(chains.position)
        values = values.at[jnp.maximum(slot, 0)].set(chains.logdensity)
        return (
            chains,
            averaging,
            tuning,
            draws,
            values,
            acceptance + keep * accepted / (num_draws * thin),
            divergent + keep * jnp.sum(info.is_divergent),
        )

    chains = hmc.HMCState(start, jnp.full(num_chains, -jnp.inf), jnp.zeros_like(start))
    averaging = jax.tree.map(jnp.asarray, fresh(tuning.step_size / 2.0))
    draws, values = jnp.zeros((num_draws, num_chains, dim)), jnp.zeros((num_draws, num_chains))
    begin = (chains, averaging, tuning, draws, values, jnp.zeros(()), jnp.zeros(()))
    end = jax.lax.fori_loop(0, 1 + num_warmup + num_draws * thin, iterate, begin)
    _, _, tuning, draws, values, acceptance, divergent = end
    return draws, values, acceptance, divergent, tuning


def _where(condition: Array, yes: Any, no: Any) -> Any:
    """jnp.where on pytrees, with the types of `no`."""
    return jax.tree.map(
        lambda a, b: jnp.where(condition, a, b).astype(jnp.asarray(b).dtype), yes, no
    )


# Checks -------------------------------------------------------------------------------------------


def _rescued(key: Array, position: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Starts of positive density; the others are replaced by some of them."""
    good = np.isfinite(values)
    if not good.any():
        raise InvalidInputError(
            f"The density vanishes at all {len(position)} starts: choose others with"
            " resample_start."
        )
    instead = generator(key).choice(np.flatnonzero(good), size=len(position))
    return position[np.where(good, np.arange(len(position)), instead)]


def _flattened(log_weights: np.ndarray, needed: float) -> np.ndarray:
    """Normalised weights w^a with the largest a <= 1, in steps of a tenth of it, at which `needed`
    of them matter.
    """
    power = 1.0
    while True:
        log_powers = power * log_weights
        weights = normalised(log_powers)
        if effective_size(weights) >= needed or power < 1e-9:
            return weights
        power *= 0.9
