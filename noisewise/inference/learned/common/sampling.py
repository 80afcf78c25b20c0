r"""What particles are drawn from: a density, the law that they start from, and the coordinates in
which they move.

Effects around a mean with a spread move in `Centred`'s coordinates, each by its own share; draws
are given as the densities' author wrote them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array
from noisewise.samplers.densities import as_pytree
from noisewise.samplers.hamiltonian import cloud_covariance
from noisewise.samplers.hierarchies.centring import Centred, LocationScale, shares_at
from noisewise.samplers.tempered import precompile_tempered

NUM_POPULATIONS = 16
"""Populations that are resampled apart: an error from 16 of them is known to a factor of 1.2."""
_MIN_PARTICLES = 16
"""Particles of a population, at least: the evidence that fewer find says nothing."""
_KEPT_PER_EFFECTIVE = 4
"""Draws kept for each effective draw wanted: thinner ones would lose information."""
_STARTS = 128
"""Draws that each particle is chosen from, at first: they take one density each, as long as a few
moves with their gradients, and spare half of the temperatures, in few dimensions nearly all.
"""
_ROWS = 16_384
"""Rows moved between coordinates at a time: one program serves every number."""

Draw = Callable[[Array, int], Float[np.ndarray, "n d"]]
"""(key, num) -> independent draws of the reference law."""


@dataclasses.dataclass(frozen=True)
class Sampling:
    """A density with the law that its particles start from, and how many there are.

    Args:
        target: z (d,) -> unnormalised log density.
        reference: z (d,) -> the log density of the law at the start.
        draw: Draws of that law.
        num_chains: Particles; rounded up to whole populations.
        num_warmup: Moves before the first draw, once the target is reached.
        length: Draws of each particle in one run.
        target_ess: Effective draws wanted.
        blocks: Effects around means with spreads, parents before children.
        shares: Their shares; None where they are not yet known.
    """

    target: Any
    reference: Any
    draw: Draw
    num_chains: int
    num_warmup: int
    length: int
    target_ess: int
    blocks: tuple[LocationScale, ...] = ()
    shares: tuple[Array, ...] | None = None

    @property
    def num_populations(self) -> int:
        """Sixteen, or fewer where there are few chains."""
        return max(2, min(NUM_POPULATIONS, self.num_chains // _MIN_PARTICLES))

    @property
    def num_particles(self) -> int:
        """Particles of all populations."""
        return -(-self.num_chains // self.num_populations) * self.num_populations

    @property
    def num_starts(self) -> int:
        """Draws of the reference law that particles are chosen from."""
        return _STARTS * self.num_particles

    @property
    def num_kept(self) -> int:
        """Draws that are kept, at most."""
        return _KEPT_PER_EFFECTIVE * self.target_ess

    def precompile(self, dim: int) -> None:
        """Compile what all else runs."""
        precompile_tempered(
            *self.densities,
            self.num_particles,
            dim,
            num_populations=self.num_populations,
            num_draws=self.length,
        )

    # Coordinates ----------------------------------------------------------------------------------

    @property
    def densities(self) -> tuple[Any, Any]:
        """Target and reference of the coordinates in which particles move."""
        if not self.blocks:
            return self.target, self.reference
        return self._centred(self.target), self._centred(self.reference)

    @property
    def lacks_shares(self) -> bool:
        """Whether there are effects whose shares are still to be found."""
        return bool(self.blocks) and self.shares is None

    def with_shares_at(self, draws: Float[np.ndarray, "*n d"]) -> Sampling:
        """The same with shares where draws have their medians."""
        middle = np.median(draws.reshape(-1, draws.shape[-1]), axis=0)
        with jax.enable_x64(True):
            shares = shares_at(as_pytree(self.target), self.blocks, jnp.asarray(middle))
        return dataclasses.replace(self, shares=shares)

    def to_moved(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Rows of z in the coordinates in which particles move."""
        return self._in_blocks(_from_z, z) if self.blocks else z

    def from_moved(self, w: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """z of rows in the coordinates in which particles move."""
        return self._in_blocks(_to_z, w) if self.blocks else w

    def covariance_of(self, z: Float[np.ndarray, "n d"]) -> Float[Array, "d d"]:
        """The covariance of rows of z in the coordinates in which particles move."""
        return cloud_covariance(self.to_moved(z))

    def _centred(self, density: Any) -> Centred:
        return Centred(density, self.blocks, 0.5 if self.shares is None else self.shares)

    def _in_blocks(self, move: Callable[..., Array], rows: np.ndarray) -> np.ndarray:
        flat, parts = rows.reshape(-1, rows.shape[-1]), []
        with jax.enable_x64(True):
            centred = as_pytree(self._centred(self.reference))
            for start in range(0, len(flat), _ROWS):
                part = flat[start : start + _ROWS]
                full = np.concatenate([part, np.repeat(part[:1], _ROWS - len(part), axis=0)])
                parts.append(np.asarray(move(centred, jnp.asarray(full)))[: len(part)])
        return np.concatenate(parts).reshape(rows.shape)


@filter_jit_fast_compile
def _to_z(centred: Centred, rows: Array) -> Array:
    return jax.vmap(centred.to_z)(rows)


@filter_jit_fast_compile
def _from_z(centred: Centred, rows: Array) -> Array:
    return jax.vmap(centred.from_z)(rows)
