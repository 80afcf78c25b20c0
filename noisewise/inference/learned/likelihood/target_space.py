r"""Private statistics as targets of a density: atoms are spread with fresh uniforms over cells of
their own.

    s_dp, u  ->  t,        P(s_dp) = E_u[ q(t(s_dp, u)) w(s_dp, u) ]

A continuous q fitted to values on a lattice would grow without bound at its points. Spread over its
cell, each point has a bounded density, whose integral over the cell, 1/w dt at the map of a uniform
u, is the point's probability.
"""

from __future__ import annotations

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, open_uniforms
from noisewise._core.keys import fold_in
from noisewise.inference.learned.common.bends import Bend
from noisewise.mechanisms.supports import AbstractSupport, Blocks, Finite, Interval, Lattice

_ROWS = 16_384
"""Rows spread at a time: one program serves every number, and memory stays small."""


class AbstractSpread(eqx.Module):
    """How columns of one support become real numbers with a density."""

    @abc.abstractmethod
    def __call__(self, values: Array, u: Array) -> tuple[Array, Array]:
        """Spread values over their cells.

        Args:
            values: Private statistics of one support, of any shape.
            u: Uniforms of the same shape.

        Returns:
            t and log w, elementwise.
        """

    @abc.abstractmethod
    def inverse(self, t: Array) -> Array:
        """The value whose cell t lies in; the nearest one where t is beyond all of them."""


class AsItIs(AbstractSpread):
    """Real numbers: t = s_dp, w = 1."""

    def __call__(self, values: Array, u: Array) -> tuple[Array, Array]:
        return values, jnp.zeros_like(values)

    def inverse(self, t: Array) -> Array:
        return t


class OutOfTotal(AbstractSpread):
    r"""Counts k = 0..n, in steps from `low`: y = (k + u) / (n + 1), t = arcsin sqrt(y), w = dt/dy /
    (n + 1).

    The binomial noise of t hardly depends on k, and its density vanishes at the ends instead of
    breaking off.
    """

    low: Array
    step: Array
    total: Array

    def __call__(self, values: Array, u: Array) -> tuple[Array, Array]:
        y = (jnp.round((values - self.low) / self.step) + u) / (self.total + 1.0)
        return jnp.arcsin(jnp.sqrt(y)), -jnp.log(2.0 * jnp.sqrt(y * (1.0 - y))) - jnp.log(
            self.total + 1.0
        )

    def inverse(self, t: Array) -> Array:
        y = jnp.sin(jnp.clip(t, 0.0, jnp.pi / 2.0)) ** 2
        return self.low + self.step * jnp.clip(jnp.floor(y * (self.total + 1.0)), 0.0, self.total)


class Counts(AbstractSpread):
    r"""Counts k = 0, 1, ... in steps from `low`, in the direction of `step`: t = 2 sqrt(k + u), w =
    1 / sqrt(k + u).
    """

    low: Array
    step: Array

    def __call__(self, values: Array, u: Array) -> tuple[Array, Array]:
        root = jnp.sqrt(jnp.round((values - self.low) / self.step) + u)
        return 2.0 * root, -jnp.log(root)

    def inverse(self, t: Array) -> Array:
        return self.low + self.step * jnp.floor(jnp.maximum(t / 2.0, 0.0) ** 2)


class Steps(AbstractSpread):
    """A lattice without ends: t = s_dp + step (u - 1/2), w = step."""

    step: Array

    def __call__(self, values: Array, u: Array) -> tuple[Array, Array]:
        return values + self.step * (u - 0.5), jnp.broadcast_to(jnp.log(self.step), values.shape)

    def inverse(self, t: Array) -> Array:
        return self.step * jnp.round(t / self.step)


class Choices(AbstractSpread):
    """Finitely many values by their rank k, as `OutOfTotal`."""

    values: Array

    def __call__(self, values: Array, u: Array) -> tuple[Array, Array]:
        return self._ranks(
            jnp.argmin(jnp.abs(values[..., None] - self.values), axis=-1).astype(float), u
        )

    def inverse(self, t: Array) -> Array:
        return jnp.asarray(self.values)[self._ranks.inverse(t).astype(int)]

    @property
    def _ranks(self) -> OutOfTotal:
        """The spread of the ranks 0, ..., number of values - 1."""
        return OutOfTotal(np.asarray(0.0), np.asarray(1.0), np.asarray(len(self.values) - 1.0))


class MassAtEnds(AbstractSpread):
    """An interval whose ends have probabilities of their own: spread beyond them, exponentially
    with mean `scale`.
    """

    low: Array
    high: Array
    scale: Array

    def __call__(self, values: Array, u: Array) -> tuple[Array, Array]:
        e = -jnp.log1p(-u)
        below, above = values <= self.low, values >= self.high
        t = jnp.where(
            below, self.low - self.scale * e, jnp.where(above, self.high + self.scale * e, values)
        )
        return t, jnp.where(below | above, e + jnp.log(self.scale), 0.0)

    def inverse(self, t: Array) -> Array:
        return jnp.clip(t, self.low, self.high)


