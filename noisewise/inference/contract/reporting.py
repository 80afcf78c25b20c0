"""The report of a run in the making: findings, rounds, why it ended, and the posterior."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from noisewise.inference.contract.progress import ProgressBar
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Finding, Kind, Report, Stop, StopKind, WeightedSamples
from noisewise.posteriors.findings import with_finding, without
from noisewise.simulators import Faults


class RunReport:
    """The report of a run in the making.

    Attributes:
        num_simulations: Simulations so far.
        num_failed: How many of them failed.
        stop: Why the run ended, or will end.
        power: How much of the mechanism's density the draws take into account; None for all of it.
        findings: What a reader of the result must know.
        rounds: One JSON-ready record per round.
        diagnostics: Numbers for the report, by name.
    """

    def __init__(
        self,
        method: str,
        settings: dict[str, Any],
        model: PrivateModel,
        faults: Faults,
        bar: ProgressBar | None,
        seconds: float,
    ) -> None:
        self.method, self.settings, self.model = method, settings, model
        self.num_simulations = self.num_failed = 0
        self.stop = Stop()
        self.power: float | None = None
        self.findings: tuple[Finding, ...] = ()
        self.rounds: list[dict[str, Any]] = []
        self.diagnostics: dict[str, Any] = {}
        self._start = time.monotonic() - seconds
        self._faults, self._bar = faults, bar
        self._dropped_before = faults.total

    def warn(self, kind: Kind, **numbers: Any) -> None:
        """Add a finding that a reader of the result must see. It replaces an earlier one of its
        kind, unless there may be several.
        """
        self.add(Finding(kind, numbers))

    def add(self, *findings: Finding) -> None:
        """Add findings, such as those of a fit that is used again."""
        for finding in findings:
            self.findings = with_finding(self.findings, finding)

    def withdraw(self, *kinds: Kind) -> None:
        """Remove findings that no longer hold."""
        self.findings = without(self.findings, *kinds)

    def record(self, **values: Any) -> None:
        """Add a JSON-ready record of one round, which the progress bar also shows."""
        self.rounds.append({"num_simulations": self.num_simulations, **values})
        if self._bar:
            self._bar.describe(values)
            size, target = values.get("effective_size"), self.settings.get("target_ess")
            if size and target:
                self._bar.expect(int(self.num_simulations * max(1.0, target / size)))

    @property
    def dropped(self) -> str | None:
        """The sentence about simulations that failed twice; None if none did."""
        numbers = self._faults.numbers()
        return None if numbers is None else Finding(Kind.SIMULATIONS_DROPPED, numbers).sentence

    def report(self, *, exact: bool) -> Report:
        """The report as of now. `exact` says whether the draws have the posterior as their law."""
        num_nan = self.num_failed - (self._faults.total - self._dropped_before)
        if num_nan > 0:
            self.warn(Kind.SIMULATIONS_REJECTED, failed=num_nan, simulations=self.num_simulations)
        dropped = self._faults.numbers()
        if dropped is not None:
            self.warn(Kind.SIMULATIONS_DROPPED, **dropped)
            self.diagnostics["simulations dropped"] = self._faults.total
        if self._faults.num_recovered:
            self.diagnostics["simulations that failed once"] = self._faults.num_recovered
        if self.model.integrated_out:
            self.diagnostics["integrated out"] = ", ".join(self.model.integrated_out)
        return Report(
            method=self.method,
            settings=self.settings,
            num_simulations=self.num_simulations,
            num_failed=self.num_failed,
            seconds=time.monotonic() - self._start,
            stop=self.stop,
            exact=exact,
            rounds=tuple(self.rounds),
            numbers=dict(self.diagnostics),
            power=self.power,
            findings=self.findings,
        )

    def weighted(
        self,
        theta: Float[np.ndarray, "n d"],
        log_weights: Float[np.ndarray, " n"],
        s: Float[np.ndarray, "n k"] | None = None,
        *,
        exact: bool,
    ) -> WeightedSamples:
        """A weighted posterior with this run's names, derived quantities and report.

        Args:
            theta: Draws, shape (n, d).
            log_weights: Log weights, shape (n,), up to a constant.
            s: Statistics drawn with theta, shape (n, k); None where there are none.
            exact: Whether the weighted draws have the posterior as their law.
        """
        return WeightedSamples(
            theta,
            self.model.names,
            self.report(exact=exact),
            log_weights=log_weights,
            **self._more(theta, s),
        )

    def draws(
        self,
        theta: Float[np.ndarray, "n d"],
        s: Float[np.ndarray, "n k"] | None = None,
        *,
        num_chains: int = 1,
        exact: bool,
    ) -> Draws:
        """An unweighted posterior with this run's names, derived quantities and report.

        Args:
            theta: Draws, shape (n, d), chain by chain.
            s: Statistics drawn with theta, shape (n, k); None where there are none.
            num_chains: How many chains the draws are from.
            exact: Whether the draws have the posterior as their law.
        """
        return Draws(
            theta,
            self.model.names,
            self.report(exact=exact),
            num_chains=num_chains,
            **self._more(theta, s),
        )

    @contextlib.contextmanager
    def progress(self) -> Iterator[None]:
        """Show the progress bar while the body runs."""
        with self._bar or contextlib.nullcontext():
            yield

    def _more(self, theta: np.ndarray, s: np.ndarray | None) -> dict[str, Any]:
        names = self.model.statistic_names if s is not None else ()
        return {
            **self.model.beside_draws(theta),
            "statistics": s,
            "statistic_names": names,
        }

    def end(self, kind: StopKind, **numbers: Any) -> Stop:
        """Report why the run ends before it is finished."""
        self.stop = Stop(kind, numbers)
        return self.stop
