"""Confidential statistics as latent variables: their free columns, in units of their spread, and
whether they have a density.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.errors import MissingCapabilityError
from noisewise.inference.learned.common.atoms import ATOM_SHARE
from noisewise.inference.learned.common.simulations import nothing_varies
from noisewise.inference.learned.common.statistic_space import (
    lattice_step,
    linear_relations,
)
from noisewise.model.private_model import PrivateModel

_FINE_LATTICE = 0.05
"""Cell widths in standard deviations below which a lattice is nearly continuous, so that frequent
values are atoms, not coarseness.
"""
_THIN_SHARE = 0.6
"""Share of the free columns: an estimated dimension below it means a surface. The estimate is
biased low in many dimensions (a 26-dimensional normal reads about 21), hence well below 1.
"""
_NUM_POINTS = 4000
"""Simulations among which neighbours are looked for: the estimate hardly changes with more."""
_MIN_POINTS = 1000
"""Simulations from which the estimated dimension is trusted."""
_INSTEAD = (
    "Use PrivatePosteriorEstimation, which learns from statistics that noise has spread, or"
    " ExactSMC."
)


class LatentSpace(eqx.Module):
    r"""s = offset + t A for the columns t (f,) that are free: the others are constants or linear
    combinations of them.

    Columns on a lattice have `cell` > 0, its step, with `origin` one of its points, and become
    continuous by uniforms, t + cell (u - 1/2). `scale` (k,) is the standard deviation of each
    column of s, 0 for constants; `free` are the numbers of the free columns.
    """

    offset: Float[Array, " k"]
    matrix: Float[Array, "f k"]
    cell: Float[Array, " f"]
    origin: Float[Array, " f"]
    scale: Float[Array, " k"]
    free: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def of(model: PrivateModel, s: np.ndarray) -> LatentSpace:
        """The space of statistics like simulated ones.

        Args:
            model: The model, whose query may know the lattice.
            s: Simulated statistics, shape (n, k).

        Returns:
            The space of their free columns.

        Raises:
            InvalidInputError: If nothing varies.
            MissingCapabilityError: If they have no density: an atom, or a thin surface.
        """
        free, offset, matrix = linear_relations(s)
        if not len(free):
            raise nothing_varies(len(s), model.names)
        known = model.query.step
        cell = np.array([lattice_step(s[:, j]) if known is None else known for j in free])
        scale = np.where(np.abs(matrix).max(axis=0) > 0.0, s.std(axis=0), 0.0)
        space = LatentSpace(offset, matrix, cell, s[0, free], scale, tuple(int(j) for j in free))
        space._check(s)
        return space

    def full(self, t: Float[Array, "*n f"]) -> Float[Array, "*n k"]:
        """All columns from the free ones."""
        return self.offset + t @ self.matrix

    def nearest(self, t: Float[Array, "*n f"]) -> Float[Array, "*n f"]:
        """The points of the lattice in whose cells t lies."""
        cell = jnp.where(self.cell > 0.0, self.cell, 1.0)
        return jnp.where(
            self.cell > 0.0, self.origin + cell * jnp.round((t - self.origin) / cell), t
        )

    def spread(
        self, s: Float[np.ndarray, "n k"], u: Float[np.ndarray, "n f"]
    ) -> Float[np.ndarray, "n f"]:
        """The free columns of s, spread over their cells by uniforms u."""
        return s[:, np.array(self.free)] + np.asarray(self.cell) * (u - 0.5)

    def _check(self, s: np.ndarray) -> None:
        """Refuse statistics that gather in one point, or near a surface of few dimensions."""
        free = np.array(self.free)
        relative = np.asarray(self.cell) / np.asarray(self.scale)[free]
        largest = np.unique(s[:, free], axis=0, return_counts=True)[1].max() / len(s)
        if largest > ATOM_SHARE and np.all(relative < _FINE_LATTICE):
            raise MissingCapabilityError(
                "RobustPosteriorEstimation learns the density of s, and there is none:"
                f" {largest:.0%} of the simulated statistics are one and the same. {_INSTEAD}"
            )
        some = s[:_NUM_POINTS]
        dim = _intrinsic_dimension(
            self.spread(some, np.random.default_rng(0).random((len(some), len(free))))
        )
        if len(some) >= _MIN_POINTS and dim < _THIN_SHARE * len(free):
            raise MissingCapabilityError(
                "RobustPosteriorEstimation learns the density of s, and there is none: the"
                f" simulated statistics lie near a surface of about {dim:.0f} dimensions in a space"
                f" of {len(free)}. {_INSTEAD}"
            )


def _intrinsic_dimension(t: np.ndarray) -> float:
    r"""The dimension of a cloud of points, by the distances r1, r2 to their two nearest neighbours:
    1 / mean log(r2 / r1).

    Reference: Facco et al. (2017), Scientific Reports 7, 12140.

    >>> corner = np.random.default_rng(0).random((4000, 2))
    >>> x, y = corner.T
    >>> surface = np.column_stack([x, y, x**2, x * y, y**2])
    >>> round(_intrinsic_dimension(surface))
    2
    """
    from scipy.spatial import cKDTree

    left, _, _ = np.linalg.svd(t - t.mean(axis=0), full_matrices=False)
    distances, _ = cKDTree(left).query(left, k=3)
    apart = distances[:, 1] > 0.0
    return float(apart.sum() / max(np.log(distances[apart, 2] / distances[apart, 1]).sum(), 1e-300))
