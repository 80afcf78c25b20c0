"""A model with its observation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from noisewise._core.arrays import describe, number
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior
from noisewise.regressions.families import Family, Link
from noisewise.regressions.formulas import Design, Formula
from noisewise.regressions.frames import check_frame, numbers, require_columns

if TYPE_CHECKING:
    import pandas as pd

_DRAWS = 4000
"""Draws of the posterior that predictions average: quantiles at 95% are right to .03 sd."""
_BLOCK = 500
"""Rows that are predicted at once: 16 MB."""


@dataclasses.dataclass(frozen=True)
class UnusualScale:
    """A column for which the default prior of its coefficient may mean something else than usual.

    Attributes:
        column: Its name.
        sd: Its standard deviation over the rows.
    """

    column: str
    sd: float

    def __str__(self) -> str:
        if self.sd == 0.0:
            return f"{self.column} is the same in all rows, so that the prior alone tells it."
        return (
            f"{self.column} has standard deviation {self.sd:.3g}, outside [0.1, 10]: divide it by"
            f" a constant, or give a prior of its own, prior={{{self.column!r}: ...}}."
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Analysis:
    """What `nw.regression` returns: a model, and the outcomes that it is conditioned on.

    `nw.infer(0, analysis)` takes it in place of model and observation; so do `nw.assess`,
    `nw.diagnostics.certify` and `nw.plan`, and `reports.write_report(..., model=analysis)`. Methods
    are called as `Method().infer(0, analysis.model, analysis.observed)`.

    Attributes:
        model: The `PrivateModel`.
        observed: The outcome of each row, shape (n,); NaN where it is absent or missing.
        formula: The formula, with the levels of the data.
        family: The law of the outcome.
        link_name: The name of the link.
        link: The link.
        offset: On the scale of the linear predictor, shape (n,).
        offset_column: The column that it was, if any.
        trials: Numbers of trials of binomial outcomes, shape (n,).
        priors: The law of each parameter in words.
        findings: What to know before it is run.
    """

    model: PrivateModel
    observed: Float[np.ndarray, " n"]
    formula: Formula
    family: Family
    link_name: str
    link: Link
    offset: Float[np.ndarray, " n"]
    offset_column: str | None
    trials: Float[np.ndarray, " n"] | None
    priors: Mapping[str, str]
    findings: tuple[UnusualScale, ...]

    def __repr__(self) -> str:
        missing = int(np.isnan(self.observed).sum())
        without = f", {missing} of them without an outcome" if missing else ""
        lines = [
            f"{self.formula.text}",
            f"  {self.family.name}, link {self.link_name}; {len(self.observed)} rows{without}",
            f"  {self.model.mechanism.describe()}",
            *(f"  {name} ~ {law}" for name, law in self.priors.items()),
            *(f"  Note: {finding}" for finding in self.findings),
        ]
        return "\n".join(lines)

    def predict(
        self,
        posterior: AbstractPosterior,
        frame: pd.DataFrame | None = None,
        *,
        offset: ArrayLike | None = None,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """The expected confidential outcome of each row: a probability of yes, a mean count.

        Args:
            posterior: A posterior of this model.
            frame: Rows with the columns of the formula; None for the data. The outcome is not
                needed.
            offset: Of these rows, where the offset of the model was an array; 0 by default.
            level: Probability of the intervals.

        Returns:
            A row for each row of the frame: mean, sd and the ends of an interval.
        """
        import pandas as pd

        rows = self._rows(frame, offset)
        means = [self._summaries(block, level) for block in self._expected(posterior, rows)]
        table = {name: np.concatenate([part[name] for part in means]) for name in means[0]}
        return pd.DataFrame(table, index=None if frame is None else frame.index)

    def prevalence(
        self,
        posterior: AbstractPosterior,
        frame: pd.DataFrame | None = None,
        *,
        offset: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        level: float = 0.95,
    ) -> pd.Series:
        """The mean over rows of the expected outcome: the share of yes, overall.

        Args:
            posterior: A posterior of this model.
            frame: As in `predict`.
            offset: As in `predict`.
            weights: A weight for each row; equal by default.
            level: Probability of the interval.

        Returns:
            Mean, sd and the ends of an interval.
        """
        import pandas as pd

        rows = self._rows(frame, offset)
        w = np.ones(rows.num) if weights is None else np.asarray(weights, dtype=np.float64)
        if w.shape != (rows.num,) or not np.isfinite(w).all() or w.min() < 0.0 or not w.any():
            raise InvalidInputError(
                f"weights must be {rows.num} numbers of 0 or more, one per row; got"
                f" {describe(weights)}."
            )
        parts, start = np.array(0.0), 0
        for block in self._expected(posterior, rows):
            parts = parts + block @ w[start : start + block.shape[1]]
            start += block.shape[1]
        found = self._summaries((parts / w.sum())[:, None], level)
        return pd.Series({name: float(value[0]) for name, value in found.items()})

    def _rows(self, frame: pd.DataFrame | None, offset: ArrayLike | None) -> _Rows:
        if frame is None:
            return _Rows(self.formula.design, self.offset, self.trials, len(self.observed))
        design, num = self.formula.of(check_frame(frame)), len(frame)
        added = offset if offset is not None else self.offset_column
        trials = None
        if self.formula.trials is not None:
            require_columns(frame, [self.formula.trials], "The outcome")
            trials = numbers(frame, self.formula.trials, "The column of trials")
        return _Rows(design, offsets(frame, added)[0], trials, num)

    def _expected(self, posterior: AbstractPosterior, rows: _Rows) -> list[np.ndarray]:
        """Draws of the expected outcomes of blocks of rows, each (draws, rows)."""
        if tuple(posterior.names) != self.model.names:
            raise InvalidInputError(
                f"The posterior is of {', '.join(posterior.names)}, but the regression has"
                f" {', '.join(self.model.names)}: take one that was made with this analysis."
            )
        theta = posterior.sample(jax.random.key(0), _DRAWS)
        values = self.model.prior.as_dict(theta)
        blocks = []
        for start in range(0, rows.num, _BLOCK):
            part = slice(start, min(start + _BLOCK, rows.num))
            eta = rows.design.of_rows(part).predictor(values, np) + rows.offset[part]
            mean = self.link.mean_numpy(np.broadcast_to(eta, (len(theta), eta.shape[-1])))
            blocks.append(mean if rows.trials is None else mean * rows.trials[part])
        return blocks

    def _summaries(self, draws: np.ndarray, level: float) -> dict[str, np.ndarray]:
        number("level", above=0.0, below=1.0)(level)
        ends = (0.5 - level / 2.0, 0.5 + level / 2.0)
        low, high = np.quantile(draws, ends, axis=0)
        names = (f"{100.0 * end:.4g}%" for end in ends)
        return {"mean": draws.mean(axis=0), "sd": draws.std(axis=0)} | dict(
            zip(names, (low, high), strict=True)
        )


@dataclasses.dataclass(frozen=True)
class _Rows:
    design: Design
    offset: np.ndarray
    trials: np.ndarray | None
    num: int


def offsets(frame: pd.DataFrame, given: Any) -> tuple[Float[np.ndarray, " n"], str | None]:
    """The offset of each row, and the column that it is.

    Args:
        frame: The data.
        given: A column's name, an array, or None for 0.
    """
    if given is None:
        return np.zeros(len(frame)), None
    if isinstance(given, str):
        require_columns(frame, [given], "offset")
        values = numbers(frame, given, "The offset")
    else:
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"offset must be a column's name or an array of numbers, got {describe(given)}."
            ) from None
    fits = values.shape == (len(frame),)
    if not fits or not np.isfinite(values).all():
        got = "it has missing or infinite ones" if fits else f"got shape {values.shape}"
        raise InvalidInputError(
            f"offset must be {len(frame)} finite numbers, one per row, on the scale of the linear"
            f" predictor (the logarithm of an exposure, where the link is log); {got}."
        )
    return values, given if isinstance(given, str) else None
