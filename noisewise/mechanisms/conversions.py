"""The numbers in conversions between guarantees, each on the side that never understates the loss."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable

from noisewise.errors import ConversionError

MARGIN = 1e-12
"""Searches aim this much below the log of the delta asked for, more than the error with which
deltas are computed.
"""
_PRECISE = decimal.Context(prec=60)
"""Digits: float64 has 17, of which up to 17 cancel twice."""
_UPWARDS = 1 + decimal.Decimal("1e-40")
"""More than the rounding of all steps at 60 digits."""
_TINY, _HUGE = 1e-300, 1e300
"""Searches end here, well inside the range of float64."""


def least_epsilon_of_pure(epsilon: float, delta: float) -> float:
    """The least float64 that is no less than log(e^epsilon - delta (1 + e^epsilon)), or 0 where
    that is negative.
    """
    if delta == 0.0:
        return epsilon
    with decimal.localcontext(_PRECISE):
        # arranged so that a large epsilon does not overflow; near 1 the digits that cancel are
        # there to spare
        kept = 1 - decimal.Decimal(delta) * (1 + (-decimal.Decimal(epsilon)).exp())
        exact = decimal.Decimal(epsilon) + kept.ln() if kept > 0 else decimal.Decimal(0)
        least = max(0.0, float(exact))
        return (
            least if decimal.Decimal(least) >= exact * _UPWARDS else math.nextafter(least, math.inf)
        )


def smallest_epsilon(log_delta_at: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon whose delta is at most the one given."""
    limit = math.log(delta) - MARGIN
    return (
        0.0
        if log_delta_at(0.0) <= limit
        else edge(lambda epsilon: log_delta_at(epsilon) <= limit, up=True)
    )


def edge(holds: Callable[[float], bool], *, up: bool) -> float:
    """Where a condition on positive numbers begins to hold going up (or down): the nearest float at
    which it does hold.
    """
    good = 1.0
    step = 2.0 if up else 0.5
    while not holds(good):
        good *= step
        if not _TINY < good < _HUGE:
            raise ConversionError("The guarantee asked for lies beyond the range of float64.")
    bad = good / step
    while holds(bad):
        good, bad = bad, bad / step
        if not _TINY < bad < _HUGE:
            raise ConversionError("The guarantee asked for lies beyond the range of float64.")
    while True:
        middle = math.sqrt(good) * math.sqrt(bad)
        if not min(good, bad) < middle < max(good, bad):
            return good
        good, bad = (middle, bad) if holds(middle) else (good, middle)
