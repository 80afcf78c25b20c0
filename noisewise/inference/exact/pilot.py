"""What chains need before they start: a rough posterior, and how noisy likelihood estimates are
there.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import ndtri

from noisewise._core.arrays import Array
from noisewise._core.keys import split
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.exact.pseudo_marginal import log_mean_exp
from noisewise.inference.exact.weighted_draws import (
    PRIOR_SHARE,
    ImportanceDraws,
    UnconstrainedPrior,
    relative_variance,
)
from noisewise.posteriors import Kind
from noisewise.posteriors.base import AbstractPosterior
from noisewise.samplers.adaptive_importance import Proposal, fitted_proposal

_NUM_STAGES = 4
"""Stages of the pilot: the prior, and three proposals fitted to what came before."""

_NUM_PER_STAGE = 4000
"""Simulations of a stage: as many as `ImportanceSampling` adapts with."""

_MIN_PER_PARAMETER = 10
"""Draws per parameter below which no proposal is fitted: its covariance would be mostly noise."""

_NUM_PLACES = 32
"""Draws of the pilot at which the noise of the likelihood is measured."""

_NUM_REPEATS = (64, 512, 2048)
"""Simulations at each place, tried in turn: the next only if the ones before do not suffice."""

_MIN_GROUPS = 4
"""Estimates at each place that a variance is measured from, at least."""

_MAX_VARIANCE = 2.0
"""Variance of log L-hat that is small enough: between 1 and 3 chains cost least for each effective
draw (Doucet, Pitt, Deligiannidis and Kohn 2015).
"""


@dataclasses.dataclass(frozen=True)
class Pilot:
    """Importance draws from an adapted proposal, and a root (p, p) of the covariance they
    suggest.
    """

    draws: ImportanceDraws
    root: np.ndarray

    @property
    def hopeless(self) -> bool:
        """Whether no simulation can have led to the observation."""
        return self.draws.effective_size == 0.0

    def starts(self, rng: np.random.Generator, num: int) -> np.ndarray:
        """Draws z (num, d) in proportion to their weights."""
        return self.draws.z[rng.choice(self.draws.num, num, p=self.draws.weights)]

    def posterior(self, run: InferenceRun) -> AbstractPosterior:
        """The draws themselves, if nothing better came of them."""
        if self.hopeless:
            run.warn(Kind.PILOT_IMPOSSIBLE, num=self.draws.num)
            return run.draws(run.model.prior.constrain(self.draws.z), self.draws.s, exact=False)
        run.warn(Kind.CHAINS_NOT_STARTED)
        return self.draws.posterior()


def run_pilot(key: Array, run: InferenceRun) -> Pilot:
    """Importance sampling from the prior and three adapted proposals, each with at most a tenth of
    the simulations left.

    Raises:
        OutOfBudget: If there is not a single draw.
    """
    prior = UnconstrainedPrior(run.model.prior)
    proposal: Proposal = prior
    pilot: Pilot | None = None
    with contextlib.suppress(OutOfBudget):
        for stage, stage_key in enumerate(split(key, _NUM_STAGES)):
            draws = ImportanceDraws(run, proposal)
            draw_key, look_key = split(stage_key)
            draws.add(
                draw_key,
                (
                    _NUM_PER_STAGE
                    if run.remaining is None
                    else min(max(run.remaining // 10, 100), _NUM_PER_STAGE)
                ),
            )
            if stage == 0:
                run.look_at_observation(look_key, draws.s)
            run.record(pilot=stage, effective_size=draws.effective_size)
            if draws.num >= _MIN_PER_PARAMETER * draws.z.shape[1] and draws.effective_size > 0.0:
                fitted = fitted_proposal(draws.z, draws.weights, prior, PRIOR_SHARE)
                proposal, pilot = fitted, Pilot(draws, np.linalg.cholesky(fitted.scale))
            pilot = pilot or Pilot(draws, np.eye(draws.z.shape[1]))
    if pilot is None:
        raise OutOfBudget(run.stop)
    return pilot


class Inner(NamedTuple):
    """How the likelihood is estimated.

    Attributes:
        num: Simulations in an estimate.
        variance: Variance of its logarithm.
        relative_variance: 1 + rv of a single simulation.
    """

    num: int
    variance: float
    relative_variance: float


def choose_inner(
    key: Array, rng: np.random.Generator, run: InferenceRun, pilot: Pilot, given: int | None = None
) -> Inner | None:
    """How many simulations to estimate the likelihood from: the smallest power of two, up to 512,
    for which log L-hat has a variance of at most 2.

    At 32 draws of the pilot up to 2048 simulations are divided into at least 4 groups.

    Args:
        key: A PRNG key, for simulations.
        rng: A generator, which chooses the places.
        run: The run.
        pilot: Where the places are drawn from.
        given: A number to measure instead of choosing one.

    Returns:
        The number and how noisy it is; None if the budget is too small to measure anything.
    """
    theta = run.model.prior.constrain(pilot.starts(rng, _NUM_PLACES))
    log_eta = np.empty((_NUM_PLACES, 0))
    chosen = None
    for repeats, repeat_key in zip(
        _NUM_REPEATS, jax.random.split(key, len(_NUM_REPEATS)), strict=True
    ):
        more = repeats - log_eta.shape[1]
        if run.remaining is not None and _NUM_PLACES * more > run.remaining // 5:
            break
        s = run.all_statistics(repeat_key, np.repeat(theta, more, axis=0))
        log_eta = np.concatenate([log_eta, run.log_eta(s).reshape(_NUM_PLACES, more)], axis=1)
        candidates = (
            [2**power for power in range(10) if _MIN_GROUPS * 2**power <= repeats]
            if given is None
            else [given]
        )
        if _MIN_GROUPS * candidates[0] > repeats:
            continue
        for num_inner in candidates:
            chosen = Inner(
                num_inner, variance_of_estimates(log_eta, num_inner), relative_variance(log_eta)
            )
            if chosen.variance <= _MAX_VARIANCE:
                return chosen
    return chosen


def variance_of_estimates(log_eta: np.ndarray, num_inner: int) -> float:
    r"""The variance sigma^2 of log L-hat from M simulations.

    It is that of the normal law with the same chance to accept a second estimate at the same
    theta, the mean over places of

        E[min(L, L')] / E[L]  =  2 Phi(-sigma / sqrt 2).

    This is what matters to chains: rare estimates near 0 hardly affect them, though they would
    dominate the variance itself.

    Args:
        log_eta: log eta, shape (places, simulations).
        num_inner: M, how many simulations make an estimate.
    """
    groups = log_eta.shape[1] // num_inner
    estimates = log_mean_exp(
        log_eta[:, : groups * num_inner].reshape(len(log_eta), groups, num_inner)
    )
    estimates = np.sort(estimates[np.isfinite(estimates).any(axis=1)], axis=1)
    if not len(estimates):
        return float("inf")
    estimates = np.exp(estimates - estimates[:, -1:])
    # in ascending order the k-th is the smaller one of its pairs with all that follow
    smaller = 2.0 * (estimates * np.arange(groups - 1, -1, -1)).sum(axis=1)
    chance = np.mean(smaller / ((groups - 1) * estimates.sum(axis=1)))
    return float(2.0 * ndtri(min(chance, 1.0) / 2.0) ** 2)
