r"""Importance sampling with an adapted proposal, for densities that may be known only through
unbiased estimates.

    theta_i ~ q,   w_i = target(theta_i) / q(theta_i),   q = (1 - a) t_5(mean, 1.5 cov) + a start

The t-distribution (of covariance 1.5 cov) is fitted to the weighted draws of the stage before;
`start`, the law the first stage draws from, stays in the mixture with share a, so that weights are
bounded where `start` covers the target. Only the last stage is returned: given its proposal the
draws are independent, so weighted means are consistent and the mean weight is unbiased.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from noisewise._core.arrays import Array, as_key, integer, number
from noisewise._core.keys import generator, split
from noisewise._core.weights import effective_size, systematic_rows
from noisewise.errors import InvalidInputError

LogEstimate = Callable[[Array, np.ndarray], np.ndarray]
"""(key, theta (N, d)) -> log of an unbiased estimate of the target density (N,); NaN counts as
zero.
"""

_FREEDOM = 5.0
"""Degrees of freedom of the t-distribution: heavier tails than most targets, and still a variance.
"""


class Proposal(Protocol):
    """A law that can be drawn from, and whose density is known."""

    def sample(self, key: Array, num: int) -> np.ndarray:
        """Draws, shape (num, d)."""

    def log_prob(self, theta: Float[np.ndarray, "n d"], /) -> Float[np.ndarray, " n"]:
        """The log density, shape (n,)."""


@dataclasses.dataclass(frozen=True)
class WeightedDraws:
    """Draws (N, d) with normalised weights (N,), and the log of the target's integral."""

    theta: np.ndarray
    weights: np.ndarray
    log_integral: float
    num_evaluations: int

    @property
    def effective_size(self) -> float:
        """1 / sum of squared weights."""
        return effective_size(self.weights)

    def resample(self, rng: np.random.Generator, num: int) -> np.ndarray:
        """`num` equally weighted draws, by systematic resampling in random order."""
        return self.theta[rng.permutation(systematic_rows(self.weights, num, rng.random()))]