class TargetSpace(eqx.Module):
    """The map of whole private statistics (..., k'), of which only the columns `kept` become
    targets (..., d).
    """

    spreads: tuple[AbstractSpread, ...]
    bend: Bend
    widths: tuple[int, ...] = eqx.field(static=True)
    kept: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def of(support: AbstractSupport, s_dp: np.ndarray, kept: np.ndarray) -> TargetSpace:
        """The space of private statistics like simulated ones.

        Args:
            support: Where the mechanism's values lie: it decides how columns are spread.
            s_dp: Simulated private statistics, shape (..., kp).
            kept: The numbers of the columns to learn.

        Returns:
            The space of the columns kept.
        """
        s_dp = s_dp.reshape(-1, s_dp.shape[-1])
        blocks = [support] if not isinstance(support, Blocks) else list(support.supports)
        widths = [s_dp.shape[1]] if not isinstance(support, Blocks) else list(support.widths)
        columns = np.split(s_dp, np.cumsum(widths)[:-1], axis=1)
        spreads = tuple(
            _spread(block, values) for block, values in zip(blocks, columns, strict=True)
        )
        places = tuple(widths), tuple(int(j) for j in kept)
        straight = TargetSpace(spreads, Bend.none(len(kept)), *places)
        return TargetSpace(spreads, Bend.of(straight.spread(jax.random.key(0), s_dp)), *places)

    @property
    def dim(self) -> int:
        """The number of columns of t."""
        return len(self.kept)

    @property
    def num_uniforms(self) -> int:
        """The number of uniforms that a point takes: none where all columns are real."""
        return 0 if all(isinstance(spread, AsItIs) for spread in self.spreads) else sum(self.widths)

    def __call__(
        self, s_dp: Float[Array, "*n kp"], u: Float[Array, "*n u"]
    ) -> tuple[Float[Array, "*n d"], Float[Array, "*n"]]:
        """Targets, and log w summed over columns, of s_dp and uniforms, which broadcast."""
        u = u if self.num_uniforms else jnp.full(s_dp.shape, 0.5)
        s_dp, u = jnp.broadcast_arrays(s_dp, u)
        ends = np.cumsum(self.widths)[:-1]
        parts = zip(
            self.spreads, jnp.split(s_dp, ends, axis=-1), jnp.split(u, ends, axis=-1), strict=True
        )
        each = [spread(values, uniforms) for spread, values, uniforms in parts]
        t, log_w = (
            jnp.concatenate(arrays, axis=-1)[..., np.array(self.kept)]
            for arrays in zip(*each, strict=True)
        )
        return self.bend(t), (log_w + self.bend.log_slope(t)).sum(axis=-1)

    def spread(self, key: Array, s_dp: Float[np.ndarray, "*n kp"]) -> Float[np.ndarray, "*n d"]:
        """Targets of s_dp, each with fresh uniforms; in blocks, so that one program serves every
        number of rows.

        Args:
            key: JAX PRNG key of the uniforms.
            s_dp: Private statistics, shape (..., kp).

        Returns:
            Targets, shape (..., d).
        """
        rows, parts = s_dp.reshape(-1, s_dp.shape[-1]), []
        with jax.enable_x64(True):
            for start in range(0, len(rows), _ROWS):
                block = rows[start : start + _ROWS]
                full = np.concatenate([block, np.repeat(block[:1], _ROWS - len(block), axis=0)])
                parts.append(
                    np.asarray(_spread_rows(self, fold_in(key, start), full))[: len(block)]
                )
        return np.concatenate(parts).reshape(*s_dp.shape[:-1], self.dim)

    def inverse(
        self, t: Float[Array, "*n d"], s_dp: Float[Array, "*n kp"]
    ) -> Float[Array, "*n kp"]:
        """Private statistics from targets; columns that are not kept come from s_dp."""
        full = jnp.zeros(s_dp.shape).at[..., np.array(self.kept)].set(self.bend.inverse(t))
        parts = zip(
            self.spreads, jnp.split(full, np.cumsum(self.widths)[:-1], axis=-1), strict=True
        )
        values = jnp.concatenate([spread.inverse(part) for spread, part in parts], axis=-1)
        return jnp.where(np.isin(np.arange(sum(self.widths)), self.kept), values, s_dp)


@filter_jit_fast_compile
def _spread_rows(space: TargetSpace, key: Array, rows: Float[Array, "n kp"]) -> Float[Array, "n d"]:
    """Targets of rows of s_dp with fresh uniforms."""
    return space(rows, open_uniforms(key, (len(rows), space.num_uniforms)))[0]


def _spread(support: AbstractSupport, values: np.ndarray) -> AbstractSpread:
    """How columns of a support with values like these are spread."""
    if isinstance(support, Lattice):
        return _lattice_spread(support)
    if isinstance(support, Finite):
        return Choices(np.sort(np.asarray(support.values, dtype=np.float64)))
    if isinstance(support, Interval) and (
        math.isfinite(support.low) or math.isfinite(support.high)
    ):
        return MassAtEnds(
            np.asarray(support.low), np.asarray(support.high), np.asarray(max(values.std(), 1e-12))
        )
    return AsItIs()


def _lattice_spread(support: Lattice) -> AbstractSpread:
    """Counts out of a total, counts from one end, or steps without ends."""
    low, high = math.isfinite(support.low), math.isfinite(support.high)
    step = np.asarray(support.step)
    if low and high:
        total = np.round((support.high - support.low) / step)
        return OutOfTotal(np.asarray(support.low), step, total)
    if low or high:
        return Counts(np.asarray(support.low if low else support.high), step if low else -step)
    return Steps(step)
