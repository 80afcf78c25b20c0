"""The samplers of whole numbers that a mechanism may use for a release of real data.

`disclosure.exact_noise` implements them; mechanisms see this protocol only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

IntegerSampler = Callable[[Sequence[int]], list[int]]
"""Takes confidential integers and returns private ones; it refuses none of them."""


class ExactNoise(Protocol):
    """Samplers without floating-point arithmetic.

    Scales and sensitivities are in steps. Each sampler checks that its noise gives the stated
    privacy, and raises `ReleaseError` if not.
    """

    def in_steps(self, value: float, step: float) -> float:
        """value / step, rounded up: never less noise and never less distance than stated."""

    def whole_steps(self, value: float, step: float) -> int:
        """The integer part of value / step: the largest distance in steps within `value`."""

    def discrete_laplace(self, scale: float, *, sensitivity: int, epsilon: float) -> IntegerSampler:
        """Adds independent Z_j with P(Z_j = z) ~ exp(-|z|/scale)."""

    def discrete_gaussian(self, scale: float, *, sensitivity: float, rho: float) -> IntegerSampler:
        """Adds independent Z_j with P(Z_j = z) ~ exp(-z^2/(2 scale^2))."""

    def exponential_choice(
        self, scale: float, *, sensitivity: int, epsilon: float
    ) -> IntegerSampler:
        """One index i with P(i) ~ exp(utilities[i]/scale)."""

    def padded_binomial(self, *, trials: int, padding: float, population: int) -> IntegerSampler:
        """Independent Binomial(trials, (I + m) / (K + 2m)) counts."""

    def randomized_response(
        self, *, num_categories: int, truth_probability: float
    ) -> IntegerSampler:
        """Each category kept with probability `truth_probability`, else replaced by one of the
        others, with equal probability.
        """

    def bernoulli(self, probability: Fraction) -> bool:
        """True with exactly this probability."""
