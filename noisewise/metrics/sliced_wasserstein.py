"""Wasserstein distance along random directions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import wasserstein_distance

from noisewise._core.arrays import Array, integer
from noisewise._core.draws import two_samples


def sliced_wasserstein(
    reference: Float[Array, "n d"],
    draws: Float[Array, "m d"],
    *,
    num_directions: int = 100,
    seed: int = 0,
) -> float:
    """The mean over directions u of W_1 between the projections u'x and u'y, in units of the
    reference's standard deviations.

    Use it for one number about all parameters that has a unit: W_1 between two samples is the area
    between their distribution functions, the mean distance that mass has to move.

    Columns are divided by the sd of the reference. A shift of one column by delta sd gives about
    delta E|u_1|: .64 delta in two dimensions, .5 delta in three. Floor: for two sets of 2000 exact
    draws .041 in one to three dimensions, with sd .013, .010 and .007.

    Args:
        reference: Draws from the exact posterior, shape (n, d).
        draws: Draws to judge, shape (m, d).
        num_directions: Number of random directions, at least 1.
        seed: Seed of the directions; calls with the same seed use the same ones.

    Returns:
        The mean distance.

    Raises:
        InvalidInputError: If a column of the reference is constant.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(2, 2000, 2))
        >>> sliced_wasserstein(x, y) < 0.05, round(sliced_wasserstein(x, y + [1.0, 0.0]), 1)
        (True, 0.7)
    """
    first, second = two_samples(reference, draws, allow_constant=False)
    scale = first.std(axis=0)
    directions = np.random.default_rng(integer("seed", at_least=0)(seed)).normal(
        size=(integer("num_directions", at_least=1)(num_directions), len(scale))
    )
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    projected = (directions @ (values / scale).T for values in (first, second))
    return float(np.mean([wasserstein_distance(a, b) for a, b in zip(*projected, strict=True)]))
