"""Where a private statistic can lie: the real line, an interval with probability on its ends, a
lattice, or finitely many values; each also with the outcome that it is absent.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array, is_traced
from noisewise.errors import InvalidInputError

LATTICE_TOLERANCE = 1e-6
"""How far from a lattice point, in steps, a float64 value may be and still count as on it."""

_ROUNDING = 1e-15
"""The same relative to the value, some units in the last place: the rounding of large lattice
points exceeds the tolerance.
"""
_SHOWN = 6
"""Values of a finite support that a sentence lists: as many as fit into a line."""


def lattice_index(
    values: Float[Array, "*batch"], step: float | Array
) -> tuple[Float[Array, "*batch"], Bool[Array, "*batch"]]:
    """The nearest whole number of steps to each value, and whether the value is that point.

    Args:
        values: Numbers, as a NumPy array, a JAX array or a tracer.
        step: The spacing of the lattice.

    Returns:
        Indices (as floats) and membership, both with the shape and of the kind of `values`.

    >>> [part.tolist() for part in lattice_index(np.array([0.3, 0.35]), 0.1)]
    [[3.0, 3.0], [True, False]]
    """
    steps = values / step
    index = steps.round()
    return index, abs(steps - index) <= LATTICE_TOLERANCE + _ROUNDING * abs(index)


@dataclasses.dataclass(frozen=True)
class AbstractSupport(abc.ABC):
    """A set of values, the same for each column of a block."""

    def contains(self, values: Float[Array, "*batch"]) -> Bool[Array, "*batch"]:
        """Elementwise membership; NaN, which means absent, is contained in `OrAbsent` only.

        Args:
            values: Numbers in any shape; tracers are allowed.

        Returns:
            True or False, with the shape of `values`.

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
        """Its values, as the object of a sentence: "multiples of 0.5 in [0, 10]"."""

    def columns(self, width: int) -> list[AbstractSupport]:
        """The support of each of `width` columns.

        >>> Blocks((Real(), Lattice()), widths=(1, 1)).columns(2)
        [Real(), Lattice(step=1.0, low=-inf, high=inf)]
        """
        return [self] * width

    def may_be_absent(self, width: int) -> Bool[np.ndarray, " kp"]:
        """Which of `width` columns can be absent."""
        return np.array([isinstance(column, OrAbsent) for column in self.columns(width)])

    def filled(self, values: Float[np.ndarray, "*batch kp"]) -> Float[np.ndarray, "*batch kp"]:
        """The values (..., k') with the threshold in place of what is absent."""
        columns = self.columns(values.shape[-1])
        if not any(isinstance(column, OrAbsent) for column in columns):
            return values
        above = [column.above if isinstance(column, OrAbsent) else np.nan for column in columns]
        return np.where(np.isnan(values), np.array(above), values)


@dataclasses.dataclass(frozen=True)
class Real(AbstractSupport):
    """All finite numbers.

    >>> Real().contains([1.0, np.inf, np.nan]).tolist()
    [True, False, False]
    """

    def _contains(self, values: Array, xp: Any) -> Array:
        return xp.isfinite(values)

    def describe(self) -> str:
        return "finite numbers"


@dataclasses.dataclass(frozen=True)
class Interval(AbstractSupport):
    """Numbers in [low, high]; a finite end has a probability of its own.

    >>> Interval(0.0, np.inf).describe()
    'numbers in [0, inf]'
    """

    low: float
    high: float

    def _contains(self, values: Array, xp: Any) -> Array:
        return xp.isfinite(values) & (values >= self.low) & (values <= self.high)

    def describe(self) -> str:
        return f"numbers in [{self.low:g}, {self.high:g}]"


@dataclasses.dataclass(frozen=True)
class Lattice(AbstractSupport):
    """Multiples of `step` in [low, high].

    >>> Lattice(step=0.5, low=0.0).contains([0.5, 0.75, -0.5]).tolist()
    [True, False, False]
    """

    step: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def _contains(self, values: Array, xp: Any) -> Array:
        finite = xp.isfinite(values)
        _, on_it = lattice_index(xp.where(finite, values, 0.0), self.step)
        slack = LATTICE_TOLERANCE * self.step
        return finite & on_it & (values >= self.low - slack) & (values <= self.high + slack)

    def describe(self) -> str:
        unbounded = math.isinf(self.low) and math.isinf(self.high)
        bounds = "" if unbounded else f" in [{self.low:g}, {self.high:g}]"
        return f"multiples of {self.step:g}{bounds}"


@dataclasses.dataclass(frozen=True)
class Finite(AbstractSupport):
    """Finitely many values.

    >>> Finite((1.0, 2.0, 4.0)).describe()
    'one of the 3 values 1, 2, 4'
    """

    values: tuple[float, ...]

    def _contains(self, values: Array, xp: Any) -> Array:
        return xp.isin(values, xp.asarray(self.values))

    def describe(self) -> str:
        shown = ", ".join(f"{value:g}" for value in self.values[:_SHOWN])
        more = ", ..." if len(self.values) > _SHOWN else ""
        return f"one of the {len(self.values)} values {shown}{more}"


