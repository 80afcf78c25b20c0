"""How far probabilities read off the marginals are off."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.draws import two_samples


def cdf_error(
    reference: Float[Array, "n d"], draws: Float[Array, "m d"]
) -> Float[np.ndarray, " d"]:
    """mean over p of |G(F^-1(p)) - p| of each column: the error of a probability read off the
    draws.

    F is the distribution function of the reference, G that of the draws; the mean is over the
    reference's quantiles. Use it where probabilities and intervals are what readers use.

    A shift by a small delta sd of a normal marginal gives .28 delta. Floor, in any dimension: for
    two sets of 2000 exact draws .010 with sd .004; against a reference of 100,000 draws .007 with
    sd .003. A constant reference has error .5 unless the draws hold its value, as often on both
    sides.

    Args:
        reference: Draws from the exact posterior, shape (n, d).
        draws: Draws to judge, shape (m, d).

    Returns:
        One error per column, shape (d,), between 0 and .5.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(2, 2000, 2))
        >>> cdf_error(x, y + [0.0, 0.5]).round(2).tolist()
        [0.01, 0.15]
    """
    first, second = two_samples(reference, draws)
    return np.array(
        [_error(np.sort(a), np.sort(b)) for a, b in zip(first.T, second.T, strict=True)]
    )


def _error(reference: np.ndarray, draws: np.ndarray) -> float:
    # ties count half on both sides, so that equal samples with repeated values have no error
    middle = lambda values: (  # noqa: E731
        (
            np.searchsorted(values, reference, side="left")
            + np.searchsorted(values, reference, side="right")
        )
        / (2 * len(values))
    )
    return float(np.abs(middle(draws) - middle(reference)).mean())
