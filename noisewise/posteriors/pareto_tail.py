r"""The tail of importance weights: a generalised Pareto law fitted to the largest of them.

Weights of continuous statistics are fitted as by Vehtari et al. (2024). Discrete statistics and
noise put weights on levels, where such a fit fails: ties leave few weights above its cut-off, and
levels far apart look heavy. So, where weights are tied,

- 25 or more on the largest level are its bound. Of a Pareto law with k = .7 on levels g apart in
  logs, n draws on one level come with n / (exp(g / .7) - 1) above it: 8 where n is 25 and g is 1;
- fewer are spread down to the next level, each level by the Pareto law through its two ends, which
  leaves the share of weights above each level what it was.

Of 10,000 weights with k = 1 on levels up to 2 nats apart 98% are found above .7, as of weights
without ties. On levels 5 nats apart it is 38%: there 25 on the largest are often chance.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

MIN_TAIL = 25
"""Positive weights from which a tail can be fitted, and equal ones that show where it ends."""

_EQUAL = 1e-9
"""Difference of log weights that rounding explains."""

_PRIOR_POINTS, _PRIOR_SHAPE, _PRIOR_SCALE = 10, 0.5, 3.0
"""Of the fit: ten points pull the shape to 1/2, as by Vehtari et al., and candidates for the scale
spread over a third of the first quartile, as by Zhang and Stephens."""


def tail_shape(log_weights: Float[np.ndarray, " n"]) -> float:
    """The shape k of the tail of 25 or more finite log weights; 0 where 25 share the largest.

    References:
        A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, Pareto smoothed importance sampling,
        J. Mach. Learn. Res. 25 (2024).
        J. Zhang and M. A. Stephens, A new and efficient estimation method for the generalized
        Pareto distribution, Technometrics 51 (2009).
    """
    levels, counts = np.unique(log_weights, return_counts=True)
    if counts[-1] >= MIN_TAIL:
        return 0.0
    falling = _spread(levels[::-1] - levels[-1], counts[::-1])
    length = math.ceil(min(len(falling) / 5.0, 3.0 * math.sqrt(len(falling))))
    if falling[0] - falling[length] < _EQUAL:
        return 0.0
    cut_off = max(falling[length], math.log(np.finfo(float).tiny))
    return _fitted_shape(
        np.exp(falling[:length][falling[:length] > cut_off][::-1]) - math.exp(cut_off)
    )


def _spread(
    levels: Float[np.ndarray, " l"], counts: Int[np.ndarray, " l"]
) -> Float[np.ndarray, " n"]:
    """Falling log weights, those on one level spread down to the next; one alone stays there."""
    firsts = np.cumsum(counts) - counts + 1.0
    ranks, level = np.arange(1.0, counts.sum() + 1.0), np.repeat(np.arange(len(levels)), counts)
    widths = -np.diff(levels, append=levels[-1])
    shares = np.log(ranks / firsts[level]) / np.log1p(counts / firsts)[level]
    return levels[level] - shares * widths[level]


def _fitted_shape(excess: Float[np.ndarray, " n"]) -> float:
    """The shape of a generalised Pareto law, from rising values above 0: a mean over candidates of
    scale / shape, weighted by their profile likelihoods.
    """
    size = len(excess)
    num = 30 + int(math.sqrt(size))
    quartile = excess[max(0, int(size / 4 + 0.5) - 1)]
    steps = 1.0 - np.sqrt(num / (np.arange(1, num + 1) - 0.5))
    if not quartile > 0.0:  # a quarter of the tail lies on its edge
        return math.inf
    ratios = steps / (_PRIOR_SCALE * quartile) + 1.0 / excess[-1]
    shapes = np.log1p(-ratios[:, None] * excess).mean(axis=1)
    log_likelihoods = size * (np.log(-ratios / shapes) - shapes - 1.0)
    likelihoods = np.exp(log_likelihoods - log_likelihoods.max())
    likelihoods[likelihoods < 10.0 * np.finfo(float).eps * likelihoods.sum()] = 0.0
    ratio = likelihoods @ ratios / likelihoods.sum()
    shape = np.log1p(-ratio * excess).mean()
    return float((size * shape + _PRIOR_POINTS * _PRIOR_SHAPE) / (size + _PRIOR_POINTS))
