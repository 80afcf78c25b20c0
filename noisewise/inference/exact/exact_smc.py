"""Sequential Monte Carlo over the power of the mechanism's density."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, integer, number
from noisewise._core.keys import fold_in, generator, split
from noisewise._core.weights import MANY_DRAWS, MIN_DRAWS, systematic_rows
from noisewise.inference.contract.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.contract.chains import Trace, finished_draws
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.exact.evidence import Evidence
from noisewise.inference.exact.particles import Particles, RecordParticles, SimulatedParticles
from noisewise.inference.exact.pool import Part
from noisewise.inference.exact.record_moves import serves
from noisewise.inference.exact.searches import MAX_PARAMETERS, Searches
from noisewise.inference.exact.soundness import MAX_CONTRADICTED, Soundness, elsewhere
from noisewise.inference.exact.weighted_draws import ImportanceDraws
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import AbstractPosterior, Finding, Kind, StopKind
from noisewise.posteriors.findings import with_finding
from noisewise.samplers.adaptive_importance import Defended

_FINAL_CHAINS = 32
"""Chains that go on at power 1: as many as `DataAugmentationMCMC` runs by default."""

_CHAIN_EFFICIENCY = 1 / 8
"""Effective draws per accepted step of a chain: random walks in d dimensions give .33 / d per step
at an acceptance of .234 (Roberts and Rosenthal 2001), and half of the steps are such walks; d = 6.
"""

_DRAWS_PER_EFFECTIVE = 20
"""Draws that an effective one takes where the simulator is noisy, as epidemics are."""

_STAGES_IN_BUDGET = 20
"""Simulations left, in units of a stage of the searches: a settled search takes about ten."""

_EXPLORING_PARTICLES, _EXPLORING_SHARE = 10, 0.6
"""Simulations of searches after tempering, at most, where parts of the posterior may have been
missed: in units of the particles, about as many as the temperatures take; with a budget, as a share
of what is left.
"""

_BISECTION_WIDTH = 1e-6
"""Relative width at which the bisection for the next power ends: far below what chance does to it.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactSMC(AbstractSequentialMethod):
    r"""Particles (theta, x) led from the prior to the posterior by raising a power of the
    mechanism's density from 0 to 1:

        p_t(theta, x)  ~  pi(theta)  f(x | theta)  eta(s_dp | s(x))^lambda_t

    with 0 = lambda_0 < lambda_1 < ... < 1. Each lambda_t is the largest for which the effective
    size of the weights eta^(lambda_t - lambda_{t-1}) is `ess_share` of the particles. They are
    then resampled and moved: theta' from a proposal with fresh data x' ~ f(. | theta'), accepted
    by the prior and (eta'/eta)^lambda_t, since f cancels. Where the model is one of independent
    records and the query a sum over them, moves go record by record too, with `num_moves` moves of
    theta at fixed noise per sweep (see `DataAugmentationMCMC`).

    There is no tolerance: at lambda = 1 the chains leave the posterior itself invariant. They go
    on until their effective size is `target_ess`, or for `max_steps` steps; where importance draws
    from a fit to the particles are worth more than chains, as in few dimensions, these take over.

    The report holds the log evidence, log p(s_dp), with a standard error: the difference between
    two models is the log Bayes factor. It is the mean weight of the importance draws where these
    are made; else the particles are 16 populations that are resampled apart, and the spread of
    their estimates gives the error, which is infinite where it cannot be known. Del Moral, Doucet
    and Jasra 2006; all states of the chains serve as particles, as proposed by Dau and Chopin
    2022, where records need not be stored.

    Args:
        num_particles: Particles at each temperature.
        target_ess: Effective draws at power 1 at which the chains stop.
        ess_share: Share of the particles that stays effective from one power to the next: closer
            to 1 takes more temperatures, each more reliable.
        num_moves: Moves per sweep that are not centred, for models of records.
        max_steps: Steps at power 1, at most.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> method = nw.inference.ExactSMC(num_particles=500, target_ess=400)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.report.exact, posterior.report.diagnostics["log evidence"] < 0
    (True, True)
    """

    slug: ClassVar[str] = "exact-smc"
    serves_unknown_parameters: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.DENSITY})
    instead: ClassVar[str] = "Use SMCABC or PrivatePosteriorEstimation, which only need samples."

    num_particles: int = 4000
    target_ess: int = 4000
    ess_share: float = 0.5
    num_moves: int = 5
    max_steps: int = 5000

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        self._convert(
            num_particles=integer("num_particles", at_least=100),
            target_ess=integer("target_ess", at_least=1),
            ess_share=number("ess_share", above=0.0, below=1.0),
            num_moves=integer("num_moves", at_least=0),
            max_steps=integer("max_steps", at_least=1),
        )

    def _rounds(self, key: Array, run: InferenceRun) -> Iterator[AbstractPosterior]:
        start_key, temper_key, finish_key = split(key, 3)
        particles = self._first_particles(start_key, run)
        if not np.isfinite(particles.log_eta).any():
            yield _impossible(run, particles)
            return
        temperature, evidence = 0.0, Evidence(len(particles.z), particles.num_chains)
        try:
            while temperature < 1.0:
                step_key = fold_in(temper_key, evidence.num_temperatures)
                temperature = self._raise(step_key, run, particles, temperature, evidence)
                run.record(temperature=temperature, acceptance=particles.acceptance)
                if temperature < 1.0:
                    yield _tempered(run, particles)
        except OutOfBudget:
            yield _unfinished(run, particles, temperature)
            return
        run.diagnostics |= {
            "temperatures": evidence.num_temperatures,
            "acceptance": particles.acceptance,
            **evidence.numbers(),
        }
        yield self._finished(finish_key, run, particles, evidence)

    def _finished(
        self, key: Array, run: InferenceRun, particles: Particles, evidence: Evidence
    ) -> AbstractPosterior:
        """Draws at power 1: by importance from a fit to the particles where that beats chains, else
        by chains.
        """
        search_key, importance_key, chain_key = split(key, 3)
        found: tuple[Defended, Soundness] | None = None
        if isinstance(particles, SimulatedParticles):
            with contextlib.suppress(OutOfBudget):
                found = self._searched(search_key, run, particles)
            if found is not None and self._beat_chains(found[1], particles.acceptance):
                draws = self._importance_draws(importance_key, run, *found)
                if draws.effective_size:
                    return by_importance(draws, found[1], evidence)
        trace = Trace(self.target_ess)
        trace.add(**particles.keep(_FINAL_CHAINS))
        posterior = self._by_chains(chain_key, run, particles, trace)
        if found is None or not isinstance(particles, SimulatedParticles):
            return posterior
        return _held_against(particles, posterior, *found)

    def _searched(
        self, key: Array, run: InferenceRun, particles: SimulatedParticles
    ) -> tuple[Defended, Soundness]:
        """A proposal fitted to all simulations, and what separate draws from it show. With few
        parameters independent searches say whether a part of the posterior may have been missed.
        """
        law_key, rest_key = split(key)
        pool, num = particles.pool, self.num_particles // 2
        if run.remaining is not None:
            num = max(1, min(num, run.remaining // _STAGES_IN_BUDGET))
        pool.add(law_key, [Part(particles.law(), num)])
        searches, num_final = (
            Searches(pool),
            _DRAWS_PER_EFFECTIVE * max(self.target_ess, MANY_DRAWS),
        )
        if run.model.prior.unconstrained_dim > MAX_PARAMETERS:
            proposal = searches.proposal()
            return proposal, searches.checked(rest_key, proposal, num, num_final, alone=True)
        left = _EXPLORING_PARTICLES * self.num_particles
        if run.remaining is not None:
            left = int(_EXPLORING_SHARE * run.remaining)
        return searches.thoroughly(
            rest_key, num_stage=num, num_final=num_final, most=pool.num + left
        )

    def _beat_chains(self, sound: Soundness, acceptance: float) -> bool:
        """Whether importance draws are worth more than as many steps of chains."""
        return sound.effective_size >= _CHAIN_EFFICIENCY * acceptance * sound.num

    def _importance_draws(
        self, key: Array, run: InferenceRun, proposal: Defended, sound: Soundness
    ) -> ImportanceDraws:
        """Importance draws until they are worth the target, or a budget ends."""
        draws = ImportanceDraws(run, proposal)
        most = self.max_steps * _FINAL_CHAINS
        with contextlib.suppress(OutOfBudget):
            while draws.effective_size < self.target_ess:
                if draws.num >= most:
                    run.end(StopKind.IMPORTANCE_DRAWS_MADE, num=draws.num)
                    break
                promised = math.ceil(1.1 * self.target_ess * sound.num / sound.effective_size)
                num = min(max(promised - draws.num, self.num_particles), most - draws.num)
                draws.add(fold_in(key, draws.num), num)
                run.record(temperature=1.0, effective_size=draws.effective_size)
        return draws

    def _by_chains(
        self, key: Array, run: InferenceRun, particles: Particles, trace: Trace
    ) -> AbstractPosterior:
        """Steps of the chains until their draws are worth the target."""
        with contextlib.suppress(OutOfBudget):
            while not trace.complete():
                if trace.length >= self.max_steps:
                    run.end(StopKind.STEPS_MADE, limit=self.max_steps)
                    break
                trace.add(**particles.extend(fold_in(key, trace.length), run))
                run.record(
                    temperature=1.0,
                    acceptance=particles.acceptance,
                    effective_size=trace.effective_size,
                )
        return finished_draws(run, trace, settled=True)

    def _first_particles(self, key: Array, run: InferenceRun) -> Particles:
        if serves(run.model):
            return RecordParticles(key, run, self.num_particles, self.num_moves)
        return SimulatedParticles(key, run, self.num_particles)

    def _raise(
        self,
        key: Array,
        run: InferenceRun,
        particles: Particles,
        temperature: float,
        evidence: Evidence,
    ) -> float:
        """Reweight to the next power, resample and move; returns that power."""
        resample_key, move_key = split(key)
        increment = next_increment(particles.log_eta, self.ess_share, 1.0 - temperature)
        reached = 1.0 if increment >= 1.0 - temperature else temperature + increment
        evidence.add(increment * particles.log_eta, particles.num_chains)
        particles.tune(evidence.weights)
        rng, num = generator(resample_key), particles.num_ancestors
        if reached < 1.0:
            ancestors = evidence.ancestors(num, rng)
        else:  # the estimates are complete, and the populations may meet
            ancestors = systematic_rows(evidence.weights, num, rng.random())
        particles.advance(move_key, run, reached, ancestors)
        evidence.acceptance = min(evidence.acceptance, particles.acceptance)
        if particles.moved < 1.0:
            run.warn(Kind.FEW_MOVES_ACCEPTED)
        return reached


def next_increment(log_eta: Float[np.ndarray, " n"], share: float, limit: float) -> float:
    """The largest increment of the power that leaves enough particles effective, by bisection.

    It is written in NumPy because the number of particles differs from one temperature to the next,
    and programs would be compiled again.

    Args:
        log_eta: log eta at the particles, shape (n,); those at -inf do not count.
        share: Share of the other particles that must stay effective.
        limit: The largest increment allowed.

    Returns:
        The increment, in (0, limit].
    """
    possible = log_eta[np.isfinite(log_eta)]
    possible = possible - possible.max()

    def enough(increment: float) -> bool:
        weights = np.exp(increment * possible)
        return bool(weights.sum() ** 2 >= share * len(possible) * (weights**2).sum())

    if enough(limit):
        return limit
    low, high = 0.0, limit
    while high - low > _BISECTION_WIDTH * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low if low > 0.0 else high


def by_importance(
    draws: ImportanceDraws, sound: Soundness, evidence: Evidence
) -> AbstractPosterior:
    """The weighted draws. Their mean weight is the log evidence of the report. Where its error is
    not known, the log evidence is that of tempering if that has an error.
    """
    posterior = draws.posterior(sound)
    numbers = posterior.report.numbers
    if np.isfinite(numbers["log evidence se"]) or np.isinf(evidence.standard_error):
        return posterior
    numbers = {**numbers, **evidence.numbers()}
    return posterior.with_report(dataclasses.replace(posterior.report, numbers=numbers))


def _held_against(
    particles: SimulatedParticles,
    posterior: AbstractPosterior,
    proposal: Defended,
    sound: Soundness,
) -> AbstractPosterior:
    """Draws of chains, not called exact where all simulations together contradict them."""
    report, pool = posterior.report, particles.pool
    if not report.exact or pool.effective_size < MIN_DRAWS:
        return posterior
    z = pool.prior.prior.unconstrain(posterior.theta)
    doubts = [f for f in sound.findings(len(z)) if f.kind is not Kind.WEIGHTS_POOR]
    share = elsewhere(pool, proposal, z, posterior.weights)
    if share > MAX_CONTRADICTED:
        doubts.append(Finding(Kind.CONTRADICTED, {"share": share}))
    findings = report.findings
    for doubt in doubts:
        findings = with_finding(findings, doubt)
    return posterior.with_report(dataclasses.replace(report, exact=not doubts, findings=findings))


def _tempered(run: InferenceRun, particles: Particles) -> AbstractPosterior:
    return run.draws(particles.theta, particles.s, exact=False)


def _unfinished(run: InferenceRun, particles: Particles, temperature: float) -> AbstractPosterior:
    run.power = temperature
    run.warn(Kind.ENDED_EARLY_AT_POWER, power=temperature)
    return _tempered(run, particles)


def _impossible(run: InferenceRun, particles: Particles) -> AbstractPosterior:
    run.power = 0.0
    run.end(StopKind.NOTHING_POSSIBLE)
    run.warn(Kind.PRIOR_IMPOSSIBLE, num=run.num_simulations)
    return _tempered(run, particles)
