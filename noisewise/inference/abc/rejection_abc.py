"""Rejection: simulate from the prior and keep what agrees with the observation."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np

from noisewise._core.arrays import Array, in_blocks, integer, number
from noisewise._core.keys import generator, split
from noisewise._core.weights import MIN_DRAWS
from noisewise.errors import InvalidInputError, SimulationError
from noisewise.inference.abc.distances import (
    AbstractDistance,
    Euclidean,
    Ruler,
    check_distance,
)
from noisewise.inference.abc.proposals import PILOT, Batch, Harvest, Nearest, collect
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.run import InferenceRun
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Kind

_EXACT = frozenset({Capability.DENSITY, Capability.BOUND})
"""What a mechanism must have for exact rejection."""

_DEFAULT_QUANTILE = 0.01
"""Share of simulations kept where the mechanism has no density or bound."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RejectionABC(AbstractMethod):
    r"""Draws from the prior, kept if their simulation agrees with the observation.

    theta ~ pi and x ~ f(. | theta) are simulated until enough are kept. Without `tolerance` and
    `quantile` the method is exact (Gong 2022): theta is kept with probability

        eta(s_dp | s(x)) / sup_s eta(s_dp | s),

    so the draws are independent and have the posterior as their law, and so have the s(x) kept
    with them. A mechanism without density or bound gets `quantile=0.01` instead, and the report
    says so.

    With `tolerance`, noise is added to s(x) and theta is kept if the distance to the observation
    is at most `tolerance`: draws from pi(theta | distance <= tolerance), which is the posterior
    only in the limit. With `quantile`, the nearest share of num_draws / quantile simulations is
    kept.

    Simulations per draw grow like the inverse of the prior probability of the observation:
    ImportanceSampling and ExactSMC need far fewer where epsilon is large.

    Args:
        tolerance: The largest distance at which theta is kept.
        quantile: The share of simulations to keep, the nearest ones.
        num_draws: Draws wanted.
        distance: How the distance between private statistics is measured.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> method = RejectionABC(num_draws=500)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.report.exact, posterior.theta.shape
    (True, (500, 1))
    >>> posterior.report.diagnostics["acceptance"] > 0.01
    True
    """

    slug: ClassVar[str] = "rejection-abc"
    serves_unknown_parameters: ClassVar[bool] = True

    tolerance: float | None = None
    quantile: float | None = None
    num_draws: int = 1000
    distance: AbstractDistance = dataclasses.field(default_factory=Euclidean)
    max_simulations: int | None = 1_000_000

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        number("tolerance", at_least=0.0, optional=True)(self.tolerance)
        number("quantile", above=0.0, below=1.0, optional=True)(self.quantile)
        integer("num_draws", at_least=1)(self.num_draws)
        check_distance(self.distance)
        if self.tolerance is not None and self.quantile is not None:
            raise InvalidInputError(
                "Give tolerance= (keep what is that near) or quantile= (keep that share, the"
                " nearest), not both; without them RejectionABC is exact."
            )
        if self.max_simulations is None and self.max_minutes is None and self.quantile is None:
            raise InvalidInputError(
                "RejectionABC may find nothing to accept and would then never end: set"
                " max_simulations or max_minutes."
            )

    def _refusal(self, model: PrivateModel) -> str | None:
        able, name = model.mechanism.capabilities, type(model.mechanism).__name__
        if Capability.SAMPLE in able or (self._by_default and able >= _EXACT):
            return None
        if self._by_default:
            return (
                "RejectionABC needs a mechanism with log_prob and log_prob_bound, or with sample;"
                f" {name} has neither. Use ImportanceSampling, which needs the density alone."
            )
        return (
            f"RejectionABC with tolerance or quantile needs a mechanism with sample, which {name}"
            " lacks. Leave them out to reject by the density, or use ImportanceSampling."
        )

    @property
    def _by_default(self) -> bool:
        return self.tolerance is None and self.quantile is None

    def _infer(self, key: Array, run: InferenceRun) -> AbstractPosterior:
        first_key, ruler_key, judge_key, key = split(key, 4)
        theta, s = run.prior_draws(first_key, PILOT)
        rule, nearest = self._rule(ruler_key, run, s), Nearest()

        def judged(key: Array, theta: np.ndarray, s: np.ndarray) -> Batch:
            accepted, scores = rule.judge(key, s)
            nearest.add(scores, theta, s)
            return accepted, (theta, s, scores)

        def attempt(key: Array, num: int) -> Batch:
            theta_key, simulation_key, key = split(key, 3)
            theta = run.model.prior.sample(theta_key, num)
            s = run.statistics(simulation_key, theta)
            return judged(key, theta[: len(s)], s)

        wanted = math.ceil(self.num_draws / rule.share)
        harvest = collect(key, attempt, wanted, first=judged(judge_key, theta, s), guess=1.0)
        if harvest.num_accepted and len(nearest.columns()[0]):
            return _accepted(run, rule, harvest)
        return _nothing_accepted(run, rule, harvest.num_tried, nearest)

    def _rule(self, key: Array, run: InferenceRun, s: np.ndarray) -> _ByDensity | _ByDistance:
        mechanism = run.model.mechanism
        if self._by_default and mechanism.capabilities >= _EXACT:
            return _ByDensity(run, float(mechanism.log_prob_bound(run.observed)))
        if self._by_default:
            run.warn(Kind.NEAREST_KEPT, mechanism=type(mechanism).__name__, share=_DEFAULT_QUANTILE)
        ruler = Ruler.fitted(key, self.distance, mechanism, run.observed, s)
        if self.tolerance is not None:
            return _ByDistance(ruler, self.tolerance, 1.0)
        return _ByDistance(ruler, math.inf, self.quantile or _DEFAULT_QUANTILE)


