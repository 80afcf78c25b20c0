r"""Sums over a confidential count:  log p(y) = log sum_s f(s) eta(y | s),  s whole.

Two rules, whose number of points depends neither on counts nor on noise:

- `EvenRule`, where law and noise are smooth: points in equal steps h over the window. For h = 1 the
  sum is exact; where the window is wider, h is at most .45 of the sd w of the summand, and the
  error exp(-2 pi^2 (w/h)^2) is far below 1e-16.
- `PanelRule`, where the likelihood has kinks (at y, for Laplace noise) or the law is steep at an
  end of its support: the window is cut at the kinks, and each part into panels that are summed by
  `gram`'s rules, one by one where there are few numbers, else by 16 points per panel.

Derivatives pass through the points, which are constants:

    d log p(y) / d parameter = E[d log f(s) / d parameter | y].
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.laws import randomness
from noisewise.laws.gram import NUM_POINTS, points_and_weights
from noisewise.laws.windows import Log, Window, at_all, best, pick

EVEN_POINTS = 64
"""Points in equal steps: a window of 18 sds of the summand, found to an eighth, has steps of at
most .33 sds.
"""
PANELS = 4
"""Panels on each side of a kink: a side of a normal summand, 9 sds long, gives each 2.3 of them,
and one of Laplace noise 10 scales, which 16 points sum to 1e-15.
"""


@dataclasses.dataclass(frozen=True)
class EvenRule:
    """Points in equal steps over the window."""

    def points(self, window: Window, kinks: Array) -> tuple[Array, Array]:
        """Points and the logs of their weights, shape (*batch, m)."""
        del kinks
        step = jnp.maximum(1.0, (window.high - window.low) / (EVEN_POINTS - 1))[..., None]
        points = window.low[..., None] + jnp.arange(EVEN_POINTS) * step
        inside = points <= window.high[..., None] + 0.5
        points = jnp.where(inside, points, window.high[..., None])
        weights = jnp.where(inside, jnp.log(step), -jnp.inf)
        return points, jnp.broadcast_to(weights, points.shape)


@dataclasses.dataclass(frozen=True)
class EveryNumber:
    """All numbers of a small support, one by one: nothing is smooth between them.

    Attributes:
        size: How many there are, at most.
    """

    size: int

    def points(self, window: Window, kinks: Array) -> tuple[Array, Array]:
        """Points and the logs of their weights, shape (*batch, m)."""
        del kinks
        points = window.low[..., None] + jnp.arange(self.size)
        inside = points <= window.high[..., None]
        points = jnp.where(inside, points, window.high[..., None])
        return points, jnp.where(inside, 0.0, -jnp.inf)


@dataclasses.dataclass(frozen=True)
class PanelRule:
    """Panels before, between and after kinks.

    Attributes:
        doublings: More panels at every end, of 16, 32, 64, ... numbers, for laws that are steep
            there: as many as reach the middle of the window from its ends.
        panels: Panels between two kinks, besides those.
    """

    doublings: int = 0
    panels: int = PANELS

    def points(self, window: Window, kinks: Array) -> tuple[Array, Array]:
        """Points and the logs of their weights, shape (*batch, m)."""
        starts, lengths = self.cut(window, kinks)
        points, weights = points_and_weights(lengths)
        positive = weights > 0.0
        log_weights = jnp.where(positive, jnp.log(jnp.where(positive, weights, 1.0)), -jnp.inf)
        points = jnp.minimum(starts[..., None] + points, window.high[..., None, None])
        shape = (*lengths.shape[:-1], -1)
        return points.reshape(shape), log_weights.reshape(shape)

    def cut(self, window: Window, kinks: Array) -> tuple[Array, Array]:
        """The first number of each panel, and how many it has, shape (*batch, p)."""
        low, after = window.low[..., None], window.high[..., None] + 1.0
        cuts = jnp.clip(jnp.ceil(kinks), low, after)
        cuts = jnp.concatenate([low, cuts, after], axis=-1)
        starts, lengths = self._between(cuts[..., :-1], jnp.diff(cuts, axis=-1))
        shape = (*low.shape[:-1], -1)
        return starts.reshape(shape), lengths.reshape(shape)

    def _between(self, start: Array, total: Array) -> tuple[Array, Array]:
        """Panels that cover `total` numbers from `start` on, along a new last axis."""
        total = total[..., None]
        if not self.doublings:
            ends = jnp.floor(total * jnp.arange(1, self.panels + 1) / self.panels)
        else:
            graded = self._graded(total)
            count = graded.shape[-1]
            alike = jnp.floor(total * jnp.arange(1, count + 1) / count)
            ends = jnp.where(total <= NUM_POINTS * count, alike, graded)
        begins = _begins(ends)
        return start[..., None] + begins, ends - begins

    def _graded(self, total: Array) -> Array:
        """Ends of panels that double from both ends of a part."""
        half = jnp.ceil(total / 2)
        longest = jnp.maximum(jnp.ceil(half / self.panels), NUM_POINTS)
        doubled = jnp.minimum(NUM_POINTS * 2.0 ** jnp.arange(self.doublings), longest)
        first = jnp.minimum(jnp.cumsum(doubled, axis=-1), half)
        begin = first[..., -1:]
        numbers = jnp.arange(1, self.panels + 1)
        rest = begin + jnp.floor((half - begin) * numbers / self.panels)
        ends = jnp.concatenate([first, rest], axis=-1)
        mirrored = (total - _begins(ends))[..., ::-1]
        return jnp.concatenate([ends, jnp.maximum(mirrored, half)], axis=-1)


def _begins(ends: Array) -> Array:
    """Where panels begin that end there, the first one at 0."""
    return jnp.concatenate([jnp.zeros_like(ends[..., :1]), ends[..., :-1]], axis=-1)


def log_sum(log: Log, points: Array, log_weights: Array) -> Float[Array, "*batch"]:
    """log sum_m w_m exp(log(s_m)) over points (*batch, m)."""
    values = at_all(log, points) + log_weights
    top = jax.lax.stop_gradient(values.max(axis=-1))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    return top + jnp.log(jnp.exp(values - top[..., None]).sum(axis=-1))


def draw(
    key: Array, log: Log, window: Window, kinks: Array, doublings: int
) -> Float[Array, "*batch"]:
    """A number s with probability proportional to exp(log(s)).

    A panel is drawn by its sum, then one of its 16 parts by theirs, and so on down to single
    numbers.
    """

    def narrower(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        key, start, length = state
        key, own = jax.random.split(key)
        ends = jnp.floor(length[..., None] * jnp.arange(1, NUM_POINTS + 1) / NUM_POINTS)
        begins = _begins(ends)
        return key, *_chosen(own, log, start[..., None] + begins, ends - begins)

    first, rest = jax.random.split(key)
    panels = PanelRule(min(doublings, _FINE)).cut(window, kinks)
    state = (rest, *_chosen(first, log, *panels))
    is_wide = lambda state: (state[2] > 1.0).any()  # noqa: E731
    return jax.lax.while_loop(is_wide, narrower, state)[1]


_FINE = 12
"""Doublings at ends when a number is drawn: windows of 16 * 2^13 = 131,072 numbers are graded from
end to end.
"""


def _chosen(key: Array, log: Log, starts: Array, lengths: Array) -> tuple[Array, Array]:
    """One of the panels of each cell, drawn by its sum."""
    points, weights = points_and_weights(lengths)
    flat = (starts[..., None] + points).reshape(*lengths.shape[:-1], -1)
    values = jnp.where(weights > 0.0, at_all(log, flat).reshape(points.shape), -jnp.inf)
    sums = logsumexp(values, b=weights, axis=-1)
    which = best(sums + randomness.gumbel(key, sums.shape))
    return pick(starts, which), pick(lengths, which)
