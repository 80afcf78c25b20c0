r"""Naive Bayes when only noisy counts of its tables are seen: independent draws, exactly.

Records have a class i < I and features k < K with values j < J_k; a_ikj counts the records of class
i whose feature k is j, and n_i = sum_j a_ikj for every k. Class and feature probabilities are
Dirichlet with all parameters alpha. Each count enters the target with a weight w_ikj(a) of its own,
the density of what was observed of it.

Without the probabilities, all of which integrate out, the target is

    p(n, a)  ~  prod_i g(n_i)  prod_{i,k} c_k(n_i) prod_j g(a_ikj) w_ikj(a_ikj),

    sum_i n_i = n,    sum_j a_ikj = n_i,

    g(m) = Gamma(alpha + m) / (m! Gamma(alpha)),

    c_k(m) = m! Gamma(J_k alpha) / Gamma(m + J_k alpha).

Given their total the counts of a table row are independent, so the sum over all rows with total m
is a convolution over j, for all m at once; so is the sum over all (n_i) with total n, over i. Draws
go back along the convolutions: the class counts, the rows of the tables, and last the Dirichlet
probabilities. The cost is (number of cells) x n^2, once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from noisewise._core.arrays import Array, describe, integer, number
from noisewise._core.keys import generator
from noisewise.errors import InvalidInputError, InvalidTypeError

_MAX_RECORDS = 20_000
"""Records up to which the exact sampler runs: time grows with their square, here to minutes."""


@dataclasses.dataclass(frozen=True)
class TableDraws:
    """Independent draws: theta (num, d) and the counts a (num, I (J_1 + ... + J_K)), and the log of
    the target's sum.

    Columns of theta: the vectors p(j | i, k) by class and then feature, and the class probabilities
    last. Columns of the counts: by class, feature and value.
    """

    theta: np.ndarray
    counts: np.ndarray
    log_evidence: float


def absolute_error_weights(observed: Any, scale: float, num_records: int) -> np.ndarray:
    """Laplace errors of the counts: log w_c(a) = -|observed_c - a| / scale for a = 0, ..., n, shape
    (cells, n+1).
    """
    scale = number("scale", above=0.0)(scale)
    counts = np.arange(integer("num_records", at_least=1)(num_records) + 1)
    try:
        observed = np.asarray(observed, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"observed must be a vector of numbers, got {describe(observed)}."
        ) from None
    if observed.ndim != 1 or not np.isfinite(observed).all():
        raise InvalidInputError(
            f"observed must be a vector of finite numbers, got shape {observed.shape}."
        )
    return -np.abs(observed[:, None] - counts) / scale


def collapsed_tables(
    key: Array,
    num: int,
    log_weights: Any,
    *,
    num_classes: int,
    num_values: tuple[int, ...],
    concentration: float = 2.0,
) -> TableDraws:
    """Independent draws of the probabilities and the counts of naive Bayes tables.

    Args:
        key: JAX PRNG key.
        num: The number of draws.
        log_weights: Log weights of the counts 0, ..., n of each cell (class, feature, value), shape
            (cells, n + 1).
        num_classes: I.
        num_values: J_k, for each feature.
        concentration: alpha, of the Dirichlet priors.

    Returns:
        Draws; `log_evidence` is log sum_{n,a} p(n, a) with all constants, the log of the expected
        product of the weights under the prior.

    Raises:
        InvalidInputError: If the weights leave no possible counts, or there are too many records.

    >>> import jax
    >>> observed = (32.8, 45.2, 58.6, 18.3, 12.9, 8.6, 12.9, 9.5)
    >>> weights = absolute_error_weights(observed, scale=0.4, num_records=100)
    >>> draws = collapsed_tables(jax.random.key(0), 4000, weights, num_classes=2, num_values=(2, 2))
    >>> draws.theta.shape, round(float(draws.theta[:, -2].mean()), 2)
    ((4000, 10), 0.77)
    >>> draws.counts[0].reshape(2, 2, 2).sum((0, 2))
    array([100, 100])
    """
    num, num_classes = (
        integer("num", at_least=1)(num),
        integer("num_classes", at_least=2)(num_classes),
    )
    concentration = number("concentration", above=0.0)(concentration)
    num_values = tuple(integer("each of num_values", at_least=2)(count) for count in num_values)
    weights = _checked(log_weights, num_classes * sum(num_values))
    n, rng = weights.shape[1] - 1, generator(key)
    log_g = _log_g(concentration, n)

    blocks = np.split(weights, np.cumsum(num_values * num_classes)[:-1])
    rows = [_convolutions(log_g + block) for block in blocks]
    marginals = np.array([row[-1] + _log_c(concentration, len(row), n) for row in rows])
    by_class = log_g + marginals.reshape(num_classes, len(num_values), n + 1).sum(1)
    classes = _convolutions(by_class)
    log_evidence = classes[-1][n] + _log_c(concentration, num_classes, n)[n]
    if not np.isfinite(log_evidence):
        raise InvalidInputError(
            f"No tables of {n} records have positive weight: the weights leave no possible counts."
        )

    class_counts = _split_totals(rng, classes, by_class, np.full(num, n))
    owners = np.repeat(class_counts, len(num_values), axis=1)
    tables = [
        _split_totals(rng, row, log_g + block, owners[:, j])
        for j, (row, block) in enumerate(zip(rows, blocks, strict=True))
    ]
    parts = [*tables, class_counts]
    theta = np.concatenate([_dirichlet(rng, concentration + part) for part in parts], axis=1)
    return TableDraws(theta, np.concatenate(tables, axis=1), float(log_evidence))


def _checked(log_weights: Any, cells: int) -> np.ndarray:
    """Log weights of the right shape, none infinite."""
    weights = np.asarray(log_weights, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[0] != cells or weights.shape[1] < 2:
        raise InvalidInputError(
            f"log_weights must have shape ({cells}, n+1), one row per cell, got {weights.shape}."
        )
    if np.isnan(weights).any() or (weights == np.inf).any():
        raise InvalidInputError(
            "log_weights must be numbers below infinity, -inf where a count is impossible."
        )
    if weights.shape[1] - 1 > _MAX_RECORDS:
        raise InvalidInputError(
            "The exact sampler's time grows with the square of the number of records: it takes at"
            f" most {_MAX_RECORDS}, got {weights.shape[1] - 1}. Take a method that simulates."
        )
    return weights


def _log_g(alpha: float, n: int) -> np.ndarray:
    """The log of Gamma(alpha + m) / (m! Gamma(alpha)), m = 0, ..., n."""
    m = np.arange(n + 1)
    return gammaln(alpha + m) - gammaln(m + 1.0) - gammaln(alpha)


def _log_c(alpha: float, parts: int, n: int) -> np.ndarray:
    """The log of m! Gamma(parts alpha) / Gamma(m + parts alpha): with `_log_g`,
    Dirichlet-multinomial probabilities.
    """
    m = np.arange(n + 1)
    return gammaln(m + 1.0) + gammaln(parts * alpha) - gammaln(m + parts * alpha)


def _convolutions(log_terms: np.ndarray) -> list[np.ndarray]:
    """The log of sum_{a_1 + ... + a_j = m} prod_l exp(log_terms[l, a_l]) for all m (n+1,), one
    array for each j.
    """
    sums = [log_terms[0]]
    for terms in log_terms[1:]:
        before = sums[-1]
        sums.append(
            np.array([_logsumexp(before[m::-1] + terms[: m + 1]) for m in range(len(terms))])
        )
    return sums


def _split_totals(
    rng: np.random.Generator, sums: list[np.ndarray], log_terms: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """Parts (num, J) of each total (num,), with probability proportional to prod_j exp(log_terms[j,
    part_j]).
    """
    parts = np.empty((len(totals), len(sums)), dtype=np.int64)
    left = totals.copy()
    for j in range(len(sums) - 1, 0, -1):
        u = 1.0 - rng.random(len(left))
        for m in np.unique(left):
            here = left == m
            logits = sums[j - 1][m::-1] + log_terms[j, : m + 1]
            steps = np.cumsum(np.exp(logits - logits.max()))
            parts[here, j] = np.searchsorted(steps, u[here] * steps[-1])
        left = left - parts[:, j]
    parts[:, 0] = left
    return parts


def _logsumexp(values: np.ndarray) -> float:
    """log sum exp, faster than SciPy for short vectors."""
    top = values.max()
    return top if top == -np.inf else top + np.log(np.exp(values - top).sum())


def _dirichlet(rng: np.random.Generator, alpha: np.ndarray) -> np.ndarray:
    """One draw per row, by G(alpha) = G(alpha + 1) U^(1/alpha) in logs, which do not underflow for
    small alpha.
    """
    log_gammas = (
        np.log(rng.standard_gamma(alpha + 1.0)) - rng.standard_exponential(alpha.shape) / alpha
    )
    return np.exp(log_gammas - logsumexp(log_gammas, axis=1, keepdims=True))
