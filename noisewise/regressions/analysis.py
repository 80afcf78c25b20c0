"""A model with its observation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from noisewise._core.arrays import describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Finding
from noisewise.regressions.families import Family, Link
from noisewise.regressions.formulas import Design, Formula
from noisewise.regressions.frames import check_frame, numbers, require_columns
from noisewise.regressions.readings import (
    RATIOS,
    by_row,
    changes_of,
    coefficients_of,
    ratios,
    require_by,
    summaries,
)

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
        data: The rows that it was given.
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
    data: pd.DataFrame
    priors: Mapping[str, str]
    findings: tuple[UnusualScale | Finding, ...]

    @property
    def rows_in_words(self) -> str:
        """How many rows there are, and how many were suppressed or have no outcome."""
        absent, mechanism = np.isnan(self.observed), self.model.mechanism
        width = mechanism.width or len(absent) + mechanism.num_unknown
        measured = mechanism.measured(width)[: len(absent)]
        kinds = {"suppressed": absent & measured, "without an outcome": absent & ~measured}
        told = [f"{rows.sum():,} {kind}" for kind, rows in kinds.items() if rows.any()]
        return f"{len(absent):,} rows" + (f", of them {' and '.join(told)}" if told else "")

    def __repr__(self) -> str:
        lines = [
            f"{self.formula.text}",
            f"  {self.family.name}, link {self.link_name}; {self.rows_in_words}",
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
        means = [summaries(block, level) for block in self._expected(posterior, rows)]
        table = {name: np.concatenate([part[name] for part in means]) for name in means[0]}
        return pd.DataFrame(table, index=None if frame is None else frame.index)

    def prevalence(
        self,
        posterior: AbstractPosterior,
        frame: pd.DataFrame | None = None,
        *,
        offset: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        by: str | Sequence[str] | None = None,
        level: float = 0.95,
    ) -> Any:
        """The mean over rows of the expected outcome: the share of yes, overall or by group. With
        a frame of the population, or weights of the rows, it is poststratified.

        Args:
            posterior: A posterior of this model.
            frame: As in `predict`.
            offset: As in `predict`.
            weights: A weight for each row; equal by default.
            by: Columns whose entries make groups; a row that lacks one is in none.
            level: Probability of the interval.

        Returns:
            Mean, sd and the ends of an interval; with `by`, a table with a row for each group, and
            the number of its rows.
        """
        import pandas as pd

        rows = self._rows(frame, offset)
        w = self.check_weights(weights, rows.num)
        given = self.data if frame is None else frame
        if by is None:
            found = summaries(self._means(posterior, rows, w[:, None]), level)
            return pd.Series({name: float(value[0]) for name, value in found.items()})
        grouped = given.groupby(require_by(given, by), sort=True, observed=True)
        members, group = np.zeros((rows.num, grouped.ngroups)), grouped.ngroup()
        group = group.fillna(-1).to_numpy(dtype=int)
        inside = np.flatnonzero(group >= 0)  # a row without an entry is in none
        members[inside, group[inside]] = w[inside]
        if not members.sum(axis=0).all():
            raise InvalidInputError("The weights of a group add up to 0: leave out its rows.")
        sizes = grouped.size()
        table = summaries(self._means(posterior, rows, members), level)
        return pd.DataFrame({"rows": sizes.to_numpy(), **table}, index=sizes.index)

    def coefficients(self, posterior: AbstractPosterior, *, level: float = 0.95) -> pd.DataFrame:
        """The coefficients of columns: median, mean, sd and the ends of an interval.

        Args:
            posterior: A posterior of this model.
            level: Probability of the intervals.
        """
        names = [c.name for c in coefficients_of(self)]
        first = ["Intercept"] if "Intercept" in self.model.names else []
        draws = self._draws(posterior)
        return by_row({name: draws[name] for name in (*first, *names)}, level)

    def ratios(self, posterior: AbstractPosterior, *, level: float = 0.95) -> pd.DataFrame:
        """Exponentials of coefficients: odds ratios where the link is logit, ratios of means (of
        rates, with an offset) where it is log.

        Args:
            posterior: A posterior of this model.
            level: Probability of the intervals.

        Raises:
            MissingCapabilityError: If the link is another one.
        """
        return ratios(self, self._draws(posterior), level)

    def marginal_effects(
        self,
        posterior: AbstractPosterior,
        *,
        weights: ArrayLike | None = None,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """Average marginal effects: by how much the expected outcome changes, on average over the
        rows of the data, where one column does and the others stay: 1 in place of 0, a category in
        place of the first, or per unit of a number.

        Args:
            posterior: A posterior of this model.
            weights: A weight for each row; equal by default.
            level: Probability of the intervals.
        """
        w = self.check_weights(weights, len(self.observed))[:, None]
        effects, kinds = {}, []
        for name in sorted(self.formula.common_variables):
            of_names = name in self.formula.name_variables
            for change in changes_of(self.data, name, of_names=of_names):
                each = w / change.per[:, None]
                before, after = (
                    self._means(posterior, self._changed(rows), each)
                    for rows in (change.before, change.after)
                )
                effects[change.name] = ((after - before) * (each.sum() / w.sum()))[:, 0]
                kinds.append(change.kind)
        table = by_row(effects, level)
        table.insert(0, "change", kinds)
        return table

    def confidential(self, posterior: AbstractPosterior, *, level: float = 0.95) -> pd.DataFrame:
        """The confidential outcome of each row, as far as its released one and the model tell: of
        a yes-or-no answer, `mean` is the probability of a true yes.

        Args:
            posterior: A posterior of this model, of a method that draws confidential statistics.
            level: Probability of the intervals.

        Returns:
            A row for each row of the data: what was released, mean, sd, median and the ends of an
            interval.
        """
        self._draws(posterior)
        table = posterior.confidential_summary(level=level).set_axis(self.data.index)
        table.insert(0, "released", self.observed)
        return table

    def in_words(self, posterior: AbstractPosterior, *, level: float = 0.95) -> list[str]:
        """A sentence for each coefficient."""
        of = self.ratios if self.link_name in RATIOS else self.coefficients
        table = of(posterior, level=level)
        return [c.sentence(self, table.loc[c.name]) for c in coefficients_of(self)]

    @staticmethod
    def check_weights(weights: ArrayLike | None, num: int) -> Float[np.ndarray, " n"]:
        """Weights of num rows as an array; equal ones where none are given."""
        w = np.ones(num) if weights is None else np.asarray(weights, dtype=np.float64)
        if w.shape != (num,) or not np.isfinite(w).all() or w.min() < 0.0 or not w.any():
            raise InvalidInputError(
                f"weights must be {num} numbers of 0 or more, one per row; got {describe(weights)}."
            )
        return w

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

    def _changed(self, frame: pd.DataFrame) -> _Rows:
        """Rows of the data of which a column was changed."""
        return _Rows(self.formula.of(frame), self.offset, self.trials, len(frame))

    def _draws(self, posterior: AbstractPosterior) -> dict[str, np.ndarray]:
        """Draws of the posterior by the names of parameters."""
        if tuple(posterior.names) != self.model.names:
            raise InvalidInputError(
                f"The posterior is of {', '.join(posterior.names)}, but the regression has"
                f" {', '.join(self.model.names)}: take one that was made with this analysis."
            )
        theta = posterior.sample(jax.random.key(0), _DRAWS)
        return dict(zip(self.model.names, theta.T, strict=True))

    def _expected(self, posterior: AbstractPosterior, rows: _Rows) -> Iterator[np.ndarray]:
        """Draws of the expected outcomes of blocks of rows, each (draws, rows)."""
        theta = np.stack(list(self._draws(posterior).values()), axis=1)
        values = self.model.prior.as_dict(theta)
        for start in range(0, rows.num, _BLOCK):
            part = slice(start, min(start + _BLOCK, rows.num))
            eta = rows.design.of_rows(part).predictor(values, np) + rows.offset[part]
            mean = self.link.mean_numpy(np.broadcast_to(eta, (len(theta), eta.shape[-1])))
            yield mean if rows.trials is None else mean * rows.trials[part]

    def _means(
        self, posterior: AbstractPosterior, rows: _Rows, weights: Float[np.ndarray, "n m"]
    ) -> Float[np.ndarray, "draws m"]:
        """Draws of weighted means over rows."""
        total, start = np.array(0.0), 0
        for block in self._expected(posterior, rows):
            total = total + block @ weights[start : start + block.shape[1]]
            start += block.shape[1]
        return total / weights.sum(axis=0)


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
