"""Smooth densities of draws, for curves and contours."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.stats import gaussian_kde

from noisewise._core.draws import constant_columns

_TAIL = 0.0005
_SMOOTHER = 1.25
_MOST_CELLS = 4096
_KERNEL_DRAWS = 2000
_GRID = 80


def is_constant(values: np.ndarray) -> bool:
    """Whether draws (N,) do not spread, up to rounding."""
    return bool(constant_columns(values[:, None])[0])


def density_curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Points and a kernel density of draws (N,), with a normal kernel of width h = 1.06 min(sd,
    IQR / 1.34) N^(-1/5).

    Where more than a share .015 + 15 / N of the draws lies within h of an end of their range, the
    end is taken for a bound of the support and the kernel is reflected there: nothing leaks out.
    Elsewhere the curve goes on for 4 h.

    >>> x, y = density_curve(np.random.default_rng(0).exponential(size=4000))
    >>> bool(x[0] >= 0.0), bool(abs(y[0] - 1.0) < 0.15), bool(abs(np.trapezoid(y, x) - 1.0) < 0.01)
    (True, True, True)
    """
    low, high = np.quantile(values, [_TAIL, 1.0 - _TAIL])
    quartiles = np.quantile(values, [0.25, 0.75])
    spread = min(float(values.std()), float(np.ptp(quartiles)) / 1.34) or float(values.std())
    width = 1.06 * spread * len(values) ** -0.2
    many = 0.015 + 15.0 / len(values)
    low -= 0.0 if np.mean(values < low + width) > many else 4.0 * width
    high += 0.0 if np.mean(values > high - width) > many else 4.0 * width
    cells = int(np.clip(np.ceil(4.0 * (high - low) / width), 64, _MOST_CELLS))
    heights, edges = np.histogram(values, bins=cells, range=(low, high), density=True)
    smooth = gaussian_filter1d(heights, width / (edges[1] - edges[0]), mode="reflect")
    centres = (edges[1:] + edges[:-1]) / 2.0
    return np.concatenate([[low], centres, [high]]), np.pad(smooth, 1, mode="edge")


def density_surface(
    x: np.ndarray, y: np.ndarray, masses: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]] | None:
    """A grid, the kernel density on it, and the heights that enclose `masses`, rising; None where
    draws lie on a line.
    """
    if is_constant(x) or is_constant(y) or abs(np.corrcoef(x, y)[0, 1]) > 1.0 - 1e-6:
        return None
    rows = np.linspace(0, len(x) - 1, min(len(x), _KERNEL_DRAWS)).astype(int)
    points = np.stack([x[rows], y[rows]])
    kernel = gaussian_kde(points, bw_method=lambda rule: _SMOOTHER * rule.scotts_factor())
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
    """Limits that show nearly all draws of each set, and the marks."""
    ends = np.concatenate([*(np.quantile(values, [0.002, 0.998]) for values in samples), marks])
    low, high = float(ends.min()), float(ends.max())
    margin = 0.06 * (high - low) or 0.5 * max(abs(low), 1.0)
    return low - margin, high + margin
