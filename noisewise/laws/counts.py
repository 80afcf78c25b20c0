"""Counts through mechanisms of independent columns: sums over the confidential count."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpyro.distributions import constraints

from noisewise._core.arrays import Array, is_traced
from noisewise.laws import lattice, randomness, table_sums
from noisewise.laws.deviance import AbstractRatios, Parameters, log_pmf, ratios_of
from noisewise.laws.tables import Table
from noisewise.laws.windows import Log, Window, at_all, best, pick, window
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.columnwise_noise import AbstractColumnwiseNoise

_SMOOTH_LAWS = (dist.Poisson, dist.BinomialProbs, dist.BinomialLogits)
"""Laws that are nearly normal wherever they are wide. Others may be steep at an end of their
support at any width, as a negative binomial law of small shape is at 0.
"""
_MOST_DOUBLINGS = 28
"""Doublings of 16 numbers that reach the middle of every window: 4e9 numbers."""
_SMALL = 1e4
"""Below, textbook forms of laws keep eleven digits."""
_TINY_SUPPORT = 128
"""Numbers in a finite support that are summed one by one."""
_MOST_CATEGORIES = 4096
"""Categories that are summed one by one, for each cell: 32 kB of probabilities."""
_CATEGORICAL = (dist.CategoricalProbs, dist.CategoricalLogits, dist.OrderedLogistic)
"""Laws that are not smooth from one number to the next."""
_KNOWN_LAWS = (
    *_SMOOTH_LAWS,
    dist.GammaPoisson,
    dist.BetaBinomial,
    dist.GeometricProbs,
    dist.GeometricLogits,
    dist.BernoulliProbs,
    dist.BernoulliLogits,
    dist.DiscreteUniform,
)
"""Laws with one mode at most in their middle, or at their ends, and smooth between numbers."""


class CountSum:
    """log p(y) = log sum_s f(s) eta(y | s) for each cell by itself.

    Args:
        law: A law of counts with batch shape (..., k), in float64.
        mechanism: Its columns are the last axis of the batch.
        values: What was released, (..., k).
        plan: What is known of sizes.
        tilt: Added to the log of the summand per count above the law's mean.
        most: The largest count that is possible, where something else is known than the law.
        table: What is known of the sums before the law's parameters are.
    """

    def __init__(
        self,
        law: dist.Distribution,
        mechanism: AbstractMechanism,
        values: Array,
        plan: Plan,
        tilt: Array | None = None,
        most: float = math.inf,
        table: Table | None = None,
    ) -> None:
        self._table = table
        self.law, self.mechanism, self.values = law, mechanism, values
        self._plan, self._tilt = plan, tilt
        self._eta = mechanism._continued()
        self._shape = jnp.broadcast_shapes(law.batch_shape, values.shape)
        ends = zip(
            bounds_of(law.support), mechanism.input_bounds, (jnp.maximum, jnp.minimum), strict=True
        )
        low, high = (self._filled(inner(*both)) for *both, inner in ends)
        self._bounds = (low, jnp.maximum(low, jnp.minimum(high, most)))

    def log_prob(self) -> Float[Array, "*batch"]:
        kind = self._kind
        if kind is not None and self._table is not None:
            parameters = kind.parameters(unwrapped(self.law), self._shape)
            given = (parameters, self.mechanism, self.values, self._table)
            full = None if self._plan.by_table_alone else _without_table
            total = table_sums.log_sum(full, kind, self._plan, *given)
        else:
            points, log_weights = self._points(self._rule())
            total = lattice.log_sum(self._log_inside, points, log_weights)
        total = jnp.where(self._measured, total, 0.0)
        possible = self.mechanism._possible(self.values) & ~jnp.isnan(total)
        return jnp.where(possible, total, -jnp.inf)

    def _points(self, rule: Any) -> tuple[Array, Array]:
        """Points and the logs of their weights, which are constants."""
        points, log_weights = rule.points(self._window(), self._kinks())
        return jax.lax.stop_gradient(points), jax.lax.stop_gradient(log_weights)

    def terms(self, panels: int) -> tuple[Array, Array]:
        """Points and the logs of the weighted terms of the sum, (*batch, m).

        Args:
            panels: Panels between kinks: more where the points must follow waves.
        """
        doublings = self._graded()
        panels = max(panels // 2, 1) if doublings else panels  # there, from both ends
        points, log_weights = self._points(lattice.PanelRule(doublings, panels))
        values = at_all(self._log_inside, points) + log_weights
        return points, jnp.where(jnp.isnan(values), -jnp.inf, values)

    def confidential(self, key: Array) -> Float[Array, "*batch"]:
        """A draw of s given y."""
        kind = self._kind
        if kind is not None and self._table is not None:
            parameters = kind.parameters(unwrapped(self.law), self._shape)
            otherwise = None if self._plan.by_table_alone else self._drawn
            drawn = table_sums.draw(key, kind, parameters, self._table, otherwise)
        else:
            drawn = self._drawn(key)
        if self._measured.all() or self._tilt is not None:  # a tilted law is drawn by its sum
            return drawn
        return jnp.where(self._measured, drawn, self._free(jax.random.fold_in(key, 1)))

    def _free(self, key: Array) -> Float[Array, "*batch"]:
        """A draw of the law itself, in float32: numpyro's draws in float64 do not compile in a
        caller's program whose flag is off.
        """
        shape = self._shape[: len(self._shape) - len(self.law.batch_shape)]
        with jax.enable_x64(False):
            single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), self.law)
            free = single.sample(key, shape)
        return self._filled(free)

    def _drawn(self, key: Array) -> Float[Array, "*batch"]:
        """The same without a table."""
        if self._size is not None:
            points, log_weights = self._rule().points(self._window(), self._kinks())
            values = at_all(self._log, points) + log_weights
            return pick(points, best(values + randomness.gumbel(key, values.shape)))
        doublings = self._plan.doublings
        return lattice.draw(key, self._log, self._window(), self._kinks(), doublings)

    def _log(self, s: Array) -> Array:
        """log f(s) + log eta(y | s), -inf off the support of the law."""
        low, high = self._bounds
        inside = (s >= low) & (s <= high)
        value = self._log_inside(jnp.clip(s, low, high))
        return jnp.where(inside & ~jnp.isnan(value), value, -jnp.inf)

    def _log_inside(self, s: Array) -> Array:
        """The same for numbers on the support, as all points of sums are."""
        log_law = log_pmf(self.law, s, small=self._plan.small)
        if self._tilt is not None:
            log_law = log_law + self._tilt * (s - self._mean)
        return log_law + self._eta._log_prob_each(self.values, s)

    def _window(self) -> Window:
        low, high = self._bounds
        if self._size is not None:
            return Window(low, high)
        stopped, law = self._log_of_constants(), self.law
        sd = self._filled(jax.lax.stop_gradient(jnp.nan_to_num(jnp.sqrt(law.variance))))
        kinks = self._kinks()
        first, last = kinks[..., 0], kinks[..., -1]
        ends = (jnp.minimum(first, self._mean) - sd - 1.0, jnp.maximum(last, self._mean) + sd + 1.0)
        left = ends[0] if self._is_smooth_law else jnp.where(jnp.isfinite(low), low, ends[0])
        bracket = (jnp.clip(left, low, high), jnp.clip(ends[1], low, high))
        bracket = bracket if self._tilt is None else (low, high)
        found = window(stopped, bracket, (low, high), jnp.ceil(kinks))
        is_tiny = high - low < _TINY_SUPPORT
        return Window(*(jnp.where(is_tiny, *pair) for pair in zip((low, high), found, strict=True)))

    def _log_of_constants(self) -> Log:
        """`_log` where parameters are constants: windows have no derivatives."""
        fixed = CountSum.__new__(CountSum)
        fixed.__dict__.update(self.__dict__)
        fixed.law = jax.lax.stop_gradient(self.law)
        return fixed._log

    def _rule(self) -> Any:
        if self._size is not None:
            return lattice.EveryNumber(self._size)
        if self.mechanism.is_smooth and self._is_smooth_law:
            return lattice.EvenRule()
        return lattice.PanelRule(self._graded())

    def _graded(self) -> int:
        """How often panels double."""
        is_peaked = isinstance(self.mechanism, AbstractColumnwiseNoise)  # without plateaus
        simple = (self._is_smooth_law and is_peaked) or self._size is not None
        return 0 if simple else self._plan.doublings

    def _kinks(self) -> Array:
        """Where eta(y | .) is not smooth; at the law's mean where nothing was measured."""
        kinks = self.mechanism._kinks(self.values, jnp)
        kinks = jnp.broadcast_to(kinks, (*self._shape, kinks.shape[-1]))
        return jnp.where(jnp.isnan(kinks), self._mean[..., None], kinks)

    @property
    def _mean(self) -> Array:
        return jax.lax.stop_gradient(self._filled(jnp.nan_to_num(self.law.mean)))

    @property
    def _is_smooth_law(self) -> bool:
        return isinstance(unwrapped(self.law), _SMOOTH_LAWS)

    @property
    def _size(self) -> int | None:
        """How many numbers there are, where all are summed."""
        size = size_of(self.law)
        tiny = size is not None and size <= _TINY_SUPPORT
        return size if tiny or isinstance(unwrapped(self.law), _CATEGORICAL) else None

    @property
    def _kind(self) -> AbstractRatios | None:
        return ratios_of(unwrapped(self.law))

    @property
    def _measured(self) -> np.ndarray:
        """Which cells say something."""
        return self.mechanism.measured(self.values.shape[-1])

    def _filled(self, value: Any) -> Array:
        return jnp.broadcast_to(jnp.asarray(value, dtype=jnp.float64), self._shape)


