r"""Multinomial counts with a known total near what was released: tables made once, then products.

The sums of `multinomial` follow the law wherever it goes. Chains on a posterior stay where each
count is near its released number. There points, likelihoods and waves are the same for all
parameters, so that the law given n,

    log p(y) = const + log sum_{s_1 + ... + s_k = n} prod_j Poisson(s_j; n p_j) eta(y_j | s_j),

costs two products with tables per cell: those of phi_j(t) = E[e^(i t s_j)] and of its derivative,

    d log p(y) / d log p_j = E[s_j | y, S = n] - n p_j.

What lies beyond 30 sds of the noise is left out, which is nothing unless the law of a cell is far
from its number; `beyond` says how much that is.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from jaxtyping import Float

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array
from noisewise.laws.deviance import log_pmf
from noisewise.laws.gram import NUM_POINTS, rule
from noisewise.laws.known_totals.multinomial import total_of
from noisewise.mechanisms.base import AbstractMechanism

_WINDOW = 0.5
"""Of the reach of the noise, 60 sds: e^-42 of Laplace noise lies beyond 30 of them."""
_PERIOD_SDS = 5.0
"""Sds of the total on each side, besides the longest window, after which sums over frequencies
repeat: e^-42 lies beyond the window of a cell already.
"""
_SDS = 7.0
"""Sds of the noise between a released number and what is expected of its cell, at most: Laplace
noise is further off once in 20,000 times.
"""
_NEGLIGIBLE = 42.0
"""Nats below the largest term at which windows end."""
_QUIET, _PATIENCE = 34.0, 8
"""Nats below which products of characteristic functions are left out, 8 times in a row."""
_WAVES = 12.0
"""Radians that the 16 points of a panel follow to 1e-11."""
_MOST = 4e6
"""Numbers in the tables: 32 MB, read once for each gradient."""
_LOOKED_AT = 2_000
"""Points on each side from which it is found how many frequencies are needed."""
_FAR = 2.0
"""Sds of the total between its mean and n from which laws are tilted: e^-2 is not lost digits."""
_STEPS = 30
"""Newton steps at most; usually none or one is made."""
_LEAST_COUNT = 0.5
"""The law of which tables are made expects at least this in each cell."""


class NearTotal(eqx.Module):
    """Tables of k cells, P points each and M frequencies.

    Attributes:
        offsets: Points less the whole number at the centre of each cell, (k, P).
        log_terms: log Poisson(s; n g_j) + log eta(y_j | s) + log weight for shares g, (k, P).
        log_guess: log g, (k,).
        centres: The numbers at the centres, (k,).
        windows: The first and the last number of each cell, (2, k).
        waves: Cosines and sines of frequency times offset, (k, 2 M, P): points last, as products
            read them.
        phases: Frequency times what the centres leave of n, (M,).
        is_end: Points where windows end although the law goes on, (k, P).
        total: n.
        constant: What log p(y) has besides.
        period: Numbers after which the waves repeat.
    """

    offsets: Array
    log_terms: Array
    log_guess: Array
    centres: Array
    windows: Array
    waves: Array
    phases: Array
    is_end: Array
    total: Array
    constant: Array
    period: Array

    def log_prob(self, log_shares: Float[Array, " k"]) -> Float[Array, ""]:
        """log p(y) for cell probabilities exp(log_shares), which sum to 1."""
        return _log_prob(log_shares - self.log_guess, self)

    def beyond(self, log_shares: Float[Array, " k"]) -> Float[Array, ""]:
        """log of the largest term at an end of a window, over the sum of the cell."""
        change = log_shares - self.log_guess
        values = _tilted(change, self)[0]
        shares = values - logsumexp(values, axis=-1, keepdims=True)
        return jnp.where(self.is_end, shares, -jnp.inf).max()


def near_total(
    law: Any, mechanism: AbstractMechanism, values: Float[np.ndarray, " k"]
) -> NearTotal | None:
    """The tables of a multinomial law; None of another law, where they would be too large, or where
    the noise has plateaus or absent numbers.

    Args:
        law: The law of the counts; only its type and its total matter.
        mechanism: Its columns are the cells.
        values: What was released.
    """
    if not isinstance(law, (dist.MultinomialProbs, dist.MultinomialLogits)):
        return None
    total, values = total_of(law), np.asarray(values, dtype=float)
    kinks = np.asarray(mechanism._kinks(values, np), dtype=float)
    reach = mechanism.reach
    is_plain = kinks.shape[-1] == 1 and np.isfinite(values).all()
    if total < 1 or not is_plain or not 0.0 < reach < math.inf:
        return None
    centres = np.clip(np.rint(values), 0, total)
    count = np.maximum(centres, _LEAST_COUNT)
    guess = count / count.sum()
    spread = np.broadcast_to(np.array(mechanism.noise_sd(len(values)), dtype=float), values.shape)
    coarse = _coarse(centres, math.ceil(_WINDOW * reach) + 1, total)
    log = functools.partial(log_terms_at, mechanism, values)
    few, many = np.maximum(count - _SDS * spread, _LEAST_COUNT), count + _SDS * spread
    low, high = _ends(coarse, log(few, coarse))[0], _ends(coarse, log(many, coarse))[1]
    period = _period(coarse, log(count + spread, coarse), total)
    steps = _frequencies(coarse, log(count, coarse), period)
    if not len(steps):
        return None
    longest = float((high - low).max()) + 1.0
    panels = max(1, math.ceil(min(longest / NUM_POINTS, steps[-1] * longest / _WAVES)))
    points, weights = _points(low, high, np.ceil(kinks[:, 0]), panels)
    if points.size * 2 * len(steps) > _MOST:
        return None
    log_weights = np.where(weights > 0.0, np.log(np.maximum(weights, 1e-300)), -1e6)
    log_terms = log(total * guess, points) + log_weights
    offsets = points - centres[:, None]
    angles = steps[:, None] * offsets[:, None]
    used = weights > 0.0
    first = np.where(used, points, np.inf).min(axis=1, keepdims=True)
    last = np.where(used, points, -np.inf).max(axis=1, keepdims=True)
    is_first = (points == first) & (low[:, None] > 0)
    is_last = (points == last) & (high[:, None] < total)
    return NearTotal(
        offsets=offsets,
        log_terms=log_terms,
        log_guess=np.log(guess),
        centres=centres,
        windows=np.stack([low, high]),
        waves=np.concatenate([np.cos(angles), np.sin(angles)], axis=1),
        phases=steps * (total - centres.sum()),
        is_end=used & (is_first | is_last),
        total=np.float64(total),
        constant=np.float64(-_log_poisson(total)),
        period=np.float64(period),
    )


def log_shares_of(law: Any) -> Float[Array, " k"]:
    """Log probabilities of the cells of a multinomial law, which sum to 1; 1e-300 is the least."""
    if isinstance(law, dist.MultinomialLogits):
        return jnp.maximum(jax.nn.log_softmax(law.logits), math.log(1e-300))
    possible = law.probs > 1e-300
    logs = jnp.where(possible, jnp.log(jnp.where(possible, law.probs, 1.0)), math.log(1e-300))
    return logs - jnp.log(law.probs.sum(axis=-1, keepdims=True))


@jax.custom_jvp
def _log_prob(change: Array, near: NearTotal) -> Array:
    return _value_and_means(change, near)[0]


@_log_prob.defjvp
def _log_prob_jvp(primals: Any, tangents: Any) -> Any:
    change, near = primals
    value, means = _value_and_means(change, near)
    expected = near.total * jnp.exp(change + near.log_guess)
    return value, ((means - expected) * tangents[0]).sum()


def _tilted(change: Array, near: NearTotal) -> tuple[Array, Array]:
    """Logs of the terms, tilted so that the mean of the total is near n; and the tilt."""
    plain = near.log_terms + change[:, None] * near.offsets
    rest = near.total - near.centres.sum()

    def moments(tilt: Array) -> tuple[Array, Array]:
        shares = jax.nn.softmax(jax.lax.stop_gradient(plain) + tilt * near.offsets, axis=-1)
        mean = (shares * near.offsets).sum(axis=-1)
        variance = (shares * near.offsets**2).sum(axis=-1) - mean**2
        return mean.sum() - rest, variance.sum()

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, tilt, excess, variance, number = state
        low, high = jnp.where(excess < 0.0, tilt, low), jnp.where(excess > 0.0, tilt, high)
        newton = tilt - excess / jnp.maximum(variance, 1e-300)
        inside = (newton > low) & (newton < high)
        tilt = jnp.where(inside, newton, 0.5 * (low + high))
        return low, high, tilt, *moments(tilt), number + 1

    def goes_on(state: tuple[Array, ...]) -> Array:
        *_, excess, variance, number = state
        return (jnp.abs(excess) > _FAR * jnp.sqrt(variance)) & (number < _STEPS)

    start = jnp.zeros(())
    state = (start - 40.0, start + 40.0, start, *moments(start), jnp.zeros((), int))
    tilt = jax.lax.stop_gradient(jax.lax.while_loop(goes_on, step, state)[2])
    return plain + tilt * near.offsets, tilt


def _value_and_means(change: Array, near: NearTotal) -> tuple[Array, Array]:
    """log p(y), and the mean of each count given y and the total."""
    values, tilt = _tilted(change, near)
    log_each = logsumexp(values, axis=-1)
    shares = jnp.exp(values - log_each[:, None])
    both = jnp.stack([shares, shares * near.offsets], axis=1)
    found = jnp.einsum("jap,jmp->ajm", both, near.waves)
    (cos, cos_mean), (sin, sin_mean) = jnp.split(found, 2, axis=-1)
    square = jnp.maximum(cos**2 + sin**2, 1e-300)
    size, angle = 0.5 * jnp.log(square).sum(axis=0), jnp.arctan2(sin, cos).sum(axis=0) - near.phases
    real, imaginary = jnp.exp(size) * jnp.cos(angle), jnp.exp(size) * jnp.sin(angle)
    whole = 1.0 + 2.0 * real.sum()
    ratio = (cos_mean * cos + sin_mean * sin) / square
    ratio_imaginary = (sin_mean * cos - cos_mean * sin) / square
    mean = both[:, 1].sum(axis=-1)
    mean = mean + 2.0 * (ratio * real - ratio_imaginary * imaginary).sum(axis=-1)
    safe = jnp.maximum(whole, 1e-300)
    rest = near.total - near.centres.sum()
    value = jnp.log(safe) - jnp.log(near.period) + log_each.sum() - tilt * rest
    beside = (near.centres * change).sum()
    beside = beside - near.total * (jnp.exp(change + near.log_guess).sum() - 1.0)
    return value + beside + near.constant, near.centres + mean / safe


# Tables -------------------------------------------------------------------------------------------


def log_terms_at(
    mechanism: AbstractMechanism,
    values: np.ndarray,
    rate: np.ndarray,
    points: np.ndarray,
) -> Float[np.ndarray, "k P"]:
    """log Poisson(s; rate_j) + log eta(y_j | s) at points (k, P)."""
    with jax.enable_x64(True):
        return np.asarray(_compiled_terms(mechanism, jnp.asarray(values), rate, points))


@jit_fast_compile
def _compiled_terms(mechanism: AbstractMechanism, values: Array, rate: Array, s: Array) -> Array:
    """log Poisson(s; rate_j) + log eta(y_j | s)."""
    law, noise = dist.Poisson(rate[:, None], validate_args=False), mechanism._continued()
    likelihood = jax.vmap(lambda s: noise._log_prob_each(values, s), in_axes=1, out_axes=1)
    return log_pmf(law, s) + likelihood(s)


def _coarse(centres: np.ndarray, half: int, total: int) -> Float[np.ndarray, "k P"]:
    """Whole numbers within `half` of the centres, the last one repeated; some where all are too
    many.
    """
    step = max(1, half // _LOOKED_AT)
    low, high = np.maximum(centres - half, 0), np.minimum(centres + half, total)
    return np.minimum(low[:, None] + np.arange(0, 2 * half + step, step), high[:, None])


def _ends(points: np.ndarray, log_terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last point of each row that is not negligible, and one more."""
    kept = log_terms > log_terms.max(axis=1, keepdims=True) - _NEGLIGIBLE
    first = np.maximum(kept.argmax(axis=1) - 1, 0)
    last = kept.shape[1] - 1 - np.maximum(kept[:, ::-1].argmax(axis=1) - 1, 0)
    rows = np.arange(len(points))
    return points[rows, first], points[rows, last]


