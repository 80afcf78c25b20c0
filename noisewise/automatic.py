"""One call for analysts who do not want to choose a method."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import jax
import numpy as np

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise.assessment.judging import CERTIFYING_SIZE
from noisewise.diagnostics import Certificate
from noisewise.diagnostics.certificates.certificate import MAX_PARETO_K
from noisewise.diagnostics.certificates.certify import certified_by, start
from noisewise.errors import InvalidTypeError, MissingCapabilityError, SimulationError
from noisewise.inference import (
    AbstractMethod,
    DataAugmentationMCMC,
    ExactSMC,
    ImportanceSampling,
    PrivatePosteriorEstimation,
)
from noisewise.inference.contract.base import prior_only
from noisewise.inference.contract.recorded import identity_of, recorded
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.exact.weighted_draws import (
    ImportanceDraws,
    UnconstrainedPrior,
    pooled_draws,
)
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import (
    AbstractPosterior,
    Finding,
    Kind,
    Report,
    Stop,
    StopKind,
    WeightedSamples,
)
from noisewise.posteriors.findings import without
from noisewise.posteriors.weighted_samples import pareto_k
from noisewise.runs import Journal
from noisewise.simulators import Faults

_PILOT = 2000
_RECORDS = 40_000
_LOOK = 4000
_SPARE = 1.3
_PERFECT = 0.6
_FIRST_LOOK = 2
_LEAST = 1000
_TELLING = 50
_FEW_PARAMETERS = 3
_MOST_TO_ADAPT, _LEAST_TO_ADAPT = 4000, 200
_PARTICLES = 2000
_WAVES = 5
"""Particles need to be simulated so many times at least to get anywhere."""
_PLENTY = 4
"""Chains whose sweeps cost next to nothing go on to so many times the target."""


def infer(
    key: Array,
    model: PrivateModel,
    observed: Any,
    *,
    target_ess: int = 1000,
    max_simulations: int = 100_000,
    max_minutes: float | None = None,
    run_dir: Any = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> AbstractPosterior:
    """The posterior of theta given the private statistic `observed`, by the cheapest route that can
    show how good it is.

    | model | route | evidence |
    |---|---|---|
    | independent records, a query that sums over them | `DataAugmentationMCMC`, else `ExactSMC` | R-hat and effective size |
    | any simulator, noise that hides most of the data | `ImportanceSampling` from the prior | the weights |
    | any simulator, at most 3 parameters | `ImportanceSampling` from a law fitted to its own draws | the weights |
    | any simulator, an observation that the prior hardly predicts | `ExactSMC` first | R-hat and effective size |
    | any simulator | rounds of `PrivatePosteriorEstimation`, until simulations drawn from it and weighted reach the target | `certify` |
    | a mechanism without a density | `PrivatePosteriorEstimation` | none: `report.exact` is False |

    It stops when the draws are worth `target_ess` independent ones from the exact posterior, or
    when a budget is spent; then it returns the best it has. `posterior.report` says what was done
    and what the answer is worth: read `report.exact` and `report.warnings` first (programs look at
    `report.findings`, which have kinds). With `run_dir` an interrupted run goes on where it
    stopped.

    >>> import noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> posterior = nw.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.report.exact, posterior.report.diagnostics["route"]
    (True, 'da-mcmc')
    """
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            f"infer(key, model, observed) needs a PrivateModel second, got {describe(model)}."
        )
    run = _Run(
        as_key(key),
        model,
        model.observation(observed),
        integer("target_ess", at_least=1)(target_ess),
        integer("max_simulations", at_least=1)(max_simulations),
        number("max_minutes", above=0.0, optional=True)(max_minutes),
        {"executor": executor, "progress": progress, "faults": model.new_faults()},
    )
    if run_dir is None:
        return run.posterior()
    return recorded(
        run_dir, identity_of("infer", run.settings, run.key, model, run.observed), run.resumed
    )


@dataclasses.dataclass
class _Run:
    key: Array
    model: PrivateModel
    observed: Any
    target: int
    max_simulations: int
    max_minutes: float | None
    options: dict[str, Any]
    used: int = 0
    failed: int = 0
    stages: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    rate: float | None = None
    rounds_seen: tuple[int, int] = (0, 0)
    surprised: bool = False
    replaced: AbstractPosterior | None = None
    """A set of draws that the next one contains or repeats at greater length: to keep the luckier
    of the two would bias.
    """
    started: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "target_ess": self.target,
            "max_simulations": self.max_simulations,
            "max_minutes": self.max_minutes,
        }

    def resumed(self, journal: Journal) -> AbstractPosterior:
        """`posterior`, with what earlier sittings did."""
        self.started -= journal.seconds_before
        self.options = {**self.options, "journal": journal}
        return self.posterior()

    def posterior(self) -> AbstractPosterior:
        """The first route that reaches the target, or the best of those tried."""
        best: AbstractPosterior | None = None
        for posterior in self._routes():
            if best is None or best is self.replaced or _rank(posterior) > _rank(best):
                best = posterior
            if _worth(best) >= self.target or (self.spent and best.report.exact):
                break
        if best is None:
            best = prior_only(self.key, InferenceRun("infer", {}, self.model, self.observed))
        return self._reported(best)

    def _routes(self) -> Iterator[AbstractPosterior]:
        if Capability.DENSITY not in self.model.mechanism.capabilities:
            yield self._method(6, PrivatePosteriorEstimation(num_noise=1))
            return
        records = DataAugmentationMCMC(
            num_chains=16, num_warmup=200, target_ess=_PLENTY * self.target
        )
        if _serves(records, self.model) and self._can_spend(_RECORDS):
            yield self._method(0, records)
            if self._can_spend(_WAVES * _PARTICLES):
                yield self._method(1, self._particles)
            return
        yield from self._weighted_prior()
        if self.model.prior.unconstrained_dim <= _FEW_PARAMETERS:
            yield from self._adapted()
        if self.spent:
            return
        if Capability.SAMPLE not in self.model.mechanism.capabilities:
            yield self._method(4, self._particles)
            return
        # where few simulations come near the observation, tempering may get there, and a network
        # may extrapolate: each has its turn
        if self.surprised and self._can_spend(3 * _WAVES * _PARTICLES):
            yield self._method(4, self._particles, share=1 / 3)
        if self._can_spend(_LEAST + _LOOK):
            yield from self._learnt_and_corrected()

    def _weighted_prior(self) -> Iterator[AbstractPosterior]:
        """Draws from the prior, where a pilot says that they will do."""
        inference_run = InferenceRun(
            "importance", {}, self.model, self.observed, **self._budgets, **self.options
        )
        pilot = ImportanceDraws(inference_run, UnconstrainedPrior(self.model.prior))
        with inference_run.progress(), contextlib.suppress(OutOfBudget):
            pilot.add(jax.random.fold_in(self.key, 2), _PILOT)
            inference_run.look_at_observation(jax.random.fold_in(self.key, 7), pilot.s)
            self.surprised = inference_run.surprised
        if not pilot.num:
            return
        if not np.isfinite(pilot.log_weights).any():
            self._none_possible(inference_run, pilot)
            return
        posterior = pilot.posterior()
        self._count("importance", posterior, inference_run.num_simulations)
        yield posterior
        needed = math.ceil(_SPARE * self.target * pilot.num / max(pilot.effective_size, 1.0))
        if needed <= self.remaining / 3 and pareto_k(pilot.log_weights) <= MAX_PARETO_K:
            self.replaced = posterior
            yield self._method(3, ImportanceSampling(num_stages=0, num_final=needed))

    def _adapted(self) -> Iterator[AbstractPosterior]:
        """Draws from a law fitted to weighted draws, three times over, then more and more while
        that leaves half of what is left.
        """
        num = min(_MOST_TO_ADAPT, self.remaining // 25)
        if not self._can_spend(25 * _LEAST_TO_ADAPT):
            return
        pooled = self._method(8, ImportanceSampling(num_stages=3, num_adapt=num, num_final=5 * num))
        yield pooled
        sets = [pooled]
        while isinstance(sets[-1], WeightedSamples) and pooled.effective_size >= _TELLING:
            drawn = sum(len(part.theta) for part in sets)
            missing = self.target / pooled.effective_size - 1.0 if pooled.report.exact else 1.0
            more = max(math.ceil(_SPARE * drawn * missing), drawn // 2)
            if not self._can_spend(2 * more):
                return
            final = ImportanceSampling(num_stages=0, num_final=more, proposal=pooled)
            sets.append(self._method(8 + len(sets), final))
            self.replaced, pooled = pooled, pooled_draws(sets)  # type: ignore[arg-type]
            yield pooled

    def _none_possible(self, inference_run: InferenceRun, pilot: ImportanceDraws) -> None:
        """Count a pilot without a single positive weight, and refuse a simulator that always fails."""
        if inference_run.num_failed == inference_run.num_simulations:
            where = self.model.prior.constrain(pilot.z[:1])[0]
            at = ", ".join(
                f"{name} = {value:.4g}" for name, value in zip(self.model.names, where, strict=True)
            )
            raise SimulationError(
                f"All of {inference_run.num_simulations:,} simulations failed (NaN statistics), for instance"
                f" at {at}: fix the simulator."
            )
        self._add(
            "importance",
            inference_run.num_simulations,
            inference_run.num_failed,
            effective_size=0.0,
        )

    def _learnt_and_corrected(self) -> Iterator[AbstractPosterior]:
        """Rounds of learning, while the certificate says that they pay.

        A short look at each round decides whether to weigh many draws of it; all sets that are
        weighed make one, so that none is picked.
        """
        method = PrivatePosteriorEstimation(num_noise=1, **self._budgets)
        keys = jax.random.split(jax.random.fold_in(self.key, 5), method.num_rounds + 1)
        learnt: AbstractPosterior | None = None
        weighed: list[WeightedSamples] = []
        pooled: WeightedSamples | None = None
        inference_run = method.start(self.model, self.observed, **self.options)
        for index, learnt in enumerate(method.rounds_of(keys[0], inference_run), start=1):
            self._count_round(learnt)
            last = index == method.num_rounds
            if index >= _FIRST_LOOK or last:
                look_key, weigh_key = jax.random.split(keys[index])
                needed, settled = self._look(look_key, learnt)
                settled = settled or last
                while needed >= _LEAST and (needed <= self._affordable or settled):
                    num, final_key = (
                        min(needed, self._affordable),
                        jax.random.fold_in(weigh_key, len(weighed)),
                    )
                    if num < _LEAST:
                        break
                    weighed.append(self._certified(final_key, learnt, num).corrected)
                    self.replaced, pooled = pooled, pooled_draws(weighed)
                    yield pooled
                    needed = math.ceil(
                        _SPARE * num * (self.target / max(pooled.effective_size, 1.0) - 1.0)
                    )
                    if not settled:
                        break
                if settled:
                    break
            if self.remaining < method.num_simulations + _LOOK:
                break
        if learnt is not None:
            yield learnt

    def _look(self, key: Array, posterior: AbstractPosterior) -> tuple[int, bool]:
        """How many simulations the target would take, 0 if there are none left to tell, and whether
        q is as good as it need be.
        """
        if self._affordable < _LOOK:
            return 0, True
        started = time.monotonic()
        certificate = self._certified(key, posterior, _LOOK)
        self.rate = _LOOK / max(time.monotonic() - started, 1e-3)
        target = max(self.target, CERTIFYING_SIZE)
        needed = _SPARE * target * _LOOK / max(certificate.effective_size, 1.0)
        good = certificate.effective_size >= _TELLING and certificate.efficiency >= _PERFECT
        return max(_LEAST, math.ceil(needed)), good

    @property
    def _affordable(self) -> int:
        """How many simulations both budgets allow, at the rate seen."""
        if self.max_minutes is None or self.rate is None:
            return self.remaining
        affordable = int(60.0 * self.rate * max(0.0, self.max_minutes - self.minutes))
        if self.journal is not None:
            affordable = int(
                self.journal.remembered("affordable", lambda: {"num": np.asarray(affordable)})[
                    "num"
                ]
            )
        return min(self.remaining, affordable)

    @property
    def journal(self) -> Journal | None:
        return self.options.get("journal")

    def _count_round(self, posterior: AbstractPosterior) -> None:
        """Add what one more round has simulated to the totals."""
        report, before = posterior.report, self.rounds_seen
        self.rounds_seen = (report.num_simulations, report.num_failed)
        self._add("sppe", report.num_simulations - before[0], report.num_failed - before[1])

    @property
    def _particles(self) -> ExactSMC:
        return ExactSMC(num_particles=_PARTICLES, target_ess=self.target)

    def _can_spend(self, num: int) -> bool:
        return not self.spent and self.remaining >= num

    def _method(
        self, number_: int, method: AbstractMethod, *, share: float = 1.0
    ) -> AbstractPosterior:
        budgets = self._budgets
        budgets["max_simulations"] = max(1, int(share * budgets["max_simulations"]))
        method = dataclasses.replace(method, **budgets)
        method.check(self.model)
        inference_run = method.start(self.model, self.observed, **self.options)
        posterior = method.posterior_of(jax.random.fold_in(self.key, number_), inference_run)
        self._count(method.slug, posterior, posterior.report.num_simulations)
        return posterior

    def _certified(self, key: Array, posterior: AbstractPosterior, num: int) -> Certificate:
        inference_run = start(posterior, self.model, self.observed, num, 0.1, **self.options)
        certificate = certified_by(key, inference_run, posterior)
        found = {"verdict": certificate.verdict, "efficiency": certificate.efficiency}
        self._count("certify", certificate.corrected, num, **found)
        return certificate

    def _count(self, stage: str, posterior: AbstractPosterior, num: int, **more: Any) -> None:
        self._add(
            stage,
            num,
            posterior.report.num_failed,
            effective_size=float(posterior.effective_size),
            **more,
        )

    def _add(self, stage: str, num: int, num_failed: int, **more: Any) -> None:
        self.used += num
        self.failed += num_failed
        self.stages.append({"stage": stage, "num_simulations": self.used, **more})

    @property
    def remaining(self) -> int:
        return max(0, self.max_simulations - self.used)

    @property
    def spent(self) -> bool:
        return self.remaining == 0 or (
            self.max_minutes is not None and self._late(self.max_minutes)
        )

    def _late(self, max_minutes: float) -> bool:
        expired = self.minutes >= max_minutes
        return expired if self.journal is None else self.journal.time_is_up(expired)

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.started) / 60.0

    @property
    def _budgets(self) -> dict[str, Any]:
        minutes = None if self.max_minutes is None else max(self.max_minutes - self.minutes, 1e-3)
        return {"max_simulations": max(1, self.remaining), "max_minutes": minutes}

    def _reported(self, posterior: AbstractPosterior) -> AbstractPosterior:
        """The posterior with a report of the whole run."""
        report, worth = posterior.report, _worth(posterior)
        ended = StopKind.BUDGET_SPENT if self.spent else StopKind.SHORT_OF_TARGET
        route = "sppe, corrected" if report.method == "certify" else report.method
        posterior.report = dataclasses.replace(
            report,
            settings=self.settings,
            num_simulations=self.used,
            num_failed=self.failed,
            seconds=60.0 * self.minutes,
            stop=Stop() if worth >= self.target else Stop(ended),
            rounds=tuple(self.stages),
            numbers={"route": route, **report.numbers},
            findings=(*self._findings(report), *self._shortfall(report, worth)),
        )
        return posterior

    def _findings(self, report: Report) -> tuple[Finding, ...]:
        """What the route found, with the failures of the whole run in place of its own."""
        found = without(report.findings, Kind.SIMULATIONS_REJECTED, Kind.SIMULATIONS_DROPPED)
        faults: Faults = self.options["faults"]
        num_nan, dropped = self.failed - faults.total, faults.numbers()
        if num_nan > 0:
            found += (
                Finding(Kind.SIMULATIONS_IMPOSSIBLE, {"failed": num_nan, "simulations": self.used}),
            )
        if dropped is not None:
            found += (Finding(Kind.SIMULATIONS_DROPPED, dropped),)
        return found

    def _shortfall(self, report: Report, worth: float) -> tuple[Finding, ...]:
        """What to say where the target was missed, and about how many simulations would reach it."""
        if worth >= self.target:
            return ()
        numbers: dict[str, Any] = {"target": self.target, "worth": worth, "exact": report.exact}
        if worth >= _TELLING:
            per_draw = self.used / max(worth, 1.0)
            numbers["needed"] = _SPARE * self.target * per_draw
        return (Finding(Kind.TARGET_NOT_REACHED, numbers),)


def _serves(method: AbstractMethod, model: PrivateModel) -> bool:
    try:
        method.check(model)
    except MissingCapabilityError:
        return False
    return True


def _rank(posterior: AbstractPosterior) -> float:
    """What to prefer: exact draws, by their number; then weighted ones worth 50 at least; then a
    learnt posterior, or chains that have not settled; then fewer weighted ones; draws that are
    still wider than the posterior, or of the prior, last.
    """
    power = posterior.report.power
    if power is not None and power < 1.0:
        return power - 1.0
    if posterior.report.exact:
        return 1e6 + posterior.effective_size
    if isinstance(posterior, WeightedSamples):
        return posterior.effective_size
    return 50.0


def _worth(posterior: AbstractPosterior) -> float:
    """Effective draws from the exact posterior; none where the draws are not exact."""
    return posterior.effective_size if posterior.report.exact else 0.0
