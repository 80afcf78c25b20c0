r"""A lower bound on epsilon from draws alone, whatever made them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from scipy.stats import beta

from noisewise._core.arrays import Array, as_key, integer, number
from noisewise.audit.dependence import ranked_uniforms, serial
from noisewise.audit.events import Event, candidates
from noisewise.audit.samplers import Sampler
from noisewise.audit.smooth_tests import association, legendre
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import ApproximateDP, PureDP

_DEPENDENT = 1e-9
"""Rows are refused as dependent below this p-value over all columns: once in 10^9 audits of
independent ones.
"""

_COLUMNS = 16
"""Columns whose rows are compared, the first ones: rows that depend on each other mostly do in all
columns.
"""

_COMPARED = 1000
"""Rows that are drawn under two more keys."""


@dataclasses.dataclass(frozen=True)
class EpsilonLowerBound:
    """With confidence 1 - alpha the sampler is not (epsilon', delta)-private for any epsilon' below
    `epsilon`.

    `counts` are the hits of the event under s and s', out of `num_draws` each; `event` says which
    event was used.
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
        return self.epsilon > (
            claim.epsilon if isinstance(claim, (PureDP, ApproximateDP)) else number("claim")(claim)
        )


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
    r"""Bound epsilon from below by log((P(A|s) - delta) / P(A|s')), both probabilities by
    Clopper-Pearson at alpha/2.

    `sampler` is a mechanism or any `f(key, s (N, k)) -> (N, k')`. Without an `event` (a function of
    the draws `(N, k')` that returns `(N,)` booleans), half of the draws choose one, and the other
    half judges it, so that the level alpha is honest: thresholds, in both directions, on columns,
    their sum, sums and differences of pairs, distances from s, s' and the medians, products of two
    or three signs around these; NaN or infinity in a column; four bits of a column, anywhere
    between the noise and the last bits of float64.

    Clopper-Pearson's limits hold for independent rows. Draws that come out alike under different
    keys, or whose rows depend on each other (repeated, antithetic), prove nothing and are refused
    with `InvalidInputError`, whatever the event. One column's rows are compared at every lag; what
    depends in a random order is not seen, and makes the level too small. Each call must draw noise
    afresh from its key, or from the operating system.

    A bound is about the pair (s, s') and the events listed; it proves a claim wrong, never right.
    What no black box shows: a loss at other pairs, in events of probability below 10 / num_draws,
    or of many columns at once; noise that its maker can recompute, or s in bits under a cipher,
    which look random to whoever lacks the key; a sampler that behaves while it is tested. Left out
    on purpose are the last bits of float64, by which every floating-point sampler tells s from s'
    (Mironov 2012): see them with

        event=lambda y: np.any(y * 2.0**53 != np.round(y * 2.0**53), axis=1)

    >>> import jax, noisewise as nw
    >>> overspent = nw.mechanisms.Laplace(scale=1 / 1.05)
    >>> bound = epsilon_lower_bound(jax.random.key(0), overspent, [0.0], [1.0])
    >>> bound.refutes(1.0), bound.refutes(1.05)
    (True, False)
    """
    draw = sampler.sample if isinstance(sampler, AbstractMechanism) else sampler
    if not callable(draw):
        raise InvalidTypeError(
            f"sampler must be a mechanism or a function of (key, s), got {type(sampler).__name__}."
        )
    s, s_prime = (
        np.atleast_1d(np.asarray(s, dtype=float)),
        np.atleast_1d(np.asarray(s_prime, dtype=float)),
    )
    if s.shape != s_prime.shape or s.ndim != 1:
        raise InvalidInputError(
            f"s and s_prime must have one shape (k,), got {s.shape} and {s_prime.shape}."
        )
    num_draws = integer("num_draws", at_least=100)(num_draws)
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    delta = number("delta", at_least=0.0, below=1.0)(delta)
    keys = jax.random.split(as_key(key), 5)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(keys[4])))
    first, second = (
        _draws(draw, k, value, num_draws) for k, value in zip(keys, (s, s_prime), strict=False)
    )
    _refuse_frozen([_draws(draw, k, s, min(num_draws, _COMPARED)) for k in keys[2:4]], rng)
    for draws in (first, second):
        _refuse_dependent(draws, rng)
    if event is not None:
        return _judge(event, "given", first, second, alpha, delta)
    half = num_draws // 2
    centers = [s, s_prime] if first.shape[-1] == s.size else []
    events, hits = candidates(first[:half], second[:half], centers, rng)
    chosen, swapped = _choose(events, hits, half, alpha, delta)
    judged = (second[half:], first[half:]) if swapped else (first[half:], second[half:])
    return _judge(chosen, str(chosen), *judged, alpha, delta)


