"""Intervals of many parameters and methods, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from noisewise._core.arrays import number
from noisewise.errors import InvalidInputError
from noisewise.plotting.style import PRIOR, TRUTH, label, looks, one_axes, styled
from noisewise.plotting.tables import DrawsLike, Table, TruthLike, tables, truths

_INNER = 0.5
"""Mass of the thick interval: half of the draws, the usual choice next to 95%."""

_STEP = 0.22
"""Height between the intervals of two methods: markers of 4.5 points do not touch."""


@styled
def forest(
    draws: DrawsLike,
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    truth: TruthLike = None,
    level: float = 0.95,
    reference: float | None = None,
    scale: Literal["linear", "log"] = "linear",
    ax: Axes | None = None,
) -> Axes:
    r"""Medians with central 50% (thick) and `level` (thin) intervals, methods grouped by parameter.

    Use it for many parameters, or to compare several methods at a glance; `marginals` shows
    shapes. Quantities on very different scales belong on axes of their own: choose them by
    `columns`.

    Args:
        draws: A posterior, an array (n, p), or a dictionary from methods to these.
        names: Names of the columns of arrays.
        columns: What is shown, in this order; all by default.
        truth: Known values: an array, a dictionary from names to values, or a problem.
        level: Mass of the thin interval, above .5.
        reference: Where a dashed line stands: 0 for coefficients, 1 for ratios.
        scale: "log" for ratios, which are positive.
        ax: Axes to draw on; those of a new figure by default.

    Returns:
        The axes.

    Raises:
        InvalidInputError: If columns or names do not fit the draws, `level` is out of range, or a
            draw is not positive on a log scale.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> draws = {"exact": rng.normal(size=(500, 2)), "naive": rng.normal(size=(500, 2))}
        >>> ax = forest(draws, names=["mu", "b"], truth=[0.0, 0.0])
        >>> [text.get_text() for text in ax.get_yticklabels()], ax.get_xlabel()
        (['$\\mu$', '$b$'], 'median, 50% and 95% intervals')
    """
    level = number("level", above=_INNER, below=1.0)(level)
    made = tables(draws, names, columns)
    shown = next(iter(made.values())).names
    known = truths(truth, made)
    _check_scale(scale, made)
    half = _STEP * (len(made) - 1) / 2.0
    gap = 2.0 * half + 2.2 * _STEP
    centres = -gap * np.arange(len(shown))
    ax = one_axes(ax, (4.2, 0.7 + 0.75 * gap * len(shown)))
    for place, (method, look) in zip(
        np.linspace(half, -half, len(made)), looks(made).items(), strict=True
    ):
        draw_intervals(ax, made[method].values, centres + place, level, look, method)
    for name, centre in zip(shown, centres, strict=True):
        if name in known:
            ends = (centre - half - 0.6 * _STEP, centre + half + 0.6 * _STEP)
            text = "truth" if name == next(iter(known)) else ""
            ax.vlines(known[name], *ends, color=TRUTH, linewidth=1.0, label=text)
    if reference is not None:
        ax.axvline(reference, color=PRIOR, linewidth=0.8, linestyle="--", zorder=0)
    if scale == "log":
        _log_axis(ax)
    ax.set_yticks(centres, [label(name) for name in shown])
    ax.set_ylim(centres[-1] - gap / 2.0, centres[0] + gap / 2.0)
    ax.tick_params(axis="y", length=0.0)
    ax.set_xlabel(f"median, 50% and {100 * level:g}% intervals")
    if len(made) > 1 or known:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _check_scale(scale: str, made: dict[str, Table]) -> None:
    if scale not in ("linear", "log"):
        raise InvalidInputError(f"scale must be 'linear' or 'log', got {scale!r}.")
    if scale == "log" and any((table.values <= 0.0).any() for table in made.values()):
        raise InvalidInputError(
            "A log scale takes draws above 0, such as ratios: pass np.exp of coefficients."
        )


def _log_axis(ax: Axes) -> None:
    """A log axis whose ticks are read without powers of ten."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def draw_intervals(
    ax: Axes, values: np.ndarray, places: np.ndarray, level: float, look: dict[str, Any], name: str
) -> None:
    """Draw the median and two central intervals of each column.

    Args:
        ax: Axes to draw on.
        values: Draws, shape (n, p).
        places: Heights of the intervals, shape (p,).
        level: Mass of the thin interval.
        look: Colour and marker, as `looks` gives them.
        name: Label in the legend.
    """
    tails = [(1.0 - level) / 2.0, (1.0 - _INNER) / 2.0]
    low, inner_low, median, inner_high, high = np.quantile(
        values, [*tails, 0.5, *(1.0 - t for t in tails[::-1])], axis=0
    )
    ax.hlines(places, low, high, color=look["color"], linewidth=1.0)
    ax.hlines(places, inner_low, inner_high, color=look["color"], linewidth=3.0)
    point: dict[str, Any] = {"color": look["color"], "marker": look["marker"], "mec": "white"}
    ax.plot(median, places, linestyle="none", markersize=4.5, mew=0.6, label=name, **point)
