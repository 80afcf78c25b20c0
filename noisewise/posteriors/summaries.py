"""One quantity of weighted draws: its mean, spread, quantiles and shortest interval, with the Monte
Carlo errors of these numbers.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from noisewise.posteriors.monte_carlo_errors import (
    AutocorrelationTimes,
    effective_sizes_at,
    errors_of_means,
    errors_of_quantiles,
)
from noisewise.posteriors.sentences.words import percent

if TYPE_CHECKING:
    import pandas as pd

MIN_TAIL_DRAWS = 10.0
"""Effective draws beyond an end of an interval, at least: the mass of the tail is then known to a
third. 400 independent draws (`MANY_DRAWS`) have as many in a tail of 2.5%.
"""


class Quantity:
    """Weighted draws of one quantity.

    Args:
        values: Draws, shape (n,); those of weight 0 have no effect.
        weights: Weights, shape (n,), that sum to 1.
        times: Autocorrelation times of the draws, for errors.
    """

    def __init__(
        self,
        values: Float[np.ndarray, " n"],
        weights: Float[np.ndarray, " n"],
        times: AutocorrelationTimes,
    ) -> None:
        self.values = np.where(weights > 0.0, values, 0.0)
        self.weights = weights
        self._times = times

    @cached_property
    def mean(self) -> float:
        return float(self.weights @ self.values)

    @property
    def sd(self) -> float:
        return float(self.weights @ (self.values - self.mean) ** 2) ** 0.5

    def quantiles(self, levels: Float[np.ndarray, " l"]) -> Float[np.ndarray, " l"]:
        """Linear between draws, each of which lies in the middle of its share of the weight."""
        ordered, _, middles = self._ordered
        return np.interp(levels, middles, ordered)

    def shortest_interval(self, level: float) -> tuple[float, float]:
        """The shortest interval between draws that holds a share `level` of the weight."""
        ordered, cumulative, _ = self._ordered
        before = np.concatenate([[0.0], cumulative[:-1]])
        ends = np.searchsorted(cumulative, before + level * cumulative[-1] - 1e-12)
        possible = np.flatnonzero(ends < len(ordered))
        lengths = ordered[ends[possible]] - ordered[possible]
        start = possible[int(np.argmin(lengths))]
        return float(ordered[start]), float(ordered[ends[start]])

    def error_of_mean(self) -> float:
        """The Monte Carlo standard error of the mean."""
        return float(errors_of_means(self.values[:, None], self.weights, self._times)[0])

    def errors_of_quantiles(self, levels: Float[np.ndarray, " l"]) -> Float[np.ndarray, " l"]:
        """The Monte Carlo standard errors of quantiles."""
        return errors_of_quantiles(self.quantiles, levels, self.effective_sizes(levels))

    def effective_sizes(self, levels: Float[np.ndarray, " l"]) -> Float[np.ndarray, " l"]:
        """How many independent draws the error of each quantile rests on."""
        return effective_sizes_at(self._below(levels), self.weights, self._times)

    def thin_tails(self, levels: Float[np.ndarray, " l"]) -> list[bool]:
        """Whether fewer than `MIN_TAIL_DRAWS` effective draws lie beyond each quantile."""
        sizes = effective_sizes_at(self._below(levels), self.weights, self._times, more=0.0)
        beyond = np.minimum(levels, 1.0 - levels) * sizes
        return [not num > MIN_TAIL_DRAWS - 1e-6 for num in beyond]  # NaN is too few

    def _below(self, levels: Float[np.ndarray, " l"]) -> Float[np.ndarray, "n l"]:
        """1 for draws below each quantile, 1/2 for those at it."""
        ends, values = self.quantiles(levels), self.values[:, None]
        return (values < ends) + 0.5 * (values == ends)

    @cached_property
    def _ordered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws of positive weight in ascending order, the sums of weights up to each, and the
        middles of their shares.
        """
        order = np.argsort(self.values)
        order = order[self.weights[order] > 0.0]
        weights = self.weights[order]
        cumulative = np.cumsum(weights)
        return self.values[order], cumulative, cumulative - weights / 2


def errors_in_words(summary: pd.DataFrame) -> str:
    """The largest Monte Carlo errors of a summary, in posterior sds, in a sentence; nothing where
    none is known.
    """
    sds = summary["sd"].where(summary["sd"] > 0.0)
    mean = (summary["mean mcse"] / sds).max()
    ends = (summary.iloc[:, -2:].max(axis=1) / sds).max()
    if not (np.isfinite(mean) and np.isfinite(ends)):
        return ""
    return (
        f"Monte Carlo errors are at most {percent(mean)} of the sd in means, and {percent(ends)} in"
        " ends of intervals. They are standard errors: another run would be off by about as much."
    )
