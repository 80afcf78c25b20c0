"""Numbers published as they are, without noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from noisewise._core.arrays import Array
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.supports import AbstractSupport, Real
from noisewise.mechanisms.unprotected import AbstractUnprotected

_SAME = 1e-12
"""Relative: how far apart two float64 sums of the same numbers, in another order, may be."""


class Exact(AbstractUnprotected):
    r"""s_dp = s: a cell without noise, such as the total of a table that is public.

    P(S_dp = s | s) = 1, so that `log_prob` is 0 where s_dp is s, to 12 digits, and -inf elsewhere:
    only simulations that hit the published number count, of which there are some where s takes few
    values, and none where it is continuous.

    Guarantee: none. A release that has an exact cell promises nothing about it, and composed with
    it nothing at all.

    >>> import noisewise as nw
    >>> total = nw.mechanisms.Exact()
    >>> total.log_prob([[100.0], [99.0]], [[100.0], [100.0]]).tolist()
    [0.0, -inf]
    >>> total.guarantee
    NoGuarantee()
    """

    def describe(self) -> str:
        return "the number as it is, without noise"

    def _noise_sd(self, k: int) -> float:
        return 0.0

    @property
    def has_noiseless_columns(self) -> bool:
        return True

    @property
    def support(self) -> AbstractSupport:
        return Real()

    @property
    def exact_step(self) -> None:
        """That of the query."""
        return None

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        return lambda integers: [step * number for number in integers]

    def _transport(self, u: Array, s: Array) -> Array:
        return jnp.broadcast_to(s, jnp.broadcast_shapes(u.shape, s.shape))

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return _certain(_same(s_dp, s))

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return _certain((s <= s_dp) | _same(s_dp, s))

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return _certain((s >= s_dp) | _same(s_dp, s))

    def _log_before(self, s_dp: Array, s: Array) -> Array:
        return _certain((s < s_dp) & ~_same(s_dp, s))

    @property
    def reach(self) -> float:
        return 0.0

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        return xp.stack([s_dp, s_dp + 0.5], axis=-1)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return jnp.zeros_like(s_dp)


def _same(s_dp: Array, s: Array) -> Array:
    return jnp.abs(s_dp - s) <= _SAME * jnp.abs(s)


def _certain(event: Array) -> Array:
    return jnp.where(event, 0.0, -jnp.inf)