def _centred(points: np.ndarray, log_terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the points of each row, and the points less their mean."""
    is_new = np.diff(points, axis=1, prepend=-1.0) > 0.0
    shares = np.exp(log_terms - log_terms.max(axis=1, keepdims=True)) * is_new
    shares /= shares.sum(axis=1, keepdims=True)
    return shares, points - (shares * points).sum(axis=1, keepdims=True)


def _period(points: np.ndarray, log_terms: np.ndarray, total: int) -> float:
    """How many numbers the total may take."""
    first, last = _ends(points, log_terms)
    shares, x = _centred(points, log_terms)
    half = 0.5 * (last - first).max() + _PERIOD_SDS * math.sqrt((shares * x**2).sum())
    return 2.0 * math.ceil(min(half, float(total) * len(points))) + 1.0


def _frequencies(points: np.ndarray, log_terms: np.ndarray, period: float) -> np.ndarray:
    """The frequencies at which products are not negligible; none where there are too many."""
    shares, x = _centred(points, log_terms)
    most = int(min(period // 2, _MOST / (2.0 * len(points) * NUM_POINTS)))
    steps, quiet = 2.0 * math.pi / period * np.arange(1, most + 1), 0
    for m, t in enumerate(steps):
        parts = np.abs((shares * np.exp(1j * t * x)).sum(axis=1))
        quiet = quiet + 1 if np.log(np.maximum(parts, 1e-300)).sum() < -_QUIET else 0
        if quiet == _PATIENCE:
            return steps[: m + 1]
    return steps if most == period // 2 else steps[:0]


def _points(
    low: np.ndarray, high: np.ndarray, cut: np.ndarray, panels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of the sums from low to high, cut before `cut`, (k, P)."""
    rows, weights = [], []
    for first, last, middle in zip(low, high, cut, strict=True):
        ends = (first, min(max(middle, first), last + 1), last + 1)
        found = [
            (a + points, w)
            for begin, end in itertools.pairwise(ends)
            for a, length in _panels(begin, end, panels)
            for points, w in [rule(length)]
        ]
        rows.append(np.concatenate([p for p, _ in found]))
        weights.append(np.concatenate([w for _, w in found]))
    used = max(int((row > 0.0).sum()) for row in weights)
    order = [np.argsort(row <= 0.0, kind="stable")[:used] for row in weights]
    taken = lambda parts: np.stack([part[o] for part, o in zip(parts, order, strict=True)])  # noqa: E731
    return taken(rows), taken(weights)


def _panels(begin: float, end: float, panels: int) -> list[tuple[float, int]]:
    """Where panels start, and how many numbers each has."""
    ends = begin + np.floor((end - begin) * np.arange(panels + 1) / panels)
    return [(a, int(b - a)) for a, b in itertools.pairwise(ends)]


def _log_poisson(total: int) -> float:
    """log Poisson(n; n)."""
    with jax.enable_x64(True):
        law = dist.Poisson(jnp.float64(total), validate_args=False)
        return float(log_pmf(law, jnp.float64(total)))
