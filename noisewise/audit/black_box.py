r"""A lower bound on epsilon from draws alone, whatever made them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np
from scipy.stats import beta

from noisewise._arrays import Array, as_key, integer, number
from noisewise.audit.samplers import Sampler
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import ApproximateDP, PureDP

Event = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class EpsilonLowerBound:
    """With confidence 1 - alpha the sampler is not (epsilon', delta)-private for any epsilon' below `epsilon`.

    `counts` are the hits of the event under s and s', out of `num_draws` each; `event` says which event was used.
    """

    epsilon: float
    event: str
    counts: tuple[int, int]
    num_draws: int
    alpha: float
    delta: float

    def refutes(self, claim: float | PureDP | ApproximateDP) -> bool:
        """Whether a claim, an epsilon or a guarantee, is disproved."""
        if isinstance(claim, ApproximateDP) and claim.delta > self.delta:
            raise InvalidInputError(
                f"This bound is for delta = {self.delta:g}: ask for one with delta={claim.delta:g}."
            )
        return self.epsilon > (claim.epsilon if isinstance(claim, (PureDP, ApproximateDP)) else number("claim")(claim))


def epsilon_lower_bound(
    key: Array,
    sampler: AbstractMechanism | Sampler,
    s: Any,
    s_prime: Any,
    *,
    event: Event | None = None,
    num_draws: int = 1_000_000,
    alpha: float = 1e-6,
    delta: float = 0.0,
) -> EpsilonLowerBound:
    r"""Bound epsilon from below by log((P(A|s) - delta) / P(A|s')), both probabilities by Clopper-Pearson at alpha/2.

    `sampler` is a mechanism or any `f(key, s (N, k)) -> (N, k')`. Without an `event` (a function of the draws `(N, k')`
    that returns `(N,)` booleans), half of the draws choose one among thresholds of each column and of their sum, in both directions,
    and NaN or infinity in a column; the other half judges it, so that the level alpha is honest.

    >>> import jax, noisewise as nw
    >>> overspent = nw.mechanisms.Laplace(scale=1 / 1.05)
    >>> bound = epsilon_lower_bound(jax.random.key(0), overspent, [0.0], [1.0])
    >>> bound.refutes(1.0), bound.refutes(1.05)
    (True, False)
    """
    draw = sampler.sample if isinstance(sampler, AbstractMechanism) else sampler
    if not callable(draw):
        raise InvalidTypeError(f"sampler must be a mechanism or a function of (key, s), got {type(sampler).__name__}.")
    s, s_prime = np.atleast_1d(np.asarray(s, dtype=float)), np.atleast_1d(np.asarray(s_prime, dtype=float))
    if s.shape != s_prime.shape or s.ndim != 1:
        raise InvalidInputError(f"s and s_prime must have one shape (k,), got {s.shape} and {s_prime.shape}.")
    num_draws = integer("num_draws", at_least=100)(num_draws)
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    delta = number("delta", at_least=0.0, below=1.0)(delta)
    keys = jax.random.split(as_key(key), 2)
    first, second = (
        np.asarray(draw(k, np.broadcast_to(value, (num_draws, value.size))), dtype=float)
        for k, value in zip(keys, (s, s_prime), strict=True)
    )
    if event is not None:
        return _judge(event, "given", first, second, alpha, delta)
    half = num_draws // 2
    chosen, text, swapped = _choose(first[:half], second[:half], alpha, delta)
    judged = (second[half:], first[half:]) if swapped else (first[half:], second[half:])
    return _judge(chosen, text, *judged, alpha, delta)


def _judge(
    event: Event, text: str, first: np.ndarray, second: np.ndarray, alpha: float, delta: float
) -> EpsilonLowerBound:
    hits = _hits(event, first), _hits(event, second)
    return EpsilonLowerBound(float(_bound(*hits, len(first), alpha, delta)), text, hits, len(first), alpha, delta)


def _hits(event: Event, draws: np.ndarray) -> int:
    answers = np.asarray(event(draws))
    if answers.dtype != bool or answers.shape != (len(draws),):
        raise InvalidInputError(
            f"event must return one boolean per draw, shape ({len(draws)},); got {answers.dtype} of shape {answers.shape}."
        )
    return int(answers.sum())


def _bound(hits: Any, other_hits: Any, n: int, alpha: float, delta: float) -> np.ndarray:
    """log of the ratio of Clopper-Pearson limits, at least 0."""
    hits, other_hits = np.asarray(hits), np.asarray(other_hits)
    low = np.where(hits > 0, beta.ppf(alpha / 2, np.maximum(hits, 1), n - hits + 1), 0.0)
    high = np.where(other_hits < n, beta.isf(alpha / 2, other_hits + 1, np.maximum(n - other_hits, 1)), 1.0)
    with np.errstate(divide="ignore"):
        return np.maximum(0.0, np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def _choose(first: np.ndarray, second: np.ndarray, alpha: float, delta: float) -> tuple[Event, str, bool]:
    """The event, and direction, with the largest bound on these draws."""
    events, hits = _candidates(first, second)
    bounds = np.stack([_bound(a, b, len(first), alpha, delta) for a, b in (hits, hits[::-1])])
    swapped, i = np.unravel_index(np.argmax(bounds), bounds.shape)
    return events[i], str(events[i]), bool(swapped)


def _candidates(first: np.ndarray, second: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Events, and their hits (2, events) under s and s': a column or the sum beyond thresholds, or not a number."""
    columns = range(first.shape[-1])
    events: list[Any] = [_Odd(j, text, other) for j in columns for text in _Odd.kinds for other in (False, True)]
    hits = [[int(event(draws).sum()) for event in events] for draws in (first, second)]
    counted = [np.array(hits)]
    for column in [*columns, *([None] if len(columns) > 1 else [])]:
        # NaN is in no tail, and no threshold.
        a, b = (np.sort(values[~np.isnan(values)]) for values in (_values(first, column), _values(second, column)))
        finite = np.concatenate([a, b])[np.isfinite(np.concatenate([a, b]))]
        levels = np.unique(np.quantile(finite, np.linspace(0.0005, 0.9995, 400))) if finite.size else finite
        below = np.stack([np.searchsorted(values, levels, side="right") for values in (a, b)])
        events += [_Tail(column, float(level), above) for above in (False, True) for level in levels]
        counted += [below, np.array([[a.size], [b.size]]) - below]
    return events, np.concatenate(counted, axis=1)


def _values(draws: np.ndarray, column: int | None) -> np.ndarray:
    if column is not None:
        return draws[:, column]
    with np.errstate(invalid="ignore"):
        return draws.sum(-1)


@dataclasses.dataclass(frozen=True)
class _Tail:
    """The event that a column, or the sum of all, lies above a threshold, or not above it."""

    column: int | None
    threshold: float
    above: bool

    def __call__(self, draws: np.ndarray) -> np.ndarray:
        values = _values(draws, self.column)
        return values > self.threshold if self.above else values <= self.threshold

    def __str__(self) -> str:
        name = "sum of columns" if self.column is None else f"column {self.column}"
        return f"{name} {'>' if self.above else '<='} {self.threshold:g}"


@dataclasses.dataclass(frozen=True)
class _Odd:
    """The event that a column is NaN, or infinite, or is not."""

    kinds: ClassVar[dict[str, Callable[[np.ndarray], np.ndarray]]] = {"NaN": np.isnan, "infinite": np.isinf}

    column: int
    kind: str
    negated: bool

    def __call__(self, draws: np.ndarray) -> np.ndarray:
        return self.kinds[self.kind](draws[:, self.column]) != self.negated

    def __str__(self) -> str:
        return f"column {self.column} is {'not ' if self.negated else ''}{self.kind}"
