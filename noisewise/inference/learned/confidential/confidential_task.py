"""CLE's task: confidential statistics given unconstrained parameters, no noise and no mechanism."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from noisewise._core.arrays import Array
from noisewise._core.seeds import generator
from noisewise.estimators.whitening import Affine, Whitening
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
    scale: Affine
    whitening: Whitening

    def __call__(
        self, key: Array, rows: Int[Array, " b"]
    ) -> tuple[Float[Array, "b r"], Float[Array, "b p"]]:
        condition = self.scale(self.z[rows])
        u = jax.random.uniform(key, (len(rows), self.space.dim)) if self.space.lattices else 0.5
        t = self.space.targets(self.s[rows], u)
        standard = self.whitening.forward(t, condition)
        return standard.astype(jnp.float32), condition.astype(jnp.float32)


class ConfidentialTask(AbstractTask[StatisticSpace]):
    """q(t | z), t the free columns of s."""

    def __init__(self, run: InferenceRun, simulations: Simulations) -> None:
        self.run, self.simulations = run, simulations

    def columns(self, key: Array, *, first: bool) -> Columns[StatisticSpace]:
        z, s = self.simulations.z, self.simulations.s
        space = StatisticSpace.of(self.run.model.statistic_names, s)
        t = space.targets(s, generator(key).random((len(z), space.dim)))
        if first:
            check_spread(z, t)
        return Columns(t, z.copy(), space, space.free)

    def pairs(
        self, key: Array, space: StatisticSpace, scale: Affine, whitening: Whitening
    ) -> StatisticPairs:
        return StatisticPairs(*self.simulations.whole(), space, scale, whitening)


class ConfidentialRounds:
    """One law of confidential statistics in training, round after round."""

    def __init__(self, method: ConfidentialLikelihoodEstimation, run: InferenceRun) -> None:
        self.method, self.run = method, run
        self.simulations = Simulations(run.model, method.num_rounds * method.num_simulations)
        task = ConfidentialTask(run, self.simulations)
        self.learner = Learner(task, run, method, method.estimator)

    def learn(
        self,
        key: Array,
        number: int,
        *,
        warm_up: Callable[[LearnedConfidentialLikelihood], object] | None = None,
    ) -> LearnedConfidentialLikelihood:
        """Fit the density to all simulations so far; `warm_up` gets the law as it is untrained, in
        another thread.
        """
        prepare_key, build_key, train_key = jax.random.split(key, 3)
        pairs = self.learner.prepare(prepare_key, build_key)
        untrained = self._likelihood()
        ahead = None if warm_up is None else (lambda: warm_up(untrained))
        summary = self.learner.train(train_key, pairs, warm_up=ahead)
        self.learner.record(summary, round=number + 1)
        return self._likelihood()

    def _likelihood(self) -> LearnedConfidentialLikelihood:
        """The law of s by the networks as they are."""
        space = self.learner.space
        return LearnedConfidentialLikelihood(
            self.run.model,
            self.learner.density,
            space,
            s=self.simulations.s.copy(),
            chains=self.method.chain_settings,
            report=fit_report(self.run),
            estimator=self.learner.spec(self.method.architecture(space.dim)),
        )
