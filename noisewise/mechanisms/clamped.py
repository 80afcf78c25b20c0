"""Post-processing of a mechanism's output: rounding to a grid, and clipping to an interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from noisewise._core.arrays import Array, is_traced, number
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.post_processing import AbstractPostProcessing
from noisewise.mechanisms.supports import (
    LATTICE_TOLERANCE,
    AbstractSupport,
    Finite,
    Interval,
    Lattice,
    OrAbsent,
)


class Clamped(AbstractPostProcessing):
    r"""s_dp = clip(round(y / step) * step, low, high) for y drawn by another mechanism; without
    `step` nothing is rounded.

    Use it where published numbers were rounded or cut after the noise was added:
    `Clamped(mechanism, low=0.0)` releases non-negative numbers, `Clamped(mechanism, step=1.0)`
    whole ones. Halves round up.

    The law: P(Y <= low) and P(Y >= high) are point masses on the ends, the inner density lies
    between them. With rounding every multiple y of the step carries the mass of its cell, P(y -
    step/2 <= Y < y + step/2), taken in the tail that is smaller. So `log_prob` is a log density
    between the ends of a continuous law, and a log probability elsewhere.

    Guarantee: that of the inner mechanism, since post-processing reveals nothing more (Dwork and
    Roth 2014, proposition 2.1). `log_prob_bound` is 0 on the ends and the inner bound between them,
    with rounding times the width of a cell.

    Attributes:
        mechanism: The inner mechanism. It needs independent columns with a `log_cdf`; a Product is
            clamped block by block.
        low: The lower end, -inf for none.
        high: The upper end, inf for none.
        step: The spacing of the grid that is rounded to; None for no rounding.

    Raises:
        InvalidInputError: If low >= high, nothing would be done, or an end is off the grid.
        MissingCapabilityError: If the inner mechanism has no `log_cdf`.

    >>> import numpy as np
    >>> import noisewise as nw
    >>> noise = nw.mechanisms.Laplace(scale=2.0, sensitivity=1.0)
    >>> mechanism = nw.mechanisms.Clamped(noise, low=0.0)
    >>> mechanism.guarantee, mechanism.support
    (PureDP(epsilon=0.5), Interval(low=0.0, high=inf))
    >>> np.exp(mechanism.log_prob([0.0], [0.0])).round(6).item()
    0.5
    >>> mechanism.transport([0.1], [0.0]).item()
    0.0
    """

    low: float = eqx.field(default=-math.inf, converter=number("low", infinite=True))
    high: float = eqx.field(default=math.inf, converter=number("high", infinite=True))
    step: float | None = eqx.field(default=None, converter=number("step", above=0.0, optional=True))

    def __check_init__(self) -> None:
        _check_inner(self.mechanism)
        if not is_traced(self):
            _check_ends(self.low, self.high, self.step)
            _check_step(self.mechanism.support, self.low, self.high, self.step)

    def describe(self) -> str:
        rounded = "" if self.step is None else f", rounded to multiples of {self.step:.4g}"
        return (
            f"{self.mechanism.describe()}{rounded}, then cut to [{self.low:.4g}, {self.high:.4g}]"
        )

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        draw = self.mechanism.exact_sampler(noise, step)
        return lambda integers: [self._cut(value, step) for value in draw(integers)]

    def _cut(self, value: float, step: float) -> float:
        """Post-processing of one released number of whole steps; halves round up."""
        if self.step is not None:
            number, ratio = round(value / step), round(self.step / step)
            value = self.step * ((2 * number + ratio) // (2 * ratio))
        return min(max(value, self.low), self.high)

    @property
    def support(self) -> AbstractSupport:
        inner = self.mechanism.support
        if self.step is not None:
            return Lattice(self.step, self.low, self.high)
        if isinstance(inner, Lattice):
            clip = jnp.clip if is_traced(self) else lambda end, low, high: min(max(end, low), high)
            low, high = clip(inner.low, self.low, self.high), clip(inner.high, self.low, self.high)
            return Lattice(inner.step, low, high)  # type: ignore[arg-type]
        return Interval(self.low, self.high)

    def _transport(self, u: Array, s: Array) -> Array:
        y = self.mechanism._transport(u, s)
        if self.step is not None:
            # On a lattice the quarter step keeps float64 from deciding which way a half rounds.
            y = self.step * jnp.floor((y + 0.25 * self._inner_step) / self.step + 0.5)
        return jnp.clip(y, self.low, self.high)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        below, above = self._log_below(s_dp, s), self._log_above(s_dp, s)
        if self.step is None:
            between = self.mechanism._log_prob_each(s_dp, s)
        else:
            lower = below < above
            larger = jnp.where(lower, below, above)
            smaller = jnp.where(
                lower, self._log_below(s_dp - self.step, s), self._log_above(s_dp + self.step, s)
            )
            between = _log_difference(larger, smaller)
        at_low, at_high = self._at_ends(s_dp)
        return jnp.where(at_low, below, jnp.where(at_high, above, between))

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        if self.step is not None:
            s_dp = self.step * jnp.floor(s_dp / self.step + LATTICE_TOLERANCE)
        value = jnp.where(s_dp >= self.high - self._slack, 0.0, self._log_below(s_dp, s))
        return jnp.where(s_dp < self.low - self._slack, -jnp.inf, value)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        if self.step is not None:
            s_dp = self.step * jnp.ceil(s_dp / self.step - LATTICE_TOLERANCE)
        value = jnp.where(s_dp <= self.low + self._slack, 0.0, self._log_above(s_dp, s))
        return jnp.where(s_dp > self.high + self._slack, -jnp.inf, value)

    def _log_before(self, s_dp: Array, s: Array) -> Array:
        if isinstance(self.support, Lattice):
            return AbstractPostProcessing._log_before(self, s_dp, s)
        value = jnp.where(s_dp > self.high, 0.0, self.mechanism._log_before(s_dp, s))
        return jnp.where(s_dp <= self.low, -jnp.inf, value)

    @property
    def reach(self) -> float:
        return self.mechanism.reach if self.high == math.inf else math.inf

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        if self.step is None:
            return self.mechanism._kinks(s_dp, xp)
        ends = (s_dp - 0.5 * self.step, s_dp + 0.5 * self.step)
        kinks = [self.mechanism._kinks(end, xp) for end in ends]
        return xp.sort(xp.concatenate(kinks, axis=-1), axis=-1)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        bound = self.mechanism._log_prob_bound_each(s_dp)
        if self.step is not None:
            inner = self.mechanism.support
            cell = self.step / inner.step if isinstance(inner, Lattice) else self.step
            bound = jnp.minimum(bound + jnp.log(cell), 0.0)
        at_low, at_high = self._at_ends(s_dp)
        return jnp.where(at_low | at_high, 0.0, bound)

    def _log_below(self, y: Array, s: Array) -> Array:
        """The log of P(Y rounds to y or less)."""
        if self.step is None:
            return self.mechanism._log_cdf(y, s)
        return self.mechanism._log_cdf(y + 0.5 * (self.step - self._inner_step), s)

    def _log_above(self, y: Array, s: Array) -> Array:
        """The log of P(Y rounds to y or more)."""
        return self.mechanism._log_sf(y if self.step is None else y - 0.5 * self.step, s)

    def _at_ends(self, y: Array) -> tuple[Array, Array]:
        return y <= self.low + self._slack, y >= self.high - self._slack

    @property
    def _inner_step(self) -> Any:
        inner = self.mechanism.support
        return inner.step if isinstance(inner, Lattice) else 0.0

    @property
    def _slack(self) -> Any:
        """How far from an end still counts as the end: nothing for continuous laws."""
        return LATTICE_TOLERANCE * (self._inner_step if self.step is None else self.step)


def _log_difference(larger: Array, smaller: Array) -> Array:
    """log(exp(larger) - exp(smaller)), -inf where both are."""
    possible = larger > -jnp.inf
    gap = jnp.where(possible, smaller - jnp.where(possible, larger, 0.0), -1.0)
    return larger + jnp.log1p(-jnp.exp(gap))


def _check_inner(mechanism: Any) -> None:
    if not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(
            "Clamped wraps a mechanism, such as Laplace(scale=1.0), got"
            f" {type(mechanism).__name__}."
        )
    name = type(mechanism).__name__
    if isinstance(mechanism, Clamped):
        raise InvalidInputError(
            "Clamped cannot wrap Clamped: write one Clamped with low, high and step together."
        )
    if mechanism.is_composed:
        raise InvalidInputError(
            f"Clamped cannot wrap {name}: clamp its blocks, Product([Clamped(...), ...])."
        )
    if isinstance(mechanism.support, OrAbsent):
        raise InvalidInputError(
            f"Clamped cannot wrap {name}: apply the threshold to the clamped numbers,"
            " Thresholded(Clamped(...), above=...)."
        )
    if isinstance(mechanism.support, Finite):
        raise InvalidInputError(
            f"Clamped cannot wrap {name}: leave candidates outside [low, high] out instead."
        )
    if not {Capability.CDF, Capability.DENSITY} <= mechanism.capabilities:
        raise MissingCapabilityError(
            "Clamped needs a mechanism with independent columns and a log_cdf for its end masses;"
            f" {name} has none. Use Laplace or Gaussian, or clamp inside a SampledMechanism."
        )


def _check_ends(low: float, high: float, step: float | None) -> None:
    if not low < high:
        raise InvalidInputError(f"low must be below high, got low={low:g} and high={high:g}.")
    if math.isinf(low) and math.isinf(high) and step is None:
        raise InvalidInputError(
            "Clamped needs at least one of low, high and step; without them it does nothing."
        )


def _check_step(inner: AbstractSupport, low: float, high: float, step: float | None) -> None:
    if isinstance(inner, Lattice):
        if step is not None:
            _check_step_on_lattice(inner, step)
        step = step or inner.step
    for name, end in (("low", low), ("high", high)):
        if step is not None and math.isfinite(end) and not Lattice(step).contains(end):
            raise InvalidInputError(f"{name}={end:g} must be a multiple of the step, {step:g}.")


def _check_step_on_lattice(inner: Lattice, step: float) -> None:
    if math.isfinite(inner.low) or math.isfinite(inner.high):
        raise InvalidInputError(f"Clamped does not round {inner.describe()}: leave step out.")
    if not Lattice(inner.step).contains(step):
        raise InvalidInputError(
            f"step={step:g} must be a multiple of the mechanism's own step, {inner.step:g}."
        )
