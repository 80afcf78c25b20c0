"""The negative log density of the truth under draws."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.draws import constant_columns, point_and_draws
from noisewise.errors import InvalidInputError

_MIN_PIVOT = 1e-6
"""Smallest pivot of a correlation matrix: below it, up to rounding, a column counts as
a combination of others.
"""


def negative_log_density(
    truth: Float[Array, " d"], draws: Float[Array, "n d"], *, whiten: bool = False
) -> float:
    """-log of a kernel density estimate of the draws at the true parameter.

        -log [ 1/n sum_i N(truth; theta_i, h^2 C) ],        h = n^(-1/(d+4))

    Use it to compare methods over many simulated truths, where no exact posterior is known.

    With C = I, the paper's choice, the width is that of data with unit variance, whatever the
    draws:
    where a posterior is much narrower than 1 the value is that of the kernel alone, -.70 in two
    dimensions with 2000 draws and -.50 in three, for good and bad posteriors alike. With `whiten`,
    C is the covariance of the draws: the estimate follows their scale and changes with units only
    by a constant.

    Floor: averaged over truths that come from the law of the draws, the entropy of that law plus
    what smoothing costs: for 2000 draws of unit normals .004 in one dimension, .015 in two, .038 in
    three, whitened or not. Compare methods on the same truths, not with 0.

    Args:
        truth: The true parameter, shape (d,).
        draws: Posterior draws, shape (n, d).
        whiten: Whether the kernel has the covariance of the draws.

    Returns:
        The negative log density, in nats; lower is better.

    Raises:
        InvalidInputError: If `whiten` is asked of draws whose covariance is singular.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> draws, truth = 0.01 * rng.normal(size=(2000, 2)), [0.0, 0.0]
        >>> [round(negative_log_density(truth, draws, whiten=w), 2) for w in (False, True)]
        [-0.69, -7.24]
    """
    point, values = point_and_draws(truth, draws, ("truth", "draws"))
    num, dim = values.shape
    width = num ** (-1.0 / (dim + 4))
    root = _root(values) if whiten else np.eye(dim)
    steps = solve_triangular(root, (values - point).T, lower=True) / width
    kernel = -0.5 * (steps**2).sum(axis=0) - 0.5 * dim * np.log(2.0 * np.pi * width**2)
    return float(-(logsumexp(kernel) - np.log(num)) + np.log(np.diag(root)).sum())


def _root(values: np.ndarray) -> np.ndarray:
    """The lower triangular root of the covariance, found at unit variances."""
    scale = values.std(axis=0, ddof=1)
    independent = not constant_columns(values).any()
    if independent:
        try:
            root = np.linalg.cholesky(np.atleast_2d(np.cov((values / scale).T)))
            independent = bool(np.diag(root).min() > _MIN_PIVOT)
        except np.linalg.LinAlgError:
            independent = False
    if not independent:
        raise InvalidInputError(
            "The draws have no density in all their columns: leave out constant columns, and one of"
            " each set that sums to a constant."
        )
    return scale[:, None] * root
