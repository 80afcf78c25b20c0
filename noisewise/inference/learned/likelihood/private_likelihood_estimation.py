"""SPLE: the likelihood of private statistics, learnt from simulated ones."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key
from noisewise._core.keys import fold_in, split
from noisewise.estimators.coordinate_mixtures import autoregressive_mixture
from noisewise.estimators.training import Training
from noisewise.inference.contract.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.learned.common.learner import Learner
from noisewise.inference.learned.common.learning import (
    check_kinds,
    check_model,
    check_settings,
    first_parameters,
    something_to_learn,
)
from noisewise.inference.learned.likelihood.learned_likelihood import (
    LearnedLikelihood,
    LikelihoodDraws,
    posterior_of,
)
from noisewise.inference.learned.likelihood.likelihood_task import (
    LikelihoodTask,
    learned_likelihood,
)
from noisewise.inference.learned.likelihood.target_space import TargetSpace
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.point_sets import AbstractPointSet, ScrambledSobol
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior

_TRAINING = Training(learning_rate=1e-2, batch_size=200)
"""Smooth networks bear larger batches and ten times the usual rate: as accurate, in less time."""
_WARMUP_TO_PROPOSE = 3
"""Moves before particles are drawn as proposals, which need not have forgotten where they were."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateLikelihoodEstimation(AbstractSequentialMethod):
    r"""Learn q(s_dp | theta) from simulated pairs, and draw from q(s_dp | theta) pi(theta): PLE
    with one round, SPLE with several.

        min over q of   1/N sum_i 1/M sum_m  -log q(tau(v_im; s_i) | theta_i),

        s_i = s(x_i),   x_i ~ f(. | theta_i)

    The inner average is over M = `num_noise` points v_i of a randomised Sobol set. Simulations are
    kept as s_i, and each is made private `noise_bank` times, as sets of M points, of which every
    epoch takes one at random. Whatever law the theta_i come from, the minimum is the likelihood, so
    that later rounds draw them from the posterior of the round before, and learn from all rounds at
    once. Lattices are spread over their cells; what a quadratic Gaussian regression on theta
    explains is taken out before a flow (`estimator`) learns the rest.

    Use it where the mechanism can only be sampled and the posterior is more complicated than the
    likelihood, or for a maximum likelihood estimate. `nw.inference.as_in_paper("sple")` has the
    setting of the paper; the default network needs a fraction of its time, since a likelihood near
    one observation is simple. Five rounds come near the observation also where the posterior is a
    fiftieth as wide as the prior.

    The posterior is drawn by particles that tempering leads from the prior to it, so that modes
    have the mass that the learnt likelihood gives them; agreement of 16 populations of them, as
    R-hat, and effective size are in the report. `maximum_likelihood()` is the estimate without
    prior, `likelihood` the learnt density.

    Args:
        num_rounds: Rounds; one learns over the whole prior, more focus on the observation.
        num_simulations: Simulations per round; the first round needs enough of them to learn the
            likelihood over the whole prior roughly.
        estimator: Factory (key, target_dim, condition_dim) -> network; by default mixtures of
            normal laws, one coordinate after another.
        num_members: Networks whose average is the density.
        num_noise: M, noisy versions of each simulation per step: 1, because each step asks for
            densities of as many targets.
        noise_bank: Noisy versions of each simulation kept in memory, a multiple of `num_noise`.
        points: The point sets: `ScrambledSobol()`, which cover the noise evenly, or
            `IndependentUniforms()`.
        training: Optimiser and early stopping, see `nw.estimators.Training`; by default batches of
            200 at a rate of .01, which `dataclasses.replace(method.training, max_epochs=50)`
            keeps.
        validation_share: Share of the simulations that decide when to stop; 5% as in the paper.
        num_chains: Particles, all moved at once; a thousand make shares of modes known to
            some .05.
        num_warmup: Moves of each particle before the first draw; tempering has brought them there,
            so that few are needed.
        target_ess: Effective draws wanted. Where particles stay in their modes, or moves gain
            little, 400 are enough; the report warns below that.
        proposal: A posterior that the first round draws from instead of the prior.
        max_simulations: Budget of simulations; None has no limit.
        max_minutes: Budget of time; None has no limit.

    Reference: Papamakarios, Sterratt and Murray (2019), Sequential neural likelihood,
    arXiv:1805.07226, for likelihoods without privacy noise.

    >>> import functools, jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> small = functools.partial(
    ...     nw.estimators.mixture_density_network, num_components=2, num_units=16, num_hidden=1
    ... )
    >>> quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
    >>> chains = {"num_chains": 20, "num_warmup": 20, "target_ess": 100}
    >>> settings = {"estimator": small, "training": quick, **chains}
    >>> method = PrivateLikelihoodEstimation(num_rounds=2, num_simulations=100, **settings)
    >>> key = jax.random.key(0)
    >>> posterior = method.infer(key, problem.model, problem.observed, progress=False)
    >>> posterior.report.num_simulations, posterior.maximum_likelihood().shape
    (600, (1,))
    """

    slug: ClassVar[str] = "sple"
    serves_unknown_parameters: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SAMPLE})
    needs_noise: ClassVar[bool] = True
    instead: ClassVar[str] = "Use ImportanceSampling or ExactSMC, which only need its density."

    num_rounds: int = 5
    num_simulations: int = 2000
    estimator: Callable[..., Any] = autoregressive_mixture
    num_members: int = 1
    num_noise: int = 1
    noise_bank: int = 64
    points: AbstractPointSet = dataclasses.field(default_factory=ScrambledSobol)
    training: Training = _TRAINING
    validation_share: float = 0.05
    num_chains: int = 1024
    num_warmup: int = 10
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
        """The likelihood learnt once, over the whole prior or near `proposal`, for any number of
        observations.

        Args:
            key: JAX PRNG key.
            model: What to simulate from; its mechanism is part of what is learnt.
            executor: Runs simulators written in Python.
            progress: Whether to show a progress bar.

        Returns:
            q(s_dp | theta), learnt in one training from `num_rounds` * `num_simulations` draws.

        Raises:
            InvalidInputError: If the budget allows no simulation.
        """
        check_model("fit(key, model)", model)
        self.check(model)
        run = self.start(model, np.zeros(0), executor=executor, progress=progress)
        learner, fit = self._learner(run)
        start_key, simulate_key, learn_key = split(as_key(key), 3)
        with run.progress():
            with something_to_learn():
                num = learner.simulations.capacity
                z = first_parameters(start_key, model, self.proposal, num)
                _simulate(learner, simulate_key, z, 0)
            return learner.learn(learn_key, 0, fit)

    def _rounds(self, key: Array, run: InferenceRun) -> Iterator[LikelihoodDraws]:
        learner, fit = self._learner(run)
        first_key, end_key, key = split(key, 3)
        z = first_parameters(first_key, run.model, self.proposal, self.num_simulations)
        likelihood: LearnedLikelihood | None = None
        last = False
        for number in range(self.num_rounds):
            simulate_key, look_key, learn_key, chain_key = split(fold_in(key, number), 4)
            try:
                s = _simulate(learner, simulate_key, z, number)
                run.check_time()
            except OutOfBudget:
                if likelihood is None:
                    raise
                break
            if number == 0:
                run.look_at_observation(look_key, s if self.proposal is None else None)
            warm_up = (lambda untrained: untrained.precompile(run.observed)) if not number else None
            last = number + 1 == self.num_rounds
            likelihood = learner.learn(learn_key, number, fit, warm_up=warm_up)
            found = likelihood.populations(run.observed)
            num_warmup = None if last else min(_WARMUP_TO_PROPOSE, self.num_warmup)
            found.start(chain_key, run, num_warmup=num_warmup, finds_shares=last)
            if last or not run.stop.finished:
                break
            z = found.chosen(self.num_simulations)
            yield posterior_of(run, likelihood, found, last=False)
        if not last:  # the time or the simulations ended; these particles only proposed
            found = likelihood.populations(run.observed)  # type: ignore[union-attr]
            found.start(fold_in(end_key, 1), run)
        found.finish(end_key, run)
        yield posterior_of(run, likelihood, found, last=True)  # type: ignore[arg-type]

    def _learner(
        self, run: InferenceRun
    ) -> tuple[Learner[TargetSpace], Callable[[], LearnedLikelihood]]:
        """What learns, and what makes the learnt likelihood of it."""
        learner = Learner(LikelihoodTask(self, run), run, self, self.estimator)
        return learner, functools.partial(learned_likelihood, self, learner)

    @property
    def chain_settings(self) -> dict[str, int]:
        """How the posterior is drawn; one segment of the chains proposes a round's parameters."""
        return {
            "num_chains": self.num_chains,
            "num_warmup": self.num_warmup,
            "length": max(4, -(-self.num_simulations // self.num_chains)),
            "target_ess": self.target_ess,
        }


def _simulate(
    learner: Learner[TargetSpace], key: Array, z: Float[np.ndarray, "n p"], number: int
) -> Float[np.ndarray, "m k"]:
    """The simulations of one round, and their noisy versions."""
    simulate_key, noise_key = split(key)
    return learner.simulate(simulate_key, z, number, noise_key=noise_key)
