"""The numbers in conversions between guarantees, each rounded so that no loss is understated."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri

from noisewise.errors import ConversionError

SLACK = 1.0 + 1e-12
"""A factor that covers the rounding of conversions and is far below what matters to anyone."""
_MARGIN = 1e-12
"""Searches aim this much below the log of the delta asked for, more than the error with which
deltas are computed.
"""
_PRECISE = decimal.Context(prec=60)
"""Decimal digits: float64 has 17, of which up to 17 cancel twice."""
_UPWARDS = 1 + decimal.Decimal("1e-40")
"""A factor, above 1 by more than the rounding of all steps at 60 digits."""
_TINY, _HUGE = 1e-300, 1e300
"""Searches end here, well inside the range of float64."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
"""Gauss-Legendre points on [-1, 1], enough for erfcx' on an interval shorter than .71."""
_LARGEST_EPSILON = 700.0
"""e^epsilon overflows float64 above 709."""
_LARGEST_MU = 1e6
"""Above it delta is 1 in float64 for every epsilon below 1e11."""


def least_epsilon_of_pure(epsilon: float, delta: float) -> float:
    """The least float64 that is no less than log(e^epsilon - delta (1 + e^epsilon)), or 0 where
    that is negative: the epsilon' of (epsilon', delta)-DP that epsilon-DP implies.
    """
    if delta == 0.0:
        return epsilon
    with decimal.localcontext(_PRECISE):
        # arranged so that a large epsilon does not overflow; near 1 enough digits are left when
        # leading ones cancel
        kept = 1 - decimal.Decimal(delta) * (1 + (-decimal.Decimal(epsilon)).exp())
        exact = decimal.Decimal(epsilon) + kept.ln() if kept > 0 else decimal.Decimal(0)
        least = max(0.0, float(exact))
        return (
            least if decimal.Decimal(least) >= exact * _UPWARDS else math.nextafter(least, math.inf)
        )


def mu_of_pure(epsilon: float) -> float:
    """The smallest mu for which epsilon-DP implies mu-GDP, 2 Phi^-1(e^epsilon / (1+e^epsilon))."""
    if epsilon > _LARGEST_EPSILON:
        raise ConversionError(
            "PureDP does not imply any GaussianDP: above 700 e^epsilon overflows float64."
        )
    if epsilon < 1.0:  # the same in a form that keeps its digits near 0
        return 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(epsilon / 2.0))) * SLACK
    return -2.0 * float(ndtri(1.0 / (1.0 + math.exp(epsilon)))) * SLACK


def log_delta_of_concentrated(rho: float, epsilon: float) -> float:
    """The log of the smallest delta that rho-zCDP is known to imply at this epsilon.

    The minimum over alpha > 1 of (alpha-1)(alpha rho - epsilon) - log(alpha-1) + alpha
    log(1 - 1/alpha) (Canonne, Kamath and Steinke 2020, proposition 12). Any alpha gives a valid
    bound.
    """
    if rho == 0.0:
        return -math.inf

    def at(log_excess: float) -> float:
        excess = math.exp(log_excess)  # alpha - 1
        alpha = 1.0 + excess
        return (
            excess * (alpha * rho - epsilon) - math.log(excess) - alpha * math.log1p(1.0 / excess)
        )

    # near the best alpha, about (1 + epsilon / rho) / 2, and over the whole range
    centre = math.log(max(epsilon / rho, 1.0) / 2.0 + 0.5)
    ranges = ((centre - 3.0, centre + 3.0), (-30.0, max(30.0, centre + 3.0)))
    found = [
        minimize_scalar(at, bounds=ends, method="bounded", options={"xatol": 1e-12}).fun
        for ends in ranges
    ]
    return min(0.0, *map(float, found))


def log_delta_of_gaussian(mu: float, epsilon: float) -> float:
    r"""The log of Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), the exact delta of
    mu-GDP.

    With a = (epsilon/mu - mu/2)/sqrt 2 and b = a + mu/sqrt 2, delta = exp(-a^2) (erfcx(a) -
    erfcx(b)) / 2, and for small mu the difference is the integral of -erfcx'(t) = 2/sqrt(pi) - 2 t
    erfcx(t) over [a, b]: nothing cancels.
    """
    if mu == 0.0:
        return -math.inf
    if mu > _LARGEST_MU:
        raise ConversionError(
            f"GaussianDP({mu:g}) is too weak to express in float64: add more noise."
        )
    a = (epsilon / mu - mu / 2.0) / math.sqrt(2.0)
    if mu < 1.0:
        half = mu / math.sqrt(8.0)
        t = a + half + half * _NODES
        difference = float(half * _WEIGHTS @ (2.0 / math.sqrt(math.pi) - 2.0 * t * erfcx(t)))
    elif a > -5.0:
        difference = float(erfcx(a) - erfcx(a + mu / math.sqrt(2.0)))
    else:
        lower = -math.sqrt(2.0) * a - mu
        return math.log(
            float(ndtr(-math.sqrt(2.0) * a)) - math.exp(epsilon + float(log_ndtr(lower)))
        )
    return -a * a + math.log(difference / 2.0) if difference > 0.0 else -math.inf


def smallest_epsilon(log_delta_at: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon whose delta is at most the one given."""
    limit = math.log(delta) - _MARGIN
    if log_delta_at(0.0) <= limit:
        return 0.0
    return _edge(lambda epsilon: log_delta_at(epsilon) <= limit, up=True)


def largest_parameter(
    log_delta_of: Callable[[float, float], float], epsilon: float, delta: float, source: str
) -> float:
    """The largest rho or mu whose delta at `epsilon` is at most `delta`.

    Args:
        log_delta_of: The log of the delta of a parameter and an epsilon; it grows with the
            parameter.
        epsilon: Where the deltas are compared.
        delta: The limit.
        source: What gives the delta, for the message.

    Raises:
        ConversionError: If `delta` is 0, or no parameter in the range of float64 will do.

    >>> round(largest_parameter(log_delta_of_gaussian, 1.0, 1e-6, "Gaussian noise"), 6)
    0.236704
    """
    if delta == 0.0:
        raise ConversionError(
            f"No {source} gives delta = 0: state a positive delta, or use Laplace noise."
        )
    limit = math.log(delta) - _MARGIN
    return _edge(lambda parameter: log_delta_of(parameter, epsilon) <= limit, up=False)


def _edge(holds: Callable[[float], bool], *, up: bool) -> float:
    """Where a condition on positive numbers begins to hold going up (or down): the nearest float at
    which it does hold.
    """
    good = 1.0
    step = 2.0 if up else 0.5
    while not holds(good):
        good = _in_range(good * step)
    bad = good / step
    while holds(bad):
        good, bad = bad, _in_range(bad / step)
    while True:
        middle = math.sqrt(good) * math.sqrt(bad)
        if not min(good, bad) < middle < max(good, bad):
            return good
        good, bad = (middle, bad) if holds(middle) else (good, middle)


def _in_range(value: float) -> float:
    if not _TINY < value < _HUGE:
        raise ConversionError("The guarantee asked for lies beyond the range of float64.")
    return value