def _draws(draw: Sampler, key: Array, s: np.ndarray, size: int) -> np.ndarray:
    # A copy: a sampler may hand out the same array again and again.
    draws = np.array(draw(key, np.broadcast_to(s, (size, s.size))), dtype=float)
    if draws.ndim != 2 or len(draws) != size:
        raise InvalidInputError(
            f"The sampler must return {size} rows, shape ({size}, k'), got {draws.shape}."
        )
    return draws


def _refuse_frozen(calls: list[np.ndarray], rng: np.random.Generator) -> None:
    """Refuse a sampler whose draws under two keys are associated, row by row."""
    columns = range(min(calls[0].shape[-1], _COLUMNS))
    ranks = [[legendre(ranked_uniforms(draws[:, j], rng), 2) for j in columns] for draws in calls]
    smallest = min(association(first, second) for first, second in zip(*ranks, strict=True))
    if smallest * len(columns) < _DEPENDENT:
        raise InvalidInputError(
            "The sampler must draw afresh for every key; under two keys its rows are alike"
            f" (p-value {smallest:.2g}). Noise that is the same every time hides nothing: make all"
            " randomness from the key that is passed."
        )


def _refuse_dependent(draws: np.ndarray, rng: np.random.Generator) -> None:
    """Refuse rows that are associated at some lag."""
    columns = range(min(draws.shape[-1], _COLUMNS))
    smallest = min(serial(ranked_uniforms(draws[:, j], rng)) for j in columns)
    if smallest * len(columns) < _DEPENDENT:
        raise InvalidInputError(
            "The rows that the sampler returns must be independent; these depend on each other"
            f" (p-value {smallest:.2g}), as repeated or antithetic rows do, and no probability"
            " follows from counting them. Draw every row by itself; sampler_against_density tests"
            " the noise of a mechanism further."
        )


def _judge(
    event: Event, text: str, first: np.ndarray, second: np.ndarray, alpha: float, delta: float
) -> EpsilonLowerBound:
    hits = _hits(event, first), _hits(event, second)
    return EpsilonLowerBound(
        float(_bound(*hits, len(first), alpha, delta)), text, hits, len(first), alpha, delta
    )


def _hits(event: Event, draws: np.ndarray) -> int:
    answers = np.asarray(event(draws))
    if answers.dtype != bool or answers.shape != (len(draws),):
        raise InvalidInputError(
            f"event must return one boolean per draw, shape ({len(draws)},); got {answers.dtype} of"
            f" shape {answers.shape}."
        )
    return int(answers.sum())


def _bound(hits: Any, other_hits: Any, n: int, alpha: float, delta: float) -> np.ndarray:
    """log of the ratio of Clopper-Pearson limits, at least 0."""
    hits, other_hits = np.asarray(hits), np.asarray(other_hits)
    low = np.where(hits > 0, beta.ppf(alpha / 2, np.maximum(hits, 1), n - hits + 1), 0.0)
    high = np.where(
        other_hits < n, beta.isf(alpha / 2, other_hits + 1, np.maximum(n - other_hits, 1)), 1.0
    )
    with np.errstate(divide="ignore"):
        return np.maximum(0.0, np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def _choose(
    events: list[Event], hits: np.ndarray, n: int, alpha: float, delta: float
) -> tuple[Event, bool]:
    """The event, and direction, with the largest bound on these hits among n draws."""
    bounds = np.stack([_bound(a, b, n, alpha, delta) for a, b in (hits, hits[::-1])])
    swapped, i = np.unravel_index(np.argmax(bounds), bounds.shape)
    return events[i], bool(swapped)
