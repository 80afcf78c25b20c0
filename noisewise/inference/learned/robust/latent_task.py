"""Two densities learnt from one set of simulations: of confidential statistics, and of parameters
given them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.members import ensemble
from noisewise.estimators.whitening import Affine, Whitening
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learning import check_members, train_or_recall
from noisewise.inference.learned.common.simulations import Simulations
from noisewise.inference.learned.robust.latent_space import LatentSpace


class Pairs(eqx.Module):
    """What the training loop draws from: standardised targets, spread over cells with fresh
    uniforms, and conditions.
    """

    target: Array
    cell: Array
    condition: Array
    scale: Affine
    whitening: Whitening

    def __call__(self, key: Array, rows: Array) -> tuple[Array, Array]:
        target, condition = self.target[rows], self.scale(self.condition[rows])
        target = target + self.cell * (jax.random.uniform(key, target.shape) - 0.5)
        return self.whitening.forward(target, condition).astype(jnp.float32), condition.astype(
            jnp.float32
        )


class LatentLearner:
    """Learns h(t), t the free columns of s, and q(z | s) with `method.training`."""

    def __init__(
        self, method: Any, run: InferenceRun, simulations: Simulations, space: LatentSpace
    ) -> None:
        self.method, self.run, self.simulations, self.space = method, run, simulations, space

    def marginal(self, key: Array) -> ConditionalDensity:
        """h(t), a density given nothing: conditions have no columns."""
        t, nothing = (
            self.simulations.s[:, np.array(self.space.free)],
            np.zeros((self.simulations.num, 0)),
        )
        return self._learn(
            key, "marginal", self.method.marginal, t, self.space.cell, nothing, degree=0
        )

    def posterior(self, key: Array) -> ConditionalDensity:
        """q(z | s), z the unconstrained parameters."""
        z, s = self.simulations.z, self.simulations.s
        return self._learn(
            key, "estimator", self.method.estimator, z, np.zeros(z.shape[1]), s, degree=1
        )

    def _learn(
        self,
        key: Array,
        name: str,
        factory: Callable[..., Any],
        target: np.ndarray,
        cell: Array,
        condition: np.ndarray,
        *,
        degree: int,
    ) -> ConditionalDensity:
        build_key, train_key = jax.random.split(key)
        scale = Affine.fit(condition)
        whitening = Whitening.fit(target, scale(condition), degree=degree)
        members = ensemble(
            build_key, factory, self.method.num_members, target.shape[1], condition.shape[1]
        )
        check_members(name, members, target.shape[1], condition.shape[1])
        capacity, validation = self.method.num_simulations, self.simulations.validation
        pad = lambda values: np.pad(values, ((0, capacity - len(values)), (0, 0)))  # noqa: E731
        trained = train_or_recall(
            self.run,
            train_key,
            members,
            Pairs(pad(target), cell, pad(condition), scale, whitening),
            train_rows=np.flatnonzero(~validation),
            validation_rows=np.flatnonzero(validation),
            capacity=capacity,
            settings=self.method.training,
        )
        loss = float(np.nanmin(trained.validation_losses)) - float(whitening.log_det)
        self.run.record(density=name, epochs=trained.num_epochs, validation_loss=loss)
        return ConditionalDensity(trained.members, scale, whitening)
