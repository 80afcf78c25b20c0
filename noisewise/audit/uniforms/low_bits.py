r"""Bits far below the noise: a smooth density leaves them uniform, so a message in them shows.

The bits of a draw y in the window of unit w = 2^e are floor(y / w) mod 16. Where w is much smaller
than the noise they are uniform on 0, ..., 15 up to the density's variation over 16 w, and different
windows are independent:

    sum over windows of chi^2_15  ~  chi^2_(15 windows)

Float64 spoils its own last bits: y = fl(s + Z) is a multiple of the spacing of Z, which may be
coarser than that of y, and which multiples occur depends on s. That is the attack of Mironov
(2012). It works on every floating-point sampler, and it is not what this test looks for: a window
counts only rows for which w is at least 8 times the spacing of floats at y and at y - s.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2

CELLS = 16
"""Cells of a window: 4 bits."""

_BELOW_NOISE = 2.0**-12
"""The upper end of the first window, in units of the noise: over 16 units of the window even a
density with a jump varies by less than 1e-4.
"""

_DIGITS = 52
"""Bits of float64 below the leading one."""

ROUNDING = 8.0
"""Units in the last place that are ignored as rounding: the last bit of good normal generators is
even in 54% of draws.
"""

_MIN_ROWS = 1000
"""Rows with bits in a window for it to be tested: chi^2 needs some 60 in each cell."""


def windows(scale: float) -> Float[np.ndarray, " windows"]:
    """The unit w of each 4-bit window tested for noise of this scale: powers of 2, largest first.

    >>> np.log2(windows(1.0))
    array([-16., -20., -24., -28., -32., -36., -40., -44., -48., -52.])
    """
    top = math.floor(math.log2(scale))
    first = top + round(math.log2(_BELOW_NOISE))
    return 2.0 ** np.arange(first - 4, top - _DIGITS - 1, -4)


def cell(values: Float[np.ndarray, " n"], unit: float) -> Float[np.ndarray, " n"]:
    """The four bits of each value in the window of this unit, as whole floats.

    >>> cell(np.array([0.0, 1.5, 17.0]), unit=1.0).tolist()
    [0.0, 1.0, 1.0]
    """
    whole = np.floor(values / unit)
    return whole - CELLS * np.floor(whole / CELLS)


def low_order_bits(values: Float[np.ndarray, " n"], center: float, scale: float) -> float | None:
    """The p-value of "below the noise, the bits of draws are uniform".

    Args:
        values: Draws. Repeated values count once, since `repetition` tests for these.
        center: The number to which the noise was added.
        scale: The width of the noise.

    Returns:
        The p-value; None if float64 leaves too few bits for a test.
    """
    values = np.unique(values)
    spacing = ROUNDING * np.spacing(np.maximum(np.abs(values), np.abs(values - center)))
    statistic, used = 0.0, 0
    for unit in windows(scale):
        bits = cell(values[spacing <= unit], unit)
        if bits.size < _MIN_ROWS:
            continue
        counts = np.bincount(bits.astype(int), minlength=CELLS)
        statistic += float(np.sum((counts - bits.size / CELLS) ** 2) * CELLS / bits.size)
        used += 1
    return float(chi2.sf(statistic, (CELLS - 1) * used)) if used else None
