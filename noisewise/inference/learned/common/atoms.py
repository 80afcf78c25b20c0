r"""Values that a column takes again and again, as after clamping: each gets an interval of its own.

    r = s + sum over atoms a of w_a (1[s > a] + u 1[s = a])

With u uniform, the atom becomes an interval of length w_a, and what is beyond it moves away by as
much. The integral of a density of r over that interval is the probability of the atom. Lengths are
such that the density there is about as high as elsewhere, which networks learn best.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array

_SHARE = 0.05
"""Share of the simulations at one value from which it is an atom."""
_MIN_COUNT = 5
"""Simulations at one value below which chance may have put them there."""
_PER_SHARE = 2.5
"""Length of an atom's interval over its share, in standard deviations of the column: 1 over the
largest density of a normal law.
"""


class Atoms(eqx.Module):
    """The atoms of columns (..., d): at most a in each, in increasing order."""

    at: Float[Array, "a d"]
    """Infinite where a column has fewer."""
    width: Float[Array, "a d"]
    """0 there."""

    @staticmethod
    def none(dim: int) -> Atoms:
        """Columns without any."""
        return Atoms(np.zeros((0, dim)), np.zeros((0, dim)))

    @staticmethod
    def of(values: Float[np.ndarray, "n d"], step: Float[np.ndarray, " d"]) -> Atoms:
        """The atoms of columns with values like these; those on a lattice (`step` > 0) have cells
        in their place.
        """
        num, dim = values.shape
        found: list[list[tuple[float, float]]] = []
        for column, spacing in zip(values.T, step, strict=True):
            distinct, counts = np.unique(column, return_counts=True)
            often = (counts >= max(_MIN_COUNT, _SHARE * num)) & (spacing == 0.0)
            widths = _PER_SHARE * counts[often] / num * column.std()
            found.append(list(zip(distinct[often], widths, strict=True)))
        most = max(map(len, found), default=0)
        at, width = np.full((most, dim), np.inf), np.zeros((most, dim))
        for j, pairs in enumerate(found):
            for i, pair in enumerate(pairs):
                at[i, j], width[i, j] = pair
        return Atoms(at, width)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.at.shape[0] > 0

    def spread(self, s: Float[Array, "*n d"], u: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """r of columns s and uniforms u."""
        if not self.any:
            return s
        beyond = (s[..., None, :] > self.at) + (s[..., None, :] == self.at) * _row(u)
        return s + (self.width * beyond).sum(axis=-2)

    def joined(self, r: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """s of columns r."""
        if not self.any:
            return r
        start = self.at + jnp.cumsum(self.width, axis=0) - self.width
        place = r[..., None, :] - start
        inside = (place >= 0.0) & (place <= self.width) & (self.width > 0.0)
        apart = r - jnp.clip(place, 0.0, self.width).sum(axis=-2)
        atom = jnp.where(inside, self.at, 0.0).sum(axis=-2)
        return jnp.where(inside.any(axis=-2), atom, apart)

    def log_width(self, s: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """log w where s is an atom, else 0: what turns a density of r into a probability."""
        if not self.any:
            return jnp.zeros_like(s)
        here = (s[..., None, :] == self.at) & (self.width > 0.0)
        return jnp.where(here, jnp.log(jnp.where(here, self.width, 1.0)), 0.0).sum(axis=-2)


def _row(u: Array) -> Array:
    """u with an axis for the atoms; a number as it is."""
    return u[..., None, :] if jnp.ndim(u) else u
