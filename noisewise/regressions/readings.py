"""What analysts read off a regression: ratios, marginal effects, sentences."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import number
from noisewise.errors import InvalidInputError, MissingCapabilityError

if TYPE_CHECKING:
    import pandas as pd

    from noisewise.regressions.analysis import Analysis
    from noisewise.regressions.formulas import Columns

_STEP = 1e-6
"""Standard deviations of a column by which it is moved for a derivative: one-sided differences, at
the ends of its range, are right to about as much, and rounding is below it."""

RATIOS = {"logit": "odds ratio", "log": "ratio of means"}
"""What the exponential of a coefficient is, by link."""


def interval_names(level: float) -> tuple[str, str]:
    """The names of the ends of an interval.

    >>> interval_names(0.95)
    ('2.5%', '97.5%')
    """
    level = number("level", above=0.0, below=1.0)(level)
    ends = (0.5 - level / 2.0, 0.5 + level / 2.0)
    low, high = (f"{100.0 * end:.4g}%" for end in ends)
    return low, high


def summaries(draws: Float[np.ndarray, "draws n"], level: float) -> dict[str, np.ndarray]:
    """Mean, sd and the ends of an interval of each column."""
    names = interval_names(level)
    low, high = np.quantile(draws, (0.5 - level / 2.0, 0.5 + level / 2.0), axis=0)
    return {"mean": draws.mean(axis=0), "sd": draws.std(axis=0)} | dict(
        zip(names, (low, high), strict=True)
    )


@dataclasses.dataclass(frozen=True)
class Coefficient:
    """A coefficient of a column.

    Attributes:
        name: Its name among the parameters.
        column: The name of its column or category.
        label: The category; "" for a column of numbers.
        base: The category in place of which it stands, "the base" where it is not
            known, "" where each has a coefficient of its own.
        binary: Whether the column holds 0 and 1 alone.
    """

    name: str
    column: str
    label: str
    binary: bool
    base: str = "the base"

    def sentence(self, analysis: Analysis, row: Any) -> str:
        """The coefficient in plain words.

        Args:
            analysis: The regression.
            row: Its row of `ratios` where the link has them, else of `coefficients`.
        """
        ends = [name for name in row.index if name.endswith("%")]
        low, high = (float(name.rstrip("%")) for name in ends)
        shown = [_digits(row[name], row[ends[1]] - row[ends[0]]) for name in ("median", *ends)]
        found = f"{shown[0]} ({high - low:.4g}%: {shown[1]} to {shown[2]})"
        link, noun = analysis.link_name, _noun(analysis)
        if link in RATIOS:
            what = f"the odds of {noun}" if link == "logit" else noun
            verb = "are" if link == "logit" else "is"
            if self.label and not self.base:
                return f"{self.column} {self.label}: {what} {verb} {found}, all else being 0."
            if self.label:
                of_base = f"{'those' if link == 'logit' else 'that'} of {self.base}"
                return f"{self.column} {self.label}: {what} {verb} {found} times {of_base}."
            if self.binary:
                return f"Where {self.column} is 1 and not 0, {what} {verb} multiplied by {found}."
            return f"Each further unit of {self.column} multiplies {what} by {found}."
        scale = noun if link == "identity" else f"the {link} of {noun}"
        if self.label and not self.base:
            return f"{self.column} {self.label}: {scale} is {found}, all else being 0."
        if self.label:
            return (
                f"{self.column} {self.label}: {scale} differs from that of {self.base} by {found}."
            )
        if self.binary:
            return f"Where {self.column} is 1 and not 0, {scale} changes by {found}."
        return f"Each further unit of {self.column} changes {scale} by {found}."


def _digits(value: float, width: float) -> str:
    """A number with two digits of the width of its interval."""
    if not (math.isfinite(value) and math.isfinite(width) and width > 0.0):
        return f"{value:.3g}"
    decimals = max(0, 1 - math.floor(math.log10(width)))
    return f"{value:,.{decimals}f}" if abs(value) < 1e6 else f"{value:.3g}"


def _noun(analysis: Analysis) -> str:
    outcome = analysis.formula.outcome
    if analysis.family.name in ("bernoulli", "binomial"):
        return f"a true yes to {outcome}"
    return f"the expected {outcome}"


def coefficients_of(analysis: Analysis) -> Iterator[Coefficient]:
    """The coefficients of columns, without the intercept and effects of groups."""
    for part in analysis.formula.design.columns:
        for place, label in enumerate(part.labels or ("",)):
            values = part.values[:, place]
            name = f"{part.name}[{label}]" if part.labels else part.name
            if name != "Intercept":
                binary = bool(np.isin(values, (0, 1)).all())
                yield Coefficient(name, part.name, label, binary, _base(analysis, part))


def _base(analysis: Analysis, part: Columns) -> str:
    """The category of a column that has no coefficient."""
    if (part.values.sum(axis=1) == 1.0).all():
        return ""
    if part.name not in analysis.data.columns:
        return "the base"
    without = {str(level) for level in _levels(analysis.data[part.name])} - set(part.labels)
    return without.pop() if len(without) == 1 else "the base"


def ratios(
    analysis: Analysis, draws: Mapping[str, Float[np.ndarray, " n"]], level: float
) -> pd.DataFrame:
    """Exponentials of coefficients: a row for each."""
    if analysis.link_name not in RATIOS:
        raise MissingCapabilityError(
            f"Coefficients on the {analysis.link_name} scale have no ratios: take"
            " analysis.marginal_effects(posterior)."
        )
    table = {c.name: np.exp(draws[c.name]) for c in coefficients_of(analysis)}
    return by_row(table, level)


def by_row(columns: Mapping[str, Float[np.ndarray, " n"]], level: float) -> pd.DataFrame:
    """Median, mean, sd and the ends of an interval, a row for each quantity."""
    import pandas as pd

    names = ["median", "mean", "sd", *interval_names(level)]
    if not columns:
        return pd.DataFrame(columns=names, dtype=float)
    draws = np.stack(list(columns.values()), axis=1)
    table = {"median": np.median(draws, axis=0), **summaries(draws, level)}
    return pd.DataFrame(table, index=list(columns))[names]


# Marginal effects --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of one column in every row.

    Attributes:
        name: The effect, as tables name it.
        kind: What it is, in words.
        before: The rows before it.
        after: The rows after it.
        per: What the difference is divided by, row by row.
    """

    name: str
    kind: str
    before: pd.DataFrame
    after: pd.DataFrame
    per: Float[np.ndarray, " n"]