@dataclasses.dataclass(frozen=True)
class Defended:
    """(1 - share) law + share start: weights are at most 1 / share of those of `start`."""

    law: Proposal
    start: Proposal
    share: float

    def sample(self, key: Array, num: int) -> np.ndarray:
        """Draws, of which exactly a share (rounded) comes from `start`, in random order: a budget
        that ends early must not cut off `start` alone.
        """
        law_key, start_key, order_key = split(key, 3)
        own = num - max(1, round(self.share * num))
        draws = np.concatenate(
            [self.law.sample(law_key, own), self.start.sample(start_key, num - own)]
        )
        return generator(order_key).permutation(draws)

    def log_prob(self, z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """The log density."""
        return self.log_prob_given(z, self.start.log_prob(z))

    def log_prob_given(
        self, z: Float[np.ndarray, "n p"], log_start: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """The log density, where that of `start` is known already."""
        return np.logaddexp(
            np.log1p(-self.share) + self.law.log_prob(z), np.log(self.share) + log_start
        )


@dataclasses.dataclass(frozen=True)
class _Mixture:
    """(1 - share) t_5(mean, scale) + share start."""

    start: Proposal
    share: float
    mean: np.ndarray
    scale: np.ndarray

    def sample(self, key: Array, num: int) -> np.ndarray:
        start_key, seed_key = split(key)
        rng = generator(seed_key)
        theta = np.atleast_2d(self._law.rvs(size=num, random_state=rng)).reshape(num, -1)
        from_start = rng.random(num) < self.share
        theta[from_start] = self.start.sample(start_key, num)[from_start]
        return theta

    def log_prob(self, theta: np.ndarray) -> np.ndarray:
        parts = np.stack(
            [
                np.log(self.share) + self.start.log_prob(theta),
                np.log1p(-self.share) + self._law.logpdf(theta),
            ]
        )
        return logsumexp(parts, axis=0)

    @property
    def _law(self) -> Any:
        return multivariate_t(self.mean, self.scale, df=_FREEDOM, allow_singular=True)


def adaptive_importance(
    key: Array,
    log_estimate: LogEstimate,
    start: Proposal,
    *,
    num_stages: int = 4,
    num_adapt: int = 4000,
    num_final: int = 20_000,
    share: float = 0.1,
) -> WeightedDraws:
    """Weighted draws of a target, from a proposal adapted in stages.

    Args:
        key: JAX PRNG key.
        log_estimate: (key, theta (n, d)) -> log of an unbiased estimate of the target density (n,);
            NaN counts as zero.
        start: A law with `sample(key, num) -> (num, d)` and `log_prob(theta) -> (num,)`, as a
            `Prior` has; its support must cover the target's.
        num_adapt: Draws of each stage but the last.
        num_final: Draws of the last stage, which are returned.
        num_stages: Adaptations.
        share: Share of `start` in every proposal, which bounds the weights.

    Returns:
        The draws of the last stage, with normalised weights.

    Raises:
        InvalidInputError: If all weights are zero.

    >>> import jax, numpyro.distributions as dist, noisewise as nw
    >>> start = nw.Prior({"a": dist.Normal(0.0, 5.0)})
    >>> target = lambda key, theta: -0.5 * ((theta[:, 0] - 2.0) / 0.1) ** 2
    >>> draws = adaptive_importance(jax.random.key(0), target, start)
    >>> round(float(draws.weights @ draws.theta[:, 0]), 2), draws.effective_size > 10_000
    (2.0, True)
    """
    keys = split(as_key(key), integer("num_stages", at_least=1)(num_stages) + 1)
    share = number("share", above=0.0, below=1.0)(share)
    draws = weigh(keys[0], log_estimate, start, integer("num_adapt", at_least=100)(num_adapt))
    evaluations = len(draws.theta)
    for stage, stage_key in enumerate(keys[1:], start=1):
        num = num_final if stage == num_stages else num_adapt
        draws = weigh(
            stage_key, log_estimate, fitted_proposal(draws.theta, draws.weights, start, share), num
        )
        evaluations += num
    return dataclasses.replace(draws, num_evaluations=evaluations)


def weigh(key: Array, log_estimate: LogEstimate, proposal: Proposal, num: int) -> WeightedDraws:
    """Independent draws from a proposal, which has `sample` and `log_prob`, with weights for the
    target.
    """
    draw_key, estimate_key = split(key)
    theta = np.asarray(proposal.sample(draw_key, num))
    log_weights = np.asarray(log_estimate(estimate_key, theta)) - proposal.log_prob(theta)
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    total = logsumexp(log_weights)
    if not np.isfinite(total):
        raise InvalidInputError(
            f"All {num} importance weights are zero: the starting law does not reach the target."
        )
    return WeightedDraws(theta, np.exp(log_weights - total), float(total - np.log(num)), num)


def fitted_proposal(
    theta: np.ndarray, weights: np.ndarray, start: Proposal, share: float
) -> _Mixture:
    """The mixture fitted to weighted draws (n, d), to `sample` from and with a `log_prob`.

    Weights are tempered until 20 d draws matter, so that the fit never collapses on one draw.
    """
    log_weights = np.log(np.maximum(weights, 1e-300))
    needed = min(20.0 * theta.shape[1], len(theta) / 4)
    power = 1.0
    while True:
        weights = np.exp(power * (log_weights - log_weights.max()))
        weights /= weights.sum()
        if effective_size(weights) >= needed or power < 1e-6:
            break
        power *= 0.8
    mean = weights @ theta
    centred = theta - mean
    covariance = (weights[:, None] * centred).T @ centred
    ridge = 1e-10 * np.diag(np.maximum(np.diag(covariance), 1e-300))
    return _Mixture(start, share, mean, 1.5 * covariance * (_FREEDOM - 2) / _FREEDOM + ridge)
