"""Draws with importance weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise._core.weights import effective_size, normalised_by_largest, systematic_rows
from noisewise.errors import InvalidInputError
from noisewise.posteriors.base import AbstractPosterior, check_num
from noisewise.posteriors.pareto_tail import MIN_TAIL, tail_shape
from noisewise.posteriors.report import Report

MAX_PARETO_K = 0.7
"""Pareto k above which effective sizes and averages of weighted draws cannot be trusted, however
many draws there are (Vehtari et al. 2024). `max_pareto_k` is lower for fewer than 2,200.
"""

_PER_EFFECTIVE = 4
"""Resampled draws for each effective one: more of them would say next to nothing more."""
_FEWEST = 1000
"""Resampled draws at least, where there are as many: arviz's own checks need some hundreds."""


def max_pareto_k(num: int) -> float:
    """Pareto k up to which averages of `num` weighted draws can be trusted:
    min(1 - 1 / log10(num), 0.7).

    An average needs some 10^(1 / (1 - k)) draws to be as good as its standard error says.

    Args:
        num: How many draws, those of weight 0 included.

    References:
        A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, Pareto smoothed importance sampling,
        J. Mach. Learn. Res. 25 (2024), section 3.2.

    >>> [round(max_pareto_k(num), 2) for num in (100, 1000, 10_000)]
    [0.5, 0.67, 0.7]
    """
    return min(1.0 - 1.0 / math.log10(num), MAX_PARETO_K) if num > 1 else -math.inf


class WeightedSamples(AbstractPosterior):
    r"""Draws theta_i (N, d) with log weights (N,), normalised or not.

    `effective_size` is (sum w)^2 / sum w^2; `pareto_k` the shape of the weights' tail (Vehtari et
    al. 2024): above `max_pareto_k`, .7 or less, averages cannot be trusted.

    Args:
        theta: Draws, shape (n, d).
        names: Names of the d parameters.
        report: How the posterior came about.
        log_weights: Log weights, shape (n,), normalised or not; NaN counts as -inf.
        **more: What else `AbstractPosterior` takes.

    >>> import jax
    >>> posterior = WeightedSamples(
    ...     np.array([[0.0], [1.0]]), ("a",), Report("example"), log_weights=np.log([1.0, 3.0])
    ... )
    >>> posterior.summary().loc["a", "mean"].item(), posterior.sample(jax.random.key(0), 4).shape
    (0.75, (4, 1))
    """

    def __init__(
        self,
        theta: Float[np.ndarray, "n d"],
        names: tuple[str, ...],
        report: Report,
        *,
        log_weights: Float[np.ndarray, " n"],
        **more: Any,
    ) -> None:
        super().__init__(theta, names, report, **more)
        log_weights = np.asarray(log_weights, dtype=np.float64)
        log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
        if log_weights.shape != (len(self.theta),) or not log_weights.max() > -np.inf:
            raise InvalidInputError(
                f"log_weights must have shape ({len(self.theta)},), at least one above -inf."
            )
        self.log_weights = log_weights

    @property
    def weights(self) -> Float[np.ndarray, " n"]:
        return normalised_by_largest(self.log_weights)

    @property
    def effective_size(self) -> float:
        return effective_size(self.weights)

    @property
    def pareto_k(self) -> float:
        """The shape of the generalised Pareto law fitted to the largest weights; NaN below 25
        draws.
        """
        return pareto_k(self.log_weights)

    def sample(self, key: Array, num: int) -> Float[np.ndarray, "num d"]:
        """Draws by systematic resampling, in random order: those with large weights repeat."""
        return self.theta[self.resampled_rows(key, num)]

    def resampled_rows(self, key: Array, num: int) -> Int[np.ndarray, " num"]:
        """The rows that `sample` takes, shape (num,)."""
        rng, num = generator(key), check_num(num)
        return rng.permutation(systematic_rows(self.weights, num, rng.random()))

    def _rows(self) -> Int[np.ndarray, "c m"]:
        enough = max(_FEWEST, math.ceil(_PER_EFFECTIVE * self.effective_size))
        return systematic_rows(self.weights, min(len(self.theta), enough), 0.5)[None]

    def _own_arrays(self) -> dict[str, np.ndarray]:
        return {"log_weights": self.log_weights}


def pareto_k(log_weights: Float[np.ndarray, " n"]) -> float:
    """The shape of the weights' tail.

    Args:
        log_weights: Log weights, shape (n,), up to a constant.

    Returns:
        Pareto k: NaN for fewer than 25 draws, infinite if fewer than 25 weights are positive; 0
        where 25 or more share the largest weight, below 0 where weights are bounded.
    """
    if len(log_weights) < MIN_TAIL:
        return float("nan")
    finite = log_weights[np.isfinite(log_weights)]
    return tail_shape(finite) if finite.size >= MIN_TAIL else float("inf")
