"""How far draws lie from those that a certificate corrected."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from noisewise.posteriors import AbstractPosterior, WeightedSamples


def compare(
    posterior: AbstractPosterior, corrected: WeightedSamples
) -> dict[str, tuple[float, float]]:
    """Shifts in corrected sds, and ratios of sds; infinite where the corrected draws do not spread
    and q differs.
    """
    (mean, sd), (exact_mean, exact_sd) = (
        _moments(p.theta, p.weights) for p in (posterior, corrected)
    )
    pairs = zip(
        _ratio(mean - exact_mean, exact_sd, 0.0).tolist(),
        _ratio(sd, exact_sd, 1.0).tolist(),
        strict=True,
    )
    return dict(zip(posterior.names, pairs, strict=True))


def _ratio(
    above: Float[np.ndarray, " d"], below: Float[np.ndarray, " d"], neither: float
) -> Float[np.ndarray, " d"]:
    """above / below, with infinity over 0, and `neither` for 0 / 0."""
    flat = below == 0.0
    infinite = np.where(above == 0.0, neither, np.copysign(np.inf, above))
    return np.where(flat, infinite, above / np.where(flat, 1.0, below))


def _moments(
    theta: Float[np.ndarray, "N d"], weights: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Means and sds over the finite draws."""
    finite = np.isfinite(theta).all(axis=1)
    theta, weights = theta[finite], weights[finite] / weights[finite].sum()
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)
