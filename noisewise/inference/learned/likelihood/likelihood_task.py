"""SPLE's task: private statistics, spread over their lattices, given unconstrained parameters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array
from noisewise.estimators.conditioner import Scale
from noisewise.estimators.whitening import Whitening
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learner import (
    VALIDATION_NOISE,
    AbstractTask,
    Columns,
    Learner,
    TrainingSummary,
)
from noisewise.inference.learned.common.learning import fit_report
from noisewise.inference.learned.common.noisy_targets import NoisyTargets
from noisewise.inference.learned.common.simulations import (
    NoisyBank,
    Simulations,
    nothing_varies,
)
from noisewise.inference.learned.likelihood.learned_likelihood import LearnedLikelihood
from noisewise.inference.learned.likelihood.target_space import TargetSpace
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.supports import coded
from noisewise.posteriors import Finding, Kind

if TYPE_CHECKING:
    from noisewise.inference.learned.likelihood.private_likelihood_estimation import (
        PrivateLikelihoodEstimation,
    )

_SCALE_NOISE = 4
"""Noisy versions of each simulation that the standardisation is fitted to: a few show the spread,
and all of them would cost as much as an epoch.
"""
_INSTEAD = "PrivatePosteriorEstimation"
"""What to use where simulations fail."""


class LikelihoodTask(AbstractTask[TargetSpace]):
    """q(t(s_dp) | z), for the columns of s_dp that vary."""

    def __init__(self, method: PrivateLikelihoodEstimation, run: InferenceRun) -> None:
        self.method, self.run = method, run
        self.bounded = run.model.prior.bounded
        self.simulations = Simulations(run.model, method.num_rounds * method.num_simulations)
        self.bank = NoisyBank(
            run.model,
            self.simulations.capacity,
            size=method.noise_bank,
            points=method.points,
            encode=self._coded,
        )

    def extend(self, key: Array, s: np.ndarray) -> None:
        self.bank.add(key, s)

    def columns(self, key: Array, *, first: bool) -> Columns[TargetSpace]:
        few = self.bank.values[:, :_SCALE_NOISE]
        support, _ = coded(self.run.model.mechanism.support, few.shape[-1])
        space = TargetSpace.of(support, few, self._kept(few))
        return Columns(space.spread(key, few), self.simulations.z.copy(), space, space.kept)

    def space_to_keep(self, old: TargetSpace, new: TargetSpace) -> TargetSpace:
        """The old one: its cells have the widths that the networks know."""
        return old

    def pairs(
        self, key: Array, space: TargetSpace, scale: Scale, whitening: Whitening
    ) -> NoisyTargets:
        condition = scale(self.simulations.z)
        targets = whitening.forward(space.spread(key, self.bank.values), condition[:, None])
        return NoisyTargets.of(targets, condition, self.simulations.capacity, self.method.num_noise)

    def validation_pairs(self, pairs: NoisyTargets) -> NoisyTargets:
        steady = max(self.method.num_noise, min(VALIDATION_NOISE, self.method.noise_bank))
        return dataclasses.replace(pairs, num_noise=steady)

    def warn(self, summary: TrainingSummary) -> None:
        if self.run.num_failed:
            self.run.warn(Kind.FAILURES_UNSEEN, instead=_INSTEAD)

    def _coded(self, s_dp: Float[np.ndarray, "n m kp"]) -> Float[np.ndarray, "n m kp"]:
        """Private statistics with numbers for absent cells."""
        codes = coded(self.run.model.mechanism.support, s_dp.shape[-1])[1]
        return np.where(np.isnan(s_dp), codes, s_dp)

    def _kept(self, s_dp: Float[np.ndarray, "n m kp"]) -> Int[np.ndarray, " d"]:
        """The columns to learn: not those that never vary, nor noise around a statistic that never
        does.
        """
        model, s = self.run.model, self.simulations.s
        varies = np.ptp(s_dp, axis=(0, 1)) > 0
        if Capability.CDF in model.mechanism.capabilities and s_dp.shape[-1] == s.shape[1]:
            varies &= np.ptp(s, axis=0) > 0
        if not varies.any():
            raise nothing_varies(len(s), model.names)
        names = [name for name, kept in zip(model.private_names, varies, strict=True) if not kept]
        if names:
            self.run.warn(Kind.STATISTICS_LEFT_OUT, names=names)
        return np.flatnonzero(varies)


def learned_likelihood(
    method: PrivateLikelihoodEstimation, learner: Learner[TargetSpace]
) -> LearnedLikelihood:
    """The likelihood by the networks as they are."""
    run, simulations, space = learner.run, learner.simulations, learner.space
    names = run.model.private_names
    left_out = [name for j, name in enumerate(names) if j not in space.kept]
    notes = [Finding(Kind.STATISTICS_LEFT_OUT, {"names": left_out})] if left_out else []
    if run.num_failed > 0:
        notes.append(Finding(Kind.FAILURES_UNSEEN, {"instead": _INSTEAD}))
    return LearnedLikelihood(
        run.model,
        learner.density,
        space,
        z=simulations.z.copy(),
        s=simulations.s[:1].copy(),
        chains=method.chain_settings,
        report=fit_report(run, *notes),
        estimator=learner.spec(),
    )