def changes_of(frame: pd.DataFrame, name: str, *, of_names: bool = False) -> Iterator[Change]:
    """The changes of a column whose effects are read off: 0 to 1, a category in place of the first
    one, or a little more of a number, within its range.

    Args:
        frame: The rows.
        name: The column.
        of_names: Whether its numbers are names of categories.
    """
    import pandas as pd

    column, ones = frame[name], np.ones(len(frame))
    numeric = pd.api.types.is_numeric_dtype(column.dtype) and column.dtype != bool
    if numeric and column.isin((0, 1)).all():
        before, after = (frame.assign(**{name: value}) for value in (0, 1))
        yield Change(name, "1 in place of 0", before, after, ones)
    elif numeric and not of_names:
        yield _derivative(frame, name)
    else:
        levels = _levels(column)
        base = frame.assign(**{name: _filled(column, levels[0])})
        for level in levels[1:]:
            after = frame.assign(**{name: _filled(column, level)})
            yield Change(f"{name}[{level}]", f"{level} in place of {levels[0]}", base, after, ones)


def _derivative(frame: pd.DataFrame, name: str) -> Change:
    """A little more of a number, no further than the column goes: splines end there, and roots."""
    column = frame[name].astype(float)
    low, high = float(column.min()), float(column.max())
    step = _STEP * (float(column.std(ddof=0)) or 1.0)
    if low == high:
        low, high = -math.inf, math.inf
    before, after = (column - step).clip(lower=low), (column + step).clip(upper=high)
    less, more = (frame.assign(**{name: moved}) for moved in (before, after))
    return Change(name, "per unit", less, more, (after - before).to_numpy())


def _levels(column: pd.Series) -> list[Any]:
    """The categories that there are, in the order in which formulas take them."""
    if getattr(column.dtype, "ordered", False):
        return [level for level in column.cat.categories if (column == level).any()]
    return sorted(column.unique().tolist())


def _filled(column: pd.Series, level: Any) -> pd.Series:
    """The column with this level in every row, and the levels that it had."""
    import pandas as pd

    return pd.Series(level, index=column.index).astype(column.dtype)


def require_by(frame: pd.DataFrame, by: Any) -> list[str]:
    """Names of the columns that make groups."""
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        if name not in frame.columns:
            raise InvalidInputError(
                f"by has {name!r}, which is no column: there are"
                f" {', '.join(map(repr, frame.columns))}."
            )
    return names
