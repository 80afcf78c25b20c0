"""SPPE: the posterior learnt from simulated private data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, ClassVar

import numpy as np

from noisewise._core.arrays import Array, as_key, describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.estimators.embedding import Embedding
from noisewise.estimators.flows import neural_spline_flow
from noisewise.estimators.training import Training
from noisewise.inference.contract.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.learned.common.learning import (
    check_kinds,
    check_model,
    check_settings,
    something_to_learn,
)
from noisewise.inference.learned.posterior.amortised_posterior import AmortisedPosterior
from noisewise.inference.learned.posterior.corrections import AbstractCorrection, TruncatedProposals
from noisewise.inference.learned.posterior.posterior_rounds import PosteriorRounds, train_all
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.point_sets import AbstractPointSet, ScrambledSobol
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors.base import AbstractPosterior
from noisewise.posteriors.learned import LearnedPosterior

_FLOW = functools.partial(neural_spline_flow, num_layers=4)
"""Half the layers of the paper: without an embedding four problems were learnt as well, faster."""
_TRAINING = Training(learning_rate=2e-3, batch_size=200)
"""Four times the rate of the paper and twice the batch: held-out losses are up to .016 nats lower
than at the paper's rate, in as many epochs of half as many steps (`docs/estimators.md`).
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivatePosteriorEstimation(AbstractSequentialMethod):
    r"""Learn q(theta | s_dp) from simulated pairs: PPE with one round, SPPE with several.

        min over q of   1/N sum_i 1/M sum_m  -log q(theta_i | tau(v_im; s_i)),

        s_i = s(x_i),   x_i ~ f(. | theta_i)

    The inner average is over M = `num_noise` points v_i of a randomised Sobol set. Simulations are
    kept as s_i, and each is made private `noise_bank` times, as sets of M points, of which every
    epoch takes one at random: privacy noise costs nothing, simulations do. Later rounds simulate
    where the estimate of the round before has its mass, and `correction` keeps them honest.
    Parameters are learnt in unconstrained coordinates, so that no mass leaves the prior's support.

    Use it where the mechanism can only be sampled, where simulations are expensive, or to serve
    many observations by `fit`. Where the likelihood is simple and the posterior is not (several
    modes, many parameters), `PrivateLikelihoodEstimation` learns more from the same number of
    simulations.

    The posterior has a density, `log_prob`, by which `nw.diagnostics.certify` turns it into exact
    draws.

    Args:
        num_rounds: Rounds; one learns over the whole prior, more focus on the observation.
        num_simulations: Simulations per round. `nw.inference.as_in_paper("sppe")` has the paper's
            10 x 1,000, and its other settings.
        correction: How later rounds stay honest: `TruncatedProposals()`, which keeps the plain
            loss, or the paper's `AtomicProposals()`.
        estimator: Factory (key, target_dim, condition_dim) -> network, such as a
            `functools.partial` of one in `nw.estimators`.
        embedding: What its layers see of the private statistics: a fitted prediction of the
            parameters, and columns that one network makes for all layers. None shows every layer
            the statistics themselves, as in the paper.
        num_members: Networks whose average is the density; single ones differ by about .03 in
            C2ST, which several even out at that many times the cost.
        num_noise: M, noisy versions of each simulation per step; with 8 a step costs four times as
            much and networks predict no better.
        noise_bank: Noisy versions of each simulation kept in memory, a multiple of `num_noise`; 64
            make 32 different sets.
        points: The point sets: `ScrambledSobol()`, which cover the noise evenly, or
            `IndependentUniforms()`.
        training: Optimiser and early stopping, see `nw.estimators.Training`.
        validation_share: Share of the simulations that decide when to stop; 5% as in the paper.
        proposal: A posterior that the first round draws from instead of the prior; needs
            `AtomicProposals()`.
        max_simulations: Budget of simulations; None has no limit.
        max_minutes: Budget of time; None has no limit.

    Reference: Xiong, Ju and Zhang, "Simulation-based Bayesian inference from privacy protected
    data", Algorithm 1.

    >>> import functools, jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> small = functools.partial(
    ...     nw.estimators.mixture_density_network, num_components=2, num_units=16, num_hidden=1
    ... )
    >>> quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
    >>> settings = {"estimator": small, "training": quick, "num_noise": 2, "noise_bank": 8}
    >>> method = PrivatePosteriorEstimation(num_rounds=2, num_simulations=100, **settings)
    >>> key = jax.random.key(0)
    >>> posterior = method.infer(key, problem.model, problem.observed, progress=False)
    >>> posterior.sample(jax.random.key(1), 10).shape, posterior.log_prob([[0.0]]).shape
    ((10, 1), (1,))
    """

    slug: ClassVar[str] = "sppe"
    serves_unknown_parameters: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SAMPLE})
    needs_noise: ClassVar[bool] = True
    instead: ClassVar[str] = "Use ImportanceSampling or ExactSMC, which only need its density."

    num_rounds: int = 3
    num_simulations: int = 3333
    correction: AbstractCorrection = dataclasses.field(default_factory=TruncatedProposals)
    estimator: Callable[..., Any] = _FLOW
    embedding: Embedding | None = dataclasses.field(default_factory=Embedding)
    num_members: int = 1
    num_noise: int = 2
    noise_bank: int = 64
    points: AbstractPointSet = dataclasses.field(default_factory=ScrambledSobol)
    training: Training = _TRAINING
    validation_share: float = 0.05
    proposal: AbstractPosterior | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        check_settings(self, correction=AbstractCorrection, points=AbstractPointSet)
        if self.embedding is not None:
            check_kinds(self, embedding=Embedding)
        self._check_proposal()
        if self.correction.num_atoms > self.training.batch_size:
            raise InvalidInputError(
                f"num_atoms must be at most the batch size, got {self.correction.num_atoms} and"
                f" {self.training.batch_size}."
            )

    def _check_proposal(self) -> None:
        """Refuse a proposal that the correction cannot correct for."""
        if self.proposal is None:
            return
        if not isinstance(self.proposal, AbstractPosterior):
            raise InvalidTypeError(
                "proposal must be a posterior, as infer returns it, or None, got"
                f" {describe(self.proposal)}."
            )
        if not self.correction.any_proposal:
            raise InvalidInputError(
                f"{type(self.correction).__name__} starts from the prior: to start from a"
                " posterior, write correction=AtomicProposals()."
            )

    def fit(
        self,
        key: Array,
        model: PrivateModel,
        *,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> AmortisedPosterior:
        """The posterior learnt once, over the whole prior, for any number of observations.

        Args:
            key: JAX PRNG key.
            model: What to simulate from; its mechanism is part of what is learnt.
            executor: Runs simulators written in Python.
            progress: Whether to show a progress bar.

        Returns:
            q(theta | s_dp), whose `posterior(observed)` costs milliseconds.

        Raises:
            InvalidInputError: If `num_rounds` is not 1, since later rounds need one observation, or
                the budget allows no simulation.
        """
        check_model("fit(key, model)", model)
        if self.num_rounds != 1:
            raise InvalidInputError(
                "Later rounds look at one observation, so fit works in one round, got"
                f" num_rounds={self.num_rounds}: write PrivatePosteriorEstimation(num_rounds=1,"
                f" num_simulations={self.num_rounds * self.num_simulations})."
            )
        self.check(model)
        run = self.start(model, np.zeros(0), executor=executor, progress=progress)
        inference = PosteriorRounds(self, as_key(key), run, None)
        with run.progress():
            with something_to_learn():
                inference.simulate(0)
            train_all([inference], 0)
        z, learner = inference.simulations.z, inference.learner
        return AmortisedPosterior(
            model,
            learner.density,
            run.report(exact=False),
            conditions=inference.task.bank.values[:, 0].copy(),
            bounds=np.stack([z.min(axis=0), z.max(axis=0)]),
            estimator=learner.spec(),
        )

    def rounds_of_many(
        self, keys: Sequence[Array], models: Sequence[PrivateModel], observed: Sequence[Any]
    ) -> Iterator[list[LearnedPosterior]]:
        """Several independent inferences whose networks train side by side under `vmap`; on a GPU
        twenty take hardly longer than one.

        Args:
            keys: One JAX PRNG key for each.
            models: Their models, which may differ in the numbers of their mechanisms, not in kind.
            observed: One observation (kp,) for each.

        Yields:
            One list of posteriors per round.
        """
        checked = [
            self._checked(model, values) for model, values in zip(models, observed, strict=True)
        ]
        runs = [self.start(model, values) for model, values in zip(models, checked, strict=True)]
        yield from self._many(keys, runs)

    def _rounds(self, key: Array, run: InferenceRun) -> Iterator[LearnedPosterior]:
        for (posterior,) in self._many([key], [run]):
            yield posterior

    def _many(
        self, keys: Sequence[Array], runs: Sequence[InferenceRun]
    ) -> Iterator[list[LearnedPosterior]]:
        """The rounds of several inferences, whose networks train together."""
        inferences = [
            PosteriorRounds(self, as_key(key), run, run.observed)
            for key, run in zip(keys, runs, strict=True)
        ]
        for index in range(self.num_rounds):
            if not self._simulated(inferences, index):
                return
            train_all(inferences, index)
            yield [one.posterior(index) for one in inferences]
            if not all(run.stop.finished for run in runs):
                return

    def _simulated(self, inferences: list[PosteriorRounds], index: int) -> bool:
        """Simulate one round; False where the budgets end before it."""
        try:
            for one in inferences:
                one.simulate(index)
        except OutOfBudget:
            if index == 0:
                raise
            return False
        if index + 1 < self.num_rounds:
            for one in inferences:
                one.run.stop_if_spent()
        return True
