"""Sums over the confidential number, term by term: what routes are compared with.

The log of a law at one number is taken from its definition in decimals of 50 digits (log-gamma by
Stirling's series), and at all others by ratios of neighbours in long double, whose logs are summed:
each has an error of 1e-19, so that windows of 1e7 numbers are right to 1e-12 at worst, and to 1e-15
where errors average. Windows reach down to e^-60 of the largest term on a dense grid. Nothing is
shared with the package: no deviances, no rules, no search by derivatives.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import scipy.special

decimal.getcontext().prec = 50
LONG = np.longdouble
NATS = 60.0
MOST = 40_000_000
FEW = 1_000_000


def bernoulli_numbers(count):
    """B_0, B_1, ..., as fractions."""
    found = []
    for m in range(count):
        rest = sum(Fraction(math.comb(m + 1, k)) * found[k] for k in range(m))
        found.append(Fraction(1) if m == 0 else -rest / (m + 1))
    return found


_STIRLING = [
    Decimal(b.numerator) / Decimal(b.denominator) / (2 * k * (2 * k - 1))
    for k, b in enumerate(bernoulli_numbers(50)[2::2], start=1)
]
_PI = Decimal("3.14159265358979323846264338327950288419716939937511")


def log_gamma(x):
    """log Gamma of a positive decimal, to 45 digits."""
    x, shift = Decimal(x), Decimal(0)
    while x < 60:
        shift += x.ln()
        x += 1
    series = sum(c / x ** (2 * k - 1) for k, c in enumerate(_STIRLING, start=1))
    return (x - Decimal("0.5")) * x.ln() - x + (2 * _PI).ln() / 2 + series - shift


@dataclasses.dataclass(frozen=True)
class Law:
    """`at(s)` is the log probability of one number as a decimal, `log_ratios(s)` those of s + 1
    over s.
    """

    at: Callable
    log_ratios: Callable
    mean: float
    low: float = 0.0
    high: float = math.inf

    def logs(self, first, last):
        """Log probabilities of first, ..., last."""
        s = np.arange(first, last + 1, dtype=LONG)
        middle = int(np.clip(round(self.mean), first, last)) - first
        ratios = self.log_ratios(s[:-1]) if s.size > 1 else np.zeros(0, LONG)
        found = np.zeros(s.size, LONG)
        found[middle + 1 :] = np.cumsum(ratios[middle:])
        found[:middle] = -np.cumsum(ratios[:middle][::-1])[::-1]
        return s, found + LONG(str(self.at(int(s[middle]))))


def poisson(rate):
    rate = float(rate)
    r, log_r = Decimal(rate), Decimal(rate).ln()
    return Law(
        at=lambda s: s * log_r - r - log_gamma(s + 1),
        log_ratios=lambda s: np.log(LONG(rate) / (s + 1)),
        mean=rate,
    )


def binomial(n, p):
    return _binomial(int(n), Decimal(float(p)))


def binomial_of_logits(n, logits):
    return _binomial(int(n), 1 / (1 + (-Decimal(float(logits))).exp()))


def _binomial(n, p):
    odds = LONG(str(p)) / LONG(str(1 - p))
    return Law(
        at=lambda s: (
            log_gamma(n + 1)
            - log_gamma(s + 1)
            - log_gamma(n - s + 1)
            + s * p.ln()
            + (n - s) * (1 - p).ln()
        ),
        log_ratios=lambda s: np.log((n - s) / (s + 1) * odds),
        mean=n * float(p),
        high=n,
    )


def negative_binomial(shape, rate):
    """A Poisson law with a gamma rate of this shape and rate."""
    shape, rate = float(shape), float(rate)
    r, b = Decimal(shape), Decimal(rate)
    constant = r * (b / (1 + b)).ln() - log_gamma(r)
    return Law(
        at=lambda s: log_gamma(r + s) - log_gamma(s + 1) + constant - s * (1 + b).ln(),
        log_ratios=lambda s: np.log((s + LONG(shape)) / (s + 1) / (1 + LONG(rate))),
        mean=shape / rate,
    )


def negative_binomial_of_mean(mean, shape):
    return negative_binomial_exactly(Decimal(float(mean)), float(shape))


def negative_binomial_exactly(mean, shape):
    """With rate = shape / mean in decimals."""
    r, b = Decimal(shape), Decimal(shape) / mean
    constant = r * (b / (1 + b)).ln() - log_gamma(r)
    return Law(
        at=lambda s: log_gamma(r + s) - log_gamma(s + 1) + constant - s * (1 + b).ln(),
        log_ratios=lambda s: np.log((s + LONG(shape)) / (s + 1) / (1 + LONG(str(b)))),
        mean=float(mean),
    )


def geometric(p):
    """Failures before the first success of this probability."""
    p = Decimal(float(p))
    log_q = (1 - p).ln()
    return Law(
        at=lambda s: p.ln() + s * log_q,
        log_ratios=lambda s: np.full(s.size, LONG(str(log_q))),
        mean=float((1 - p) / p),
    )


def beta_binomial(a, b, n):
    a, b, n = Decimal(float(a)), Decimal(float(b)), int(n)
    wide_a, wide_b = LONG(str(a)), LONG(str(b))
    constant = log_gamma(n + 1) - log_gamma(n + a + b) + log_gamma(a + b)
    constant -= log_gamma(a) + log_gamma(b)
    return Law(
        at=lambda s: (
            constant
            + log_gamma(s + a)
            + log_gamma(n - s + b)
            - log_gamma(s + 1)
            - log_gamma(n - s + 1)
        ),
        log_ratios=lambda s: np.log((n - s) / (s + 1) * (s + wide_a) / (n - s - 1 + wide_b)),
        mean=n * float(a / (a + b)),
        high=n,
    )


def uniform(low, high):
    return Law(
        at=lambda s: -Decimal(int(high - low) + 1).ln(),
        log_ratios=lambda s: np.zeros(s.size, LONG),
        mean=0.5 * (low + high),
        low=low,
        high=high,
    )


def categories(probabilities):
    probabilities = np.asarray(probabilities, dtype=LONG)
    logs = np.log(probabilities / probabilities.sum())
    return Law(
        at=lambda s: Decimal(repr(float(logs[s]))),
        log_ratios=lambda s: np.diff(logs)[s.astype(int)],
        mean=0.0,
        high=probabilities.size - 1,
    )


# Noise: log eta(y | s) for long double s -----------------------------------------------------------


def gaussian(scale):
    scale = LONG(scale)
    constant = np.log(scale) + np.log(2 * LONG(str(_PI))) / 2
    return lambda y, s: -(((y - s) / scale) ** 2) / 2 - constant


def laplace(scale):
    scale = LONG(scale)
    return lambda y, s: -np.abs(y - s) / scale - np.log(2 * scale)


def discrete_laplace(scale):
    rate = 1 / LONG(scale)
    constant = np.log(-np.expm1(-rate)) - np.log1p(np.exp(-rate))
    return lambda y, s: -np.abs(y - s) * rate + constant


def discrete_gaussian(scale):
    constant = _log_normaliser(scale)
    return lambda y, s: -(((y - s) / LONG(scale)) ** 2) / 2 - constant


def _log_normaliser(scale):
    if scale > 50.0:  # the rest is exp(-2 pi^2 scale^2)
        return np.log(LONG(scale)) + np.log(2 * LONG(str(_PI))) / 2
    n = np.arange(-np.ceil(45 * scale), np.ceil(45 * scale) + 1, dtype=LONG)
    return np.log(np.exp(-((n / LONG(scale)) ** 2) / 2).sum())


def below(scale, kind):
    """log P(Y <= end | s) of noise on whole numbers, as a function of (end, s)."""
    if kind == "laplace":
        rate = 1 / LONG(scale)

        def laplace_at_most(end, s):
            n = end - s
            tail = np.exp(-rate * np.where(n < 0, -n, n + 1)) / (1 + np.exp(-rate))
            return np.where(n < 0, -rate * -n - np.log1p(np.exp(-rate)), np.log1p(-tail))

        return laplace_at_most

    def gaussian_at_most(end, s):
        n = end - s
        reach = np.ceil(12 * scale) + 20
        all_n = np.arange(min(n.min(), LONG(0)) - reach, n.max() + 1, dtype=LONG)
        masses = -((all_n / LONG(scale)) ** 2) / 2 - _log_normaliser(scale)
        found = np.logaddexp.accumulate(masses)
        return found[(n - all_n[0]).astype(int)]

    return gaussian_at_most


def absent(at_most, threshold):
    """The noisy number is below the threshold, a whole number."""
    return lambda y, s: at_most(LONG(threshold - 1), s)


def gaussian_at_most(scale):
    return lambda end, s: scipy.special.log_ndtr(((end - s) / scale).astype(float)).astype(LONG)


def exact():
    return lambda y, s: np.where(s == y, LONG(0), -np.inf)


def rounded(base, random):
    def log_eta(y, s):
        rest = np.mod(s, base)
        share = rest / base if random else (2 * rest >= base).astype(LONG)
        value = np.where(s - rest == y, 1 - share, np.where(s - rest + base == y, share, 0))
        with np.errstate(divide="ignore"):
            return np.log(value)

    return log_eta


def table(rows):
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(rows, dtype=LONG))
    return lambda y, s: logs[s.astype(int), int(y)]


def randomized_response(categories, truth):
    other = (1 - LONG(truth)) / (categories - 1)
    return lambda y, s: np.log(np.where(s == y, LONG(truth), other))


def padded_binomial(trials, padding, population):
    def log_eta(y, s):
        p = (s + LONG(padding)) / (population + 2 * LONG(padding))
        chosen = math.comb(trials, int(y))
        return np.log(LONG(chosen)) + y * np.log(p) + (trials - y) * np.log1p(-p)

    return log_eta


def unmeasured():
    return lambda y, s: np.zeros(s.size, LONG)


# Sums ---------------------------------------------------------------------------------------------


def log_sum(values):
    top = values.max()
    return top if np.isneginf(top) else top + np.log(np.exp(values - top).sum())


@dataclasses.dataclass(frozen=True)
class Sum:
    """log sum_s f(s) eta(y | s) over the numbers around `near` and the mean, widened until the ends
    are e^-60 of the largest term.
    """

    law: Law
    log_eta: Callable
    y: float
    near: float
    atom: float = 0.0
    """The probability of an extra zero."""

    def window(self):
        law = self.law
        if math.isfinite(law.high) and law.high - law.low < FEW:
            return int(law.low), int(law.high)
        low, high = sorted(
            int(np.clip(round(end), law.low, law.high)) for end in (self.near, law.mean)
        )
        tried = [low, high]
        while high - low > 2:
            third = (high - low) // 3
            if self._log(low + third) < self._log(high - third):
                low = low + third
            else:
                high = high - third
        middle = max([*tried, *range(low, high + 1)], key=self._log)
        first, last = (self._end(middle, sign) for sign in (-1, 1))
        return int(law.low) if last - law.low < FEW else first, last

    def _log(self, s):
        return float(self.law.at(s)) + float(self.log_eta(LONG(self.y), np.array([s], LONG))[0])

    def _end(self, middle, sign):
        reach, least = 64, self._log(middle) - NATS
        while True:
            there = int(np.clip(middle + sign * reach, self.law.low, self.law.high))
            if there in (self.law.low, self.law.high) or self._log(there) < least:
                return there
            reach = reach * 3 // 2
            if reach > MOST:
                raise ValueError("the sum has too many terms")

    def terms(self):
        """The numbers and the logs of their terms."""
        s, logs = self.law.logs(*self.window())
        return s, logs + self.log_eta(LONG(self.y), s)

    def log_prob(self):
        found = log_sum(self.terms()[1])
        if not self.atom:
            return found
        at_zero = self.log_eta(LONG(self.y), np.zeros(1, LONG))[0] + np.log(LONG(self.atom))
        return np.logaddexp(at_zero, found + np.log1p(-LONG(self.atom)))
