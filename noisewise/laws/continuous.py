r"""Continuous laws of one dimension through independent noise: integrals by panels.

    p(y) = int f(s) eta(y | s) ds

The line is cut where something may happen: at the ends of the support, at kinks of the likelihood
(at y, at a threshold or a clamp), and at the law's centre. Between two cuts panels grow fourfold
from each of them, so that whatever is smooth on the scale of its distance from the cuts is
integrated by 16 points per panel (Gauss and Legendre) to 1e-15, be the law or the noise narrower by
a million. Next to a finite end of the support f may go to infinity as a power: panels shrink to
4^-33 of the way, and what is left is integrated as that power of the distance.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.laws import randomness
from noisewise.laws.windows import at_all, best, pick, window
from noisewise.mechanisms.additive_noise import AbstractAdditiveNoise
from noisewise.mechanisms.base import AbstractMechanism

POINTS = 16
"""Points per panel."""
FEWER_POINTS = 12
"""Points per panel of the coarser rule, from which the finer one's error is estimated."""
_GROWTH = 4.0
"""Factor between neighbouring panels: 16 points integrate s^a over [1, 4] to 3^-32 = 5e-16."""
_INNER = 12
"""Panels next to a cut: the first is 4^-11 = 2e-7 of the way."""
_OUTER = 33
"""Panels next to a finite end of the support: the first is 4^-32 = 5e-20 of the way."""
_FALL = 60.0
"""Nats by which the integrand falls to the ends of its window: densities may have high peaks."""
_UNIT = 1.0 / 64.0
"""Of the smaller sd of noise and law: the lattice on which windows are looked for."""
_ROUNDED = 1e-11
"""Relative to an end of the support other than 0: distances from it are not resolved below."""
_INSIDE = 1e-3
"""In units of that lattice: how near ends of the support are looked at."""
_SLACK = 0.3
"""Nats by which a panel's largest value may exceed that at its points."""


