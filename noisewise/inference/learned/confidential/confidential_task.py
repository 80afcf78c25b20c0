"""CLE's task: confidential statistics given unconstrained parameters, no noise and no mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array
from noisewise._core.seeds import generator
from noisewise.estimators.conditioner import Scale
from noisewise.estimators.whitening import Whitening
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learner import AbstractTask, Columns, Learner
from noisewise.inference.learned.common.learning import fit_report
from noisewise.inference.learned.common.simulations import Simulations
from noisewise.inference.learned.common.statistic_space import StatisticSpace, check_spread
from noisewise.inference.learned.confidential.learned_confidential_likelihood import (
    LearnedConfidentialLikelihood,
)

if TYPE_CHECKING:
    from noisewise.inference.learned.confidential.confidential_likelihood_estimation import (
        ConfidentialLikelihoodEstimation,
    )


class StatisticPairs(eqx.Module):
    """What the training loop draws from: rows of (z, s) become standardised (t, z), spread over
    their cells again each time where s lies on a lattice.
    """

    z: Float[Array, "n p"]
    s: Float[Array, "n k"]
    space: StatisticSpace
    scale: Scale
    whitening: Whitening

    def __call__(
        self, key: Array, rows: Int[Array, " b"]
    ) -> tuple[Float[Array, "b r"], Float[Array, "b p"]]:
        condition = self.scale(self.z[rows])
        u = jax.random.uniform(key, (len(rows), self.space.dim)) if self.space.spreads else 0.5
        t = self.space.targets(self.s[rows], u)
        standard = self.whitening.forward(t, condition)
        return standard.astype(jnp.float32), condition.astype(jnp.float32)


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
    ) -> StatisticPairs:
        return StatisticPairs(*self.simulations.whole(), space, scale, whitening)


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
