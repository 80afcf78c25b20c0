"""Events that may tell two statistics apart, proposed from draws of an unknown law: thresholds on
many scores of a row.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from noisewise.audit.dependence import groups
from noisewise.audit.low_bits import CELLS, ROUNDING, cell

Event = Callable[[np.ndarray], np.ndarray]
"""A function of draws (N, k') that returns (N,) booleans."""

_THRESHOLDS = 400
"""Thresholds on columns and on their sum, at quantiles of the draws from .0005 to .9995."""

_FEWER = 100
"""Thresholds on every other score."""

_PAIRS = 12
"""Pairs of columns whose sum, difference and signs are looked at."""

_TRIPLES = 20
"""Triples of columns whose signs are looked at."""

_COLUMNS = 8
"""Columns of which distances and bits are looked at, the first ones: each costs as much as 10
others.
"""

_BULK = 0.99
"""Bits are those of the share of draws that is smallest in size: a few far out would leave nothing
below float64's spacing.
"""

_MIDDLE = (0.25, 0.75)
"""Bits are looked for below the distance between these quantiles."""


@dataclasses.dataclass(frozen=True)
class Score:
    """A number for each row of draws; `__call__` sees (N, k') and returns (N,)."""

    name: str
    function: Callable[[np.ndarray], np.ndarray]

    def __call__(self, draws: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):
            return self.function(draws)

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The event that a score lies above a threshold, or not above it."""

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
    """The event that a column is NaN, or infinite, or is not."""

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
    """The event that four bits of a column, in the window of a unit, are `value`, and its size at
    most `limit`.
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
    first: np.ndarray, second: np.ndarray, centers: Sequence[np.ndarray], rng: np.random.Generator
) -> tuple[list[Event], np.ndarray]:
    """Events, and their hits (2, events) among draws (N, k') of two laws. `centers` are rows (k',)
    where noise may center.
    """
    events: list[Event] = [
        Odd(j, text, other)
        for j in range(first.shape[-1])
        for text in Odd.kinds
        for other in (False, True)
    ]
    counted = [
        np.array([[int(event(draws).sum()) for event in events] for draws in (first, second)])
    ]
    around = _distinct([*centers, _medians(first), _medians(second)])
    found = [
        *(
            _thresholds(score, first, second, _THRESHOLDS)
            for score in _plain_scores(first.shape[-1])
        ),
        *(
            _thresholds(score, first, second, _FEWER)
            for score in _further_scores(first.shape[-1], around, rng)
        ),
        *(_bits(j, first, second, centers) for j in range(min(first.shape[-1], _COLUMNS))),
    ]
    events += [event for proposed, _ in found for event in proposed]
    return events, np.concatenate([*counted, *(hits for _, hits in found)], axis=1)


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
            yield Score(
                f"distance of column {j} from {middle:g}",
                functools.partial(_distance, column=j, center=middle),
            )
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
    """-1, 0 or 1."""
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
    """A score beyond thresholds, in both directions."""
    # NaN is in no tail, and no threshold.
    a, b = (np.sort(values[~np.isnan(values)]) for values in (score(first), score(second)))
    finite = np.concatenate([a, b])
    finite = finite[np.isfinite(finite)]
    levels = (
        np.unique(np.quantile(finite, np.linspace(0.0005, 0.9995, number)))
        if finite.size
        else finite
    )
    below = np.stack([np.searchsorted(values, levels, side="right") for values in (a, b)])
    events: list[Event] = [
        Threshold(score, float(level), above) for above in (False, True) for level in levels
    ]
    return events, np.concatenate([below, np.array([[a.size], [b.size]]) - below], axis=1)


def _bits(
    column: int, first: np.ndarray, second: np.ndarray, centers: Sequence[np.ndarray]
) -> tuple[list[Event], np.ndarray]:
    """Bits of a column between its bulk and the rounding of float64, there and at the centers."""
    sizes = [np.abs(draws[:, column]) for draws in (first, second)]
    sizes = [values[np.isfinite(values)] for values in sizes]
    if min(values.size for values in sizes) == 0:
        return [], np.empty((2, 0), dtype=int)
    limit = max(float(np.quantile(values, _BULK)) for values in sizes)
    finest = ROUNDING * np.spacing(
        limit + max([0.0, *(abs(float(center[column])) for center in centers)])
    )
    width = max(
        float(np.ptp(np.quantile(draws[np.isfinite(draws)], _MIDDLE)))
        for draws in (first[:, column], second[:, column])
    )
    units = finest * 16.0 ** np.arange(64)
    events: list[Event] = []
    hits: list[np.ndarray] = []
    for unit in units[units * CELLS * CELLS <= width]:
        counts = []
        for draws in (first[:, column], second[:, column]):
            inside = draws[np.abs(draws) <= limit]
            counts.append(np.bincount(cell(inside, unit).astype(int), minlength=CELLS))
        hits.append(np.stack(counts))
        events += [Bits(column, float(unit), value, limit) for value in range(CELLS)]
    return events, np.concatenate(hits, axis=1) if hits else np.empty((2, 0), dtype=int)