def _without_table(
    kind: AbstractRatios, plan: Plan, parameters: Parameters, mechanism: Any, values: Array
) -> Array:
    return CountSum(kind.law(parameters), mechanism, values, plan).log_prob()


def unwrapped(law: Any) -> Any:
    """The law without the wrapper of numpyro's `expand`."""
    while isinstance(law, dist.ExpandedDistribution):
        law = law.base_dist
    return law


def size_of(law: dist.Distribution) -> int | None:
    """How many numbers the support of a law has, where that is finite and known while tracing."""
    low, high = bounds_of(law.support)
    if is_traced(low, high) or not np.all(np.isfinite(low)) or not np.all(np.isfinite(high)):
        return None
    return int(np.max(np.asarray(high) - np.asarray(low))) + 1


def is_summable(law: dist.Distribution) -> bool:
    """Whether sums over s are known to be right: the law is one of those whose form is known, or
    has few numbers.
    """
    size = size_of(law)
    if isinstance(unwrapped(law), _CATEGORICAL):
        return size is not None and size <= _MOST_CATEGORIES
    return isinstance(unwrapped(law), _KNOWN_LAWS) or (size or math.inf) <= _TINY_SUPPORT


def bounds_of(support: constraints.Constraint) -> tuple[Any, Any]:
    """The ends of a set of whole numbers, which may be infinite."""
    if isinstance(support, type(constraints.boolean)):
        return 0.0, 1.0
    low = getattr(support, "lower_bound", None)
    high = getattr(support, "upper_bound", None)
    return (-jnp.inf if low is None else low, jnp.inf if high is None else high)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is known of sizes before anything is computed.

    Attributes:
        doublings: How often panels double: as often as windows may need it.
        small: Whether all numbers that matter are below 1e4.
        reach: How far likelihoods reach beyond their kinks.
        by_table_alone: Whether what is in a table is taken for the sum; the caller looks at
            `table_sums.falls_short`. Programs are small then.
    """

    doublings: int = _MOST_DOUBLINGS
    small: bool = False
    reach: float = math.inf
    by_table_alone: bool = False


def plan_for(mechanism: AbstractMechanism, values: Array) -> Plan:
    """The plan where released numbers and noise are known; else that for the largest."""
    if is_traced(values, mechanism):
        return Plan()
    measured = mechanism.measured(np.shape(values)[-1])
    if not measured.all() and measured.any():
        mechanism = mechanism.of_columns(np.flatnonzero(measured).tolist())
        values = np.asarray(values)[..., measured]
    kinks = np.abs(mechanism._kinks(values, np))
    reach = mechanism.reach + float(np.nanmax(kinks, initial=0.0))
    if not math.isfinite(reach):
        return Plan()
    doublings = min(_MOST_DOUBLINGS, max(1, math.ceil(math.log2(1.0 + reach / 32.0))))
    return Plan(doublings, small=reach < _SMALL, reach=mechanism.reach)
