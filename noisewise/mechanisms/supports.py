"""Where a private statistic can lie: the real line, an interval with end masses, a lattice, or
finitely many values.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, is_traced
from noisewise.errors import InvalidInputError

LATTICE_TOLERANCE = 1e-6
"""How far from a lattice point, in steps, a float64 value may be and still count as on it."""

_ROUNDING = 1e-15
"""The same relative to the value, for lattice points so large that their own rounding passes the
tolerance.
"""


def lattice_index(values: Array, step: Any) -> tuple[Array, Array]:
    """The nearest whole number of steps and whether the value is that many; NumPy in, NumPy out,
    JAX likewise.
    """
    steps = values / step
    index = steps.round()
    return index, abs(steps - index) <= LATTICE_TOLERANCE + _ROUNDING * abs(index)


@dataclasses.dataclass(frozen=True)
class AbstractSupport(abc.ABC):
    """A set of values, the same for each of a block's columns."""

    def contains(self, values: Any) -> Array:
        """Elementwise membership, with the shape of `values`; NaN belongs nowhere. Works on
        tracers.

        >>> Lattice(step=1.0, low=0.0).contains([-1.0, 0.0, 0.5, 3.0]).tolist()
        [False, True, False, True]
        """
        if is_traced(values):
            return self._contains(values, jnp)
        return self._contains(np.asarray(values, dtype=np.float64), np)

    @abc.abstractmethod
    def _contains(self, values: Array, xp: Any) -> Array:
        """Membership computed with the functions of `xp`, NumPy or jax.numpy."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What lies in it, as the object of a sentence."""


@dataclasses.dataclass(frozen=True)
class Real(AbstractSupport):
    """All finite numbers."""

    def _contains(self, values: Array, xp: Any) -> Array:
        return xp.isfinite(values)

    def describe(self) -> str:
        return "finite numbers"


@dataclasses.dataclass(frozen=True)
class Interval(AbstractSupport):
    """Numbers in [low, high]; a finite end carries positive probability of its own."""

    low: float
    high: float

    def _contains(self, values: Array, xp: Any) -> Array:
        return xp.isfinite(values) & (values >= self.low) & (values <= self.high)

    def describe(self) -> str:
        return f"numbers in [{self.low:g}, {self.high:g}]"


@dataclasses.dataclass(frozen=True)
class Lattice(AbstractSupport):
    """Multiples of `step` in [low, high]."""

    step: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def _contains(self, values: Array, xp: Any) -> Array:
        finite = xp.isfinite(values)
        _, on_it = lattice_index(xp.where(finite, values, 0.0), self.step)
        slack = LATTICE_TOLERANCE * self.step
        return finite & on_it & (values >= self.low - slack) & (values <= self.high + slack)

    def describe(self) -> str:
        bounds = (
            ""
            if math.isinf(self.low) and math.isinf(self.high)
            else f" in [{self.low:g}, {self.high:g}]"
        )
        return f"multiples of {self.step:g}{bounds}"


@dataclasses.dataclass(frozen=True)
class Finite(AbstractSupport):
    """A list of values."""

    values: tuple[float, ...]

    def _contains(self, values: Array, xp: Any) -> Array:
        return xp.isin(values, xp.asarray(self.values))

    def describe(self) -> str:
        shown = ", ".join(f"{value:g}" for value in self.values[:6])
        return (
            f"one of the {len(self.values)} values {shown}{', ...' if len(self.values) > 6 else ''}"
        )


@dataclasses.dataclass(frozen=True)
class Blocks(AbstractSupport):
    """One support per block of columns."""

    supports: tuple[AbstractSupport, ...]
    widths: tuple[int, ...]

    def _contains(self, values: Array, xp: Any) -> Array:
        if values.ndim == 0 or values.shape[-1] != sum(self.widths):
            raise InvalidInputError(
                f"Values must have {sum(self.widths)} columns, got shape {values.shape}."
            )
        parts = xp.split(values, np.cumsum(self.widths)[:-1], axis=-1)
        return xp.concatenate(
            [support.contains(part) for support, part in zip(self.supports, parts, strict=True)],
            axis=-1,
        )

    def describe(self) -> str:
        return "; then ".join(
            f"{width} x {support.describe()}"
            for support, width in zip(self.supports, self.widths, strict=True)
        )
