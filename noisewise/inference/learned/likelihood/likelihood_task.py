"""Simulations of all rounds so far, and the density of private statistics fitted to them."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError
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
from noisewise.inference.learned.common.simulations import (
    Rows,
    Simulations,
    noisy_statistics,
    one_net,
)
from noisewise.inference.learned.likelihood.learned_likelihood import LearnedLikelihood
from noisewise.inference.learned.likelihood.target_space import TargetSpace
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import Finding, Kind

_VALIDATION_NOISE = 16
_SCALE_NOISE = 4
_INSTEAD = "PrivatePosteriorEstimation"
"""What to use where simulations fail."""


class NoisyTargets(eqx.Module):
    """What the training loop draws from: standardised targets (N, B, d) of each simulation, of
    which a random net is taken each time, and standardised parameters (N, p).
    """

    bank: Array
    condition: Array
    num_noise: int = eqx.field(static=True)

    def __call__(self, key: Array, rows: Array) -> tuple[Array, Array]:
        return one_net(key, self.bank, rows, self.num_noise), self.condition[rows][:, None]


class LikelihoodLearner:
    """One training after another, each on the simulations of all rounds so far."""

    def __init__(self, method: Any, run: InferenceRun) -> None:
        self.method, self.run = method, run
        self.capacity: int = method.num_rounds * method.num_simulations
        self.simulations = Simulations(run.model, self.capacity)
        self._private: Rows
        self.space: TargetSpace
        self.scale: Affine
        self.whitening: Whitening
        self.members: Any = None

    def simulate(self, key: Array, z: np.ndarray, number: int) -> np.ndarray:
        """The simulations of one round, at z (n, p) or as many of its rows as the budgets allow:
        their statistics s.
        """
        method, (simulate_key, noise_key) = self.method, jax.random.split(key)
        s = self.simulations.add(
            simulate_key, self.run, z, share=method.validation_share, number=number
        )
        new = noisy_statistics(noise_key, self.run.model, s, method.noise_bank, method.points)
        if number == 0:
            self._private = Rows(self.capacity, *new.shape[1:])
        self._private.add(new)
        return s

    def learn(self, key: Array, number: int, *, warm_up: Any = None) -> LearnedLikelihood:
        """Fit the density to all simulations so far. Meanwhile `warm_up`, in another thread, gets the
        likelihood as it is untrained.
        """
        spread_key, build_key, train_key = jax.random.split(key, 3)
        targets = self._prepare(spread_key, build_key)
        method, validation = self.method, self.simulations.validation
        steady = max(method.num_noise, min(_VALIDATION_NOISE, method.noise_bank))
        untrained = self._likelihood()
        trained = train_or_recall(
            self.run,
            train_key,
            self.members,
            targets,
            train_rows=np.flatnonzero(~validation),
            validation_rows=np.flatnonzero(validation),
            capacity=self.capacity,
            settings=method.training,
            warm_up=warm_up and (lambda: warm_up(untrained)),
            validation=dataclasses.replace(targets, num_noise=steady),
        )
        self.members = trained.members
        best = float(np.mean(np.nanmin(trained.validation_losses, axis=0))) - float(
            self.whitening.log_det
        )
        if self.run.num_failed:
            self.run.warn(Kind.FAILURES_UNSEEN, instead=_INSTEAD)
        self.run.record(round=number + 1, epochs=trained.num_epochs, validation_loss=best)
        return self._likelihood()

    def _likelihood(self) -> LearnedLikelihood:
        """The likelihood by the members as they are."""
        method, density = self.method, ConditionalDensity(self.members, self.scale, self.whitening)
        return LearnedLikelihood(
            self.run.model,
            density,
            self.space,
            z=self.simulations.z.copy(),
            s=self.simulations.s[:1].copy(),
            chains=method.chain_settings,
            report=fit_report(self.run, *self._notes()),
            estimator=architecture_spec(method.estimator, density, method.num_members),
        )

    def _notes(self) -> list[Finding]:
        """What a user of the learnt likelihood must know of how it was learnt."""
        left_out = [
            name for j, name in enumerate(self.run.model.private_names) if j not in self.space.kept
        ]
        notes = []
        if left_out:
            notes.append(Finding(Kind.STATISTICS_LEFT_OUT, {"names": left_out}))
        if self.run.num_failed > 0:
            notes.append(Finding(Kind.FAILURES_UNSEEN, {"instead": _INSTEAD}))
        return notes

    def _prepare(self, key: Array, build_key: Array) -> NoisyTargets:
        """Targets to learn, standardised; where their scale has changed by more than half, anew,
        and for new weights.
        """
        z, s_dp = self.simulations.z, self._private.values
        few = s_dp[:, :_SCALE_NOISE]
        space = TargetSpace.of(self.run.model.mechanism.support, few, self._kept(few))
        scale = Affine.fit(z)
        t = space.spread(key, few)
        whitening = Whitening.fit(
            t.reshape(-1, space.dim), np.repeat(scale(z), t.shape[1], axis=0), degree=2
        )
        if (
            self.members is None
            or space.kept != self.space.kept
            or self._outgrown(scale, whitening)
        ):
            self.space, self.scale, self.whitening = space, scale, whitening
            method, dims = self.method, (space.dim, z.shape[1])
            made = ensemble(build_key, method.estimator, method.num_members, *dims)
            self.members = check_members("estimator", made, *dims)
        condition = self.scale(z)
        bank = self.whitening.forward(self.space.spread(key, s_dp), condition[:, None])
        return NoisyTargets(self._filled(bank), self._filled(condition), self.method.num_noise)

    def _filled(self, values: np.ndarray) -> np.ndarray:
        """Values (N, ...) as float32 with zeros behind, an array of one size for all rounds."""
        rows = Rows(self.capacity, *values.shape[1:], dtype=np.float32)
        rows.add(values)
        return rows.whole

    def _outgrown(self, scale: Affine, whitening: Whitening) -> bool:
        return rescaled(
            (self.scale.inverse_sd, scale.inverse_sd),
            (np.diag(self.whitening.root), np.diag(whitening.root)),
        )

    def _kept(self, s_dp: np.ndarray) -> np.ndarray:
        """The columns to learn: not those that never vary, nor noise around a statistic that never
        does.
        """
        model, s = self.run.model, self.simulations.s
        varies = np.ptp(s_dp, axis=(0, 1)) > 0
        if Capability.CDF in model.mechanism.capabilities and s_dp.shape[-1] == s.shape[1]:
            varies &= np.ptp(s, axis=0) > 0
        if not varies.any():
            raise InvalidInputError(
                f"No statistic varies over {len(s):,} simulations: they tell nothing of"
                f" {', '.join(model.names)}. Check the query."
            )
        names = [name for name, kept in zip(model.private_names, varies, strict=True) if not kept]
        if names:
            self.run.warn(Kind.STATISTICS_LEFT_OUT, names=names)
        return np.flatnonzero(varies)