class Integral:
    """log p(y) of each cell by itself.

    Args:
        law: A continuous law with batch shape (..., k), in float64.
        mechanism: Its columns are the last axis of the batch.
        values: What was released, (..., k).
    """

    def __init__(self, law: dist.Distribution, mechanism: AbstractMechanism, values: Array) -> None:
        self._law, self._mechanism, self._values = law, mechanism, values
        self._noise = noise_of(mechanism, values.shape[-1])
        self._shape = jnp.broadcast_shapes(law.batch_shape, values.shape)
        low, high = ends_of(law.support)
        self._has_end = (low is not None, high is not None)
        self._low = self._filled(-jnp.inf if low is None else low)
        self._high = self._filled(jnp.inf if high is None else high)

    def log_prob(self, points: int = POINTS) -> Float[Array, "*batch"]:
        parts = self._panels()
        values = self._values_in(parts, points)[1]
        each = [values.reshape(*self._shape, -1)]
        each += [tail.log_integral[..., None] for tail in self._tails()]
        return _log_sum(jnp.concatenate(each, axis=-1))

    def error(self) -> Float[Array, "*batch"]:
        """How far log p may be off: its difference from that with fewer points."""
        return jnp.abs(self.log_prob() - self.log_prob(FEWER_POINTS))

    def confidential(self, key: Array) -> Float[Array, "*batch"]:
        """A draw of s given y: a panel by its integral, in it by rejection."""
        which_key, tail_key, inner_key = jax.random.split(key, 3)
        panels, tails = self._panels(), self._tails()
        heights, values = self._values_in(panels, POINTS)
        each = [_log_sum(values), *(tail.log_integral[..., None] for tail in tails)]
        integrals = jnp.concatenate(each, axis=-1)
        place = best(integrals + randomness.gumbel(which_key, integrals.shape))
        inner = jnp.minimum(place, panels.starts.shape[-1] - 1.0)
        start, length = pick(panels.starts, inner), pick(panels.lengths, inner)
        most = pick(heights.max(axis=-1), inner) + _SLACK

        def attempt(state: tuple[Array, ...]) -> tuple[Array, ...]:
            key, found, done = state
            key, first, second = jax.random.split(key, 3)
            s = start + length * randomness.uniform(first, start.shape)
            chance = self._log(s) - most
            accepted = jnp.log(randomness.uniform(second, start.shape)) < chance
            return key, jnp.where(accepted & ~done, s, found), done | accepted

        in_tail = place > inner
        state = (inner_key, start, in_tail)
        found = jax.lax.while_loop(lambda state: ~state[2].all(), attempt, state)[1]
        share = randomness.uniform(tail_key, self._shape)
        for number, tail in enumerate(tails):
            chosen = place == panels.starts.shape[-1] + number
            found = jnp.where(chosen, tail.end + tail.reach * share ** (1.0 / tail.power), found)
        return found

    # The integrand --------------------------------------------------------------------------------

    def _log(self, s: Array) -> Array:
        """log f(s) + log eta(y | s), s inside the support."""
        value = self._law.log_prob(s) + self._mechanism._log_prob_each(self._values, s)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def _values_in(self, panels: _Panels, points: int) -> tuple[Array, Array]:
        """The logs of the integrand at the points of panels, (*batch, p, m), and with weights."""
        starts, lengths = panels
        nodes, shares = _rule(points)
        places = starts[..., None] + lengths[..., None] * nodes
        heights = at_all(self._log, places.reshape(*self._shape, -1)).reshape(places.shape)
        some = lengths > 0.0
        weights = jnp.log(jnp.where(some, lengths, 1.0))[..., None] + jnp.log(shares)
        return heights, jnp.where(some[..., None], heights + weights, -jnp.inf)

    # Panels ---------------------------------------------------------------------------------------

    def _panels(self) -> _Panels:
        cuts, (has_low, has_high) = self._cuts(), self._has_end
        last = cuts.shape[-1] - 2
        sides = []
        for number in range(last + 1):
            left, right = cuts[..., number], cuts[..., number + 1]
            sides.append(_beside(left, right, is_end=has_low and number == 0))
            sides.append(_beside(right, left, is_end=has_high and number == last))
        starts, lengths = zip(*sides, strict=True)
        return _Panels(jnp.concatenate(starts, axis=-1), jnp.concatenate(lengths, axis=-1))

    def _tails(self) -> list[_Tail]:
        """What is left between the last panels and finite ends of the support."""
        cuts = self._cuts()
        pairs = ((cuts[..., 0], cuts[..., 1]), (cuts[..., -1], cuts[..., -2]))
        ends = zip(pairs, self._has_end, strict=True)
        return [self._tail(*pair) for pair, has_end in ends if has_end]

    def _tail(self, end: Array, other: Array) -> _Tail:
        """The integrand taken for a power of the distance from an end."""
        reach = jnp.sign(other - end) * _edges(end, other, _OUTER)[..., 0]
        near, nearer = self._log(end + reach), self._log(end + 0.5 * reach)
        some = (reach != 0.0) & jnp.isfinite(near) & jnp.isfinite(nearer)
        power = 1.0 + jnp.where(some, near - nearer, 0.0) / math.log(2.0)
        some = some & (power > 0.0)
        power = jnp.where(some, power, 1.0)
        size = jnp.log(jnp.where(some, jnp.abs(reach), 1.0))
        value = jnp.where(some, jnp.where(some, near, 0.0) + size - jnp.log(power), -jnp.inf)
        return _Tail(end, reach, power, value)

    def _cuts(self) -> Array:
        """The window's ends and the cuts between them. Ends of the support move with parameters."""
        inner, first, last = self._found
        low = jnp.where(first <= self._low, self._low, first)
        high = jnp.where(last >= self._high, self._high, last)
        inner = jnp.clip(inner, low[..., None], high[..., None])
        return jnp.concatenate([low[..., None], inner, high[..., None]], axis=-1)

    @functools.cached_property
    def _found(self) -> tuple[Array, Array, Array]:
        """Cuts, and the window's ends, infinite where those of the support are: constants."""
        fixed = Integral(jax.lax.stop_gradient(self._law), self._mechanism, self._values)
        found = fixed._search()
        return tuple(map(jax.lax.stop_gradient, found))

    def _search(self) -> tuple[Array, Array, Array]:
        kinks = self._mechanism._kinks(self._values, jnp)
        kinks = jnp.broadcast_to(kinks, (*self._shape, kinks.shape[-1]))
        centre, unit = self._centre(), self._unit()
        inner = (kinks > self._low[..., None]) & (kinks < self._high[..., None])
        cuts = jnp.where(inner, kinks, centre[..., None])
        cuts = jnp.sort(jnp.concatenate([cuts, centre[..., None]], axis=-1), axis=-1)
        origin = cuts[..., 0]
        inside = jnp.minimum(_INSIDE * unit, 0.25 * (self._high - self._low))

        def log(number: Array) -> Array:
            s = origin + unit * number
            return self._log(jnp.clip(s, self._low + inside, self._high - inside))

        bounds = ((self._low - origin) / unit, (self._high - origin) / unit)
        peaks = (cuts - origin[..., None]) / unit[..., None]
        bracket = (jnp.maximum(bounds[0], -1.0), jnp.minimum(bounds[1], peaks[..., -1] + 1.0))
        found = window(log, bracket, bounds, peaks, fall=_FALL)
        low = jnp.where(found.low <= bounds[0], -jnp.inf, origin + unit * found.low)
        high = jnp.where(found.high >= bounds[1], jnp.inf, origin + unit * found.high)
        return cuts, low, high

    def _centre(self) -> Array:
        """Where the law has its mass: its mean, or its location where it has none."""
        mean = self._filled(self._law.mean)
        place = self._filled(getattr(self._law, "loc", 0.0))
        return jnp.where(jnp.isfinite(mean), mean, place)

    def _unit(self) -> Array:
        """The step of the lattice on which the window is looked for."""
        sd, noise = self._filled(jnp.sqrt(self._law.variance)), self._filled(self._noise)
        return _UNIT * jnp.where(jnp.isfinite(sd) & (sd > 0.0), jnp.minimum(sd, noise), noise)

    def _filled(self, value: Any) -> Array:
        return jnp.broadcast_to(jnp.asarray(value, dtype=jnp.float64), self._shape)


