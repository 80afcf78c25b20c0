"""Simulations of all rounds so far, and the law of confidential statistics fitted to them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.seeds import generator
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.members import ensemble
from noisewise.estimators.whitening import Affine, Whitening
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learning import (
    architecture_spec,
    check_members,
    fit_report,
    rescaled,
    train_or_recall,
)
from noisewise.inference.learned.common.simulations import Simulations
from noisewise.inference.learned.common.statistic_space import StatisticSpace, check_spread
from noisewise.inference.learned.confidential.learned_confidential_likelihood import (
    LearnedConfidentialLikelihood,
)


class StatisticPairs(eqx.Module):
    """What the training loop draws from: rows of (z, s) become standardised (t, z), spread afresh
    each time where s lies on a lattice.
    """

    z: Array
    s: Array
    space: StatisticSpace
    scale: Affine
    whitening: Whitening

    def __call__(self, key: Array, rows: Array) -> tuple[Array, Array]:
        condition = self.scale(self.z[rows])
        u = jax.random.uniform(key, (len(rows), self.space.dim)) if self.space.lattices else 0.5
        t = self.space.targets(self.s[rows], u)
        return self.whitening.forward(t, condition).astype(jnp.float32), condition.astype(
            jnp.float32
        )


class ConfidentialLearner:
    """One training after another, each on the simulations of all rounds so far."""

    def __init__(self, method: Any, run: InferenceRun) -> None:
        self.method, self.run = method, run
        self.capacity: int = method.num_rounds * method.num_simulations
        self.simulations = Simulations(run.model, self.capacity)
        self.space: StatisticSpace
        self.scale: Affine
        self.whitening: Whitening
        self.members: Any = None

    def simulate(self, key: Array, z: np.ndarray, number: int) -> np.ndarray:
        """The simulations of one round, at z (n, p) or as many of its rows as the budgets allow:
        their statistics s.
        """
        return self.simulations.add(
            key, self.run, z, share=self.method.validation_share, number=number
        )

    def learn(
        self, key: Array, number: int, *, warm_up: Any = None
    ) -> LearnedConfidentialLikelihood:
        """Fit the density to all simulations so far. Meanwhile `warm_up`, in another thread, gets the
        likelihood as it is untrained.
        """
        prepare_key, build_key, train_key = jax.random.split(key, 3)
        self._prepare(prepare_key, build_key)
        method, validation = self.method, self.simulations.validation
        untrained = self._likelihood()
        trained = train_or_recall(
            self.run,
            train_key,
            self.members,
            self._pairs(),
            train_rows=np.flatnonzero(~validation),
            validation_rows=np.flatnonzero(validation),
            capacity=self.capacity,
            settings=method.training,
            warm_up=warm_up and (lambda: warm_up(untrained)),
        )
        self.members = trained.members
        best = float(np.mean(np.nanmin(trained.validation_losses, axis=0))) - float(
            self.whitening.log_det
        )
        self.run.record(round=number + 1, epochs=trained.num_epochs, validation_loss=best)
        return self._likelihood()

    def _likelihood(self) -> LearnedConfidentialLikelihood:
        """The law of s by the members as they are."""
        method, density = self.method, ConditionalDensity(self.members, self.scale, self.whitening)
        return LearnedConfidentialLikelihood(
            self.run.model,
            density,
            self.space,
            s=self.simulations.s.copy(),
            chains=method.chain_settings,
            report=fit_report(self.run),
            estimator=architecture_spec(
                method.architecture(self.space.dim), density, method.num_members
            ),
        )

    def _prepare(self, key: Array, build_key: Array) -> None:
        """Standardise; where the scale has changed by more than half, do so anew and start from new
        weights.
        """
        method, z = self.method, self.simulations.z
        space = StatisticSpace.of(self.run.model.statistic_names, self.simulations.s)
        t = space.targets(self.simulations.s, generator(key).random((len(z), space.dim)))
        if self.members is None:
            check_spread(z, t)
        scale = Affine.fit(z)
        whitening = Whitening.fit(t, scale(z), degree=2)
        if self.members is not None and space.free == self.space.free:
            scales = self.scale.inverse_sd, scale.inverse_sd
            if not rescaled(scales, (np.diag(self.whitening.root), np.diag(whitening.root))):
                self.space = space
                return
        self.space, self.scale, self.whitening = space, scale, whitening
        dims = space.dim, z.shape[1]
        self.members = check_members(
            "estimator", ensemble(build_key, method.estimator, method.num_members, *dims), *dims
        )

    def _pairs(self) -> StatisticPairs:
        return StatisticPairs(*self.simulations.whole(), self.space, self.scale, self.whitening)
