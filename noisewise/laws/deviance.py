r"""Laws of counts in the form of deviances, which keeps its digits at any size.

    Poisson:   log f(s) = -stirling(s) - D(s, rate) - log(2 pi s) / 2
               D(s, m) = s log(s/m) + m - s

The textbook form, s log(rate) - rate - log s!, takes the difference of terms of 2e10 where counts
are 1e9. Here the deviance D is computed by itself, and stirling(s) is what Stirling's formula for
s! leaves: 1/(12 s) - ... Between whole numbers the laws are continued by the gamma function.

Ratios of neighbouring probabilities need neither, nor exponentials (`AbstractRatios`):

    f(s + 1) / f(s) = common * each(s)

    Poisson                  rate            1 / (s + 1)
    binomial                 p / (1 - p)     (n - s) / (s + 1)
    negative binomial        1 / (1 + rate)  (r + s) / (s + 1)

Reference: C. Loader (2000), Fast and accurate computation of binomial probabilities.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Float

from noisewise._core.arrays import Array

_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Coefficients of 1/n, 1/n^3, ... of Stirling's series."""
_LARGE = 12.0
"""From here on the series is right to 1e-15."""
_SHIFT = 12
"""Below, the series is taken of n + 12, and the product of the numbers between is divided out."""
_SMALL_RATIO = 0.15
"""|v| below which the deviance is summed as a series in v^2: nine terms leave 1e-16."""
_LOG_2PI = math.log(2.0 * math.pi)
_TINY = 1e-300
"""The smallest rate or probability that is divided by: that of float64 is 2e-308."""

Parameters = tuple[Array, ...]
"""Parameters of a law, each of the shape of its cells, or of shape ()."""


