"""Noisy numbers that are published only if they reach a threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, is_traced
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.columns import (
    PerColumn,
    in_words,
    kinds_of,
    num_columns,
    per_column,
    taken,
)
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.post_processing import AbstractPostProcessing
from noisewise.mechanisms.supports import AbstractSupport, OrAbsent


class Thresholded(AbstractPostProcessing):
    r"""s_dp = y if y >= above, else absent, for y drawn by another mechanism. Absent is NaN in
    arrays and null in files.

    Use it for tables that leave out small numbers, where the threshold is applied to the noisy
    number. An absent cell is an outcome like any other: it says that y was below the threshold.

    The law: the inner law from the threshold on, and P(absent | s) = P(Y < above | s) by the inner
    `log_cdf`; on a lattice that is the one of the last point below the threshold. Leaving absent
    cells out instead would take the outcome for a choice of the analyst, and shifts what is
    inferred upwards.

    Guarantee: that of the inner mechanism, of which it is a post-processing. `log_prob_bound` is 0
    for absent cells, and the inner bound for the others.

    Attributes:
        mechanism: The inner mechanism. It needs independent columns with a `log_cdf`; the blocks of
            a Product each have a threshold of their own.
        above: The least value that is published: one number, or one per column.

    Raises:
        MissingCapabilityError: If the inner mechanism has no `log_cdf`.

    >>> import noisewise as nw
    >>> noise = nw.mechanisms.DiscreteLaplace(scale=30.0, sensitivity=1.0)
    >>> mechanism = nw.mechanisms.Thresholded(noise, above=450.0)
    >>> mechanism.transport([[0.5], [0.3]], [[460.0], [460.0]]).ravel().tolist()
    [460.0, nan]
    >>> np.exp(mechanism.log_prob([np.nan], [[450.0], [400.0]])).round(3).tolist()
    [0.492, 0.904]
    >>> mechanism.guarantee == noise.guarantee
    True
    """

    above: PerColumn = eqx.field(converter=per_column("above"))

    def __check_init__(self) -> None:
        _check_inner(self.mechanism)
        if (columns := num_columns(above=self.above)) not in (
            None,
            self.mechanism.width or columns,
        ):
            raise InvalidInputError(
                f"above has {columns} numbers, but the {type(self.mechanism).__name__} has"
                f" {self.mechanism.width} columns: give one number, or one per column."
            )

    @property
    def support(self) -> AbstractSupport:
        above = self.above
        if np.ndim(above) == 1 and not is_traced(above):
            above = tuple(np.asarray(above).tolist())
        return OrAbsent(self.mechanism.support, above)

    @property
    def width(self) -> int | None:
        return num_columns(above=self.above) or self.mechanism.width

    def of_columns(self, columns: Sequence[int]) -> AbstractMechanism:
        inner = self.mechanism.of_columns(columns)
        return Thresholded(inner, above=taken(self.above, columns))

    def column_kinds(self, k: int) -> np.ndarray:
        found: np.ndarray = kinds_of(k, self.mechanism.column_kinds(k), self.above)
        return found

    def noise_sd(self, k: int) -> list[float | None]:
        """That of the inner mechanism, before the threshold."""
        return self.mechanism.noise_sd(k)

    def describe(self) -> str:
        return (
            f"{self.mechanism.describe()}; noisy numbers below {in_words('threshold', self.above)}"
            " are absent"
        )

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        if np.isnan(s_dp).any():
            raise MissingCapabilityError(
                "An absent cell has no naive estimate: it only says that the noisy number was below"
                " the threshold. Take a method that uses its probability, such as nw.infer."
            )
        return self.mechanism.estimate(s_dp)

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        draw, least = self.mechanism.exact_sampler(noise, step), self._least(np)

        def published(integers: Sequence[int]) -> list[float]:
            values = draw(integers)
            ends = np.broadcast_to(least, len(values)).tolist()
            return [
                value if value >= end else math.nan for value, end in zip(values, ends, strict=True)
            ]

        return published

    def _least(self, xp: Any) -> Array:
        return OrAbsent(self.mechanism.support, self.above).least(xp)

    def _transport(self, u: Array, s: Array) -> Array:
        y = self.mechanism._transport(u, s)
        return jnp.where(y >= self._least(jnp), y, jnp.nan)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        absent, value = self._split(s_dp)
        return jnp.where(absent, self._log_absent(s_dp, s), self.mechanism._log_prob_each(value, s))

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        absent, value = self._split(s_dp)
        below = absent | (s_dp < self._least(jnp))
        return jnp.where(below, self._log_absent(s_dp, s), self.mechanism._log_cdf(value, s))

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        absent, value = self._split(s_dp)
        reached = self.mechanism._log_sf(jnp.maximum(value, self.above), s)
        return jnp.where(absent, 0.0, reached)

    @property
    def reach(self) -> float:
        return self.mechanism.reach

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        """Those of the inner mechanism at the threshold where the cell is absent."""
        return self.mechanism._kinks(xp.where(xp.isnan(s_dp), self.above, s_dp), xp)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        absent, value = self._split(s_dp)
        return jnp.where(absent, 0.0, self.mechanism._log_prob_bound_each(value))

    def _split(self, s_dp: Array) -> tuple[Array, Array]:
        """Which are absent, and the values with the threshold in their place: what is not taken has
        a finite gradient.
        """
        absent = jnp.isnan(s_dp)
        return absent, jnp.where(absent, self.above, s_dp)

    def _log_absent(self, s_dp: Array, s: Array) -> Array:
        return self.mechanism._log_before(jnp.broadcast_to(self.above, s_dp.shape), s)


def _check_inner(mechanism: Any) -> None:
    if not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(
            "Thresholded wraps a mechanism, such as Laplace(scale=1.0), got"
            f" {type(mechanism).__name__}."
        )
    name = type(mechanism).__name__
    if isinstance(mechanism.support, OrAbsent):
        raise InvalidInputError(f"Thresholded cannot wrap {name}: take the larger threshold.")
    if mechanism.is_composed:
        raise InvalidInputError(
            f"Thresholded cannot wrap {name}: give its blocks thresholds,"
            " Product([Thresholded(...), ...])."
        )
    if not {Capability.CDF, Capability.DENSITY} <= mechanism.capabilities:
        raise MissingCapabilityError(
            "Thresholded needs a mechanism with independent columns and a log_cdf for the"
            f" probability of absent cells; {name} has none. Use Laplace or Gaussian noise, or a"
            " threshold inside a SampledMechanism."
        )
