"""Where cells begin: whole numbers near what was released, with the exact sums."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise.errors import InvalidInputError
from noisewise.inference.marginal.count_target import CountTarget

_ITERATIONS = 200
"""Of the least squares: starts need no digits."""
_LEAST_SD = 0.3
"""Counts: the sd of rounding, that of cells whose law has next to none."""


def starts(
    key: Array,
    target: CountTarget,
    sums: np.ndarray,
    theta: Float[np.ndarray, "m d"],
    fixed: np.ndarray,
    totals: np.ndarray,
    num: int,
    still: np.ndarray | None = None,
) -> Float[np.ndarray, "n c"]:
    """Cells for some chains: least squares to what was released, noise of its size added, and to
    the law's means, then the nearest whole numbers that have the exact sums.

    Args:
        key: A PRNG key.
        target: The target.
        sums: A, rows of the sums with noise.
        theta: Draws of the prior, unconstrained.
        fixed: E, the exact sums.
        totals: What these are.
        num: How many chains.
        still: Cells that never change, such as structural zeros: they are what the law's means are.

    Raises:
        InvalidInputError: If no whole numbers have the exact sums.
    """
    rng, shape = generator(key), (sums.shape[1],)
    mean, spread, low, high = (np.broadcast_to(part, shape) for part in _about(target, theta))
    if still is not None:
        low, high = (np.where(still, np.round(mean), end) for end in (low, high))
    sds, observed = np.asarray(target.sds), np.asarray(target.noise.observed)
    seen = np.isfinite(observed)
    weights = 1.0 / sds[seen]
    matrix = scipy.sparse.vstack(
        [
            scipy.sparse.diags(weights) @ scipy.sparse.csr_matrix(sums[seen]),
            scipy.sparse.diags(1.0 / spread),
        ]
    )
    found = []
    for _ in range(num):
        jittered = observed[seen] + sds[seen] * rng.normal(size=int(seen.sum()))
        right = np.concatenate([jittered * weights, mean / spread])
        cells = scipy.sparse.linalg.lsqr(matrix, right, iter_lim=_ITERATIONS)[0]
        found.append(_whole(np.clip(cells, low, high), low, high, fixed, totals))
    return np.array(found)


def _about(target: CountTarget, theta: np.ndarray) -> Any:
    """Means and spreads of the cells over the prior, and their ends."""

    def one(z: Array) -> Any:
        law = target.law(z)
        low, high = (jnp.asarray(end, jnp.float64) for end in law.bounds)
        return (*law.moments, low, high)

    with jax.enable_x64(True):
        mean, variance, low, high = map(np.asarray, jax.vmap(one)(jnp.asarray(theta)))
    quartiles = np.quantile(mean, [0.25, 0.5, 0.75], axis=0)
    spread = quartiles[2] - quartiles[0] + np.sqrt(np.median(variance, axis=0))
    return quartiles[1], np.maximum(spread, _LEAST_SD), low.max(axis=0), high.min(axis=0)


def _whole(
    cells: np.ndarray, low: np.ndarray, high: np.ndarray, fixed: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """The whole numbers within the ends that have the exact sums, with the least sum of distances
    from these.
    """
    if not len(fixed):
        return np.clip(np.round(cells), low, high)
    num = len(cells)
    same, none = scipy.sparse.identity(num), scipy.sparse.csr_matrix((len(fixed), num))
    exact = scipy.sparse.hstack([scipy.sparse.csr_matrix(fixed), none])
    limits = [
        scipy.optimize.LinearConstraint(exact, totals, totals),
        scipy.optimize.LinearConstraint(scipy.sparse.hstack([same, -same]), ub=cells),
        scipy.optimize.LinearConstraint(scipy.sparse.hstack([same, same]), lb=cells),
    ]
    ends = scipy.optimize.Bounds(np.r_[low, np.zeros(num)], np.r_[high, np.full(num, np.inf)])
    found = scipy.optimize.milp(
        np.r_[np.zeros(num), np.ones(num)],
        constraints=limits,
        bounds=ends,
        integrality=np.r_[np.ones(num), np.zeros(num)],
    )
    if found.x is None:
        raise InvalidInputError(
            "No table of whole numbers that the law allows has the exact sums that were released:"
            " look at these, at the order of the cells in the law, and at its largest counts."
        )
    return np.round(found.x[:num])
