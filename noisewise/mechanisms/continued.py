"""Mechanisms whose densities are defined between the points of the lattice of s as well."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from noisewise._core.arrays import Array
from noisewise.mechanisms.lattice_noise import AbstractLatticeNoise
from noisewise.mechanisms.law import AbstractNoiseLaw
from noisewise.mechanisms.supports import LATTICE_TOLERANCE, AbstractSupport


class ContinuedNoise(AbstractNoiseLaw):
    """Noise on a lattice as a function of every real s: the formulas of its masses and tails, which
    are smooth but for a kink at s = s_dp. Sums over s by few points need it.

    Attributes:
        noise: The noise, which refuses s off the lattice itself.
    """

    noise: AbstractLatticeNoise

    @property
    def support(self) -> AbstractSupport:
        return self.noise.support

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self.noise._log_mass((s_dp - s) / self.noise.step)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        step = self.noise.step
        return self.noise._log_at_most(jnp.floor(s_dp / step + LATTICE_TOLERANCE) - s / step)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        step = self.noise.step
        return self.noise._log_at_most(s / step - jnp.ceil(s_dp / step - LATTICE_TOLERANCE))


def continued(mechanism: Any) -> Any:
    """The mechanism with `ContinuedNoise` in place of all noise on a lattice inside it.

    >>> import noisewise as nw
    >>> noise = nw.mechanisms.DiscreteGaussian(scale=5.0)
    >>> with jax.enable_x64(True):
    ...     between = continued(noise)._log_prob_each(jnp.array([3.0]), jnp.array([2.5]))
    >>> bool(between[0] == noise._log_mass(0.5))
    True
    """

    def is_noise(node: Any) -> bool:
        return isinstance(node, AbstractLatticeNoise)

    return jax.tree.map(
        lambda node: ContinuedNoise(node) if is_noise(node) else node, mechanism, is_leaf=is_noise
    )
