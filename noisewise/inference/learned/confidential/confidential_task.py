"""CLE's task: confidential statistics given unconstrained parameters, no noise and no mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise.estimators.conditioner import Scale
from noisewise.estimators.whitening import Whitening
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learner import AbstractTask, Columns, Learner
from noisewise.inference.learned.common.learning import fit_report
from noisewise.inference.learned.common.noisy_targets import NoisyTargets
from noisewise.inference.learned.common.simulations import Simulations
from noisewise.inference.learned.common.statistic_space import StatisticSpace, check_spread
from noisewise.inference.learned.confidential.learned_confidential_likelihood import (
    LearnedConfidentialLikelihood,
)

if TYPE_CHECKING:
    from noisewise.inference.learned.confidential.confidential_likelihood_estimation import (
        ConfidentialLikelihoodEstimation,
    )


_NUM_VERSIONS = 32
"""Places in its cells for each simulation, of which every epoch takes one: as many as epochs, so
that hardly one is seen twice.
"""


class ConfidentialTask(AbstractTask[StatisticSpace]):
    """q(t | z), t the free columns of s."""

    def __init__(self, method: ConfidentialLikelihoodEstimation, run: InferenceRun) -> None:
        self.run, self.bounded = run, run.model.prior.bounded
        self.simulations = Simulations(run.model, method.num_rounds * method.num_simulations)

    def columns(self, key: Array, *, first: bool) -> Columns[StatisticSpace]:
        z, s = self.simulations.z, self.simulations.s
        space = StatisticSpace.of(s)
        t = space.targets(s, generator(key).random((len(z), space.dim)))
        if first:
            off = ~np.asarray(space.atoms.here(s[:, space.free])).any(axis=(1, 2))
            check_spread(z[off], t[off], space.lattices)
        return Columns(t, z.copy(), space, space.free)

    def pairs(
        self, key: Array, space: StatisticSpace, scale: Scale, whitening: Whitening
    ) -> NoisyTargets:
        condition, s = scale(self.simulations.z), self.simulations.s
        rng, num = generator(key), _NUM_VERSIONS if space.spreads else 1
        capacity = self.simulations.capacity
        versions = np.zeros((capacity, num, space.dim), np.float32)
        for number in range(num):
            t = space.targets(s, rng.random((len(s), space.dim)))
            versions[: len(s), number] = whitening.forward(t, condition)
        return NoisyTargets.of(versions, condition, capacity)


def learned_law(
    method: ConfidentialLikelihoodEstimation, learner: Learner[StatisticSpace]
) -> LearnedConfidentialLikelihood:
    """The density of s given theta, from the current networks."""
    return LearnedConfidentialLikelihood(
        learner.run.model,
        learner.density,
        learner.space,
        s=learner.simulations.s.copy(),
        chains=method.chain_settings,
        report=fit_report(learner.run),
        estimator=learner.spec(),
    )
