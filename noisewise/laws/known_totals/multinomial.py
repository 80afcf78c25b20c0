r"""Multinomial counts with a known total through noise of independent cells.

Multinomial(n, p) counts are independent Poisson(n p_j) counts given that their total is n;
Dirichlet-multinomial ones are independent negative binomial counts of shapes a_j and one rate. So

    p(y) = P(S = n, y) / P(S = n),        S = s_1 + ... + s_k,

    P(S = n, y) = prod_j Z_j  P(S = n | y),    Z_j = sum_s f_j(s) eta(y_j | s),

    P(S = n | y) = 1/F sum_{m=-(F-1)/2}^{(F-1)/2} e^(-i t n) prod_j phi_j(t),    t = 2 pi m / F,

where phi_j is the characteristic function of s_j given y_j alone. The sum is right up to the
probability of n +- F given y, and ends where the product of the phi_j is negligible. The laws are
tilted, f_j(s) e^(c s), by that c for which the mean of S given y is n, so that nothing cancels (the
saddle point); the result does not depend on c.
Real and imaginary parts are carried by hand, frequency by frequency, by rotations: the program is
small, and its cost follows the noise, not n. Derivatives are

    d log P(S = n, y) / d log f_j(s) = P(s_j = s | y, S = n),

which the same sum gives with phi_j left out.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError
from noisewise.laws import randomness
from noisewise.laws.counts import CountSum, Plan
from noisewise.laws.deviance import log_pmf
from noisewise.laws.gram import NUM_POINTS
from noisewise.mechanisms.base import AbstractMechanism

_TAILS = 9.0
"""Sds of the total, besides the longest window of a cell, after which the sum over frequencies
repeats itself: e^-40.
"""
_QUIET = 40.0
"""Nats: products of characteristic functions below e^-40 are negligible."""
_PATIENCE = 16
"""Frequencies in a row at which the product must be negligible: it may pass through zero."""
_WAVES = 16.0
"""Radians within one panel up to which its 16 points follow a wave, to 1e-12."""
_SIDE, _SIDE_OF_FEW, _FEW = 1.0, 2.5, 6
"""Of the reach of the noise, 60 sds: the longest side of a window. 40 nats of Laplace noise are 28
sds, and 57 where the total takes half of its slope away; among up to 6 cells it may take more.
"""
_NEIGHBOURS = 1.0 + 1e-6
"""Gaps between points that are wider belong to a rule of summation."""
_FEWEST, _PANELS, _PANELS_OF_ALL = 4, 64, 512
"""Panels on each side of a kink: as many as hold the side number by number, 16 each, from 4 up to
64 or, where there are few cells, up to 512 for all cells together. Longer sides are followed up to
the frequencies that `_WAVES` allows.
"""
_SEARCHES = 40
"""Steps towards the saddle point at most: Newton's, or halves of a bracket."""
_FURTHEST = 40.0
"""Nats per count: the saddle point is sought among tilts of e^-40 to e^40."""
_MOST_ATTEMPTS = 10_000
"""Draws of counts with their total, after which they are NaN: one in some sds of a cell is
accepted, and none where what was released is impossible.
"""
_CLOSE = 0.3
"""Sds of the total: how near to n its mean must be. Less gains nothing."""