@dataclasses.dataclass(frozen=True)
class _ByDensity:
    """Accepts with probability exp(-score), where the score is log sup eta - log eta."""

    run: InferenceRun
    log_bound: float
    share: ClassVar[float] = 1.0

    def judge(self, key: Array, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = self.log_bound - in_blocks(lambda _, rows: self.run.log_eta(rows), s)
        if scores.min() < -1e-6:
            raise InvalidInputError(
                f"The mechanism's log_prob_bound is {-scores.min():.4g} below a log_prob that it"
                " should bound: correct it, or use ImportanceSampling, which needs no bound."
            )
        return generator(key).standard_exponential(len(s)) >= scores, scores


@dataclasses.dataclass(frozen=True)
class _ByDistance:
    """Accepts within a distance, which is the score; in the end only the nearest `share` is
    kept.
    """

    ruler: Ruler
    tolerance: float
    share: float

    def judge(self, key: Array, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distances = self.ruler.distances(key, s)[:, 0]
        return distances <= self.tolerance, distances


def _accepted(
    run: InferenceRun, rule: _ByDensity | _ByDistance, harvest: Harvest
) -> AbstractPosterior:
    theta, s, scores = harvest.columns()
    acceptance = rule.share * harvest.acceptance
    run.diagnostics["acceptance"] = acceptance
    run.record(acceptance=acceptance)
    if not harvest.complete and len(theta) * rule.share < MIN_DRAWS:
        run.warn(Kind.FEW_DRAWS_ACCEPTED, num=harvest.num_tried)
    if isinstance(rule, _ByDensity):
        return run.draws(theta, s, exact=True)
    if rule.share < 1.0:
        # the small term keeps float64 from taking one off a whole number
        kept = np.argsort(scores, kind="stable")[
            : max(1, math.floor(rule.share * len(scores) + 1e-6))
        ]
        theta, scores = theta[kept], scores[kept]
    run.diagnostics["tolerance"] = min(rule.tolerance, float(scores.max()))
    return run.draws(theta[np.isfinite(scores)], exact=False)


def _nothing_accepted(
    run: InferenceRun, rule: _ByDensity | _ByDistance, num_tried: int, nearest: Nearest
) -> AbstractPosterior:
    theta, s, scores = nearest.columns()
    if not len(theta):
        raise SimulationError(
            f"None of {num_tried:,} simulations can be compared with the observation: they failed"
            " (NaN) or exclude it."
        )
    run.diagnostics["acceptance"] = 0.0
    run.record(acceptance=0.0)
    if isinstance(rule, _ByDensity):
        run.warn(Kind.NONE_ACCEPTED, num=num_tried, kept=len(theta))
        return run.weighted(theta, -scores, s, exact=False)
    run.diagnostics["tolerance"] = float(scores.max())
    limits = {"tolerance": rule.tolerance, "farthest": float(scores.max())}
    run.warn(Kind.NONE_WITHIN_TOLERANCE, num=num_tried, kept=len(theta), **limits)
    return run.draws(theta, exact=False)
