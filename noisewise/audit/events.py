"""Events that may separate two statistics, proposed from draws of an unknown law: thresholds on
many scores of a row.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from noisewise.audit.uniforms.dependence import groups
from noisewise.audit.uniforms.low_bits import CELLS, ROUNDING, cell

Event = Callable[[np.ndarray], np.ndarray]
"""A function of draws (N, k') that returns (N,) booleans."""

# The numbers of thresholds and groups below are round: more of them cost time and make the choice
# among events noisier.

_PLAIN_THRESHOLDS = 400
"""Thresholds on columns and on their sum."""

_FURTHER_THRESHOLDS = 100
"""Thresholds on every other score, of which there are many."""

_QUANTILES = (0.0005, 0.9995)
"""Thresholds are equally spaced quantiles of the draws between these two."""

_PAIRS = 12
"""Pairs of columns whose sum, difference and signs are tried."""

_TRIPLES = 20
"""Triples of columns whose signs are tried."""

_COLUMNS = 8
"""The first columns, whose distances and bits are tried: each costs as much as 10 others."""

_BULK = 0.99
"""The share of draws whose bits are read, those smallest in size: a few far out would leave no bits
above float64's spacing.
"""

_MIDDLE = (0.25, 0.75)
"""Bits are read below the distance between these quantiles, the width of the noise."""

_MAX_WINDOWS = 64
"""Windows of 4 bits above the rounding of float64; 13 of them reach the size of the number."""


@dataclasses.dataclass(frozen=True)
class Score:
    """A number for each row of draws: a function from (n, k') to (n,), with a name."""

    name: str
    function: Callable[[np.ndarray], np.ndarray]

    def __call__(self, draws: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):
            return self.function(draws)

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The event that a score lies above a threshold, or not above it.

    >>> first = Score("column 0", lambda draws: draws[:, 0])
    >>> event = Threshold(first, 1.0, above=True)
    >>> str(event), event(np.array([[0.5], [2.0]])).tolist()
    ('column 0 > 1', [False, True])
    """

    score: Score
    threshold: float
    above: bool

    def __call__(self, draws: np.ndarray) -> np.ndarray:
        values = self.score(draws)
        return values > self.threshold if self.above else values <= self.threshold

    def __str__(self) -> str:
        return f"{self.score} {'>' if self.above else '<='} {self.threshold:g}"


@dataclasses.dataclass(frozen=True)
class Odd:
    """The event that a column is NaN, or infinite; or that it is not.

    >>> str(Odd(0, "NaN", negated=False)), str(Odd(2, "infinite", negated=True))
    ('column 0 is NaN', 'column 2 is not infinite')
    """

    kinds: ClassVar[dict[str, Callable[[np.ndarray], np.ndarray]]] = {
        "NaN": np.isnan,
        "infinite": np.isinf,
    }

    column: int
    kind: str
    negated: bool

    def __call__(self, draws: np.ndarray) -> np.ndarray:
        return self.kinds[self.kind](draws[:, self.column]) != self.negated

    def __str__(self) -> str:
        return f"column {self.column} is {'not ' if self.negated else ''}{self.kind}"


@dataclasses.dataclass(frozen=True)
class Bits:
    """The event that four bits of a column, in the window of a unit, are `value`, and its size is
    at most `limit`.
    """

    column: int
    unit: float
    value: int
    limit: float

    def __call__(self, draws: np.ndarray) -> np.ndarray:
        values = draws[:, self.column]
        with np.errstate(invalid="ignore"):
            return (np.abs(values) <= self.limit) & (cell(values, self.unit) == self.value)

    def __str__(self) -> str:
        return (
            f"column {self.column} is {self.value} times 2^{round(np.log2(self.unit))} modulo"
            f" {CELLS}"
        )


def candidates(
    first: Float[np.ndarray, "n kp"],
    second: Float[np.ndarray, "n kp"],
    centers: Sequence[Float[np.ndarray, " kp"]],
    rng: np.random.Generator,
) -> tuple[list[Event], Int[np.ndarray, "2 events"]]:
    """Propose events that may separate two laws, and count them.

    Args:
        first: Draws of one law, shape (n, k').
        second: Draws of the other, shape (n, k').
        centers: Rows, shape (k',), around which noise may be centred.
        rng: Chooses among groups of columns where there are many.

    Returns:
        The events, and their hits among the draws of each law, shape (2, events).
    """
    width = first.shape[-1]
    around = _distinct([*centers, _medians(first), _medians(second)])
    found = [
        _odd(first, second),
        *(_thresholds(score, first, second, _PLAIN_THRESHOLDS) for score in _plain_scores(width)),
        *(
            _thresholds(score, first, second, _FURTHER_THRESHOLDS)
            for score in _further_scores(width, around, rng)
        ),
        *(_bits(j, first, second, centers) for j in range(min(width, _COLUMNS))),
    ]
    events = [event for proposed, _ in found for event in proposed]
    return events, np.concatenate([hits for _, hits in found], axis=1)


def _odd(first: np.ndarray, second: np.ndarray) -> tuple[list[Event], np.ndarray]:
    """NaN and infinity in each column, and their absence."""
    columns = range(first.shape[-1])
    events: list[Event] = [
        Odd(*each) for each in itertools.product(columns, Odd.kinds, (False, True))
    ]
    hits = [[int(event(draws).sum()) for event in events] for draws in (first, second)]
    return events, np.array(hits)


def _plain_scores(width: int) -> Iterator[Score]:
    """Each column, and the sum of all."""
    for j in range(width):
        yield Score(f"column {j}", functools.partial(_combination, columns=[j], signs=[1.0]))
    if width > 1:
        yield Score(
            "sum of columns",
            functools.partial(_combination, columns=list(range(width)), signs=[1.0] * width),
        )


def _further_scores(
    width: int, centers: Sequence[np.ndarray], rng: np.random.Generator
) -> Iterator[Score]:
    """Distances of columns to centers; sums and differences of pairs; products of two and three
    signs around centers.
    """
    for j in range(min(width, _COLUMNS)):
        for middle in sorted({float(center[j]) for center in centers}):
            name = f"distance of column {j} from {middle:g}"
            yield Score(name, functools.partial(_distance, column=j, center=middle))
    pairs = groups(width, 2, rng, _PAIRS)
    for a, b in pairs:
        for name, sign in (("sum", 1.0), ("difference", -1.0)):
            if width > 2 or sign < 0.0:
                yield Score(
                    f"{name} of columns {a} and {b}",
                    functools.partial(_combination, columns=[a, b], signs=[1.0, sign]),
                )
    for group in [*pairs, *groups(width, 3, rng, _TRIPLES)]:
        for center in centers:
            columns = list(group)
            name = (
                f"product of signs of columns {', '.join(map(str, group))} around {center[columns]}"
            )
            yield Score(name, functools.partial(_signs, columns=columns, center=center[columns]))


def _combination(draws: np.ndarray, *, columns: list[int], signs: list[float]) -> np.ndarray:
    return np.sum([sign * draws[:, j] for j, sign in zip(columns, signs, strict=True)], axis=0)


def _distance(draws: np.ndarray, *, column: int, center: float) -> np.ndarray:
    return np.abs(draws[:, column] - center)


def _signs(draws: np.ndarray, *, columns: list[int], center: np.ndarray) -> np.ndarray:
    """The product of the signs of columns around a center: -1, 0 or 1."""
    return np.prod([np.sign(draws[:, j] - c) for j, c in zip(columns, center, strict=True)], axis=0)


def _distinct(rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [
        row
        for i, row in enumerate(rows)
        if not any(np.array_equal(row, other) for other in rows[:i])
    ]


def _medians(draws: np.ndarray) -> np.ndarray:
    """The median of each column, 0 where it is not a finite number."""
    ordered = np.sort(draws, axis=0)
    return np.nan_to_num(ordered[len(ordered) // 2], nan=0.0, posinf=0.0, neginf=0.0)


def _thresholds(
    score: Score, first: np.ndarray, second: np.ndarray, number: int
) -> tuple[list[Event], np.ndarray]:
    """A score beyond thresholds, in both directions; NaN is in no tail, and no threshold."""
    a, b = (np.sort(values[~np.isnan(values)]) for values in (score(first), score(second)))
    finite = np.concatenate([a, b])
    levels = finite = finite[np.isfinite(finite)]
    if finite.size:
        levels = np.unique(np.quantile(finite, np.linspace(*_QUANTILES, number)))
    below = np.stack([np.searchsorted(values, levels, side="right") for values in (a, b)])
    events: list[Event] = [
        Threshold(score, float(level), above) for above in (False, True) for level in levels
    ]
    return events, np.concatenate([below, np.array([[a.size], [b.size]]) - below], axis=1)


def _bits(
    column: int, first: np.ndarray, second: np.ndarray, centers: Sequence[np.ndarray]
) -> tuple[list[Event], np.ndarray]:
    """Bits of a column between its bulk and the rounding of float64, there and at the centers."""
    none = np.empty((2, 0), dtype=int)
    both = [draws[np.isfinite(draws)] for draws in (first[:, column], second[:, column])]
    if min(values.size for values in both) == 0:
        return [], none
    limit = max(float(np.quantile(np.abs(values), _BULK)) for values in both)
    farthest = max((abs(float(center[column])) for center in centers), default=0.0)
    finest = ROUNDING * np.spacing(limit + farthest)
    width = max(float(np.ptp(np.quantile(values, _MIDDLE))) for values in both)
    units = finest * float(CELLS) ** np.arange(_MAX_WINDOWS)
    units = units[units * CELLS * CELLS <= width]
    inside = [values[np.abs(values) <= limit] for values in both]
    windows = itertools.product(units.tolist(), range(CELLS))
    events: list[Event] = [Bits(column, unit, value, limit) for unit, value in windows]
    return events, np.concatenate([none, *(_cell_counts(inside, unit) for unit in units)], axis=1)


def _cell_counts(both: Sequence[np.ndarray], unit: float) -> np.ndarray:
    """The numbers of values in each cell of a window, shape (2, 16)."""
    return np.stack(
        [np.bincount(cell(values, unit).astype(int), minlength=CELLS) for values in both]
    )
