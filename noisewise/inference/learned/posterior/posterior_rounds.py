"""One inference by SPPE, round after round: where to simulate, what was learnt, how far to trust
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.keys import fold_in, split
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.fits import MASS_OUTSIDE, MOST_OUTSIDE, NUM_DRAWS
from noisewise.inference.learned.common.learner import Learner, TrainingSummary, train_together
from noisewise.inference.learned.common.learning import first_parameters
from noisewise.inference.learned.posterior.held_out import NUM_NOISE, Comparison, compared
from noisewise.inference.learned.posterior.posterior_task import PosteriorTask
from noisewise.inference.learned.posterior.regions import Estimate, in_all
from noisewise.posteriors import Kind
from noisewise.posteriors.learned import LearnedPosterior

if TYPE_CHECKING:
    from noisewise.inference.learned.posterior.private_posterior_estimation import (
        PrivatePosteriorEstimation,
    )

_POSTERIOR_KEYS = 2**30
"""Added to the round's number for the key of its draws: far above the numbers of rounds."""


class PosteriorRounds:
    """One inference; `train_all` fits several at once.

    Args:
        method: Its settings.
        key: JAX PRNG key.
        run: The inference, which simulates, remembers trainings and reports.
        observed: The observation; None where the posterior is learnt for any.
    """

    def __init__(
        self,
        method: PrivatePosteriorEstimation,
        key: Array,
        run: InferenceRun,
        observed: Float[np.ndarray, " kp"] | None,
    ) -> None:
        self.method, self.key, self.run = method, key, run
        self.task = PosteriorTask(method, key, run)
        self.simulations = self.task.simulations
        factory, embedding = method.estimator, method.embedding
        factory = factory if embedding is None else embedding.around(factory)
        self.learner = Learner(self.task, run, method, factory)
        self.condition = None if observed is None else self.task.features(observed[None])[0]
        self.density: ConditionalDensity
        """The density of the last round that was adopted."""
        self._asked = self._delivered = 0

    @property
    def estimate(self) -> Estimate:
        """The posterior of the last round."""
        if self.condition is None:
            raise ValueError("without an observation there is one round only")
        regions, prior = self.task.regions.all, self.run.model.prior
        return Estimate(self.density, self.condition, prior, regions, self.simulations.z)

    def simulate(self, index: int) -> None:
        """Simulate one round, within the budgets."""
        propose_key, simulate_key, noise_key, look_key = split(self._key(index, 0), 4)
        method = self.method
        z = self._propose(propose_key, index)
        s = self.learner.simulate(simulate_key, z, index, noise_key=noise_key)
        if index == 0 and self.condition is not None:
            self.run.look_at_observation(look_key, s if method.proposal is None else None)

    def _propose(self, key: Array, index: int) -> Float[np.ndarray, "n p"]:
        """Parameters for one round; what a correction found is kept."""
        method = self.method
        if index == 0:
            return first_parameters(key, self.run.model, method.proposal, method.num_simulations)
        proposal = method.correction.propose(key, self.estimate, method.num_simulations)
        if proposal.region is not None:
            self.task.regions.add(proposal.region)
        if proposal.gave_up:
            self.run.warn(Kind.ROUND_FROM_PRIOR)
        self._asked += method.num_simulations
        self._delivered += len(proposal.z)
        if self._delivered < self._asked:
            numbers = {"missing": self._asked - self._delivered, "asked": self._asked}
            self.run.warn(Kind.PARAMETERS_NOT_FOUND, **numbers)
        return proposal.z

    def adopt(self, index: int, summary: TrainingSummary) -> None:
        """Go on with the networks as trained in this round, unless they predict held-out
        simulations worse than those before.
        """
        new, labels = self.learner.density, dict[str, Any](round=index + 1)
        found = self._compared(index, new)
        if found is not None:
            labels |= {"score_change": found.change, "score_error": found.error}
            labels |= {"adopted": not found.worse}
        self.learner.record(summary, **labels)
        self.run.withdraw(Kind.ROUND_NOT_ADOPTED)
        if found is None or not found.worse:
            self.density, self._adopted = new, index
            self._networks = self.learner.networks
            return
        self.learner.networks = self._networks
        numbers = {"round": index + 1, "kept": self._adopted + 1}
        self.run.warn(Kind.ROUND_NOT_ADOPTED, **numbers, loss=-found.change, error=found.error)

    def _compared(self, index: int, new: ConditionalDensity) -> Comparison | None:
        """The new density against the last one adopted; None where held-out simulations cannot
        tell.
        """
        if index == 0 or self.condition is None or not self.method.correction.from_prior:
            return None
        rows = self.task.held_out()
        return compared(
            self._key(index, 3),
            self.estimate,
            new,
            self.simulations.z[rows],
            self.task.bank.values[rows, :NUM_NOISE],
        )

    def precompile(self) -> None:
        """Compile what the density will be asked for, with its networks as they are untrained."""
        density = self.learner.density
        density.log_prob(self.simulations.z[:1], self.condition)
        density.sample(self.key, self.condition, 1)

    def outside(self, z: Float[np.ndarray, "n p"]) -> float:
        """The share of draws outside the range of simulated parameters, outside any region, or
        where q is below its least value at the parameters of the last round.
        """
        seen, estimate = self.simulations.z, self.estimate
        beyond = ((z < seen.min(axis=0)) | (z > seen.max(axis=0))).any(axis=1)
        if estimate.regions:
            return float(np.mean(beyond | ~in_all(estimate.regions, z)))
        last = seen[self.simulations.round == self.simulations.round.max()]
        lowest = estimate.log_prob(last).min()
        return float(np.mean(beyond | (estimate.log_prob(z) < lowest)))

    def posterior(self, index: int) -> LearnedPosterior:
        """The posterior of one round; its report says how much of it lies where nothing was
        simulated: mass that leaked, or is not learnt yet.
        """
        run, estimate, prior = self.run, self.estimate, self.run.model.prior
        z = estimate.sample(fold_in(self.key, _POSTERIOR_KEYS + index), NUM_DRAWS)
        outside = self.outside(z)
        run.diagnostics[MASS_OUTSIDE] = outside
        run.withdraw(Kind.MASS_LEAKED)
        if outside > MOST_OUTSIDE:
            run.warn(Kind.MASS_LEAKED, share=outside)
        theta = prior.constrain(z)
        return LearnedPosterior(
            theta,
            run.model.names,
            run.report(exact=False),
            density=estimate.density,
            condition=estimate.condition,
            prior=prior,
            estimator=self.learner.spec(),
            **run.model.beside_draws(theta),
        )

    def _key(self, index: int, purpose: int) -> Array:
        """The key of a round for simulating (0), new networks (1), training (2), comparing (3)."""
        return fold_in(fold_in(self.key, index), purpose)


def train_all(inferences: Sequence[PosteriorRounds], index: int) -> None:
    """Fit the densities of several inferences of one method in one program.

    Args:
        inferences: They have simulated this round.
        index: The round, from 0.
    """
    learners = [one.learner for one in inferences]
    keys = [one._key(index, 2) for one in inferences]
    pairs = [one.learner.prepare(one.key, one._key(index, 1)) for one in inferences]
    first = inferences[0]
    ahead = first.precompile if index == 0 and first.condition is not None else None
    summaries = train_together(learners, keys, pairs, warm_up=ahead)
    for one, summary in zip(inferences, summaries, strict=True):
        one.adopt(index, summary)