class _Panels(NamedTuple):
    starts: Float[Array, "*batch p"]
    lengths: Float[Array, "*batch p"]


class _Tail(NamedTuple):
    """The integrand from an end as far as `reach`, which has a sign: a constant times the distance
    to the power - 1.
    """

    end: Array
    reach: Array
    power: Array
    log_integral: Array


def is_of_real_noise(mechanism: AbstractMechanism) -> bool:
    """Whether all columns have additive noise on the real line, whatever is done to it later."""
    return all(isinstance(part.inner, AbstractAdditiveNoise) for part in mechanism.blocks)


def noise_of(mechanism: AbstractMechanism, k: int) -> Array:
    """The scale of the noise of each of k columns."""
    parts = zip(mechanism.blocks, mechanism.block_widths(k), strict=True)
    scales = [jnp.broadcast_to(part.inner.scale, (width,)) for part, width in parts]  # type: ignore[attr-defined]
    return jnp.concatenate(scales)


def ends_of(support: Any) -> tuple[Any, Any]:
    """The ends of an interval, None where it has none."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return getattr(support, "lower_bound", None), getattr(support, "upper_bound", None)


def _beside(cut: Array, other: Array, *, is_end: bool) -> tuple[Array, Array]:
    """Starts and lengths of panels from a cut to the middle between it and another; without the
    first one at an end of the support.
    """
    edges = _edges(cut, other, _OUTER if is_end else _INNER)
    if not is_end:
        edges = jnp.concatenate([jnp.zeros_like(edges[..., :1]), edges], axis=-1)
    inner, outer = edges[..., :-1], edges[..., 1:]
    is_right = (other >= cut)[..., None]
    starts = jnp.where(is_right, cut[..., None] + inner, cut[..., None] - outer)
    return starts, outer - inner


def _edges(cut: Array, other: Array, count: int) -> Array:
    """Distances from a cut, fourfold growing, up to the middle."""
    half = 0.5 * jnp.abs(other - cut)[..., None]
    graded = half * _GROWTH ** jnp.arange(1.0 - count, 1.0)
    least = jnp.abs(jax.lax.stop_gradient(cut))[..., None] * _ROUNDED
    return jnp.minimum(jnp.maximum(graded, least), half)


@functools.cache
def _rule(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in (0, 1) and weights that sum to 1, of Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return 0.5 * (1.0 + nodes), 0.5 * weights


def _log_sum(values: Array) -> Array:
    """The log of a sum of exponentials along the last axis, -inf where all are 0."""
    top = jax.lax.stop_gradient(values.max(axis=-1))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    total = jnp.exp(values - top[..., None]).sum(axis=-1)
    return top + jnp.log(total)
