"""What networks see of unconstrained parameters."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from noisewise._core.arrays import Array, numpy_of
from noisewise.estimators.whitening import Affine

_CROWDED = 0.5
"""Distance of the quartiles in standard deviations below which places crowd: 1.7 for a uniform law,
1.3 for a normal one, .2 for one that is uniform on a log scale over six decades.
"""


class ParameterScale(eqx.Module):
    r"""Standardised parameters, those between two ends by their place there:

        (u - mean) / sd,    u = 1 / (1 + e^-c) where `bounded`, else c.

    The column c of such a parameter is the logit of its place. What a simulator makes of it is
    mostly a smooth function of the place; as one of the logit it is squeezed together at both ends.

    >>> scale = ParameterScale(Affine(np.array([0.5]), np.array([2.0])), np.array([True]))
    >>> scale(np.array([[0.0], [40.0]])).ravel().tolist()
    [0.0, 1.0]
    """

    affine: Affine
    bounded: Bool[np.ndarray, " w"]

    @property
    def num_columns(self) -> int:
        """w, the columns of a condition."""
        return self.affine.num_columns

    @property
    def num_seen(self) -> int:
        """The columns that networks see: the same."""
        return self.affine.num_seen

    @property
    def inverse_sd(self) -> Float[Array, " w"]:
        """How fast each column changes, in its own u."""
        return self.affine.inverse_sd

    def __call__(self, values: Float[Array, "*n w"]) -> Float[Array, "*n w"]:
        """Standardised parameters, of the same shape (..., w)."""
        xp = numpy_of(values)
        places = expit(values) if xp is np else jax.nn.sigmoid(values)
        return self.affine(xp.where(self.bounded, places, values))


def scaled_in_place(
    values: Float[np.ndarray, "n w"], bounded: Bool[np.ndarray, " w"] | None = None
) -> Affine | ParameterScale:
    """The map of parameters like these, whose values are replaced by their images: large ones need
    no copy.

    Args:
        values: Unconstrained parameters, shape (n, w).
        bounded: Which columns are logits of places between two ends; none by default. Those whose
            places crowd near one end, as of a rate with a prior on a log scale, stay logits.

    Returns:
        The map that was applied.
    """
    if bounded is not None:
        bounded = bounded & ~_crowded(expit(values))
        values[:, bounded] = expit(values[:, bounded])
    affine = Affine.fit(values)
    values -= affine.mean
    values *= affine.inverse_sd
    return affine if bounded is None or not bounded.any() else ParameterScale(affine, bounded)


def _crowded(places: Float[np.ndarray, "n w"]) -> Bool[np.ndarray, " w"]:
    """Which columns lie mostly in a small part of their range."""
    low, high = np.quantile(places, [0.25, 0.75], axis=0)
    return high - low < _CROWDED * places.std(axis=0)
