"""SPPE: the posterior learnt from simulated private data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, ClassVar

import jax
import numpy as np

from noisewise._core.arrays import Array, as_key, describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.estimators.flows import neural_spline_flow
from noisewise.estimators.training import Training
from noisewise.inference.contract.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.learned.common.learning import check_settings
from noisewise.inference.learned.posterior.amortised_posterior import AmortisedPosterior
from noisewise.inference.learned.posterior.corrections import AbstractCorrection, TruncatedProposals
from noisewise.inference.learned.posterior.posterior_learner import PosteriorLearner, train_together
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.point_sets import AbstractPointSet, ScrambledSobol
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Kind
from noisewise.posteriors.base import AbstractPosterior
from noisewise.posteriors.learned import LearnedPosterior

_KEPT = 4000
_POSTERIOR = 2**30
_MOST_OUTSIDE = 0.05
"""The share of the mass that may lie where nothing was simulated before a reader must know."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivatePosteriorEstimation(AbstractSequentialMethod):
    r"""Learn q(theta | s_dp) from simulated pairs: PPE with one round, SPPE with several.

        min over q of   1/N sum_i 1/M sum_m  -log q(theta_i | tau(v_im; s_i)),      s_i = s(x_i), x_i ~ f(. | theta_i)

    The inner average is over M = `num_noise` points v_i of a randomised net. Simulations are kept
    as s_i, and each is made private `noise_bank` times, as nets of M points, of which every epoch
    takes one at random: privacy noise costs nothing, simulations do. Later rounds simulate where
    the estimate of the round before has its mass, and `correction` keeps them honest:
    `TruncatedProposals()` or the paper's `AtomicProposals()`. Parameters are learnt in
    unconstrained coordinates, so that no mass leaves the prior's support.

    The posterior has a density, `log_prob`, by which `nw.diagnostics.certify` turns it into exact
    draws. `fit` learns one round over the whole prior, for any number of observations. With
    `proposal`, any posterior, the first round draws from that instead of the prior.

    Reference: Xiong, Ju and Zhang, "Simulation-based Bayesian inference from privacy protected
    data", Algorithm 1.

    >>> import functools, jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> small = functools.partial(nw.estimators.mixture_density_network, num_components=2, num_units=16, num_hidden=1)
    >>> quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
    >>> settings = {"estimator": small, "training": quick, "num_noise": 2, "noise_bank": 8}
    >>> method = PrivatePosteriorEstimation(num_rounds=2, num_simulations=100, **settings)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.sample(jax.random.key(1), 10).shape, posterior.log_prob([[0.0]]).shape
    ((10, 1), (1,))
    """

    slug: ClassVar[str] = "sppe"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SAMPLE})
    instead: ClassVar[str] = "Use ImportanceSampling or ExactSMC, which only need its density."

    num_rounds: int = 10
    num_simulations: int = 1000
    correction: AbstractCorrection = dataclasses.field(default_factory=TruncatedProposals)
    estimator: Callable[..., Any] = neural_spline_flow
    num_members: int = 1
    num_noise: int = 8
    noise_bank: int = 128
    points: AbstractPointSet = dataclasses.field(default_factory=ScrambledSobol)
    training: Training = dataclasses.field(default_factory=Training)
    validation_share: float = 0.05
    proposal: AbstractPosterior | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        check_settings(self, correction=AbstractCorrection, points=AbstractPointSet)
        self._check_proposal()
        if self.correction.num_atoms > self.training.batch_size:
            raise InvalidInputError(
                f"num_atoms must be at most the batch size, got {self.correction.num_atoms} and"
                f" {self.training.batch_size}."
            )

    def _check_proposal(self) -> None:
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
        """The posterior learnt once from `num_simulations` draws of the prior, for any observation;
        `num_rounds` must be 1.
        """
        if not isinstance(model, PrivateModel):
            raise InvalidTypeError(
                f"fit(key, model) needs a PrivateModel second, got {describe(model)}."
            )
        if self.num_rounds != 1:
            raise InvalidInputError(
                "Later rounds look at one observation, so fit works in one round, got"
                f" num_rounds={self.num_rounds}: write PrivatePosteriorEstimation(num_rounds=1,"
                f" num_simulations={self.num_rounds * self.num_simulations})."
            )
        self.check(model)
        budgets: dict[str, Any] = {
            "max_simulations": self.max_simulations,
            "max_minutes": self.max_minutes,
        }
        run = InferenceRun(
            self.slug,
            self.settings(),
            model,
            np.zeros(0),
            executor=executor,
            progress=progress,
            **budgets,
        )
        learner = PosteriorLearner(self, as_key(key), run, None)
        with run.progress():
            try:
                learner.simulate(0)
            except OutOfBudget as end:
                raise InvalidInputError(
                    f"There is nothing to learn from: {end}. Allow more."
                ) from None
            train_together([learner], 0)
        z, conditions = learner.simulations.z, learner.bank[:, 0].copy()
        more = {"conditions": conditions, "bounds": np.stack([z.min(axis=0), z.max(axis=0)])}
        return AmortisedPosterior(
            model,
            learner.density,
            run.report(exact=False),
            **more,
            estimator=learner.estimator_spec(),
        )

    def rounds_of_many(
        self, keys: Sequence[Array], models: Sequence[PrivateModel], observed: Sequence[Any]
    ) -> Iterator[list[LearnedPosterior]]:
        """Several independent inferences whose networks train side by side under `vmap`: one list
        of posteriors per round.

        The models may differ in the numbers of their mechanisms, not in kind. On a GPU twenty take
        hardly longer than one.
        """
        checked = [
            self._checked(model, values) for model, values in zip(models, observed, strict=True)
        ]
        works = [self.start(model, values) for model, values in zip(models, checked, strict=True)]
        yield from self._many(keys, works)

    def _rounds(self, key: Array, run: InferenceRun) -> Iterator[LearnedPosterior]:
        for (posterior,) in self._many([key], [run]):
            yield posterior

    def _many(
        self, keys: Sequence[Array], works: Sequence[InferenceRun]
    ) -> Iterator[list[LearnedPosterior]]:
        learners = [
            PosteriorLearner(self, as_key(key), run, run.observed)
            for key, run in zip(keys, works, strict=True)
        ]
        for index in range(self.num_rounds):
            try:
                for learner in learners:
                    learner.simulate(index)
            except OutOfBudget:
                if index == 0:
                    raise
                return
            if index + 1 < self.num_rounds:
                for learner in learners:
                    learner.run.stop_if_spent()
            train_together(learners, index)
            yield [_posterior(learner, index) for learner in learners]
            if any(not learner.run.stop.finished for learner in learners):
                return


def _posterior(learner: PosteriorLearner, index: int) -> LearnedPosterior:
    """The posterior of one round, and how much of it lies where nothing was simulated: mass that
    leaked, or is not learnt yet.
    """
    run, prior = learner.run, learner.run.model.prior
    z = learner.density.sample(
        jax.random.fold_in(learner.key, _POSTERIOR + index), learner.condition, _KEPT
    )
    outside = learner.outside(z)
    run.diagnostics["mass where nothing was simulated"] = outside
    run.withdraw(Kind.MASS_LEAKED)
    if outside > _MOST_OUTSIDE:
        run.warn(Kind.MASS_LEAKED, share=outside)
    theta = prior.constrain(z)
    return LearnedPosterior(
        theta,
        run.model.names,
        run.report(exact=False),
        density=learner.density,
        condition=learner.condition,
        prior=prior,
        estimator=learner.estimator_spec(),
        derived=run.model.derived_quantities(theta),
    )
