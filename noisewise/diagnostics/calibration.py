"""What simulation-based calibration found."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betaincinv

from noisewise._core.arrays import number
from noisewise.diagnostics.uniformity import WEIGHTS, combined, ecdf_band, p_values
from noisewise.errors import InvalidInputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    r"""Where each true theta lies among the draws of its posterior: uniformly, if the posteriors
    are right.

    `uniforms` (N, m) are randomised ranks, (number of draws below + ties broken at random + u) / (L
    + 1) with u uniform: under correct posteriors they are independent uniforms in each column,
    exactly, whatever the data were. Each column is tested for its ECDF (simultaneous bands),
    location, dispersion, and dependence on the data (`scores`). `p_value` is the smallest p-value
    by Bonferroni, m times and divided by the test's share of alpha (`uniformity.WEIGHTS`), so a
    correct posterior fails with probability at most `alpha`.

    With one parameter, L = 100 and alpha = .05 (200 repetitions each), a posterior sd of .9 times
    the right one was caught in 100% of calibrations with N = 2000, 78% with 500 and 40% with 200; a
    bias of .2 sd in 100%, 98% and 72%; an sd of .8 in 100%, 100% and 97%. Errors that cancel over
    the prior, such as a wrong shrinkage or `posterior = prior`, show in the dependence on the data;
    for those that cancel along the data too, take a test quantity that depends on the data, such as
    the log likelihood (Modrak et al. 2023).

    Attributes:
        names: One name per column: the parameters, then the test quantities.
        uniforms: Randomised ranks, shape (N, m).
        num_draws: L, the draws of each posterior.
        num_failed: Trials left out because the simulated observation was NaN.
        alpha: Probability that correct posteriors fail.
        scores: Summaries of each trial's data, shape (N, p); ranks must be independent of them.
        quantity: What is ranked: "draws" of a parameter, or a "distance".
    """

    names: tuple[str, ...]
    uniforms: Float[np.ndarray, "N m"] = dataclasses.field(repr=False)
    num_draws: int
    num_failed: int
    alpha: float
    scores: Float[np.ndarray, "N p"] | None = dataclasses.field(default=None, repr=False)
    quantity: str = "draws"

    @property
    def num_trials(self) -> int:
        """N, the trials that were ranked."""
        return len(self.uniforms)

    @property
    def ranks(self) -> Int[np.ndarray, "N m"]:
        """Ranks (N, m) from 0 to L, ties broken at random."""
        return np.floor(self.uniforms * (self.num_draws + 1)).astype(int)

    @functools.cached_property
    def p_values(self) -> dict[str, dict[str, float]]:
        """For each column, the p-value of each test of uniformity."""
        columns = zip(self.names, self.uniforms.T, strict=True)
        return {name: p_values(column, self.scores) for name, column in columns}

    @property
    def p_value(self) -> float:
        """The p-value of all tests together."""
        return min(combined(tests, len(self.names)) for tests in self.p_values.values())

    @property
    def passed(self) -> bool:
        """Whether no test found a fault in the posteriors."""
        return self.p_value > self.alpha

    def ecdf_band(
        self,
    ) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
        """Points, lower and upper end of the band that a column's ECDF leaves with probability
        `alpha`; for plots.
        """
        return ecdf_band(self.num_trials, self.alpha)

    @property
    def gap(self) -> float:
        """The largest distance between the ECDF of a column and the diagonal."""
        u = np.sort(self.uniforms, axis=0)
        steps = np.arange(len(u) + 1)[:, None] / len(u)
        return float(max((steps[1:] - u).max(), (u - steps[:-1]).max()))

    def coverage(self, levels: Sequence[float] = (0.5, 0.8, 0.95)) -> Any:
        """How often central intervals hold the truth, with 95% Clopper-Pearson limits: a table, one
        row per column and level.
        """
        import pandas as pd

        given = list(levels) if isinstance(levels, Iterable) else [levels]
        chosen = [number("each of levels", above=0.0, below=1.0)(level) for level in given]
        if not chosen or len(set(chosen)) < len(chosen):
            raise InvalidInputError(
                f"levels must be different numbers between 0 and 1, at least one; got {given}."
            )
        rows = {}
        for name, u in zip(self.names, self.uniforms.T, strict=True):
            for level in chosen:
                inside, num = int(np.sum(np.abs(2.0 * u - 1.0) < level)), len(u)
                low = 0.0 if inside == 0 else float(betaincinv(inside, num - inside + 1, 0.025))
                high = 1.0 if inside == num else float(betaincinv(inside + 1, num - inside, 0.975))
                rows[name, level] = [inside / num, low, high, low <= level <= high]
        index = pd.MultiIndex.from_tuples(rows, names=["parameter", "level"])
        return pd.DataFrame(
            list(rows.values()), index=index, columns=["coverage", "low", "high", "right"]
        )

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        if self.passed:
            return (
                f"Nothing speaks against these posteriors in {self.num_trials:,} trials (p ="
                f" {self.p_value:.2g})."
            )
        name, test = min(
            ((name, test) for name, tests in self.p_values.items() for test in tests),
            key=lambda pair: self.p_values[pair[0]][pair[1]] / WEIGHTS[pair[1]],
        )
        wrong = _wrong(test, self.uniforms[:, self.names.index(name)], self.quantity)
        return f"The posteriors are not calibrated (p = {self.p_value:.2g}): {wrong} of {name}."

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        rows = [
            f"  {name:<15} " + ", ".join(f"{test} p = {p:.2g}" for test, p in tests.items())
            for name, tests in self.p_values.items()
        ]
        failed = (
            [f"  {self.num_failed:,} trials failed (NaN) and were left out"]
            if self.num_failed
            else []
        )
        return "\n".join(
            [("passed. " if self.passed else "failed. ") + self.sentence, *rows, *failed]
        )

    def to_spec(self) -> dict[str, Any]:
        """JSON-ready, without the ranks."""
        return {
            "passed": self.passed,
            "p_value": self.p_value,
            "alpha": self.alpha,
            "num_trials": self.num_trials,
            "num_draws": self.num_draws,
            "num_failed": self.num_failed,
            "p_values": self.p_values,
        }


def _wrong(test: str, u: np.ndarray, quantity: str) -> str:
    """What a test that failed shows about the draws, in words.

    Args:
        test: The test with the smallest p-value.
        u: The ranks of its column as uniforms, shape (N,).
        quantity: What is ranked, "draws" or "distance".
    """
    if test == "dependence":
        return (
            "ranks depend on the data, which were used too much, too little or wrongly: see the"
            " ranks"
        )
    if quantity == "distance":
        place = "too far from" if u.mean() < 0.5 else "too near to"
        return (
            f"draws lie {place} points that the data point to, see the ranks"
            if test == "location"
            else "see the ranks"
        )
    if test == "location":
        return f"draws are too {'low' if u.mean() > 0.5 else 'high'} on average, see the ranks"
    if test == "dispersion":
        return (
            f"draws are too {'narrow' if np.mean((u - 0.5) ** 2) > 1 / 12 else 'wide'}, see the"
            " ranks"
        )
    return "see the ranks"
