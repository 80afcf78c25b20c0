r"""The joint law of parameters and cells given released sums of cells, and its moves.

    p(theta, cells | s_dp)  ~  pi(theta) f(cells | theta) prod_q eta_q(s_dp_q | (A cells)_q)

Cells move given theta in windows of whole numbers (`samplers.lattices`), theta given cells along
Hamiltonian trajectories, and theta with its cells at fixed residuals. Where noise is wide, cells
follow theta closely and theta given cells hardly moves; given residuals it is as free as it is
without data. With v uniform on (0, 1) the residual of a small count is its place in the law,

    u = P(S < cell) + v P(S = cell),        cell = the number in whose share u lies,

so that theta given u has the density pi(theta) prod_q eta_q. Where u exceeds 1/2 it is 1 - u that
is kept, P(S > cell) + (1 - v) P(S = cell), so that both tails are told apart to the last digit. The
residual of a large count is

    r = (T(x) - T(mean)) / (T'(mean) sd),   x = cell + v - 1/2,   cell = round(x),

    T(x) = log(x - low + 1/2) [- log(high - x + 1/2)],    |dx/dr| = T'(mean) sd / T'(x),

mean and sd being those of the law at theta. Small counts beyond the listed numbers stay. The move
follows the slope of a smooth density of x, and is accepted by that of the cells.

Reference: Y. Yu and X.-L. Meng (2011), To center or not to center: that is not the question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtri
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array
from noisewise.laws.cells import CellLaw, cells_of
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.priors.prior import Prior
from noisewise.samplers.lattices.directions import Directions
from noisewise.samplers.lattices.passes import Passes, passes_for
from noisewise.samplers.lattices.windows import moved
from noisewise.simulators import StatisticLaw

_IMPOSSIBLE, _PER_COUNT = -1e9, -1e3
"""Nats of a sum that the mechanism cannot have released, and more for each count that it is off:
below all that is possible, and finite, so that moves find their way out of impossible starts.
"""
_DEQUANTISED = 1 / 12
"""The variance of u."""
SMALL, TABLE = 25, 64
"""Counts below which cells are small, and how many numbers of their laws are listed: 8 sds more."""
_LEAST_PLACE = 1e-290
"""The least place in a law that is told from 0: smaller ones lose digits."""
_UNKNOWN_SD = 1.0
"""Counts: the sd of noise that does not tell it, for the lengths of steps."""


class Residuals(NamedTuple):
    """What of the cells does not depend on theta.

    Attributes:
        place: u, or 1 - u where u exceeds 1/2.
        upper: Where that is so.
        score: r; of small counts the normal score of u.
        staying: Cells that stay, NaN for all others.
    """

    place: Float[Array, " c"]
    upper: Bool[Array, " c"]
    score: Float[Array, " c"]
    staying: Float[Array, " c"]


class Noise(eqx.Module):
    """eta of some of the sums.

    Attributes:
        mechanism: Its columns are these sums; None where there are none.
        observed: What was released of them.
    """

    mechanism: AbstractMechanism | None
    observed: Array

    @staticmethod
    def of(mechanism: AbstractMechanism, observed: np.ndarray, columns: Sequence[int]) -> Noise:
        """Those of some columns."""
        chosen = np.asarray(columns, dtype=int)
        part = mechanism.of_columns(chosen.tolist()) if len(chosen) else None
        return Noise(part, observed[chosen])

    def log_each(self, sums: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """log eta of each sum, far below all others where it is impossible."""
        if self.mechanism is None:
            return jnp.zeros_like(sums)
        values, possible = self._values(sums)
        kinks = jnp.nan_to_num(self.mechanism._kinks(jnp.asarray(self.observed), jnp))
        off = jnp.abs(kinks - sums[..., None]).min(axis=-1)
        return jnp.where(possible, values, _IMPOSSIBLE + _PER_COUNT * off)

    def possible(self, sums: Float[Array, "*n k"]) -> Bool[Array, "*n k"]:
        """Whether each sum can have led to what was released."""
        if self.mechanism is None:
            return jnp.ones(sums.shape, bool)
        return self._values(sums)[1]

    def _values(self, sums: Array) -> tuple[Array, Array]:
        assert self.mechanism is not None
        low, high = self.mechanism.input_bounds
        inside = jnp.clip(sums, low, high)
        values = self.mechanism._log_prob_each(jnp.asarray(self.observed), inside)
        return values, (values > -jnp.inf) & (inside == sums)

    def log_smooth(self, sums: Float[Array, " k"]) -> Float[Array, ""]:
        """log eta of all sums, continued between whole numbers."""
        if self.mechanism is None:
            return jnp.zeros(())
        values = self.mechanism._continued()._log_prob_each(jnp.asarray(self.observed), sums)
        return jnp.sum(jnp.where(values > -jnp.inf, values, 0.0))


class CountTarget(eqx.Module):
    """p(theta, cells | s_dp) and its moves, for one observation.

    Attributes:
        prior: The prior.
        simulator: The law of the cells.
        noise: That of the sums that have some.
        passes: Directions in which cells move.
        parts: For each kind of them the noise of its own sums and of those that it shares.
        entries: Rows, columns and numbers of the entries of A that are not 0, rows of noisy sums.
        sds: Standard deviations of the noise.
        few: Which cells are small counts.
        free: Whether no sum of cells is fixed.
    """

    prior: Prior = eqx.field(static=True)
    simulator: StatisticLaw = eqx.field(static=True)
    noise: Noise
    passes: tuple[Passes, ...]
    parts: tuple[tuple[Noise, Noise], ...]
    entries: tuple[Array, Array, Array]
    sds: Array
    few: Array
    free: bool = eqx.field(static=True)

    @staticmethod
    def of(
        prior: Prior,
        simulator: StatisticLaw,
        mechanism: AbstractMechanism,
        observed: np.ndarray,
        sums: np.ndarray,
        directions: Directions,
        *,
        free: bool,
    ) -> CountTarget:
        """The target of the sums with noise: their mechanism, numbers and rows of A."""
        sds = np.array(mechanism.noise_sd(len(observed)), dtype=float)
        sds = np.where(np.isnan(sds), _UNKNOWN_SD, sds)
        passes = passes_for(directions, sums, sds)
        parts = tuple(
            (Noise.of(mechanism, observed, one.own), Noise.of(mechanism, observed, one.shared))
            for one in passes
        )
        rows, columns = np.nonzero(sums)
        entries = (rows, columns, sums[rows, columns].astype(float))
        noise = Noise.of(mechanism, observed, range(len(observed)))
        few = np.zeros(sums.shape[1], dtype=bool)
        return CountTarget(prior, simulator, noise, passes, parts, entries, sds, few, free)

    def as_arrays(self) -> CountTarget:
        """The same with numbers as JAX arrays, which are arguments of compiled programs."""
        is_number = lambda leaf: isinstance(leaf, (float, np.ndarray, np.generic))  # noqa: E731
        found: CountTarget = jax.tree.map(
            lambda leaf: jnp.asarray(leaf) if is_number(leaf) else leaf, self
        )
        return found

    def observing(self, observed: Float[Array, " k"]) -> CountTarget:
        """The same of another observation, also inside compiled programs."""

        def seen(noise: Noise, columns: tuple[int, ...]) -> Noise:
            return Noise(noise.mechanism, observed[np.array(columns, int)])

        parts = tuple(
            (seen(own, one.own), seen(shared, one.shared))
            for one, (own, shared) in zip(self.passes, self.parts, strict=True)
        )
        noise = Noise(self.noise.mechanism, observed)
        return dataclasses.replace(self, noise=noise, parts=parts)

    def law(self, z: Array) -> CellLaw:
        """The law of the cells."""
        return cells_of(self.simulator.law(self.prior.constrain(z)))

    def sums(self, cells: Float[Array, " c"], power: int = 1) -> Float[Array, " k"]:
        """A cells; with power 2 the squares of A in its place, for variances."""
        rows, columns, times = (jnp.asarray(part) for part in self.entries)
        return jax.ops.segment_sum(times**power * cells[columns], rows, len(self.sds))

    # Densities ------------------------------------------------------------------------------------

    def given_cells(self, z: Array, cells: Array) -> Array:
        """log pi(theta) + log f(cells | theta)."""
        return self.prior.log_prob_unconstrained(z) + self.law(z).log_prob(cells)

    def about(self, z: Array) -> Array:
        """About log p(z | s_dp): each sum normal by itself."""
        mean, variance = (jnp.broadcast_to(part, self._shape) for part in self.law(z).moments)
        spread = jnp.sqrt(self.sums(variance, 2) + jnp.asarray(self.sds) ** 2)
        observed = jnp.asarray(self.noise.observed)
        seen = ~jnp.isnan(observed)
        observed = jnp.where(seen, observed, 0.0)
        each = dist.Normal(self.sums(mean), spread).log_prob(observed)
        return self.prior.log_prob_unconstrained(z) + jnp.sum(jnp.where(seen, each, 0.0))

    def given_residuals(self, z: Array, kept: Residuals) -> Array:
        """log p(z, residuals | s_dp)."""
        cells, each = self._carried(z, kept)
        log_eta = jnp.sum(self.noise.log_each(self.sums(cells)))
        return self.prior.log_prob_unconstrained(z) + jnp.sum(each) + log_eta

    def smooth_given_residuals(self, z: Array, kept: Residuals) -> Array:
        """The same of a smooth density near it."""
        x, log_stretch, law = self._places(z, kept.score)
        stays = ~jnp.isnan(kept.staying)
        x = jnp.where(stays, kept.staying, x)
        counts = ~self.few | stays
        each = jnp.where(counts, law.each.log_prob(x) + jnp.where(stays, 0.0, log_stretch), 0.0)
        log_eta = self.noise.log_smooth(self.sums(x))
        return self.prior.log_prob_unconstrained(z) + jnp.sum(each) + log_eta

    # Residuals ------------------------------------------------------------------------------------

    def residuals(self, key: Array, z: Array, cells: Float[Array, " c"]) -> Residuals:
        """Residuals of cells at z, drawn within the numbers' own shares."""
        law = self.law(z)
        v = jax.random.uniform(key, cells.shape, jnp.float64)
        place, upper = _places_in(_table(law, self._shape), cells - law.bounds[0], v)
        normal = jnp.where(upper, -1.0, 1.0) * ndtri(jnp.maximum(place, _LEAST_PLACE))
        centre, unit, _ = self._scale(law)
        score = (self._scaled(law, cells + v - 0.5)[0] - centre) / unit
        stays = self.few & (cells - law.bounds[0] >= TABLE)
        return Residuals(
            place, upper, jnp.where(self.few, normal, score), jnp.where(stays, cells, jnp.nan)
        )

    def cells_at(self, z: Array, kept: Residuals) -> Float[Array, " c"]:
        """The cells that have these residuals at z, NaN where none has."""
        return self._carried(z, kept)[0]

    def _carried(self, z: Array, kept: Residuals) -> tuple[Array, Array]:
        """Cells with these residuals, and the log density of each, -inf where there is none."""
        x, log_stretch, law = self._places(z, kept.score)
        stays = ~jnp.isnan(kept.staying)
        rank = _ranks_of(_table(law, self._shape), kept)
        cells = jnp.where(self.few, law.bounds[0] + rank, jnp.round(x))
        cells = jnp.where(stays, kept.staying, cells)
        each = law.log_each(cells) + jnp.where(stays, 0.0, log_stretch)
        in_table = jnp.where(jnp.isnan(rank), -jnp.inf, 0.0)
        return cells, jnp.where(self.few & ~stays, in_table, each)

    def _places(self, z: Array, score: Array) -> tuple[Array, Array, CellLaw]:
        """x, the log of |dx/dr| of each cell, and the law."""
        law = self.law(z)
        centre, unit, (low, high) = self._scale(law)
        t = centre + unit * score
        bounded = jnp.isfinite(high)
        length = jnp.where(bounded, high - low + 1.0, 1.0)
        x = low - 0.5 + jnp.where(bounded, length * jax.nn.sigmoid(t), jnp.exp(t))
        return x, jnp.log(unit) - jnp.log(self._scaled(law, x)[1]), law

    def _scale(self, law: CellLaw) -> tuple[Array, Array, tuple[Array, Array]]:
        """T and T' sd at the mean, and the ends of the support."""
        mean, variance = law.moments
        low, high = law.bounds
        centre, slope = self._scaled(law, jnp.clip(mean, low, high))
        return centre, slope * jnp.sqrt(variance + _DEQUANTISED), (low, high)

    @staticmethod
    def _scaled(law: CellLaw, x: Array) -> tuple[Array, Array]:
        """T and T'."""
        low, high = law.bounds
        above, bounded = x - low + 0.5, jnp.isfinite(high)
        below = jnp.where(bounded, jnp.where(bounded, high, 0.0) - x + 0.5, 1.0)
        value = jnp.log(above) - jnp.log(below)
        return value, 1.0 / above + jnp.where(bounded, 1.0 / below, 0.0)

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.few.shape

    # Moves of cells -------------------------------------------------------------------------------

    def cells_moved(
        self, key: Array, z: Array, cells: Array, sums: Array
    ) -> tuple[Float[Array, " c"], Float[Array, " k"]]:
        """Cells and sums after one pass of each kind, given theta."""
        law = self.law(z)
        variances = jnp.broadcast_to(law.moments[1], self._shape)
        state: tuple[Any, Any] = (cells, sums)
        for i, (passes, (own, shared)) in enumerate(zip(self.passes, self.parts, strict=True)):
            state = moved(
                jax.random.fold_in(key, i),
                *state,
                passes,
                variances,
                law.log_each,
                own.log_each,
                shared.log_each,
            )
        return state


