"""Sequential Monte Carlo with simulated private statistics: the tolerance falls from round to
round.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from noisewise._core.arrays import Array, describe, in_blocks, integer, number
from noisewise._core.keys import fold_in, split
from noisewise._core.weights import effective_size, normalised_by_largest
from noisewise.errors import InvalidTypeError, SimulationError
from noisewise.inference.abc.distances import (
    AbstractDistance,
    Euclidean,
    Ruler,
    check_distance,
)
from noisewise.inference.abc.proposals import (
    PILOT,
    Batch,
    Harvest,
    KernelProposal,
    Nearest,
    PriorProposal,
    collect,
)
from noisewise.inference.abc.tolerances import AbstractTolerance, QuantileDecay
from noisewise.inference.contract.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.contract.run import InferenceRun
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import Kind, StopKind, WeightedSamples
from noisewise.priors.prior import Prior
from noisewise.samplers.adaptive_importance import Proposal


@dataclasses.dataclass(frozen=True, kw_only=True)
class SMCABC(AbstractSequentialMethod):
    r"""The paper's algorithm 3, with N = `num_particles` and tolerances e_1 > e_2 > ... on the
    distance rho.

    Round 1: theta ~ pi, kept if rho(s_dp', s_dp) <= e_1 for s_dp' simulated at theta, until N are.
    Round t: theta* from the population by its weights W, theta' ~ N(theta*, 2 Cov_W) in
    unconstrained coordinates, kept if rho <= e_t; after a rejection theta* is drawn again. Then

        W_i ~ pi(theta_i) / sum_j W_j N(theta_i; theta_j, 2 Cov_W)

    with the Jacobian of the coordinates in pi, so that the weighted particles follow pi(theta |
    rho <= e_t) (Beaumont et al. 2009; Filippi et al. 2013 for the covariance), which is the
    posterior only in the limit of a small tolerance. Below an effective size of N/2 the population
    is resampled before it proposes.

    `num_noise` = M > 1 adds M draws of noise to each simulated s: simulations are expensive, noise
    is cheap. theta is kept if K >= 1 of them come within the tolerance, and W_i is multiplied by
    K_i / M. Given s this has the mean P(rho <= e_t | s), as for M = 1, so the particles follow the
    same law, while far fewer simulations are lost.

    `tolerance` is `QuantileDecay(0.5)` or, as in the paper, `GeometricDecay(0.5, 0.7)`. The rounds
    end after `num_rounds`, at `final_tolerance`, when the tolerance can fall no further, or when
    the share of proposals kept is below `min_acceptance`. A round that cannot be completed gives
    the particles of the round before, with the reason in the report.

    Args:
        num_particles: Particles in each round.
        tolerance: The schedule of tolerances.
        num_rounds: Rounds, at most; None for no limit.
        final_tolerance: The tolerance at which the rounds end; None for none.
        distance: How the distance between private statistics is measured.
        num_noise: Draws of noise for each simulation.
        min_acceptance: The share of proposals kept below which the rounds end.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> method = SMCABC(num_particles=300, num_rounds=4)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> len(posterior.report.rounds), posterior.effective_size > 150
    (4, True)
    >>> posterior.report.diagnostics["tolerance"] < 0.3
    True
    """

    slug: ClassVar[str] = "smc-abc"
    serves_unknown_parameters: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SAMPLE})
    instead: ClassVar[str] = "Use ImportanceSampling or ExactSMC, which need its density instead."

    num_particles: int = 1000
    tolerance: AbstractTolerance = dataclasses.field(default_factory=lambda: QuantileDecay(0.5))
    num_rounds: int | None = None
    final_tolerance: float | None = None
    distance: AbstractDistance = dataclasses.field(default_factory=Euclidean)
    num_noise: int = 1
    min_acceptance: float = 1e-3
    max_simulations: int | None = 500_000

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        integer("num_particles", at_least=10)(self.num_particles)
        integer("num_rounds", at_least=1, optional=True)(self.num_rounds)
        number("final_tolerance", at_least=0.0, optional=True)(self.final_tolerance)
        integer("num_noise", at_least=1)(self.num_noise)
        number("min_acceptance", above=0.0, below=1.0)(self.min_acceptance)
        check_distance(self.distance)
        if not isinstance(self.tolerance, AbstractTolerance):
            raise InvalidTypeError(
                "tolerance must be a schedule, such as GeometricDecay(0.5, 0.7) or"
                f" QuantileDecay(0.5), got {describe(self.tolerance)}. For one fixed tolerance use"
                " RejectionABC(tolerance=...)."
            )

    def _rounds(self, key: Array, run: InferenceRun) -> Iterator[WeightedSamples]:
        start_key, key = split(key)
        proposal: Proposal = PriorProposal(run.model.prior)
        search = _Search.started(start_key, self, run, proposal)
        tolerance = max(self.tolerance.at(1, search.first_distances), self.final_tolerance or 0.0)
        population: _Population | None = None
        for t in itertools.count(1):
            propose_key, resample_key = split(fold_in(key, t))
            harvest = search.within(propose_key, tolerance, proposal, population)
            if not harvest.complete:
                run.record(
                    round=t,
                    tolerance=tolerance,
                    acceptance=harvest.acceptance,
                    accepted=harvest.num_accepted,
                )
                yield _posterior(run, search.left_with(tolerance, harvest, population))
                return
            population = _weighed(run.model.prior, proposal, tolerance, harvest)
            sizes = {
                "acceptance": population.acceptance,
                "effective_size": population.effective_size,
            }
            run.record(round=t, tolerance=tolerance, **sizes)
            yield _posterior(run, population)
            following = self._following(t, population)
            if t == self.num_rounds or following >= tolerance:
                return
            tolerance, proposal = (
                following,
                KernelProposal.fitted(resample_key, population.z, population.weights),
            )

    def _following(self, t: int, population: _Population) -> float:
        """The tolerance after round t: below that of round t if any particle is nearer, but never
        below the final one.
        """
        tolerance = self.tolerance.at(t + 1, population.distances, population.weights)
        if tolerance >= population.tolerance:
            nearer = population.distances[population.distances < population.tolerance]
            tolerance = float(nearer.max()) if nearer.size else population.tolerance
        return max(tolerance, self.final_tolerance or 0.0)


@dataclasses.dataclass(frozen=True)
class _Population:
    """The particles of one round.

    Attributes:
        theta: Parameters, shape (n, d).
        z: Unconstrained parameters, shape (n, p).
        log_weights: Log weights, shape (n,), up to a constant.
        distances: Distances from the observation, shape (n,).
        tolerance: The tolerance they were accepted within.
        acceptance: The share of proposals accepted.
    """

    theta: np.ndarray
    z: np.ndarray
    log_weights: np.ndarray
    distances: np.ndarray
    tolerance: float
    acceptance: float

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights, shape (n,)."""
        return normalised_by_largest(self.log_weights)

    @property
    def effective_size(self) -> float:
        """1 / sum W^2."""
        return effective_size(self.weights)


# One round ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Search:
    """Simulates at proposals, and keeps what comes within a tolerance of the observation.

    Attributes:
        settings: The method.
        run: The run.
        ruler: Measures distances.
        pilot: theta, z and distances of prior draws, which fixed the ruler and begin the first
            round.
        nearest: What to show if nothing is accepted.
    """

    settings: SMCABC
    run: InferenceRun
    ruler: Ruler
    pilot: tuple[np.ndarray, np.ndarray, np.ndarray]
    nearest: Nearest

    @staticmethod
    def started(key: Array, settings: SMCABC, run: InferenceRun, proposal: Proposal) -> _Search:
        """A search that begins with a pilot from the prior."""
        pilot_key, look_key, ruler_key, noise_key = split(key, 4)
        theta, z, s = _simulated(pilot_key, run, proposal, max(settings.num_particles, PILOT))
        run.look_at_observation(look_key, s)
        ruler = Ruler.fitted(ruler_key, settings.distance, run.model.mechanism, run.observed, s)
        distances = ruler.distances(noise_key, s, settings.num_noise)
        if not np.isfinite(distances).any():
            raise SimulationError(
                f"All of the first {len(s):,} simulations, at prior draws, failed (NaN)."
            )
        return _Search(settings, run, ruler, (theta, z, distances), Nearest())

    @property
    def first_distances(self) -> np.ndarray:
        """Distances of the pilot, with one draw of noise each, shape (n,)."""
        return self.pilot[-1][:, 0]

    def within(
        self, key: Array, tolerance: float, proposal: Proposal, population: _Population | None
    ) -> Harvest:
        """Proposals within the tolerance: as many as there are particles, or as many as there
        can be.
        """

        def judged(theta: np.ndarray, z: np.ndarray, distances: np.ndarray) -> Batch:
            self.nearest.add(distances[:, 0], theta, z)
            hits = distances <= tolerance
            first_hit = np.take_along_axis(distances, hits.argmax(axis=1)[:, None], axis=1)[:, 0]
            return np.any(hits, axis=1), (theta, z, hits.mean(axis=1), first_hit)

        def attempt(key: Array, num: int) -> Batch:
            simulation_key, noise_key = split(key)
            theta, z, s = _simulated(simulation_key, self.run, proposal, num)
            return judged(theta, z, self.ruler.distances(noise_key, s, self.settings.num_noise))

        return collect(
            key,
            attempt,
            self.settings.num_particles,
            first=judged(*self.pilot) if population is None else None,
            guess=0.5 if population is None else population.acceptance,
            min_acceptance=self.settings.min_acceptance,
        )

    def left_with(
        self, tolerance: float, harvest: Harvest, population: _Population | None
    ) -> _Population:
        """The particles after a round that ended early: those of the round before, else those of
        the first round so far, else the nearest prior draws.
        """
        run = self.run
        if run.stop.finished:
            limit = self.settings.min_acceptance
            run.end(StopKind.ACCEPTANCE_TOO_LOW, limit=limit, tolerance=tolerance)
        if population is not None:
            return population
        if harvest.num_accepted:
            population = _weighed(
                run.model.prior, PriorProposal(run.model.prior), tolerance, harvest
            )
            run.warn(Kind.FEW_WITHIN_FIRST_TOLERANCE, num=len(population.z), tolerance=tolerance)
            return population
        theta, z, distances = self.nearest.columns()
        limits = {"tolerance": tolerance, "farthest": float(distances.max())}
        run.warn(Kind.NONE_WITHIN_FIRST_TOLERANCE, num=harvest.num_tried, kept=len(z), **limits)
        return _Population(theta, z, np.zeros(len(z)), distances, float(distances.max()), 0.0)


def _simulated(
    key: Array, run: InferenceRun, proposal: Proposal, num: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """theta, z and s of `num` proposals, fewer if a budget ends. Where the prior is zero nothing is
    simulated, and s is NaN.
    """
    propose_key, simulation_key = split(key)
    prior, z = run.model.prior, proposal.sample(propose_key, num)
    theta = in_blocks(lambda _, rows: prior.constrain(rows), z)
    possible = in_blocks(lambda _, rows: prior.log_prob_unconstrained(rows), z) > -np.inf
    places = np.flatnonzero(possible & np.isfinite(theta).all(axis=1))
    s = np.full((num, run.model.statistic_width), np.nan)
    if places.size:
        simulated = run.statistics(simulation_key, theta[places])
        s[places[: len(simulated)]] = simulated
        num = num if len(simulated) == len(places) else int(places[len(simulated)])
    return theta[:num], z[:num], s[:num]


def _weighed(prior: Prior, proposal: Proposal, tolerance: float, harvest: Harvest) -> _Population:
    """W ~ pi / q times the share of noise draws within the tolerance."""
    theta, z, shares, distances = harvest.columns()
    log_weights = prior.log_prob_unconstrained(z) - proposal.log_prob(z) + np.log(shares)
    return _Population(theta, z, log_weights, distances, tolerance, harvest.acceptance)


def _posterior(run: InferenceRun, population: _Population) -> WeightedSamples:
    run.diagnostics |= {
        "tolerance": population.tolerance,
        "acceptance": population.acceptance,
        "effective size": population.effective_size,
    }
    return run.weighted(population.theta, population.log_weights, exact=False)
