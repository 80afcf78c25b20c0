"""Numbers as people read them."""

from __future__ import annotations

import math


def percent(share: float) -> str:
    """A share as a percentage with two digits, never in powers of ten.

    >>> [percent(share) for share in (1.0, 0.1234, 0.01234, 0.00012, 1e-7, 0.0)]
    ['100%', '12%', '1.2%', '0.012%', '< 0.001%', '0%']
    """
    value = 100.0 * share
    if 0.0 < value < 0.001:
        return "< 0.001%"
    digits = 0 if value >= 10.0 or value == 0.0 else 1 - math.floor(math.log10(value))
    return f"{value:.{digits}f}%"


def short(number: float) -> str:
    """Whole from 10 on, with one decimal below."""
    return f"{number:,.0f}" if number >= 10.0 else f"{number:.1f}"
