"""RNPE's two tasks on one set of simulations: confidential statistics, parameters given them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array
from noisewise._core.keys import split
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.conditioner import Scale
from noisewise.estimators.members import Factory
from noisewise.estimators.whitening import Whitening
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learner import AbstractTask, Columns, Learner
from noisewise.inference.learned.common.simulations import Simulations
from noisewise.inference.learned.robust.latent_space import LatentSpace

if TYPE_CHECKING:
    from noisewise.inference.learned.robust.robust_posterior_estimation import (
        RobustPosteriorEstimation,
    )


class LatentPairs(eqx.Module):
    """What the training loop draws from: standardised targets, spread over their cells again each
    time, and conditions.
    """

    target: Float[Array, "n d"]
    cell: Float[Array, " d"]
    condition: Float[Array, "n w"]
    scale: Scale
    whitening: Whitening

    def __call__(
        self, key: Array, rows: Int[Array, " b"]
    ) -> tuple[Float[Array, "b d"], Float[Array, "b w"]]:
        target, condition = self.target[rows], self.scale(self.condition[rows])
        target = target + self.cell * (jax.random.uniform(key, target.shape) - 0.5)
        standard = self.whitening.forward(target, condition)
        return standard.astype(jnp.float32), condition.astype(jnp.float32)


class _FixedTask(AbstractTask[None]):
    """Targets with cells of a given width, given conditions: all simulations are known already."""

    def __init__(
        self, simulations: Simulations, target: np.ndarray, cell: Array, condition: np.ndarray
    ) -> None:
        self.simulations, self.cell = simulations, cell
        self.target, self.condition = target, condition

    def columns(self, key: Array, *, first: bool) -> Columns[None]:
        return Columns(self.target, self.condition.copy(), None)

    def pairs(self, key: Array, space: None, scale: Scale, whitening: Whitening) -> LatentPairs:
        target, condition = self._filled(self.target), self._filled(self.condition)
        return LatentPairs(target, self.cell, condition, scale, whitening)

    def _filled(self, values: Float[np.ndarray, "n w"]) -> Float[np.ndarray, "capacity w"]:
        """Rows with zeros behind, an array of the size of the capacity."""
        return np.pad(values, ((0, self.simulations.capacity - len(values)), (0, 0)))


class MarginalTask(_FixedTask):
    """h(t), t the free columns of s: a density given nothing, conditions have no columns."""

    name, degree = "marginal", 0

    def __init__(self, simulations: Simulations, space: LatentSpace) -> None:
        t = simulations.s[:, np.array(space.free)]
        super().__init__(simulations, t, space.cell, np.zeros((simulations.num, 0)))


class ParametersTask(_FixedTask):
    """q(z | s), z the unconstrained parameters."""

    degree = 1

    def __init__(self, simulations: Simulations) -> None:
        z = simulations.z
        super().__init__(simulations, z, np.zeros(z.shape[1]), simulations.s)


def learn(
    key: Array,
    method: RobustPosteriorEstimation,
    run: InferenceRun,
    task: AbstractTask[None],
    factory: Factory,
) -> ConditionalDensity:
    """The density of one task, trained by `method.training`."""
    build_key, train_key = split(key)
    learner = Learner(task, run, method, factory)
    pairs = learner.prepare(key, build_key)
    learner.record(learner.train(train_key, pairs), density=task.name)
    return learner.density
