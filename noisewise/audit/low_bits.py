r"""Bits far below the noise: a smooth density leaves them uniform, so whatever is written there
shows.

The bits of a draw y in the window of unit w = 2^e are floor(y / w) mod 16. Where w is much smaller
than the noise they are uniform on 0, ..., 15 up to the density's variation over 16 w, and different
windows are independent:

    sum over windows of chi^2_15  ~  chi^2_(15 windows)

Float64 spoils its own last bits: y = fl(s + Z) is a multiple of the spacing of Z, which may be
coarser than that of y, and which multiples occur depends on s. That is the attack of Mironov
(2012), it works on every floating-point sampler, and it is not what this test looks for: a window
counts the rows alone for which w is at least 8 times the spacing of floats at y and at y - s.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

CELLS = 16
"""Cells of a window: 4 bits."""

_BELOW_NOISE = 2.0**-12
"""The first window ends here, in units of the noise: a density with a jump varies by less than 1e-4
over 16 units of it.
"""

_DIGITS = 52
"""Bits of float64 below the leading one."""

ROUNDING = 8.0
"""Units in the last place that are left to rounding: the last bit of good normal generators is even
in 54% of draws.
"""

_ROWS = 1000
"""A window is looked at if so many rows have bits there: chi^2 needs some 60 in each cell."""


def windows(scale: float) -> np.ndarray:
    """The units of the windows below noise of the given scale, powers of 2, the coarsest first.

    >>> np.log2(windows(1.0))
    array([-16., -20., -24., -28., -32., -36., -40., -44., -48., -52.])
    """
    top = math.floor(math.log2(scale))
    first = top + round(math.log2(_BELOW_NOISE))
    return 2.0 ** np.arange(first - 4, top - _DIGITS - 1, -4)


def cell(values: np.ndarray, unit: float) -> np.ndarray:
    """The four bits of each value in the window of this unit, as whole floats."""
    whole = np.floor(values / unit)
    return whole - CELLS * np.floor(whole / CELLS)


def low_order_bits(values: np.ndarray, center: float, scale: float) -> float | None:
    """The p-value of "below the noise, the bits of draws are uniform"; None if float64 leaves too
    few of them to tell.

    Values that occur twice count once, as repetition is another test's.
    """
    values = np.unique(values)
    spacing = ROUNDING * np.spacing(np.maximum(np.abs(values), np.abs(values - center)))
    statistic, used = 0.0, 0
    for unit in windows(scale):
        bits = cell(values[spacing <= unit], unit)
        if bits.size < _ROWS:
            continue
        counts = np.bincount(bits.astype(int), minlength=CELLS)
        statistic += float(np.sum((counts - bits.size / CELLS) ** 2) * CELLS / bits.size)
        used += 1
    return float(chi2.sf(statistic, (CELLS - 1) * used)) if used else None
