"""Counts through mechanisms of independent columns: sums over the confidential count."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpyro.distributions import constraints

from noisewise._core.arrays import Array, is_traced
from noisewise.laws import lattice
from noisewise.laws.deviance import log_pmf
from noisewise.laws.windows import Log, Window, window
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.continued import continued
from noisewise.mechanisms.supports import OrAbsent

_SMOOTH_LAWS = (dist.Poisson, dist.BinomialProbs, dist.BinomialLogits)
"""Laws that are nearly normal wherever they are wide. Others may be steep at an end of their support
at any width, as a negative binomial law of small shape is at 0.
"""
_MOST_DOUBLINGS = 28
"""Doublings of 16 numbers that reach the middle of every window: 4e9 numbers."""
_MANY_SDS = 60.0
"""Sds of the noise around a released number within which windows end: 40 nats of Laplace noise are
28 sds, and twice as many where the law pulls.
"""
_TINY_SUPPORT = 128
"""Numbers in a finite support that are summed one by one: four panels of 16 on each side."""


class CountSum:
    """log p(y) = log sum_s f(s) eta(y | s) for each cell by itself.

    Args:
        law: A law of counts with batch shape (..., k), in float64.
        mechanism: Its columns are the last axis of the batch.
        values: What was released, (..., k).
    """

    def __init__(self, law: dist.Distribution, mechanism: AbstractMechanism, values: Array) -> None:
        self.law, self.mechanism, self.values = law, mechanism, values
        self._eta = continued(mechanism)
        self._shape = jnp.broadcast_shapes(law.batch_shape, values.shape)
        low, high = bounds_of(law.support)
        self._bounds = (self._filled(low), self._filled(high))

    def log_prob(self) -> Float[Array, "*batch"]:
        found, rule, kink = self._window(), self._rule(), self._kink()
        points, log_weights = rule.points(found, kink)
        return lattice.log_sum(self._log, *map(jax.lax.stop_gradient, (points, log_weights)))

    def confidential(self, key: Array) -> Float[Array, "*batch"]:
        """A draw of s given y."""
        return lattice.draw(key, self._log, self._window(), self._kink())

    def _log(self, s: Array) -> Array:
        """log f(s) + log eta(y | s), -inf off the support of the law."""
        low, high = self._bounds
        inside = (s >= low) & (s <= high)
        s = jnp.clip(s, low, high)
        value = log_pmf(self.law, s) + self._eta._log_prob_each(self.values, s)
        return jnp.where(inside & ~jnp.isnan(value), value, -jnp.inf)

    def _window(self) -> Window:
        stopped = self._log_of_constants()
        low, high = self._bounds
        if self._has_tiny_support:
            return Window(low, high)
        law, kink = self.law, self._kink()
        mean, sd = self._filled(law.mean), self._filled(jnp.sqrt(law.variance))
        mean, sd = (jax.lax.stop_gradient(jnp.nan_to_num(part)) for part in (mean, sd))
        ends = (jnp.minimum(kink, mean) - sd - 1.0, jnp.maximum(kink, mean) + sd + 1.0)
        left = ends[0] if self._is_smooth_law else jnp.where(jnp.isfinite(low), low, ends[0])
        bracket = (jnp.clip(left, low, high), jnp.clip(ends[1], low, high))
        return window(stopped, bracket, (low, high), kink, abrupt=not self.mechanism.is_smooth)

    def _log_of_constants(self) -> Log:
        """`_log` where parameters are constants: windows have no derivatives."""
        fixed = CountSum.__new__(CountSum)
        fixed.__dict__.update(self.__dict__)
        fixed.law = jax.lax.stop_gradient(self.law)
        return fixed._log

    def _rule(self) -> Any:
        if self.mechanism.is_smooth and self._is_smooth_law:
            return lattice.EvenRule()
        simple = self._is_smooth_law and not self._may_be_absent
        return lattice.PanelRule(0 if simple or self._has_tiny_support else self._doublings())

    def _doublings(self) -> int:
        """As many as windows may need, where numbers and noise are known while tracing."""
        if is_traced(self.values, self.mechanism):
            return _MOST_DOUBLINGS
        sds = [sd for sd in self.mechanism.noise_sd(self.values.shape[-1]) if sd is not None]
        reach = float(np.nanmax(np.abs(np.asarray(self._kink_of_values())), initial=0.0))
        reach += _MANY_SDS * max(sds, default=0.0)
        return min(_MOST_DOUBLINGS, max(1, math.ceil(math.log2(1.0 + reach / 32.0))))

    def _kink(self) -> Array:
        """Where eta(y | .) has its kink or its only point: at y, at the threshold of an absent cell,
        and nowhere, for which the law's mean will do, where nothing was measured.
        """
        kink = self._filled(self._kink_of_values())
        mean = jnp.nan_to_num(jax.lax.stop_gradient(self._filled(self.law.mean)))
        return jnp.clip(jnp.where(jnp.isnan(kink), mean, kink), *self._bounds)

    def _kink_of_values(self) -> Array:
        columns = self.mechanism.support.columns(self.values.shape[-1])
        above = [column.above if isinstance(column, OrAbsent) else jnp.nan for column in columns]
        if not any(isinstance(column, OrAbsent) for column in columns):
            return self.values
        xp = jnp if is_traced(self.values, self.mechanism) else np
        return xp.where(
            xp.isnan(self.values), xp.stack([xp.asarray(a) for a in above]), self.values
        )

    @property
    def _may_be_absent(self) -> bool:
        return bool(np.any(self.mechanism.support.may_be_absent(self.values.shape[-1])))

    @property
    def _is_smooth_law(self) -> bool:
        law = self.law
        while isinstance(law, dist.ExpandedDistribution):
            law = law.base_dist
        return isinstance(law, _SMOOTH_LAWS)

    @property
    def _has_tiny_support(self) -> bool:
        low, high = bounds_of(self.law.support)
        if is_traced(low, high) or not np.all(np.isfinite(low)) or not np.all(np.isfinite(high)):
            return False
        return bool(np.max(np.asarray(high) - np.asarray(low)) < _TINY_SUPPORT)

    def _filled(self, value: Any) -> Array:
        return jnp.broadcast_to(jnp.asarray(value, dtype=jnp.float64), self._shape)


def bounds_of(support: constraints.Constraint) -> tuple[Any, Any]:
    """The ends of a set of whole numbers, which may be infinite."""
    low = getattr(support, "lower_bound", None)
    high = getattr(support, "upper_bound", None)
    return (-jnp.inf if low is None else low, jnp.inf if high is None else high)
