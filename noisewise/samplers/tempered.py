r"""Tempered sequential Monte Carlo with Hamiltonian moves: draws of a density with several modes.

    p_t(z)  ~  reference(z)^(1 - lambda_t)  density(z)^lambda_t,   0 = lambda_0 < ... < 1

Particles start as draws of the reference law, which reaches every mode. More draws than particles
take the first lambda further: the largest for which twice as many of them are effective as there
will be particles. Each later lambda is the largest for which weights leave half of the particles
effective; these are resampled and moved by Hamiltonian steps whose mass matrix is the inverse
covariance of the cloud and whose step size follows their acceptance. At lambda = 1 the moves go on,
and are the draws.

The mass of a mode is thus what the weights say, wherever moves go from mode to mode or not. The
particles are populations that are resampled apart: their spread is the error of all that the run
says, also where no chain ever leaves its mode.

References: Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers; Buchholz, Chopin
and Jacob (2021), Adaptive tuning of Hamiltonian Monte Carlo within sequential Monte Carlo;
Margossian et al. (2024), Nested R-hat, for judging many short chains.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, as_key, integer, placed
from noisewise._core.keys import split
from noisewise.errors import InvalidInputError
from noisewise.samplers.densities import (
    LogDensity,
    as_points,
    as_pytree,
    log_densities,
    value_or_nothing,
)
from noisewise.samplers.hamiltonian import Tuning, cloud_covariance
from noisewise.samplers.starts import BISECTIONS, EFFECTIVE_SHARE, chosen

_TARGET_ACCEPTANCE = 0.8
"""Mean acceptance that the step size follows, as in `hamiltonian`."""
_FIRST_STEP = 0.3
"""Step size of the first move, in standard deviations of the cloud: small, as the reference law may
be far from normal.
"""
_GAIN = 1.5
"""Change of the log step size per unit of acceptance: the mean over hundreds of particles hardly
has noise, so that a few moves find the step.
"""
_TUNED_MOVES = 5
"""Moves at lambda = 1 in which the step size still changes: it then stays, for a step that follows
the chains would bend their law.
"""
_DURATION = 1.5
"""Mean duration of trajectories, in units of time: about pi/2, where a normal target is forgotten.
"""
_MAX_STEPS = 32
"""Leapfrog steps per trajectory, at most."""
SHORTEST_FULL_STEP = _DURATION / _MAX_STEPS
"""Step size below which trajectories end before a normal target is forgotten, and cost the most."""
_MAX_ITERATIONS = 400
"""Moves to lambda = 1, at most: two hundred temperatures, where 10 to 30 are usual."""


@dataclasses.dataclass(frozen=True)
class TemperedDraws:
    """Draws of populations of particles, and how the run went.

    `draws` (n, g, m, d) are n sweeps of g populations of m particles. `log_evidence` (g,) estimates
    log of the integral of the density over that of the reference, each population by itself.
    `power` is the last lambda: below 1 the particles did not arrive. `draws[-1]`, with `tuning`,
    goes on.
    """

    draws: Float[np.ndarray, "n g m d"]
    log_evidence: Float[np.ndarray, " g"]
    power: float
    num_temperatures: int
    acceptance: float
    num_divergent: int
    tuning: Tuning

    @property
    def population_weights(self) -> Float[np.ndarray, " g"]:
        """What each population counts for: its evidence over that of all."""
        weights = np.exp(self.log_evidence - self.log_evidence.max())
        return weights / weights.sum()


class _State(eqx.Module):
    """Particles on their way: positions (N, d), and values and slopes of both log densities."""

    z: Float[Array, "n d"]
    values: Float[Array, "2 n"]
    slopes: Float[Array, "2 n d"]
    power: Float[Array, ""]
    log_evidence: Float[Array, " g"]
    tuning: Tuning
    draws: Float[Array, "s n d"]
    moves: Array
    """Moves since lambda last changed."""
    iteration: Array
    temperatures: Array
    acceptance: Float[Array, ""]
    divergent: Array


def tempered(
    key: Array,
    log_density: LogDensity,
    log_reference: LogDensity,
    start: Any,
    *,
    num_particles: int | None = None,
    num_populations: int = 8,
    num_moves: int = 2,
    num_warmup: int = 10,
    num_draws: int = 10,
    thin: int = 1,
    tuning: Tuning | None = None,
) -> TemperedDraws:
    r"""Draws from a density that may have several modes, by populations of particles.

    One program serves every density of a kind, the way to lambda = 1 and the draws there. NaN
    counts as -inf.

    Args:
        key: JAX PRNG key.
        log_density: z (d,) -> unnormalised log density; a pytree that can be called.
        log_reference: The same for the reference law; unnormalised adds to the evidence.
        start: Draws of the reference law (N, d), N a multiple of `num_populations`.
        num_particles: Particles, another multiple, fewer than N where starts are weighed first;
            by default N, as with `tuning`.
        num_populations: Populations that are resampled apart, consecutive rows of `start`.
        num_moves: Moves at each temperature.
        num_warmup: Moves at lambda = 1 before the first draw; the first 5 still tune the step, with
            `tuning` too. 0 keeps that step.
        num_draws: Draws of each particle.
        thin: Moves per draw.
        tuning: Of an earlier run, whose last draws `start` then are: the chains go on at
            lambda = 1.

    Returns:
        The draws by population.

    Raises:
        InvalidInputError: If the density vanishes at all starts.

    >>> two_modes = lambda z: jnp.logaddexp(
    ...     jnp.log(0.8) - 200.0 * jnp.sum((z - 1.0) ** 2),
    ...     jnp.log(0.2) - 200.0 * jnp.sum((z + 1.0) ** 2),
    ... )
    >>> start = np.random.default_rng(0).normal(size=(2048, 1))
    >>> found = tempered(jax.random.key(0), two_modes, lambda z: -0.5 * jnp.sum(z**2), start)
    >>> found.draws.shape, abs(float(np.mean(found.draws > 0.0)) - 0.8) < 0.05
    ((10, 8, 256, 1), True)
    """
    key, z = as_key(key), as_points(start, "start")
    groups = integer("num_populations", at_least=1)(num_populations)
    num_draws = integer("num_draws", at_least=1)(num_draws)
    numbers = [integer("num_moves", at_least=1)(num_moves)]
    numbers += [integer("num_warmup", at_least=0)(num_warmup), integer("thin", at_least=1)(thin)]
    num = len(z) if num_particles is None else integer("num_particles", at_least=1)(num_particles)
    num = len(z) if tuning else num
    if len(z) % groups or num % groups or num > len(z):
        raise InvalidInputError(
            f"start and num_particles must be multiples of {groups}, one population each, and not"
            f" fewer starts than particles, got {len(z)} and {num}."
        )
    with jax.enable_x64(True):
        target, reference = as_pytree(log_density), as_pytree(log_reference)
        power, evidence, tunes = 1.0, np.zeros(groups), tuning is None or numbers[1] > 0
        if tuning is None:
            choose_key, key = split(key)
            z, power, evidence = chosen(choose_key, target, reference, z, groups, num)
            tuning = Tuning(np.float64(_FIRST_STEP), cloud_covariance(z))
        limits = np.array([*numbers, _MAX_ITERATIONS])
        begin = z, tuning, np.float64(power), evidence, np.int64(tunes), limits
        end = _run(key, target, reference, *jax.tree.map(placed, begin), num_draws)
        end = jax.tree.map(np.asarray, end)
    draws = end.draws if end.power >= 1.0 else np.repeat(end.z[None], num_draws, axis=0)
    return TemperedDraws(
        draws.reshape(num_draws, groups, -1, z.shape[1]),
        end.log_evidence,
        float(end.power),
        int(end.temperatures),
        float(end.acceptance),
        int(end.divergent),
        end.tuning,
    )


def precompile_tempered(
    log_density: LogDensity,
    log_reference: LogDensity,
    num: int,
    dim: int,
    *,
    num_populations: int,
    num_draws: int,
) -> None:
    """Compile what `tempered` runs for densities of this kind, whose numbers do not matter."""
    with jax.enable_x64(True):
        z = np.zeros((num, dim))
        target, reference = as_pytree(log_density), as_pytree(log_reference)
        log_densities(reference, z, target)
        tuning = Tuning(np.float64(_FIRST_STEP), cloud_covariance(z))
        limits = np.array([1, 0, 1, 0])
        begin = z, tuning, np.float64(0.0), np.zeros(num_populations), np.int64(1), limits
        key = jax.random.key(0)
        _run(key, target, reference, *jax.tree.map(placed, begin), num_draws)


# Compiled -----------------------------------------------------------------------------------------


@filter_jit_fast_compile
def _run(
    key: Array,
    log_density: LogDensity,
    log_reference: LogDensity,
    z: Array,
    tuning: Tuning,
    power: Array,
    log_evidence: Array,
    temperatures: Array,
    limits: Array,
    num_draws: int,
) -> _State:
    """One loop for all temperatures and for the draws, so that the gradient is compiled once; its
    first iteration stands still to evaluate it.
    """
    num_moves, num_warmup, thin, most = limits
    wanted = num_warmup + num_draws * thin

    def evaluate(z: Array) -> tuple[Array, Array]:
        pairs = [
            jax.vmap(jax.value_and_grad(functools.partial(value_or_nothing, density)))(z)
            for density in (log_reference, log_density)
        ]
        values, slopes = (jnp.stack(each) for each in zip(*pairs, strict=True))
        return values, jnp.nan_to_num(slopes, posinf=0.0, neginf=0.0)

    def proceed(state: _State) -> Array:
        arrived = (state.power >= 1.0) & (state.moves >= wanted)
        tired = (state.power < 1.0) & (state.iteration >= most)
        return ~(arrived | tired | (most == 0))

    def iterate(state: _State) -> _State:
        choose_key, move_key = jax.random.split(jax.random.fold_in(key, state.iteration))
        due = (state.power < 1.0) & (state.iteration > 0) & (state.moves >= num_moves)
        state = jax.lax.cond(due, _raised, lambda _, same: same, choose_key, state)
        state = _moved(move_key, state, evaluate, stands=state.iteration == 0)
        slot = jnp.where(state.power >= 1.0, (state.moves - num_warmup - 1) // thin, 0)
        draws = state.draws.at[jnp.clip(slot, 0, num_draws - 1)].set(state.z)
        return dataclasses.replace(state, draws=draws, iteration=state.iteration + 1)

    num, dim = z.shape
    zero = jnp.zeros((), jnp.int64)
    state = _State(
        z,
        jnp.zeros((2, num)),
        jnp.zeros((2, num, dim)),
        power,
        log_evidence,
        tuning,
        jnp.zeros((num_draws, num, dim)),
        zero,
        zero,
        temperatures,
        jnp.zeros(()),
        zero,
    )
    return jax.lax.while_loop(proceed, iterate, state)


def _raised(key: Array, state: _State) -> _State:
    """The next lambda, and each population resampled for it."""
    groups = len(state.log_evidence)
    ratio = state.values[1] - state.values[0]
    ratio = jnp.where(jnp.isnan(ratio), -jnp.inf, ratio)
    step = _increment(ratio, 1.0 - state.power)
    log_weights = jnp.where(jnp.isfinite(ratio), step * ratio, -jnp.inf).reshape(groups, -1)
    size = log_weights.shape[1]
    evidence = jax.scipy.special.logsumexp(log_weights, axis=1) - math.log(size)
    top = jnp.max(log_weights, axis=1, keepdims=True)
    weights = jnp.where(jnp.isfinite(top), jnp.exp(log_weights - top), 1.0)
    places = (jnp.arange(size) + jax.random.uniform(key, (groups, 1))) / size
    sums = jnp.cumsum(weights, axis=1)
    rows = jax.vmap(jnp.searchsorted)(sums / sums[:, -1:], places)
    rows = (jnp.minimum(rows, size - 1) + size * jnp.arange(groups)[:, None]).reshape(-1)
    z = state.z[rows]
    last = step >= 1.0 - state.power
    return dataclasses.replace(
        state,
        z=z,
        values=state.values[:, rows],
        slopes=state.slopes[:, rows],
        power=jnp.where(last, 1.0, state.power + step),
        log_evidence=state.log_evidence + evidence,
        tuning=Tuning(state.tuning.step_size, cloud_covariance(z)),
        moves=jnp.zeros_like(state.moves),
        temperatures=state.temperatures + 1,
        divergent=jnp.zeros_like(state.divergent),
    )


def _increment(ratio: Array, limit: Array) -> Array:
    """The largest step of lambda that leaves enough of the possible particles effective."""
    possible = jnp.isfinite(ratio)
    centred = jnp.where(possible, ratio - jnp.max(jnp.where(possible, ratio, -jnp.inf)), 0.0)

    def enough(step: Array) -> Array:
        weights = jnp.where(possible, jnp.exp(step * centred), 0.0)
        return weights.sum() ** 2 >= EFFECTIVE_SHARE * possible.sum() * (weights**2).sum()

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        fine = enough(middle)
        return jnp.where(fine, middle, low), jnp.where(fine, high, middle)

    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (jnp.zeros(()), limit))
    return jnp.where(enough(limit), limit, jnp.where(low > 0.0, low, high))


def _moved(key: Array, state: _State, evaluate: Any, *, stands: Array) -> _State:
    """One Hamiltonian move of all particles, and the step size after it; where it `stands` still,
    densities are evaluated.
    """
    momentum_key, length_key, accept_key = jax.random.split(key, 3)
    step = jnp.where(stands, 0.0, state.tuning.step_size)
    duration = _DURATION * jax.random.uniform(length_key, minval=0.5, maxval=1.5)
    num_steps = jnp.clip(jnp.ceil(duration / jnp.maximum(step, 1e-6)), 1, _MAX_STEPS)
    num_steps = jnp.where(stands, 1, num_steps.astype(int))
    root = jnp.linalg.cholesky(state.tuning.covariance)
    mix = jnp.stack([1.0 - state.power, state.power])
    log_tempered = functools.partial(_mixed, mix)

    def kick(momentum: Array, slopes: Array) -> Array:
        return momentum + 0.5 * step * jnp.einsum("k,knd->nd", mix, slopes) @ root

    def leap(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        z, momentum, _, slopes = carry
        momentum = kick(momentum, slopes)
        z = z + step * momentum @ root.T
        values, slopes = evaluate(z)
        return z, kick(momentum, slopes), values, slopes

    momentum = jax.random.normal(momentum_key, state.z.shape)
    begin = (state.z, momentum, state.values, state.slopes)
    z, ended, values, slopes = jax.lax.fori_loop(0, num_steps, leap, begin)
    before = log_tempered(state.values) - 0.5 * jnp.sum(momentum**2, axis=1)
    after = log_tempered(values) - 0.5 * jnp.sum(ended**2, axis=1)
    change = jnp.where(jnp.isnan(after), -jnp.inf, after) - before
    change = jnp.where(jnp.isnan(change), -jnp.inf, change)
    chance = jnp.exp(jnp.minimum(change, 0.0))
    taken = (jax.random.uniform(accept_key, chance.shape) < chance) | stands
    mean = jnp.mean(chance)
    arriving = (state.moves < _TUNED_MOVES) & (state.temperatures > 0)
    tunes = ~stands & ((state.power < 1.0) | arriving)
    rate = jnp.exp(jnp.where(tunes, _GAIN * (mean - _TARGET_ACCEPTANCE), 0.0))
    return dataclasses.replace(
        state,
        z=jnp.where(taken[:, None], z, state.z),
        values=jnp.where(taken, values, state.values),
        slopes=jnp.where(taken[:, None], slopes, state.slopes),
        tuning=Tuning(jnp.clip(state.tuning.step_size * rate, 1e-4, 2.0), state.tuning.covariance),
        moves=state.moves + jnp.where(stands, 0, 1),
        acceptance=mean,
        divergent=state.divergent + jnp.sum(change == -jnp.inf),
    )


def _mixed(mix: Array, values: Array) -> Array:
    """log of reference^(1 - lambda) density^lambda; a power of 0 leaves out what is not finite."""
    parts = jnp.where(mix[:, None] > 0.0, mix[:, None] * values, 0.0)
    return parts.sum(axis=0)
