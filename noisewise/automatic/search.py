"""What the routes of one `nw.infer` share: the question, the budget, and how methods are run."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.weights import MIN_DRAWS
from noisewise.automatic.budget import Budget
from noisewise.diagnostics import Certificate
from noisewise.diagnostics.certificates.certify import certified_by, start
from noisewise.inference import AbstractMethod
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.pool import Pool
from noisewise.inference.exact.soundness import MAX_CONTRADICTED, Soundness, elsewhere
from noisewise.inference.exact.weighted_draws import ImportanceDraws
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Finding, Kind
from noisewise.posteriors.findings import with_finding
from noisewise.samplers.adaptive_importance import Proposal

_PRIOR_SHARE = 0.1
"""Share of a certificate's draws that come from the prior: `certify`'s own default."""


AnyPosterior = TypeVar("AnyPosterior", bound=AbstractPosterior)


class Use(enum.IntEnum):
    """What a part of the key is used for. The numbers are frozen: fixed-seed results follow."""

    RECORD_CHAINS = 0
    RECORD_PARTICLES = 1
    PILOT = 2
    WEIGHTED_PRIOR = 3
    PARTICLES = 4
    LEARNING = 5
    NO_DENSITY = 6
    OBSERVATION = 7
    ADAPTED = 8
    KNOWN_LAW = 9


@dataclasses.dataclass
class Search:
    """One `nw.infer` under way.

    Attributes:
        key: From which every use takes its own part.
        model: The model.
        observed: The private statistic, checked, shape (k',).
        target_ess: Effective draws wanted.
        budget: What may be spent, and what is spent.
        options: What every `InferenceRun` gets: executor, progress, faults, and the journal if any.
        stages: A record of each method that was run, for the report.
        pilot: Weighted prior draws, if a route made any.
        rate: Simulations a second in the pilot, what compiling took included.
        superseded: The posterior of a route that a later one contains.
        pool: All simulations of the independent searches, if a route made them.
        proposal: What the searches led to.
        sound: What separate draws from it showed.
        observation_surprises: Whether a pilot found the observation far outside what the prior
            predicts.
    """

    key: Array
    model: PrivateModel
    observed: Float[np.ndarray, " kp"]
    target_ess: int
    budget: Budget
    options: dict[str, Any]
    stages: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    pilot: ImportanceDraws | None = None
    rate: float | None = None
    superseded: AbstractPosterior | None = None
    pool: Pool | None = None
    proposal: Proposal | None = None
    sound: Soundness | None = None
    observation_surprises: bool = False

    def key_for(self, use: int) -> Array:
        """The part of the key for one use."""
        return jax.random.fold_in(self.key, int(use))

    def run(self, use: int, method: AbstractMethod, *, share: float = 1.0) -> AbstractPosterior:
        """The posterior by a method, which may spend a `share` of the simulations left.

        Args:
            use: Which part of the key the method gets.
            method: The method; its budgets are replaced by what is left.
            share: Share of the simulations left, in (0, 1].

        Returns:
            The method's posterior; its simulations are counted.
        """
        budgets = self.budget.left()
        budgets["max_simulations"] = max(1, int(share * budgets["max_simulations"]))
        method = dataclasses.replace(method, **budgets)
        method.check(self.model)
        inference_run = method.start(self.model, self.observed, **self.options)
        posterior = self.checked(method.posterior_of(self.key_for(use), inference_run))
        self.count_posterior(method.slug, posterior, posterior.report.num_simulations)
        return posterior

    def start(self, method: str) -> InferenceRun:
        """A run of its own with what is left of the budgets; `count` what it simulates."""
        return InferenceRun(
            method, {}, self.model, self.observed, **self.budget.left(), **self.options
        )

    def certify(self, key: Array, posterior: AbstractPosterior, num: int) -> Certificate:
        """The certificate of a posterior, from fresh simulations, which are counted.

        Args:
            key: A PRNG key.
            posterior: The posterior to judge.
            num: How many simulations.
        """
        run = start(posterior, self.model, self.observed, num, _PRIOR_SHARE, **self.options)
        certificate = certified_by(key, run, posterior)
        corrected = self.checked(certificate.corrected)
        certificate = dataclasses.replace(certificate, corrected=corrected)
        found = {"verdict": certificate.verdict, "efficiency": certificate.efficiency}
        self.count_posterior("certify", certificate.corrected, num, **found)
        return certificate

    def checked(self, posterior: AnyPosterior) -> AnyPosterior:
        """The posterior, no longer called exact where all simulations of this search together put a
        part of the mass elsewhere, or the searches may have missed a part.
        """
        report, pool = posterior.report, self.pool
        if not report.exact or pool is None or self.proposal is None:
            return posterior
        z = self.model.prior.unconstrain(posterior.theta)
        share = elsewhere(pool, self.proposal, z, posterior.weights)
        doubts = [] if self.sound is None else list(self.sound.about_modes)
        if share > MAX_CONTRADICTED:
            doubts.append(Finding(Kind.CONTRADICTED, {"share": share}))
        if not doubts or pool.effective_size < MIN_DRAWS:
            return posterior
        findings = report.findings
        for doubt in doubts:
            findings = with_finding(findings, doubt)
        return posterior.with_report(dataclasses.replace(report, exact=False, findings=findings))

    def counted_rounds(
        self, stage: str, rounds: Iterable[AbstractPosterior]
    ) -> Iterator[AbstractPosterior]:
        """The same rounds; what each simulates is counted, since reports hold running totals."""
        simulated = failed = 0
        for posterior in rounds:
            report = posterior.report
            self.count(stage, report.num_simulations - simulated, report.num_failed - failed)
            simulated, failed = report.num_simulations, report.num_failed
            yield posterior

    def count_posterior(
        self, stage: str, posterior: AbstractPosterior, num: int, **found: Any
    ) -> None:
        """Count `num` simulations that led to a posterior, and record its effective size."""
        size = float(posterior.effective_size)
        self.count(stage, num, posterior.report.num_failed, effective_size=size, **found)

    def count(self, stage: str, num: int, num_failed: int, **found: Any) -> None:
        """Count simulations, and record a stage for the report."""
        self.budget.spend(num, num_failed)
        self.stages.append(
            {"stage": stage, "num_simulations": self.budget.num_simulations, **found}
        )
