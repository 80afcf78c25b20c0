"""Draws with importance weights."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.seeds import generator
from noisewise._core.weights import effective_size, normalised_by_largest, systematic_rows
from noisewise.errors import InvalidInputError
from noisewise.posteriors.base import AbstractPosterior, check_num
from noisewise.posteriors.report import Report

MAX_PARETO_K = 0.7
"""Pareto k above which effective sizes and averages of weighted draws cannot be trusted (Vehtari et
al. 2024).
"""

_MIN_TAIL = 25
"""Positive weights below which no tail can be fitted."""

_BOUNDED_WEIGHT = 20.0
"""Largest weight, in units of the mean weight, that cannot belong to a heavy tail."""


class WeightedSamples(AbstractPosterior):
    r"""Draws theta_i (N, d) with log weights (N,), normalised or not.

    `effective_size` is (sum w)^2 / sum w^2; `pareto_k` the shape of the weights' tail (Vehtari et
    al. 2024): above .7 averages cannot be trusted, however many draws there are.

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

    def _chains(self) -> dict[str, np.ndarray]:
        rows = systematic_rows(self.weights, len(self.theta), 0.5)
        return {name: values[rows][None] for name, values in self._columns().items()}

    def _own_arrays(self) -> dict[str, np.ndarray]:
        return {"log_weights": self.log_weights}


def pareto_k(log_weights: Float[np.ndarray, " n"]) -> float:
    """The shape of the weights' tail.

    Args:
        log_weights: Log weights, shape (n,), up to a constant.

    Returns:
        Pareto k: NaN for fewer than 25 draws, infinite if fewer than 25 weights are positive; 0
        where tied bounded weights leave no tail.
    """
    if len(log_weights) < _MIN_TAIL:
        return float("nan")
    finite = log_weights[np.isfinite(log_weights)]
    if finite.size < _MIN_TAIL:
        return float("inf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        shape = float(np.asarray(arviz.psislw(finite)[1]))
    # ties at the cut-off leave no tail to fit: harmless where no weight is large
    bounded = np.exp(finite.max() - logsumexp(finite)) * len(finite) <= _BOUNDED_WEIGHT
    return 0.0 if math.isinf(shape) and bounded else shape


def max_pareto_k(num: int) -> float:
    """TEMP"""
    return min(1.0 - 1.0 / math.log10(max(num, 11)), MAX_PARETO_K)
