r"""Columns with heavy tails, bent until they look nearly normal.

    bent = c + a arcsinh((t - c) / a),        slope = 1 / sqrt(1 + ((t - c) / a)^2)

with c the median and a half the distance of the quartiles or, where one tail is heavy and the other
ends, c that end and a half the distance of the farther quartile from it. Counts of many rates have
tails as heavy as these; standardised by their standard deviation, which a few large values decide,
all that an observation says lies in a corner that no network resolves.
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
        levels = [_TAIL, 0.25, 0.5, 0.75, 1.0 - _TAIL]
        low, first, middle, third, high = np.quantile(values, levels, axis=0)
        heavy = high - low > _HEAVY * _NORMAL_RATIO * (third - first)
        right = high - middle > _ONE_SIDED * (middle - low)
        left = middle - low > _ONE_SIDED * (high - middle)
        centre = np.select([right, left], [low, high], middle)
        reach = np.select([right, left], [third - low, high - first], third - first)
        scale = np.where(heavy, reach / 2.0, 0.0)
        return Bend(np.where(scale > 0.0, centre, 0.0), scale)

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


_FARTHEST = 50.0
"""Bent distance, in units of a, beyond which targets stay where they are: sinh(50) is 1e21."""
