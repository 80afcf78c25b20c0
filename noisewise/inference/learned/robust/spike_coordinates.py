r"""Coordinates in which a spike and slab is smooth.

    k(x) = (1 - p) N(x; 0, spike^2) + p Cauchy(x; 0, slab),        x = g(v),   g odd and increasing

Up to |x| = 1 the map g is close to the quantile function of k at Phi(v), so that k(g(v)) g'(v) is
close to the normal density and chains walk from the spike to the slab and back without noticing;
beyond it is linear. The density in v is exact all the same.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from noisewise._core.arrays import Array

_KNOTS = 2000
"""Knots of the interpolation: its error then is far below the Monte Carlo error of any chain, and a
table of them is small.
"""
_HALVINGS = 60
"""Halvings of [-1, 0] for each quantile: more than the bits of a float64, so the root is exact.
"""


class SpikeCoordinates(eqx.Module):
    """g by cubic interpolation between knots v = 0, step, 2 step, ... where it has the quantiles
    (n,) and their slopes (n,).
    """

    numbers: Float[Array, " 3"]
    """spike, slab, p."""
    step: Float[Array, ""]
    """Between knots v."""
    x: Float[Array, " knots"]
    """g at the knots."""
    slope: Float[Array, " knots"]
    """g' at the knots."""

    @staticmethod
    def of(spike: float, slab: float, probability: float) -> SpikeCoordinates:
        """Coordinates for one spike and slab.

        Args:
            spike: Standard deviation of the spike.
            slab: Scale of the slab.
            probability: p, of the slab.

        Returns:
            The map g and its inverse.

        >>> coordinates = SpikeCoordinates.of(0.01, 0.25, 0.5)
        >>> coordinates.to_normal(np.array([0.0, 0.01, 0.25, 10.0])).round(2).tolist()
        [0.0, 0.46, 1.15, 5.76]
        """
        numbers = np.array([spike, slab, probability])
        v = np.linspace(0.0, -ndtri(_below(-1.0, *numbers)), _KNOTS)
        low, high = np.full(_KNOTS, -1.0), np.zeros(_KNOTS)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            too_low = _below(middle, *numbers) < ndtr(-v)
            low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
        density = np.exp(np.logaddexp(*log_parts(high, *numbers)))
        return SpikeCoordinates(
            numbers, v[1], -high, np.exp(-0.5 * v**2) / np.sqrt(2.0 * np.pi) / density
        )

    def to_normal(self, x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """v at x, up to the error of the interpolation."""
        size = np.abs(x)
        inner = -ndtri(_below(-np.minimum(size, 1.0), *self.numbers))
        return np.sign(x) * (inner + np.maximum(size - 1.0, 0.0) / self.slope[-1])

    def from_normal(self, v: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """x = g(v)."""
        return self._map(v)[0]

    def log_density(self, v: Array) -> Array:
        """log k(g(v)) g'(v)."""
        x, slope = self._map(v)
        return jnp.logaddexp(*log_parts(x, *self.numbers)) + jnp.log(slope)

    def _map(self, v: Array) -> tuple[Array, Array]:
        """g(v) and g'(v)."""
        size = jnp.abs(v) / self.step
        place = jnp.clip(jnp.floor(size), 0, len(self.x) - 2).astype(int)
        u = jnp.minimum(size - place, 1.0)
        knots, slopes = jnp.asarray(self.x), jnp.asarray(self.slope)
        left, right, rise = (
            slopes[place],
            slopes[place + 1],
            (knots[place + 1] - knots[place]) / self.step,
        )
        second, third = 3.0 * rise - 2.0 * left - right, left + right - 2.0 * rise
        beyond = right * jnp.maximum(size - place - 1.0, 0.0)
        x = knots[place] + self.step * (u * (left + u * (second + u * third)) + beyond)
        return jnp.where(v < 0.0, -x, x), left + u * (2.0 * second + 3.0 * u * third)


def log_parts(x: Array, spike: Array, slab: Array, probability: Array) -> tuple[Array, Array]:
    """The logs of (1 - p) N(x; 0, spike^2) and p Cauchy(x; 0, slab)."""
    xp = np if isinstance(x, np.ndarray) else jnp
    narrow = (
        xp.log1p(-probability) - 0.5 * (x / spike) ** 2 - xp.log(spike) - 0.5 * np.log(2.0 * np.pi)
    )
    wide = xp.log(probability) - xp.log(np.pi * slab) - xp.log1p((x / slab) ** 2)
    return narrow, wide


def _below(x: np.ndarray | float, spike: float, slab: float, probability: float) -> np.ndarray:
    """The distribution function of k at x <= 0, accurate in the tail."""
    return (1.0 - probability) * ndtr(x / spike) + probability * np.arctan2(slab, -x) / np.pi
