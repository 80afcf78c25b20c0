"""What Laplace and Gaussian noise share: independent noise of one law added to every number."""

from __future__ import annotations

import abc

import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array
from noisewise.mechanisms.columnwise_noise import AbstractColumnwiseNoise


class AbstractAdditiveNoise(AbstractColumnwiseNoise):
    r"""s_dp = s + Z with independent Z_j of one symmetric law, free of s.

    A concrete class writes three scalar formulas, `_noise(u)`, `_noise_log_prob(z)` and
    `_noise_log_cdf(z)`. Logistic noise, for example, whose log density has a slope of at most
    1/scale, so that epsilon = Delta_1 / scale:

    >>> import jax
    >>> from noisewise.mechanisms.guarantees import PureDP
    >>> from noisewise.mechanisms.supports import Real
    >>> class Logistic(AbstractAdditiveNoise):
    ...     norm = 1.0
    ...     scale: float
    ...     sensitivity: float | None = None
    ...     support = property(lambda self: Real())
    ...     guarantee = property(lambda self: PureDP(self._stated_sensitivity() / self.scale))
    ...     def _noise(self, u):
    ...         return self.scale * (jnp.log(u) - jnp.log1p(-u))
    ...     def _noise_log_prob(self, z):
    ...         z = jnp.abs(z) / self.scale
    ...         return -z - 2.0 * jnp.log1p(jnp.exp(-z)) - jnp.log(self.scale)
    ...     def _noise_log_cdf(self, z):
    ...         return jax.nn.log_sigmoid(z / self.scale)
    >>> Logistic(scale=2.0, sensitivity=1.0).guarantee
    PureDP(epsilon=0.5)
    >>> Logistic(scale=2.0).transport([0.5], [3.0]).tolist()
    [3.0]
    """

    @abc.abstractmethod
    def _noise(self, u: Array) -> Array:
        """The quantile function of Z."""

    @abc.abstractmethod
    def _noise_log_prob(self, z: Array) -> Array:
        """The log density (or probability) of Z."""

    @abc.abstractmethod
    def _noise_log_cdf(self, z: Array) -> Array:
        """The log of P(Z <= z)."""

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """All of the change in the column with the least noise, or the changes of all columns."""
        change, sensitivity = np.zeros((1, k)), self._stated_sensitivity()
        change[0, self._quietest(k)[0] if np.ndim(sensitivity) == 0 else slice(None)] = sensitivity
        return np.zeros((1, k)), change

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
