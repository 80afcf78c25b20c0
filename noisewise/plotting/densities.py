"""Smooth densities of draws, for curves and contours."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter1d
from scipy.stats import gaussian_kde

from noisewise._core.draws import constant_columns

_TAIL = 0.0005
"""Share of draws beyond each end of a grid, so that one outlier does not stretch it."""

_SURFACE_WIDTH = 1.25
"""Width of the kernel in two dimensions, in units of Scott's rule: contours of a few thousand draws
would be ragged at 1.
"""

_MIN_CELLS, _MAX_CELLS = 64, 4096
"""Cells of a curve: no visible corners, and bounded work for draws with far outliers."""

_KERNEL_DRAWS = 2000
"""Draws of a kernel in two dimensions, at most, whose cost is draws times grid points."""

_GRID = 80
"""Points of a surface along each side: about one per pixel of a small panel."""

_LINE_CORRELATION = 1.0 - 1e-6
"""Correlation above which two columns lie on a line and have no density in the plane."""

_SEEN = (0.002, 0.998)
"""Quantiles that a panel shows at least."""

_MARGIN = 0.06
"""Empty margin on each side of a panel, as a share of what it shows."""


def is_constant(values: Float[np.ndarray, " n"]) -> bool:
    """Whether draws (n,) do not spread, up to rounding."""
    return bool(constant_columns(values[:, None])[0])


def density_curve(
    values: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]]:
    """A kernel density of draws, with a normal kernel of width h = 1.06 min(sd, IQR / 1.34)
    n^(-1/5).

    Where more than a share .015 + 15 / n of the draws lies within h of an end of their range, the
    end is treated as a bound of the support and the kernel is reflected there: nothing leaks out.
    Elsewhere the curve continues for 4 h.

    Args:
        values: Draws of one quantity, shape (n,), not all equal.

    Returns:
        Points, and the density there.

    Example:
        >>> x, y = density_curve(np.random.default_rng(0).exponential(size=4000))
        >>> bool(x[0] >= 0.0), bool(abs(y[0] - 1.0) < 0.15)
        (True, True)
        >>> bool(abs(np.trapezoid(y, x) - 1.0) < 0.01)
        True
    """
    low, high = np.quantile(values, [_TAIL, 1.0 - _TAIL])
    quartiles = np.quantile(values, [0.25, 0.75])
    spread = min(float(values.std()), float(np.ptp(quartiles)) / 1.34) or float(values.std())
    width = 1.06 * spread * len(values) ** -0.2
    many = 0.015 + 15.0 / len(values)
    low -= 0.0 if np.mean(values < low + width) > many else 4.0 * width
    high += 0.0 if np.mean(values > high - width) > many else 4.0 * width
    cells = int(np.clip(np.ceil(4.0 * (high - low) / width), _MIN_CELLS, _MAX_CELLS))
    heights, edges = np.histogram(values, bins=cells, range=(low, high), density=True)
    smooth = gaussian_filter1d(heights, width / (edges[1] - edges[0]), mode="reflect")
    centres = (edges[1:] + edges[:-1]) / 2.0
    return np.concatenate([[low], centres, [high]]), np.pad(smooth, 1, mode="edge")


def density_surface(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], masses: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]] | None:
    """A kernel density of two quantities, for contours.

    Args:
        x: Draws of the first, shape (n,).
        y: Draws of the second, shape (n,).
        masses: Shares of draws that contours enclose.

    Returns:
        Points along both axes, the density on their grid, and the heights of the contours, rising;
        None where draws lie on a line.
    """
    if is_constant(x) or is_constant(y) or abs(np.corrcoef(x, y)[0, 1]) > _LINE_CORRELATION:
        return None
    rows = np.linspace(0, len(x) - 1, min(len(x), _KERNEL_DRAWS)).astype(int)
    points = np.stack([x[rows], y[rows]])
    kernel = gaussian_kde(points, bw_method=lambda rule: _SURFACE_WIDTH * rule.scotts_factor())
    margins = 3.0 * np.sqrt(np.diag(kernel.covariance))
    lows, highs = np.quantile(points, [_TAIL, 1.0 - _TAIL], axis=1)
    axes = [
        np.linspace(low - margin, high + margin, _GRID)
        for low, high, margin in zip(lows, highs, margins, strict=True)
    ]
    heights = kernel(np.stack(np.meshgrid(*axes)).reshape(2, -1)).reshape(_GRID, _GRID)
    ordered = np.sort(heights.ravel())[::-1]
    covered = np.cumsum(ordered) / ordered.sum()
    levels = sorted({float(ordered[np.searchsorted(covered, mass)]) for mass in masses})
    return axes[0], axes[1], heights, levels


def view(samples: list[np.ndarray], marks: list[float]) -> tuple[float, float]:
    """Limits of an axis that show nearly all draws of each set, and all marks.

    Args:
        samples: Sets of draws, each of shape (n,).
        marks: Values that must be seen, such as the truth.

    Returns:
        The lower and the upper limit.
    """
    ends = np.concatenate([*(np.quantile(values, _SEEN) for values in samples), marks])
    low, high = float(ends.min()), float(ends.max())
    margin = _MARGIN * (high - low) or 0.5 * max(abs(low), 1.0)
    return low - margin, high + margin