class KnownTotal:
    """Counts with a known total.

    Args:
        law: A Multinomial or DirichletMultinomial law in float64, its last axis the cells.
        mechanism: Its columns are the cells.
        values: What was released, (*batch, k).
        plan: What is known of sizes.
    """

    def __init__(
        self, law: dist.Distribution, mechanism: AbstractMechanism, values: Array, plan: Plan
    ) -> None:
        self._mechanism, self._values, self._plan = mechanism, values, plan
        self._total = float(total_of(law))
        self._cells, self._whole = independent(law, max(self._total, 0.5))
        self._batch = jnp.broadcast_shapes(law.batch_shape, values.shape[:-1])
        count = values.shape[-1]
        side = (_SIDE_OF_FEW if count <= _FEW else _SIDE) * plan.reach / NUM_POINTS
        self._panels = math.ceil(min(max(side, _FEWEST), max(_PANELS, _PANELS_OF_ALL // count)))

    def log_prob(self) -> Float[Array, "*batch"]:
        tilt = self._tilt()
        points, values = self._sum(tilt).terms(self._panels)
        means = jax.lax.stop_gradient(self._cells.mean).sum(axis=-1)
        joint = log_of_total(values, points, self._total) - tilt * (self._total - means)
        possible = self._mechanism._possible(self._values).all(axis=-1)
        found = joint - log_pmf(self._whole, jnp.full(self._batch, self._total))
        return jnp.where(possible, found, -jnp.inf)

    def confidential(self, key: Array) -> Float[Array, "*batch k"]:
        """Counts given y: all but one drawn from their own posteriors, the last one what is left,
        accepted by its probability.
        """
        found = self._sum(self._tilt())
        points, values = found.terms(self._panels)
        spread = _moments(points, values)[1]
        widest = spread == spread.max(axis=-1, keepdims=True)
        widest = widest & (jnp.cumsum(widest, axis=-1) == 1)
        # log f is found at points so dense that none is .1 below the largest
        most = self._log_at(found, points).max(axis=-1) + 0.1

        def attempt(state: tuple[Array, ...]) -> tuple[Array, ...]:
            key, counts, done, attempts = state
            key, first, second = jax.random.split(key, 3)
            drawn = found.confidential(first)
            rest = self._total - jnp.where(widest, 0.0, drawn).sum(axis=-1, keepdims=True)
            log_rest = found._log(jnp.where(widest, rest, drawn))
            chance = jnp.where(widest, log_rest - most, 0.0).sum(axis=-1)
            accepted = jnp.log(randomness.uniform(second, chance.shape)) < chance
            new = jnp.where(widest, rest, drawn)
            counts = jnp.where((accepted & ~done)[..., None], new, counts)
            return key, counts, done | accepted, attempts + 1

        def goes_on(state: tuple[Array, ...]) -> Array:
            return ~state[2].all() & (state[3] < _MOST_ATTEMPTS)

        nothing = jnp.zeros(found._shape), jnp.zeros(self._batch, dtype=bool), jnp.asarray(0)
        _, counts, done, _ = jax.lax.while_loop(goes_on, attempt, (key, *nothing))
        return jnp.where(done[..., None], counts, jnp.nan)

    def _log_at(self, found: CountSum, points: Array) -> Array:
        return jax.vmap(found._log, in_axes=-1, out_axes=-1)(points)

    def _sum(self, tilt: Array) -> CountSum:
        given = (self._cells, self._mechanism, self._values, self._plan)
        return CountSum(*given, tilt[..., None], self._total)

    def _tilt(self) -> Float[Array, "*batch"]:
        """Where the mean of the total given y is near n: Newton's steps inside a bracket."""
        fixed = KnownTotal.__new__(KnownTotal)
        fixed.__dict__.update(self.__dict__)
        fixed._cells = jax.lax.stop_gradient(self._cells)

        def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
            low, high, tilt, _, number = state
            means, variances = _moments(*fixed._sum(tilt).terms(_FEWEST))
            excess, variance = means.sum(axis=-1) - self._total, variances.sum(axis=-1)
            low = jnp.where(excess < 0.0, tilt, low)
            high = jnp.where(excess > 0.0, tilt, high)
            newton = tilt - excess / jnp.maximum(variance, 1e-300)
            inside = (newton > low) & (newton < high)
            far = jnp.abs(excess) > _CLOSE * jnp.sqrt(variance)
            tilt = jnp.where(far, jnp.where(inside, newton, 0.5 * (low + high)), tilt)
            return low, high, tilt, far, number + 1

        def goes_on(state: tuple[Array, ...]) -> Array:
            return state[3].any() & (state[4] < _SEARCHES)

        ends = (jnp.full(self._batch, -_FURTHEST), jnp.full(self._batch, _FURTHEST))
        start = jnp.zeros(self._batch)
        state = (*ends, start, jnp.ones(self._batch, dtype=bool), jnp.zeros((), int))
        return jax.lax.stop_gradient(jax.lax.while_loop(goes_on, step, state)[2])


def independent(law: Any, count: float) -> tuple[dist.Distribution, dist.Distribution]:
    """Laws of independent cells whose law given their total is the one asked for, with means that
    sum to the count; and the law of that total.
    """
    if isinstance(law, dist.DirichletMultinomial):
        shape = law.concentration.sum(axis=-1)
        rate = (shape / count)[..., None]
        shapes, rates = jnp.broadcast_arrays(law.concentration, rate)
        whole = dist.GammaPoisson(shape, rate[..., 0], validate_args=False)
        return dist.GammaPoisson(shapes, rates, validate_args=False), whole
    cells = dist.Poisson(count * law.probs, validate_args=False)
    return cells, dist.Poisson(count * law.probs.sum(axis=-1), validate_args=False)


def total_of(law: Any) -> int:
    """The known total.

    Raises:
        InvalidInputError: If it is no single whole number.
    """
    count = law.total_count
    if isinstance(count, (int, np.integer)):
        return int(count)
    raise InvalidInputError(
        "Counts with a known total need it as one whole number: write total_count=int(n)."
    )


@jax.custom_jvp
def log_of_total(
    values: Float[Array, "*batch k m"], points: Float[Array, "*batch k m"], total: float
) -> Float[Array, "*batch"]:
    """The log of the sum of exp(sum_j values_j) over all choices of one point per cell whose sum is
    the total.

    Args:
        values: Logs of the terms, which have derivatives.
        points: Whole numbers, or points of a rule of summation.
        total: What the points must sum to.

    >>> with jax.enable_x64(True):
    ...     flat, both = jnp.zeros((2, 3)), jnp.tile(jnp.arange(3.0), (2, 1))
    ...     jnp.exp(log_of_total(flat, both, 3.0)).round(6).item()  # 1 + 2 and 2 + 1
    2.0
    """
    return _waves(values, points, total, with_shares=False)[0]


@log_of_total.defjvp
def _log_of_total_jvp(primals: Any, tangents: Any) -> Any:
    value, shares = _waves(*primals, with_shares=True)
    return value, (shares * jnp.where(shares > 0.0, tangents[0], 0.0)).sum(axis=(-1, -2))


def _moments(points: Array, values: Array) -> tuple[Array, Array]:
    """The mean and variance of each cell by itself."""
    shares = jnp.exp(values - logsumexp(values, axis=-1, keepdims=True))
    mean = (shares * points).sum(axis=-1)
    return mean, (shares * (points - mean[..., None]) ** 2).sum(axis=-1)


def _waves(values: Array, points: Array, total: float, *, with_shares: bool) -> tuple[Array, Array]:
    """The sum over frequencies, and the probabilities of the points given the total."""
    log_each = logsumexp(values, axis=-1)
    shares = jnp.exp(values - log_each[..., None])
    mean, variance = _moments(points, values)
    centre = jnp.round(mean)
    x, rest = points - centre[..., None], total - centre.sum(axis=-1)
    used = jnp.where(shares > 0.0, jnp.abs(x), 0.0)
    longest = 2.0 * used.max(axis=(-1, -2)) + _TAILS * jnp.sqrt(variance.sum(axis=-1))
    half = jnp.ceil(0.5 * (longest + jnp.abs(rest)))
    step = 2.0 * math.pi / (2.0 * half + 1.0)
    last = jnp.minimum(half, _WAVES / (step * _widest_gap(points, shares)))
    turn = step[..., None, None] * x
    cos_turn, sin_turn = jnp.cos(turn), jnp.sin(turn)

    def add(state: tuple[Array, ...]) -> tuple[Array, ...]:
        number, active, quiet, cos, sin, whole, parts = state
        cos, sin = cos * cos_turn - sin * sin_turn, sin * cos_turn + cos * sin_turn
        real, imaginary = (shares * cos).sum(axis=-1), (shares * sin).sum(axis=-1)
        size = 0.5 * jnp.log(jnp.maximum(real**2 + imaginary**2, 1e-300))
        angle = jnp.arctan2(imaginary, real)
        size_of_all = size.sum(axis=-1)
        angle_of_all = angle.sum(axis=-1) - number * step * rest
        kept = jnp.where(active, 2.0, 0.0)
        whole = whole + kept * jnp.exp(size_of_all) * jnp.cos(angle_of_all)
        others = size_of_all[..., None] - size
        if with_shares:
            factor, phase = jnp.exp(others), angle_of_all[..., None] - angle
            real, imaginary = factor * jnp.cos(phase), factor * jnp.sin(phase)
            wave = real[..., None] * cos - imaginary[..., None] * sin
            parts = parts + kept[..., None, None] * wave
        quiet = jnp.where(others.max(axis=-1) < -_QUIET, quiet + 1.0, 0.0)
        active = active & (number < last) & (quiet < _PATIENCE)
        return number + 1.0, active, quiet, cos, sin, whole, parts

    ones = jnp.ones_like(x)
    state = (
        jnp.ones(()),
        half >= 1.0,
        jnp.zeros_like(half),
        ones,
        jnp.zeros_like(x),
        jnp.ones_like(half),
        ones if with_shares else jnp.ones(()),
    )
    *_, whole, parts = jax.lax.while_loop(lambda state: state[1].any(), add, state)
    possible = whole > 0.0
    safe = jnp.where(possible, whole, 1.0)
    found = log_each.sum(axis=-1) + jnp.log(safe) - jnp.log(2.0 * half + 1.0)
    given = shares * parts / safe[..., None, None]
    return jnp.where(possible, found, -jnp.inf), given


def _widest_gap(points: Array, shares: Array) -> Array:
    """16 times the widest gap between points, the length of the longest panel; 0 where all are
    neighbours.
    """
    used = (shares[..., 1:] > 0.0) & (shares[..., :-1] > 0.0)
    gaps = jnp.where(used, jnp.diff(points, axis=-1), 0.0).max(axis=(-1, -2))
    return jnp.where(gaps > _NEIGHBOURS, NUM_POINTS * gaps, 1e-300)
