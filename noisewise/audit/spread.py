"""Other statistics at which a sampler is tested: noise that is right at one s may be wrong at
another.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from noisewise.audit.outputs import quantiles
from noisewise.errors import InvalidInputError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.supports import Finite, Lattice, OrAbsent

_SHIFTS = (10.0, -10.0, 1000.0, -1000.0, 1.0, -1.0, 100.0, -100.0)
"""Distances from s, in widths of the noise; with few draws only the first are tried."""

_CENTRAL = (0.3, 0.7)
"""The width of the noise is measured between these shares of the ladder of quantiles, which are the
levels .2 and .8.
"""


def spread(mechanism: AbstractMechanism, s: Float[np.ndarray, " k"]) -> Float[np.ndarray, "m k"]:
    """At most 8 statistics around s that the mechanism takes, chosen without any data.

    Columns move together by 1, 10, 100 and 1000 widths of their noise up and down, each a little
    further than the one before, so that their differences move too.

    >>> import noisewise as nw
    >>> kept = nw.mechanisms.RandomizedResponse(num_categories=4, truth_probability=0.5)
    >>> spread(kept, np.array([2.0])).ravel()
    array([3., 1.])
    """
    rows = _rows(mechanism, s)
    _, first = np.unique(rows, axis=0, return_index=True)
    rows = rows[np.sort(first)]
    return rows[np.any(rows != s, axis=1)]


def _rows(mechanism: AbstractMechanism, s: np.ndarray) -> np.ndarray:
    """One row per shift, (8, k); where a block cannot take it, another that it can, or s."""
    if mechanism.is_composed:
        parts = [_rows(part, values) for part, values in _blocks(mechanism, s)]
        return np.concatenate(parts, axis=1)
    usable = [row for row in s + _shifts(mechanism, s) if _usable(mechanism, row)]
    return np.stack([usable[i % len(usable)] if usable else s for i in range(len(_SHIFTS))])


def _blocks(
    mechanism: AbstractMechanism, s: np.ndarray
) -> Iterator[tuple[AbstractMechanism, np.ndarray]]:
    """The blocks with their columns of s."""
    ends = np.cumsum(mechanism.block_widths(s.size))[:-1]
    return zip(mechanism.blocks, np.split(s, ends), strict=True)


def _shifts(mechanism: AbstractMechanism, s: np.ndarray) -> np.ndarray:
    """By how much each column moves, (8, k): whole steps where outputs lie on a lattice."""
    growing = 1.0 + np.arange(s.size) / s.size
    if mechanism.output_width(s.size) != s.size:
        return np.outer(_SHIFTS, growing)
    widths = np.nan_to_num(noise(mechanism, s)[1], nan=1.0)
    shifts = np.outer(_SHIFTS, widths * growing)
    for j, support in enumerate(mechanism.support.columns(s.size)):
        present = support.present if isinstance(support, OrAbsent) else support
        if isinstance(present, Lattice):
            whole = np.maximum(1.0, np.round(np.abs(shifts[:, j]) / present.step))
            shifts[:, j] = np.sign(shifts[:, j]) * present.step * whole
    return shifts


def noise(
    mechanism: AbstractMechanism, s: Float[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, " kp"], Float[np.ndarray, " kp"]]:
    """Center and width of the noise in each column of the output; NaN where it is not known.

    The center is the column of s, if there is one for each of the output. The width is the distance
    between quantiles .2 and .8, unknown if 0.

    >>> from noisewise.mechanisms import ExponentialMechanism, Laplace, Product
    >>> both = Product([ExponentialMechanism((1.0, 2.0), 1.0), Laplace(1.0)])
    >>> center, width = noise(both, np.array([0.0, 1.0, 5.0]))
    >>> center, width.round(2)
    (array([nan,  5.]), array([ nan, 1.87]))
    """
    if mechanism.is_composed:
        centers, widths = zip(*(noise(*block) for block in _blocks(mechanism, s)), strict=True)
        return np.concatenate(centers), np.concatenate(widths)
    size = mechanism.output_width(s.size)
    if size != s.size:
        return np.full(size, np.nan), np.full(size, np.nan)
    ladder = mechanism.support.filled(quantiles(mechanism, s[None])[0])
    widths = np.ptp(np.quantile(ladder, _CENTRAL, axis=0), axis=0)
    return s, np.where(widths > 0.0, widths, np.nan)


def _usable(mechanism: AbstractMechanism, s: np.ndarray) -> bool:
    """Whether the mechanism takes s, and has noise there that an audit can see; a distant clamp
    leaves none.
    """
    try:
        ladder = mechanism.support.filled(quantiles(mechanism, s[None])[0])
    except InvalidInputError:
        return False
    supports = mechanism.support.columns(ladder.shape[-1])
    varies = np.ptp(ladder, axis=0) > 0.0
    pairs = zip(varies, supports, strict=True)
    return all(
        moves or isinstance(support, (Finite, Lattice, OrAbsent)) for moves, support in pairs
    )
