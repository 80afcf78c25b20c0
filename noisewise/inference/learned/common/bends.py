r"""Columns with heavy tails, bent until they look nearly normal.

    bent = c + a arcsinh((t - c) / a),        slope = 1 / sqrt(1 + ((t - c) / a)^2)

with c the median or, where one tail is heavy and the other ends, that end. Counts of many rates
have tails as heavy as these; standardised by their standard deviation, which a few large values
decide, all that an observation says lies in a corner that no network resolves.

The scale a is the one under which bent values are most likely under a normal law, as Box and Cox
(1964) choose a transformation: below a a column stays as it is, beyond it it is nearly a logarithm.
Counts whose rates go over six powers of ten become their logarithms but for the first.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array

_TAIL = 0.005
"""Probability beyond each of the two quantiles that are compared with the quartiles: twenty-five of
5,000 simulations, enough to know them.
"""
_NORMAL_RATIO = 3.82
"""Distance of those quantiles over that of the quartiles, for a normal law: 2 x 2.576 / 1.349."""
_HEAVY = 2.8
"""Ratio of the two, in normal ones, from which a column is bent: 1.7 for a Laplace law, 2.6 for a
lognormal one, 3 to 4.5 for counts of lognormal rates. Squares of normal columns, 1.5, must stay as
they are: on the regression, whose law is quadratic in theta, bending them took CLE's C2ST from .51
to .60.
"""
_ONE_SIDED = 4.0
"""Ratio of the median's distances from both ends from which one tail alone is heavy."""
_NUM_ROWS = 2000
"""Values of a column at most that say where it is best bent: the likelihood of so many has its top
within a tenth of a power of ten.
"""
_NEAREST = 0.05
"""Quantile of the distances from c that a may have at least: less would only bend the nearest few
values, and the points of a lattice next to its end, further apart than they lie.
"""
_PER_DECADE = 8
"""Scales tried for each power of ten, a third apart: the likelihood hardly changes within that."""
_FREQUENT = 0.05
"""Share of the values that are the same from which they do not count: atoms have their own rule."""


class Bend(eqx.Module):
    """A map of each column of targets (..., d) by itself; most are left as they are."""

    centre: Float[Array, " d"]
    scale: Float[Array, " d"]
    """a; 0 where a column is left as it is."""

    @staticmethod
    def none(dim: int) -> Bend:
        """All columns as they are."""
        return Bend(np.zeros(dim), np.zeros(dim))

    @staticmethod
    def of(values: Float[np.ndarray, "n d"]) -> Bend:
        """Bends the columns of values (n, d) that have heavy tails: from the middle where both are,
        from the light end where one is.
        """
        found = np.array([_bend(column) for column in values.T]).reshape(-1, 2)
        return Bend(found[:, 0], found[:, 1])

    def column(self, j: int) -> Bend:
        """That of one column alone."""
        return Bend(self.centre[j : j + 1], self.scale[j : j + 1])

    def __call__(self, t: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """Bent targets."""
        xp = np if isinstance(t, np.ndarray) else jnp
        bent = self.centre + self.scale * xp.arcsinh((t - self.centre) / self._divisor)
        return xp.where(self.scale > 0.0, bent, t)

    def inverse(self, bent: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """The targets whose bent form is given."""
        xp = np if isinstance(bent, np.ndarray) else jnp
        place = xp.clip((bent - self.centre) / self._divisor, -_FARTHEST, _FARTHEST)
        return xp.where(self.scale > 0.0, self.centre + self.scale * xp.sinh(place), bent)

    def log_slope(self, t: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """log d bent / d t at targets t."""
        xp = np if isinstance(t, np.ndarray) else jnp
        place = xp.where(self.scale > 0.0, (t - self.centre) / self._divisor, 0.0)
        return -0.5 * xp.log1p(place**2)

    @property
    def _divisor(self) -> Array:
        """The scale, without zeros."""
        xp = np if isinstance(self.scale, np.ndarray) else jnp
        return xp.where(self.scale > 0.0, self.scale, 1.0)


def _bend(column: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Where a column is bent from, and its scale; 0 where it is left as it is."""
    rare = _rare(column)
    levels = [_TAIL, 0.25, 0.5, 0.75, 1.0 - _TAIL]
    low, first, middle, third, high = np.quantile(rare, levels)
    if third <= first or high - low <= _HEAVY * _NORMAL_RATIO * (third - first):
        return 0.0, 0.0
    centre = middle
    if high - middle > _ONE_SIDED * (middle - low):
        centre = np.quantile(column, _TAIL)
    elif middle - low > _ONE_SIDED * (high - middle):
        centre = np.quantile(column, 1.0 - _TAIL)
    rows = np.linspace(0, len(rare) - 1, min(len(rare), _NUM_ROWS)).astype(int)
    scale = _best_scale(rare[rows] - centre)
    return (float(centre) if scale else 0.0), scale


def _rare(column: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    """The values that are not taken again and again; all of them where nearly all are."""
    _, which, counts = np.unique(column, return_inverse=True, return_counts=True)
    rare = column[counts[which] < _FREQUENT * len(column)]
    return rare if len(rare) > _FREQUENT * len(column) else column


def _best_scale(away: Float[np.ndarray, " n"]) -> float:
    r"""The scale a under which values at t - c = `away` have the largest profile likelihood of a
    normal law once bent,

        -log sd of arcsinh((t - c) / a) - mean of 1/2 log(a^2 + (t - c)^2);

    0 where none is away.
    """
    distances = np.abs(away[away != 0.0])
    if not len(distances):
        return 0.0
    least, most = np.quantile(distances, _NEAREST), distances.max()
    num = 2 + int(_PER_DECADE * np.log10(most / least))
    scales = np.geomspace(least, most, num)
    sd = np.arcsinh(away[:, None] / scales).std(axis=0)
    slope = 0.5 * np.log(scales**2 + away[:, None] ** 2).mean(axis=0)
    return float(scales[np.argmax(-np.log(np.maximum(sd, 1e-300)) - slope)])


_FARTHEST = 50.0
"""Bent distance, in units of a, beyond which targets stay where they are: sinh(50) is 1e21."""
