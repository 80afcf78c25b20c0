r"""Values that a column takes again and again, as after clamping: each gets an interval of its own.

    r = s + step (u - 1/2) + sum over atoms a of w_a (1[s > a] + u 1[s = a])

With u uniform, the atom becomes an interval of length step + w_a, and what is beyond it moves away
by w_a. The integral of a density of r over that interval is the probability of the atom. Lengths
are such that the density there is about as high as elsewhere, which networks learn best. Points of
a lattice (step > 0) have cells already; one is an atom where its cell is too narrow for its share.
"""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array, numpy_of

ATOM_SHARE = 0.05
"""Share of the simulations at one value from which it is an atom."""
_CELLS = 20.0
"""Cells' worth of a column's mean density that a point of a lattice may hold without being one."""
_MIN_COUNT = 5
"""Simulations at one value below which chance may have put them there."""
_PER_SHARE = 2.5
"""Length of an atom's interval over its share, in usual standard deviations: 1 over the largest
density of a normal law.
"""
_QUARTILES = 1.349
"""Distance of the quartiles of a normal law, in standard deviations."""
_SAME = 1e-9
"""Standard deviations of a column within which values are the same but for rounding."""
_NEAR = 1e-7
"""The same in widths of an atom, which are an eighth of a standard deviation or more."""


class Atoms(eqx.Module):
    """The atoms of columns (..., d): at most a in each, in increasing order."""

    at: Float[Array, "a d"]
    """Infinite where a column has fewer."""
    width: Float[Array, "a d"]
    """0 there."""
    step: Float[Array, " d"]
    """Widths of lattices; 0 where a column is on none."""

    @staticmethod
    def none(step: Float[np.ndarray, " d"]) -> Atoms:
        """Columns without any."""
        return Atoms(np.zeros((0, len(step))), np.zeros((0, len(step))), step)

    @staticmethod
    def of(values: Float[np.ndarray, "n d"], step: Float[np.ndarray, " d"]) -> Atoms:
        """The atoms of columns with values like these, on lattices of these widths."""
        num, dim = values.shape
        found: list[list[tuple[float, float]]] = []
        for column, spacing in zip(values.T, step, strict=True):
            distinct, counts = _distinct(column)
            share, sd = counts / num, _usual_sd(column, distinct[np.argmax(counts)])
            often = share >= max(ATOM_SHARE, _MIN_COUNT / num, _CELLS * spacing / sd)
            found.append(list(zip(distinct[often], _PER_SHARE * share[often] * sd, strict=True)))
        most = max(map(len, found), default=0)
        at, width = np.full((most, dim), np.inf), np.zeros((most, dim))
        for j, pairs in enumerate(found):
            for i, pair in enumerate(pairs):
                at[i, j], width[i, j] = pair
        return Atoms(at, width, step)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.at.shape[0] > 0

    def here(self, s: Float[Array, "*n d"]) -> Bool[Array, "*n a d"]:
        """Which atom each entry is, if any."""
        xp = numpy_of(s)
        return (xp.abs(s[..., None, :] - self.at) <= _NEAR * self.width) & (self.width > 0.0)

    def spread(self, s: Float[Array, "*n d"], u: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """r of columns s and uniforms u."""
        r = s + self.step * (u - 0.5)
        if not self.any:
            return r
        xp, here = numpy_of(s), self.here(s)
        beyond = xp.where(here, _row(u), xp.where(s[..., None, :] > self.at, 1.0, 0.0))
        return r + (self.width * beyond).sum(axis=-2)

    def joined(self, r: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """The inverse: s of columns r, on lattices still spread over their cells."""
        if not self.any:
            return r
        xp = numpy_of(r)
        before = xp.cumsum(self.width, axis=0) - self.width
        place = r[..., None, :] - (self.at - 0.5 * self.step + before)
        length, exists = self.width + self.step, self.width > 0.0
        share = xp.where(exists, xp.clip(place / xp.where(exists, length, 1.0), 0.0, 1.0), 0.0)
        inside = (place >= 0.0) & (place <= length) & exists & (self.step == 0.0)
        apart = r - (self.width * share).sum(axis=-2)
        return xp.where(inside.any(axis=-2), xp.where(inside, self.at, 0.0).sum(axis=-2), apart)

    def log_width(self, s: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """log |dr / ds| where s is an atom on a lattice, log w where it is one on none, else 0.

        That turns a density of r into one of s, or into the probability of an atom.
        """
        xp = numpy_of(s)
        if not self.any:
            return xp.zeros_like(s)
        on = self.step > 0.0
        wider = xp.where(on, 1.0 + self.width / xp.where(on, self.step, 1.0), self.width)
        here = self.here(s)
        return xp.where(here, xp.log(xp.where(here, wider, 1.0)), 0.0).sum(axis=-2)


def _distinct(column: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    """Values that differ by more than rounding, in increasing order, and how often each occurs."""
    ordered = np.sort(column)
    new = np.r_[True, np.diff(ordered) > _SAME * column.std()]
    first = np.flatnonzero(new)
    counts = np.diff(np.r_[first, len(ordered)])
    return ordered[first + counts // 2], counts


def _usual_sd(column: Float[np.ndarray, " n"], most_frequent: float) -> float:
    """A standard deviation of the values but the most frequent one, by their quartiles: one that
    heavy tails do not decide, since an interval is to be as wide as what lies beside it.
    """
    others = column[column != most_frequent]
    if len(others):
        low, high = np.quantile(others, [0.25, 0.75])
        if high > low:
            return float(high - low) / _QUARTILES
    return float(column.std()) or 1.0


def _row(u: Array) -> Array:
    """u with an axis for the atoms; a number as it is."""
    return u[..., None, :] if np.ndim(u) else u
