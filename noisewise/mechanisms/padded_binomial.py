"""Binomial resampling of counts with padded probabilities: private infection curves."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, integer, number
from noisewise._core.neighbours import REPLACE_ONE
from noisewise.errors import InvalidInputError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.calibration import pure_epsilon
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.supports import LATTICE_TOLERANCE, AbstractSupport, Lattice

_LOG_NEGLIGIBLE = -75.0  # e^-75 = 3e-33, negligible against 2^-53 = 1e-16, the smallest uniform
_LARGEST_SHARE = 700.0  # epsilon per person and time (nats): e^share overflows float64 above 709


class PaddedBinomial(AbstractMechanism):
    r"""s_dp,l ~ Binomial(n, (I_l + m) / (K + 2m)) at L times, for counts I_l in 0..K of a
    population of K people.

    One person changes each of the L counts by at most one. Counts in, counts 0..n out: a sample of
    n people with replacement, after m positive and m negative made-up cases were added.

    Guarantee: epsilon = n L log(1 + 1/m). Proof: for I' = I + 1 the ratio of the two probabilities
    of a count y is ((I+m)/(I+1+m))^y ((K-I+m)/(K-I-1+m))^(n-y). The first factor is at most 1, the
    second at most (1 + 1/m)^n because I + 1 <= K. For I' = I - 1 the factors swap roles, and over L
    independent times logarithms add. Tight: I = 1, I' = 0, y = n. Proposition 4 of the paper states
    the larger n L / m, here `paper_epsilon`.

    `log_prob_bound` is the supremum over attainable probabilities, reached at p = y/n where that is
    one of them. A statistic outside [0, K] is refused; under a transformation its log_prob is -inf
    and its transport NaN.

    Attributes:
        trials: n, the number of people sampled at each time.
        padding: m, the number of made-up cases of each kind, any positive number.
        population: K, the number of people.
        num_times: L, the number of times, and the width of s and s_dp.

    >>> import noisewise as nw
    >>> mechanism = nw.mechanisms.PaddedBinomial(
    ...     trials=1000, padding=1000, population=1_000_000, num_times=10
    ... )
    >>> round(mechanism.guarantee.epsilon, 6), mechanism.paper_epsilon
    (9.995003, 10.0)
    >>> small = nw.mechanisms.PaddedBinomial(trials=5, padding=1.0, population=10, num_times=2)
    >>> small.transport([0.5, 0.5], [0, 8]).tolist()
    [0.0, 4.0]
    """

    norm: ClassVar[float] = math.inf

    trials: int = eqx.field(static=True, converter=integer("trials", at_least=1))
    padding: float = eqx.field(converter=number("padding", above=0.0))
    population: int = eqx.field(converter=integer("population", at_least=1))
    num_times: int = eqx.field(static=True, converter=integer("num_times", at_least=1))

    @classmethod
    def calibrate(
        cls, *, trials: int, population: int, num_times: int, guarantee: AbstractGuarantee
    ) -> PaddedBinomial:
        """The smallest padding with the given guarantee: m = 1 / (exp(epsilon / (n L)) - 1).

        Args:
            trials: n, the number of people sampled at each time.
            population: K, the number of people.
            num_times: L, the number of times.
            guarantee: A PureDP, for all L times together.

        Raises:
            InvalidInputError: If the guarantee is of another kind or for other neighbours, or
                epsilon is out of range.
        """
        epsilon = pure_epsilon(guarantee, "PaddedBinomial")
        if not REPLACE_ONE.agrees_with(guarantee.neighbours):
            raise InvalidInputError(
                "PaddedBinomial serves a population of a public size, of which one person is"
                f" replaced: its guarantee is for ReplaceOne(), not {guarantee.neighbours!r}."
            )
        trials = integer("trials", at_least=1)(trials)
        share = epsilon / (trials * integer("num_times", at_least=1)(num_times))
        if share > _LARGEST_SHARE:
            raise InvalidInputError(
                "epsilon / (trials * num_times) above 700 leaves no padding: ask for a smaller"
                " epsilon."
            )
        return cls(
            trials=trials,
            padding=1.0 / math.expm1(share),
            population=population,
            num_times=num_times,
        )

    @property
    def guarantee(self) -> PureDP:
        return PureDP(self.trials * self.num_times * math.log1p(1.0 / self.padding))

    @property
    def paper_epsilon(self) -> float:
        """The looser n L / m of the paper's proposition 4, for reproducing published budgets."""
        return self.trials * self.num_times / self.padding

    @property
    def sensitivity(self) -> float:
        """One person changes every count by at most one."""
        return 1.0

    @property
    def largest_statistic(self) -> float:
        return float(self.population)

    def describe(self) -> str:
        return (
            f"counts among {self.trials:,} people sampled at each of {self.num_times} times from a"
            f" population of {self.population:,}, to which {self.padding:,.4g} positive and as many"
            " negative made-up cases are added"
        )

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        return s_dp / self.trials * (self.population + 2.0 * self.padding) - self.padding

    def remedy(self, needed: float) -> str:
        return "It serves counts that one person changes by at most 1."

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        draw = noise.padded_binomial(
            trials=self.trials, padding=self.padding, population=self.population
        )
        return lambda counts: [float(count) for count in draw(counts)]

    @property
    def support(self) -> AbstractSupport:
        return Lattice(step=1.0, low=0.0, high=float(self.trials))

    @property
    def width(self) -> int:
        return self.num_times

    @property
    def distance_unit(self) -> float:
        """n: counts out of n are compared as proportions."""
        return float(self.trials)

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Nobody against one person infected at all times, and everyone against all but one."""
        s = np.stack([np.zeros(k), np.full(k, float(self.population))])
        return s, s + np.array([[1.0], [-1.0]])

    def _transport(self, u: Array, s: Array) -> Array:
        log_p, log_q, possible = self._log_odds(s)
        count = _quantile(u, self.trials, log_p, log_q)
        return jnp.where(possible, count, jnp.nan)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        log_p, log_q, possible = self._log_odds(s)
        return jnp.where(possible, _log_mass(s_dp.round(), self.trials, log_p, log_q), -jnp.inf)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        log_p, log_q, possible = self._log_odds(s)
        count = jnp.floor(s_dp + LATTICE_TOLERANCE)
        return jnp.where(possible, _log_cdf(count, self.trials, log_p, log_q), jnp.nan)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        log_p, log_q, possible = self._log_odds(s)
        failures = self.trials - jnp.ceil(s_dp - LATTICE_TOLERANCE)
        return jnp.where(possible, _log_cdf(failures, self.trials, log_q, log_p), jnp.nan)

    @property
    def reach(self) -> float:
        return float(self.population)

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        """Its peak: it is smooth."""
        return self._likeliest(s_dp, xp)[..., None]

    @property
    def input_bounds(self) -> tuple[Any, Any]:
        return 0.0, self.population * 1.0

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return self._log_prob_each(s_dp, self._likeliest(s_dp, jnp))

    def _likeliest(self, s_dp: Array, xp: Any) -> Array:
        total = self.population + 2.0 * self.padding
        return xp.clip(s_dp / self.trials * total - self.padding, 0.0, self.population)

    def _log_odds(self, s: Array) -> tuple[Array, Array, Array]:
        """The logs of p and 1-p, and where s is a possible count; elsewhere p is that of s = 0."""
        possible = (s >= 0.0) & (s <= self.population)
        infected = jnp.where(possible, s, 0.0)
        total = self.population + 2.0 * self.padding
        p = (infected + self.padding) / total
        q = (self.population - infected + self.padding) / total
        log_p = jnp.where(p < q, jnp.log(p), jnp.log1p(-q))
        log_q = jnp.where(p < q, jnp.log1p(-p), jnp.log(q))
        return log_p, log_q, possible

    def _check_statistic(self, s: np.ndarray) -> None:
        if np.any((s < 0) | (s > self.population)):
            raise InvalidInputError(
                f"PaddedBinomial needs counts between 0 and population={self.population}; at least"
                " one entry of s is outside. Proportions must be multiplied by the population"
                " first."
            )


@functools.lru_cache(maxsize=16)
def _log_binomials(n: int) -> np.ndarray:
    """The log of n choose 0..n, summed in extended precision."""
    factors = np.arange(n, 0, -1, dtype=np.longdouble) / np.arange(1, n + 1, dtype=np.longdouble)
    return np.concatenate([[0.0], np.cumsum(np.log(factors))]).astype(np.float64)


def _window(n: int) -> int:
    """An upper bound of the number of counts on one side of the mean whose probability is more than
    negligible (Hoeffding).
    """
    return min(n + 1, math.ceil(math.sqrt(0.5 * n * (math.log(n + 1.0) - _LOG_NEGLIGIBLE))) + 2)


def _log_mass(count: Array, n: int, log_p: Array, log_q: Array) -> Array:
    """The log of the binomial probability; -inf off 0..n."""
    inside = (count >= 0.0) & (count <= n)
    count = jnp.where(inside, count, 0.0)
    value = jnp.asarray(_log_binomials(n))[count.astype(int)] + count * log_p + (n - count) * log_q
    return jnp.where(inside, value, -jnp.inf)


def _log_cdf(count: Array, n: int, log_p: Array, log_q: Array) -> Array:
    """The log of P(X <= count), from the tail without the mean, summed away from the mean by ratios
    of terms.
    """
    lower = count <= n * jnp.exp(log_p)
    start = jnp.where(lower, count, n - 1.0 - count)
    log_p, log_q = jnp.where(lower, log_p, log_q), jnp.where(lower, log_q, log_p)
    inside = (start >= 0.0) & (start <= n)
    safe = jnp.where(inside, start, 0.0)

    def add(i: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        term, total = state
        j = jnp.maximum(safe - i, 0.0)
        term = term * jnp.exp(log_q - log_p) * j / (n - j + 1.0)
        return term, total + term

    ones = jnp.ones_like(log_p)
    total = jax.lax.fori_loop(0, _window(n), add, (ones, ones))[1]
    tail = jnp.where(
        inside,
        _log_mass(safe, n, log_p, log_q) + jnp.log(total),
        jnp.where(start < 0.0, -jnp.inf, 0.0),
    )
    return jnp.where(lower, tail, jnp.log1p(-jnp.exp(jnp.where(lower, -1.0, tail))))


def _quantile(u: Array, n: int, log_p: Array, log_q: Array) -> Array:
    """The smallest count with P(X <= count) >= u.

    The tail that holds u is summed inwards from its first count of more than negligible
    probability; the result is the number of steps until the sum reaches u. Where several uniforms
    share a probability, both of its tails are summed once for all of them.
    """
    lower = u <= 0.5
    level = jnp.minimum(u, 1.0 - u)
    shape = jnp.broadcast_shapes(u.shape, log_p.shape)
    if shape == log_p.shape:
        sides = [(jnp.where(lower, log_p, log_q), jnp.where(lower, log_q, log_p))]
    else:
        sides = [(log_p, log_q), (log_q, log_p)]
    starts = [_first_count(n, *side) for side in sides]

    def climb(
        i: int, state: tuple[list[Array], list[Array], Array]
    ) -> tuple[list[Array], list[Array], Array]:
        masses, totals, steps = state
        totals = [total + mass for total, mass in zip(totals, masses, strict=True)]
        counts = [start + i for start in starts]
        masses = [
            mass * jnp.maximum(n - count, 0.0) / (count + 1.0) * jnp.exp(side[0] - side[1])
            for mass, count, side in zip(masses, counts, sides, strict=True)
        ]
        reached = jnp.where(lower, totals[0] >= level, totals[-1] > level)
        return masses, totals, steps + jnp.where(reached, 0.0, 1.0)

    masses = [
        jnp.exp(_log_mass(start, n, *side)) for start, side in zip(starts, sides, strict=True)
    ]
    state = (masses, [jnp.zeros_like(mass) for mass in masses], jnp.zeros(shape))
    steps = jax.lax.fori_loop(0, _window(n), climb, state)[-1]
    return jnp.clip(jnp.where(lower, starts[0] + steps, n - starts[-1] - steps), 0.0, n)


def _first_count(n: int, log_p: Array, log_q: Array) -> Array:
    """The smallest count of more than negligible probability: bisection between 0 and the mode."""
    threshold = _LOG_NEGLIGIBLE - math.log(n + 1.0)

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = jnp.floor((low + high) / 2.0)
        likely = _log_mass(middle, n, log_p, log_q) > threshold
        return jnp.where(likely, low, middle + 1.0), jnp.where(likely, middle, high)

    mode = jnp.clip(jnp.floor((n + 1.0) * jnp.exp(log_p)), 0.0, n)
    return jax.lax.fori_loop(0, n.bit_length() + 1, halve, (jnp.zeros_like(mode), mode))[1]
