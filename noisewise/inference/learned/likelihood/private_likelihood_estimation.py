"""SPLE: the likelihood of private statistics, learnt from simulated ones."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
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
from noisewise.inference.learned.common.learning import check_kinds, check_settings
from noisewise.inference.learned.likelihood.learned_likelihood import (
    LearnedLikelihood,
    LikelihoodDraws,
    posterior_of,
)
from noisewise.inference.learned.likelihood.likelihood_chains import LikelihoodChains
from noisewise.inference.learned.likelihood.likelihood_learner import LikelihoodLearner
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.point_sets import AbstractPointSet, ScrambledSobol
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior

_ESTIMATOR = functools.partial(neural_spline_flow, num_layers=5, num_bins=8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateLikelihoodEstimation(AbstractSequentialMethod):
    r"""Learn q(s_dp | theta) from simulated pairs, and draw from q(s_dp | theta) pi(theta): PLE
    with one round, SPLE with several.

        min over q of   1/N sum_i 1/M sum_m  -log q(tau(v_im; s_i) | theta_i),      s_i = s(x_i), x_i ~ f(. | theta_i)

    The inner average is over M = `num_noise` points v_i of a randomised net. Simulations are kept
    as s_i, and each is made private `noise_bank` times, as nets of M points, of which every epoch
    takes one at random. Whatever law the theta_i come from, the minimum is the likelihood, so that
    later rounds draw them from the posterior of the round before, and learn from all rounds at
    once. Lattices are spread over their cells; what a quadratic Gaussian regression on theta
    explains is taken out before a flow (`estimator`) learns the rest.

    The posterior is drawn by Hamiltonian chains, whose R-hat and effective size are in the report;
    its `maximum_likelihood()` is the estimate without prior, its `likelihood` the learnt density.
    `fit` learns the likelihood over the whole prior, for any number of observations. With
    `proposal`, any posterior, the first round draws from that instead of the prior.

    >>> import functools, jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> small = functools.partial(nw.estimators.mixture_density_network, num_components=2, num_units=16, num_hidden=1)
    >>> quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
    >>> settings = {"estimator": small, "training": quick, "num_chains": 20, "num_warmup": 20, "target_ess": 100}
    >>> method = PrivateLikelihoodEstimation(num_rounds=2, num_simulations=100, **settings)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.report.num_simulations, posterior.maximum_likelihood().shape
    (600, (1,))
    """

    slug: ClassVar[str] = "sple"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SAMPLE})
    instead: ClassVar[str] = "Use ImportanceSampling or ExactSMC, which only need its density."

    num_rounds: int = 10
    num_simulations: int = 1000
    estimator: Callable[..., Any] = _ESTIMATOR
    num_members: int = 1
    num_noise: int = 1
    noise_bank: int = 64
    points: AbstractPointSet = dataclasses.field(default_factory=ScrambledSobol)
    training: Training = dataclasses.field(default_factory=Training)
    validation_share: float = 0.05
    num_chains: int = 100
    num_warmup: int = 50
    target_ess: int = 2000
    proposal: AbstractPosterior | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        check_settings(self, points=AbstractPointSet)
        if self.proposal is not None:
            check_kinds(self, proposal=AbstractPosterior)

    def fit(
        self,
        key: Array,
        model: PrivateModel,
        *,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> LearnedLikelihood:
        """The likelihood learnt once from `num_rounds` * `num_simulations` draws of the prior (or
        of `proposal`), for any observation.
        """
        if not isinstance(model, PrivateModel):
            raise InvalidTypeError(
                f"fit(key, model) needs a PrivateModel second, got {describe(model)}."
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
        learner = LikelihoodLearner(self, run)
        start_key, simulate_key, learn_key = jax.random.split(as_key(key), 3)
        with run.progress():
            try:
                learner.simulate(simulate_key, self._first(start_key, run, learner.capacity), 0)
            except OutOfBudget as end:
                raise InvalidInputError(
                    f"There is nothing to learn from: {end}. Allow more."
                ) from None
            return learner.learn(learn_key, 0)

    def _rounds(self, key: Array, run: InferenceRun) -> Iterator[LikelihoodDraws]:
        learner = LikelihoodLearner(self, run)
        chains = LikelihoodChains(run.model.prior, **self.chain_settings)
        first_key, end_key, key = jax.random.split(key, 3)
        z = self._first(first_key, run, self.num_simulations)
        likelihood: LearnedLikelihood | None = None
        for number_ in range(self.num_rounds):
            simulate_key, look_key, learn_key, chain_key = jax.random.split(
                jax.random.fold_in(key, number_), 4
            )
            try:
                s = learner.simulate(simulate_key, z, number_)
                run.check_time()
            except OutOfBudget:
                if likelihood is None:
                    raise
                break
            if number_ == 0:
                run.look_at_observation(look_key, s if self.proposal is None else None)
            warm_up = (
                (lambda untrained: chains.precompile(untrained.at(run.observed)))
                if number_ == 0
                else None
            )
            likelihood = learner.learn(learn_key, number_, warm_up=warm_up)
            chains.move(chain_key, likelihood.at(run.observed), run)
            z = chains.draws[-self.num_simulations :]
            if number_ + 1 == self.num_rounds or not run.stop.finished:
                break
            yield posterior_of(run, likelihood, chains, last=False)
        chains.finish(end_key, run)
        yield posterior_of(run, likelihood, chains, last=True)  # type: ignore[arg-type]

    def _first(self, key: Array, run: InferenceRun, num: int) -> np.ndarray:
        """z (num, p) of the first round."""
        prior = run.model.prior
        if self.proposal is None:
            return prior.unconstrain(prior.sample(key, num))
        if self.proposal.names != prior.names:
            raise InvalidInputError(
                f"proposal must be a posterior of {', '.join(prior.names)}, got one of"
                f" {', '.join(self.proposal.names)}."
            )
        return prior.unconstrain(self.proposal.sample(key, num))

    @property
    def chain_settings(self) -> dict[str, int]:
        """How the posterior is drawn; one segment of the chains makes the simulations of a round."""
        return {
            "num_chains": self.num_chains,
            "num_warmup": self.num_warmup,
            "length": max(4, -(-self.num_simulations // self.num_chains)),
            "target_ess": self.target_ess,
        }
