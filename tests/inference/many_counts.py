"""Chains of `CountAugmentationMCMC` for many data sets at once, in one program."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from noisewise.inference.contract.effects import blocks_of
from noisewise.inference.marginal import count_chains
from noisewise.inference.marginal.count_starts import starts
from noisewise.inference.marginal.count_target import SMALL, CountTarget
from noisewise.samplers.hierarchies.centring import as_pytree_blocks
from noisewise.samplers.lattices.directions import directions_for

TUNING, STEPPING, DRAWING = (
    count_chains.TUNING,
    count_chains.STEPPING,
    count_chains.DRAWING,
)


def target_of(model, kind=CountTarget):
    """The target of a model without exact sums."""
    sums, width = model.simulator.sums, model.private_width
    directions = directions_for(sums[:0], sums[sums.sum(axis=1) > 1])
    found = CountTarget.of(
        model.prior, model.simulator, model.mechanism, np.zeros(width), sums, directions, free=True
    ).as_arrays()
    return kind(**{field.name: getattr(found, field.name) for field in dataclasses.fields(found)})


@dataclasses.dataclass(frozen=True)
class ManyCounts:
    """Posteriors of many data sets: `num_chains` chains each, after a warm-up of `tuning` and
    `stepping` chunks of 50 sweeps; every `thin`-th draw of `drawing` chunks is kept.
    """

    model: object
    target: CountTarget
    num_chains: int = 2
    tuning: int = 4
    stepping: int = 2
    drawing: int = 10
    thin: int = 10

    def draws(self, key, observed):
        """Unconstrained parameters (n, draws, d) and cells (n, draws, c) of each data set."""
        pool_key, cell_key, chain_key = jax.random.split(key, 3)
        prior, sums = self.model.prior, self.model.simulator.sums
        pool = np.asarray(prior.unconstrain(prior.sample(pool_key, 256 * self.num_chains)))
        with jax.enable_x64(True):
            cells = self._starts(cell_key, observed, pool, sums)
            program = jax.jit(jax.vmap(self._one, in_axes=(0, 0, 0, None)))
            keys = jax.random.split(chain_key, len(observed))
            given = (jnp.asarray(observed), jnp.asarray(cells), jnp.asarray(pool))
            z, cells = program(keys, *given)
        return np.asarray(z), np.asarray(cells)

    def sample_many(self, key, observed, num):
        """What `draw_trials` asks for: draws of theta (n, num, d)."""
        z, _ = self.draws(key, observed)
        return self.model.prior.constrain(z[:, np.linspace(0, z.shape[1] - 1, num).astype(int)])

    def _starts(self, key, observed, pool, sums):
        empty = (sums[:0], np.zeros(0))
        with jax.enable_x64(True):
            return np.stack(
                [
                    starts(
                        jax.random.fold_in(key, i),
                        self.target.observing(row),
                        sums,
                        pool[:64],
                        *empty,
                        self.num_chains,
                    )
                    for i, row in enumerate(observed)
                ]
            )

    def _one(self, key, observed, cells, pool):
        blocks = as_pytree_blocks(blocks_of(self.model.prior))
        few = cells.max(axis=0) < SMALL
        target = dataclasses.replace(self.target.observing(observed), few=few)
        state = count_chains.begun(key, target, blocks, pool, cells)
        counts = (self.tuning, self.stepping, self.drawing)
        phases = np.repeat([TUNING, STEPPING, DRAWING], counts)

        def chunk(state, phase):
            state, draws = count_chains.advanced(key, target, blocks, state, phase)
            return state, (draws.z[:: self.thin], draws.cells[:: self.thin])

        _, (z, cells) = jax.lax.scan(chunk, state, jnp.asarray(phases))
        kept = self.tuning + self.stepping
        return tuple(part[kept:].reshape(-1, part.shape[-1]) for part in (z, cells))
