"""What Laplace and Gaussian noise share: independent noise of one law added to every number."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array
from noisewise.mechanisms.base import AbstractMechanism


class AbstractAdditiveNoise(AbstractMechanism):
    r"""s_dp = s + Z with independent Z_j of one symmetric law, free of s.

    A concrete class writes three scalar formulas, `_noise(u)`, `_noise_log_prob(z)` and
    `_noise_log_cdf(z)`.
    """

    if TYPE_CHECKING:

        @property
        def scale(self) -> float:
            """The width of the noise."""

    @abc.abstractmethod
    def _noise(self, u: Array) -> Array:
        """The quantile function of Z."""

    @abc.abstractmethod
    def _noise_log_prob(self, z: Array) -> Array:
        """The log density (or probability) of Z."""

    @abc.abstractmethod
    def _noise_log_cdf(self, z: Array) -> Array:
        """The log of P(Z <= z)."""

    def neighbours(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        s = np.zeros((1, k))
        other = s.copy()
        other[0, 0] = self._stated_sensitivity()
        return s, other

    def _transport(self, u: Array, s: Array) -> Array:
        return s + self._noise(u)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self._noise_log_prob(s_dp - s)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return self._noise_log_cdf(s_dp - s)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return self._noise_log_cdf(s - s_dp)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return self._noise_log_prob(jnp.zeros_like(s_dp))
