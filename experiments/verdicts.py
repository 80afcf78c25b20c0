"""Verdicts on claims, and differences of trials with their standard errors, by which they are
given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import t as student

HOLDS, PARTLY, NOT = "holds", "partly", "does not hold"
UNTOLD, UNJUDGED, MISSING = "undecided", "cannot be judged", "not yet run"
LEVEL = 0.95
"""Of the intervals by which differences are told from none."""

Judged = tuple[str, str]
"""A verdict and its evidence."""


@dataclasses.dataclass(frozen=True)
class Gap:
    """A mean over `num` trials and its standard error, which one trial does not have."""

    mean: float
    se: float
    num: int

    @property
    def reach(self) -> float:
        """Half the width of the 95% interval: standard errors times the quantile of t with `num` -
        1 degrees of freedom.

        >>> round(Gap(0.0, 1.0, 5).reach, 3)
        2.776
        """
        return float(student.ppf(0.5 + LEVEL / 2.0, self.num - 1) * self.se)

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.reach

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.reach

    def text(self, decimals: int = 3) -> str:
        """With its standard error, where it has one."""
        error = "" if np.isnan(self.se) else f" ± {self.se:.{decimals}f}"
        return f"{self.mean:.{decimals}f}{error}"


def average(values: Any) -> Gap:
    """The mean of values (T,) and sd / sqrt(T).

    >>> average([1.0, 2.0, 3.0]).text(2), average([1.0]).text(1)
    ('2.00 ± 0.58', '1.0')
    """
    found = np.asarray(values, dtype=float)
    error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
    return Gap(float(np.mean(found)), float(error), len(found))


def difference(first: Any, second: Any) -> Gap:
    """first - second of trials (T,) of the same seeds.

    >>> difference([1.0, 2.0], [0.0, 1.0])
    Gap(mean=1.0, se=0.0, num=2)
    """
    return average(np.subtract(first, second))


def above(found: Gap, bound: float = 0.0) -> str:
    """Whether a mean is above a bound, by more than its error can explain; one trial tells nothing.

    >>> [above(Gap(mean, 0.5, 5), 1.0) for mean in (2.5, 2.3, -0.5)], above(Gap(9.0, float("nan"), 1))
    (['holds', 'undecided', 'does not hold'], 'undecided')
    """
    return HOLDS if found.low > bound else NOT if found.high < bound else UNTOLD


def below(found: Gap, bound: float = 0.0) -> str:
    """Whether it is below."""
    return opposite(above(found, bound))


def opposite(verdict: str) -> str:
    """Of the contrary claim."""
    return {HOLDS: NOT, NOT: HOLDS}.get(verdict, verdict)


def large(found: Gap, bound: float) -> str:
    """Whether a mean is large, with whichever sign: its interval lies beyond the bound; not, where
    it lies within.

    >>> [large(Gap(*each, 5), 0.25) for each in ((-0.5, 0.08), (0.4, 0.1), (0.2, 0.1), (0.1, 0.02))]
    ['holds', 'undecided', 'undecided', 'does not hold']
    """
    return above(Gap(abs(found.mean), found.se, found.num), bound)


# Several parts of one claim -----------------------------------------------------------------------


def by_measures(parts: Sequence[str]) -> str:
    """Of one claim by several measures: those by which nothing is told apart leave it to the
    others.

    >>> by_measures([HOLDS, UNTOLD]), by_measures([HOLDS, NOT]), by_measures([UNTOLD, UNTOLD])
    ('holds', 'partly', 'undecided')
    """
    told = [part for part in parts if part != UNTOLD]
    return by_settings(told) if told else UNTOLD


def by_settings(parts: Sequence[str]) -> str:
    """Of a claim about several settings: it holds partly where it does in some and not in others.

    >>> by_settings([HOLDS, UNTOLD]), by_settings([NOT, UNTOLD]), by_settings([HOLDS, NOT]), by_settings([PARTLY, UNTOLD])
    ('undecided', 'does not hold', 'partly', 'partly')
    """
    if all(part == HOLDS for part in parts):
        return HOLDS
    if PARTLY in parts or {HOLDS, NOT} <= set(parts):
        return PARTLY
    return NOT if NOT in parts else UNTOLD


def all_of(parts: Sequence[str]) -> str:
    """Of a claim that is one only together: it fails with any part.

    >>> all_of([HOLDS, NOT, UNTOLD]), all_of([HOLDS, UNTOLD]), all_of([HOLDS, HOLDS])
    ('does not hold', 'undecided', 'holds')
    """
    return NOT if NOT in parts else HOLDS if all(part == HOLDS for part in parts) else UNTOLD


def any_of(parts: Sequence[str]) -> str:
    """Of a claim that one part is enough for.

    >>> any_of([HOLDS, NOT, UNTOLD]), any_of([NOT, UNTOLD]), any_of([NOT, NOT])
    ('holds', 'undecided', 'does not hold')
    """
    return opposite(all_of([opposite(part) for part in parts]))


def graded(parts: Sequence[bool]) -> str:
    """All, some or none of what has no error.

    >>> graded([True, False]), graded([True]), graded([False])
    ('partly', 'holds', 'does not hold')
    """
    return by_settings([HOLDS if part else NOT for part in parts])
