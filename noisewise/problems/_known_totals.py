"""Exact posteriors of tables with a known total: the density of what was released by convolution,
and independent draws by rejection.

Counts of a multinomial law are independent Poisson counts given that their total is n. So

    p(y | theta) = (q_1 * ... * q_k)(n) / Poisson(n; n),   q_j(s) = Poisson(s; n p_j) eta(y_j | s),

where * is the convolution of the terms of all cells, each within reach of its noise. This is code
of its own: it shares no sum with `noisewise.laws`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import multivariate_t

_REACH = 45.0
"""Scales of the noise on each side of a released number: e^-45 of its weight lies beyond."""
_TOTALS = 40.0
"""Sds of the total noise over which convolutions go before they repeat themselves."""
_BYTES = 2.0**26
"""Of the terms of all cells at a time."""
_DEGREES = 5
"""Degrees of freedom of the proposal, whose tails are heavier than those of the posterior."""
_WIDER = 1.4
"""The proposal's variance over the posterior's: fewer draws are accepted, none is missing."""
_FIRST = 2_000
"""Proposals from which location and spread are found again, twice."""
_STEP = 3e-3
"""Of second differences at the mode, in unconstrained coordinates: densities known to 1e-9 give
them to 1e-4.
"""


@dataclasses.dataclass(frozen=True)
class KnownTotal:
    """log p(y | theta) of counts with a known total through discrete Laplace noise.

    Attributes:
        total: The known total n.
        scale: Of the noise: P(N = m) ~ exp(-|m| / scale).
        observed: What was released, shape (k,).
    """

    total: int
    scale: float
    observed: np.ndarray

    def log_prob(self, shares: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " m"]:
        """The log density for each row of cell probabilities, but for a constant."""
        counts, log_noise = self._windows()
        k, length = counts.shape
        sd = self.scale * np.sqrt(2.0 * k)
        size = next_fast_len(int(max(length, _TOTALS * sd)) + 1, real=True)
        rows = max(1, int(_BYTES / (8.0 * k * size)))
        with np.errstate(divide="ignore"):
            parts = [
                self._convolved(np.log(shares[at : at + rows]), counts, log_noise, size)
                for at in range(0, len(shares), rows)
            ]
        return np.concatenate(parts)

    def _windows(self) -> tuple[np.ndarray, np.ndarray]:
        """Counts within reach of the noise of each cell, and log eta at these, (k, length)."""
        reach = int(np.ceil(_REACH * self.scale)) + 1
        nearest = np.clip(np.rint(self.observed), 0, self.total).astype(int)
        first = np.clip(nearest - reach, 0, max(self.total - 2 * reach, 0))
        counts = first[:, None] + np.arange(min(2 * reach, self.total) + 1)
        return counts, -np.abs(self.observed[:, None] - counts) / self.scale

    def _convolved(
        self, log_shares: np.ndarray, counts: np.ndarray, log_noise: np.ndarray, size: int
    ) -> np.ndarray:
        rate = self.total * np.exp(log_shares)
        with np.errstate(invalid="ignore"):
            log_rate = (log_shares + np.log(self.total))[..., None] * counts
        log_rate = np.where(counts == 0, 0.0, log_rate)
        terms = log_rate - rate[..., None] - gammaln(counts + 1.0) + log_noise
        top = terms.max(axis=-1)
        product = rfft(np.exp(terms - top[..., None]), size, axis=-1).prod(axis=-2)
        place = (self.total - int(counts[:, 0].sum())) % size
        found = irfft(product, size, axis=-1)[:, place]
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(found, 0.0)) + top.sum(axis=-1)


def rejection(
    log_density: Callable[[np.ndarray], np.ndarray],
    start: Float[np.ndarray, " p"],
    rng: np.random.Generator,
    num: int,
) -> Float[np.ndarray, "num p"]:
    """Independent draws: proposals of a t law are accepted by density over proposal, relative to
    the largest ratio among all of them. Proposals beyond that ratio are what is missing: less than
    one in all that were made.

    Args:
        log_density: z (m, p) -> log density (m,), but for a constant.
        start: Where the mode is searched for.
        rng: Makes the draws.
        num: Number of draws.
    """
    found = minimize(lambda z: -log_density(z[None])[0], start, method="Nelder-Mead")
    centre, covariance = found.x, np.linalg.inv(_information(log_density, found.x))
    for _ in range(2):
        z, log_ratio = _proposed(log_density, centre, covariance, rng, _FIRST)
        weights = np.exp(log_ratio - log_ratio.max())
        centre, covariance = np.average(z, axis=0, weights=weights), np.cov(z.T, aweights=weights)
    z, log_ratio, luck = np.empty((0, len(start))), np.empty(0), np.empty(0)
    while True:
        more, ratios = _proposed(log_density, centre, _WIDER * covariance, rng, num)
        z, log_ratio = np.concatenate([z, more]), np.concatenate([log_ratio, ratios])
        luck = np.concatenate([luck, -rng.exponential(size=num)])  # the logs of uniforms
        accepted = z[luck < log_ratio - log_ratio.max()]
        if len(accepted) >= num:
            return accepted[:num]


def _proposed(
    log_density: Callable[[np.ndarray], np.ndarray],
    centre: np.ndarray,
    covariance: np.ndarray,
    rng: np.random.Generator,
    num: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of a multivariate t law, and the logs of density over proposal."""
    law = multivariate_t(centre, covariance, df=_DEGREES, seed=rng)
    z = law.rvs(num).reshape(num, -1)
    return z, log_density(z) - law.logpdf(z)


def _information(
    log_density: Callable[[np.ndarray], np.ndarray], z: np.ndarray
) -> Float[np.ndarray, "p p"]:
    """Minus the matrix of second derivatives, by central differences."""
    steps = _STEP * np.eye(len(z))
    corners = [z + a * u + b * v for u in steps for v in steps for a in (1, -1) for b in (1, -1)]
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    differences = log_density(np.array(corners)).reshape(len(z), len(z), 4) @ signs
    return -differences / (4.0 * _STEP**2)