def stirling(n: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """log n! - log(sqrt(2 pi n) (n/e)^n), for n > 0.

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     (1e6 * stirling(jnp.array([1.0, 1e6]))).round(3).tolist()
    [81061.467, 0.083]
    """
    small = jnp.clip(n, 1e-300, _LARGE)
    log_factorial, series = _log_factorial(n, small)
    direct = log_factorial - (small + 0.5) * jnp.log(small) + small
    return jnp.where(n >= _LARGE, series, direct)


def _log_factorial(n: Array, small: Array) -> tuple[Array, Array]:
    """log n! - log(2 pi) / 2 and the series of Stirling's formula, `small` being n below 12."""
    is_large = n >= _LARGE
    shifted = jnp.where(is_large, n, n + _SHIFT)
    inverse = 1.0 / shifted
    series = jnp.zeros_like(shifted)
    for coefficient in reversed(_SERIES):
        series = series * inverse**2 + coefficient
    series = series * inverse
    product = jnp.ones_like(small)
    for k in range(1, _SHIFT + 1):
        product = product * (small + k)
    value = (shifted + 0.5) * jnp.log(shifted) - shifted + series
    return jnp.where(is_large, value, value - jnp.log(product)), series


def deviance(x: Array, excess: Array) -> Array:
    """D(x, m) = x log(x/m) + m - x for m = x + excess, x > 0; the excess comes without loss."""
    ratio = excess / x
    v = ratio / (2.0 + ratio)
    near = jnp.abs(v) < _SMALL_RATIO
    u = jnp.where(near, v, 0.0)
    series = jnp.zeros_like(u)
    for k in range(9, 0, -1):
        series = series * u**2 + 1.0 / (2 * k + 1)
    by_series = jnp.where(near, ratio, 0.0) * u - 2.0 * u**3 * series
    far = jnp.where(near, 1.0, jnp.maximum(ratio, -1.0 + 1e-300))
    return x * jnp.where(near, by_series, far - jnp.log1p(far))


@jax.custom_jvp
def log_poisson(rate: Array, s: Array) -> Array:
    """log of the Poisson probability of s >= 0. Its derivative in the rate is s/rate - 1; s is
    taken for a constant.
    """
    positive = jnp.maximum(s, 1e-300)
    body = -stirling(positive) - deviance(positive, rate - positive)
    return jnp.where(s > 0.0, body - 0.5 * (_LOG_2PI + jnp.log(positive)), -rate)


def log_poisson_of_small(rate: Array, s: Array) -> Array:
    """The same in the textbook form, four times as fast: right to 1e-15 s log(s)."""
    log_factorial, _ = _log_factorial(s, jnp.minimum(s, _LARGE))
    safe = jnp.maximum(rate, 1e-300)
    return s * jnp.log(safe) - rate - log_factorial - 0.5 * _LOG_2PI


@log_poisson.defjvp
def _log_poisson_jvp(primals: Any, tangents: Any) -> Any:
    rate, s = primals
    return log_poisson(rate, s), (_ratio(s, rate) - 1.0) * tangents[0]


@jax.custom_jvp
def log_binomial(n: Array, p: Array, q: Array, s: Array) -> Array:
    """log of the binomial probability of 0 <= s <= n, with q = 1 - p. Its derivatives in p and q
    are s/p and (n - s)/q; n and s are taken for constants.
    """
    inner = (s > 0.0) & (s < n)
    x, total = jnp.where(inner, s, 1.0), jnp.where(inner, n, 2.0)
    rest = total - x
    body = stirling(total) - stirling(x) - stirling(rest)
    excess = jnp.where(q < p, rest - total * q, total * p - x)
    body = body - deviance(x, excess) - deviance(rest, -excess)
    body = body - 0.5 * (_LOG_2PI + jnp.log(x) + jnp.log(rest / total))
    at_end = jnp.where(s <= 0.0, n * _safe_log1m(q, p), n * _safe_log1m(p, q))
    return jnp.where(inner, body, at_end)


@log_binomial.defjvp
def _log_binomial_jvp(primals: Any, tangents: Any) -> Any:
    n, p, q, s = primals
    slope = _ratio(s, p) * tangents[1] + _ratio(n - s, q) * tangents[2]
    return log_binomial(n, p, q, s), slope


def _ratio(count: Array, probability: Array) -> Array:
    """count / probability, 0 where both are."""
    return jnp.where(count > 0.0, count / jnp.maximum(probability, 1e-300), 0.0)


def _safe_log1m(probability: Array, other: Array) -> Array:
    """log(probability), by its complement where that is smaller."""
    small = jnp.minimum(other, 0.5)
    return jnp.where(other < 0.5, jnp.log1p(-small), jnp.log(jnp.maximum(probability, 1e-300)))


def log_negative_binomial(shape: Array, rate: Array, s: Array) -> Array:
    """log of the probability of s >= 0 where s is Poisson with a gamma rate of this shape and
    rate.
    """
    inner = s > 0.0
    x = jnp.where(inner, s, 1.0)
    total = shape + x
    excess = (x * rate - shape) / (1.0 + rate)
    body = stirling(total) - stirling(shape) - stirling(x)
    body = body - deviance(shape, excess) - deviance(x, -excess)
    body = body - 0.5 * (_LOG_2PI + jnp.log(shape) + jnp.log(x / total))
    return jnp.where(inner, body + jnp.log(shape / total), -shape * jnp.log1p(1.0 / rate))


def log_beta_binomial(a: Array, b: Array, n: Array, s: Array) -> Array:
    """log of the probability of 0 <= s <= n where s is binomial with a Beta(a, b) probability:
    right to 1e-16 n.
    """
    counts = _log_beta(s + 1.0, n - s + 1.0)
    return _log_beta(s + a, n - s + b) - _log_beta(a, b) - counts - jnp.log1p(n)


def _log_beta(x: Array, y: Array) -> Array:
    """log of the beta function, by Stirling's formula with all it leaves."""
    total = x + y
    body = stirling(x) + stirling(y) - stirling(total) + 0.5 * (_LOG_2PI + jnp.log(total / x / y))
    return body + x * jnp.log(x / total) + y * jnp.log(y / total)


def log_pmf(law: dist.Distribution, s: Array, *, small: bool = False) -> Array:
    """The log probability of s on the support of the law, continued between whole numbers.

    Args:
        law: A numpyro distribution of counts.
        s: Numbers of the lattice or between them, shape (..., *batch).
        small: Whether no number is above 1e4, so that textbook forms keep eleven digits.

    Returns:
        Shape (..., *batch).
    """
    if isinstance(law, dist.Poisson):
        return log_poisson_of_small(law.rate, s) if small else log_poisson(law.rate, s)
    if isinstance(law, dist.GammaPoisson):
        return log_negative_binomial(law.concentration, law.rate, s)
    if isinstance(law, dist.BinomialProbs):
        return log_binomial(law.total_count * 1.0, law.probs, 1.0 - law.probs, s)
    if isinstance(law, dist.BinomialLogits):
        p = 1.0 / (1.0 + jnp.exp(-law.logits))
        return log_binomial(law.total_count * 1.0, p, 1.0 / (1.0 + jnp.exp(law.logits)), s)
    if isinstance(law, dist.BetaBinomial):
        n = law.total_count * 1.0
        return log_beta_binomial(law.concentration1, law.concentration0, n, s)
    if isinstance(law, dist.ExpandedDistribution):
        return log_pmf(law.base_dist, s, small=small)
    if isinstance(law, (dist.CategoricalProbs, dist.CategoricalLogits)):
        logits = jax.nn.log_softmax(law.logits, axis=-1)
        chosen = s[..., None] == jnp.arange(logits.shape[-1], dtype=s.dtype)
        return jnp.where(chosen, logits, 0.0).sum(-1)
    values: Array = law.log_prob(s)
    return values


# Ratios -------------------------------------------------------------------------------------------


class AbstractRatios(abc.ABC):
    """A kind of law; it holds no numbers."""

    @abc.abstractmethod
    def parameters(self, law: Any, shape: tuple[int, ...]) -> Parameters:
        """The parameters of a law, of the shape of its cells."""

    @abc.abstractmethod
    def law(self, parameters: Parameters) -> dist.Distribution:
        """The law of these parameters."""

    @abc.abstractmethod
    def common(self, parameters: Parameters) -> Array:
        """What all ratios of a cell have in common."""

    @abc.abstractmethod
    def each(self, parameters: Parameters, s: Array) -> Array:
        """What they have besides, times s + 1."""

    @abc.abstractmethod
    def of_common(self, parameters: Parameters) -> Parameters:
        """The derivative of log common in each parameter."""

    def of_each(self, parameters: Parameters, s: Array) -> Array | None:
        """The derivative of each(s) in the first parameter, the only one on which it may depend;
        None where it does not.
        """
        return None

    def most(self, parameters: Parameters) -> Array:
        """The largest count that is possible."""
        return jnp.asarray(jnp.inf)


class Poisson(AbstractRatios):
    """Parameters: (rate,)."""

    def parameters(self, law: Any, shape: tuple[int, ...]) -> Parameters:
        return (_filled(law.rate, shape),)

    def law(self, parameters: Parameters) -> dist.Distribution:
        return dist.Poisson(parameters[0], validate_args=False)

    def common(self, parameters: Parameters) -> Array:
        return parameters[0]

    def each(self, parameters: Parameters, s: Array) -> Array:
        return jnp.ones(())

    def of_common(self, parameters: Parameters) -> Parameters:
        return (1.0 / jnp.maximum(parameters[0], _TINY),)


class NegativeBinomial(AbstractRatios):
    """Parameters: (r, rate)."""

    def parameters(self, law: Any, shape: tuple[int, ...]) -> Parameters:
        return _filled(law.concentration, shape), _filled(law.rate, shape)

    def law(self, parameters: Parameters) -> dist.Distribution:
        return dist.GammaPoisson(*parameters, validate_args=False)

    def common(self, parameters: Parameters) -> Array:
        return 1.0 / (1.0 + parameters[1])

    def each(self, parameters: Parameters, s: Array) -> Array:
        return parameters[0] + s

    def of_common(self, parameters: Parameters) -> Parameters:
        return jnp.zeros_like(parameters[0]), -self.common(parameters)

    def of_each(self, parameters: Parameters, s: Array) -> Array:
        return jnp.ones(())


class Binomial(AbstractRatios):
    """Parameters: (n, p) or (n, logit), of which n is a constant."""

    def __init__(self, *, of_logits: bool) -> None:
        self.of_logits = of_logits

    def parameters(self, law: Any, shape: tuple[int, ...]) -> Parameters:
        chance = law.logits if self.of_logits else law.probs
        return _filled(law.total_count, shape), _filled(chance, shape)

    def law(self, parameters: Parameters) -> dist.Distribution:
        n, chance = parameters
        kind = dist.BinomialLogits if self.of_logits else dist.BinomialProbs
        return kind(chance, n, validate_args=False)

    def common(self, parameters: Parameters) -> Array:
        chance = parameters[1]
        return jnp.exp(chance) if self.of_logits else chance / jnp.maximum(1.0 - chance, _TINY)

    def each(self, parameters: Parameters, s: Array) -> Array:
        return jnp.maximum(parameters[0] - s, 0.0)

    def of_common(self, parameters: Parameters) -> Parameters:
        n, chance = parameters
        if self.of_logits:
            return jnp.zeros_like(n), jnp.ones_like(chance)
        return jnp.zeros_like(n), 1.0 / jnp.maximum(chance * (1.0 - chance), _TINY)

    def most(self, parameters: Parameters) -> Array:
        return parameters[0]


_BY_TYPE = {
    dist.Poisson: Poisson(),
    dist.GammaPoisson: NegativeBinomial(),
    dist.BinomialProbs: Binomial(of_logits=False),
    dist.BinomialLogits: Binomial(of_logits=True),
}


def ratios_of(law: Any) -> AbstractRatios | None:
    """The kind of a law, None where it has no such ratios: the same object for the same kind.

    Args:
        law: A numpyro distribution, not expanded; its parameters are not read.

    >>> type(ratios_of(dist.Poisson(1.0))).__name__
    'Poisson'
    """
    return next((kind for type_, kind in _BY_TYPE.items() if isinstance(law, type_)), None)


def _filled(value: Any, shape: tuple[int, ...]) -> Array:
    return jnp.broadcast_to(jnp.asarray(value, dtype=jnp.float64), shape)
