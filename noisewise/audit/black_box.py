r"""A lower bound on epsilon from draws alone, whatever made them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from scipy.stats import beta

from noisewise._core.arrays import Array, as_key, integer, number
from noisewise.audit.events import Event, candidates
from noisewise.audit.samplers import Sampler
from noisewise.audit.uniforms.dependence import ranked_uniforms, serial
from noisewise.audit.uniforms.smooth_tests import association, legendre
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import ApproximateDP, PureDP

_DEPENDENT = 1e-9
"""The p-value, over all columns, below which rows are refused as dependent: a false alarm once in
10^9 audits.
"""

_COLUMNS = 16
"""The first columns, whose rows are compared: rows that depend on each other mostly do so in all
columns.
"""

_COMPARED = 1000
"""Rows drawn under two more keys: enough to find noise that is the same every time."""


@dataclasses.dataclass(frozen=True)
class EpsilonLowerBound:
    """With confidence 1 - alpha the sampler is not (epsilon', delta)-private for any epsilon' below
    `epsilon`.

    Attributes:
        epsilon: The lower bound, at least 0.
        event: The event that separates s and s' best, in words.
        counts: The hits of the event under s and s'.
        num_draws: The number of draws in which they were counted, for each of the two.
        alpha: The probability that the bound is wrong.
        delta: The delta for which it holds.

    >>> bound = EpsilonLowerBound(0.8, "column 0 > 1", (700, 300), 1000, alpha=1e-6, delta=0.0)
    >>> bound.refutes(PureDP(0.5)), bound.refutes(PureDP(1.0))
    (True, False)
    """

    epsilon: float
    event: str
    counts: tuple[int, int]
    num_draws: int
    alpha: float
    delta: float

    def refutes(self, claim: float | PureDP | ApproximateDP) -> bool:
        """Whether a claim is disproved.

        Args:
            claim: An epsilon (at this delta), a PureDP or an ApproximateDP.

        Raises:
            InvalidInputError: If the claim allows a larger delta than this bound was computed for.
        """
        if isinstance(claim, ApproximateDP) and claim.delta > self.delta:
            raise InvalidInputError(
                f"This bound is for delta = {self.delta:g}: ask for one with delta={claim.delta:g}."
            )
        if isinstance(claim, (PureDP, ApproximateDP)):
            claim = claim.epsilon
        return bool(self.epsilon > number("claim")(claim))


def epsilon_lower_bound(
    key: Array,
    sampler: AbstractMechanism | Sampler,
    s: Float[Array, " k"],
    s_prime: Float[Array, " k"],
    *,
    event: Event | None = None,
    num_draws: int = 1_000_000,
    alpha: float = 1e-6,
    delta: float = 0.0,
) -> EpsilonLowerBound:
    r"""Bound epsilon from below by log((P(A|s) - delta) / P(A|s')), both probabilities by
    Clopper-Pearson at alpha/2.

    Use it for a sampler whose density is unknown. Without an `event`, half of the draws choose one
    and the other half judges it, so that the level alpha holds. The candidates are thresholds,
    in both directions, on columns, their sum, sums and differences of pairs, distances from s, s'
    and the medians, products of two or three signs around these; NaN or infinity in a column; four
    bits of a column, anywhere between the noise and the last bits of float64.

    Clopper-Pearson's limits hold for independent rows. Draws that are alike under different keys,
    or whose rows depend on each other (repeated, antithetic), prove nothing and are refused,
    whatever the event. One column's rows are compared at every lag; a dependence in random order is
    not seen, and makes the level too small. Each call must draw fresh noise from its key, or from
    the operating system.

    A bound is about the pair (s, s') and the events listed; it proves a claim wrong, never right.
    No black box shows a loss at other pairs, in events of probability below 10 / num_draws, or of
    many columns at once; noise that its maker can recompute, or s in bits under a cipher, which
    look random without the key; or a sampler that behaves while it is tested. Left out on purpose
    are the last bits of float64, by which every floating-point sampler separates s from s' (Mironov
    2012). To see them, pass

        event=lambda y: np.any(y * 2.0**53 != np.round(y * 2.0**53), axis=1)

    Args:
        key: JAX PRNG key.
        sampler: A mechanism, or any function of a key and statistics (n, k) that returns draws
            (n, k').
        s: One statistic, shape (k,).
        s_prime: A neighbour of it, shape (k,).
        event: A function of draws (n, k') that returns n booleans; None to search for one.
        num_draws: The number of draws given each statistic, at least 100.
        alpha: The probability that the bound is wrong.
        delta: The delta of the (epsilon, delta) claim; 0 for a pure one.

    Raises:
        InvalidInputError: If the sampler's draws are alike under different keys, depend on each
            other, or have the wrong shape.

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
    s, s_prime = _pair(s, s_prime)
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


def _pair(s: Any, s_prime: Any) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (s, s_prime))
    if first.shape != second.shape or first.ndim != 1:
        raise InvalidInputError(
            f"s and s_prime must have one shape (k,), got {first.shape} and {second.shape}."
        )
    return first, second


def _draws(draw: Sampler, key: Array, s: np.ndarray, size: int) -> np.ndarray:
    # A copy: a sampler may return the same array every time.
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
            "The sampler must make new draws for every key; under two keys its rows are alike"
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
            f" (p-value {smallest:.2g}), as repeated or antithetic rows do, so that counting them"
            " gives no probability. Draw every row independently; sampler_against_density tests"
            " the noise of a mechanism further."
        )


def _judge(
    event: Event, text: str, first: np.ndarray, second: np.ndarray, alpha: float, delta: float
) -> EpsilonLowerBound:
    hits, size = (_hits(event, first), _hits(event, second)), len(first)
    bound = float(_bound(*hits, size, alpha, delta))
    return EpsilonLowerBound(bound, text, hits, size, alpha, delta)


def _hits(event: Event, draws: np.ndarray) -> int:
    answers = np.asarray(event(draws))
    if answers.dtype != bool or answers.shape != (len(draws),):
        raise InvalidInputError(
            f"event must return one boolean per draw, shape ({len(draws)},); got {answers.dtype} of"
            f" shape {answers.shape}."
        )
    return int(answers.sum())


def _bound(hits: Any, other_hits: Any, n: int, alpha: float, delta: float) -> np.ndarray:
    """The log of the ratio of Clopper-Pearson limits, at least 0."""
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
