"""Calibration: ranks of true parameters, and how often intervals hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from noisewise._arrays import number
from noisewise.diagnostics import Calibration
from noisewise.diagnostics.uniformity import ecdf_band
from noisewise.errors import InvalidInputError
from noisewise.metrics._samples import one_sample
from noisewise.plotting.style import SHADE, label, looks, one_axes, styled
from noisewise.plotting.tables import column_names


@styled
def rank_ecdf(ranks: Any, *, names: Sequence[str] | None = None, alpha: float = 0.05, ax: Axes | None = None) -> Axes:
    r"""F_N(u) - u of the ranks u of true parameters: 0 for correct posteriors, up to chance; returns the axes.

    `ranks` is what `nw.diagnostics.calibrate` gives, or ranks scaled to (0, 1), (N, m) with `names`. All m curves stay inside the grey
    band, at all points, with probability 1 - alpha at least. A curve like an S says that posteriors are too narrow (first above 0) or
    too wide, one like an arch that they are too high (above 0) or too low.

    Reference: Sailynoja, Burkner and Vehtari (2022).

    >>> u = np.random.default_rng(0).random((300, 2))
    >>> ax = rank_ecdf(u, names=["mu", "b"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['95% band', '$\\mu$', '$b$']
    """
    uniforms, shown = _uniforms(ranks, names)
    ax = _curves(uniforms, shown, alpha, one_axes(ax, (3.4, 2.5)), difference=True)
    ax.set_xlabel("rank of the truth, as a share $u$")
    ax.set_ylabel("ECDF$(u) - u$")
    return ax


@styled
def coverage_curve(
    ranks: Any, *, names: Sequence[str] | None = None, alpha: float = 0.05, ax: Axes | None = None
) -> Axes:
    """How often central intervals hold the truth, against their level: the diagonal for correct posteriors; returns the axes.

    The interval of level c holds the truth where |2u - 1| <= c, u being its rank. `ranks`, `names` and the band are as in `rank_ecdf`;
    columns may as well be methods. Curves under the diagonal belong to posteriors that are too sure.

    >>> u = np.random.default_rng(0).random(300)
    >>> ax = coverage_curve(np.stack([u, (u + 0.5) / 2.0], axis=1), names=["exact", "wide"])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('nominal coverage', 'actual coverage')
    """
    uniforms, shown = _uniforms(ranks, names)
    ax = _curves(np.abs(2.0 * uniforms - 1.0), shown, alpha, one_axes(ax, (3.0, 2.9)), difference=False)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="black", linewidth=0.7, zorder=1)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    ax.set_xlabel("nominal coverage")
    ax.set_ylabel("actual coverage")
    return ax


def _uniforms(ranks: Any, names: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    if isinstance(ranks, Calibration):
        return ranks.uniforms, ranks.names
    uniforms = one_sample(ranks, "ranks")
    if uniforms.min() < 0.0 or uniforms.max() > 1.0:
        raise InvalidInputError(
            f"ranks must lie between 0 and 1, got values from {uniforms.min():g} to {uniforms.max():g}: divide by the number of draws "
            "+ 1, or pass what nw.diagnostics.calibrate gives."
        )
    return uniforms, column_names(names, uniforms.shape[1], "ranks")


def _curves(u: np.ndarray, shown: tuple[str, ...], alpha: float, ax: Axes, *, difference: bool) -> Axes:
    """ECDFs of the columns of u over the band that uniforms stay in."""
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    points, low, high = ecdf_band(len(u), alpha / len(shown))
    x, low, high = (np.concatenate([[0.0], line, [1.0]]) for line in (points, low, high))
    base = x if difference else np.zeros_like(x)
    ax.fill_between(x, low - base, high - base, color=SHADE, linewidth=0.0, label=f"{100 * (1 - alpha):g}% band")
    if difference:
        ax.axhline(0.0, color="black", linewidth=0.7, zorder=1)
    for column, (name, look) in zip(np.sort(u, axis=0).T, looks(shown).items(), strict=True):
        y = np.searchsorted(column, x, side="right") / len(column)
        ax.plot(x, y - base, color=look["color"], linestyle=look["linestyle"], label=label(name))
    ax.set_xlim(0.0, 1.0)
    ax.legend()
    return ax
