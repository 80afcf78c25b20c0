"""Cells of which nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AbstractNeighbours
from noisewise.errors import MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.relations import neighbours_field
from noisewise.mechanisms.supports import AbstractSupport, Finite, OrAbsent


class Unmeasured(AbstractMechanism):
    r"""s_dp is NaN, whatever s: nothing was measured, such as on a day whose file was lost.

    log P(S_dp = NaN | s) = 0 for every s, so that the cell says nothing about s. That makes it
    another thing than a cell that is absent because its noisy number was below a threshold, which
    says that s is probably small (`Thresholded`).

    Guarantee: `PureDP(0)`, since the outcome does not depend on s. It holds where the cell is
    missing for reasons that have nothing to do with the data; which ones those are is public.

    >>> import noisewise as nw
    >>> nothing = nw.mechanisms.Unmeasured()
    >>> nothing.log_prob([np.nan], [[0.0], [1e6]]).tolist(), nothing.guarantee
    ([0.0, 0.0], PureDP(epsilon=0.0))
    """

    norm: ClassVar[float] = 1.0

    neighbours: AbstractNeighbours = neighbours_field()

    @property
    def sensitivity(self) -> None:
        """None: no change of s is too large for it."""
        return None

    @property
    def guarantee(self) -> AbstractGuarantee:
        return PureDP(0.0, neighbours=self.neighbours)

    @property
    def support(self) -> AbstractSupport:
        return OrAbsent(Finite(()), 0.0)

    def measured(self, k: int) -> np.ndarray:
        return np.zeros(k, dtype=bool)

    def describe(self) -> str:
        return "nothing was measured"

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        raise MissingCapabilityError(
            "A cell of which nothing was measured has no naive estimate. Take a method that uses"
            " the other cells' probabilities, such as nw.infer."
        )

    def recalibrated(self, guarantee: AbstractGuarantee) -> AbstractMechanism:
        """Itself: it costs nothing."""
        return self

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        return lambda integers: [float("nan")] * len(integers)

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Any two statistics: none tells them apart."""
        return np.zeros((1, k)), np.ones((1, k))

    def _transport(self, u: Array, s: Array) -> Array:
        return jnp.full(jnp.broadcast_shapes(u.shape, s.shape), jnp.nan)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return _certain(jnp.isnan(s_dp), s_dp, s)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return _certain(True, s_dp, s)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return _certain(jnp.isnan(s_dp), s_dp, s)

    def _log_before(self, s_dp: Array, s: Array) -> Array:
        return _certain(~jnp.isnan(s_dp), s_dp, s)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return jnp.zeros_like(s_dp)


def _certain(event: Any, s_dp: Array, s: Array) -> Array:
    shape = jnp.broadcast_shapes(s_dp.shape, s.shape)
    return jnp.broadcast_to(jnp.where(event, 0.0, -jnp.inf), shape)
