"""CLE: the law of confidential statistics, learnt once for every mechanism."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, ClassVar

import numpy as np

from noisewise._core.arrays import Array, as_key
from noisewise._core.keys import fold_in, split
from noisewise.estimators.coordinate_mixtures import autoregressive_mixture
from noisewise.estimators.training import Training
from noisewise.inference.contract.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.learned.common.learner import Learner
from noisewise.inference.learned.common.learning import (
    check_model,
    check_settings,
    first_parameters,
    something_to_learn,
)
from noisewise.inference.learned.common.statistic_space import StatisticSpace
from noisewise.inference.learned.confidential.confidential_task import ConfidentialTask, learned_law
from noisewise.inference.learned.confidential.learned_confidential_likelihood import (
    INSTEAD,
    LearnedConfidentialLikelihood,
)
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws

_TRAINING = Training(learning_rate=1e-2, batch_size=200)
"""As for SPLE: smooth networks bear larger batches and ten times the usual rate."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfidentialLikelihoodEstimation(AbstractSequentialMethod):
    r"""Learn q(s | theta), the law of the statistic before any noise, and draw from the posterior
    of theta and s together.

        min over q of   1/N sum_i -log q(s_i | theta_i),      then

        p(theta, s | s_dp) ∝ pi(theta) q(s | theta) eta(s_dp | s)

    Neither epsilon nor the mechanism has a part in the training: what `fit` returns serves every
    mechanism with a density, and its `posterior(key, observed, mechanism)` neither simulates nor
    trains. Particles are led from the prior to it, and its `statistics` are the draws of s. With
    several rounds, later ones simulate at parameters from the posterior of the round before.

    Use it to compare epsilons or mechanisms from one set of simulations, or where little noise
    makes other methods need many rounds. Statistics on a lattice are spread over its cells for the
    training, and summed over the cell's corners at inference; values taken again and again, as
    after clamping, get an interval of their own. Columns that are constant, or linear combinations
    of others, are computed from these. Real statistics with no density given theta (a curve without
    noise) are refused. Where values taken again and again lie apart from all others (many zeros,
    and nothing near zero) in several columns, particles may not settle, which the report says: use
    PrivateLikelihoodEstimation.

    Args:
        num_rounds: Rounds; one serves every observation, more focus on one.
        num_simulations: Simulations per round; they are not repeated for another epsilon.
        estimator: Factory (key, target_dim, condition_dim) -> network; by default mixtures of
            normal laws, one coordinate after another.
        num_members: Networks whose average is the density: single ones wander, and one training
            serves every mechanism.
        training: Optimiser and early stopping, see `nw.estimators.Training`; by default batches of
            200 at a rate of .01, which `dataclasses.replace(method.training, max_epochs=50)`
            keeps.
        validation_share: Share of the simulations that decide when to stop; 5% as in the paper.
        num_chains: Particles, all moved at once.
        num_warmup: Moves of each particle before the first draw; tempering has brought them there.
        target_ess: Effective draws wanted. Where particles stay in their modes, moves gain little,
            or weights serve, 400 are enough; the report warns below that.
        max_simulations: Budget of simulations; None has no limit.
        max_minutes: Budget of time; None has no limit.

    >>> import functools, jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> small = functools.partial(
    ...     nw.estimators.masked_autoregressive_flow, num_layers=1, num_units=8, num_hidden=1
    ... )
    >>> quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
    >>> settings = {"num_simulations": 300, "num_members": 1, "estimator": small}
    >>> method = ConfidentialLikelihoodEstimation(training=quick, **settings)
    >>> likelihood = method.fit(jax.random.key(0), problem.model, progress=False)
    >>> likelihood.log_prob([[0.7]], [[0.7]]).shape
    (1,)
    """

    slug: ClassVar[str] = "cle"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.DENSITY})
    needs_noise: ClassVar[bool] = True
    instead: ClassVar[str] = INSTEAD

    num_rounds: int = 1
    num_simulations: int = 10_000
    estimator: Callable[..., Any] = autoregressive_mixture
    num_members: int = 2
    training: Training = _TRAINING
    validation_share: float = 0.05
    num_chains: int = 512
    num_warmup: int = 20
    target_ess: int = 2000

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        check_settings(self)

    def fit(
        self,
        key: Array,
        model: PrivateModel,
        *,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> LearnedConfidentialLikelihood:
        """The law of s learnt once, over the whole prior, for any observation and any mechanism.

        Args:
            key: JAX PRNG key.
            model: What to simulate from; its mechanism is only the one that `posterior` takes where
                none is given.
            executor: Runs simulators written in Python.
            progress: Whether to show a progress bar.

        Returns:
            q(s | theta), learnt in one training from `num_rounds` * `num_simulations` draws.

        Raises:
            InvalidInputError: If the budget allows no simulation.
            MissingCapabilityError: If the statistics have no density given theta.
        """
        check_model("fit(key, model)", model)
        run = self.start(model, np.zeros(0), executor=executor, progress=progress)
        learner, fit = self._learner(run)
        start_key, simulate_key, learn_key = split(as_key(key), 3)
        z = first_parameters(start_key, model, None, learner.simulations.capacity)
        with run.progress():
            with something_to_learn():
                learner.simulate(simulate_key, z, 0)
            return learner.learn(learn_key, 0, fit)

    def _rounds(self, key: Array, run: InferenceRun) -> Iterator[Draws]:
        learner, fit = self._learner(run)
        first_key, end_key, key = split(key, 3)
        z = first_parameters(first_key, run.model, None, self.num_simulations)
        likelihood: LearnedConfidentialLikelihood | None = None
        for number in range(self.num_rounds):
            keys = split(fold_in(key, number), 5)
            simulate_key, look_key, learn_key, chain_key, propose_key = keys
            try:
                s = learner.simulate(simulate_key, z, number)
            except OutOfBudget:
                if likelihood is None:
                    raise
                break
            if number == 0:
                run.look_at_observation(look_key, s)
            warm_up = (lambda untrained: untrained.precompile(run)) if number == 0 else None
            likelihood = learner.learn(learn_key, number, fit, warm_up=warm_up)
            if number + 1 == self.num_rounds or not run.stop.finished:
                break
            posterior = likelihood.draws(chain_key, run, last=False)
            yield posterior
            z = run.model.prior.unconstrain(posterior.sample(propose_key, self.num_simulations))
        yield likelihood.draws(end_key, run)  # type: ignore[union-attr]

    def _learner(
        self, run: InferenceRun
    ) -> tuple[Learner[StatisticSpace], Callable[[], LearnedConfidentialLikelihood]]:
        """What learns, and what makes the learnt law of it."""
        learner = Learner(ConfidentialTask(self, run), run, self, self.estimator)
        return learner, functools.partial(learned_law, self, learner)

    @property
    def chain_settings(self) -> dict[str, int]:
        """How a posterior is drawn."""
        return {
            "num_chains": self.num_chains,
            "num_warmup": self.num_warmup,
            "target_ess": self.target_ess,
        }