def _table(law: CellLaw, shape: tuple[int, ...]) -> Float[Array, "t c"]:
    """The probabilities of the first numbers of each cell's law."""
    numbers = law.bounds[0] + jnp.arange(float(TABLE))[:, None]
    return jnp.exp(law.log_each(jnp.broadcast_to(numbers, (TABLE, *shape))))


def _places_in(table: Array, rank: Array, v: Array) -> tuple[Array, Array]:
    """Places of numbers within their shares, u or 1 - u, and which are the latter."""
    places = jnp.arange(float(TABLE))[:, None]
    here = jnp.sum(jnp.where(places == rank, table, 0.0), axis=0)
    below = jnp.sum(jnp.where(places < rank, table, 0.0), axis=0)
    above = jnp.sum(jnp.where(places > rank, table, 0.0), axis=0) + (1.0 - v) * here
    upper = _is_upper(_sums_down_to(table)[0], above)
    return jnp.where(upper, above, below + v * here), upper


def _ranks_of(table: Array, kept: Residuals) -> Array:
    """The numbers that have these places, counted from the least; NaN where none has.

    Of the numbers beyond the table nothing is known. Places from above are therefore counted from
    its end, and are taken for those of no number where u would not exceed 1/2, so that the way
    back has the same residual.
    """
    from_above = _sums_down_to(table)
    lower = jnp.sum(_sums_up_to(table) < kept.place, axis=0)
    upper = jnp.sum(from_above > kept.place, axis=0) - 1
    same = jnp.where(kept.upper, _is_upper(from_above[0], kept.place), lower < TABLE)
    found = 1.0 * jnp.where(kept.upper, upper, lower)
    return jnp.where(same & (kept.place > _LEAST_PLACE), found, jnp.nan)


def _is_upper(total: Array, above: Array) -> Array:
    """Whether u exceeds 1/2, 1 - u being `above`, in a table with this total."""
    return total - above > 0.5


def _sums_up_to(table: Array) -> Array:
    """Cumulative sums down each column: as a product of matrices, ten times as fast."""
    return jnp.asarray(np.tri(TABLE)) @ table


def _sums_down_to(table: Array) -> Array:
    """The same from the last number."""
    return jnp.asarray(np.tri(TABLE).T) @ table