@dataclasses.dataclass(frozen=True)
class OrAbsent(AbstractSupport):
    """The values of another support that are at least `above`, or absent, which is NaN.

    >>> OrAbsent(Real(), above=10.0).contains([9.0, 10.0, np.nan]).tolist()
    [False, True, True]
    """

    present: AbstractSupport
    above: Any
    """The least value that is published: one number, or a tuple of one per column."""

    def _contains(self, values: Array, xp: Any) -> Array:
        published = self.present.contains(values) & (values >= self.least(xp))
        return xp.isnan(values) | published

    def least(self, xp: Any = np) -> Array:
        """The threshold, less what counts as the same lattice point."""
        slack = LATTICE_TOLERANCE * self.present.step if isinstance(self.present, Lattice) else 0.0
        return xp.asarray(self.above) - slack

    def coded_column(self) -> tuple[AbstractSupport, float]:
        """The support of one column with a number for absent, below all others, and that number;
        NaN where nothing can be absent.
        """
        present, above = self.present, float(self.above)
        if isinstance(present, Lattice):
            first = math.ceil(max(above, present.low) / present.step - LATTICE_TOLERANCE)
            code = present.step * (first - 1)
            return Lattice(present.step, code, present.high), code
        low, high = -math.inf, math.inf
        if isinstance(present, Interval):
            low, high = present.low, present.high
        if isinstance(present, Finite) or above >= high:
            values = present.values if isinstance(present, Finite) else (high,)
            kept = [value for value in values if value >= above]
            code = min(kept, default=above) - 1.0
            return Finite((code, *kept)), code
        if above <= low:
            return present, math.nan
        return Interval(above, high), above

    def columns(self, width: int) -> list[AbstractSupport]:
        each = self.above if isinstance(self.above, tuple) else (self.above,) * width
        return [OrAbsent(self.present, above) for above in each]

    def describe(self) -> str:
        if self.present == Finite(()):
            return "nothing (NaN)"
        each = self.above if isinstance(self.above, tuple) else (self.above,)
        least = f"{min(each):g}" if min(each) == max(each) else f"{min(each):g} to {max(each):g}"
        return f"{self.present.describe()} that are at least {least}, or absent (NaN)"


@dataclasses.dataclass(frozen=True)
class Blocks(AbstractSupport):
    """One support per block of columns.

    >>> Blocks((Real(), Lattice(1.0)), widths=(1, 2)).contains([0.5, 0.5, 2.0]).tolist()
    [True, False, True]
    """

    supports: tuple[AbstractSupport, ...]
    widths: tuple[int, ...]

    def _contains(self, values: Array, xp: Any) -> Array:
        if values.ndim == 0 or values.shape[-1] != sum(self.widths):
            raise InvalidInputError(
                f"Values must have {sum(self.widths)} columns, got shape {values.shape}."
            )
        if is_traced(values):
            parts = xp.split(values, np.cumsum(self.widths)[:-1], axis=-1)
            pairs = zip(self.supports, parts, strict=True)
            return xp.concatenate([support.contains(part) for support, part in pairs], axis=-1)
        found = np.empty(values.shape, dtype=bool)
        for (support, width), starts in self._alike().items():
            columns = np.add.outer(starts, np.arange(width))
            found[..., columns] = support.contains(values[..., columns])
        return found

    def _alike(self) -> dict[tuple[AbstractSupport, int], list[int]]:
        """Where blocks begin that have the same support and width: a table may have a hundred
        thousand blocks of two kinds.
        """
        starts: dict[tuple[AbstractSupport, int], list[int]] = {}
        ends = itertools.accumulate(self.widths)
        for support, width, end in zip(self.supports, self.widths, ends, strict=True):
            starts.setdefault((support, width), []).append(end - width)
        return starts

    def columns(self, width: int) -> list[AbstractSupport]:
        parts = zip(self.supports, self.widths, strict=True)
        return [column for support, size in parts for column in support.columns(size)]

    def describe(self) -> str:
        return "; then ".join(
            f"{width} x {support.describe()}"
            for support, width in zip(self.supports, self.widths, strict=True)
        )


def side_by_side(columns: Sequence[AbstractSupport]) -> AbstractSupport:
    """The support of columns that each have one of their own; neighbours of one kind share a block.

    >>> side_by_side([OrAbsent(Real(), 2.0), OrAbsent(Real(), 5.0), Real()])
    Blocks(supports=(OrAbsent(present=Real(), above=(2.0, 5.0)), Real()), widths=(2, 1))
    """
    blocks, widths = [], []
    for kind, group in itertools.groupby(columns, _kind):
        alike = list(group)
        above = [column.above for column in alike if isinstance(column, OrAbsent)]
        together = above[0] if len(set(above)) == 1 else tuple(above)
        blocks.append(OrAbsent(kind[1], together) if above else kind[1])
        widths.append(len(alike))
    return blocks[0] if len(blocks) == 1 else Blocks(tuple(blocks), tuple(widths))


def _kind(column: AbstractSupport) -> tuple[bool, AbstractSupport]:
    """What may differ from column to column in a block is left out: the threshold."""
    absent = isinstance(column, OrAbsent)
    return absent, column.present if isinstance(column, OrAbsent) else column


def coded(support: AbstractSupport, width: int) -> tuple[AbstractSupport, Float[np.ndarray, " kp"]]:
    """A support without absence, where a number below all others of its column stands for absent.

    Args:
        support: The support of a private statistic.
        width: The number of its columns.

    Returns:
        The support of the coded columns, and the codes, shape (k',), NaN where nothing can be
        absent.

    >>> coded(OrAbsent(Lattice(), above=4.5), 1)
    (Lattice(step=1.0, low=4.0, high=inf), array([4.]))
    """
    if not support.may_be_absent(width).any():
        return support, np.full(width, np.nan)
    pairs = [
        column.coded_column() if isinstance(column, OrAbsent) else (column, math.nan)
        for column in support.columns(width)
    ]
    alike = [
        (part, len(list(group))) for part, group in itertools.groupby(part for part, _ in pairs)
    ]
    codes = np.array([code for _, code in pairs])
    if len(alike) == 1:
        return alike[0][0], codes
    return Blocks(tuple(part for part, _ in alike), tuple(size for _, size in alike)), codes
